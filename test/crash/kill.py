#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0 OR MIT
"""SIGKILL at any moment: every event that was published before is recovered, none is damaged.

    kill.py [--build DIR] [--kills N] [--seed N] [--only TEXT]

DIR is a build of this tree without sanitizers. A writer counts after each event in a second shared
file; what is recovered is held against that: published <= recovered <= published + 1 in each
thread. Output is TAP.
"""
import argparse
import json
import os
import pathlib
import random
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import traceback

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parent.parent
DEADLINE_S = 120
WITNESS_BYTES = 200 * 64
# The first milliseconds have the ring's making, the first threads and names.
EARLY_S, LATE_S = 0.005, 0.05
STREAM_S = 0.5  # several segments of 70 ms
FIRST_CALLS = 4

CASES = []


def case(function):
    CASES.append(function)
    return function


class Setting:
    def __init__(self, build, arguments):
        self.kymo = str(build / "kymo")
        self.crash = build / "test/crash"
        self.run_host = build / "test/cli/run_host"
        self.kills, self.random = arguments.kills, random.Random(arguments.seed)
        self.seed = arguments.seed


class Scene:
    """Places of one case's own; a tmpfs for the rings, as in life."""

    def __init__(self, setting):
        self.setting = setting
        self.dir = pathlib.Path(tempfile.mkdtemp(prefix="kymo-kill-", dir="/dev/shm"))
        self.rings, self.out = self.dir / "rings", self.dir / "out"
        self.witness = self.dir / "witness"
        self.clear()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        shutil.rmtree(self.dir, ignore_errors=True)

    def clear(self):
        for path in (self.rings, self.out):
            shutil.rmtree(path, ignore_errors=True)
            path.mkdir(mode=0o700)
        self.witness.write_bytes(bytes(WITNESS_BYTES))

    def environment(self, **more):
        return {**os.environ, "KYMO_RING_DIR": str(self.rings), "KYMO_SERVICE": "victim", **more}

    def start(self, program, *args, **more):
        return subprocess.Popen([program, *map(str, args)], env=self.environment(**more),
                                stdout=subprocess.DEVNULL)

    def recover(self, **more):
        done = subprocess.run([self.setting.kymo, "recover", "--ring-dir", self.rings, "-o",
                               self.out, "--json"], capture_output=True, text=True,
                              timeout=DEADLINE_S, check=False, env=self.environment(**more))
        return done

    def check(self, before=()):
        """Recovers, and compares with what is on disk since before. Returns (events, threads ahead
        of their count)."""
        done = self.recover()
        if done.returncode != 0:
            raise AssertionError(f"recover: {done.stderr}")
        traces = sorted(self.out.iterdir())
        if len(traces) > 1 or any(not path.name.endswith(".trc.zst") for path in traces):
            raise AssertionError(f"more than a trace: {traces}")
        left = [path.name for path in self.rings.glob("*.ring")]
        if left and traces:
            raise AssertionError(f"still there: {left}")
        # What held nothing but the beginning of a chunk is gone.
        before = [path for path in before if path.exists()]
        reply = subprocess.run([self.setting.crash / "kill_check", self.witness, *before,
                               *traces],
                              capture_output=True, text=True, timeout=DEADLINE_S, check=False)
        if reply.returncode != 0:
            raise AssertionError(f"{reply.stdout}{reply.stderr}{done.stdout}")
        events, ahead = re.search(r"events (\d+) ahead (\d+)", reply.stdout).groups()
        return int(events), int(ahead)


@case
def every_published_record_survives_sigkill_at_a_random_moment(setting):
    total = ahead = early = empty = 0
    with Scene(setting) as scene:
        for number in range(setting.kills):
            scene.clear()
            seed = setting.random.randrange(1 << 30)
            is_early = setting.random.random() < 0.3
            wait = setting.random.uniform(0, EARLY_S if is_early else LATE_S)
            victim = scene.start(setting.crash / "kill_host", scene.witness, seed)
            time.sleep(wait)
            victim.send_signal(signal.SIGKILL)
            if victim.wait(DEADLINE_S) != -signal.SIGKILL:
                raise AssertionError(f"the writer ended with {victim.returncode}")
            try:
                got = scene.check()
            except AssertionError as error:
                raise AssertionError(f"kill {number}, seed {setting.seed}, {wait * 1e3:.2f} ms: "
                                     f"{error}") from error
            total, ahead = total + got[0], ahead + got[1]
            early, empty = early + is_early, empty + (got[0] == 0)
    return (f"{setting.kills} kills ({early} in the first 5 ms, {empty} before the first event), "
            f"{total} events recovered, 0 lost, 0 corrupt, {ahead} published and not yet counted")


@case
def and_what_a_linked_program_streamed_is_continued(setting):
    """What is on disk and what is recovered make all: no loss, no duplicate."""
    total = on_disk = empty = 0
    kills = max(setting.kills // 4, 5)
    with Scene(setting) as scene:
        for number in range(kills):
            scene.clear()
            streamed = scene.dir / "streamed"
            shutil.rmtree(streamed, ignore_errors=True)
            wait = setting.random.uniform(0, STREAM_S)
            victim = scene.start(setting.crash / "kill_host_stream", scene.witness,
                                 setting.random.randrange(1 << 30), streamed)
            time.sleep(wait)
            victim.kill()
            victim.wait(DEADLINE_S)
            before = sorted(path for path in streamed.rglob("*.trc.zst*") if path.stat().st_size)
            try:
                total += scene.check(before)[0]
            except AssertionError as error:
                raise AssertionError(f"kill {number}, seed {setting.seed}, {wait * 1e3:.2f} ms, "
                                     f"{len(before)} segments: {error}") from error
            on_disk, empty = on_disk + len(before), empty + (not before)
    if empty == kills:
        raise AssertionError("nothing was ever on disk before the kill")
    return (f"{kills} kills ({empty} before the first segment), {on_disk} segments, {total} events "
            "on disk or recovered")


def test_points():
    text = "".join(path.read_text() for path in (ROOT / "src/record/emit").glob("*.c"))
    return sorted(set(re.findall(r'KY_TESTPOINT\("([^"]+)"\)', text)))


@case
def and_at_every_named_point_of_the_recorder(setting):
    kills = total = 0
    with Scene(setting) as scene:
        for point in test_points():
            killed_here = 0
            for nth in (1, 2, 3, 7, 20, 60, 150):
                scene.clear()
                victim = scene.start(setting.crash / "kill_host_points", scene.witness, nth,
                                     KILL_AT=point, KILL_NTH=str(nth))
                try:
                    # However slow the machine is, it comes there once.
                    victim.wait(1 if killed_here or point.startswith(RARE) else DEADLINE_S)
                except subprocess.TimeoutExpired:  # it does not come there so often
                    victim.kill()
                    victim.wait()
                    scene.check()
                    break
                killed_here += 1
                try:
                    total += scene.check()[0]
                except AssertionError as error:
                    raise AssertionError(f"{point}, time {nth}: {error}") from error
            kills += killed_here
            if killed_here == 0 and not point.startswith(RARE):
                raise AssertionError(f"{point}: the writer never comes there")
    return f"{kills} kills at {len(test_points())} points, {total} events recovered"


@case
def and_while_a_thread_stands_still_at_a_named_point(setting):
    """What the others record meanwhile does not hang on it."""
    kills = total = 0
    with Scene(setting) as scene:
        for point in test_points():
            killed_here = 0
            for nth in (1, 2, 3, 5, 8, 13, 21, 34):
                scene.clear()
                victim = scene.start(setting.crash / "kill_host_points", scene.witness, nth,
                                     KILL_AT=point, KILL_NTH=str(nth), KILL_LATER_US="40")
                try:
                    victim.wait(1 if killed_here or point.startswith(RARE) else DEADLINE_S)
                except subprocess.TimeoutExpired:  # it does not come there so often
                    victim.kill()
                    victim.wait()
                    break
                killed_here += 1
                try:
                    total += scene.check()[0]
                except AssertionError as error:
                    raise AssertionError(f"{point}, time {nth}: {error}") from error
            kills += killed_here
            if killed_here == 0 and not point.startswith(RARE):
                raise AssertionError(f"{point}: the writer never comes there")
    return f"{kills} kills at {len(test_points())} points, {total} events recovered"


# Points that only a full ring, a signal handler of the host or a second recording leads to.
RARE = ("slow.inside", "thread.reattaching")


def dead_ring(scene):
    """A ring with 3,000 polls whose process was killed."""
    scene.clear()
    victim = scene.start(scene.setting.run_host, "3000", "signal=9")
    victim.wait(DEADLINE_S)


def polls(scene, *paths):
    done = subprocess.run([scene.setting.kymo, "info", "--json", *map(str, paths)], check=True,
                          capture_output=True)
    types = {entry["name"]: entry["count"] for entry in json.loads(done.stdout)["types"]}
    return types.get("PollEndEvent", 0)


def odd_polls(scene, paths):
    """Polls of one thread that begin or end twice in a row, over all files in their order."""
    odd, count, task, is_open = [], 0, None, False
    for path in paths:
        # A file without any is refused.
        done = subprocess.run([scene.setting.kymo, "events", "--format", "jsonl", "-t", "Poll*",
                               str(path)], check=False, capture_output=True, text=True)
        for line in done.stdout.splitlines():
            event = json.loads(line)
            if event["event"] not in ("PollStartEvent", "PollEndEvent"):
                continue
            is_start = event["event"] == "PollStartEvent"
            count, task = count + is_start, event["fields"].get("task_id", task)
            if is_start == is_open:
                odd.append(f"{path.name}: poll {count} (task {task}) "
                           f"{'begins' if is_start else 'ends'} again at {event['timestamp_ns']}")
            is_open = is_start
    return "; ".join(odd[:5]) or "each begins and ends once"


def crash_everywhere(scene, command, prepare, check, calls_max=160):
    """Kills `command` at each of its calls that change the disk, before and after it. On a slow
    machine a stream has any number of segments: those after calls_max are like the others."""
    kills = 0
    for where in ({}, {"CRASH_AFTER": "1"}):
        for at in (*range(1, calls_max), 1 << 30):
            prepare()
            done = subprocess.run(command(), capture_output=True, timeout=DEADLINE_S, check=False,
                                  env=scene.environment(
                                      LD_PRELOAD=str(scene.setting.crash / "crash_at.so"),
                                      CRASH_AT=str(at), **where))
            is_killed = done.returncode == -signal.SIGKILL
            try:
                check(is_killed)
            except AssertionError as error:
                raise AssertionError(f"call {at} {where}: {error}") from error
            if not is_killed:
                break
            kills += 1
        else:
            raise AssertionError("it never came to its end")
    if kills < 6:
        raise AssertionError(f"only {kills} calls were seen")
    return kills


@case
def recover_killed_at_any_call_is_made_up_for_by_the_next(setting):
    with Scene(setting) as scene:
        def check(_):
            done = scene.recover()
            if done.returncode != 0:
                raise AssertionError(done.stderr)
            files = sorted(scene.out.iterdir())
            if len(files) != 1 or not files[0].name.endswith(".trc.zst"):
                raise AssertionError(f"not one trace: {files}")
            if polls(scene, files[0]) != 3000:
                raise AssertionError(f"{polls(scene, files[0])} polls of 3000")
            if list(scene.rings.iterdir()):
                raise AssertionError("the ring is still there")

        command = [setting.kymo, "recover", "--ring-dir", scene.rings, "-o", scene.out]
        kills = crash_everywhere(scene, lambda: command, lambda: dead_ring(scene), check)
    return f"{kills} kills"


@case
def dump_killed_at_any_call_leaves_a_whole_file_or_none(setting):
    with Scene(setting) as scene:
        dead_ring(scene)
        target = scene.out / "dump.trc.zst"

        def prepare():
            for path in scene.out.iterdir():
                path.unlink()

        def check(is_killed):
            if target.exists() and polls(scene, target) != 3000:
                raise AssertionError("a file that is not whole")
            if not is_killed and not target.exists():
                raise AssertionError("no file")
            if len(list(scene.rings.glob("*.ring"))) != 1:
                raise AssertionError("the ring is gone")

        kills = crash_everywhere(scene, lambda: [setting.kymo, "dump", "--ring-dir", scene.rings,
                                                 "victim", "-o", target], prepare, check)
    return f"{kills} kills"


@case
def run_killed_at_any_call_of_a_rotation_loses_nothing(setting):
    """The program continues into its ring and ends; what is on disk and recovered makes all."""
    kills = 0
    with Scene(setting) as scene:
        def prepare():
            scene.clear()
            (scene.dir / "end").unlink(missing_ok=True)

        def command():
            # The named program is its own session's: it is not killed with kymo.
            return [setting.kymo, "run", "-q", "--ring-dir", scene.rings, "-o", scene.out / "t",
                    "--rotate-interval", "20ms", "--", setting.run_host, "0", "paced=30000"]

        def check(is_killed):
            deadline = time.monotonic() + DEADLINE_S
            while is_killed and any_alive(setting, scene) and time.monotonic() < deadline:
                time.sleep(0.005)
            done = scene.recover()
            if done.returncode != 0:
                raise AssertionError(done.stderr)
            streamed = sorted(path for path in (scene.out / "t").rglob("*.trc.zst*")
                              if path.is_file())
            found = [*streamed, *scene.out.glob("*.trc.zst")]
            got = polls(scene, scene.out) if found else 0
            if got != 30000 and not (is_killed and not found):
                raise AssertionError(f"{got} polls of 30000: {odd_polls(scene, found)}: "
                                     f"{done.stdout}")

        kills = crash_everywhere(scene, command, prepare, check)
    return f"{kills} kills"


def kill_group_at(scene, at, seed, **where):
    """A stream of a writer with a witness, until kymo's call number `at`: then all of it dies.
    False: it came to no such call in STREAM_S; to the first ones it always comes."""
    setting = scene.setting
    run = subprocess.Popen(
        [setting.kymo, "run", "-q", "--ring-dir", scene.rings, "-o", scene.dir / "streamed",
         "--rotate-interval", "20ms", "--", setting.crash / "kill_host", scene.witness, str(seed)],
        env=scene.environment(LD_PRELOAD=str(setting.crash / "crash_at.so"), CRASH_AT=str(at),
                              CRASH_GROUP="1", **where),
        stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, start_new_session=True)
    try:
        run.wait(STREAM_S if at > FIRST_CALLS else DEADLINE_S)
    except subprocess.TimeoutExpired:
        pass
    is_killed = run.poll() is not None
    if not is_killed:
        os.killpg(run.pid, signal.SIGKILL)
    run.wait(DEADLINE_S)
    deadline = time.monotonic() + DEADLINE_S
    while any_alive(setting, scene) and time.monotonic() < deadline:
        time.sleep(0.002)
    return is_killed


@case
def all_killed_at_any_call_of_a_stream_leave_every_record_once(setting):
    """What kymo leaves when it dies is what its calls have done: before each of them, after
    it, and in the middle of what it writes, to the trace as to the ring."""
    kills = total = segments = 0
    with Scene(setting) as scene:
        for where in ({}, {"CRASH_AFTER": "1"}, {"CRASH_TORN": "50"}, {"CRASH_TORN": "97"},
                      {"CRASH_TORN": "-3"}):
            for at in range(1, max(setting.kills // 10, 10)):
                # The first calls make the directories; most of the others are chunks.
                call = at if at <= FIRST_CALLS else setting.random.randrange(15, 160)
                seed = setting.random.randrange(1 << 30)
                scene.clear()
                shutil.rmtree(scene.dir / "streamed", ignore_errors=True)
                is_killed = kill_group_at(scene, call, seed, **where)
                before = sorted(path for path in (scene.dir / "streamed").rglob("*.trc.zst*")
                                if path.stat().st_size)
                try:
                    total += scene.check(before)[0]
                except AssertionError as error:
                    raise AssertionError(f"call {call} {where}, seed {setting.seed}, "
                                         f"{len(before)} segments: {error}") from error
                kills, segments = kills + is_killed, segments + len(before)
    if not segments or kills < 15:
        raise AssertionError(f"{kills} kills, {segments} segments: this shows nothing")
    return f"{kills} kills, {segments} segments, {total} events on disk or recovered"


def any_alive(setting, scene):
    done = subprocess.run([setting.kymo, "ps", "--ring-dir", scene.rings, "-i", "0", "--json"],
                          check=True, capture_output=True, text=True)
    return any(ring["state"] == "alive" for ring in json.loads(done.stdout)["rings"])


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--build", type=pathlib.Path, default=ROOT / "build")
    parser.add_argument("--kills", type=int, default=100)
    parser.add_argument("--seed", type=int, default=int(time.time()))
    parser.add_argument("--only", default="")
    arguments = parser.parse_args()
    cases = [function for function in CASES if arguments.only in function.__name__]
    setting = Setting(arguments.build.resolve(), arguments)
    failed = 0
    print(f"1..{len(cases)}", flush=True)
    for number, function in enumerate(cases, 1):
        name = function.__name__.replace("_", " ")
        try:
            print(f"ok {number} - {name}: {function(setting)}", flush=True)
        except Exception:  # pylint: disable=broad-except
            failed += 1
            print(f"not ok {number} - {name}")
            print("".join(f"# {line}\n" for line in traceback.format_exc().splitlines()), end="",
                  flush=True)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
