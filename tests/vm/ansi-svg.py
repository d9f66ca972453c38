#!/usr/bin/env python3
# SPDX-License-Identifier: MIT OR Apache-2.0
"""Draws what a terminal shows as SVG: ansi-svg.py FIRST-LINE <TEXT >SVG. Knows the escape sequences of
src/view/theme.rs and src/top/screen.rs: bold, dimmed, underlined, reversed, the 16 named
colours, and xterm's cube of 216."""

import html
import re
import sys

COLUMN, ROW, MARGIN = 8.4, 19, 14
TEXT, GROUND = "#cdd9e5", "#22272e"
NAMED = {0: "#1c2128", 1: "#f47067", 2: "#8ddb8c", 3: "#f6c862", 4: "#6cb6ff", 5: "#dcbdfb", 6: "#76e3ea", 7: "#adbac7"}
BRIGHT = {**NAMED, 1: "#ff938a", 4: "#96d0ff", 7: "#ffffff"}


def cube(number):
    """A colour of xterm's cube."""
    if not 16 <= number < 232:
        sys.exit(f"ansi-svg.py: no colour {number}")
    number -= 16
    steps = [0, 95, 135, 175, 215, 255]
    return "#%02x%02x%02x" % tuple(steps[n] for n in (number // 36, number // 6 % 6, number % 6))


class Style:
    """The style after the SGR codes so far."""

    def __init__(self):
        self.color = self.ground = None
        self.bold = self.dim = self.under = self.reverse = False

    def apply(self, codes):
        codes = list(codes)
        while codes:
            code = codes.pop(0)
            if code == 0:
                self.__init__()
            elif code in (1, 2, 4, 7):
                setattr(self, {1: "bold", 2: "dim", 4: "under", 7: "reverse"}[code], True)
            elif code == 22:
                self.bold = self.dim = False
            elif code == 39:
                self.color = None
            elif code in (38, 48) and codes[:1] == [5]:
                setattr(self, "color" if code == 38 else "ground", cube(codes[1]))
                del codes[:2]
            elif 30 <= code <= 37:
                self.color = NAMED[code - 30]
            elif 40 <= code <= 47:
                self.ground = NAMED[code - 40]
            elif 90 <= code <= 97:
                self.color = BRIGHT[code - 90]
            else:
                sys.exit(f"ansi-svg.py: no style for SGR code {code}")

    def drawn(self, text, column, row):
        """The background and the text."""
        color, ground = self.color, self.ground
        if self.reverse:
            color, ground = ground or GROUND, color or TEXT
        x, width = MARGIN + COLUMN * column, COLUMN * len(text)
        rect = ""
        if ground:
            rect = f'<rect x="{x:.1f}" y="{MARGIN + ROW * row}" width="{width:.1f}" height="{ROW}" fill="{ground}"/>'
        words = [f'fill="{color}"'] if color else []
        words += ['font-weight="bold"'] if self.bold else []
        words += ['fill-opacity="0.6"'] if self.dim else []
        words += ['text-decoration="underline"'] if self.under else []
        if not text.strip() and not self.under:
            return rect, ""
        place = f'x="{x:.1f}" textLength="{width:.1f}"'
        return rect, f'<tspan {place} {" ".join(words)}>{html.escape(text)}</tspan>'


def drawn(line, row):
    """The backgrounds, the tspans and the width of a line. Each tspan has its column, so that the font's
    width does not matter."""
    style, column, rects, spans = Style(), 0, [], []
    for part in re.split(r"(\x1b\[[0-9;]*m)", line):
        if escape := re.fullmatch(r"\x1b\[([0-9;]*)m", part):
            style.apply(map(int, escape[1].split(";") if escape[1] else ["0"]))
        elif part:
            rect, span = style.drawn(part, column, row)
            rects.append(rect)
            spans.append(span)
            column += len(part)
    return "".join(rects), "".join(spans), column


def main():
    text = [sys.argv[1]] + sys.stdin.read().rstrip().split("\n")
    lines = [drawn(line, row) for row, line in enumerate(text)]
    width = 2 * MARGIN + COLUMN * max(columns for _, _, columns in lines)
    height = 2 * MARGIN + ROW * len(lines)
    print(f'<svg xmlns="http://www.w3.org/2000/svg" width="{width:.0f}" height="{height:.0f}">')
    print(f'<rect width="{width:.0f}" height="{height:.0f}" rx="6" fill="{GROUND}"/>')
    for rects, _, _ in lines:
        if rects:
            print(rects)
    print(f'<g font-family="monospace" font-size="14" fill="{TEXT}" xml:space="preserve">')
    for n, (_, spans, _) in enumerate(lines):
        if spans:
            print(f'<text y="{MARGIN + ROW * n + 14}">{spans}</text>')
    print("</g></svg>")


main()
