#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0 OR MIT
"""Does the watchdog say what a Tokio program hangs in, and nothing of one that does not hang?

    stuck.py [--build DIR] [--target DIR]

Runs the program `stuck` under `kymo run`, each time in another way, and watches its ring from
another process (watch_ring). Output is TAP; how long after its threshold a rule fired is in
comments and not asserted.
"""
import json
import os
import pathlib
import platform
import shutil
import signal
import subprocess
import sys
import tempfile
import time

from matrix import Tap, build, options_of

NUMBERS = {"x86_64": {"futex": 202, "read": 0}, "aarch64": {"futex": 98, "read": 63}}
THRESHOLD_MS = 300


class Stuck:
    """The program, hanging; ends with the block."""

    def __init__(self, options, folder, way, *more):
        self.scratch = tempfile.TemporaryDirectory(prefix="kymo-stuck-")
        rings = pathlib.Path(self.scratch.name) / "rings"
        rings.mkdir(mode=0o700)
        self.child = subprocess.Popen(
            [str(options.build / "kymo"), "run", "-q", *more, "--ring-dir", str(rings),
             "-o", str(pathlib.Path(self.scratch.name) / "traces"), "--",
             str(folder / "stuck"), way],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        line = self.child.stdout.readline().split()
        if line[:1] != ["stuck"]:
            raise RuntimeError(f"stuck {way} said {line}")
        self.pid = int(line[1])
        self.ring = next(rings.rglob("*.ring"))
        while self.magic() == bytes(8):  # made in advance, nothing recorded yet
            time.sleep(0.01)

    def magic(self):
        with self.ring.open("rb") as file:
            return file.read(8)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.child.stdin.close()
        self.child.wait(timeout=60)
        self.scratch.cleanup()


def watch(options, stuck, rules, firings=1, seconds=30):
    """(firings, how the watch ended)"""
    done = subprocess.run(
        [str(options.build / "test/unit/tokio/watch_ring"), str(stuck.ring), str(stuck.pid), rules,
         str(firings), str(seconds)], capture_output=True, text=True, timeout=120, check=True)
    lines = [json.loads(line) for line in done.stdout.splitlines()]
    return lines[:-1], lines[-1]


def check_way(tap, options, folder, way, syscall, state):
    with Stuck(options, folder, way) as stuck:
        fired, _ = watch(options, stuck, f"poll>{THRESHOLD_MS}ms")
    notes = fired[0]["notes"] if fired else []
    good = [note for note in notes if note["syscall"] == syscall and note["state"] == state]
    tap.check(fired and notes and len(good) == len(notes) and
              fired[0]["value"] > THRESHOLD_MS * 1000000 and fired[0]["tid"] == notes[0]["tid"],
              f"{way}: fires and notes system call {syscall}, state {state}", str(fired))
    for one in fired:
        wchan = ", ".join(sorted({note["wchan"] for note in notes}))
        print(f"# {way}: {one['text']} of {THRESHOLD_MS} ms, {len(notes)} notes, in {wchan}")
    tap.check(all(note["pc"] for note in notes) == (syscall >= 0), f"{way}: pc where it waits",
              str(notes))
    # A blocked thread gets no CPU and needs none.
    grew = [notes[-1][key] - notes[0][key] for key in ("cpu_ns", "run_delay_ns")] if notes else []
    tap.check(notes and all(note["counted"] and note["cpu_ns"] for note in notes) and
              (syscall < 0 or grew == [0, 0]),
              f"{way}: every check has what the kernel counted" +
              (", nothing of it between them" if syscall >= 0 else ""), str(notes))
    print(f"# {way}: ran and waited for a CPU {grew} ns between the checks")
    if syscall >= 0:
        # From the blocking call through Tokio to the thread's first function. The first checks may
        # come before there are tables.
        tap.check(notes and notes[-1]["frames"] > 8 and notes[-1]["whole"],
                  f"{way}: the last check has the whole stack", str(notes))
    else:
        tap.check(notes and not any(note["frames"] for note in notes),
                  f"{way}: no stack is made up of a thread that runs", str(notes))


def check_all_workers(tap, options, folder):
    with Stuck(options, folder, "all-workers") as stuck:
        fired, _ = watch(options, stuck, f"stall>{THRESHOLD_MS}ms")
    threads = {note["tid"] for one in fired for note in one["notes"]}
    tap.check(len(fired) == 1 and fired[0]["runtime"] and len(threads) == 2,
              "every worker hangs: the runtime stalls, with both threads' notes", str(fired))


def check_silent(tap, options, folder, way):
    with Stuck(options, folder, way) as stuck:
        fired, end = watch(options, stuck, "poll>200ms; stall>200ms", seconds=3)
    tap.check(not fired and end["end"] == "over", f"{way}: silent", f"{fired} {end}")


def check_stopped(tap, options, folder):
    """Stopped long before the threshold, and for longer than that."""
    with Stuck(options, folder, "read") as stuck:
        os.kill(stuck.pid, signal.SIGSTOP)
        fired, end = watch(options, stuck, "poll>4s", seconds=8)
        os.kill(stuck.pid, signal.SIGCONT)
    tap.check(not fired and end["stopped"] == 1, "stopped: silent, and counted",
              f"{fired} {end}")


def check_killed(tap, options, folder):
    with Stuck(options, folder, "read") as stuck:
        os.kill(stuck.pid, signal.SIGKILL)
        fired, end = watch(options, stuck, "poll>2s", seconds=30)
    tap.check(not fired and end["end"] == "gone", "killed: silent, and the watch ends",
              f"{fired} {end}")


def count_samples(options, stuck, tid):
    """Of a thread, in a dump of now."""
    with tempfile.TemporaryDirectory(prefix="kymo-stuck-") as scratch:
        file = pathlib.Path(scratch) / "now.trc.zst"
        subprocess.run([str(options.build / "kymo"), "dump", "--ring-dir", str(stuck.ring.parent),
                        "-o", str(file), str(stuck.pid)], capture_output=True, check=True)
        reply = subprocess.run([str(options.build / "kymo"), "events", "-t", "CpuSampleEvent",
                               "--json", str(file)], capture_output=True, text=True, check=False)
    return sum(json.loads(line)["fields"]["tid"] == tid for line in reply.stdout.splitlines())


def check_recovered(tap, options, folder):
    """Its recorder and itself killed while it spins: recover says where it was seen last."""
    with Stuck(options, folder, "spin", "--mode", "flight") as stuck:
        fired, _ = watch(options, stuck, f"poll>{THRESHOLD_MS}ms")
        tid = fired[0]["tid"]
        end = time.monotonic() + 60
        while not count_samples(options, stuck, tid) and time.monotonic() < end:
            time.sleep(0.05)
        stuck.child.kill()
        stuck.child.wait(timeout=60)  # until then it holds the ring, and nothing is recovered
        os.kill(stuck.pid, signal.SIGKILL)
        while pathlib.Path(f"/proc/{stuck.pid}/task/{tid}").exists():
            time.sleep(0.01)
        recovered, end = "", time.monotonic() + 60
        while not recovered and time.monotonic() < end:  # its other threads may end after it
            time.sleep(0.01)
            recovered = subprocess.run(
                [str(options.build / "kymo"), "recover", "--json", "--ring-dir",
                 str(stuck.ring.parent), "-o", stuck.scratch.name], capture_output=True, text=True,
                timeout=120, check=True).stdout
    reply = [one for one in json.loads(recovered or "{}").get("open_poll_stacks", [])
            if one["tid"] == tid]
    names = [frame["function"] for one in reply for frame in one["stack"]]
    tap.check(reply and reply[0]["seen"] == "running" and
              any(name.startswith("stuck::") for name in names),
              "killed with its recorder: recover names where the open poll was seen last",
              recovered[-2000:])


def main():
    options = options_of(__doc__)
    numbers = NUMBERS.get(platform.machine())
    if shutil.which("cargo") is None or numbers is None:
        print("1..0 # SKIP no cargo here, or unknown numbers of system calls")
        return 0
    tap = Tap()
    folder = build(options.target, "newest", "stable", "release", "pie", programs=["stuck"])
    check_way(tap, options, folder, "mutex", numbers["futex"], "S")
    check_way(tap, options, folder, "read", numbers["read"], "S")
    check_way(tap, options, folder, "spin", -1, "R")
    check_all_workers(tap, options, folder)
    for way in ("idle", "blocking", "in-place"):
        check_silent(tap, options, folder, way)
    check_stopped(tap, options, folder)
    check_killed(tap, options, folder)
    check_recovered(tap, options, folder)
    return tap.end()


if __name__ == "__main__":
    sys.exit(main())
