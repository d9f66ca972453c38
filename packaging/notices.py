#!/usr/bin/env python3
# SPDX-License-Identifier: MIT OR Apache-2.0
"""notices.py TRIPLE FILE: writes the licence texts of the crates that are linked.

Most licences demand that a binary comes with their text and the names of the authors; CDDL-1.0
also with the place of the source. The texts are the files of the crates themselves.
"""

import json
import os
import re
import subprocess
import sys

# Crates without a licence text, and the crate of the same repository that has it.
BORROWED = {"embedded-graphics-core": "embedded-graphics"}
# Licences of C libraries whose source is part of a crate.
BUNDLED = {
    "libbpf-sys": ("libbpf", "libbpf/LICENSE.BSD-2-Clause"),
    "zstd-sys": ("zstd", "zstd/LICENSE"),
}
LICENCE = re.compile(r"licen[cs]e|copying|copyright|notice|unlicense", re.IGNORECASE)
RULE = "=" * 80


def linked(metadata):
    """The packages that this one links, without itself, by name."""
    nodes = {node["id"]: node["deps"] for node in metadata["resolve"]["nodes"]}
    root = metadata["resolve"]["root"]
    seen, next_ = set(), [root]
    while next_:
        package = next_.pop()
        if package in seen:
            continue
        seen.add(package)
        for dependency in nodes[package]:
            # None: a normal dependency; else "build" or "dev"
            if any(kind["kind"] is None for kind in dependency["dep_kinds"]):
                next_.append(dependency["pkg"])
    found = [p for p in metadata["packages"] if p["id"] in seen - {root}]
    return sorted(found, key=lambda p: (p["name"], p["version"]))


def read(path):
    # an author's name may be in another encoding
    with open(path, encoding="utf-8", errors="replace") as file:
        return file.read().replace("\r", "").strip()


def metadata(triple):
    """What cargo says of the packages for a target."""
    root = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..")
    command = ["cargo", "metadata", "--locked", "--format-version", "1"]
    command += ["--filter-platform", triple]
    printed = subprocess.run(command, cwd=root, stdout=subprocess.PIPE, check=True).stdout
    return json.loads(printed)


def main(triple, target):
    crates, texts = [], {}
    packages = linked(metadata(triple))
    directories = {p["name"]: os.path.dirname(p["manifest_path"]) for p in packages}
    for package in packages:
        title = f"{package['name']} {package['version']}"
        crates.append(f"{title}\n    {package['license']}\n    {package['repository']}\n")
        directory = directories[BORROWED.get(package["name"], package["name"])]
        own = sorted(n for n in os.listdir(directory) if LICENCE.match(n))
        own = [n for n in own if os.path.isfile(os.path.join(directory, n))]
        if not own:
            sys.exit(f"notices: {title} comes without a licence text")
        for name in own:
            titles = texts.setdefault(read(os.path.join(directory, name)), [])
            if title not in titles:
                titles.append(title)
        if package["name"] in BUNDLED:
            library, name = BUNDLED[package["name"]]
            text = read(os.path.join(directory, name))
            texts.setdefault(text, []).append(f"{library}, in {title}")
    with open(target, "w", encoding="utf-8") as file:
        file.write(
            "nvme-deep contains these crates. Each name is followed by its licence and by the\n"
            "place of its source. The texts of the licences follow the list.\n\n" + "".join(crates)
        )
        for text, titles in sorted(texts.items(), key=lambda item: item[1]):
            file.write(f"\n{RULE}\n" + "\n".join(titles) + f"\n{RULE}\n\n{text}\n")


if __name__ == "__main__":
    if len(sys.argv) != 3:
        sys.exit("usage: notices.py TRIPLE FILE")
    main(*sys.argv[1:])
