#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0 OR MIT
"""run.py [--only AREA]... - measures everything in bench/, prints a table, writes the results.

An area is a folder of bench/: its run.py where it has one, else every program bench_* that the
release build made of it. Each prints one JSON object a line: name, value, unit, target, better
("lower" or "higher"), peer, spread. The rows go to bench/results/latest.json. The exit status is 1
when an area could not be measured, not when a target was missed: the table says that.
"""
import argparse
import json
import os
import pathlib
import platform
import subprocess
import sys
import time

ROOT = pathlib.Path(__file__).resolve().parent.parent
BUILD = ROOT / "build-release"
KEYS = {"name", "value", "unit", "target", "better", "peer", "spread"}


def fail(text):
    sys.exit(f"bench: {text}")


def areas():
    """Area -> commands to run, in alphabetical order; end-to-end measurements last."""
    found = {}
    for folder in sorted(path for path in (ROOT / "bench").iterdir() if path.is_dir()):
        programs = sorted(path for path in (BUILD / "bench").glob(f"{folder.name}/bench_*")
                          if path.is_file() and os.access(path, os.X_OK))
        if (folder / "run.py").is_file():
            found[folder.name] = [[sys.executable, str(folder / "run.py"), "--json",
                                   "--kymo", str(BUILD / "kymo"),
                                   "--build-dir", str(ROOT / "build" / "cargo" / "bench")]]
        elif programs:
            found[folder.name] = [[str(program), "--json"] for program in programs]
    return dict(sorted(found.items(), key=lambda item: item[0] == "tokio"))


def parse_rows(area, text):
    rows = []
    for line in text.splitlines():
        if not line.startswith("{"):
            continue
        row = json.loads(line)
        missing = KEYS - row.keys()
        if missing:
            raise ValueError(f"a row of {area} lacks {', '.join(sorted(missing))}: {line}")
        if row["better"] not in ("lower", "higher"):
            raise ValueError(f"a row of {area} has better={row['better']!r}")
        rows.append({"area": area, **row})
    if not rows:
        raise ValueError(f"{area} printed no row")
    return rows


def verdict(row):
    if row["target"] is None or row["value"] is None:
        return ""
    reached = (row["value"] <= row["target"] if row["better"] == "lower"
               else row["value"] >= row["target"])
    return "reached" if reached else "MISSED"


def number(value):
    if value is None:
        return "-"
    if isinstance(value, (int, float)):
        return f"{value:,.3f}".rstrip("0").rstrip(".") if abs(value) < 1e6 else f"{value:,.0f}"
    return str(value)


def spread(value):
    if isinstance(value, list):
        return " .. ".join(number(part) for part in value)
    return "" if value is None else number(value)


def print_table(rows):
    head = ("what", "measured", "unit", "spread", "target", "peer", "")
    table = [head] + [(row["name"], number(row["value"]), row["unit"], spread(row["spread"]),
                       number(row["target"]), number(row["peer"]), verdict(row)) for row in rows]
    widths = [max(len(line[column]) for line in table) for column in range(len(head))]
    for line in table:
        cells = [cell.rjust(width) if 0 < column < 6 and column != 2 else cell.ljust(width)
                 for column, (cell, width) in enumerate(zip(line, widths))]
        print("  ".join(cells).rstrip())


def machine():
    model = ""
    for line in pathlib.Path("/proc/cpuinfo").read_text().splitlines():
        if line.startswith("model name"):
            model = line.partition(":")[2].strip()
            break
    return {"processor": model, "processors": os.cpu_count(), "kernel": platform.release()}


def main():
    parser = argparse.ArgumentParser(description="Measures everything in bench/.")
    parser.add_argument("--only", action="append", metavar="AREA", help="this area alone")
    parser.add_argument("--output", default=ROOT / "bench" / "results" / "latest.json",
                        type=pathlib.Path)
    options = parser.parse_args()
    if subprocess.run([ROOT / "tools" / "build.sh", "release"]).returncode != 0:
        fail("the release build failed")
    known = areas()
    wanted = options.only or list(known)
    for area in wanted:
        if area not in known:
            fail(f"no area {area!r}; there are: {' '.join(known)}")
    rows, broken = [], []
    for index, area in enumerate(wanted, 1):
        started = time.monotonic()
        print(f"[{index}/{len(wanted)}] {area} ...", file=sys.stderr, flush=True)
        try:
            for command in known[area]:
                done = subprocess.run(command, cwd=ROOT, text=True, stdout=subprocess.PIPE)
                if done.returncode != 0:
                    raise ValueError(f"{area} ended with {done.returncode}")
                rows += parse_rows(area, done.stdout)
        except (OSError, ValueError) as error:
            broken.append(str(error))
            print(f"bench: {error}", file=sys.stderr)
        print(f"[{index}/{len(wanted)}] {area}: {time.monotonic() - started:.0f} s",
              file=sys.stderr, flush=True)
    if rows:
        options.output.parent.mkdir(parents=True, exist_ok=True)
        result = {"machine": machine(), "benchmarks": rows}
        options.output.write_text(json.dumps(result, indent=1) + "\n")
        print_table(rows)
        print(f"\n{options.output}: {len(rows)} rows")
    return 1 if broken else 0


if __name__ == "__main__":
    sys.exit(main())
