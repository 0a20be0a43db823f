#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0 OR MIT
"""The static tracepoints of the library and of the preload library: what tracers find in the files,
and what a tracer gets that comes and goes while a program records. test/tokio/usdt.py does it with
bpftrace and a real Tokio.

    test_usdt.py KYMO HOST PRELOAD RECORDER_LIBRARY INCLUDE
    test_usdt.py --trace RESULT HOST      in the place of the program that `kymo run` starts
"""
import json
import os
import pathlib
import platform
import shutil
import struct
import subprocess
import sys
import tempfile
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT / "tools"), str(ROOT / "test" / "lib")]
import unittest_tap  # noqa: E402
from probe_tracer import Tracer  # noqa: E402
from sdt_notes import probes, segments  # noqa: E402

# Of tokio-dtrace, and ours: arguments of each.
EXPECTED = {
    ("tokio", "task__spawn"): 7, ("tokio", "task__poll__start"): 7,
    ("tokio", "task__poll__end"): 7, ("tokio", "task__terminate"): 7,
    ("tokio", "worker__thread__start"): 3, ("tokio", "worker__thread__stop"): 3,
    ("tokio", "worker__thread__park"): 3, ("tokio", "worker__thread__unpark"): 3,
    ("kymo", "wake"): 4, ("kymo", "worker__begin"): 3, ("kymo", "worker__end"): 3,
    ("kymo", "worker__park"): 3, ("kymo", "worker__unpark"): 3,
}
NOP = {"x86_64": bytes.fromhex("0f1f440000"), "aarch64": bytes.fromhex("1f2003d5")}
TEXTS, CODE = (1, 6), 5  # of a task's arguments
PLACE = ["src/host.rs", 57, 9]
NOWHERE = ["", 0, 0]
READY, BY_VALUE, EPOLL = 1, 1, 1


class Notes(unittest.TestCase):
    def setUp(self):
        self.dir = pathlib.Path(tempfile.mkdtemp(prefix="kymo-usdt-"))

    def tearDown(self):
        shutil.rmtree(self.dir)

    def check(self, path):
        found = probes(path)
        self.assertEqual({(probe.provider, probe.name): len(probe.arguments) for probe in found},
                         EXPECTED)
        self.assertEqual(len(found), len(EXPECTED), "each once")
        loaded = segments(path)
        data = pathlib.Path(path).read_bytes()
        for probe in found:
            code = next(part for part in loaded if part.holds(probe.location, 4))
            self.assertIn("E", code.flags, probe)
            at = code.offset + probe.location - code.address
            nop = NOP.get(platform.machine())
            if nop:
                self.assertEqual(data[at:at + len(nop)], nop, probe)
            # In the file's data, not after it (bss), where a tracer cannot count; 0 at the start.
            count = next(part for part in loaded if part.holds(probe.semaphore, 2))
            self.assertIn("W", count.flags, probe)
            at = count.offset + probe.semaphore - count.address
            self.assertEqual(struct.unpack("<H", data[at:at + 2]), (0,), probe)
            self.assertTrue(all(argument.startswith("8@") for argument in probe.arguments), probe)

    def strip(self, path, *options):
        out = self.dir / "stripped"
        subprocess.run(["strip", *options, "-o", out, path], check=True)
        return out

    def test_of_the_preload_library(self):
        self.check(PRELOAD)

    def test_of_a_program_that_links_the_library(self):
        self.check(HOST)

    def test_stay_when_everything_is_stripped(self):
        for path in (PRELOAD, HOST):
            self.check(self.strip(path, "--strip-all"))
            self.check(self.strip(path, "--strip-unneeded"))

    def link(self, *flags):
        source = self.dir / "program.c"
        source.write_text("#include <kymo/kymo.h>\nint main(void) { kymo_poll_begin(1, 0, 0); "
                          "return (int)kymo_poll_end(0) & 0; }\n", encoding="ascii")
        out = self.dir / "program"
        done = subprocess.run(
            ["cc", "-O2", *flags, f"-I{INCLUDE}", source, "-o", out, LIBRARY, "-pthread", "-lz",
             "-lzstd", "-lm"], capture_output=True, text=True, check=False)
        self.assertEqual(done.returncode, 0, done.stderr)
        return out

    def test_stay_in_a_program_without_what_it_does_not_use(self):
        if not shutil.which("cc"):
            self.skipTest("no C compiler that is called cc")
        self.check(self.link("-ffunction-sections", "-Wl,--gc-sections"))
        self.check(self.strip(self.link("-flto", "-Wl,--gc-sections", "-Wl,-O2"), "--strip-all"))


def address_of(symbol):
    text = subprocess.run(["nm", HOST], capture_output=True, text=True, check=True).stdout
    return next(int(line.split()[0], 16) for line in text.splitlines()
                if line.split()[-1] == symbol)


def expected_hits(main):
    """Of usdt_host.c, where the tracer is there from the second round until the third's poll, and
    again from the fourth's."""
    def spawn(task, place, by):
        return ("task__spawn", task, *place, by, *kind(place))

    def kind(place):
        return (main, "src/host.rs:57:9") if place is PLACE else (0, "host::job")

    def begin(round_):
        task = round_ * 10
        return [
            spawn(task, PLACE, 0), ("wake", task, 0, BY_VALUE, 0),
            ("task__poll__start", task, *PLACE, 77, *kind(PLACE)),
            spawn(task + 1, NOWHERE, task), ("wake", task + 1, task, 0, 0),
            ("task__poll__start", task + 1, *NOWHERE, 77, *kind(NOWHERE)),
            ("task__terminate", task + 1, *NOWHERE, READY, *kind(NOWHERE)),
            ("task__poll__end", task + 1, *NOWHERE, READY, *kind(NOWHERE))]

    def end(round_):
        task = round_ * 10
        return [
            ("worker__thread__park", 77, 78, EPOLL), ("worker__park", 77, 78, EPOLL),
            ("worker__thread__unpark", 77, 78, 3), ("worker__unpark", 77, 78, 3),
            ("task__terminate", task, *PLACE, 0, *kind(PLACE))]

    return (begin(2) + [("task__poll__end", 20, *PLACE, 0, *kind(PLACE))] + end(2) + begin(3) +
            end(4) + [("worker__thread__stop", 77, 78, 0), ("worker__end", 77, 78, 0)])


class Attached(unittest.TestCase):
    """A tracer that comes and goes while a program records."""

    @classmethod
    def setUpClass(cls):
        if platform.machine() != "x86_64":
            raise unittest.SkipTest("the registers of another machine than x86-64")
        cls.dir = pathlib.Path(tempfile.mkdtemp(prefix="kymo-usdt-"))
        trace, result = cls.dir / "t.trc.zst", cls.dir / "hits.json"
        done = subprocess.run(
            [KYMO, "run", "-q", "--sample", "off", "--ring-dir", cls.dir / "rings", "-o", trace,
             "--", sys.executable, __file__, "--trace", result, HOST], capture_output=True,
            text=True, timeout=60, check=False)
        if done.returncode == 77:
            raise unittest.SkipTest(f"ptrace: {done.stderr}")
        if done.returncode != 0:
            raise RuntimeError(done.stderr)
        cls.hits = json.loads(result.read_text())
        listed = subprocess.run([KYMO, "events", "--format", "jsonl", trace], capture_output=True,
                                text=True, check=True).stdout
        cls.events = [json.loads(line) for line in listed.splitlines()]

    @classmethod
    def tearDownClass(cls):
        shutil.rmtree(cls.dir)

    def test_each_record_while_the_tracer_is_there_with_its_arguments(self):
        self.assertEqual([tuple(hit) for hit in self.hits], expected_hits(address_of("main")))

    def test_the_trace_has_all_whether_a_tracer_is_there_or_not(self):
        count = {}
        for event in self.events:
            count[event["event"]] = count.get(event["event"], 0) + 1
        starts = count.get("PollStartEvent", 0) + count.get("NestedPollStartEvent", 0)
        ends = count.get("PollEndEvent", 0) + count.get("NestedPollEndEvent", 0)
        self.assertEqual((starts, ends, count["WakeEventEvent"], count["WorkerParkEvent"]),
                         (12, 12, 8, 4))


def trace(result, host):
    """Comes and goes at each signal; what it got, as JSON."""
    hits = []

    def on_hit(tracer, probe, values):
        if probe.name.startswith("task__"):
            for text in TEXTS:
                values[text] = tracer.text(values[text])
            values[CODE] = values[CODE] and values[CODE] - tracer.bias
        hits.append([probe.name, *values])

    try:
        tracer = Tracer([host], probes(host), on_hit)
    except OSError as why:
        print(why, file=sys.stderr)
        sys.exit(77)
    while (status := tracer.run()) is None:
        tracer.turn(not tracer.is_on)
    pathlib.Path(result).write_text(json.dumps(hits), encoding="utf-8")
    sys.exit(status)


if __name__ == "__main__":
    if sys.argv[1] == "--trace":
        trace(*sys.argv[2:4])
    KYMO, HOST, PRELOAD, LIBRARY, INCLUDE = map(os.path.abspath, sys.argv[1:6])
    unittest_tap.main(sys.argv[6:])
