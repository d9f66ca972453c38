# SPDX-License-Identifier: MIT OR Apache-2.0
"""CSV by Python's csv module, Parquet by pyarrow and DuckDB: every value of every command."""

import csv
import json

import duckdb
import pyarrow.parquet as pq

import truth as t

TEXT = {
    "recording", "host", "type", "ctrl", "disk", "queue", "opcode", "comm", "status_name",
    "stage_set", "merged_stages", "kstack", "kstack_complete",
}


def value(column, text):
    """A field of CSV, where nothing and an empty text are the same."""
    if column in TEXT:
        return text or None
    if column == "metadata":
        return {"true": True, "false": False, "": None}[text]
    return int(text) if text else None


def compare(rows, truth, name, what):
    assert len(rows) == len(truth.commands), (what, len(rows), len(truth.commands))
    values = 0
    for got, event in zip(rows, truth.commands):
        want = t.row(truth, event, name)
        if what == "csv":
            want = {c: v or None if c in TEXT else v for c, v in want.items()}
        differs = t.row_differs(got, want)
        assert not differs, (what, event["time_ns"], differs)
        single = [got[t.column(group)] for group in t.GROUPS] + [got["merged_ns"]]
        if got["total_ns"] is not None and any(s is not None for s in single):
            assert sum(s or 0 for s in single) == got["total_ns"], (what, got)
        values += len(want)
    return values


def check_csv(path, truth, name):
    with open(path, newline="", encoding="utf-8") as file:
        rows = [{c: value(c, v) for c, v in row.items()} for row in csv.DictReader(file, strict=True)]
    return compare(rows, truth, name, "csv")


def check_parquet(path, truth, name):
    file = pq.ParquetFile(path)
    columns = file.metadata.row_group(0) if file.metadata.num_row_groups else None
    if columns:
        for n in range(columns.num_columns):
            assert columns.column(n).compression == "ZSTD", columns.column(n)
    recordings = json.loads(file.metadata.metadata[b"nvme_deep.recordings"])
    (recording,) = recordings
    assert recording["run"] == {k: truth.run[k] for k in recording["run"]}
    seen = recording["ledger"]["commands_shown"]
    assert seen == sum(e["type"] != "unfinished" for e in truth.commands)
    values = compare(file.read().to_pylist(), truth, name, "pyarrow")
    table = duckdb.sql(f"from read_parquet('{path}')")
    rows = [dict(zip(table.columns, row)) for row in table.fetchall()]
    return values + compare(rows, truth, name, "duckdb")
