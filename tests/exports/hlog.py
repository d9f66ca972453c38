# SPDX-License-Identifier: MIT OR Apache-2.0
"""HdrHistogram logs, by the reader of the Python package hdrhistogram."""

from collections import Counter
from collections import defaultdict

from hdrh.histogram import HdrHistogram
from hdrh.log import HistogramLogReader

from truth import lines


def read(path):
    """Start (ms), tag and histogram of each line."""
    reader = HistogramLogReader(path, HdrHistogram(1, 1 << 40, 3))
    while True:
        histogram = reader.get_next_interval_histogram()
        if histogram is None:
            return
        yield histogram.get_start_time_stamp(), histogram.get_tag(), histogram


def tag_of(event):
    name = event["opcode"] if event["queue"] == "io" else "admin:" + event["opcode"]
    # ids from there on share a row
    nsid = event["nsid"] if event["nsid"] < 0x7FFFFF else 0xFFFFFFFF
    return f"{event['ctrl']}/{nsid}/{name}"


def total(event, stage_set):
    """The total of a command. None if it was not measured."""
    if stage_set == "none":
        return event.get("driver_ns") if event["type"] == "command" else None
    return event["total_ns"] if event["stages"] else None


def check_hlog(path, truth, _name, interval_ms=1000):
    stage_set = truth.run["stage_set"]
    whole = "driver" if stage_set == "none" else "total"
    counts, highest, times = Counter(), Counter(), defaultdict(Counter)
    begin_ms = None
    for start_ms, tag, histogram in read(path):
        begin_ms = min(start_ms, begin_ms or start_ms)
        counts[tag] += histogram.get_total_count()
        highest[tag] = max(highest[tag], histogram.get_max_value())
        times[tag][start_ms] += histogram.get_total_count()
    want, longest = Counter(), {}
    (report,) = lines(truth.latency)
    for row in report["rows"]:
        rows = [(s["name"], s) for s in row["stages"]]
        for stage, numbers in [*rows, (whole, row[whole])]:
            if numbers["count"]:
                want[f"{tag_of(row)}/{stage}"] = numbers["count"]
                longest[f"{tag_of(row)}/{stage}"] = numbers["max_ns"]
    assert counts == want, (path, counts - want, want - counts)
    for tag, ns in longest.items():
        assert abs(highest[tag] - ns) <= ns / 1000 + 1, (tag, highest[tag], ns)
    # the commands of each interval
    when = defaultdict(Counter)
    wall_ns = truth.wall_ns[0] + truth.run["begin_ns"] if truth.wall_ns else 0
    for event in truth.commands:
        if event["type"] != "unfinished" and total(event, stage_set) is not None:
            number = (event["time_ns"] - truth.run["begin_ns"]) // (interval_ms * 1_000_000)
            when[f"{tag_of(event)}/{whole}"][number] += 1
    for tag, intervals in when.items():
        got = {round((ms - wall_ns / 1e6) / interval_ms): n for ms, n in times[tag].items()}
        assert got == intervals, (tag, got, intervals)
    return sum(counts.values())
