#!/usr/bin/env bash
# The machine of the demo and of the pictures, to be sourced on the host. Needs $here. Sets ${controllers[@]}
# (QEMU arguments) and $share, which is removed at exit.

"$here/fetch.sh" 6.12
# shellcheck disable=SC1091
. "$here/nvme-args.sh"
mapfile -t controllers < <(
    nvme_null nvme0 4000000
    nvme_null nvme1 1000000
)

share=$(mktemp -d)
trap 'rm -rf "$share"' EXIT
