#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0 OR MIT
"""picture.py RESULTS.json OUT.svg - what recording adds to a request, beside dial9.

RESULTS: of `make bench ROWS=instructions`, or of a run of several areas. One bar a row that has a
peer in the same run, one for the peer. Exit status 1 where the results have no such row.
"""
import html
import json
import pathlib
import sys

AREA, PREFIX = "instructions", "a request, host: "
LEFT, WIDTH, BAR, GAP = 190, 420, 22, 8


def bars(rows):
    """(title, value, is the peer) of what is drawn, the peer last."""
    found, peer = [], None
    for row in rows:
        if row["area"] != AREA or not row["name"].startswith(PREFIX) or row["value"] is None:
            continue
        title = row["name"][len(PREFIX):]
        if "untouched" in title or "less the other" in title:
            continue
        found.append((title, row["value"], False))
        peer = row.get("peer") or peer
    return found + [("dial9 0.5.7, every event", peer, True)] if found and peer else []


def svg(drawn, unit):
    most = max(value for _, value, _ in drawn)
    height = len(drawn) * (BAR + GAP) + 2 * GAP + 16
    lines = [f'<svg xmlns="http://www.w3.org/2000/svg" width="{LEFT + WIDTH + 80}" '
             f'height="{height}" font-family="sans-serif" font-size="12">',
             '<rect width="100%" height="100%" fill="#ffffff"/>']
    for index, (title, value, is_peer) in enumerate(drawn):
        at = GAP + index * (BAR + GAP)
        wide = round(WIDTH * value / most)
        lines += [f'<text x="{LEFT - 6}" y="{at + 15}" text-anchor="end">'
                  f'{html.escape(title)}</text>',
                  f'<rect x="{LEFT}" y="{at}" width="{wide}" height="{BAR}" '
                  f'fill="{"#b0b0b0" if is_peer else "#2f6f9f"}"/>',
                  f'<text x="{LEFT + wide + 5}" y="{at + 15}">{value:,.0f}</text>']
    lines += [f'<text x="{LEFT}" y="{height - 6}" fill="#555555">{html.escape(unit)}</text>',
              "</svg>"]
    return "\n".join(lines) + "\n"


def main():
    if len(sys.argv) != 3:
        sys.exit("usage: picture.py RESULTS.json OUT.svg")
    drawn = bars(json.loads(pathlib.Path(sys.argv[1]).read_text())["benchmarks"])
    if not drawn:
        sys.exit(f"picture: {sys.argv[1]} has no row of the area {AREA} with a peer; run "
                 f"`make bench ROWS={AREA}` first")
    pathlib.Path(sys.argv[2]).write_text(svg(
        drawn, "instructions that recording adds to a request, in the host (echo-inside)"))


if __name__ == "__main__":
    main()
