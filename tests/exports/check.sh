#!/usr/bin/env bash
# check.sh TOOL [RECORDING...]: compares the exports of recordings (the tests' own) with
# what TOOL shows of them, by readers of other projects. They are installed by pip into
# target/exports-venv, once. Also checks contrib/daemonset.yaml against the schema of Kubernetes.
set -euo pipefail

here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
root=$(cd "$here/../.." && pwd)
venv=$root/target/exports-venv
tool=$1
shift
(($#)) || set -- "$root"/tests/recordings/*.nvd "$here"/*.nvd

if ! cmp -s "$here/requirements.txt" "$venv/installed"; then
    echo "check-exports: installing the readers of tests/exports/requirements.txt"
    rm -rf "$venv"
    python3 -m venv "$venv"
    if ! "$venv/bin/pip" install -q --disable-pip-version-check -r "$here/requirements.txt"; then
        echo "check-exports: pip could not install the readers: is there a network?" >&2
        exit 1
    fi
    cp "$here/requirements.txt" "$venv/installed"
fi
"$venv/bin/kubernetes-validate" --strict "$root/contrib/daemonset.yaml"
exec "$venv/bin/python" -B "$here/check.py" "$tool" "$@"
