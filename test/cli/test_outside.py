#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0 OR MIT
"""kymo run of a program that makes no ring: what can be seen from outside, and what is said of it.

usage: test_outside.py KYMO OUTSIDE STATIC HOST DENY [unittest arguments]
OUTSIDE is outside_host.c; STATIC the same, linked statically, or ""; HOST is run_host.c, which
records itself; DENY is deny_calls.c.
"""
import json
import os
import pathlib
import resource
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "tools"))
import unittest_tap  # noqa: E402
from unittest_tap import wait_until  # noqa: E402

KYMO = OUTSIDE = STATIC = HOST = DENY = ""
DEADLINE_S = 120
SHARE = 0.75  # of much_work()
UNSEEN = "polls, wakes and tasks: "
NO_TOKIO = UNSEEN + "it does not use Tokio"
LINE = r"is seen from outside alone, for it does not use Tokio: "
TRACE = r"kymo: trace: \S+ \(\d+ events(, the last [\d.]+ \w+)?, nothing lost\)\n\Z"


def has_perf():
    """Is anything sampled here? Asked of kymo, on a program that takes the processor."""
    with tempfile.TemporaryDirectory(prefix="kymo-outside-") as place:
        done = subprocess.run([KYMO, "run", "--ring-dir", f"{place}/rings", "-o", f"{place}/t",
                               OUTSIDE, "burn=1000"], check=True, capture_output=True, text=True)
        return "stack samples and resources" in done.stderr


class Outside(unittest.TestCase):
    def setUp(self):
        self.dir = pathlib.Path(tempfile.mkdtemp(prefix="kymo-outside-"))
        self.rings = self.dir / "rings"
        self.traces = self.dir / "traces"

    def tearDown(self):
        (self.dir / "go").touch()  # whoever still waits for it
        shutil.rmtree(self.dir, ignore_errors=True)

    def command(self, *args, output=None, deny=()):
        before = [DENY, *deny, "--"] if deny else []
        return [*before, KYMO, "run", "--ring-dir", self.rings, "-o", output or self.traces, *args]

    def run_kymo(self, *args, output=None, deny=(), **options):
        return subprocess.run(self.command(*args, output=output, deny=deny), check=False,
                              timeout=DEADLINE_S, capture_output=True, text=True, **options)

    def info(self, path=None):
        return json.loads(subprocess.run([KYMO, "info", "--json", path or self.traces], check=True,
                                         capture_output=True).stdout)

    def counts(self, path=None):
        return {entry["name"]: entry["count"] for entry in self.info(path)["types"]}

    def text(self, command, path=None):
        return subprocess.run([KYMO, command, path or self.traces], check=True, text=True,
                              capture_output=True).stdout

    def functions(self, path=None):
        """Samples by the innermost of the two functions that their stack names."""
        out = subprocess.run([KYMO, "export", "--to", "folded", path or self.traces],
                             check=True, capture_output=True, text=True).stdout
        counts = {}
        for line in out.splitlines():
            stack, weight = line.rsplit(" ", 1)
            name = next((name for name in ("much_work", "little_work") if name in stack), "other")
            counts[name] = counts.get(name, 0) + int(weight)
        return counts

    def check_share(self, path=None):
        """The functions take turns that are long against a period: closer than a draw."""
        counts = self.functions(path)
        samples = self.counts(path)["CpuSampleEvent"]
        share = counts.get("much_work", 0) / sum(counts.values())
        self.assertLess(abs(share - SHARE), 4 * (SHARE * (1 - SHARE) / samples) ** 0.5 + 0.02,
                        counts)

    def services(self):
        return sorted(path.name for path in self.traces.glob("*"))

    def assert_nothing_left(self):
        self.assertEqual(sorted(self.rings.glob("*")) + sorted(self.rings.glob(".*")), [])

    def assert_nothing_recorded(self, done):
        self.assertIn("nothing was recorded", done.stderr)
        self.assertEqual(done.stderr.count("\n"), 1)
        self.assertFalse(self.traces.exists())
        self.assert_nothing_left()


class Samples(Outside):
    def setUp(self):
        super().setUp()
        if not HAS_PERF:
            self.skipTest("perf_event yields no samples here")

    def test_a_stream_names_the_functions_that_took_the_processor(self):
        done = self.run_kymo(OUTSIDE, "burn=2000", "exit=3")
        self.assertEqual(done.returncode, 3)
        self.assertRegex(done.stderr, r"\Akymo: \S+ " + LINE + r"stack samples and resources, but "
                                      r"no polls, wakes or tasks\n" + TRACE)
        metadata = self.info()["metadata"]
        self.assertEqual(metadata["recorder.unseen"], NO_TOKIO)
        self.assertEqual(metadata["kymo.source"], "outside")
        self.assertEqual(metadata["process.end"], "exit status 3")
        self.assertEqual(metadata["sampling.cpu"], "perf_event")
        counts = self.counts()
        # The number is the machine's: where samples are dear they are taken in windows.
        self.assertGreaterEqual(counts["CpuSampleEvent"], 10)
        weight_ns = sum(self.functions().values())
        self.assertGreater(weight_ns, 2_000_000_000 * 0.8)
        self.assertLess(weight_ns, 2_000_000_000 * 1.2)
        self.assertGreater(counts["ProcessMapEvent"], 0)
        self.assertNotIn("PollStartEvent", counts)
        self.check_share()
        self.assert_nothing_left()

    def test_what_is_unseen_stands_in_info_and_report(self):
        self.run_kymo(OUTSIDE, "burn=1000")
        for command in ("info", "report"):
            self.assertIn(f"Unseen    {NO_TOKIO}\n", self.text(command))
        report = self.text("report")
        self.assertRegex(report, r"\Aoutside_host: [\d.]+ m?s from \S+ \S+ UTC, "
                                 r"seen from outside\n")
        self.assertIn("much_work", report)
        for word in ("0 polls", "in a poll", "kind of task"):
            self.assertNotIn(word, report)

    def test_one_file_reads_like_any_other(self):
        trace = self.dir / "one.trc.zst"
        done = self.run_kymo("-s", "named", OUTSIDE, "burn=1500", output=trace)
        self.assertEqual(done.returncode, 0)
        self.assertEqual(self.info(trace)["metadata"]["service"], "named")
        self.check_share(trace)
        subprocess.run([KYMO, "symbolize", "-o", self.dir / "s.trc", trace], check=True,
                       capture_output=True)
        self.check_share(self.dir / "s.trc")
        events = self.text("events", trace)
        self.assertIn("CpuSampleEvent", events)

    def test_a_flight_has_it_in_its_dump(self):
        done = self.run_kymo("--mode", "flight", OUTSIDE, "burn=2000", "exit=7")
        self.assertEqual(done.returncode, 7)
        self.assertRegex(done.stderr, TRACE)
        metadata = self.info()["metadata"]
        self.assertEqual(metadata["recorder.unseen"], NO_TOKIO)
        self.assertEqual(metadata["kymo.mode"], "flight")
        self.check_share()
        self.assert_nothing_left()

    def test_a_static_program_is_seen(self):
        if not STATIC:
            self.skipTest("no static libc to build one with")
        done = self.run_kymo(STATIC, "burn=1500", "exit=4")
        self.assertEqual((done.returncode, done.stderr.count("\n")), (4, 2))
        self.assertIn("is statically linked, so no library can be preloaded: stack samples",
                      done.stderr)
        self.assertIn("it is statically linked", self.info()["metadata"]["recorder.unseen"])
        self.check_share()

    @unittest.skipUnless(shutil.which("strip"), "no strip")
    def test_a_stripped_program_has_samples_without_names(self):
        program = self.dir / "bare"
        subprocess.run(["strip", "-o", program, OUTSIDE], check=True)
        self.assertEqual(self.run_kymo(program, "burn=1000").returncode, 0)
        self.assertGreaterEqual(self.counts()["CpuSampleEvent"], 10)
        self.assertEqual(self.functions().keys(), {"other"})

    def test_what_is_kept_back_is_written_before_its_room_is_used_up(self):
        """Room for 192 samples, two seconds of them; at a higher rate the kernel's own room would
        be used up wherever kymo has to wait for a processor."""
        done = self.run_kymo("--sample-bytes", "128K", OUTSIDE, "burn=3000")
        self.assertRegex(done.stderr, TRACE)
        self.assertGreater(sum(self.functions().values()), 3_000_000_000 * 0.8)
        self.check_share()

    def test_the_next_image_has_a_trace_of_its_own(self):
        other = self.dir / "other"
        shutil.copy(OUTSIDE, other)
        self.assertEqual(self.run_kymo("sh", "-c", f"exec {OUTSIDE} burn=1000 "
                                                   f"exec={other} burn=1000 exit=5").returncode, 5)
        self.assertIn("other", self.services())
        self.assertIn("outside_host", self.services())
        self.assertNotIn("dash", self.services())
        self.assertGreaterEqual(self.counts(self.traces / "other")["CpuSampleEvent"], 10)

    def test_a_dump_has_it_while_it_runs(self):
        process = subprocess.Popen(self.command("-q", "--mode", "flight", OUTSIDE, "burn=1500",
                                                f"wait={self.dir}/go"))
        try:
            deadline = time.monotonic() + DEADLINE_S
            dump = self.dir / "dump.trc"
            count = 0
            while count < 10 and time.monotonic() < deadline:
                dump.unlink(missing_ok=True)
                done = subprocess.run([KYMO, "dump", "--ring-dir", self.rings, "-o", dump,
                                       "outside_host"], check=False, capture_output=True)
                if done.returncode == 0:
                    count = self.counts(dump).get("CpuSampleEvent", 0)
                time.sleep(0.05)
            self.assertGreaterEqual(count, 10)
            metadata = self.info(dump)["metadata"]
            self.assertEqual(metadata["kymo.source"], "outside")
            self.assertEqual(metadata["recorder.unseen"], NO_TOKIO)
        finally:
            (self.dir / "go").touch()
            self.assertEqual(process.wait(timeout=DEADLINE_S), 0)

    def test_a_recorder_that_was_killed_leaves_what_can_be_recovered(self):
        """CMD goes on as if nothing had happened; its ring becomes a trace behind its end."""
        process = subprocess.Popen(self.command("-q", OUTSIDE, "burn=1500", f"wait={self.dir}/go"),
                                   stdout=subprocess.PIPE)
        deadline = time.monotonic() + DEADLINE_S
        dump = self.dir / "dump.trc"
        while time.monotonic() < deadline:
            dump.unlink(missing_ok=True)
            done = subprocess.run([KYMO, "dump", "--ring-dir", self.rings, "-o", dump,
                                   "outside_host"], check=False, capture_output=True)
            if done.returncode == 0 and self.counts(dump).get("CpuSampleEvent", 0) >= 10:
                break
            time.sleep(0.05)
        process.kill()
        process.wait()
        (self.dir / "go").touch()
        process.stdout.read()  # until CMD is about to end: it holds the pipe
        process.stdout.close()
        while list(self.rings.glob("*.ring")) and time.monotonic() < deadline:
            subprocess.run([KYMO, "recover", "--ring-dir", self.rings, "-o", self.dir / "saved"],
                           check=False, capture_output=True)
            time.sleep(0.05)
        self.assertGreaterEqual(self.counts(self.dir / "saved")["CpuSampleEvent"], 10)
        self.assertEqual(self.info(self.dir / "saved")["metadata"]["recorder.unseen"], NO_TOKIO)


class Without(Outside):
    """Where nothing is sampled, wanted or not: resources, and a sentence that says so."""

    def test_sample_off_leaves_the_resources(self):
        done = self.run_kymo("--sample", "off", "sleep", "2.5")
        self.assertRegex(done.stderr, LINE + r"resources alone, without stacks \(as asked for\), "
                                             r"but no polls, wakes or tasks\n" + TRACE)
        counts = self.counts()
        self.assertGreaterEqual(counts["ProcessResourceUsageEvent"], 2)
        self.assertNotIn("CpuSampleEvent", counts)
        self.assertEqual(self.info()["metadata"]["sampling.cpu"], "off")
        self.assert_nothing_left()

    def test_where_perf_is_refused_the_resources_are_left_and_one_sentence_says_so(self):
        done = self.run_kymo("sleep", "2.5", deny=["perf"])
        self.assertRegex(done.stderr, LINE + r"resources alone, without stacks \(perf_event: "
                                             r"Operation not permitted; `kymo doctor` tells more\)"
                                             r", but no polls, wakes or tasks\n" + TRACE)
        self.assertEqual(done.stderr.count("\n"), 2)
        self.assertGreaterEqual(self.counts()["ProcessResourceUsageEvent"], 2)
        self.assertEqual(self.info()["metadata"]["sampling.cpu.refused"],
                         "perf_event: Operation not permitted")

    def test_with_neither_there_is_nothing_to_see(self):
        done = self.run_kymo("--sample", "off", "--resources", "off", OUTSIDE, "burn=50", "exit=9")
        self.assertEqual(done.returncode, 9)
        self.assert_nothing_recorded(done)

    def test_where_no_ring_can_be_made_the_sentence_says_so(self):
        done = self.run_kymo("sh", "-c", "sleep 2; exit 2", preexec_fn=lambda: resource.setrlimit(
            resource.RLIMIT_FSIZE, (8 << 20, 8 << 20)))
        self.assertEqual(done.returncode, 2)
        self.assertIn("is not recorded: it does not use Tokio, and no ring could be made for what "
                      "is seen from outside (File too large)\n", done.stderr)
        self.assertFalse(self.traces.exists())
        self.assert_nothing_left()

    def test_a_short_program_leaves_nothing(self):
        for mode in ("stream", "flight"):
            for program in ("true", "false"):
                done = self.run_kymo("--mode", mode, program)
                self.assertEqual(done.returncode, program == "false")
                self.assert_nothing_recorded(done)

    def test_the_end_is_passed_on(self):
        for words, status in ((["exit=3"], 3), (["signal=15"], -signal.SIGTERM),
                              (["signal=9"], -signal.SIGKILL), (["signal=11"], -signal.SIGSEGV)):
            for mode in ("stream", "flight"):
                done = self.run_kymo("-q", "--mode", mode, OUTSIDE, "burn=150", *words)
                self.assertEqual((done.returncode, done.stderr), (status, ""))
                self.assert_nothing_left()

    def test_quiet_is_quiet(self):
        done = self.run_kymo("-q", OUTSIDE, "burn=300")
        self.assertEqual((done.returncode, done.stdout, done.stderr), (0, "", ""))


class Launcher(Outside):
    """Whoever starts what records itself has no trace of its own beside that one."""

    def test_a_shell_adds_nothing_to_what_its_child_records(self):
        for mode in ("stream", "flight"):
            done = self.run_kymo("--mode", mode, "sh", "-c", f"{OUTSIDE} burn=100; {HOST} 10 "
                                                             "return; exit 6")
            self.assertEqual(done.returncode, 6)
            self.assertRegex(done.stderr, r"\A" + TRACE)
            self.assertEqual(self.services(), ["run_host"])
            metadata = self.info()["metadata"]
            self.assertNotIn("recorder.unseen", metadata)
            self.assertEqual(metadata["kymo.source"], "tokio preload")
            self.assertEqual(self.counts()["PollStartEvent"], 10)
            self.assert_nothing_left()
            shutil.rmtree(self.traces)

    def test_the_one_file_is_the_childs(self):
        trace = self.dir / "one.trc"
        done = self.run_kymo("sh", "-c", f"sleep 0.3; {HOST} 10 return; sleep 0.3", output=trace)
        self.assertRegex(done.stderr, r"\A" + TRACE)
        self.assertEqual(self.info(trace)["metadata"]["service"], "run_host")
        self.assertEqual(sorted(path.name for path in self.dir.glob("*.trc*")), ["one.trc"])

    def test_a_launcher_that_becomes_it_adds_nothing(self):
        done = self.run_kymo("sh", "-c", f"sleep 0.3; exec {HOST} 10 return")
        self.assertRegex(done.stderr, r"\A" + TRACE)
        self.assertEqual(self.services(), ["run_host"])

    def test_what_a_launcher_became_unseen_is_recorded_to_its_end(self):
        """kymo sees the exec before the ring that is older than what it makes from outside."""
        more, ready, go = (self.dir / name for name in ("more", "ready", "go"))
        script = (f"while [ ! -e {more} ]; do sleep 0.02; done; "
                  f"exec {HOST} 10 touch={ready} wait={go} polls=10 exit=3")
        process = subprocess.Popen(self.command("sh", "-c", script), stderr=subprocess.PIPE,
                                   text=True)
        stat = pathlib.Path(f"/proc/{process.pid}/stat")
        try:
            wait_until(lambda: list(self.rings.glob("*.outside0.ring")))
            process.send_signal(signal.SIGSTOP)
            wait_until(lambda: stat.read_text().rpartition(")")[2].split()[0] == "T")
            more.touch()
            wait_until(ready.exists)
            process.send_signal(signal.SIGCONT)
            wait_until(lambda: not list(self.rings.glob("*.outside*.ring")))
        finally:
            process.send_signal(signal.SIGCONT)
            more.touch()
            go.touch()
            said = process.communicate(timeout=DEADLINE_S)[1]
        self.assertEqual(process.returncode, 3)
        self.assertRegex(said, r"\A" + TRACE)
        self.assertEqual(self.services(), ["run_host"])
        self.assertEqual(self.counts()["PollStartEvent"], 20)
        self.assertEqual(self.info()["metadata"]["process.end"], "exit status 3")
        self.assert_nothing_left()


if __name__ == "__main__":
    KYMO, OUTSIDE, STATIC, HOST, DENY = sys.argv[1:6]
    HAS_PERF = has_perf()
    os.environ.pop("KYMO_RING_DIR", None)
    unittest_tap.main(sys.argv[6:])
