#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0 OR MIT
"""Files of a folder that call each other in a circle.

usage: circles.py [--max N] [--only PREFIX] DIRECTORY...

A DIRECTORY is one of the build tree that holds object files, such as
build/src/drain/libky_drain.a.p. `nm` says which symbols each object defines and which it wants;
an object that wants a symbol of another one calls it. Files that reach each other this way form a
circle: none of them can be read, or tested, without the others. Prints the circles, largest first,
and how many files lie in one. With --max it fails when that is more than N. --only: objects of
these names (the build names src/record/emit/x.c emit_x.c.o).
"""
import argparse
import pathlib
import subprocess
import sys


def symbols(path):
    """(defined, wanted) global symbols of one object file."""
    command = ["nm", "-g", "-P", str(path)]
    listing = subprocess.run(command, check=True, capture_output=True, text=True)
    defined, wanted = set(), set()
    for line in listing.stdout.splitlines():
        name, kind = line.split()[:2]
        (wanted if kind in "Uwv" else defined).add(name)
    return defined, wanted


def calls(paths):
    """{file: files it calls}, by the names of the objects' sources."""
    about = {path.stem: symbols(path) for path in paths}
    home = {symbol: name for name, (defined, _) in about.items() for symbol in defined}
    return {
        name: {home[symbol] for symbol in wanted if symbol in home} - {name}
        for name, (_, wanted) in about.items()
    }


def circles(graph):
    """Strongly connected components of more than one member (Tarjan), largest first."""
    index, low, stack, found = {}, {}, [], []

    def visit(node):
        index[node] = low[node] = len(index)
        stack.append(node)
        for other in sorted(graph[node]):
            if other not in index:
                visit(other)
                low[node] = min(low[node], low[other])
            elif other in stack:
                low[node] = min(low[node], index[other])
        if low[node] == index[node]:
            at = stack.index(node)
            if len(stack) - at > 1:
                found.append(sorted(stack[at:]))
            del stack[at:]

    for node in sorted(graph):
        if node not in index:
            visit(node)
    return sorted(found, key=lambda circle: (-len(circle), circle))


def main():
    parser = argparse.ArgumentParser(description="files that call each other in a circle")
    parser.add_argument("--max", type=int, help="fail when more files lie in a circle")
    parser.add_argument("--only", default="", help="objects whose names begin with this")
    parser.add_argument("directory", nargs="+", type=pathlib.Path)
    options = parser.parse_args()
    paths = sorted(path for at in options.directory for path in at.glob(options.only + "*.o"))
    if not paths:
        sys.exit(f"circles: no object files in {' '.join(map(str, options.directory))}")
    found = circles(calls(paths))
    for circle in found:
        print(f"{len(circle)} files: {' '.join(circle)}")
    count = sum(map(len, found))
    print(f"{count} of {len(paths)} files lie in a circle of calls")
    if options.max is not None and count > options.max:
        sys.exit(1)


if __name__ == "__main__":
    main()
