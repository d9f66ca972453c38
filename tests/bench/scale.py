#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0
"""scale.py JSON...: joins the results of report.py for several machines in one table."""

import json
import os
import sys

import report


def main():
    tools = {}
    for path in sys.argv[1:]:
        name = os.path.splitext(os.path.basename(path))[0].split("-", 1)[1].replace("-", " ")
        with open(path, encoding="utf-8") as file:
            document = json.load(file)
        machine = [name] + [str(document["machine"][key]) for key in report.MACHINE]
        for load in document["loads"]:
            for tool in load["tools"]:
                row = [tool["tool"]] + machine + report.cells(tool, ("attributed", "in_path"))
                tools.setdefault(tool["tool"], []).append(row)
    heads = ["", "machine", "disks", "queues", "depth", "CPUs", "attributed", "in path"]
    heads += report.MEASURED
    print(f"\nInstructions per command and memory, {document['about']['kernel']}, {document['date']}\n")
    print(report.markdown([heads] + [row for rows in tools.values() for row in rows], left=2))


if __name__ == "__main__":
    main()
