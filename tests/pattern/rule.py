#!/usr/bin/env python3
# SPDX-License-Identifier: MIT OR Apache-2.0
"""The rule of `pattern`, a second time: rule.py <TRACE. Reads `trace --json`, with one or two events per
command, and prints the rows of `pattern --json` as a list."""

import json
import sys


def bucket(value):
    """First and last value of the bucket of a value."""
    if value == 0:
        return (0, 0)
    low = 1 << (value.bit_length() - 1)
    return (low, 2 * low - 1)


def histogram(values):
    counts = {}
    for value in values:
        counts[bucket(value)] = counts.get(bucket(value), 0) + 1
    buckets = [
        {"first": first, "last": last, "count": n} for (first, last), n in sorted(counts.items())
    ]
    return {"count": len(values), "buckets": buckets}


def changes(lines):
    """Submissions and ends: time, 0 for an end, number, line."""
    for number, line in enumerate(lines):
        event, kind = json.loads(line), None
        kind = event["type"]
        at = event.get("time_ns")
        if kind == "submit":
            yield at, 1, number, event
        elif kind in ("complete", "requeue"):
            yield at, 0, number, event
        elif kind in ("command", "missed", "unfinished"):
            lasted = event.get("driver_ns", event.get("driver_max_ns", event.get("age_ns")))
            if lasted is None:
                continue
            paired = "fields" in event
            # with two events per command, the submission has its own
            if paired and TWO_EVENTS is False:
                yield at - lasted, 1, number, event
            if kind != "unfinished":
                yield at, 0, number, event


def main():
    global TWO_EVENTS
    lines = sys.stdin.read().splitlines()
    TWO_EVENTS = any('"type":"submit"' in line for line in lines)
    rows, in_flight = {}, {}
    for at, begins, _, event in sorted(changes(lines), key=lambda c: c[:3]):
        disk = (event["ctrl"], event["nsid"])
        flight = (event["ctrl"], event["qid"], event["cid"])
        if not begins:
            in_flight.pop(flight, None)
            continue
        in_flight[flight] = disk
        depth = sum(1 for other in in_flight.values() if other == disk)
        fields = event["fields"]
        if "slba" not in fields or "nlb" not in fields:
            continue
        key = (*disk, event["queue"], event["opcode"], event.get("pid"))
        row = rows.setdefault(key, {"commands": [], "ends": []})
        row["commands"].append((at, fields["slba"], fields["nlb"], depth))
    found = []
    for (ctrl, nsid, queue, opcode, pid), row in rows.items():
        # the latest streams, the last one continued at the end: begin, end, whether it has two commands, and the
        # blocks of its first command until that counts as sequential
        ends, sequential, streams = [], [], 0
        commands = row["commands"]
        for _, slba, nlb, _ in commands:
            hits = [n for n, s in enumerate(ends) if s[1] == slba or s[0] == slba + nlb]
            if not hits:
                ends = ends[-15:] + [[slba, slba + nlb, False, nlb]]
                continue
            begin, end, continues, first = ends.pop(hits[-1])
            sequential.append(nlb)
            own = [min(begin, slba), max(end, slba + nlb), True, first]
            before = [n for n, s in enumerate(ends) if s[2] and s[1] == own[0] and slba < begin]
            if before:
                own[0] = ends.pop(before[-1])[0]
                if first is not None:
                    sequential.append(first)
                own[3] = None
            streams += not continues and not before
            ends.append(own)
        blocks = sum(nlb for _, _, nlb, _ in commands)
        pairs = list(zip(commands, commands[1:]))
        divides = [min((slba | nlb) & -(slba | nlb), 1 << 16) for _, slba, nlb, _ in commands]
        found.append(
            {
                "ctrl": ctrl,
                "nsid": nsid,
                "queue": queue,
                "opcode": opcode,
                "pid": pid,
                "count": len(commands),
                "sequential": len(sequential),
                "random": len(commands) - len(sequential),
                "streams": streams,
                "sequential_blocks": sum(sequential),
                "random_blocks": blocks - sum(sequential),
                "size_blocks": histogram([nlb for _, _, nlb, _ in commands]),
                "alignment_blocks": histogram(divides),
                "distance_blocks": histogram([abs(b[1] - a[1] - a[2]) for a, b in pairs]),
                "in_flight": histogram([depth for *_, depth in commands]),
                "interval_ns": histogram([b[0] - a[0] for a, b in pairs]),
            }
        )
    print(json.dumps(found))


main()
