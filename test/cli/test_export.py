#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0 OR MIT
"""What `kymo report` and `kymo export` make of samples: of a known trace, and of dial9's.

usage: test_export.py KYMO SOURCE_ROOT [unittest arguments]
"""
import json
import pathlib
import re
import subprocess
import sys
import tempfile
import unittest

import trace_maker

KYMO = ""
ROOT = pathlib.Path()
MS = 1000000
NAMES = {0x10: ("app::hash", 7), 0x20: ("app::handler", 42), 0x30: ("tokio::runtime::poll", 1),
         0x40: ("app::sleep_badly", 9), 0x50: ("__nanosleep", 0)}


class SampleTrace(trace_maker.Trace):
    def symbol(self, address, name, line):
        return self.event("SymbolTableEntry", 0, ("addr", "VARINT", address),
                          ("size", "VARINT", 16), ("symbol_name", "STRING", name.encode()),
                          ("inline_depth", "VARINT", 0),
                          ("source_file", "STRING", b"/src/app/main.rs" if line > 1 else b""),
                          ("source_line", "VARINT", line))

    def poll(self, start, end, task, name):
        self.event("PollStartEvent", start, ("worker_id", "VARINT", 0),
                   ("local_queue", "VARINT", 0), ("task_id", "VARINT", task),
                   ("spawn_loc", "STRING", name.encode()))
        return self.event("PollEndEvent", end, ("worker_id", "VARINT", 0))

    def cpu(self, time, weight, task, poll, *frames):
        return self.event("CpuSampleEvent", time, ("worker_id", "VARINT", 0), ("tid", "U32", 11),
                          ("source", "VARINT", 0), ("callchain", "STACK", frames),
                          ("weight_ns", "VARINT", weight), ("task_id", "VARINT", task),
                          ("poll_start_ns", "VARINT", poll))

    def off_cpu(self, end, duration, task, poll, *frames):
        return self.event("OffCpuEvent", end, ("tid", "U32", 11), ("worker_id", "VARINT", 0),
                          ("task_id", "VARINT", task), ("duration_ns", "VARINT", duration),
                          ("reason", "VARINT", 1), ("syscall", "VARINT?", 35),
                          ("callchain", "STACK", frames), ("poll_start_ns", "VARINT", poll))

    def place(self, time, task, *frames):
        return self.event("AwaitPlaceEvent", time, ("task_id", "VARINT", task),
                          ("callchain", "STACK", frames))

    def alloc(self, time, size, address, *frames):
        return self.event("AllocEvent", time, ("tid", "U32", 11), ("size", "VARINT", size),
                          ("addr", "VARINT", address), ("callchain", "STACK", frames),
                          ("task_id", "VARINT", 0))


def known_trace():
    """30 ms of hash and 10 ms of handler on the processor, 300 ms asleep in the slow poll."""
    trace = SampleTrace()
    trace.metadata(sampling__cpu="timers", sampling__cpu__rate_hz=99)
    for address, (name, line) in NAMES.items():
        trace.symbol(address, name, line)
    trace.poll(100 * MS, 500 * MS, 7, "app::slow")
    for at in (110, 120, 130):
        trace.cpu(at * MS, 10 * MS, 7, 100 * MS, 0x10, 0x20, 0x30)
    trace.off_cpu(450 * MS, 300 * MS, 7, 100 * MS, 0x50, 0x40, 0x30)
    trace.poll(600 * MS, 600 * MS + 500, 8, "app::quick")
    trace.cpu(600 * MS + 100, 10 * MS, 8, 600 * MS, 0x20, 0x30)
    trace.place(600 * MS + 200, 8, 0x30, 0x20)
    trace.alloc(610 * MS, 4096, 0x1000, 0x10, 0x20)
    trace.poll(900 * MS, 900 * MS + 500, 9, "app::quick")
    return trace


class Case(unittest.TestCase):
    def setUp(self):
        held = tempfile.TemporaryDirectory()
        self.addCleanup(held.cleanup)
        self.dir = pathlib.Path(held.name)
        self.file = known_trace().save(self.dir / "known.trc")
        self.dial9 = ROOT / "test/data/dial9-0.5.7-demo.bin.gz"

    def kymo(self, *arguments, code=0, binary=False):
        ran = subprocess.run([KYMO, *map(str, arguments)], capture_output=True, check=False)
        self.assertEqual(ran.returncode, code, ran.stderr.decode())
        ran.stdout = ran.stdout if binary else ran.stdout.decode()
        ran.stderr = ran.stderr.decode()
        return ran


class Report(Case):
    def test_says_what_ran_and_what_it_waited_for(self):
        out = self.kymo("report", self.file).stdout
        self.assertIn("On the processor: 40.0 ms in 4 samples (timers, 99 Hz)", out)
        self.assertRegex(out, r"75\.0 % +30\.1\.\.95\.4 % +3 +75\.0 % .* app::hash\n")
        self.assertRegex(out, r"100\.0 % +51\.0\.\.100\.0 % +4 +app::handler\n")
        self.assertIn("Inside polls over 1.00 ms: 3 samples, 75.0 % of the CPU time", out)
        self.assertRegex(out, r"400 ms of task 7: 3 samples, 300 ms off the processor in one "
                              r"interval\n.*\n +300 ms +system call 35 +app::sleep_badly "
                              r"+\S+main.rs:9 +__nanosleep\n +3 +samples +app::hash")
        self.assertRegex(out, r"300 ms +1 +300 ms +system call 35 +app::sleep_badly")
        self.assertIn("Where tasks wait: 1 do at the end", out)
        self.assertRegex(out, r" 1 +\d\S+ ms +\S+ ms +1 +app::handler +\S+main.rs:42")

    def test_one_sample_is_called_one_sample(self):
        trace = SampleTrace().symbol(0x10, "app::hash", 7)
        trace.poll(100 * MS, 500 * MS, 7, "app::slow").cpu(110 * MS, 10 * MS, 7, 100 * MS, 0x10)
        out = self.kymo("report", trace.save(self.dir / "one.trc")).stdout
        self.assertIn("400 ms of task 7: one sample\n", out)
        self.assertIn("in one sample", out)

    def test_json_has_the_same_numbers(self):
        profile = json.loads(self.kymo("report", "--json", self.file).stdout)["profile"]
        self.assertEqual(profile["cpu"]["samples"], 4)
        self.assertEqual(profile["cpu"]["cpu_ns"], 40 * MS)
        self.assertEqual(profile["cpu"]["functions"][0]["function"], "app::hash")
        self.assertEqual(profile["cpu"]["functions"][0]["self_ns"], 30 * MS)
        self.assertEqual(profile["off_cpu"]["stacks"][0]["where"], "app::sleep_badly")
        self.assertEqual(profile["worst_polls"][0]["off_cpu_ns"], 300 * MS)
        self.assertEqual(profile["waiting"]["tasks"], 1)

    def test_range_and_length_of_long_polls(self):
        out = self.kymo("report", "--from", "450ms", "--long-poll", "500ms", self.file).stdout
        self.assertIn("in one sample", out)
        self.assertIn("No sample fell in a poll over 500 ms.", out)
        self.kymo("report", "--long-poll", "x", self.file, code=2)

    def test_without_samples_one_line_says_why(self):
        trace = SampleTrace().metadata(sampling__cpu="off")
        trace.poll(100, 200, 1, "a")
        out = self.kymo("report", trace.save(self.dir / "none.trc")).stdout
        self.assertIn("No samples: sampling was off.\n", out)
        trace = SampleTrace().metadata(sampling__cpu="none",
                                       sampling__cpu__refused="timers: Permission denied")
        trace.poll(100, 200, 1, "a")
        out = self.kymo("report", trace.save(self.dir / "none.trc")).stdout
        self.assertIn("No samples: refused by timers: Permission denied.\n", out)

    def test_more_lost_than_kept_is_no_ranking(self):
        trace = known_trace()
        trace.event("LossEvent", 950 * MS, ("tid", "U32", 0), ("record_count", "VARINT", 9),
                    ("cause", "STRING", b"cpu-samples"))
        out = self.kymo("report", trace.save(self.dir / "lost.trc")).stdout
        self.assertIn("9 samples were lost and 4 kept: that says nothing", out)
        self.assertNotIn("by kind of task", out)

    def test_no_trace_talks_to_the_terminal(self):
        trace = SampleTrace().metadata(sampling__cpu="\x1b[31mred").symbol(0x10, "a\x1b]0;x", 7)
        trace.cpu(100, 10, 0, 0, 0x10)
        out = self.kymo("report", trace.save(self.dir / "bad.trc")).stdout
        self.assertNotIn("\x1b", out)

    def test_reads_dial9(self):
        out = self.kymo("report", self.dial9).stdout
        self.assertIn("On the processor: 141 samples\n", out)
        self.assertIn("_Unwind_Find_FDE", out)


if __name__ == "__main__":
    KYMO = str(pathlib.Path(sys.argv[1]).resolve())
    ROOT = pathlib.Path(sys.argv[2]).resolve()
    sys.argv[1:] = sys.argv[3:]
    unittest.main(verbosity=1)
