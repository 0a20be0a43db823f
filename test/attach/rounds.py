#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0 OR MIT
"""kymo attach and detach, over and over, on Tokio programs under load.

    rounds.py [--build DIR] [--target DIR] [--rounds N]

DIR is a build of this tree without sanitizers; the programs are built with cargo below --target.
The program is an echo server with its clients, each of which insists on every answer, and says at
its end how many polls there were. Output is TAP.
"""
import argparse
import json
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parent.parent
sys.path[:0] = [str(ROOT / "test/tokio"), str(ROOT / "tools")]
import matrix  # noqa: E402  (the builds of the witnesses are its)
from unittest_tap import DEADLINE_S, wait_until  # noqa: E402

BORROWED = re.compile(r"a thread was borrowed for (\d+) us")
CONNECTIONS, REQUESTS, WORKERS = 50, 4000, 2
SERVED_S = 600  # until all are served, by a machine that has other things to do
# Without pie some have their tables in memory that was never writable; fat inlines what it can.
BUILDS = matrix.DIAGONAL


class Trouble(Exception):
    """What was promised did not come."""


class Program:
    """One run of the echo server; a new one begins when it has served all."""

    def __init__(self, folder, rings):
        self.command = [folder / "echo", str(CONNECTIONS), str(REQUESTS), str(WORKERS)]
        self.environment = {**os.environ, "KYMO_RING_DIR": str(rings)}
        self.process = None
        self.ended = 0

    def pid(self):
        """Of one that runs; those that ended have served every request."""
        if self.process is None or self.process.poll() is not None:
            self.finish()
            self.process = subprocess.Popen(self.command, env=self.environment,
                                            stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                                            text=True)
            wait_until(self.is_under_way)
        return self.process.pid

    def is_under_way(self):
        """Its workers are there, or were: before that no thread parks that could be borrowed."""
        try:
            threads = len(os.listdir(f"/proc/{self.process.pid}/task"))
        except FileNotFoundError:
            threads = 0
        return threads > WORKERS or self.process.poll() is not None

    def finish(self):
        if self.process is None:
            return None
        out, err = self.process.communicate(timeout=SERVED_S)
        if self.process.returncode != 0 or err:
            raise Trouble(f"the server ended with {self.process.returncode}: {err}")
        self.process = None
        self.ended += 1
        return json.loads(out)


def is_gone(said):
    return re.search(r"ended meanwhile|does not exist|has ended", said) is not None


def rounds(options, folder, count):
    """Returns a sentence about all rounds."""
    with tempfile.TemporaryDirectory(prefix="kymo-rounds-") as rings:
        os.chmod(rings, 0o700)
        program = Program(folder, rings)
        done, missed, times = 0, 0, []
        while done < count:
            pid = program.pid()
            ok = True
            for command in ("attach", "detach"):
                answer = subprocess.run([options.kymo, command, str(pid)], capture_output=True,
                                        text=True, timeout=DEADLINE_S, check=False)
                if answer.returncode != 0:
                    if not is_gone(answer.stderr) and program.process.poll() is None:
                        raise Trouble(f"round {done}: {answer.stderr}")
                    missed += 1
                    ok = False
                    break
                times.append(int(BORROWED.search(answer.stdout)[1]))
            done += ok
        program.finish()
        times.sort()
        left = [name for name in os.listdir(rings) if not name.startswith(".")]
        if len(left) > missed:
            raise Trouble(f"rings are left: {left}")
        return (f"{done} rounds, {program.ended} servers of {CONNECTIONS * REQUESTS} requests, no "
                f"request failed; a thread was borrowed for {times[len(times) // 2]} us (median), "
                f"{times[-1]} us (longest)")


def counts(options, folder):
    """What is recorded after an attach lies within what the program counted itself."""
    with tempfile.TemporaryDirectory(prefix="kymo-rounds-") as rings:
        os.chmod(rings, 0o700)
        program = Program(folder, rings)
        trace = pathlib.Path(rings) / "trace.trc"
        stream = subprocess.run([options.kymo, "attach", "--mode", "stream", "--ring-dir", rings,
                                 "-o", trace, str(program.pid())], capture_output=True, text=True,
                                timeout=SERVED_S, check=False)
        witness = program.finish()
        if stream.returncode != 0:
            raise Trouble(stream.stderr)
        info = json.loads(subprocess.run([options.kymo, "info", "--json", trace], check=True,
                                         capture_output=True, text=True).stdout)
        if not 0 < info["polls"] <= witness["polls"] or info["lost_records"]:
            raise Trouble(f"{info['polls']} polls recorded of {witness['polls']}, "
                          f"{info['lost_records']} records lost")
        if len(info["workers"]) != WORKERS or not all(one["parks"] for one in info["workers"]):
            raise Trouble(f"workers without a park: {info['workers']}")
        return f"{info['polls']} polls recorded of {witness['polls']}"


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    parser.add_argument("--build", type=pathlib.Path, default=ROOT / "build")
    parser.add_argument("--target", type=pathlib.Path, default=ROOT / "build/witness")
    parser.add_argument("--rounds", type=int, default=20)
    options = parser.parse_args()
    options.kymo = options.build.resolve() / "kymo"
    if shutil.which("cargo") is None:
        print("1..0 # SKIP no cargo here")
        return 0
    failed = number = 0
    for axes in BUILDS:
        folder = matrix.build(options.target.resolve(), *axes, programs=["echo"])
        label = " ".join(axes)
        cases = [(f"rounds on {label}", rounds, (options.rounds,)),
                 (f"counts on {label}", counts, ())]
        for name, case, more in cases:
            number += 1
            try:
                print(f"# {case(options, folder, *more)}")
                print(f"ok {number} - {name}", flush=True)
            except (Trouble, TimeoutError, subprocess.TimeoutExpired) as trouble:
                failed += 1
                print(f"not ok {number} - {name}\n# {trouble}", flush=True)
    print(f"1..{number}")
    return failed != 0


if __name__ == "__main__":
    sys.exit(main())
