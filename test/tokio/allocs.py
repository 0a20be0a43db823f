#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0 OR MIT
"""Does the report say what an unmodified program itself counted: who allocated how much, and what
of it is live?

    allocs.py [--build DIR] [--target DIR]

Runs a program that allocates known amounts in known functions under `kymo run --alloc`: on the C
library's allocator, under one that is preloaded, and on two that are linked into it, which no
hook covers and the trace says so. Output is TAP; the estimates are in comments.
"""
import glob
import json
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile

from matrix import HERE, Tap, host, options_of

# Without -m or an installed package there is none to preload.
PRELOADS = {"jemalloc": "libjemalloc.so.2", "mimalloc": "libmimalloc.so*"}


def build(target_root):
    """The folder of the programs."""
    target = target_root / "allocates"
    done = subprocess.run(
        ["cargo", "build", "--locked", "--quiet", "--bins", "--release", "--target", host()],
        cwd=HERE / "allocates", env=dict(os.environ, CARGO_TARGET_DIR=str(target)),
        capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise RuntimeError(f"cargo build failed in test/tokio/allocates:\n{done.stderr}")
    return target / host() / "release"


class Program:
    """A program under `kymo run`, what it says of itself and what the trace has."""

    def __init__(self, options, scratch, program, *arguments, preload=None):
        self.kymo = str(options.build / "kymo")
        self.trace = scratch / "trace.trc.zst"
        environment = dict(os.environ)
        if preload:
            environment["LD_PRELOAD"] = preload
        done = subprocess.run(
            [self.kymo, "run", "-q", *arguments, "--ring-dir", str(scratch / "rings"), "-o",
             str(self.trace), "--", str(program)],
            env=environment, capture_output=True, text=True, timeout=120, check=True)
        self.said = done.stderr
        self.truth = {}
        for line in done.stdout.splitlines():
            name, total, live = line.split()
            sums = self.truth.setdefault(name, [0, 0])
            sums[0] += int(total)
            sums[1] += int(live)

    def report(self, *arguments):
        done = subprocess.run([self.kymo, "report", "--full", *arguments, str(self.trace)],
                              capture_output=True, text=True, timeout=120, check=True)
        return json.loads(done.stdout) if "--json" in arguments else done.stdout

    def memory(self):
        return self.report("--json")["tables"]["profile"]["memory"]

    def metadata(self):
        done = subprocess.run([self.kymo, "info", "--json", str(self.trace)],
                              capture_output=True, text=True, timeout=120, check=True)
        return json.loads(done.stdout)["metadata"]


def sums_of(memory, function, what):
    """Estimate and standard deviation of all stacks of a function."""
    rows = [row[what] for row in memory["stacks"]
            if any(function in line["function"] for line in row["stack"])]
    return (sum(row["estimate"] for row in rows),
            sum((row["margin"] / 1.96) ** 2 for row in rows) ** 0.5)


def check_truth(tap, way, program):
    """Four standard deviations: a test must not fail one time in twenty."""
    memory = program.memory()
    for function, (total, live) in program.truth.items():
        for what, truth in (("bytes", total), ("live_bytes", live)):
            estimate, deviation = sums_of(memory, function, what)
            print(f"# {way}: {function} {what}: {estimate / 1e6:.2f} "
                  f"+- {1.96 * deviation / 1e6:.2f} MB, truth {truth / 1e6:.2f}")
            # A mebibyte of what the runtime and the channels allocate beside.
            tap.check(abs(estimate - truth) <= 4 * deviation + (1 << 20),
                      f"{way}: {function}: {what}", f"{estimate} of {truth}")
            tap.check(truth < 4 << 20 or 0 < deviation < truth / 4,
                      f"{way}: {function}: {what} from enough of them", f"{deviation}")


def check_leak(tap, way, program):
    """The report's first row names what leaks, and how it grew."""
    text = program.report()
    memory = program.memory()
    rows = text[text.index("Memory"):].splitlines()[1:]
    first = next((row for row in rows if "allocates::" in row), "")
    tap.check("known_leak" in first, f"{way}: the report's first row is the leak",
              "\n".join(rows[:6]))
    growth, deviation = sums_of(memory, "known_leak", "growth")
    truth = 3000 * 16384
    print(f"# {way}: known_leak grew by {growth / 1e6:.2f} +- {1.96 * deviation / 1e6:.2f} MB, "
          f"truth {truth / 1e6:.2f}")
    tap.check(abs(growth - truth) <= 4 * deviation + (1 << 20),
              f"{way}: it grew by that in the second half", f"{growth} of {truth}")
    passed, deviation = sums_of(memory, "known_passed_on", "growth")
    tap.check(abs(passed) <= 4 * deviation + (1 << 20), f"{way}: the others did not",
              f"{passed}")


def check_flight(tap, program):
    """Of a run that was never streamed: what is live is known, however long ago it began."""
    memory = program.memory()
    live = sum(live for _, live in program.truth.values())
    estimate = memory["live_bytes"]["estimate"]
    deviation = memory["live_bytes"]["margin"] / 1.96
    print(f"# flight: live {estimate / 1e6:.2f} +- {1.96 * deviation / 1e6:.2f} MB, "
          f"truth {live / 1e6:.2f}")
    tap.check(abs(estimate - live) <= 4 * deviation + (2 << 20),
              "flight: the dump knows all that is live", f"{estimate} of {live}")
    leak, deviation = sums_of(memory, "known_leak", "live_bytes")
    truth = program.truth["known_leak"][1]
    tap.check(abs(leak - truth) <= 4 * deviation + (1 << 20), "flight: and whose it is",
              f"{leak} of {truth}")


def check_attack(tap, program):
    """Threads, signals, children, libraries: all is freed but what is known to be kept."""
    memory = program.memory()
    count = memory["live_bytes"]["count"]
    check_truth(tap, "attack", program)
    estimate = memory["live_bytes"]["estimate"]
    deviation = memory["live_bytes"]["margin"] / 1.96
    truth = program.truth["known_kept"][1]
    print(f"# attack: {count} live, {estimate / 1e6:.2f} +- {1.96 * deviation / 1e6:.2f} MB")
    tap.check(abs(estimate - truth) <= 4 * deviation + (1 << 20),
              "attack: nothing else is live", f"{estimate} of {truth}")


def find_library(pattern):
    for folder in ("/usr/lib/*", "/usr/lib", "/usr/local/lib"):
        for path in sorted(glob.glob(f"{folder}/{pattern}")):
            return path
    return None


def check_linked(tap, options, scratch, folder, name):
    program = Program(options, scratch, folder / name, "--alloc=64K")
    metadata = program.metadata()
    tap.check(name in metadata.get("alloc.unseen", ""), f"{name}: the trace says which is not seen",
              str(metadata))
    memory = program.memory()
    tap.check(sums_of(memory, "known_", "bytes")[0] == 0, f"{name}: and reports none of it")
    text = program.report()
    tap.check(f"{name}: linked into the program" in text, f"{name}: the report says it, too",
              text[-1000:])
    doctor = subprocess.run([program.kymo, "doctor", str(folder / name)], capture_output=True,
                            text=True, timeout=60, check=False).stdout
    tap.check(f"{name}, linked into it" in doctor, f"{name}: kymo doctor knows before", doctor)


def main():
    options = options_of(__doc__)
    if shutil.which("cargo") is None:
        print("1..0 # SKIP no cargo here")
        return 0
    tap = Tap()
    folder = build(options.target)
    with tempfile.TemporaryDirectory(prefix="kymo-allocs-") as held:
        scratch = pathlib.Path(held)
        program = Program(options, scratch, folder / "system", "--alloc=64K")
        check_truth(tap, "system", program)
        check_leak(tap, "system", program)
        tap.check("slots" in program.metadata()["alloc.source"], "the trace says how",
                  str(program.metadata()))
        tap.check(program.metadata().get("alloc.interval_bytes") == "65536", "and how many",
                  str(program.metadata()))
        flight = Program(options, scratch, folder / "system", "--alloc=64K", "--mode=flight",
                         "--sample-bytes=256K")
        check_flight(tap, flight)
        check_attack(tap, Program(options, scratch, folder / "attack", "--alloc=64K",
                                  "--sample-bytes=64M"))
        for name, pattern in PRELOADS.items():
            library = find_library(pattern)
            if library:
                check_truth(tap, f"{name} preloaded",
                            Program(options, scratch, folder / "system", "--alloc=64K",
                                    preload=library))
            else:
                print(f"# {name}: no {pattern} here to preload")
            check_linked(tap, options, scratch, folder, name)
        plain = Program(options, scratch, folder / "system")
        tap.check(plain.memory()["bytes"]["count"] == 0, "nothing is sampled unasked")
        tap.check("alloc.source" not in plain.metadata(), "and nothing taken over")
    return tap.end()


if __name__ == "__main__":
    sys.exit(main())
