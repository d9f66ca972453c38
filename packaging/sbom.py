#!/usr/bin/env python3
# SPDX-License-Identifier: MIT OR Apache-2.0
"""sbom.py TRIPLE VERSION BUILDINFO: prints a bill of materials (CycloneDX 1.5, JSON) of the static binary for a target.

It has the crates that are linked, from cargo's metadata, with their checksums of Cargo.lock; the C libraries
whose source is part of a crate; and the libraries of Debian, in the versions of
the file BUILDINFO. The same build gives
the same bytes: the date is SOURCE_DATE_EPOCH, and the serial number a digest of the rest.
"""

import datetime
import json
import os
import re
import sys
import uuid

from notices import BUNDLED
from notices import linked
from notices import metadata

ROOT = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..")
# BUILDINFO's name of a library of Debian, and its licence as it is used here (static.txt)
SYSTEM = {
    "elfutils (libelf)": "LGPL-3.0-or-later",
    "zlib": "Zlib",
    "glibc": "LGPL-2.1-or-later",
    "libgcc": "GPL-3.0-or-later WITH GCC-exception-3.1",
}
BUNDLED_LICENCES = {"libbpf": "LGPL-2.1-only OR BSD-2-Clause", "zstd": "BSD-3-Clause"}


def read(path):
    with open(os.path.join(ROOT, path), encoding="utf-8") as file:
        return file.read()


def checksums():
    """The checksums of Cargo.lock, by name and version."""
    entry = re.compile(r'name = "(.*)"\nversion = "(.*)"\nsource = ".*"\nchecksum = "(.*)"')
    return {(name, version): sum for name, version, sum in entry.findall(read("Cargo.lock"))}


def component(name, version, licence, purl):
    return {
        "type": "library",
        "bom-ref": purl,
        "name": name,
        "version": version,
        "licenses": [{"expression": licence.replace("/", " OR ")}],
        "purl": purl,
    }


def components(packages, buildinfo):
    sums, found = checksums(), []
    for package in packages:
        name, version = package["name"], package["version"]
        crate = component(name, version, package["license"], f"pkg:cargo/{name}@{version}")
        crate["hashes"] = [{"alg": "SHA-256", "content": sums[name, version]}]
        found.append(crate)
        if name in BUNDLED:
            library = BUNDLED[name][0]
            # libbpf-sys 1.7.0+v1.7.0 has libbpf 1.7.0; zstd-sys 2.0.16+zstd.1.5.7 has zstd 1.5.7
            inside = re.sub(r"^.*\+\D*", "", version)
            purl = f"pkg:generic/{library}@{inside}"
            found.append(component(library, inside, BUNDLED_LICENCES[library], purl))
    for line in buildinfo.splitlines():
        title, _, rest = line.partition(": ")
        if title in SYSTEM:
            source, version = rest.split()
            purl = f"pkg:deb/debian/{source}@{version}?arch=source"
            found.append(component(source, version, SYSTEM[title], purl))
    return found


def main(triple, version, buildinfo):
    seconds = int(os.environ["SOURCE_DATE_EPOCH"])
    time = datetime.datetime.fromtimestamp(seconds, datetime.timezone.utc)
    program = component("nvme-deep", version, "MIT OR Apache-2.0", f"pkg:cargo/nvme-deep@{version}")
    bill = {
        "bomFormat": "CycloneDX",
        "specVersion": "1.5",
        "version": 1,
        "metadata": {
            "timestamp": time.strftime("%Y-%m-%dT%H:%M:%SZ"),
            "component": program | {"type": "application"},
            "properties": [{"name": "target", "value": triple}],
        },
        "components": components(linked(metadata(triple)), read(buildinfo)),
    }
    number = uuid.uuid5(uuid.NAMESPACE_URL, json.dumps(bill, sort_keys=True))
    print(json.dumps(bill | {"serialNumber": f"urn:uuid:{number}"}, indent=1, sort_keys=True))


if len(sys.argv) != 4:
    sys.exit("usage: sbom.py TRIPLE VERSION BUILDINFO")
main(*sys.argv[1:])
