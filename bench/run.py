#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0 OR MIT
"""run.py [--rounds N] [--only AREA]... - measures everything, prints a table, writes the results.

The rows go to bench/results/latest.json. The exit status is 1 when an area gave no result (records
were lost again and again, a program failed), not when a target was missed: the table says that. See
bench/README.md.
"""
import argparse
import os
import pathlib
import platform
import secrets
import subprocess
import sys
import time

from measure import (alloc, analysis, bucket, cost, crates, drain, dumps, emit, end_to_end, flight,
                     instructions, memory, off_cpu, places, programs, read, resources, sampler,
                     sending, symbols, unwind, usdt, watch)
from measure.rows import table, write_json

ROOT = pathlib.Path(__file__).resolve().parent.parent
BUILD = ROOT / "build-release"
LATEST = ROOT / "bench" / "results" / "latest.json"
SOME = ROOT / "build" / "bench.json"
AREAS = {"emit": emit.rows, "drain": drain.rows, "read": read.rows,
         "analysis": analysis.rows, "memory": memory.rows,
         "watch": watch.rows, "places": places.rows, "unwind": unwind.rows,
         "symbols": symbols.rows, "off_cpu": off_cpu.rows, "alloc": alloc.rows,
         "sampler": sampler.rows, "resources": resources.rows, "usdt": usdt.rows,
         "end-to-end": end_to_end.rows, "cost": cost.rows, "crates": crates.rows,
         "instructions": instructions.rows, "flight": flight.rows,
         "dumps": dumps.rows, "sending": sending.rows, "bucket": bucket.rows}
ROUNDS = 15


def machine():
    """What a reader must know to compare; no name of the host."""
    model = ""
    for line in pathlib.Path("/proc/cpuinfo").read_text().splitlines():
        if line.startswith("model name"):
            model = line.partition(":")[2].strip()
            break
    memory_kib = int(pathlib.Path("/proc/meminfo").read_text().split()[1])
    clock = pathlib.Path("/sys/devices/system/clocksource/clocksource0/current_clocksource")

    def version(*command):
        done = subprocess.run(command, text=True, capture_output=True)
        return done.stdout.splitlines()[0].strip() if done.returncode == 0 else "unknown"

    return {"processor": model, "architecture": platform.machine(), "processors": os.cpu_count(),
            "memory_mib": memory_kib // 1024, "kernel": platform.release(),
            "clocksource": clock.read_text().strip() if clock.exists() else "unknown",
            "cc": version("cc", "--version"), "rustc": version("rustc", "--version")}


def load_average():
    return round(os.getloadavg()[0], 2)


def commit():
    done = subprocess.run(["git", "rev-parse", "--short", "HEAD"], cwd=ROOT, text=True,
                          capture_output=True)
    return done.stdout.strip() if done.returncode == 0 else "unknown"


def measure(context, wanted):
    rows, broken = [], []
    for index, area in enumerate(wanted, 1):
        started = time.monotonic()
        print(f"[{index}/{len(wanted)}] {area}", file=sys.stderr, flush=True)
        try:
            rows += [{"area": area, **entry} for entry in AREAS[area](context)]
        except (programs.Broken, OSError, ValueError, KeyError) as error:
            broken.append(area)
            print(f"bench: {area} gave no result: {type(error).__name__}: {error}",
                  file=sys.stderr)
        print(f"[{index}/{len(wanted)}] {area}: {time.monotonic() - started:.0f} s",
              file=sys.stderr, flush=True)
    return rows, broken


def main():
    parser = argparse.ArgumentParser(description="Measures everything in bench/.")
    parser.add_argument("--only", action="append", choices=AREAS, help="this area alone")
    parser.add_argument("--rounds", type=int, default=ROUNDS, help=f"pairs (default {ROUNDS})")
    parser.add_argument("--output", type=pathlib.Path,
                        help="default: bench/results/latest.json, of some areas alone: "
                             "build/bench.json")
    parser.add_argument("--build", type=pathlib.Path, metavar="DIR",
                        help="measure this build as it is (default: build-release, built first)")
    parser.add_argument("--against", type=pathlib.Path, metavar="DIR",
                        help="cost, instructions: measure the kymo of this build beside it")
    parser.add_argument("--seed", type=int, default=secrets.randbits(32),
                        help="of random orders and resamples (default: another one each time)")
    options = parser.parse_args()
    if options.rounds < 1:
        parser.error("--rounds takes a number from 1 on")
    if not options.build:
        if subprocess.run([ROOT / "tools" / "build.sh", "release"]).returncode != 0:
            sys.exit("bench: the release build failed")
    for folder in filter(None, (options.build, options.against)):
        if not (folder / "kymo").is_file():
            parser.error(f"{folder} holds no program kymo")

    def progress(text):
        print(f"    {text}", file=sys.stderr, flush=True)

    build = (options.build or BUILD).resolve()
    context = programs.Context(build, ROOT / "build" / "cargo" / "bench", options.rounds, progress,
                               options.seed, options.against and options.against.resolve())
    settings = {"commit": commit(), "rounds": options.rounds, "seed": options.seed,
                "load_average_before": load_average()}
    try:
        rows, broken = measure(context, options.only or list(AREAS))
    finally:
        context.close()
    if rows:
        settings["areas_without_result"] = broken
        output = options.output or (SOME if options.only else LATEST)
        write_json(output, machine(), settings, rows)
        print("\n" + "\n".join(table(rows)))
        print(f"\n{output}: {len(rows)} rows; 1-minute load average before: "
              f"{settings['load_average_before']}; seed {options.seed}")
    for area in broken:
        print(f"bench: {area} gave no result; its rows are missing")
    return 1 if broken else 0


if __name__ == "__main__":
    sys.exit(main())
