#!/usr/bin/env python3
"""lines.py LIMIT DIRECTORY...: prints the table of lines.sh from the directories of its guests.

For each tool: the stores per command to lines that another CPU wrote last, beyond what the load alone makes:
in all of the kernel; in BPF programs, naming those with most; to BPF maps, by programs and helpers, naming
the maps with most.
Fails if the programs of our modes have more than LIMIT, or were not measured. `-`: no limit.
"""
import bisect
import os
import re
import sys


def symbols_of(path):
    found = []
    with open(path, encoding="utf-8") as file:
        for line in file:
            words = line.split()
            module = words[3] if len(words) > 3 else ""
            found.append((int(words[0], 16), words[2] + (" " + module if module else "")))
    found.sort()
    return [address for address, _ in found], [name for _, name in found]


def runs_of(path):
    run = None
    with open(path, encoding="utf-8") as file:
        for line in file:
            words = line.split()
            if words[0] == "run":
                if run:
                    yield run
                run = (int(words[2]), [], [])
            elif words[0] == "line":
                run[2].append((int(words[1], 16), int(words[2])))
            else:
                run[1].append((int(words[0], 16), int(words[1])))
    if run:
        yield run


def by_symbol(blocks, path):
    addresses, names = symbols_of(path)
    sums = {}
    for address, shared in blocks:
        at = bisect.bisect_right(addresses, address) - 1
        name = names[at] if at >= 0 else "?"
        sums[name] = sums.get(name, 0) + shared
    return sums


def by_map(lines, path):
    """The stores to each map. A map may have several places, and maps may have the same name."""
    with open(path, encoding="utf-8") as file:
        places = sorted(
            (int(begin, 16), int(end, 16), name)
            for name, begin, end in (line.rsplit(" ", 2) for line in file)
        )
    begins = [begin for begin, _, _ in places]
    sums = {}
    for address, shared in lines:
        # the line in which a place begins is its own
        at = bisect.bisect_right(begins, address + 63) - 1
        if at >= 0 and address < places[at][1]:
            sums[places[at][2]] = sums.get(places[at][2], 0) + shared
    return sums


def most(sums):
    largest = sorted(sums.items(), key=lambda item: -item[1])[:3]
    return ", ".join(f"{name} {each:.2f}" for name, each in largest if each >= 0.01)


PEERS = ("biolatency", "bpftrace")


def table(directory):
    with open(os.path.join(directory, "log"), encoding="utf-8") as file:
        log = [line.rstrip("\n").split("\t") for line in file]
    cpus = directory.rsplit("-", 1)[1]
    bare = None
    worst = None
    for number, ((commands, tool), (shared, blocks, lines)) in enumerate(
        zip(log, runs_of(os.path.join(directory, "counts")))
    ):
        each = shared / int(commands)
        if tool == "-":
            bare = min(bare, each) if bare else each
        if tool in ("-", "warm"):
            continue
        sums = by_symbol(blocks, os.path.join(directory, f"symbols.{number}"))
        programs = {n: s / int(commands) for n, s in sums.items() if n.endswith("[bpf]")}
        if tool not in PEERS:
            worst = max(worst or 0, sum(programs.values()))
        maps = by_map(lines, os.path.join(directory, f"maps.{number}"))
        maps = {n: s / int(commands) for n, s in maps.items()}
        named = {}
        for n, s in programs.items():
            n = re.sub(r"^bpf_prog_[0-9a-f]+_|^bpf_prog_[0-9a-f]+$| .bpf.$", "", n) or "bpf"
            named[n] = named.get(n, 0) + s
        print(
            f"{cpus:>4}  {tool:32} {each - bare:8.2f} {sum(programs.values()):8.2f}"
            f" {sum(maps.values()):8.2f}  {'; '.join(filter(None, (most(named), most(maps))))}",
            flush=True,
        )
    print(f"{cpus:>4}  {'(the kernel alone)':32} {bare:8.2f}")
    return worst


def main():
    print(f"{'CPUs':>4}  {'tool':32} {'added':>8} {'programs':>8} {'maps':>8}  programs, and maps, with most")
    limit = sys.argv[1]
    for directory in sys.argv[2:]:
        worst = table(directory)
        if limit != "-" and (worst is None or worst > float(limit)):
            sys.exit(f"lines: {worst} stores per command to lines of other CPUs, the limit is {limit}")


main()
