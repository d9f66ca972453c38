#!/usr/bin/env python3
# SPDX-License-Identifier: MIT OR Apache-2.0
"""Draws what a terminal shows as SVG: ansi-svg.py FIRST-LINE <TEXT >SVG. Knows the escape sequences of
src/render/theme.rs: bold, dimmed, colours 31 to 36."""

import html
import re
import sys

COLUMN, ROW, MARGIN = 8.4, 19, 14
COLORS = {31: "#f47067", 32: "#8ddb8c", 33: "#f6c862", 34: "#6cb6ff", 35: "#dcbdfb", 36: "#76e3ea"}


def style(codes):
    """The attributes of a span after these SGR codes."""
    found = []
    for code in codes:
        if code == 1:
            found.append('font-weight="bold"')
        elif code == 2:
            found.append('fill-opacity="0.6"')
        elif code in COLORS:
            found.append(f'fill="{COLORS[code]}"')
        else:
            sys.exit(f"ansi-svg.py: no style for SGR code {code}")
    return " ".join(found)


def spans(line):
    """The tspans of a line, each with its column, so that the font's width does not matter."""
    codes, column, out = [], 0, []
    for part in re.split(r"(\x1b\[[0-9;]*m)", line):
        if escape := re.fullmatch(r"\x1b\[([0-9;]*)m", part):
            for code in map(int, escape[1].split(";") if escape[1] else ["0"]):
                # 22 ends bold, and 39 ends a colour
                codes = [] if code in (0, 22, 39) else codes + [code]
        elif part:
            x = MARGIN + COLUMN * column
            width = COLUMN * len(part)
            text = html.escape(part)
            out.append(
                f'<tspan x="{x:.1f}" textLength="{width:.1f}" {style(codes)}>{text}</tspan>'
            )
            column += len(part)
    return "".join(out), column


def main():
    lines = [spans(line) for line in [sys.argv[1]] + sys.stdin.read().rstrip().split("\n")]
    width = 2 * MARGIN + COLUMN * max(columns for _, columns in lines)
    height = 2 * MARGIN + ROW * len(lines)
    print(f'<svg xmlns="http://www.w3.org/2000/svg" width="{width:.0f}" height="{height:.0f}">')
    print(f'<rect width="{width:.0f}" height="{height:.0f}" rx="6" fill="#22272e"/>')
    print('<g font-family="monospace" font-size="14" fill="#cdd9e5" xml:space="preserve">')
    for n, (text, _) in enumerate(lines):
        if text:
            print(f'<text y="{MARGIN + ROW * n + 14}">{text}</text>')
    print("</g></svg>")


main()
