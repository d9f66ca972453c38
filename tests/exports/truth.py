# SPDX-License-Identifier: MIT OR Apache-2.0
"""What exports must contain, from the JSON of `trace --from` and `latency --from`."""

import json
import re
import subprocess
from datetime import datetime
from pathlib import Path

GROUPS = ["before", "queue", "submit", "device", "complete", "end"]
WAITS = ["throttle", "block", "freeze", "iocost", "wbt", "tag", "zone"]
PARTS = WAITS + [
    "queue.wait", "queue.setup", "submit.map", "submit.ring", "device.run", "device.irq"]


def column(stage):
    """The column of a stage."""
    return stage.replace(".", "_") + "_ns"


STAGES = {column(stage) for stage in GROUPS + PARTS}
POINTS = ["start", "setup_in", "setup_out", "issue", "doorbell", "irq", "cqe", "complete", "end"] + [
    "bio_submit", "bio_queue", "freeze", "iocost", "wbt", "tag", "zone"]
# the rows of tables
COMMANDS = ("command", "missed", "unfinished")


def run(*words, code=0):
    """Runs the tool, and returns its stdout."""
    ran = subprocess.run([str(w) for w in words], capture_output=True, check=False)
    assert ran.returncode == code, (words, ran.returncode, ran.stderr.decode())
    return ran.stdout


def lines(data):
    return [json.loads(line) for line in data.splitlines()]


def columns():
    """Names and types of the columns, as docs/export.md lists them."""
    docs = Path(__file__).resolve().parents[2] / "docs/export.md"
    table = docs.read_text(encoding="utf-8").partition("## Columns")[2].partition("\n## ")[0]
    rows = re.findall(r"^\| (`\w+`(?:, `\w+`)*) \| (\w+) \|", table, re.M)
    return {name: kind for names, kind in rows for name in re.findall(r"\w+", names)}


def unix_ns(text):
    """2026-11-23T00:16:39.123456789Z (or +00:00) as nanoseconds since 1970."""
    second = datetime.fromisoformat(text[:19] + text[29:])
    return int(second.timestamp()) * 1_000_000_000 + int(text[20:29])


class Truth:
    """A recording, as `trace` and `latency` show it."""

    def __init__(self, tool, path):
        ndjson = lines(run(tool, "export", path, "--format", "ndjson", "-o", "-"))
        self.run = ndjson[0]
        # offsets of the wall clock, as they change
        self.wall_ns = [line["wall_ns"] for line in ndjson if line["type"] == "clock"]
        recorded = self.run["stage_set"]
        kstack = [f"--kstack={self.run['stack']}"] if self.run["stack"] else []

        def trace(stages, *more):
            return run(tool, "trace", "--json", "--events", f"--stages={stages}", *kstack, *more, "--from", path)

        self.trace = trace(recorded)
        self.latency = run(tool, "latency", "--json", f"--stages={recorded}", "--from", path)
        events = lines(self.trace)
        assert events[-1]["type"] == "end", path
        self.events = events[:-1]
        for event, shown in zip(self.events, lines(trace("none" if recorded == "none" else "basic"))):
            event["groups"] = shown.get("stages", []), shown.get("total_ns")
        # redacted recordings have no wall clock
        if self.wall_ns:
            for event, shown in zip(self.events, lines(trace(recorded, "--time", "wall"))):
                event["wall_ns"] = unix_ns(shown["time"])
        self.commands = [e for e in self.events if e["type"] in COMMANDS]
        self.others = [e for e in self.events if e["type"] not in COMMANDS]


def divided(stages, by_group):
    """Durations of single stages, names and sum of merged ones."""
    single, merged, merged_ns = {}, [], None
    for stage in stages:
        name = stage["name"]
        # of a command that lacks the first point of its first group, only a part of that is known
        if name not in GROUPS if by_group else "+" in name:
            merged.append(name)
            merged_ns = (merged_ns or 0) + stage["ns"]
        else:
            single[name] = stage["ns"]
    return single, " ".join(merged) or None, merged_ns


def row(truth, event, name):
    """The values of the columns of a command. Columns without an equal in the JSON are missing."""
    status = event.get("status") or {}
    fields = event.get("fields", {})
    stages, total_ns = event["groups"]
    groups, merged, merged_ns = divided(stages, True)
    parts, _, _ = divided(event.get("stages", []), False)
    want = {
        "recording": name,
        "host": truth.run["host"],
        "type": event["type"],
        "time_rel_ns": event["time_ns"] - truth.run["begin_ns"],
        "time": event.get("wall_ns"),
        "disk": event.get("disk"),
        "slba": fields.get("slba") if "nlb" in fields else None,
        "nlb": fields.get("nlb") if "slba" in fields else None,
        "status": status.get("value"),
        "status_name": status.get("name"),
        "stage_set": truth.run["stage_set"],
        "merged_stages": merged,
        "merged_ns": merged_ns,
        "total_ns": total_ns,
        "kstack": ";".join(event.get("kstack", [])) or None,
        "kstack_complete": ";".join(event.get("kstack_complete", [])) or None,
    }
    want |= {column(group): groups.get(group) for group in GROUPS}
    want |= {column(part): parts.get(part) for part in PARTS}
    points = event.get("points_ns", {})
    want |= {f"point_{point}": points.get(point) for point in POINTS}
    same = """time_ns ctrl qid cid nsid queue opcode opcode_value flags metadata bytes pid tid comm cpu
        complete_cpu result retries request_flags driver_ns driver_max_ns age_ns bios longest_wait_ns"""
    want |= {column: event.get(column) for column in same.split()}
    return want | dwords(event["opcode"], fields)


def dwords(opcode, fields):
    """The command dwords that the decoded fields determine."""
    known = {key: value for key, value in fields.items() if key.startswith("cdw1")}
    if "slba" in fields and "nlb" in fields:
        known["cdw10"] = fields["slba"] & 0xFFFFFFFF
        known["cdw11"] = fields["slba"] >> 32
    if opcode == "identify":
        known["cdw10"] = fields["cns"]["code"] | fields.get("cntid", 0) << 16
    return known


def row_differs(got, want):
    return {c: (got[c], value) for c, value in want.items() if got[c] != value}
