#!/usr/bin/env python3
# SPDX-License-Identifier: MIT OR Apache-2.0
"""check.py TOOL RECORDING...: exports recordings in every format, reads the files by the programs
that they are for, and compares every command with `trace --from` and `latency --from`."""

import sys
import tempfile
import time
from pathlib import Path

import truth as t
from fleet import check_fleet
from hlog import check_hlog
from perfetto_trace import check_perfetto
from tables import check_csv
from tables import check_ndjson
from tables import check_parquet


CHECKS = {
    "ndjson": (check_ndjson, "values"),
    "csv": (check_csv, "values"),
    "parquet": (check_parquet, "values"),
    "hlog": (check_hlog, "values"),
    "perfetto": (check_perfetto, "slices"),
}


def main(tool, *recordings):
    for path in map(Path, recordings):
        truth = t.Truth(tool, path)
        assert truth.commands, f"{path} has no commands"
        for form, (check, what) in CHECKS.items():
            with tempfile.TemporaryDirectory() as place:
                out = Path(place) / "out"
                began = time.monotonic()
                t.run(tool, "export", path, "--format", form, "-o", out)
                took = time.monotonic() - began
                compared = check(out, truth, path.name)
                size = out.stat().st_size / len(truth.commands)
                print(
                    f"{path.name}: {form}: {len(truth.commands)} commands, {compared} {what} equal, "
                    f"{size:.0f} bytes each, {took:.2f} s"
                )
    with tempfile.TemporaryDirectory() as place:
        docs = Path(__file__).resolve().parents[2] / "docs/export.md"
        ran = check_fleet(Path(tool).resolve(), [Path(r).resolve() for r in recordings], place, docs)
        print(f"{docs.name}: {ran} queries ran")


if __name__ == "__main__":
    main(*sys.argv[1:])
