#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0 OR MIT
"""Do bpftrace and perf see what kymo records of a real Tokio program?

    usdt.py [--build DIR] [--target DIR]

Programs under `kymo run`, with bpftrace on the preload library: system-wide and by pid, coming and
going while polls run, killed, and across `kymo detach`; every count against that of the trace or
of the program. Then perf, and the scripts of share/kymo/bpftrace. Takes root. Output is TAP.
"""
import contextlib
import ctypes
import json
import os
import pathlib
import re
import shutil
import signal
import struct
import subprocess
import sys
import tempfile
import time

from matrix import Tap, build, options_of

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "test" / "lib"))
from sdt_notes import probes  # noqa: E402

SCRIPTS = ROOT / "share" / "kymo" / "bpftrace"
WAIT_S = 60
AGAIN_S = 5
# A poll is counted by its place; what else is counted, by name.
COUNT = """
usdt:$1:tokio:task__spawn { @spawn = count(); }
usdt:$1:tokio:task__poll__start { @start = count(); @at[str(arg1), arg2, arg3] = count(); }
usdt:$1:tokio:task__poll__end { @end = count(); @ready = sum(arg4 & 1); }
usdt:$1:tokio:task__terminate { @terminate = count(); }
usdt:$1:tokio:worker__thread__start { @worker_start = count(); }
usdt:$1:tokio:worker__thread__stop { @worker_stop = count(); }
usdt:$1:tokio:worker__thread__park { @park = count(); }
usdt:$1:kymo:worker__unpark { @unpark = count(); }
usdt:$1:kymo:wake { @wake = count(); @self = sum(arg0 == arg1); }
"""


def refusal():
    """Why there is no tracing here; None: there is."""
    if os.geteuid() != 0:
        return "takes root"
    if not shutil.which("bpftrace"):
        return "bpftrace is not installed"
    done = subprocess.run(["bpftrace", "-e", "BEGIN { exit(); }"], capture_output=True, text=True,
                          timeout=WAIT_S, check=False)
    return None if done.returncode == 0 else "bpftrace may not trace here"


def settle(is_so, what):
    end = time.monotonic() + WAIT_S
    while not is_so():
        if time.monotonic() > end:
            raise RuntimeError(f"not within {WAIT_S} s: {what}")
        time.sleep(0.02)


class Bpftrace:
    """Attached to the library when it is made."""

    def __init__(self, script, library, scratch, pid=None):
        text = scratch / "script.bt"
        text.write_text('BEGIN { printf("attached\\n"); }\n' + script, encoding="utf-8")
        self.out = scratch / "bpftrace.out"
        with open(self.out, "wb") as out:
            self.process = subprocess.Popen(
                ["bpftrace", *(["-p", str(pid)] if pid else []), text, library], stdout=out,
                stderr=subprocess.STDOUT)
        settle(self.is_attached, "bpftrace attaches")

    def text(self):
        return self.out.read_text(encoding="utf-8")

    def is_attached(self):
        if self.process.poll() is not None:
            raise RuntimeError(self.text())
        return "attached\n" in self.text()

    def end(self, number=signal.SIGINT):
        """What it printed. It clears its flag when it begins to wait for events, after BEGIN has
        said that it is attached: a signal in between is lost, and sent again."""
        for _ in range(WAIT_S // AGAIN_S):
            self.process.send_signal(number)
            with contextlib.suppress(subprocess.TimeoutExpired):
                self.process.wait(timeout=AGAIN_S)
                break
        return self.text()

    def counts(self):
        """@NAME of the script, and all that it printed."""
        text = self.end()
        found = dict(re.findall(r"^@(\w+): (\d+)$", text, re.MULTILINE))
        return {name: int(value) for name, value in found.items()}, text


def semaphores(library):
    """Of this process, which has the library, too: what tracers of all programs have counted."""
    with open("/proc/self/maps", encoding="ascii") as maps:
        base = min(int(line.split("-")[0], 16) for line in maps if line.split()[-1] == library)
    memory = os.open("/proc/self/mem", os.O_RDONLY)
    try:
        return {probe.name: struct.unpack("<H", os.pread(memory, 2, base + probe.semaphore))[0]
                for probe in probes(library)}
    finally:
        os.close(memory)


class Rounds:
    """The program `rounds`: polls as often as each line asks for."""

    def __init__(self, program, around=()):
        self.process = subprocess.Popen([*around, program], stdin=subprocess.PIPE,
                                        stdout=subprocess.PIPE, text=True)
        self.total = 0
        self.say()
        # Under `kymo run` a child of it.
        children = f"/proc/{self.process.pid}/task/{self.process.pid}/children"
        self.pid = self.process.pid
        if around:
            with open(children, encoding="ascii") as names:
                self.pid = int(names.read().split()[0])

    def say(self):
        return self.process.stdout.readline()

    def begin(self, times):
        self.process.stdin.write(f"{times}\n")
        self.process.stdin.flush()
        self.total += times

    def poll(self, times):
        self.begin(times)
        return int(self.say())

    def end(self):
        self.process.stdin.close()
        self.process.stdout.close()
        return self.process.wait(timeout=WAIT_S)


class Case:
    def __init__(self, tap, options, folder, scratch):
        self.tap, self.options, self.folder, self.scratch = tap, options, folder, scratch
        self.kymo = str(options.build / "kymo")
        self.library = str(options.build / "adapters" / "tokio" / "libkymo-preload.so")
        self.trace = scratch / "trace.trc.zst"
        ctypes.CDLL(self.library)

    def around(self, trace=None):
        trace = trace or self.trace
        trace.unlink(missing_ok=True)
        return [self.kymo, "run", "-q", "--sample", "off", "--switches", "off", "--ring-dir",
                str(self.scratch / "rings"), "-o", str(trace), "--"]

    def recorded(self):
        """Events of the trace by type, and spawns."""
        listed = subprocess.run([self.kymo, "events", "--format", "jsonl", self.trace],
                                capture_output=True, text=True, check=True).stdout
        counts, spawned = {}, 0
        for line in listed.splitlines():
            event = json.loads(line)
            counts[event["event"]] = counts.get(event["event"], 0) + 1
            if event["event"] == "SpawnWindowEvent":
                spawned += event["fields"]["count"]
        return counts, spawned

    def equal(self, got, expected, what):
        self.tap.check(got == expected, what, f"{got} in place of {expected}")

    def check_system_wide(self):
        tracer = Bpftrace(COUNT, self.library, self.scratch)
        self.tap.check(all(semaphores(self.library).values()),
                       "bpftrace counts the semaphore of every probe",
                       str(semaphores(self.library)))
        subprocess.run([*self.around(), self.folder / "yield_loop", "1000", "2"], check=True,
                       capture_output=True, timeout=WAIT_S)
        got, text = tracer.counts()
        counts, spawned = self.recorded()
        polls = counts["PollStartEvent"] + counts.get("NestedPollStartEvent", 0)
        self.equal(polls, 50 * 1001, "system-wide: the trace has every poll")
        self.equal((got.get("start"), got.get("end")), (polls, polls), "bpftrace has as many")
        self.equal((got.get("terminate"), got.get("ready")), (50, 50), "and the ends of tasks")
        self.equal(got.get("wake", 0), counts.get("WakeEventEvent", 0), "and wakes")
        self.equal(got.get("spawn"), spawned, "and spawns")
        self.equal((got.get("park"), got.get("unpark")),
                   (counts["WorkerParkEvent"], counts["WorkerUnparkEvent"]), "and parks")
        self.equal((got.get("worker_start"), got.get("worker_stop")), (2, 2), "and workers")
        place = re.findall(r"^@at\[(.*), (\d+), (\d+)\]: (\d+)$", text, re.MULTILINE)
        self.tap.check(len(place) == 1 and place[0][0].endswith("yield_loop.rs") and
                       int(place[0][3]) == polls, "all from the place where they were spawned",
                       str(place))

    def check_by_pid(self):
        first = Rounds(self.folder / "rounds", self.around())
        second = Rounds(self.folder / "rounds", self.around(self.scratch / "second.trc.zst"))
        second.poll(100)
        tracer = Bpftrace(COUNT, self.library, self.scratch, pid=first.pid)
        first.poll(1000)
        second.poll(500)
        got, _ = tracer.counts()
        self.equal((got.get("start"), got.get("end"), got.get("terminate")), (1000, 1000, 1),
                   "by pid: 1,000 of 1,000, and none of another program's")
        self.equal((got.get("wake", 0) >= 999, got.get("self")), (True, 999),
                   "and who woke whom")
        first.poll(1000)
        self.equal((first.end(), second.end()), (0, 0), "both end as they would")

    def check_coming_and_going(self):
        program = Rounds(self.folder / "rounds", self.around())
        script = "usdt:$1:tokio:task__poll__start { @start = count(); }"
        for number in (signal.SIGINT, signal.SIGKILL) * 4:
            program.begin(200000)
            tracer = Bpftrace(script, self.library, self.scratch)
            time.sleep(0.1)
            tracer.end(number)
            program.say()
        self.equal(set(semaphores(self.library).values()), {0}, "who went, or was killed, left no "
                   "semaphore")
        tracer = Bpftrace(script, self.library, self.scratch)
        program.poll(1000)
        self.equal(tracer.counts()[0].get("start"), 1000,
                   "after others came and went, two ways: 1,000 of 1,000")
        self.equal(program.end(), 0, "the program ends as it would")
        counts, _ = self.recorded()
        starts = counts["PollStartEvent"] + counts.get("NestedPollStartEvent", 0)
        self.equal((starts, counts.get("LossEvent", 0)), (program.total, 0),
                   "the trace has every poll of it")

    def check_detach(self):
        program = Rounds(self.folder / "rounds")
        script = "usdt:$1:tokio:task__poll__start { @start = count(); }"
        begin = [self.kymo, "attach", "-q", "--mode", "stream", "--sample", "off", "-o",
                 str(self.trace), str(program.pid)]
        self.trace.unlink(missing_ok=True)
        recorder = subprocess.Popen(begin, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE,
                                    text=True)
        library = pathlib.Path(self.library).name
        settle(lambda: recorder.poll() is not None or library in pathlib.Path(
            f"/proc/{program.pid}/maps").read_text(encoding="ascii"), "kymo attach")
        tracer = Bpftrace(script, self.library, self.scratch, pid=program.pid)
        settle(lambda: program.poll(10) and self.is_recorded(program.pid), "it is recorded")
        before = program.total
        program.begin(300000)
        subprocess.run([self.kymo, "detach", "-q", str(program.pid)], check=True,
                       capture_output=True, timeout=WAIT_S)
        program.say()
        recorder.wait(timeout=WAIT_S)
        program.poll(5000)
        got = tracer.counts()[0].get("start", 0)
        self.tap.check(0 < got <= before + 300000, "kymo detach under bpftrace ends it", str(got))
        self.equal(program.end(), 0, "and the program goes on")

    def is_recorded(self, pid):
        done = subprocess.run([self.kymo, "ps", "--json"], capture_output=True, text=True,
                              check=False)
        return str(pid) in done.stdout

    def check_perf(self):
        if not shutil.which("perf"):
            self.tap.count += 1
            print(f"ok {self.tap.count} - perf # SKIP perf is not installed")
            return
        ids = self.scratch / "ids"
        perf = ["perf", "--buildid-dir", str(ids)]
        event = "sdt_tokio:task__poll__start"
        subprocess.run([*perf, "buildid-cache", "--add", self.library], check=True)
        subprocess.run([*perf, "probe", "-q", event], check=True)
        try:
            data = self.scratch / "perf.data"
            subprocess.run(["perf", "record", "-q", "-m", "64M", "-e", event, "-o", data,
                            "--", *self.around(), self.folder / "yield_loop", "5999", "1"],
                           check=True, capture_output=True, timeout=300)
            lines = subprocess.run(["perf", "script", "-i", data], check=True,
                                   capture_output=True, text=True).stdout.splitlines()
        finally:
            subprocess.run(["perf", "probe", "-q", "-d", event], check=False)
        self.equal(len(lines), 300000, "perf record: 300,000 of 300,000")

    def check_scripts(self):
        expected = {
            "print-all": r"task-poll-start\(task=\d+\)", "count-spawns": r"@tasks\[",
            "pollstats": r"@poll_duration\[.*zoo\.rs, \d+, \d+\]",
            "wake-to-poll": r"@wake_to_poll\[.*zoo\.rs, \d+, \d+\]"}
        self.equal({path.stem for path in SCRIPTS.glob("*.bt")}, set(expected),
                   "every script is tried")
        for name, pattern in expected.items():
            text = (SCRIPTS / f"{name}.bt").read_text(encoding="utf-8")
            tracer = Bpftrace(text, self.library, self.scratch)
            subprocess.run([*self.around(), self.folder / "zoo"], check=True, capture_output=True,
                           timeout=WAIT_S)
            out = tracer.end()
            self.tap.check(re.search(pattern, out) is not None, f"{name}.bt says it", out[:500])


def main():
    options = options_of(__doc__)
    why = refusal()
    if why:
        print(f"1..1\nok 1 - tracers # SKIP {why}")
        return 0
    folder = build(options.target, "newest", "unstable", "release", "pie",
                   programs=["yield_loop", "zoo", "rounds"])
    tap = Tap()
    with tempfile.TemporaryDirectory(prefix="kymo-usdt-") as scratch:
        case = Case(tap, options, folder, pathlib.Path(scratch))
        case.check_system_wide()
        case.check_by_pid()
        case.check_coming_and_going()
        case.check_detach()
        case.check_perf()
        case.check_scripts()
    return tap.end()


if __name__ == "__main__":
    sys.exit(main())
