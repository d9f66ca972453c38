#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0
"""report.py SHARE JSON KEY=VALUE...: makes tables from the files of a guest (see guest.sh) and the plugin.

The tables go to stdout as Markdown. All data and the pairs go to JSON. For each tool:

added       extra instructions per command: the median of the tool's runs minus the median of all runs
            without a tool
attributed  the part of these in kernel symbols that run (almost) only while the tool is attached: its
            programs, their trampolines, helpers, maps, stack walks, its reads. Random or additional
            work of the rest of the kernel is excluded. Compare tools by this number.
in path     the part of the attributed instructions on the CPU of the load, which delays a command. The
            tool itself runs on another CPU. Of a kernel function, the run with the fewest instructions,
            and only if it adds one per command: other work in the background only adds.
user        instructions in user space, per command that the tool saw
"""

import bisect
import collections
import json
import statistics
import sys
import time

LOADS = {
    "batched": "4 KiB reads, libaio, scheduler none, 32 in flight, 16 submitted at a time",
    "unbatched": "4 KiB reads, libaio, mq-deadline, 8 in flight, 1 submitted at a time",
}
# A run that takes longer had a command that timed out: QEMU's controller sometimes misses a
# doorbell, and the driver resets it. Such a run does not count.
STALLED_NS = 20e9
STALLED = "its disk stood still"
# A symbol with fewer instructions per command does not belong to the load without a tool.
RARE = 0.5
# Every BPF program runs between these. The load without a tool uses them too.
SHARED = ("__rcu_read_lock", "__rcu_read_unlock")
# The names of programs and of what calls them.
PROGRAMS = ("bpf_prog_", "bpf_trampoline_", "bpf_dispatcher_")
# The number of symbols of each tool in the JSON.
TOP = 25
# Fields of the log about the machine,
MACHINE = ("disks", "queues", "queue_depth", "cpus")
# and about each start of a tool.
NOTED = ("start_ms", "peak_rss_kib", "maps_kib", "seen", "lost", "issued")

# Counts per command. `symbols` and `in_path` (the CPU of the load) are by name of symbol.
Run = collections.namedtuple("Run", "load tool user kernel symbols in_path")


class Symbols:
    """The kernel's symbols. The symbols of a tool have those without a tool as their base."""

    def __init__(self, path, base=None):
        self.base = base
        found = []
        with open(path, encoding="ascii") as lines:
            for line in lines:
                address, kind, name = line.split()[:3]
                if kind in "tTwW":
                    found.append((int(address, 16), name))
        found.sort()
        self.addresses = [address for address, _ in found]
        self.names = [name for _, name in found]

    def before(self, address):
        """The last symbol at or before the address, with its address."""
        at = bisect.bisect_right(self.addresses, address) - 1
        found = (self.addresses[at], self.names[at]) if at >= 0 else (0, "?")
        return max(found, self.base.before(address)) if self.base else found


def read_counts(path):
    """The plugin's runs: instructions in user space, in the kernel, and in each block of the kernel."""
    runs = []
    with open(path, encoding="ascii") as lines:
        for line in lines:
            words = line.split()
            if words[0] == "run":
                runs.append((int(words[1]), int(words[2]), []))
            else:
                runs[-1][2].append((int(words[0], 16), int(words[1]), int(words[2])))
    return runs


def fold(blocks, symbols, counted):
    """Instructions per command, by symbol: on all CPUs, and on the CPU of the load."""
    everywhere, in_path = collections.Counter(), collections.Counter()
    for address, first, others in blocks:
        _, name = symbols.before(address)
        everywhere[name] += (first + others) / counted
        in_path[name] += first / counted
    return everywhere, in_path


def read_log(share, counted):
    """The machine, all runs, and the log of each start of a tool."""
    with open(f"{share}/log", encoding="utf-8") as lines:
        log = [line.rstrip("\n").split("\t") for line in lines]
    counts = read_counts(f"{share}/counts")
    # a guest that was stopped may not have logged its last run
    if len(counts) - sum(line[0] == "run" for line in log) not in (0, 1):
        sys.exit("report: the plugin did not count the runs that the guest made")
    bare = Symbols(f"{share}/symbols")
    machine, runs, starts, waiting = {}, [], [], []

    def take(symbols):
        for load, tool, ns, (user, kernel, blocks) in waiting:
            if ns > STALLED_NS:
                print(f"report: {load}: {tool}: a run of {ns / 1e9:.0f} s is left out")
                continue
            folded = fold(blocks, symbols, counted)
            runs.append(Run(load, tool, user / counted, kernel / counted, *folded))
        waiting.clear()

    counts = iter(counts)
    for kind, load, tool, *rest in log:
        if kind == "machine":
            machine = dict(zip(MACHINE, map(int, (load, tool, *rest))))
        elif kind == "run":
            waiting.append((load, tool, int(rest[1]), next(counts)))
            if tool in ("-", "warm"):
                take(bare)
        elif kind == "tool":
            values = [None if word == "-" else int(word) for word in rest[: len(NOTED)]]
            starts.append((load, tool, dict(zip(NOTED, values))))
            take(Symbols(f"{share}/{rest[len(NOTED)]}", bare))
        else:
            starts.append((load, tool, {"gone": rest[0]}))
    return machine, runs, starts


def spread(values):
    values = list(values)
    return {
        "median": round(statistics.median(values), 1),
        "min": round(min(values), 1),
        "max": round(max(values), 1),
        "runs": len(values),
    }


class Bare:
    """The cost of the load without a tool: the medians of these runs."""

    def __init__(self, runs):
        self.total = statistics.median(run.user + run.kernel for run in runs)
        self.user = statistics.median(run.user for run in runs)
        self.symbols = medians([run.symbols for run in runs])
        self.in_path = [run.in_path for run in runs]

    def is_attributed(self, name):
        """Whether the symbol runs only with a tool."""
        return self.symbols.get(name, 0) < RARE or name in SHARED

    def attributed(self, counts):
        """The part of the counts that runs only with a tool."""
        names = filter(self.is_attributed, counts.keys() | self.symbols.keys())
        return sum(counts[name] - self.symbols.get(name, 0) for name in names)

    def in_path_of(self, runs):
        """The attributed part on the CPU of the load."""
        names = set(filter(self.is_attributed, set().union(*(run.in_path for run in runs))))
        programs = {name for name in names if name.startswith(PROGRAMS)}
        counts = [run.in_path for run in runs]

        def extra(name):
            fewest, bare = (min(count[name] for count in which) for which in (counts, self.in_path))
            return fewest - bare

        kernel = sum(n for n in map(extra, names - programs) if n >= 1)
        return spread(sum(count[name] for name in programs) + kernel for count in counts)


def medians(counters):
    names = set().union(*counters)
    return {name: statistics.median(counter[name] for counter in counters) for name in names}


def median_of(starts, key):
    values = [start[key] for start in starts if start[key] is not None]
    return round(statistics.median(values)) if values else None


def judge_tool(tool, runs, starts, bare):
    """One line of a table, in the form of the JSON."""
    line = {"tool": tool}
    fine = [start for start in starts if "gone" not in start]
    if not fine:
        return line | {"gone": starts[0]["gone"]}
    if not runs:
        return line | {"gone": STALLED}
    line |= {key: median_of(fine, key) for key in NOTED}
    share_seen = min(1, line["seen"] / line["issued"]) if line["seen"] else 1
    counts = medians([run.symbols for run in runs])
    grown = {name: count - bare.symbols.get(name, 0) for name, count in counts.items()}
    top = sorted(grown, key=lambda name: -abs(grown[name]))[:TOP]
    return line | {
        "added": spread(run.user + run.kernel - bare.total for run in runs),
        "attributed": spread(bare.attributed(run.symbols) for run in runs),
        "in_path": bare.in_path_of(runs),
        "user_per_event": spread((run.user - bare.user) / share_seen for run in runs),
        "starts": fine,
        "symbols": {name: round(grown[name], 1) for name in top},
    }


def judge_load(load, runs, starts):
    runs = [run for run in runs if run.load == load]
    starts = [(tool, start) for at, tool, start in starts if at == load]
    none = [run for run in runs if run.tool == "-"]
    bare = Bare(none)

    def judge(tool):
        own = [run for run in runs if run.tool == tool]
        return judge_tool(tool, own, [start for name, start in starts if name == tool], bare)

    return {
        "load": load,
        "what": LOADS[load],
        "none": spread(run.user + run.kernel for run in none),
        "none_user": spread(run.user for run in none),
        "tools": [judge(tool) for tool in dict.fromkeys(tool for tool, _ in starts)],
    }


MEASURED = ["seen", "lost", "issued", "start ms", "peak MB", "maps MB"]


def cells(tool, counted):
    """A tool's cells after its name: the counts in `counted`, then all of MEASURED."""
    if "gone" in tool:
        return [STALLED if tool["gone"] == STALLED else "does not run here"] + [""] * (len(counted) + len(MEASURED) - 1)
    instructions = [str(round(tool[key]["median"])) for key in counted]
    counts = ["?" if tool[key] is None else str(tool[key]) for key in ("seen", "lost", "issued")]
    memory = [f"{tool[key] * 1024 / 1e6:.1f}" for key in ("peak_rss_kib", "maps_kib")]
    return instructions + counts + [str(tool["start_ms"])] + memory


def markdown(rows, left=1):
    """An aligned Markdown table; the first `left` columns are aligned to the left."""
    widths = [max(len(row[i]) for row in rows) for i in range(len(rows[0]))]

    def line(row):
        cells = zip(row, widths)
        aligned = [c.ljust(w) if i < left else c.rjust(w) for i, (c, w) in enumerate(cells)]
        return "| " + " | ".join(aligned) + " |"

    rule = ["-" * w if i < left else "-" * (w - 1) + ":" for i, w in enumerate(widths)]
    return "\n".join([line(rows[0]), line(rule)] + [line(row) for row in rows[1:]])


def table(result):
    heads = ["", "added", "attributed", "in path", "user"] + MEASURED
    none = [str(round(result[key]["median"])) for key in ("none", "none_user")]
    rows = [heads, ["(none)", none[0], "", "", none[1]] + [""] * len(MEASURED)]
    for tool in result["tools"]:
        rows.append([tool["tool"]] + cells(tool, ("added", "attributed", "in_path", "user_per_event")))
    return markdown(rows)


def main():
    share, path, *pairs = sys.argv[1:]
    about = dict(pair.split("=", 1) for pair in pairs)
    machine, runs, starts = read_log(share, int(about["COUNT"]))
    loads = [judge_load(load, runs, starts) for load in about["LOADS"].split()]
    document = {"date": time.strftime("%Y-%m-%d"), "about": about, "machine": machine, "loads": loads}
    with open(path, "w", encoding="utf-8") as out:
        json.dump(document, out, indent=1)
        out.write("\n")
    where = f"Linux {about['kernel']}, {document['date']}, {about['version']}"
    where += f", disks of {int(about['LATENCY_NS']) / 1e3:g} us"
    print(f"\nInstructions per command on {where}")
    for result in loads:
        print(f"\n{result['load']}: {result['what']}\n\n{table(result)}")


if __name__ == "__main__":
    main()
