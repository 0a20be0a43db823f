#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0 OR MIT
"""The crates: does a program with the one line record exactly what it says about itself?

    run.py [--gate] [--only TEXT] [--build DIR] [--target DIR]

Builds and runs the examples of crates/ and reads their traces with `kymo`. --gate: the smallest
one alone, as a release build. Output is TAP.
"""
import argparse
import json
import os
import pathlib
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
sys.path.insert(0, str(ROOT / "test" / "tokio"))
from matrix import Tap  # noqa: E402  pylint: disable=wrong-import-position

RUN_S = 120


class Ran:
    """A program that has ended, and the folder with its traces."""

    def __init__(self, done, folder):
        self.status, self.out, self.errors = done.returncode, done.stdout, done.stderr
        self.folder = folder

    def detail(self):
        return f"exit status {self.status}\n{self.out}\n{self.errors}"


def run(argv, folder, **variables):
    environment = {key: value for key, value in os.environ.items() if not key.startswith("KYMO_")}
    environment.update(KYMO_MODE="stream", KYMO_TRACE_DIR=str(folder / "traces"),
                       KYMO_RING_DIR=str(folder / "rings"))
    environment.update(variables)
    (folder / "rings").mkdir(mode=0o700, exist_ok=True)
    return Ran(subprocess.run([str(word) for word in argv], env=environment, cwd=folder, text=True,
                              capture_output=True, timeout=RUN_S, check=False), folder)


def counts(kymo, traces):
    """{"PollStartEvent": 10050, ...} of every segment in the folder."""
    done = subprocess.run([kymo, "info", traces], text=True, capture_output=True, check=False)
    table, is_table = {}, False
    for line in done.stdout.splitlines():
        words = line.split()
        if words[:1] == ["Event"]:
            is_table = True
        elif is_table and len(words) == 2:
            table[words[0]] = int(words[1].replace(",", ""))
        elif is_table:
            break
    return table


def build(options, package, *arguments, profile="release"):
    environment = dict(os.environ, CARGO_TARGET_DIR=str(options.target))
    done = subprocess.run(
        ["cargo", "build", "--locked", "--quiet", "--profile", profile, "-p", package, *arguments],
        cwd=ROOT / "crates", env=environment, text=True, capture_output=True, check=False)
    if done.returncode != 0:
        raise RuntimeError(f"cargo build -p {package} failed:\n{done.stderr}")
    return options.target / ("debug" if profile == "dev" else profile) / "examples"


def compare(tap, options, name, ran):
    """The polls of the trace are those that the program counted."""
    found = counts(options.kymo, ran.folder / "traces")
    detail = f"{found}\n{ran.detail()}"
    said = ran.out.split()
    tap.check(ran.status == 0 and len(said) == 1, f"{name}: ends as without kymo", detail)
    tap.check(said and found.get("PollStartEvent") == int(said[0]) == found.get("PollEndEvent"),
              f"{name}: every poll is recorded once", detail)
    tap.check(found.get("TaskTerminateEvent") == 50, f"{name}: every end is recorded once", detail)


def check_minimal(tap, options):
    """One line in main: alone, stripped, under `kymo run`, switched off, and in flight mode."""
    program = build(options, "kymo", "--example", "minimal") / "minimal"
    with tempfile.TemporaryDirectory(prefix="kymo-crates-") as name:
        folder = pathlib.Path(name)
        for case in ("alone", "stripped", "run", "off", "wrong", "flight"):
            (folder / case).mkdir()
        compare(tap, options, "minimal", run([program], folder / "alone"))

        bare = folder / "bare"
        subprocess.run(["strip", "-o", bare, program], check=True)
        ran = run([bare], folder / "stripped")
        compare(tap, options, "minimal, stripped", ran)
        tap.check("shaped=0" not in ran.errors and "ok tables=" in ran.errors,
                  "minimal, stripped: its tables were found by their shape", ran.errors)

        ran = run([options.kymo, "run", "-o", folder / "run" / "traces", "--", program],
                  folder / "run")
        compare(tap, options, "minimal, under kymo run", ran)
        runs = list((folder / "run" / "traces").rglob("*.trc*"))
        tap.check("records itself" in ran.errors and len(runs) == 1,
                  "under kymo run the crate alone records, and the launcher says so",
                  f"{runs}\n{ran.errors}")

        ran = run([program], folder / "off", KYMO_ENABLED="false")
        tap.check(ran.status == 0 and not (folder / "off" / "traces").exists(),
                  "switched off it leaves no trace", ran.detail())
        ran = run([program], folder / "wrong", KYMO_RING_BYTES="many")
        tap.check(ran.status == 0 and "KYMO_RING_BYTES" in ran.errors and "many" in ran.errors,
                  "a variable that makes no sense is named, and the program runs", ran.detail())
        ran = run([program], folder / "flight", KYMO_MODE="flight")
        tap.check(ran.status == 0 and not list((folder / "flight").rglob("*.trc*"))
                  and not list((folder / "flight" / "rings").iterdir()),
                  "in flight mode it leaves neither a trace nor its ring", ran.detail())


def events_of(kymo, traces):
    done = subprocess.run([kymo, "events", "--json", traces], text=True, capture_output=True,
                          check=False)
    return [json.loads(line) for line in done.stdout.splitlines()]


def check_events(tap, options):
    """Events, spans, requests, counters and labels of the application, as it wrote them."""
    program = build(options, "kymo", "--example", "events") / "events"
    with tempfile.TemporaryDirectory(prefix="kymo-crates-") as name:
        ran = run([program], pathlib.Path(name))
        tap.check(ran.status == 0 and ran.out.split() == ["100"], "events: ends as without kymo",
                  ran.detail())
        rows = events_of(options.kymo, ran.folder / "traces")
        tap.check(not [row for row in rows if row["event"] == "LossEvent"],
                  "events: nothing is lost")
        orders = {row["fields"]["id"]: row["fields"] for row in rows
                  if row["event"] == "OrderPlaced"}
        wanted = {number: {
            "id": number, "price": number / 4, "took": number * 1000,
            "note": "näher" * (number % 5), "is_gift": number % 2 == 0, "balance": -number,
            "to.country": "de", "to.zip": None if number % 3 else 10115} for number in range(100)}
        found = {number: {key: fields.get(key) for key in wanted[0]}
                 for number, fields in orders.items()}
        tap.check(found == wanted, "events: each has the values that were written", str(found))
        tap.check(all(fields["task_id"] for fields in orders.values()),
                  "events: each names the task that is polled", str(orders))
        begun = {row["fields"]["span_id"]: row["fields"] for row in rows
                 if row["event"].startswith("SpanEnter")}
        parents = [begun.get(fields["parent_span_id"], {}).get("span_name")
                   for fields in begun.values() if fields["span_name"] == "place order"]
        tap.check(parents == ["POST /order"] * 100,
                  "events: a span in a spawned task belongs to the request", str(parents))
        ended = [row for row in rows if row["event"].startswith("SpanExit")]
        tap.check(len(begun) == len(ended) == 200, "events: every span begins and ends")
        marks = [row for row in rows if row["event"] == "AnnotationEvent"]
        tap.check(len(marks) == 1 and "the shop opens" in str(marks), "events: the label is there",
                  str(marks))
        counters = [row["fields"] for row in rows if row["event"] == "CounterEvent"]
        tap.check(counters and 100 in counters[-1].values(), "events: the counter's last value",
                  str(counters))


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    parser.add_argument("--gate", action="store_true")
    parser.add_argument("--only", default="")
    parser.add_argument("--build", type=pathlib.Path, default=ROOT / "build")
    parser.add_argument("--target", type=pathlib.Path)
    options = parser.parse_args()
    options.build = options.build.resolve()
    options.kymo = options.build / "kymo"
    options.target = (options.target or options.build / "crates").resolve()
    tap = Tap()
    done = subprocess.run(["tools/build.sh", "gcc", "kymo", "adapters/tokio/libkymo-preload.so"],
                          cwd=ROOT, text=True, capture_output=True, check=False)
    tap.check(done.returncode == 0, "kymo builds", done.stdout + done.stderr)
    checks = [check_minimal, check_events]
    for check in checks:
        if options.only in check.__name__:
            check(tap, options)
    return tap.end()


if __name__ == "__main__":
    sys.exit(main())
