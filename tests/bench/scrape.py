#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0
"""scrape.py DIRECTORY: prints the table of scrape.sh: millions of instructions of each reading, above
those of the guest without a tool."""
import sys


def main():
    share = sys.argv[1]
    with open(f"{share}/log", encoding="utf-8") as lines:
        log = [line.rstrip("\n").split("\t") for line in lines]
    with open(f"{share}/counts", encoding="ascii") as lines:
        runs = [[int(n) for n in line.split()[1:]] for line in lines if line.startswith("run")]
    bare = [min(run[at] for (binary, _, _), run in zip(log, runs) if binary == "-") for at in (0, 1)]
    print(f"{'binary':24} {'tool':45} {'user':>8} {'kernel':>8} {'sum':>8}  (millions)")
    for (binary, tool, times), run in zip(log, runs):
        if binary == "-":
            continue
        user, kernel = ((n - none) / int(times) / 1e6 for n, none in zip(run, bare))
        print(f"{binary:24} {tool:45} {user:8.2f} {kernel:8.2f} {user + kernel:8.2f}")


main()
