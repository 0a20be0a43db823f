#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0 OR MIT
"""What `kymo report` and `kymo export` make of samples: of a known trace, and of dial9's.

usage: test_export.py KYMO SOURCE_ROOT [unittest arguments]
"""
import json
import os
import pathlib
import platform
import re
import subprocess
import sys
import tempfile
import unittest

from trace_maker import SampleTrace

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "tools"))
import unittest_tap  # noqa: E402

KYMO = ""
ROOT = pathlib.Path()
MS = 1000000
NAMES = {0x10: ("app::hash", 7), 0x20: ("app::handler", 42), 0x30: ("tokio::runtime::poll", 1),
         0x40: ("app::sleep_badly", 9), 0x50: ("__nanosleep", 0)}


def known_trace():
    """30 ms of hash and 10 ms of handler on CPU, 300 ms off CPU in the slow poll."""
    trace = SampleTrace()
    trace.metadata(sampling__cpu="timers", sampling__cpu__rate_hz=99,
                   machine__architecture="pdp11")
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
    def test_reports_what_ran_and_what_it_waited_for(self):
        out = self.kymo("report", "--full", self.file).stdout
        self.assertIn("On CPU: 40.0 ms in 4 samples (timers, 99 Hz)", out)
        self.assertRegex(out, r"75\.0 % +30\.1\.\.95\.4 % +3 +75\.0 % .* app::hash\n")
        self.assertRegex(out, r"100\.0 % +51\.0\.\.100\.0 % +4 +app::handler\n")
        self.assertIn("Inside polls over 1.00 ms: 3 samples, 75.0 % of the CPU time", out)
        self.assertRegex(out, r"400 ms of task 7: 3 samples, 300 ms off CPU in one "
                              r"interval\n.*\n +300 ms +blocked incl. run queue +system call 35 "
                              r"+app::sleep_badly +\S+main.rs:9 +__nanosleep\n +3 +samples "
                              r"+app::hash")
        self.assertIn("  blocked 0 ns, runnable (waiting for a CPU) 0 ns, blocked incl. run "
                      "queue (not separated) 300 ms\n", out)
        self.assertRegex(out, r"300 ms +1 +300 ms +blocked incl. run queue +system call 35 "
                              r"+app::sleep_badly")
        self.assertIn("Where tasks wait: 1 at the end", out)
        self.assertRegex(out, r" 1 +\d\S+ ms +\S+ ms +1 +app::handler +\S+main.rs:42")

    def test_the_cause_of_the_longest_poll_stands_in_the_first_lines(self):
        out = self.kymo("report", "--full", self.file).stdout
        self.assertRegex(out, r"(?m)^1\. blocking_call ")
        head = out[out.index("Longest poll") - 1:].split("\n\n")[0]
        self.assertRegex(head, r"\nLongest poll 400 ms: app::slow\n  300 ms of it off CPU: system "
                               r"call 35, app::sleep_badly at \S+main.rs:9$")
        self.assertLess(out.index("Inside the worst polls"), out.index("On CPU:"))

    def test_what_ran_is_the_cause_where_the_longest_poll_did_not_wait(self):
        trace = SampleTrace().symbol(0x10, "app::hash", 7).symbol(0x20, "app::copy", 8)
        trace.poll(100 * MS, 500 * MS, 7, "app::slow").off_cpu(450 * MS, 100 * MS, 7, 100 * MS)
        for at, address in ((110, 0x20), (120, 0x10), (130, 0x10)):
            trace.cpu(at * MS, 10 * MS, 7, 100 * MS, address)
        out = self.kymo("report", "--full", trace.save(self.dir / "ran.trc")).stdout
        self.assertRegex(out, r"Longest poll 400 ms: app::slow\n  on CPU in it: 2 of 3 "
                              r"samples, app::hash at \S+\.rs:7\n")

    def test_nothing_is_the_cause_where_nothing_fell_into_the_longest_poll(self):
        trace = SampleTrace().symbol(0x10, "app::hash", 7)
        trace.poll(100 * MS, 500 * MS, 7, "app::slow").poll(600 * MS, 601 * MS, 8, "app::quick")
        trace.cpu(600 * MS + 100, 10 * MS, 8, 600 * MS, 0x10)
        out = self.kymo("report", "--full", trace.save(self.dir / "no.trc")).stdout
        self.assertRegex(out, r"Longest poll 400 ms: app::slow\n(Longest wait .*\n)?\n")

    def test_frames_that_lie_below_all_tasks_take_no_row_of_long_polls(self):
        trace = SampleTrace()
        for address, (name, line) in NAMES.items():
            trace.symbol(address, name, line)
        trace.poll(100 * MS, 500 * MS, 7, "app::slow")
        trace.cpu(110 * MS, 10 * MS, 7, 100 * MS, 0x10, 0x20, 0x30)
        out = self.kymo("report", "--full", trace.save(self.dir / "below.trc")).stdout
        self.assertNotIn("tokio::runtime::poll", out)
        part = out[out.index("Inside polls over 1.00 ms: "):].split("\n\n")
        self.assertEqual([row.split()[-1] for row in part[0].splitlines()[2:3]], ["app::hash"])
        self.assertEqual(part[0].splitlines()[3], "  ... and 2 more functions; --json has all")
        self.assertTrue(part[1].startswith(
            "Inside polls over 1.00 ms, with all they call: the program's own functions\n"))
        self.assertEqual([row.split()[-1] for row in part[1].splitlines()[2:]],
                         ["app::hash", "app::handler"])

    def test_places_of_tasks_that_have_ended_are_marked_as_such(self):
        trace = SampleTrace().symbol(0x20, "app::handler", 42)
        trace.poll(100 * MS, 101 * MS, 7, "app::slow").place(100 * MS + 9, 7, 0x20)
        trace.poll(300 * MS, 301 * MS, 7, "app::slow")
        trace.event("TaskTerminateEvent", 302 * MS, ("task_id", "VARINT", 7))
        out = self.kymo("report", "--full", trace.save(self.dir / "ended.trc")).stdout
        self.assertIn("\nWhere tasks waited; none does at the end\n", out)

    def test_worst_polls_in_which_the_same_happened_are_listed_once(self):
        trace = SampleTrace().symbol(0x10, "app::nap", 7).symbol(0x20, "app::other", 8)
        for number, (address, length, name) in enumerate((
                (0x10, 90, "app::slow"), (0x10, 80, "app::slow"), (0x20, 70, "app::slow"),
                (0x10, 60, "app::slow"), (0x10, 50, "app::else"))):
            at = 1000 * (number + 1) * MS
            trace.poll(at, at + length * MS, number + 1, name)
            trace.off_cpu(at + length * MS - 1, length * MS - 2, number + 1, at, address)
        out = self.kymo("report", "--full", trace.save(self.dir / "alike.trc")).stdout
        part = out[out.index("Inside the worst polls"):out.index("Off CPU: ")]
        reply = re.findall(r"^  (\S+ .s) of task|^    and (\S+) more like it, of (.*)$", part,
                          re.MULTILINE)
        self.assertEqual(reply, [("90.0 ms", "", ""), ("", "2", "60.0 ms to 80.0 ms"),
                                ("70.0 ms", "", ""), ("50.0 ms", "", "")])

    @unittest.skipUnless(platform.machine() == "x86_64", "35 is nanosleep on x86-64")
    def test_a_system_call_of_this_architecture_has_a_name(self):
        trace = SampleTrace().metadata(machine__architecture="x86_64")
        trace.poll(100, 500 * MS, 7, "a").off_cpu(450 * MS, 300 * MS, 7, 100, 0x50)
        out = self.kymo("report", "--full", trace.save(self.dir / "call.trc")).stdout
        self.assertRegex(out, r"300 ms +blocked incl. run queue +nanosleep +0x50")

    def test_one_sample_is_called_one_sample(self):
        trace = SampleTrace().symbol(0x10, "app::hash", 7)
        trace.poll(100 * MS, 500 * MS, 7, "app::slow").cpu(110 * MS, 10 * MS, 7, 100 * MS, 0x10)
        out = self.kymo("report", "--full", trace.save(self.dir / "one.trc")).stdout
        self.assertIn("400 ms of task 7: one sample\n", out)
        self.assertIn("in one sample", out)

    def test_json_has_the_same_numbers(self):
        profile = json.loads(self.kymo("report", "--json", self.file).stdout)["tables"]["profile"]
        self.assertEqual(profile["cpu"]["samples"], 4)
        self.assertEqual(profile["cpu"]["cpu_ns"], 40 * MS)
        self.assertEqual(profile["cpu"]["functions"][0]["function"], "app::hash")
        self.assertEqual(profile["cpu"]["functions"][0]["self_ns"], 30 * MS)
        self.assertEqual(profile["off_cpu"]["stacks"][0]["where"], "app::sleep_badly")
        self.assertEqual(profile["off_cpu"]["blocked_incl_run_queue_ns"], 300 * MS)
        self.assertEqual(profile["worst_polls"][0]["off_cpu_ns"], 300 * MS)
        self.assertEqual(profile["waiting"]["tasks"], 1)

    def test_range_and_length_of_long_polls(self):
        out = self.kymo("report", "--full", "--from", "450ms", "--long-poll", "500ms",
                        self.file).stdout
        self.assertIn("in one sample", out)
        self.assertIn("No sample fell in a poll over 500 ms.", out)
        self.kymo("report", "--long-poll", "x", self.file, code=2)

    def test_without_samples_one_line_says_why(self):
        trace = SampleTrace().metadata(sampling__cpu="off")
        trace.poll(100, 200, 1, "a")
        out = self.kymo("report", "--full", trace.save(self.dir / "none.trc")).stdout
        self.assertIn("No samples: sampling was off.\n", out)
        trace = SampleTrace().metadata(sampling__cpu="none",
                                       sampling__cpu__refused="timers: Permission denied")
        trace.poll(100, 200, 1, "a")
        out = self.kymo("report", "--full", trace.save(self.dir / "none.trc")).stdout
        self.assertIn("No samples: refused by timers: Permission denied.\n", out)

    def test_without_cpu_samples_a_line_says_why(self):
        trace = SampleTrace().metadata(sampling__cpu="none",
                                       sampling__cpu__refused="timers: Permission denied")
        trace.poll(100 * MS, 900 * MS, 1, "a")
        trace.off_cpu(450 * MS, 300 * MS, 1, 100 * MS, 0x50, 0x40, 0x30)
        out = self.kymo("report", "--full", trace.save(self.dir / "none.trc")).stdout
        self.assertIn("No samples of CPU time: refused by timers: Permission denied.\n", out)
        self.assertIn("Off CPU: ", out)
        self.assertNotIn("No samples:", out)

    def test_crates_that_are_only_a_way_are_not_the_programs_own(self):
        """As kymo dump --tasks has it; a release build has no files to recognise them by."""
        trace = SampleTrace().symbol(0x10, "tokio_util::util::poll_buf::poll_read_buf", 0)
        trace.symbol(0x20, "app::reader", 0).symbol(0x30, "tokio::runtime::poll", 0)
        trace.poll(100 * MS, 500 * MS, 7, "app::slow").place(200 * MS, 7, 0x10, 0x20, 0x30)
        out = self.kymo("report", "--full", trace.save(self.dir / "way.trc")).stdout
        self.assertRegex(out, r"(?s)Where tasks wait: 1 .* 1 +\d\S* .*  app::reader ")

    def test_many_stacks_that_are_cut_are_explained(self):
        for source, count, hint in (("perf_event", 2, True), ("timers", 2, False),
                                    ("perf_event", 1, False)):
            trace = SampleTrace().symbol(0x10, "app::hash", 7).metadata(sampling__cpu=source)
            for i in range(60):
                trace.cpu((110 + i) * MS, 10 * MS, 0, 0, 0x10, is_cut=i < count)
            path = trace.save(self.dir / f"{source}{count}.trc")
            out = self.kymo("report", "--full", path).stdout
            self.assertIn(f"  {count} do not reach their thread's start", out)
            self.assertEqual("--sampler timers" in out, hint, out)

    def test_threads_that_could_not_be_sampled_are_reported(self):
        line = ("  2 threads could not be sampled: no timer was to be had, or SIGPROF is blocked "
                "there\n")
        trace = SampleTrace().symbol(0x10, "app::hash", 7).cpu(110 * MS, 10 * MS, 0, 0, 0x10)
        trace.metadata(sampling__cpu="timers", sampling__cpu__threads_refused=2)
        out = self.kymo("report", "--full", trace.save(self.dir / "some.trc")).stdout
        self.assertIn(line, out)
        trace = SampleTrace().metadata(sampling__cpu="timers", sampling__cpu__threads_refused=2)
        trace.poll(100 * MS, 900 * MS, 1, "a")
        trace.off_cpu(450 * MS, 300 * MS, 1, 100 * MS, 0x50, 0x40, 0x30)
        out = self.kymo("report", "--full", trace.save(self.dir / "none.trc")).stdout
        self.assertIn("No samples of CPU time: sampling: timers, and nothing was sampled.\n" +
                      line, out)

    def test_time_without_samples_is_reported(self):
        def trace(source, samples, user_s, off=()):
            made = SampleTrace().symbol(0x10, "app::hash", 7).metadata(sampling__cpu=source)
            made.poll(1 * MS, 2 * MS, 1, "a")
            for ms, user_ns in ((110, 0), (1110, user_s * 1000 * MS)):
                made.event("PartialResourceUsageEvent", ms * MS,
                           ("user_cpu_ns", "VARINT?", user_ns), ("system_cpu_ns", "VARINT?", 0))
            for i in range(samples):
                made.cpu((110 + i) * MS, 10 * MS, 0, 0, 0x10)
            for time in off:
                made.off_cpu(time * MS, 5 * MS, 1, 1 * MS, 0x10)
            return made.save(self.dir / "cover.trc")

        line = "  {} of the {} of CPU time that the process used between two readings are in "
        line += "no sample:\n    threads that {}"
        out = self.kymo("report", "--full", trace("perf_event", 50, 2)).stdout
        self.assertIn(line.format("1.50 s (75.0 %)", "2.00 s", "end within a period have"), out)
        out = self.kymo("report", "--full", trace("timers", 50, 2)).stdout
        self.assertIn(line.format("1.50 s (75.0 %)", "2.00 s", "were found late"), out)
        cover = json.loads(self.kymo("report", "--json", self.dir / "cover.trc").stdout)["tables"]
        cover = cover["profile"]["cover"]
        self.assertEqual((cover["used_ns"], cover["sampled_ns"], cover["missing_ns"]),
                         (2000 * MS, 500 * MS, 1500 * MS))
        for off, of in (((), ""), ((20,), " of CPU time")):
            out = self.kymo("report", "--full", trace("perf_event", 0, 3, off)).stdout
            self.assertIn(f"No samples{of}: sampling: perf_event, and nothing was sampled.\n" +
                          line.format("3.00 s (100.0 %)", "3.00 s", "end"), out)
        out = self.kymo("report", "--full", trace("perf_event", 90, 1)).stdout
        self.assertNotIn("in no sample", out)

    def unseen(self, trace):
        trace.save(self.dir / "unseen.trc")
        text = self.kymo("report", "--full", self.dir / "unseen.trc").stdout
        rows = json.loads(self.kymo("report", "--json", self.dir / "unseen.trc").stdout)["tables"]
        rows = rows["profile"]["unseen"]
        for row in rows:
            tail = f"; this changes it: {row['command']}\n" if row["command"] else "\n"
            self.assertIn(f"  not seen: {row['what']} ({row['why']}){tail}", text)
        self.assertEqual(text.count("not seen: "), len(rows))
        return [(row["part"], row["what"], row["command"]) for row in rows]

    def test_says_what_was_not_seen_and_what_would_change_it(self):
        switches = "preemption, page faults and other waits inside polls"
        sysctl = "sudo sysctl kernel.perf_event_paranoid=1"
        trace = known_trace().metadata(
            sampling__cpu="timers", sampling__cpu__refused="perf_event: Permission denied",
            offcpu__sources="interposed calls",
            offcpu__refused="context switches: Permission denied")
        self.assertEqual(self.unseen(trace), [("cpu", "frames of the kernel", sysctl),
                                              ("off_cpu", switches, sysctl)])
        trace = known_trace().metadata(
            sampling__cpu="perf_event, timers", offcpu__sources="context switches",
            sampling__cpu__choice="timers: 4385 switches a second, 2008 ns more each by perf_event")
        self.assertEqual(self.unseen(trace),
                         [("cpu", "frames of the kernel", "kymo run --sampler perf")])
        self.assertIn("4385 switches", self.kymo("report", self.dir / "unseen.trc").stdout)
        trace = known_trace().metadata(
            sampling__cpu="perf_event", sampling__cpu__kernel="not sampled",
            offcpu__sources="interposed calls", kymo__source="tokio preload")
        self.assertEqual(self.unseen(trace), [
            ("cpu", "time in the kernel (system calls appear idle)", sysctl),
            ("off_cpu", switches, "kymo run --switches on, or kymo attach --mode stream")])

    def test_says_what_was_not_seen_where_nothing_was(self):
        trace = SampleTrace().metadata(
            sampling__cpu="none", offcpu__sources="none",
            sampling__cpu__refused="perf_event: No data available; timers: Permission denied",
            offcpu__refused="context switches: No data available").poll(100, 200, 1, "a")
        parts = self.unseen(trace)
        self.assertEqual([part for part, _, _ in parts], ["cpu", "off_cpu"])
        self.assertIsNone(parts[1][2])

    def test_says_nothing_was_unseen_where_all_was(self):
        trace = known_trace().metadata(sampling__cpu="perf_event",
                                       offcpu__sources="interposed calls, context switches")
        self.assertEqual(self.unseen(trace), [])
        out = json.loads(self.kymo("report", "--json", self.dial9).stdout)["tables"]
        self.assertEqual(out["profile"]["unseen"], [])

    def test_more_lost_than_kept_is_no_ranking(self):
        trace = known_trace()
        trace.event("LossEvent", 950 * MS, ("tid", "U32", 0), ("record_count", "VARINT", 9),
                    ("cause", "STRING", b"cpu-samples"))
        out = self.kymo("report", "--full", trace.save(self.dir / "lost.trc")).stdout
        self.assertIn("9 samples were lost and 4 kept: that says nothing", out)
        self.assertNotIn("by kind of task", out)

    def test_no_trace_controls_the_terminal(self):
        trace = SampleTrace().metadata(sampling__cpu="\x1b[31mred").symbol(0x10, "a\x1b]0;x", 7)
        trace.cpu(100, 10, 0, 0, 0x10)
        out = self.kymo("report", "--full", trace.save(self.dir / "bad.trc")).stdout
        self.assertNotIn("\x1b", out)

    def test_reads_dial9(self):
        out = self.kymo("report", "--full", self.dial9).stdout
        self.assertIn("On CPU: 141 samples\n", out)
        self.assertIn("_Unwind_Find_FDE", out)


class Export(Case):
    """Every format says 40 ms: 30 in hash, 10 in handler; and 300 ms asleep."""

    def export(self, to, *arguments, code=0):
        return self.kymo("export", "--format", to, *arguments, self.file, code=code, binary=True)

    def test_folded_lines(self):
        self.assertEqual(sorted(self.export("folded").stdout.decode().splitlines()), [
            f"tokio::runtime::poll;app::handler {10 * MS}",
            f"tokio::runtime::poll;app::handler;app::hash {30 * MS}"])
        self.assertEqual(self.export("folded", "--kind", "off-cpu").stdout.decode(),
                         "tokio::runtime::poll;app::sleep_badly;__nanosleep;[system call 35] "
                         f"{300 * MS}\n")
        self.assertEqual(self.export("folded", "--kind", "heap").stdout.decode(),
                         "app::handler;app::hash 4096\n")
        self.assertRegex(self.export("folded", "--kind", "waiting").stdout.decode(),
                         r"app::handler;tokio::runtime::poll \d+\n")

    def test_parts_of_a_trace(self):
        self.assertIn(f" {20 * MS}\n", self.export("folded", "--to", "25ms").stdout.decode())
        self.assertIn(f"handler {10 * MS}\n", self.export("folded", "--task", 8).stdout.decode())
        self.assertEqual(self.export("folded", "--worker", 0).stdout, self.export("folded").stdout)

    def test_names_cannot_forge_lines(self):
        trace = SampleTrace().symbol(0x10, "a;b\nforged 9\x1b", 7).cpu(100, 10, 0, 0, 0x10)
        file = trace.save(self.dir / "forge.trc")
        out = self.kymo("export", "--format", "folded", file).stdout
        self.assertEqual(out, "a:b?forged 9? 10\n")
        for to in ("speedscope", "firefox"):
            json.loads(self.kymo("export", "--format", to, file).stdout)

    def test_speedscope_is_what_its_schema_says(self):
        """The interfaces File, Frame and SampledProfile of speedscope's file-format-spec.ts."""
        for kind, unit, total in (("cpu", "nanoseconds", 40 * MS), ("heap", "bytes", 4096),
                                  ("off-cpu", "nanoseconds", 300 * MS)):
            file = json.loads(self.export("speedscope", "--kind", kind).stdout)
            self.assertEqual(file["$schema"],
                             "https://www.speedscope.app/file-format-schema.json")
            frames = file["shared"]["frames"]
            for frame in frames:
                self.assertTrue(set(frame) <= {"name", "file", "line", "col"})
                self.assertIsInstance(frame["name"], str)
            for profile in file["profiles"]:
                self.assertEqual(set(profile), {"type", "name", "unit", "startValue", "endValue",
                                                "samples", "weights"})
                self.assertEqual((profile["type"], profile["unit"]), ("sampled", unit))
                self.assertEqual(len(profile["samples"]), len(profile["weights"]))
                self.assertTrue(all(0 <= at < len(frames) for s in profile["samples"] for at in s))
                self.assertEqual(profile["endValue"], sum(profile["weights"]))
            self.assertEqual(sum(p["endValue"] for p in file["profiles"]), total)
        first = file["profiles"][0]["samples"][0]
        self.assertEqual([frames[at]["name"] for at in first],
                         ["tokio::runtime::poll", "app::sleep_badly", "__nanosleep",
                          "[system call 35]"])

    def test_firefox_profile_is_whole(self):
        """Version 48 of the processed format: tables of equal columns, indexes inside them."""
        profile = json.loads(self.export("firefox").stdout)
        self.assertEqual(profile["meta"]["preprocessedProfileVersion"], 48)
        total = 0.0
        for thread in profile["threads"]:
            self.assertIsInstance(thread["pid"], str)
            for table in ("frameTable", "funcTable", "stackTable", "samples", "markers",
                          "resourceTable", "nativeSymbols"):
                columns = thread[table]
                for name, column in columns.items():
                    if isinstance(column, list):
                        self.assertEqual(len(column), columns["length"], (table, name))
            stacks, names = thread["stackTable"], thread["stringArray"]
            for at, prefix in enumerate(stacks["prefix"]):
                self.assertTrue(prefix is None or prefix < at)
            self.assertTrue(all(f < thread["frameTable"]["length"] for f in stacks["frame"]))
            self.assertTrue(all(f < thread["funcTable"]["length"]
                                for f in thread["frameTable"]["func"]))
            self.assertTrue(all(n < len(names) for n in thread["funcTable"]["name"]))
            self.assertTrue(all(s < stacks["length"] for s in thread["samples"]["stack"]))
            self.assertEqual(thread["samples"]["weightType"], "tracing-ms")
            self.assertEqual(thread["samples"]["time"], sorted(thread["samples"]["time"]))
            total += sum(thread["samples"]["weight"])
        self.assertAlmostEqual(total, 40.0)

    def waits(self):
        """100 ms in a futex, of which 20 were runnable, 30 preempted, 40 of a page fault, and 50
        in a call whose state is not known; all in app::wait."""
        trace = SampleTrace().metadata(machine__architecture="pdp11").symbol(0x20, "app::wait", 42)
        trace.poll(100 * MS, 900 * MS, 7, "app::slow")
        for end, length, how in ((200, 100, {"reason": 2, "runnable": (20 * MS, 20 * MS)}),
                                 (300, 30, {"reason": 4}), (400, 40, {"reason": 3}),
                                 (500, 50, {"reason": 1, "syscall": 7})):
            trace.off_cpu(end * MS, length * MS, 7, 100 * MS, 0x20, **{"syscall": None, **how})
        return trace.save(self.dir / "waits.trc")

    def export_waits(self, to, *arguments):
        return self.kymo("export", "--format", to, "--kind", "off-cpu", *arguments, self.waits())

    def test_folded_says_why_a_thread_was_off(self):
        self.assertEqual(sorted(self.export_waits("folded").stdout.splitlines()), [
            f"app::wait;[futex];[blocked] {80 * MS}", f"app::wait;[futex];[runnable] {20 * MS}",
            f"app::wait;[page fault] {40 * MS}", f"app::wait;[preempted] {30 * MS}",
            f"app::wait;[system call 7] {50 * MS}"])

    def test_speedscope_says_why_a_thread_was_off(self):
        file = json.loads(self.export_waits("speedscope").stdout)
        names = [frame["name"] for frame in file["shared"]["frames"]]
        profile, = file["profiles"]
        stacks = {tuple(names[at] for at in sample): weight
                  for sample, weight in zip(profile["samples"], profile["weights"])}
        self.assertEqual(stacks, {
            ("app::wait", "[futex]", "[blocked]"): 80 * MS,
            ("app::wait", "[futex]", "[runnable]"): 20 * MS,
            ("app::wait", "[preempted]"): 30 * MS, ("app::wait", "[page fault]"): 40 * MS,
            ("app::wait", "[system call 7]"): 50 * MS})

    def test_firefox_says_why_a_thread_was_off(self):
        file = json.loads(self.export_waits("firefox").stdout)
        thread, = file["threads"]
        names = [category["name"] for category in file["meta"]["categories"]]
        stacks, strings = thread["stackTable"], thread["stringArray"]
        sums = {}
        for stack, weight in zip(thread["samples"]["stack"], thread["samples"]["weight"]):
            frame = stacks["frame"][stack]
            leaf = strings[thread["funcTable"]["name"][thread["frameTable"]["func"][frame]]]
            of = thread["frameTable"]["category"][frame]
            sums[names[stacks["category"][stack]], leaf, of if of is None else names[of]] = weight
        self.assertEqual(sums, {
            ("Futex", "[blocked]", None): 80.0, ("Futex", "[runnable]", None): 20.0,
            ("Preempted", "[preempted]", "Preempted"): 30.0,
            ("Page fault", "[page fault]", "Page fault"): 40.0,
            ("System call", "[system call 7]", "System call"): 50.0})

    def test_numbers_of_dial9_agree_in_all_formats(self):
        folded = self.kymo("export", "--format", "folded", self.dial9).stdout
        self.assertEqual(sum(int(line.rsplit(" ", 1)[1]) for line in folded.splitlines()), 141)
        scope = json.loads(self.kymo("export", "--format", "speedscope", self.dial9).stdout)
        self.assertEqual(sum(p["endValue"] for p in scope["profiles"]), 141)
        fox = json.loads(self.kymo("export", "--format", "firefox", self.dial9).stdout)
        self.assertEqual(sum(t["samples"]["length"] for t in fox["threads"]), 141)

    def test_wrong_use(self):
        self.kymo("export", self.file, code=2)
        self.kymo("export", "--format", "svg", self.file, code=2)
        self.kymo("export", "--format", "folded", "--kind", "gpu", self.file, code=2)
        self.kymo("export", "--format", "folded", "--live", self.file, code=2)
        ran = self.export("folded", "--task", 99, code=1)
        self.assertIn("no task 99", ran.stderr)
        ran = self.export("folded", "--from", "100s", code=1)
        self.assertIn("no sample of kind cpu is in this trace and this part of it", ran.stderr)
        ran = self.export("folded", "--from", "2s", "--to", "1s", code=2)
        self.assertIn("--to lies at or before --from", ran.stderr)
        said = json.loads(self.export("folded", "--json", "-o", self.dir / "x").stdout)
        lines = (self.dir / "x").read_text().splitlines()
        counts = [int(line.rsplit(" ", 1)[1]) for line in lines]
        self.assertEqual((said["format"], said["kind"], said["sum"]),
                         ("folded", "cpu", sum(counts)))
        self.assertIn("--force", self.export("folded", "-o", self.dir / "x", code=1).stderr)

    @unittest.skipUnless(os.path.exists("/dev/full"), "there is no /dev/full")
    def test_a_full_disk_is_reported(self):
        ran = self.export("folded", "-f", "-o", "/dev/full", code=1)
        self.assertIn("No space left", ran.stderr)


if __name__ == "__main__":
    KYMO = str(pathlib.Path(sys.argv[1]).resolve())
    ROOT = pathlib.Path(sys.argv[2]).resolve()
    unittest_tap.main(sys.argv[3:])
