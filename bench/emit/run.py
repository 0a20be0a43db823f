#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0 OR MIT
"""run.py [--json] [--kymo PROGRAM] [--build-dir DIR] - what one event costs the host.

Times come from bench_emit, which stands beside PROGRAM in the same build; "peer" is the bare loop
over the counter in the same run, the floor of any event with a stamp. Instructions come from
callgrind, as the difference of two loop lengths, less those of an empty loop: they do not depend on
the machine's load, so they are what a gate should look at.
spread: (90th percentile - least) / least.
"""
import argparse
import json
import pathlib
import re
import shutil
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
TURNS = (100_000, 300_000)
INSTRUCTIONS_MAX = {"event": 40, "event_call": 50, "pair": 65, "wake": 40, "disabled": 6}


def collected(program, row, turns):
    done = subprocess.run(["valgrind", "--tool=callgrind", "--callgrind-out-file=/dev/null",
                           str(program), "--loop", row, str(turns)],
                          text=True, stderr=subprocess.PIPE, check=True)
    found = re.search(r"Collected\s*:\s*(\d+)", done.stderr)
    if not found:
        sys.exit(f"bench: callgrind said nothing about {row}")
    return int(found.group(1))


def per_turn(program, row):
    few, many = (collected(program, row, turns) for turns in TURNS)
    return (many - few) / (TURNS[1] - TURNS[0])


def main():
    parser = argparse.ArgumentParser(description="What one event costs the host.")
    parser.add_argument("--json", action="store_true", help="one object a line (the default)")
    parser.add_argument("--kymo", default=ROOT / "build-release" / "kymo", type=pathlib.Path)
    parser.add_argument("--build-dir", help="not used here")
    options = parser.parse_args()
    program = options.kymo.parent / "bench" / "emit" / "bench_emit"
    if not program.is_file():
        sys.exit(f"bench: {program} is not built; run tools/build.sh release")
    sys.stdout.flush()
    subprocess.run([str(program), "--json"], check=True)
    if not shutil.which("valgrind"):
        print("bench: no valgrind, so no instruction counts", file=sys.stderr)
        return
    empty = per_turn(program, "plain")
    for row, most in INSTRUCTIONS_MAX.items():
        print(json.dumps({"name": f"emit.{row}_instructions",
                          "value": round(per_turn(program, row) - empty, 2),
                          "unit": "instructions", "target": most, "better": "lower",
                          "peer": None, "spread": None}), flush=True)


if __name__ == "__main__":
    main()
