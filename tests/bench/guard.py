#!/usr/bin/env python3
"""guard.py RECORD RESULT... [--record]: exits with 3 if a command costs more than was recorded.

Each RESULT is the JSON of bench.sh; of several, the median counts. RECORD has the accepted extra instructions
per command on the CPU of the load ("in path"), for each of our modes. The limit is 5 % more than
recorded. If the result is more than 5 % below, record it again. There is also a limit in "at_most",
which --record leaves as it is.
"""
import json
import sys
from statistics import median

LIMIT = 0.05


def measured(path):
    with open(path, encoding="utf-8") as file:
        result = json.load(file)
    tools = result["loads"][0]["tools"]
    lost = [t["tool"] for t in tools if t["lost"] or t["seen"] != t["issued"]]
    if lost:
        sys.exit(f"guard: commands were lost: {', '.join(lost)}")
    figures = {t["tool"]: round(t["in_path"]["median"]) for t in tools}
    return {"kernel": result["about"]["kernel"], "in_path": figures}


def too_much(text):
    print(text, file=sys.stderr)
    sys.exit(3)


def main():
    record, *results = [a for a in sys.argv[1:] if a != "--record"]
    all_measured = [measured(result) for result in results]
    now = measured(results[0])
    for tool in now["in_path"]:
        now["in_path"][tool] = median(m["in_path"][tool] for m in all_measured)
    with open(record, encoding="utf-8") as file:
        before = json.load(file)
    now["at_most"] = before["at_most"]
    over = [t for t, most in now["at_most"].items() if now["in_path"][t] > most]
    if over:
        too_much(f"guard: above the limit of {now['at_most']}: {now['in_path']}")
    if "--record" in sys.argv:
        with open(record, "w", encoding="utf-8") as file:
            json.dump(now, file, indent=2)
            file.write("\n")
        print(f"guard: recorded {now['in_path']}")
        return
    if now["in_path"].keys() != before["in_path"].keys():
        sys.exit(f"guard: {list(now['in_path'])} were measured, {list(before['in_path'])} recorded")
    is_over = False
    for tool, limit in before["in_path"].items():
        change = now["in_path"][tool] / limit - 1
        print(f"guard: {tool}: {now['in_path'][tool]} instructions, recorded {limit} ({change:+.1%})")
        is_over = is_over or change > LIMIT
    if is_over:
        too_much(
            f"guard: more than {LIMIT:.0%} above the record (made on {before['kernel']}, this is"
            f" {now['kernel']}): reduce the cost, or accept it with `make record-cost`"
        )


main()
