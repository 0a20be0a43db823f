#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0 OR MIT
"""kymo attach of a process in other namespaces, and killed at every step of its work.

usage: test_attach_edges.py KYMO HOST STEPS LIBRARY DENY [unittest arguments]
They are those of attach_case.py.
"""
import fcntl
import json
import os
import pathlib
import re
import shutil
import signal
import subprocess
import unittest

from attach_case import (ANSWERED, HOST, KYMO, LIBRARY, STEPS, WAITS, Attach, executable_unnamed,
                         main, maps, threads)
from unittest_tap import DEADLINE_S, wait_until


def sleeps_of_child(pid):
    child = pathlib.Path(f"/proc/{pid}/task/{pid}/children").read_text().strip() or "0"
    status = pathlib.Path(f"/proc/{child}/status")
    found = re.search(r"\nvol\D*(\d+)", status.read_text() if status.exists() else "")
    return int(found[1]) if found else 0


@unittest.skipUnless(os.geteuid() == 0 and shutil.which("unshare"), "needs root and unshare")
class Namespaces(Attach):
    """A process of another pid and mount namespace, as in a container."""

    def boxed(self, *kinds, before=""):
        pid_file = self.dir / "inner"
        script = (f"mount -t tmpfs none /dev/shm; {before} echo $$ > {pid_file}; "
                  f"exec {HOST} {' '.join(kinds)}")
        outer = subprocess.Popen(["unshare", "-p", "-m", "-f", "--mount-proc", "--kill-child", "sh",
                                  "-c", script], stdout=subprocess.PIPE, text=True,
                                 env={name: value for name, value in os.environ.items()
                                      if name != "KYMO_RING_DIR"})
        self.started.append(outer)
        self.assertEqual(outer.stdout.readline(), "1\n")
        children = pathlib.Path(f"/proc/{outer.pid}/task/{outer.pid}/children").read_text()
        return outer, int(children.split()[0])

    def end(self, outer, pid):
        os.kill(pid, signal.SIGTERM)
        out = outer.stdout.read()
        self.assertEqual(outer.wait(DEADLINE_S), 0, out)
        self.assertIn("bad=0", out)

    def test_flight_and_its_dump(self):
        outer, pid = self.boxed(*WAITS)
        self.assertRegex(self.done("attach", pid), ANSWERED)
        trace = self.dir / "dump.trc"
        # Not before a poll began or ended: kymo says that, and makes no file.
        wait_until(lambda: subprocess.run([KYMO, "dump", str(pid), "-o", trace],
                                          capture_output=True, check=False).returncode == 0)
        self.assertGreater(json.loads(self.done("info", "--json", trace))["events"], 0)
        self.refused(pid, "is recorded already")
        self.assertRegex(self.done("detach", pid), ANSWERED)
        self.end(outer, pid)

    def test_stream_finds_the_ring_there(self):
        outer, pid = self.boxed(*WAITS)
        stream = subprocess.Popen([KYMO, "attach", "--mode", "stream", "-o", self.dir / "traces",
                                   str(pid)], stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                                  text=True)
        self.started.append(stream)
        self.assertRegex(stream.stdout.readline(), ANSWERED)
        wait_until(lambda: list((self.dir / "traces").rglob("*.trc.zst*")))
        self.done("detach", pid)
        out, err = stream.communicate(timeout=DEADLINE_S)
        self.assertEqual((err, stream.returncode), ("", 0))
        self.assertRegex(out, r"^trace: .* 0 records lost, 0 dropped\)\n$")
        self.end(outer, pid)

    @unittest.skipUnless(tuple(map(int, os.uname().release.split(".")[:2])) >= (6, 9),
                         "before Linux 6.9 all pidfds are one inode")
    def test_one_kymo_at_a_time_wherever_it_stands(self):
        outer, pid = self.boxed(*WAITS)
        with open(os.pidfd_open(pid), "rb", buffering=0) as turn:
            fcntl.flock(turn, fcntl.LOCK_EX)  # as a kymo does that is at work in it
            inner = subprocess.Popen(["nsenter", "-t", str(pid), "-p", "-m", KYMO, "attach", "1"],
                                     stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
            wait_until(lambda: inner.poll() is not None or sleeps_of_child(inner.pid) > 100)
            self.assertIsNone(inner.poll(), "it did not wait for its turn")
        self.assertRegex(inner.communicate(timeout=DEADLINE_S)[0], ANSWERED)
        self.refused(pid, "is recorded already")
        self.assertRegex(self.done("detach", pid), ANSWERED)
        self.end(outer, pid)

    def test_where_the_library_is_not(self):
        folder = os.path.dirname(LIBRARY)
        outer, pid = self.boxed("futex", before=f"mount -t tmpfs none {folder};")
        self.refused(pid, "lives in another file system (a container?)", LIBRARY, "KYMO_PRELOAD")
        self.end(outer, pid)


class Busy(Attach):
    def test_memory_that_is_taken_is_left_alone_and_had_elsewhere(self):
        """So it is where a thread that we gave up has not given back what it got for us."""
        process = self.host("futex", "epoll")
        parts = [[int(part, 16) for part in line.split()[0].split("-")]
                 for line in maps(process.pid)]
        taken = next(end for (_, end), (start, _) in zip(parts, parts[1:]) if start - end > 1 << 20)
        done = subprocess.run([STEPS, "start", str(process.pid), LIBRARY, "taken",
                               f"{taken - 4096:x}"], capture_output=True, text=True,
                              timeout=DEADLINE_S, check=False)
        self.assertEqual((done.returncode, done.stderr), (0, ""))
        now = [int(line.split()[0].split("-")[1], 16) for line in maps(process.pid)]
        self.assertIn(taken, now)
        self.detach(process)
        self.ended(process)


class Killed(Attach):
    """SIGKILL at every step: the process runs on as it was, and a later attach works.

    One exception is known: the kernel never takes an epoll_wait up again by itself, so when we die
    in the microseconds between its stop and the first change of registers, it gives EINTR. Tokio's
    driver expects that of it.
    """

    def steps(self, action, process):
        done = subprocess.run([STEPS, action, str(process.pid), LIBRARY], capture_output=True,
                              text=True, timeout=DEADLINE_S, check=True)
        lines = done.stdout.splitlines()
        self.assertTrue(lines[-1].startswith("ok "), done.stdout)
        return [line.split()[0] for line in lines[:-1]]

    def kill_at(self, action, process, step):
        done = subprocess.run([STEPS, action, str(process.pid), LIBRARY, step],
                              timeout=DEADLINE_S, check=False, capture_output=True, text=True)
        self.assertEqual((done.returncode, done.stderr), (-signal.SIGKILL, ""), step)

    def test_the_process_killed_at_every_step(self):
        process = self.host("epoll", "sleep")
        names = list(dict.fromkeys(self.steps("start", process)))
        self.ended(process, 1)
        for step in names:
            with self.subTest(step=step):
                self.remove_rings()
                process = self.host("epoll", "sleep")
                done = subprocess.run([STEPS, "start", str(process.pid), LIBRARY, step, "target"],
                                      timeout=DEADLINE_S, check=False, capture_output=True,
                                      text=True)
                self.assertEqual(process.wait(DEADLINE_S), -signal.SIGKILL)
                if step != "attach.done":  # it had answered already
                    self.assertEqual((done.returncode, done.stderr.count("\n")), (1, 1), done)
                    self.assertRegex(done.stderr, "ended meanwhile|does not exist|has ended")

    def remove_rings(self):
        for ring in self.rings.iterdir():
            ring.unlink()

    def test_attach_killed_at_every_step(self):
        for kind in WAITS:
            process = self.host(kind, "sleep", "read")
            own, before = threads(process.pid), executable_unnamed(process.pid)
            names = list(dict.fromkeys(self.steps("start", process)))
            self.steps("stop", process)
            self.assertGreater(len(names), 8, names)
            for step in names:
                with self.subTest(kind=kind, step=step):
                    self.remove_rings()
                    self.kill_at("start", process, step)
                    wait_until(lambda: threads(process.pid) == own)
                    wait_until(lambda: executable_unnamed(process.pid) == before)
                    is_committed = step in ("attach.go", "attach.done")
                    self.assertEqual(len(list(self.rings.iterdir())) > 0, is_committed)
                    if is_committed:
                        self.detach(process)
            self.attach(process)
            self.detach(process)
            self.ended(process, 1 if kind.startswith("epoll") else 0)

    def test_detach_killed_at_every_step(self):
        process = self.host("epoll", "sleep", "read")
        own = threads(process.pid)
        self.attach(process)
        names = list(dict.fromkeys(self.steps("stop", process)))
        for step in names:
            with self.subTest(step=step):
                self.remove_rings()
                self.attach(process)
                self.kill_at("stop", process, step)
                wait_until(lambda: threads(process.pid) == own)
                if step not in ("attach.go", "attach.done"):
                    self.detach(process)
        self.ended(process, 1)


if __name__ == "__main__":
    main()
