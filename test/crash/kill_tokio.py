#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0 OR MIT
"""SIGKILL of a Tokio program that knows nothing of us: every poll it noted is recovered.

    kill_tokio.py [--build DIR] [--kills N] [--seed N] [--target DIR]

test/tokio's program `killed` notes the task of each poll in a second shared file while it is in it.
What is recovered is held against that, thread by thread: the same tasks in the same order, and
noted <= recovered <= noted + 1. It is killed alone, with its `kymo run` watching, and together with
that, in both modes. Output is TAP.
"""
import argparse
import json
import mmap
import os
import pathlib
import random
import shutil
import signal
import struct
import subprocess
import sys
import tempfile
import time
import traceback

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parent.parent
sys.path.insert(0, str(HERE.parent / "tokio"))
from matrix import build  # noqa: E402 pylint: disable=wrong-import-position

DEADLINE_S = 120
# As in killed.rs.
SLOTS, POLLS = 256, 1 << 18
SLOT_BYTES = 16 + 8 * POLLS
EARLY_S, LATE_S, STREAM_S = 0.005, 0.06, 0.4
TASK_MASK = (1 << 48) - 1
RING = ["--ring-bytes", "256M"]


class Scene:
    def __init__(self, options, program):
        self.kymo, self.program = str(options.build / "kymo"), str(program)
        self.preload = str(options.build / "adapters/tokio/libkymo-preload.so")
        self.dir = pathlib.Path(tempfile.mkdtemp(prefix="kymo-kill-", dir="/dev/shm"))
        self.rings, self.out = self.dir / "rings", self.dir / "out"
        self.witness = self.dir / "witness"
        self.traces, self.said = [], ""

    def __enter__(self):
        return self

    def __exit__(self, *_):
        shutil.rmtree(self.dir, ignore_errors=True)

    def clear(self):
        for path in (self.rings, self.out):
            shutil.rmtree(path, ignore_errors=True)
            path.mkdir(mode=0o700)
        self.witness.unlink(missing_ok=True)
        self.witness.touch(mode=0o600)
        os.truncate(self.witness, SLOTS * SLOT_BYTES)

    def run(self, *words, **more):
        return subprocess.run([self.kymo, *map(str, words)], capture_output=True, text=True,
                              timeout=DEADLINE_S, check=False, **more)

    def noted(self):
        """Tasks in order, for each thread that polled."""
        with open(self.witness, "rb") as file, \
                mmap.mmap(file.fileno(), 0, prot=mmap.PROT_READ) as image:
            for at in range(0, SLOTS * SLOT_BYTES, SLOT_BYTES):
                thread, count = struct.unpack_from("<QQ", image, at)
                if thread:
                    yield thread, struct.unpack_from(f"<{count}Q", image, at + 16)

    def recovered(self):
        """The same, as the traces have it."""
        traces = [path for path in sorted(self.out.rglob("*.trc*"), key=lambda path: path.name)
                  if path.stat().st_size]
        if not traces:
            return {}
        done = self.run("events", "--format", "jsonl", "--type", "PollStartEvent", "--type",
                        "WorkerEvent", *traces)
        # 1: a segment ends where its writer was killed, or no poll had begun.
        if done.returncode not in (0, 1):
            raise AssertionError(f"events: {done.stderr}")
        thread_of, found = {}, {}
        self.traces, self.said = traces, done.stderr
        for line in done.stdout.splitlines():
            event = json.loads(line)
            fields = event["fields"]
            if event["event"] == "WorkerEvent":
                thread_of[fields["worker_id"]] = fields["tid"]
            else:
                tasks = found.setdefault(thread_of[fields["worker_id"]], [])
                tasks.append(fields["task_id"] & TASK_MASK)
        return found

    def explanation(self):
        """What would explain a shortfall: losses that are reported, polls reported as another kind
        of event, bytes that could not be read."""
        info = json.loads(self.run("info", "--json", *self.traces).stdout or "{}")
        counts = {entry["name"]: entry["count"] for entry in info.get("types", [])}
        return (f"nested {counts.get('NestedPollStartEvent', 0)}; losses "
                f"{info.get('losses', [])[:20]}; said: {self.said}")

    def check(self):
        """Returns (polls, threads, threads where one was recorded that was not noted yet)."""
        left = [path.name for path in self.rings.glob("*.ring")]
        found, polls, ahead, threads = self.recovered(), 0, 0, 0
        if left and found:  # without an event there is nothing to make a trace of
            raise AssertionError(f"still there: {left}")
        for thread, tasks in self.noted():
            got = tuple(found.pop(thread, ()))
            if not len(tasks) <= len(got) <= len(tasks) + 1:
                others = {other: len(more) for other, more in found.items()}
                raise AssertionError(f"thread {thread}: {len(tasks)} polls noted, {len(got)} "
                                     f"recovered; of others {others}; {self.explanation()}")
            if got[:len(tasks)] != tasks:
                at = next(i for i, task in enumerate(tasks) if got[i] != task)
                raise AssertionError(f"thread {thread}: poll {at} was of task {tasks[at]}, "
                                     f"recovered is {got[at]}")
            polls, ahead, threads = polls + len(got), ahead + len(got) - len(tasks), threads + 1
        for thread, got in found.items():  # killed between its first poll's begin and the note
            if len(got) > 1:
                raise AssertionError(f"thread {thread}: nothing noted, {len(got)} recovered")
            polls, ahead = polls + 1, ahead + 1
        return polls, threads, ahead

    def recover(self):
        done = self.run("recover", "--ring-dir", self.rings, "-o", self.out)
        if done.returncode != 0:
            raise AssertionError(f"recover: {done.stderr}")


def child_of(pid):
    """The process that `kymo run` has started, once it is that; None: not yet, or not any more."""
    try:
        children = pathlib.Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
        child = int(children[0]) if children else None
        if child and os.readlink(f"/proc/{child}/exe") != os.readlink(f"/proc/{pid}/exe"):
            return child
    except (OSError, ValueError):
        pass
    return None


def start_run(scene, mode, *words):
    """`kymo run`, and the program once it is that."""
    run = subprocess.Popen([scene.kymo, "run", "-q", "--mode", mode, *RING, "--ring-dir",
                            str(scene.rings), "-o", str(scene.out), *words, "--", scene.program,
                            str(scene.witness), *(["300"] if mode == "stream" else [])],
                           stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)
    deadline = time.monotonic() + DEADLINE_S
    child = None
    while child is None and run.poll() is None and time.monotonic() < deadline:
        child = child_of(run.pid)
    if child is None:
        raise AssertionError(f"kymo run: {run.stderr.read()}")
    return run, child


def reap(run):
    run.wait(DEADLINE_S)
    run.stderr.close()


def alone(scene, wait):
    """No kymo watches; what is left is recovered."""
    victim = subprocess.Popen([scene.program, str(scene.witness)], env={
        **os.environ, "LD_PRELOAD": scene.preload, "KYMO_SESSION": "77",
        "KYMO_RING_DIR": str(scene.rings), "KYMO_RING_BYTES": str(256 << 20)})
    time.sleep(wait)
    victim.kill()
    if victim.wait(DEADLINE_S) != -signal.SIGKILL:
        raise AssertionError(f"the program ended with {victim.returncode}")
    scene.recover()


def watched(scene, wait):
    """`kymo run` lives and makes the trace itself."""
    run, child = start_run(scene, "flight")
    time.sleep(wait)
    os.kill(child, signal.SIGKILL)
    reap(run)
    if run.returncode != -signal.SIGKILL:
        raise AssertionError(f"kymo run ended with {run.returncode}")


def is_running(pid):
    """Does any thread of it still run? The first one may be gone while others die."""
    try:
        fields = pathlib.Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()
    except OSError:
        return False
    return fields[0] not in "ZX" or int(fields[17]) > 1


def kill_both(scene, mode, wait, *words):
    run, child = start_run(scene, mode, *words)
    time.sleep(wait)
    os.kill(run.pid, signal.SIGKILL)
    os.kill(child, signal.SIGKILL)
    reap(run)
    while is_running(child):  # its own parent is gone: another process reaps it
        time.sleep(0.001)
    scene.recover()


def together(scene, wait):
    """Both die; what is left is recovered."""
    kill_both(scene, "flight", wait)


def streamed(scene, wait):
    """Both die; what is on disk and what is recovered make all."""
    kill_both(scene, "stream", wait * STREAM_S / LATE_S, "--rotate-interval", "60ms")


WAYS = [alone, watched, together, streamed]


def kill_often(scene, options, rng):
    totals = [0, 0, 0]
    early = empty = 0
    for number in range(options.kills):
        way = WAYS[number % len(WAYS)]
        is_early = rng.random() < 0.3
        wait = rng.uniform(0, EARLY_S if is_early else LATE_S)
        scene.clear()
        try:
            way(scene, wait)
            got = scene.check()
        except AssertionError as error:
            raise AssertionError(f"kill {number} ({way.__name__}), seed {options.seed}, "
                                 f"{wait * 1e3:.2f} ms: {error}") from error
        totals = [a + b for a, b in zip(totals, got)]
        early, empty = early + is_early, empty + (got[0] == 0)
    return (f"{options.kills} kills ({early} in the first 5 ms, {empty} before the first poll), "
            f"{totals[0]} polls of {totals[1]} threads recovered, {totals[2]} recorded and not yet "
            "noted")


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--build", type=pathlib.Path, default=ROOT / "build")
    parser.add_argument("--target", type=pathlib.Path)
    parser.add_argument("--kills", type=int, default=10)
    parser.add_argument("--seed", type=int, default=int(time.time()))
    options = parser.parse_args()
    options.build = options.build.resolve()
    if shutil.which("cargo") is None:
        print("1..0 # SKIP no cargo here")
        return 0
    target = (options.target or options.build / "witness").resolve()
    program = build(target, "newest", "stable", "release", "pie",
                    programs=["killed"]) / "killed"
    print("1..1", flush=True)
    name = "every poll that a killed Tokio program noted is recovered in order"
    try:
        with Scene(options, program) as scene:
            print(f"ok 1 - {name}: {kill_often(scene, options, random.Random(options.seed))}")
    except Exception:  # pylint: disable=broad-except
        print(f"not ok 1 - {name}")
        print("".join(f"# {line}\n" for line in traceback.format_exc().splitlines()), end="")
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
