#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0 OR MIT
"""kymo run: the program in it must not notice; what it recorded must be there however it ended.

usage: test_run.py KYMO HOST STATIC [unittest arguments]
HOST is run_host.c; STATIC a statically linked program, or "".
"""
import contextlib
import csv
import gzip
import json
import os
import pathlib
import pty
import shutil
import signal
import subprocess
import sys
import tempfile
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "tools"))
import unittest_tap  # noqa: E402
from unittest_tap import DEADLINE_S, wait_until  # noqa: E402

KYMO = HOST = STATIC = ""
POLLS = 1000


class Run(unittest.TestCase):
    def setUp(self):
        self.dir = pathlib.Path(tempfile.mkdtemp(prefix="kymo-run-"))
        self.rings = self.dir / "rings"
        self.traces = self.dir / "traces"
        self.started = []

    def tearDown(self):
        for name in ("go", "end"):  # for a process that still waits for one of these
            (self.dir / name).touch()
        for process in self.started:
            if process.poll() is None:
                process.kill()
                process.wait()
            for stream in (process.stdin, process.stdout, process.stderr):
                if stream:
                    stream.close()
        shutil.rmtree(self.dir, ignore_errors=True)

    def command(self, *args):
        return [KYMO, "run", "--ring-dir", self.rings, "-o", self.traces, *args]

    def run_kymo(self, *args, **options):
        options.setdefault("capture_output", True)
        return subprocess.run(self.command(*args), timeout=DEADLINE_S, check=False, **options)

    def start(self, *args, **options):
        options.setdefault("stderr", subprocess.PIPE)
        process = subprocess.Popen(self.command(*args), **options)
        self.started.append(process)
        return process

    def info(self, path=None):
        out = subprocess.run([KYMO, "info", "--json", path or self.traces], check=True,
                             capture_output=True).stdout
        return json.loads(out)

    def counts(self, path=None):
        return {entry["name"]: entry["count"] for entry in self.info(path)["types"]}

    def wait_for_events(self, name, count):
        """Until so many are written; before its first bytes a file is no trace yet."""
        def are_written():
            with contextlib.suppress(subprocess.CalledProcessError, KeyError):
                return self.counts()[name] == count
            return False
        wait_until(are_written)

    def runs(self):
        return sorted(path.parent for path in self.traces.glob("*/20*/.kymo-run"))

    def assert_nothing_left(self):
        self.assertEqual(sorted(self.rings.glob("*")) + sorted(self.rings.glob(".*")), [])


class Passes(Run):
    def test_exit_status_is_the_commands(self):
        for status in (0, 1, 7, 126, 255):
            self.assertEqual(self.run_kymo("sh", "-c", f"exit {status}").returncode, status)

    def test_death_by_a_signal_becomes_its_own(self):
        for number in (signal.SIGKILL, signal.SIGTERM, signal.SIGINT, signal.SIGABRT,
                       signal.SIGSEGV, signal.SIGPIPE):
            done = self.run_kymo("sh", "-c", f"kill -{int(number)} $$")
            self.assertEqual(done.returncode, -number)

    def test_what_cannot_be_started_is_reported_and_has_the_shells_status(self):
        done = self.run_kymo("no-such-program-here")
        self.assertEqual((done.returncode, done.stderr.count(b"\n")), (127, 1))
        self.assertIn(b"no-such-program-here: No such file", done.stderr)
        plain = self.dir / "plain"
        plain.write_text("")
        self.assertEqual(self.run_kymo(plain).returncode, 126)
        self.assertEqual(self.run_kymo(self.dir).returncode, 126)
        self.assertEqual(self.run_kymo("--mode", "fast", "true").returncode, 125)
        self.assertEqual(self.run_kymo().returncode, 125)
        self.assert_nothing_left()

    def test_streams_pass_every_byte(self):
        data = os.urandom(1 << 20)
        done = self.run_kymo("cat", input=data)
        self.assertEqual(done.stdout, data)

    def test_options_of_the_command_are_left_to_it(self):
        self.assertEqual(self.run_kymo("echo", "-o", "--", "--help").stdout, b"-o -- --help\n")
        self.assertEqual(self.run_kymo("--", "echo", "-q").stdout, b"-q\n")

    def test_signals_of_others_reach_it(self):
        ready = self.dir / "ready"
        for number, status in ((signal.SIGTERM, 31), (signal.SIGUSR1, 32), (signal.SIGHUP, 33),
                               (signal.SIGINT, 34), (signal.SIGWINCH, 35)):
            process = self.start("sh", "-c", f"trap 'exit {status}' {int(number)}; : > {ready}; "
                                 "while :; do sleep 0.02; done")
            wait_until(ready.exists)
            process.send_signal(number)
            self.assertEqual(process.wait(DEADLINE_S), status)
            ready.unlink()

    def test_ignored_signals_stay_ignored(self):
        done = self.run_kymo("sh", "-c", "kill -HUP $$; kill -PIPE $$; exit 5",
                             preexec_fn=lambda: [signal.signal(number, signal.SIG_IGN)
                                                 for number in (signal.SIGHUP, signal.SIGPIPE)])
        self.assertEqual(done.returncode, 5)

    def test_signal_mask_and_dispositions_are_the_callers(self):
        show = ("grep", "^Sig[BIC]", "/proc/self/status")
        plain = subprocess.run(show, capture_output=True, check=True).stdout
        self.assertEqual(self.run_kymo(*show).stdout, plain)

    def test_ignored_sigchld_does_not_lose_the_status(self):
        done = self.run_kymo("sh", "-c", "exit 6",
                             preexec_fn=lambda: signal.signal(signal.SIGCHLD, signal.SIG_IGN))
        self.assertEqual(done.returncode, 6)

    def test_same_process_group_and_session(self):
        process = self.start("cat", stdin=subprocess.PIPE, start_new_session=True)
        children = pathlib.Path(f"/proc/{process.pid}/task/{process.pid}/children")
        wait_until(lambda: children.read_text().split())
        child = int(children.read_text().split()[0])
        self.assertEqual(os.getpgid(child), process.pid)
        self.assertEqual(os.getsid(child), process.pid)

    def test_interrupt_of_the_terminal_comes_once(self):
        """Through a real terminal: ^C reaches the whole group, and kymo must not add its own."""
        log, ready, go = self.dir / "log", self.dir / "ready", self.dir / "go"
        script = (f"trap 'echo got >> {log}' INT; : > {ready}; "
                  f"while [ ! -e {go} ]; do sleep 0.02; done; exit 9")
        pid, main = pty.fork()
        if pid == 0:
            os.execv(KYMO, [os.fspath(word) for word in self.command("-q", "sh", "-c", script)])
        try:
            wait_until(ready.exists)
            os.write(main, b"\x03")
            wait_until(log.exists)
            go.touch()
            status = os.waitpid(pid, 0)[1]
        finally:
            os.close(main)
        self.assertEqual(os.waitstatus_to_exitcode(status), 9)
        self.assertEqual(log.read_text(), "got\n")

    def test_descriptors_of_ours_do_not_leak(self):
        show = ("sh", "-c", "ls /proc/$$/fd")
        plain = subprocess.run(show, capture_output=True, check=True).stdout
        self.assertEqual(self.run_kymo(*show).stdout, plain)

    def test_closed_streams_stay_closed(self):
        script = "for fd in 0 1 2; do [ -e /proc/$$/fd/$fd ] && exit 1; done; exit 42"
        done = subprocess.run(["sh", "-c", 'exec "$@" <&- >&- 2>&-', "sh",
                               *map(str, self.command("sh", "-c", script))],
                              timeout=DEADLINE_S, check=False)
        self.assertEqual(done.returncode, 42)

    def test_environment_is_kept_and_the_preload_appended(self):
        lines = self.run_kymo("env", env=dict(os.environ, LD_PRELOAD="libm.so.6", KEPT="x")).stdout
        lines = lines.decode().splitlines()
        self.assertIn("KEPT=x", lines)
        preload = [line for line in lines if line.startswith("LD_PRELOAD=")]
        self.assertEqual(len(preload), 1)
        self.assertRegex(preload[0], r"^LD_PRELOAD=libm\.so\.6:/.*libkymo-preload\.so$")

    def test_kymo_inside_kymo_preloads_once(self):
        done = self.run_kymo(*self.command("env"))
        lines = done.stdout.decode().splitlines()
        for name in ("LD_PRELOAD=", "KYMO_SESSION=", "KYMO_STATUS_PARENT="):
            self.assertEqual(len([line for line in lines if line.startswith(name)]), 1)
        self.assertEqual(sum(line.count("libkymo-preload.so") for line in lines
                             if line.startswith("LD_PRELOAD=")), 1)


class WithoutTokio(Run):
    def test_nothing_is_created_and_one_sentence_printed(self):
        done = self.run_kymo("true")
        self.assertEqual(done.stderr, b"kymo: true does not use Tokio, nor does a program it "
                                      b"started that could be recorded: nothing was recorded "
                                      b"(`perf record` samples any program)\n")
        self.assertFalse(self.traces.exists())
        self.assert_nothing_left()
        self.assertEqual(self.run_kymo("-q", "true").stderr, b"")

    def test_kymo_itself_does_not_use_tokio(self):
        done = self.run_kymo(KYMO, "--version")
        self.assertEqual((done.returncode, done.stderr.count(b"\n")), (0, 1))
        self.assertIn(b"does not use Tokio", done.stderr)

    def test_static_program_runs_and_one_sentence_says_why(self):
        if not STATIC:
            self.skipTest("no static libc to build one with")
        done = self.run_kymo(STATIC)
        self.assertEqual((done.returncode, done.stderr.count(b"\n")), (0, 1))
        self.assertIn(b"is statically linked", done.stderr)
        self.assertIn(b"`perf record`", done.stderr)

    @unittest.skipUnless(os.geteuid() == 0, "only root can make a setuid program of another user")
    def test_setuid_program_runs_and_one_sentence_says_why(self):
        program = self.dir / "true"
        shutil.copy(shutil.which("true"), program)
        os.chown(program, 12345, 12345)
        program.chmod(0o4755)
        done = self.run_kymo(program)
        self.assertEqual((done.returncode, done.stderr.count(b"\n")), (0, 1))
        self.assertIn(b"is setuid", done.stderr)

    def test_unusable_shared_memory_leaves_the_program_unrecorded(self):
        self.rings.mkdir(mode=0o777)
        self.rings.chmod(0o777)
        done = self.run_kymo("sh", "-c", "exit 8")
        self.assertEqual((done.returncode, done.stderr.count(b"\n")), (8, 1))
        self.assertIn(b"CMD runs unrecorded", done.stderr)

    def test_missing_library_leaves_the_program_unrecorded(self):
        done = self.run_kymo("sh", "-c", "exit 8",
                             env=dict(os.environ, KYMO_PRELOAD="/proc/nonexistent"))
        self.assertEqual((done.returncode, done.stderr.count(b"\n")), (8, 1))
        self.assertIn(b"libkymo-preload.so", done.stderr)


class Records(Run):
    def test_every_exit_path_leaves_everything(self):
        for action, status in (("return", 0), ("exit=3", 3), ("_exit=4", 4),
                               ("abort", -signal.SIGABRT), ("signal=15", -signal.SIGTERM),
                               ("signal=9", -signal.SIGKILL), ("signal=11", -signal.SIGSEGV)):
            for mode in ("stream", "flight"):
                done = self.run_kymo("--mode", mode, HOST, str(POLLS), action)
                self.assertEqual(done.returncode, status, action)
                self.assertRegex(done.stderr.decode(),
                                 r"\Akymo: trace: \S+ \(\d+ events(, the last [\d.]+ \w+)?, "
                                 r"nothing lost\)\n\Z")
                counts = self.counts()
                self.assertEqual((counts["PollStartEvent"], counts["PollEndEvent"]),
                                 (POLLS, POLLS), action)
                self.assert_nothing_left()
                shutil.rmtree(self.traces)

    def test_stream_mode_writes_while_it_runs(self):
        go = self.dir / "go"
        process = self.start("--rotate-interval", "1ms", HOST, str(POLLS), f"wait={go}",
                             f"polls={POLLS}")
        wait_until(lambda: list(self.traces.glob("*/20*/*.trc.zst")))
        go.touch()
        self.assertEqual(process.wait(DEADLINE_S), 0)
        self.assertEqual(self.counts()["PollStartEvent"], 2 * POLLS)
        self.assertGreater(len(list(self.traces.glob("*/20*/*.trc.zst"))), 1)

    def test_flight_mode_keeps_the_last(self):
        done = self.run_kymo("--mode", "flight", "--ring-bytes", "128K", HOST, "200000")
        self.assertEqual(done.returncode, 0)
        # What was overwritten on the way was never meant to be kept.
        self.assertRegex(done.stderr.decode(), r"events, the last \d.*, nothing lost\)")
        self.assertGreater(self.counts()["PollStartEvent"], 1000)
        self.assertLess(self.counts()["PollStartEvent"], 200000)

    def test_the_end_of_the_command_is_in_its_trace(self):
        for mode, reason in (("stream", None), ("flight", "abnormal end")):
            for action, end in (("return", "exit status 0"), ("exit=3", "exit status 3"),
                                ("signal=9", "signal 9 (SIGKILL)"), ("abort", "signal 6 (SIGABRT")):
                self.run_kymo("--mode", mode, HOST, str(POLLS), action)
                pairs = self.info()["metadata"]
                self.assertEqual(pairs["process.end"][:len(end)], end)
                expected = "exit" if reason and action == "return" else reason
                self.assertEqual(pairs.get("kymo.dump.reason"), expected)
                self.assertEqual(self.counts()["PollStartEvent"], POLLS)
                self.assert_nothing_left()
                shutil.rmtree(self.traces)

    def control(self, command, *args):
        return subprocess.run([KYMO, command, "--ring-dir", self.rings, *args], check=True,
                              capture_output=True, text=True, timeout=DEADLINE_S).stdout

    def set_mode(self, mode):
        (ring,) = json.loads(self.control("ps", "--json", "-i", "0"))["rings"]
        self.control("set", str(ring["pid"]), f"mode={mode}")
        (ring,) = json.loads(self.control("ps", "--json", "-i", "0"))["rings"]
        self.assertEqual(ring["mode"], mode)
        self.assertIn(f"Mode       {mode}", self.control("status", str(ring["pid"])))

    def sealed(self):
        return sorted(self.traces.glob("*/20*/*.trc.zst"))

    def active(self):
        return list(self.traces.glob("*/20*/*.active"))

    def breaks(self):
        """Tasks are polled in turn, 1 to 100 and again. Returns where they are not, and how many
        polls there are."""
        events = subprocess.run([KYMO, "events", "--format=csv", "--type", "PollStartEvent",
                                 self.traces], check=True, capture_output=True, text=True).stdout
        tasks = [int(row["task_id"]) for row in csv.DictReader(events.splitlines())]
        return [at for at, pair in enumerate(zip([0] + tasks, tasks))
                if pair[0] % 100 + 1 != pair[1]], len(tasks)

    def started_with_files(self, *args):
        """The host polls, and once more as soon as each of the files a, b, c, d is there."""
        more = [action for name in "abcd"
                for action in (f"wait={self.dir / name}", f"polls={POLLS}",
                               f"touch={self.dir / name}.done")]
        return self.start(*args, HOST, str(POLLS), *more)

    def go_on(self, *names):
        for name in names:
            (self.dir / name).touch()
            wait_until((self.dir / f"{name}.done").exists)

    def test_a_stream_set_to_flight_ends_with_a_dump_of_the_rest(self):
        process = self.started_with_files()
        self.wait_for_events("PollStartEvent", POLLS)
        self.set_mode("flight")
        wait_until(lambda: self.sealed() and not self.active())
        self.assertEqual(self.counts()["PollStartEvent"], POLLS)
        self.go_on(*"abcd")
        self.assertEqual(process.wait(DEADLINE_S), 0)
        self.assertEqual(len(self.sealed()), 2)
        self.assertEqual(self.breaks(), ([], 5 * POLLS))
        self.assertEqual(self.counts()["PollEndEvent"], 5 * POLLS)
        self.assertNotIn("LossEvent", self.counts())
        pairs = [self.info(path)["metadata"] for path in self.sealed()]
        self.assertEqual([pair.get("kymo.dump.reason") for pair in pairs], [None, "exit"])
        self.assertIn(b"nothing lost", process.stderr.read())
        self.assert_nothing_left()

    def test_a_flight_set_to_stream_writes_what_the_ring_holds(self):
        process = self.started_with_files("--mode", "flight")
        self.go_on("a")
        wait_until(lambda: list(self.rings.glob("*.ring")))
        self.set_mode("stream")
        wait_until(self.active)
        self.go_on(*"bcd")
        self.assertEqual(process.wait(DEADLINE_S), 0)
        self.assertEqual(self.breaks(), ([], 5 * POLLS))
        self.assertEqual(self.counts()["PollEndEvent"], 5 * POLLS)
        self.assertNotIn("kymo.dump.reason", self.info()["metadata"])
        self.assertIn(b"nothing lost", process.stderr.read())
        self.assert_nothing_left()

    def test_a_stream_set_to_flight_and_back_continues_without_a_loss(self):
        process = self.started_with_files()
        wait_until(self.active)
        self.set_mode("flight")
        wait_until(lambda: self.sealed() and not self.active())
        self.go_on("a", "b")
        self.set_mode("stream")
        wait_until(self.active)
        self.go_on("c")
        self.set_mode("flight")
        wait_until(lambda: len(self.sealed()) == 2 and not self.active())
        self.set_mode("stream")
        self.go_on("d")
        self.assertEqual(process.wait(DEADLINE_S), 0)
        self.assertEqual(self.breaks(), ([], 5 * POLLS))
        self.assertEqual(self.counts()["PollEndEvent"], 5 * POLLS)
        self.assertNotIn("LossEvent", self.counts())
        self.assertIn(b"nothing lost", process.stderr.read())
        self.assert_nothing_left()

    def test_what_a_flight_overwrote_is_counted_by_the_stream_after_it(self):
        more = [action for name in "ab" for action in
                (f"wait={self.dir / name}", "polls=100000", f"touch={self.dir / name}.done")]
        process = self.start("--ring-bytes", "128K", HOST, str(POLLS), *more)
        wait_until(self.active)
        self.set_mode("flight")
        wait_until(lambda: self.sealed() and not self.active())
        self.go_on("a")
        self.set_mode("stream")
        wait_until(self.active)
        self.assertEqual(process.poll(), None)
        (self.dir / "b").touch()
        self.assertEqual(process.wait(DEADLINE_S), 0)
        said = process.stderr.read().decode()
        losses = self.rows("LossEvent")
        flown = [int(row["record_count"]) for row in losses if row["cause"] == "flight"]
        lost = sum(int(row["record_count"]) for row in losses if row["cause"] != "flight")
        self.assertEqual(len(flown), 1, losses)
        counts = self.counts()
        reply = counts["PollStartEvent"] + counts["PollEndEvent"] + sum(flown) + lost
        self.assertGreaterEqual(reply, 2 * (POLLS + 200000))
        self.assertLess(reply, 2 * (POLLS + 200000) + 100)
        self.assertIn("overwritten in flight", said)
        self.assert_nothing_left()

    def rows(self, kind):
        events = subprocess.run([KYMO, "events", "--format=csv", "--type", kind, self.traces],
                                check=True, capture_output=True, text=True).stdout
        return list(csv.DictReader(events.splitlines()))

    def kill_group(self, *args):
        """Tasks are polled in turn, 1 to 100 and again: any loss, any duplicate shows."""
        process = self.start(*args, HOST, "0", "paced=1000000000", start_new_session=True)
        wait_until(lambda: any(path.stat().st_size > 100000
                               for path in self.traces.glob("*/20*/*.active")))
        os.killpg(process.pid, signal.SIGKILL)
        process.wait(DEADLINE_S)
        wait_until(lambda: not subprocess.run(["pgrep", "-s", str(process.pid)], check=False,
                                              stdout=subprocess.DEVNULL).returncode == 0)

    def assert_rest_has_no_loss(self, *args):
        done = subprocess.run([KYMO, "recover", "--ring-dir", self.rings, "-o", self.dir / "rest",
                               "--json", *args], check=True, capture_output=True)
        said = json.loads(done.stdout)
        self.assertEqual([said["continues"]], [str(path.resolve()) for path in self.runs()])
        events = subprocess.run([KYMO, "events", "--format=csv", "--type", "PollStartEvent",
                                 self.traces, said["file"]], check=True, capture_output=True,
                                text=True).stdout
        tasks = [int(row["task_id"]) for row in csv.DictReader(events.splitlines())]
        self.assertEqual(tasks[0], 1)
        wrong = [(at, tasks[at:at + 2]) for at in range(len(tasks) - 1)
                 if tasks[at] % 100 + 1 != tasks[at + 1]]
        self.assertEqual(wrong, [])
        self.assertGreater(len(tasks), 1000)

    def test_killed_with_its_group_the_rest_is_recovered_without_a_loss(self):
        self.kill_group("--rotate-interval", "700ms")
        self.assert_rest_has_no_loss()

    def test_killed_inside_a_chunk_the_rest_is_recovered_without_a_loss(self):
        self.kill_group("--ring-bytes", "256M")
        active = self.active()[0]
        data = active.read_bytes()
        for cut in range(0, 60000, 2999):
            active.write_bytes(data[:len(data) - cut])
            self.assert_rest_has_no_loss("--keep")

    def dumps(self):
        return sorted((self.dir / "traces.dumps").glob("*"))

    def test_a_rule_that_fires_dumps_in_both_modes(self):
        for mode in ("stream", "flight"):
            go = self.dir / f"go-{mode}"
            process = self.start("--mode", mode, "--trigger", "poll>50ms after=100ms", "-m", "a=b",
                                 "--trigger", "poll>9h", HOST, str(POLLS), "begin=7", f"wait={go}")
            wait_until(self.dumps)
            wait_until(lambda: all(path.name.endswith(".trc.zst") for path in self.dumps()))
            go.touch()
            self.assertEqual(process.wait(DEADLINE_S), 0)
            (dump,) = self.dumps()
            pairs, counts = self.info(dump)["metadata"], self.counts(dump)
            self.assertEqual((pairs["kymo.dump.reason"], pairs["kymo.trigger.rule"], pairs["a"]),
                             ("trigger-poll>50ms after=100ms", "poll>50ms after=100ms", "b"))
            self.assertRegex(pairs["kymo.trigger.value"], r"^\d.* m?s$")
            self.assertEqual((counts["TriggerEvent"], counts["PollStartEvent"]), (1, POLLS + 1))
            self.assertGreater(counts["StuckThreadEvent"], 0)
            said = process.stderr.read().decode()
            self.assertEqual(said.count("dump: "), 1, said)
            self.assertIn(str(dump), said)
            if mode == "stream":  # its own trace has it too
                self.assertEqual(self.counts()["TriggerEvent"], 1)
            self.assert_nothing_left()
            shutil.rmtree(self.dir / "traces.dumps")
            shutil.rmtree(self.traces)

    def test_a_dump_that_waits_is_made_when_the_process_ends(self):
        go = self.dir / "go"
        process = self.start("--trigger", "poll>50ms after=1h", "--dump-dir", self.dir / "d", HOST,
                             str(POLLS), "begin=7", f"wait={go}", "signal=9")
        self.wait_for_events("TriggerEvent", 1)
        go.touch()
        self.assertEqual(process.wait(DEADLINE_S), -signal.SIGKILL)
        (dump,) = (self.dir / "d").iterdir()
        self.assertEqual(self.counts(dump)["PollStartEvent"], POLLS + 1)
        self.assertEqual(self.info(dump)["metadata"]["kymo.trigger.rule"][:9], "poll>50ms")

    def test_rules_come_from_the_environment_too_and_wrong_ones_are_refused(self):
        done = self.run_kymo("--trigger", "poll>soon", "true")
        self.assertEqual((done.returncode, done.stderr.count(b"\n")), (125, 1))
        self.assertIn(b"--trigger: ", done.stderr)
        for nothing in ("", " ; "):
            done = self.run_kymo("--trigger", nothing, "true")
            self.assertEqual((done.returncode, done.stderr.count(b"\n")), (125, 1))
            self.assertIn(b"--trigger: no rule stands in", done.stderr)
        done = self.run_kymo("true", env={**os.environ, "KYMO_TRIGGERS": "cheese>3"})
        self.assertEqual(done.returncode, 125)
        self.assertIn(b"KYMO_TRIGGERS: ", done.stderr)
        self.assertEqual(self.run_kymo("true", env={**os.environ, "KYMO_TRIGGERS": "poll>1s"})
                         .returncode, 0)

    def test_children_get_directories_of_their_own(self):
        done = self.run_kymo("sh", "-c", f"{HOST} 10 & {HOST} 20 & wait; {HOST} 30")
        self.assertEqual(done.returncode, 0)
        self.assertIn("of 3 processes", done.stderr.decode())
        self.assertEqual(sorted(self.counts(path)["PollStartEvent"] for path in self.runs()),
                         [10, 20, 30])
        self.assert_nothing_left()

    def test_every_image_of_a_process_that_calls_exec_is_recorded(self):
        for before in ([], ["--rotate-interval", "1ms"]):
            go = self.dir / "go"
            process = self.start(*before, HOST, "10", f"wait={go}", "exec=200000")
            if before:  # the first image is being drained when it is replaced
                wait_until(lambda: list(self.traces.glob("*/20*/*.trc.zst")))
            go.touch()
            self.assertEqual(process.wait(DEADLINE_S), 0)
            self.assertRegex(process.stderr.read().decode(),
                             r"\Akymo: trace: \S+ \(\d+ events, nothing lost\)\n\Z")
            self.assertEqual(len(self.runs()), 1)
            self.assertEqual(self.counts()["PollStartEvent"], 200010)
            self.assert_nothing_left()
            shutil.rmtree(self.traces)
            go.unlink()

    def test_daemon_is_recorded_to_its_end(self):
        go, up = self.dir / "go", self.dir / "up"
        process = self.start(HOST, str(POLLS), "daemon", f"touch={up}", f"wait={go}",
                             f"polls={POLLS}")
        line = process.stderr.readline().decode()
        self.assertRegex(line, r"ended; still recording 1 process that it started")
        wait_until(up.exists)
        go.touch()
        self.assertEqual(process.wait(DEADLINE_S), 0)
        self.assertEqual(self.counts()["PollStartEvent"], 2 * POLLS)
        self.assert_nothing_left()

    def test_interrupt_ends_the_recording_of_a_daemon(self):
        go, up, end = self.dir / "go", self.dir / "up", self.dir / "end"
        process = self.start(HOST, str(POLLS), "daemon", f"touch={up}", f"wait={go}",
                             f"polls={POLLS}", f"touch={end}")
        wait_until(up.exists)
        self.assertIn("still recording", process.stderr.readline().decode())
        process.send_signal(signal.SIGINT)
        self.assertEqual(process.wait(DEADLINE_S), 0)
        self.assertEqual(self.counts()["PollStartEvent"], POLLS)
        self.assert_nothing_left()
        # It continues, into a file without a name, with its gates closed.
        go.touch()
        wait_until(end.exists)

    def test_death_of_kymo_does_not_touch_the_program(self):
        go, up, end = self.dir / "go", self.dir / "up", self.dir / "end"
        process = self.start(HOST, str(POLLS), f"touch={up}", f"wait={go}", f"polls={POLLS}",
                             f"touch={end}")
        wait_until(up.exists)
        process.kill()
        process.wait(DEADLINE_S)
        go.touch()
        wait_until(end.exists)
        self.assertEqual(len(list(self.rings.glob("*.ring"))), 1)

    def test_default_output_that_cannot_be_written_is_reported_once(self):
        (self.dir / "kymo-traces").write_text("a file where a directory should be")
        done = self.run_kymo("-o", "kymo-traces", HOST, str(POLLS), "exit=3", cwd=self.dir)
        self.assertEqual((done.returncode, done.stderr.count(b"\n")), (3, 1), done.stderr)
        self.assertIn(b"kymo: kymo-traces: ", done.stderr)
        self.assert_nothing_left()

    def test_full_disk_is_reported_once(self):
        if not os.path.exists("/dev/full"):
            self.skipTest("no /dev/full")
        size = str(64 << 10)
        if os.geteuid() != 0:
            self.skipTest("only root can mount a small file system")
        self.traces.mkdir()
        if subprocess.run(["mount", "-t", "tmpfs", "-o", f"size={size}", "kymo-test", self.traces],
                          check=False, capture_output=True).returncode:
            self.skipTest("mounting is not allowed here")
        try:
            done = self.run_kymo("--compress", "none", HOST, "200000", "exit=3")
            self.assertEqual(done.returncode, 3)
            self.assertEqual(done.stderr.count(b"CMD is not affected"), 1, done.stderr)
            self.assertIn(f"the file system at {self.traces} has too little room (".encode(),
                          done.stderr)
            self.assertIn(b"(the trace could not be written: No space left on device)",
                          done.stderr)
            self.assertNotIn(b"--ring-bytes", done.stderr)
        finally:
            subprocess.run(["umount", self.traces], check=True)
        self.assert_nothing_left()

    def test_full_disk_leaves_one_file_readable_to_its_end(self):
        if os.geteuid() != 0:
            self.skipTest("only root can mount a small file system")
        mounted = self.dir / "small"
        mounted.mkdir()
        if subprocess.run(["mount", "-t", "tmpfs", "-o", "size=64k", "kymo-test", mounted],
                          check=False, capture_output=True).returncode:
            self.skipTest("mounting is not allowed here")
        try:
            self.traces, go = mounted / "one.trc.gz", self.dir / "go"
            process = self.start(HOST, str(POLLS), f"wait={go}", "polls=200000", "exit=3")
            wait_until(lambda: self.traces.exists() and self.traces.stat().st_size)
            go.touch()
            self.assertEqual(process.wait(DEADLINE_S), 3)
            said = process.stderr.read()
            self.assertEqual(said.count(b"CMD is not affected"), 1, said)
            self.assertNotIn(b"nothing lost", said)
            gzip.decompress(self.traces.read_bytes())
            self.assertGreaterEqual(self.counts()["PollStartEvent"], POLLS)
        finally:
            subprocess.run(["umount", mounted], check=True)
        self.assert_nothing_left()

    def test_metadata_and_service_reach_the_trace(self):
        done = self.run_kymo("-s", "billing", "-m", "version=1.2", "-m", "zone=a=b", HOST, "10")
        self.assertEqual(done.returncode, 0)
        self.assertTrue((self.traces / "billing").is_dir())
        metadata = json.dumps(self.info())
        for part in ('"version"', '"1.2"', '"a=b"', '"billing"'):
            self.assertIn(part, metadata)

    def test_paths_that_are_not_utf8_do_not_spoil_the_trace(self):
        place = os.fsencode(self.dir) + b"/odd\xff\xc3"
        os.mkdir(place)
        shutil.copy(HOST, place + b"/host\xfe")
        self.assertEqual(self.run_kymo("--compress", "none", place + b"/host\xfe",
                                       "10").returncode, 0)
        [segment] = self.traces.glob("*/20*/0*")
        self.assertIn(b"/odd??/host?", segment.read_bytes())
        self.assertNotIn(b"odd\xff", segment.read_bytes())

    def test_one_file_holds_everything_and_can_be_read_meanwhile(self):
        go, path = self.dir / "go", self.dir / "new" / "one.trc.zst"
        self.traces = path
        process = self.start(HOST, str(POLLS), f"wait={go}", f"polls={POLLS}")
        self.wait_for_events("PollStartEvent", POLLS)
        go.touch()
        self.assertEqual(process.wait(DEADLINE_S), 0)
        self.assertEqual(self.counts()["PollStartEvent"], 2 * POLLS)
        self.assertIn(str(path).encode(), process.stderr.read())
        self.assertEqual(list(path.parent.iterdir()), [path])
        self.assertTrue(path.read_bytes().startswith(b"\x28\xb5\x2f\xfd"))

    def test_one_file_outlives_kymo(self):
        go = self.dir / "go"
        self.traces = self.dir / "one.trc.gz"
        process = self.start(HOST, str(POLLS), f"wait={go}", start_new_session=True)
        self.wait_for_events("PollStartEvent", POLLS)
        process.kill()
        process.wait(DEADLINE_S)
        go.touch()
        self.assertEqual(self.counts()["PollStartEvent"], POLLS)

    def test_one_file_each_for_further_processes(self):
        self.traces = self.dir / "one.trc"
        done = self.run_kymo("sh", "-c", f"{HOST} 10; {HOST} 20; {HOST} 30 exec=40")
        self.assertEqual(done.returncode, 0)
        paths = list(self.dir.glob("one*.trc"))
        self.assertIn(self.traces, paths)
        pids = [path.name.split(".")[1:-1] for path in paths if path != self.traces]
        self.assertTrue(all(pid[0].isdigit() for pid in pids))
        counts = sorted(self.counts(path)["PollStartEvent"] for path in paths)
        self.assertEqual(counts, [10, 20, 30, 40])
        self.assertEqual(done.stderr.count(b"\n"), 1, done.stderr)
        self.assertIn(f"in {len(paths)} files".encode(), done.stderr)

    def test_earlier_file_is_kept_unless_nothing_was_recorded(self):
        self.traces = self.dir / "one.trc"
        for polls in (10, 20, 30):
            self.assertEqual(self.run_kymo(HOST, str(polls)).returncode, 0)
        self.assertEqual(self.run_kymo("true").returncode, 0)
        self.assertEqual(self.counts()["PollStartEvent"], 30)
        self.assertEqual(self.counts(f"{self.traces}.old")["PollStartEvent"], 20)
        self.assertEqual(len(list(self.dir.glob("one*"))), 2)

    def test_file_that_is_no_trace_is_neither_moved_nor_replaced(self):
        letters = {"": b"a letter\n", ".gz": gzip.compress(b"a letter\n")}
        for suffix, letter in letters.items():
            self.traces = self.dir / f"one.trc{suffix}"
            old = pathlib.Path(f"{self.traces}.old")
            self.traces.write_bytes(letter)
            done = self.run_kymo(HOST, str(POLLS))
            self.assertEqual((done.returncode, done.stderr.count(b"\n")), (125, 1), done.stderr)
            self.assertIn(b"no trace", done.stderr)
            self.assertEqual(self.traces.read_bytes(), letter)
            self.assertFalse(old.exists())
            self.traces.unlink()
            self.assertEqual(self.run_kymo(HOST, "10").returncode, 0)
            old.write_bytes(letter)
            self.assertEqual(self.run_kymo(HOST, "20").returncode, 125)
            self.assertEqual(old.read_bytes(), letter)
            self.assertEqual(self.counts()["PollStartEvent"], 10)

    def test_bound_of_one_file_holds_and_the_rest_is_counted(self):
        for suffix, polls in (("", 100000), (".gz", 400000), (".zst", 1600000)):
            self.traces = self.dir / f"one.trc{suffix}"
            done = self.run_kymo("--total-bytes", "1M", HOST, str(polls))
            self.assertEqual((done.returncode, done.stderr.count(b"\n")), (0, 2), done.stderr)
            self.assertIn(b"--total-bytes was reached", done.stderr)
            self.assertLessEqual(self.traces.stat().st_size, 1 << 20)
            counts = self.counts()
            out = subprocess.run([KYMO, "events", "--type", "LossEvent", "--format", "csv",
                                  self.traces], check=True, capture_output=True, text=True).stdout
            rows = list(csv.DictReader(out.splitlines()))
            lost = sum(int(row["record_count"]) for row in rows)
            causes = {row["cause"] for row in rows}
            self.assertIn("write-error", causes)
            # A machine that is busy with others may overwrite some as well.
            self.assertLessEqual(causes, {"write-error", "overwritten"})
            self.assertEqual(counts["PollStartEvent"] + counts["PollEndEvent"] + lost, 2 * polls)

    def test_output_that_cannot_be_made_is_refused_before_the_program_starts(self):
        mark = self.dir / "mark"
        os.mkfifo(self.dir / "fifo.trc")
        for name in ("fifo.trc", "fifo.trc/dir", "fifo.trc/one.trc"):
            self.traces = self.dir / name
            done = self.run_kymo(HOST, "10", f"touch={mark}")
            self.assertEqual((done.returncode, done.stderr.count(b"\n")), (125, 1), done.stderr)
        self.assertFalse(mark.exists())

    def test_file_of_a_packing_we_do_not_write_is_refused_before_the_program_starts(self):
        mark = self.dir / "mark"
        for ending in ("xz", "bz2", "lz4", "zstd"):
            self.traces = self.dir / f"a.trc.{ending}"
            done = self.run_kymo(HOST, "10", f"touch={mark}")
            self.assertEqual((done.returncode, done.stderr.count(b"\n")), (125, 1), done.stderr)
            self.assertIn(b".trc.zst", done.stderr)
            self.assertFalse(mark.exists() or self.traces.exists())
            self.traces.mkdir()  # it is a directory, so it may be one
            self.assertEqual(self.run_kymo(HOST, "10").returncode, 0)

    def test_compression_as_asked_for(self):
        for how, suffix in (("none", ".trc"), ("gzip", ".trc.gz"), ("zstd:3", ".trc.zst")):
            self.assertEqual(self.run_kymo("--compress", how, HOST, "10").returncode, 0)
            self.assertEqual([path.name for path in self.traces.glob("*/20*/0*")],
                             ["000000" + suffix])
            shutil.rmtree(self.traces)

    def test_other_files_in_the_ring_directory_are_left_alone(self):
        self.rings.mkdir(mode=0o700)
        (self.rings / "other.ring").write_bytes(os.urandom(8192))
        (self.rings / "empty.ring").write_bytes(b"")
        os.mkfifo(self.rings / "fifo")
        (self.rings / "link.ring").symlink_to("/dev/zero")
        self.assertEqual(self.run_kymo(HOST, str(POLLS)).returncode, 0)
        self.assertEqual(self.counts()["PollStartEvent"], POLLS)
        self.assertEqual(sorted(path.name for path in self.rings.iterdir()),
                         ["empty.ring", "fifo", "link.ring", "other.ring"])

    def test_ring_directory_of_the_environment_is_used(self):
        rings, go = self.dir / "elsewhere", self.dir / "go"
        process = subprocess.Popen([KYMO, "run", "-q", "-o", self.traces, HOST, str(POLLS),
                                    f"wait={go}"],
                                   env={**os.environ, "KYMO_RING_DIR": str(rings)})
        self.started.append(process)
        wait_until(lambda: list(rings.glob("*.ring")))
        go.touch()
        self.assertEqual(process.wait(DEADLINE_S), 0)
        self.assertEqual(self.counts()["PollStartEvent"], POLLS)

    def test_ring_that_gets_the_number_of_a_foreign_file_is_seen(self):
        go, ready = self.dir / "go", self.dir / "ready"
        ready.touch()
        self.rings.mkdir(mode=0o700)
        foreign = {**os.environ, "KYMO_SESSION": "1", "KYMO_RING_DIR": str(self.rings)}
        subprocess.run([HOST, "10"], env=foreign, check=True)
        (left,) = self.rings.glob("*.ring")
        process = self.start("sh", "-c", f"{HOST} {POLLS} wait={go}; {HOST} {POLLS}")
        wait_until(lambda: list(self.traces.glob("*/20*/*.active")))
        left.unlink()  # ext4 gives its number to the next file
        ready.rename(go)
        self.assertEqual(process.wait(DEADLINE_S), 0)
        runs = list(self.traces.glob("*/20*"))
        self.assertEqual([self.counts(run)["PollStartEvent"] for run in runs], [POLLS, POLLS])

    def test_ring_truncated_while_it_is_drained_ends_only_its_recording(self):
        go, up = self.dir / "go", self.dir / "up"
        process = self.start(HOST, str(POLLS), f"touch={up}", f"wait={go}", "exit=3")
        wait_until(up.exists)
        wait_until(lambda: list(self.rings.glob("*.ring")))
        wait_until(lambda: list(self.traces.glob("*/20*/*")))
        os.truncate(next(self.rings.glob("*.ring")), 0)
        # The program itself may not survive this; kymo must, and must pass on how it ended.
        go.touch()
        self.assertIn(process.wait(DEADLINE_S), (3, -signal.SIGBUS))


if __name__ == "__main__":
    # Ignored under nohup or in the background, which children inherit and no shell can trap.
    signal.signal(signal.SIGHUP, signal.SIG_DFL)
    signal.signal(signal.SIGINT, signal.default_int_handler)
    KYMO, HOST = os.path.abspath(sys.argv[1]), os.path.abspath(sys.argv[2])
    STATIC = os.path.abspath(sys.argv[3]) if sys.argv[3] else ""
    unittest_tap.main(sys.argv[4:])
