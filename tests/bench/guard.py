#!/usr/bin/env python3
"""guard.py RESULT RECORD [--record]: fails if a command costs more than was recorded.

RESULT is the JSON of bench.sh. RECORD has the accepted extra instructions per command on the CPU of
the load ("in path"), for each of our modes. They vary by up to 3 %. The check fails above 5 % more
than recorded. If the result is more than 5 % below, record it again. It also fails above "at_most",
which --record leaves as it is.
"""
import json
import sys

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


def main():
    result, record = sys.argv[1:3]
    now = measured(result)
    with open(record, encoding="utf-8") as file:
        before = json.load(file)
    now["at_most"] = before["at_most"]
    over = [t for t, most in now["at_most"].items() if now["in_path"][t] > most]
    if over:
        sys.exit(f"guard: above the limit of {now['at_most']}: {now['in_path']}")
    if "--record" in sys.argv[3:]:
        with open(record, "w", encoding="utf-8") as file:
            json.dump(now, file, indent=2)
            file.write("\n")
        print(f"guard: recorded {now['in_path']}")
        return
    if now["in_path"].keys() != before["in_path"].keys():
        sys.exit(f"guard: {list(now['in_path'])} were measured, {list(before['in_path'])} recorded")
    too_much = False
    for tool, limit in before["in_path"].items():
        change = now["in_path"][tool] / limit - 1
        print(f"guard: {tool}: {now['in_path'][tool]} instructions, recorded {limit} ({change:+.1%})")
        too_much = too_much or change > LIMIT
    if too_much:
        sys.exit(
            f"guard: more than {LIMIT:.0%} above the record (made on {before['kernel']}, this is"
            f" {now['kernel']}): reduce the cost, or accept it with `make record-cost`"
        )


main()
