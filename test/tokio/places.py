#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0 OR MIT
"""Where tasks wait: what `kymo dump --tasks` says of a program whose await places are known.

    places.py [--build DIR] [--target DIR] [--only TEXT]

Over {newest, oldest Tokio} x {release, abort, debug, fat}: each task's chain has the leaf that
waits and the program's own function, ended tasks are gone, no future is polled more often than it
asked for, switching off is reported, and a process that is stopped or dead reports the same.
Output is TAP.
"""
import json
import os
import pathlib
import platform
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE))
from matrix import Tap, build, options_of  # noqa: E402

PROFILES = ("release", "abort", "debug", "fat")
LEAF_FRAMES = 12
# What the program's futures are polled by design: 23 twice, 11 once, and one five times. Less where
# a timer had run out before it was asked.
POLLS_MAX = 62
READY_S = 60
# Own function -> what of Tokio must be in the chain of one of its places, or what it was inlined
# into; of a select in all.
EXPECTED = {
    "wait_accept": ["readiness|tcplistener"],
    "wait_read": ["scheduled_io|registration"],
    "wait_mutex": ["batch_semaphore"],
    "wait_semaphore": ["batch_semaphore"],
    "wait_oneshot": ["oneshot"],
    "wait_mpsc": ["mpsc"],
    "wait_sleep": ["time"],
    "wait_join": ["task"],
    "wait_second": ["batch_semaphore"],
    "wait_after_tick": ["batch_semaphore"],
    "wait_after_sleep": ["batch_semaphore"],
    "wait_tick": ["time"],
    "wait_select": ["mpsc", "oneshot", "time"],
    "wait_by_one_way": ["batch_semaphore"],
    "wait_by_another": ["batch_semaphore"],
}
ROOT_BIT = 1 << 39 # block_on's futures have no number of Tokio's
# Timers of Tokio 1.38 keep the waker of a tick that was due: it is no different from a wait.
STALE = {"v1_38": {"wait_after_tick"}}


def words(process):
    return json.loads(process.stdout.readline())


def kymo(options, *arguments):
    return subprocess.run([str(options.kymo), *map(str, arguments)], capture_output=True, text=True,
                          timeout=120, check=False)


def start(options, program, folder, *arguments):
    environment = dict(os.environ, KYMO_RING_DIR=str(folder / "rings"))
    (folder / "rings").mkdir(mode=0o700, exist_ok=True)
    os.environ["KYMO_RING_DIR"] = environment["KYMO_RING_DIR"]
    command = [str(options.kymo), "run", "-o", str(folder / "out"), *map(str, arguments), "--",
               str(program), "600"]
    process = subprocess.Popen(command, env=environment, stdin=subprocess.PIPE,
                               stdout=subprocess.PIPE, text=True, stderr=subprocess.DEVNULL)
    await_tables(options, words(process)["pid"])
    process.stdin.write("\n")
    process.stdin.close()
    return process, words(process)


def await_tables(options, pid):
    """The tables to walk by are made while the program runs: it starts its tasks when there are."""
    until = time.monotonic() + READY_S
    while time.monotonic() < until:
        report, _ = tasks_of(options, pid)
        if report and any("wait_for_line" in frame and not task["truncated"]
                          for place in report["places"] for task in place["waiting"]
                          for frame in frames_of(place, task)):
            return
    raise RuntimeError(f"no chain of a waiting task within {READY_S} s")


def stop(process, pid):
    try:
        os.kill(pid, signal.SIGKILL)
    except ProcessLookupError:
        pass
    process.wait(timeout=60)
    process.stdout.close()


def tasks_of(options, pid):
    done = kymo(options, "dump", pid, "--tasks", "--json")
    return (json.loads(done.stdout), "") if done.returncode == 0 else (None, done.stderr)


def frames_of(place, task):
    """Tasks may come to a place by several ways: a function that others share."""
    return task.get("frames", place["frames"])


def chains(report):
    """Places with their tasks, by the program's own function in the chain."""
    found = {}
    for place in report["places"]:
        for task in place["waiting"]:
            for own in EXPECTED:
                if any(own in frame for frame in frames_of(place, task)):
                    found.setdefault(own, []).append((place, task))
    return found


def check_report(tap, name, report):
    found = chains(report)
    for own, leaves in EXPECTED.items():
        places = found.get(own, [])
        text = json.dumps([place for place, _ in places])[:3000]
        for leaf in leaves:
            fits = any(re.search(leaf, " ".join(frames_of(*place)[:LEAF_FRAMES]).lower())
                       for place in places)
            tap.check(fits, f"{name}: {own} waits in {leaf}, called by the program", text)
        tap.check(all(not task["truncated"] for _, task in places) and bool(places),
                  f"{name}: the chains of {own} reach the poll", text)
    counted = sum(place["task_count"] for place in report["places"])
    tap.check(counted == report["tasks"], f"{name}: each task is counted once",
              f"{counted} of {report['tasks']}")
    # Who woke it may not have let go of its waker: then an older place is there, said to be unsure.
    # The socket that the root has connected keeps its waker, if that had to wait.
    several = {task["task"]: task["places"] for place in report["places"]
               for task in place["waiting"] if task["places"] > 1 and place["state"] != "moved"
               and task["task"] < ROOT_BIT}
    stale = {task["task"] for own in STALE.get(name.split()[0], ())
             for _, task in found.get(own, [])}
    selects = {task["task"] for _, task in found.get("wait_select", [])}
    tap.check(len(selects) == 1 and several.get(*selects) == len(EXPECTED["wait_select"]),
              f"{name}: a task of a select says at how many places it is", f"{several}, {selects}")
    tap.check(several.keys() - stale == selects,
              f"{name}: a task that went by a leaf waits at the next alone",
              f"{several}, {selects}, {stale}")
    spawned = {task["task"] for place in report["places"] for task in place["waiting"]
               if task["task"] < ROOT_BIT}
    tap.check(len(spawned) <= len(EXPECTED), f"{name}: tasks that ended are gone",
              str(report["tasks"]))


def check_live(tap, options, program, name):
    with tempfile.TemporaryDirectory(prefix="kymo-places-") as text:
        process, said = start(options, program, pathlib.Path(text))
        pid = said["pid"]
        report, trouble = tasks_of(options, pid)
        try:
            tap.check(report is not None, f"{name}: dump --tasks answers", trouble)
            if report:
                check_report(tap, name, report)
            tap.check(said["polls"] <= POLLS_MAX, f"{name}: no task is polled more often",
                      str(said["polls"]))
            os.kill(pid, signal.SIGSTOP)
            again, trouble = tasks_of(options, pid)
            os.kill(pid, signal.SIGCONT)
            tap.check(again is not None and len(chains(again)) == len(EXPECTED),
                      f"{name}: a stopped process reports as much", trouble)
        finally:
            stop(process, pid)


def check_off(tap, options, program):
    with tempfile.TemporaryDirectory(prefix="kymo-places-") as text:
        process, said = start(options, program, pathlib.Path(text))
        done = kymo(options, "set", said["pid"], "places=off")
        status = kymo(options, "status", "--json", said["pid"])
        stop(process, said["pid"])
    setting = json.loads(status.stdout)["settings"]["places"] if status.returncode == 0 else None
    tap.check(done.returncode == 0 and setting == "off",
              "off: a running process is set so", done.stderr + status.stdout[:2000])


def is_running(pid):
    try:
        state = pathlib.Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except (FileNotFoundError, ProcessLookupError):
        return False
    return state not in "ZX"


def check_dead(tap, options, program):
    """What recover says of a process that is gone, and whose recorder is, too."""
    with tempfile.TemporaryDirectory(prefix="kymo-places-") as text:
        folder = pathlib.Path(text)
        process, said = start(options, program, folder, "--mode", "flight")
        process.send_signal(signal.SIGKILL)
        process.wait(timeout=60)
        os.kill(said["pid"], signal.SIGKILL)
        while is_running(said["pid"]):
            time.sleep(0.01)
        done = kymo(options, "recover", "--tasks", "--json", "-o", folder, said["pid"])
        process.stdout.close()
    lines = [json.loads(line) for line in done.stdout.splitlines() if line.startswith("{")]
    report = next((line for line in lines if "places" in line), None)
    tap.check(report is not None and len(chains(report)) == len(EXPECTED),
              "dead: recover says where its tasks waited", done.stdout[:2000] + done.stderr)


def main():
    options = options_of(__doc__, ("--only", {"default": ""}))
    options.kymo = options.build / "kymo"
    if platform.machine() != "x86_64" or shutil.which("cargo") is None:
        print("1..0 # SKIP no thunks for this CPU, or no cargo")
        return 0
    tap = Tap()
    for tokio in ("newest", "v1_38"):
        for profile in PROFILES:
            name = f"{tokio} {profile}"
            if options.only not in name:
                continue
            program = build(options.target, tokio, "stable", profile, "pie",
                            programs=["places"]) / "places"
            check_live(tap, options, program, name)
    if options.only in "newest release":
        program = build(options.target, "newest", "stable", "release", "pie",
                        programs=["places"]) / "places"
        check_off(tap, options, program)
        check_dead(tap, options, program)
    return tap.end()


if __name__ == "__main__":
    sys.exit(main())
