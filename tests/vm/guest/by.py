# SPDX-License-Identifier: MIT OR Apache-2.0
"""Reads for by.sh: of a process that changes its name, and of many cgroups."""

import ctypes
import json
import mmap
import os
import sys
import time

BLOCK = 4096
PR_SET_NAME = 15


def opened(path):
    return os.open(path, os.O_RDONLY | os.O_DIRECT), mmap.mmap(-1, BLOCK)


def rename(device):
    """40 reads under two names; the second has what a terminal interprets."""
    disk, buffer = opened(device)
    libc = ctypes.CDLL(None)
    for name in (b"first", b"a\x1b[31m\nb\xff"):
        libc.prctl(PR_SET_NAME, name, 0, 0, 0)
        for _ in range(20):
            os.preadv(disk, [buffer], 0)
    # the tool looks at names each second
    time.sleep(2.5)
    print(os.getpid())


def many(device, top, least="600"):
    """At least so many small cgroups take all rows; ten large ones come later. Prints the reads of each."""
    disk, buffer = opened(device)
    truth = {}

    def read(name, count):
        path = f"{top}/{name}"
        if name not in truth:
            os.mkdir(path)
            truth[name] = 0
        with open(f"{path}/cgroup.procs", "w") as procs:
            procs.write(str(os.getpid()))
        for _ in range(count):
            os.preadv(disk, [buffer], 0)
        truth[name] += count

    small = 0
    end = time.monotonic() + 4
    while small < int(least) or (small < 1500 and time.monotonic() < end):
        read(f"small-{small}", 2)
        small += 1
    gone = small // 2
    for number in range(gone):
        os.rmdir(f"{top}/small-{number}")
    end = time.monotonic() + 12
    while time.monotonic() < end:
        for number in range(10):
            read(f"large-{number}", 20 + number)
        read(f"small-{small}", 1)
        small += 1
    print(json.dumps(truth))


if __name__ == "__main__":
    {"rename": rename, "many": many}[sys.argv[1]](*sys.argv[2:])
