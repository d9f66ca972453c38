# SPDX-License-Identifier: MIT OR Apache-2.0
"""The queries of docs/export.md, on exports in the layout of that page."""

import os
import re
from pathlib import Path

import duckdb

import truth as t


def check_fleet(tool, recordings, place, docs):
    hosts = 0
    for recording in recordings:
        hosts += 1
        there = Path(place) / "nvme" / "date=2026-11-23" / f"host=db-{hosts}"
        there.mkdir(parents=True)
        # without names: the path has the host
        out = there / "101500.parquet"
        t.run(tool, "export", recording, "--format", "parquet", "--redact", "-o", out)
    os.chdir(place)
    ran = 0
    for query in re.findall(r"```sql\n(.*?)```", Path(docs).read_text(encoding="utf-8"), re.S):
        result = duckdb.sql(query)
        ran += 1
        assert result is None or query.startswith("CREATE") or result.fetchall(), query
    names = duckdb.sql("SELECT count(DISTINCT host), max(host), max(comm) FROM commands").fetchall()
    assert names == [(hosts, f"db-{hosts}", "")], names
    assert ran >= 5, ran
    return ran
