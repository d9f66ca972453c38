# SPDX-License-Identifier: MIT OR Apache-2.0
"""CSV and JSON by Python's modules, Parquet by pyarrow and DuckDB: the types of the columns, and every
value of every command."""

import csv
import json

import duckdb
import pyarrow as pa
import pyarrow.parquet as pq

import truth as t

TYPES = t.columns()
PYARROW = {
    "bool": pa.bool_(),
    "int64": pa.int64(),
    "uint64": pa.uint64(),
    "text": pa.string(),
    "timestamp": pa.timestamp("ns", tz="UTC"),
}
DUCKDB = {
    "bool": "BOOLEAN",
    "int64": "BIGINT",
    "uint64": "UBIGINT",
    "text": "VARCHAR",
    "timestamp": "TIMESTAMPTZ_NS",
}


def value(column, text):
    """A field of CSV, where nothing and an empty text are the same."""
    if not text:
        return None
    match TYPES[column]:
        case "text":
            return text
        case "timestamp":
            return t.unix_ns(text)
        case "bool":
            return {"true": True, "false": False}[text]
        case _:
            return int(text)


def compare(rows, truth, name, what):
    assert len(rows) == len(truth.commands), (what, len(rows), len(truth.commands))
    values = 0
    for got, event in zip(rows, truth.commands):
        want = t.row(truth, event, name)
        if what == "csv":
            want = {c: v or None if TYPES[c] == "text" else v for c, v in want.items()}
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


def check_ndjson(path, truth, name):
    with open(path, "rb") as file:
        run, *lines, _end = t.lines(file.read())
    assert run["recording"] == name
    lines = [line for line in lines if line["type"] != "clock"]
    rows = [{column: line.get(column) for column in TYPES} for line in lines]
    for line, row in zip(lines, rows):
        assert line.keys() <= TYPES.keys(), line
        row["time"] = row["time"] and t.unix_ns(row["time"])
    return compare(rows, truth, name, "ndjson")


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
    types = {field.name: field.type for field in file.schema_arrow}
    assert types == {name: PYARROW[of] for name, of in TYPES.items()}, types
    assert all(field.nullable for field in file.schema_arrow)
    table = file.read()
    time = table.column_names.index("time")
    table = table.set_column(time, "time", table.column("time").cast(pa.int64()))
    values = compare(table.to_pylist(), truth, name, "pyarrow")
    described = duckdb.sql(f"describe from read_parquet('{path}')").fetchall()
    types = {column: (of, null) for column, of, null, *_ in described}
    assert types == {name: (DUCKDB[of], "YES") for name, of in TYPES.items()}, types
    table = duckdb.sql(f"select * replace (epoch_ns(time) as time) from read_parquet('{path}')")
    rows = [dict(zip(table.columns, row)) for row in table.fetchall()]
    return values + compare(rows, truth, name, "duckdb")
