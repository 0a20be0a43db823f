#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0 OR MIT
"""A program that the kernel kills for lack of memory: kymo says so when it knows, and only then.

usage: test_oom.py KYMO HOST [unittest arguments]
HOST is run_host.c. The memory ends in a cgroup of this test's own, below the one it runs in.
"""
import json
import os
import pathlib
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "tools"))
import unittest_tap  # noqa: E402
from unittest_tap import DEADLINE_S, wait_until  # noqa: E402

KYMO = HOST = ""
LIMIT_BYTES = 96 << 20


class Cgroup:
    """A memory cgroup of either version with a small limit; the test is skipped without it."""

    def __init__(self):
        if os.geteuid() != 0:
            raise unittest.SkipTest("takes root to make a memory cgroup")
        lines = pathlib.Path("/proc/self/cgroup").read_text().splitlines()
        found = {line.split(":")[1]: line.split(":", 2)[2].lstrip("/") for line in lines}
        if "memory" in found:
            top, limit = pathlib.Path("/sys/fs/cgroup/memory"), "memory.limit_in_bytes"
        else:
            top, limit = pathlib.Path("/sys/fs/cgroup"), "memory.max"
        self.path = top / found.get("memory", found.get("", "")) / f"kymo-test-{os.getpid()}"
        try:
            self.path.mkdir()
            (self.path / limit).write_text(str(LIMIT_BYTES))
        except OSError as error:
            self.close()
            raise unittest.SkipTest(f"no memory cgroup can be made: {error}") from error

    def close(self):
        for _ in range(500):  # its last process may still be on its way out
            try:
                self.path.rmdir()
                return
            except FileNotFoundError:
                return
            except OSError:
                time.sleep(0.01)

    @property
    def enter(self):
        """The words in front of a command that runs inside."""
        return ["sh", "-c", f"echo $$ > {self.path}/cgroup.procs; exec \"$@\"", "sh"]

    def kills(self):
        for name in ("memory.oom_control", "memory.events"):
            if (self.path / name).exists():
                text = (self.path / name).read_text()
                return int(re.search(r"^oom_kill (\d+)", text, re.M)[1])
        return 0


def log_is_readable():
    try:
        os.close(os.open("/dev/kmsg", os.O_RDONLY | os.O_NONBLOCK))
    except OSError:
        return False
    return os.stat("/proc/self/ns/pid").st_ino == 0xEFFFFFFC


def read_log():
    """What the kernel said so far."""
    log, text = os.open("/dev/kmsg", os.O_RDONLY | os.O_NONBLOCK), b""
    try:
        while True:
            try:
                text += os.read(log, 8192)
            except BrokenPipeError:  # overwritten meanwhile: it continues with the oldest
                pass
    except BlockingIOError:
        return text.decode(errors="replace")
    finally:
        os.close(log)


class Oom(unittest.TestCase):
    def setUp(self):
        self.cgroup = Cgroup()
        self.dir = pathlib.Path(tempfile.mkdtemp(prefix="kymo-oom-"))
        self.rings, self.traces = self.dir / "rings", self.dir / "traces"
        self.ready = self.dir / "ready"
        self.started = []

    def tearDown(self):
        (self.dir / "end").touch()
        for process in self.started:
            if process.poll() is None:
                process.kill()
            process.wait()
        self.cgroup.close()
        shutil.rmtree(self.dir, ignore_errors=True)

    def run_words(self, *words):
        return [KYMO, "run", "--mode", "flight", "--ring-dir", self.rings, "-o", self.traces, "--",
                *words]

    def start(self, *words, around=()):
        process = subprocess.Popen([*around, *self.run_words(*words)], stderr=subprocess.DEVNULL)
        self.started.append(process)
        return process

    def child_of(self, process):
        text = pathlib.Path(f"/proc/{process.pid}/task/{process.pid}/children").read_text()
        return int(text.split()[0])

    def checked(self, run):
        """kymo reads its program's cgroup once a second: a second from now, in its next step."""
        def slept():
            status = pathlib.Path(f"/proc/{run.pid}/status").read_text()
            return int(re.search(r"\nvoluntary_ctxt_switches:\s*(\d+)", status)[1])
        time.sleep(1)
        steps = slept()
        wait_until(lambda: slept() >= steps + 4)

    def end_of(self, path):
        done = subprocess.run([KYMO, "info", "--json", path], capture_output=True, text=True,
                              check=True)
        return json.loads(done.stdout)["metadata"]["process.end"]

    def grow_in_cgroup(self):
        """Another process of the cgroup, which is killed for memory."""
        done = subprocess.run([*self.cgroup.enter, HOST, "0", "grow"], check=False,
                              env={**os.environ, "KYMO_RING_DIR": str(self.dir / "other")})
        self.assertEqual(done.returncode, -signal.SIGKILL)

    @property
    def known(self):
        return "signal 9 (SIGKILL), " + ("" if log_is_readable() else "probably ") + "out of memory"

    def test_kymo_run_reports_what_the_kernel_did(self):
        run = self.start(HOST, "1000", "begin=7", "grow", around=self.cgroup.enter)
        self.assertEqual(run.wait(DEADLINE_S), -signal.SIGKILL)
        self.assertGreater(self.cgroup.kills(), 0)
        self.assertEqual(self.end_of(self.traces), self.known)

    def test_a_program_that_went_into_another_cgroup(self):
        go = self.dir / "go"
        run = self.start(*self.cgroup.enter, HOST, "1000", f"touch={self.ready}", f"wait={go}",
                         "grow")
        wait_until(self.ready.exists)
        self.checked(run)  # without it the log alone knows
        go.touch()
        self.assertEqual(run.wait(DEADLINE_S), -signal.SIGKILL)
        self.assertEqual(self.end_of(self.traces), self.known)

    @unittest.skipUnless(shutil.which("unshare"), "no unshare here")
    def test_where_pids_are_others_the_count_makes_it_probable(self):
        script = ("import subprocess, sys, signal; "
                  "sys.exit(subprocess.run(sys.argv[1:]).returncode != -signal.SIGKILL)")
        done = subprocess.run([*self.cgroup.enter, "unshare", "-p", "-f", "--mount-proc",
                               sys.executable, "-c", script,
                               *self.run_words(HOST, "1000", "grow")], check=False,
                              timeout=DEADLINE_S)
        self.assertEqual(done.returncode, 0)
        self.assertEqual(self.end_of(self.traces),
                         "signal 9 (SIGKILL), probably out of memory")

    def test_a_kill_by_hand_is_no_lack_of_memory_though_others_had_that(self):
        run = self.start(HOST, "1000", f"touch={self.ready}", f"wait={self.dir / 'end'}",
                         around=self.cgroup.enter)
        wait_until(self.ready.exists)
        self.grow_in_cgroup()
        self.assertGreater(self.cgroup.kills(), 0)
        if not log_is_readable():
            self.checked(run)
            time.sleep(2.5)  # what it saw is longer ago than what it takes for the reason
        os.kill(self.child_of(run), signal.SIGKILL)
        self.assertEqual(run.wait(DEADLINE_S), -signal.SIGKILL)
        self.assertEqual(self.end_of(self.traces), "signal 9 (SIGKILL)")

    def test_an_exit_is_no_lack_of_memory(self):
        run = self.start("sh", "-c", f"{HOST} 1000 grow; exec {HOST} 1000 exit=137",
                         around=self.cgroup.enter)
        self.assertEqual(run.wait(DEADLINE_S), 137)
        ends = {self.end_of(path.parent) for path in self.traces.glob("*/20*/.kymo-run")}
        self.assertIn("exit status 137", ends)

    def recovered(self, *kill):
        """kymo run is killed first; then the program ends in this way."""
        go = self.dir / "go"
        run = self.start(HOST, "1000", "begin=7", f"touch={self.ready}", f"wait={go}", "grow",
                         around=self.cgroup.enter)
        wait_until(self.ready.exists)
        host = self.child_of(run)
        run.kill()
        run.wait()
        if kill:
            os.kill(host, signal.SIGKILL)
        else:
            go.touch()
        wait_until(lambda: "dead" in subprocess.run(
            [KYMO, "ps", "-i", "0", "--ring-dir", self.rings], capture_output=True, text=True,
            check=False).stdout)
        if not kill and log_is_readable():  # it is written after the kill
            wait_until(lambda: f"Killed process {host} " in read_log())
        done = subprocess.run([KYMO, "recover", "--ring-dir", self.rings, "-o", self.traces],
                              capture_output=True, text=True, check=False)
        self.assertEqual((done.returncode, done.stderr), (0, ""))
        (trace,) = self.traces.glob("*.trc.zst")
        return done.stdout.splitlines()[0], self.end_of(trace)

    def test_recover_reads_the_log(self):
        line, end = self.recovered()
        if log_is_readable():
            self.assertIn("ended: signal 9 (SIGKILL), out of memory", line)
            self.assertEqual(end, "signal 9 (SIGKILL), out of memory")
        else:
            self.assertIn("ended: unknown, no process waited for it", line)
            self.assertEqual(end, "unknown")

    def test_recover_claims_nothing_about_a_kill_by_hand(self):
        line, end = self.recovered("by hand")
        self.assertIn("ended: unknown, no process waited for it", line)
        self.assertEqual(end, "unknown")


if __name__ == "__main__":
    KYMO, HOST = map(os.path.abspath, sys.argv[1:3])
    unittest_tap.main(sys.argv[3:])
