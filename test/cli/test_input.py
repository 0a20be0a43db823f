#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0 OR MIT
"""What comes from other programs: text that would control the terminal, pipes without an end, and
the ends of polls that name no task.

usage: test_input.py KYMO [unittest arguments]
"""
import json
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile
import unittest

from trace_maker import Trace

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "tools"))
import unittest_tap  # noqa: E402

KYMO = ""
ESCAPE = "\x1b]0;title\x07\x1b[31m\nred"
SHOWN = r"\x1b]0;title\x07\x1b[31m\x0ared"


class Input(unittest.TestCase):
    def setUp(self):
        self.dir = pathlib.Path(tempfile.mkdtemp(prefix="kymo-input-"))

    def tearDown(self):
        shutil.rmtree(self.dir)

    def run_kymo(self, *args, code=0, **options):
        done = subprocess.run([KYMO, *map(os.fspath, args)], capture_output=True, check=False,
                              timeout=60, **options)
        done.out, done.err = done.stdout.decode(), done.stderr.decode()
        self.assertEqual(done.returncode, code, done.err)
        return done


class Terminal(Input):
    """Neither a trace nor the name of a file can talk to the terminal, and a line stays one."""

    def assert_safe(self, text, lines=None):
        self.assertNotIn("\x1b", text)
        self.assertNotIn("\x07", text)
        if lines is not None:
            self.assertEqual(text.count("\n"), lines, text)

    def test_metadata(self):
        names = ["service", "host", "kymo.version", "kymo.source", "process.end",
                 "kymo.dump.reason", "kymo.dump.label", "sampling.cpu", "sampling.cpu.rate_hz",
                 "sampling.cpu.kernel", "sampling.cpu.refused", "machine.architecture", ESCAPE]
        trace = Trace().metadata(**{name: ESCAPE for name in names}).save(self.dir / "trace")
        for command in ("info", "report", "events"):
            done = self.run_kymo(command, trace)
            self.assert_safe(done.out)
            self.assertIn(SHOWN, done.out)
            self.assert_safe(done.err)
        self.assertIn(f"Sampling  {SHOWN}, {SHOWN} Hz of CPU time, the kernel {SHOWN} ({SHOWN})\n",
                      self.run_kymo("info", trace).out)

    def test_names_of_types(self):
        trace = Trace().event("Poll" + ESCAPE, 5, ("a", "VARINT", 1)).save(self.dir / "trace")
        done = self.run_kymo("events", "--type", "Pol", trace, code=1)
        self.assert_safe(done.err, lines=1)
        self.assertIn(f"did you mean Poll{SHOWN}?", done.err)

    def test_names_of_files(self):
        for command in (["info"], ["run", "--"]):
            done = self.run_kymo(*command, self.dir / ESCAPE.replace("/", ""),
                                 code=1 if command == ["info"] else 127)
            self.assert_safe(done.err)
            self.assertIn(SHOWN, done.err.splitlines()[-1])


class StandardInput(Input):
    def test_a_pipe_without_an_end_that_is_no_trace_is_not_copied(self):
        """Who waits for its end does not come back."""
        source, sink = os.pipe()
        os.write(sink, b"\0" * 4096)
        try:
            done = self.run_kymo("info", "-", code=1, stdin=source)
        finally:
            os.close(source)
            os.close(sink)
        self.assertIn("standard input: not a trace", done.err)

    def test_a_trace_that_comes_byte_by_byte_is_one(self):
        trace = Trace().stack(5, 1, 2).bytes
        source, sink = os.pipe()
        with subprocess.Popen([KYMO, "events", "--json", "-"], stdin=source,
                              stdout=subprocess.PIPE) as kymo:
            os.close(source)
            for at in range(len(trace)):
                os.write(sink, trace[at:at + 1])
            os.close(sink)
            self.assertEqual(json.loads(kymo.stdout.read())["event"], "CustomStackEvent")

    def test_a_file_is_read_from_where_it_stands(self):
        trace = Trace().stack(5, 1, 2).save(self.dir / "trace")
        after = self.dir / "after"
        after.write_bytes(b"other" + trace.read_bytes())
        for path, skip in ((trace, 0), (after, 5)):
            with open(path, "rb", buffering=0) as file:
                file.read(skip)
                done = self.run_kymo("info", "-", stdin=file)
            self.assertTrue(done.out.startswith("standard input  raw"), done.out)
            self.assertIn("CustomStackEvent      1", done.out)


class TaskEnds(Input):
    """--task takes the ends of a task's polls, which name the worker or the thread alone."""

    def ends(self, trace, task):
        done = self.run_kymo("events", "--json", "--task", str(task),
                             trace.save(self.dir / "trace"))
        events = map(json.loads, done.out.splitlines())
        return [(event["event"], event["timestamp_ns"]) for event in events
                if event["event"].endswith("EndEvent")]

    def start(self, trace, time, task, worker):
        trace.event("PollStartEvent", time, ("worker_id", "VARINT", worker),
                    ("task_id", "VARINT", task))

    def end(self, trace, time, worker):
        trace.event("PollEndEvent", time, ("worker_id", "VARINT", worker))

    def open(self, trace, time, task, worker, tid, depth):
        trace.event("OpenPollEvent", time, ("worker_id", "VARINT", worker), ("tid", "U32", tid),
                    ("depth", "VARINT", depth), ("task_id", "VARINT", task))

    def nest(self, trace, time, task, tid):
        trace.event("NestedPollStartEvent", time, ("worker_id", "VARINT", 0), ("tid", "U32", tid),
                    ("depth", "VARINT", 1), ("task_id", "VARINT", task))

    def unnest(self, trace, time, tid):
        trace.event("NestedPollEndEvent", time, ("worker_id", "VARINT", 0), ("tid", "U32", tid))

    def test_a_poll_that_was_open_when_the_trace_begins(self):
        trace = Trace()
        for chunk_ns in (10, 20):  # each chunk says it again
            self.open(trace, chunk_ns, 7, 0, 100, 0)
            self.open(trace, chunk_ns, 8, 0, 100, 1)
            self.open(trace, chunk_ns, 9, 254, 101, 0)
        self.unnest(trace, 30, 100)
        self.end(trace, 40, 0)
        self.end(trace, 50, 254)
        self.assertEqual(self.ends(trace, 7), [("PollEndEvent", 40)])
        self.assertEqual(self.ends(trace, 8), [("NestedPollEndEvent", 30)])
        self.assertEqual(self.ends(trace, 9), [])

    def test_polls_inside_polls(self):
        trace = Trace()
        self.start(trace, 10, 1, 0)
        self.nest(trace, 11, 2, 100)
        self.nest(trace, 12, 3, 100)
        self.nest(trace, 13, 2, 200)
        self.unnest(trace, 14, 100)
        self.unnest(trace, 15, 100)
        self.unnest(trace, 16, 200)
        self.end(trace, 17, 0)
        self.assertEqual(self.ends(trace, 1), [("PollEndEvent", 17)])
        self.assertEqual(self.ends(trace, 2),
                         [("NestedPollEndEvent", 15), ("NestedPollEndEvent", 16)])
        self.assertEqual(self.ends(trace, 3), [("NestedPollEndEvent", 14)])

    def test_more_workers_than_any_program_has(self):
        trace = Trace()
        for worker in range(3000):
            self.start(trace, 10, worker + 1, worker)
        for worker in range(3000):
            self.end(trace, 20 + worker, worker)
        self.assertEqual(self.ends(trace, 2999), [("PollEndEvent", 20 + 2998)])

    def test_an_end_that_was_lost(self):
        trace = Trace()
        self.start(trace, 10, 1, 0)
        self.start(trace, 20, 2, 0)
        self.end(trace, 30, 0)
        self.end(trace, 40, 0)
        self.assertEqual(self.ends(trace, 1), [])
        self.assertEqual(self.ends(trace, 2), [("PollEndEvent", 30)])


if __name__ == "__main__":
    KYMO = sys.argv[1]
    unittest_tap.main(sys.argv[2:])
