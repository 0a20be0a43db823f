# SPDX-License-Identifier: Apache-2.0 OR MIT
"""What the tests of kymo attach share: the programs of their command line, and a host to attach to.

KYMO HOST STEPS LIBRARY DENY: HOST is attach_host.c, STEPS attach_steps.c, LIBRARY
libkymo-preload.so, DENY deny_calls.c; what follows is for unittest.
"""
import os
import pathlib
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "tools"))
import unittest_tap  # noqa: E402
from unittest_tap import DEADLINE_S  # noqa: E402

KYMO, HOST, STEPS, LIBRARY, DENY = (os.path.abspath(path) for path in sys.argv[1:6])
WAITS = ["futex", "futex-timed", "epoll", "epoll-timed"]
ANSWERED = r"process \d+ is (recorded|as it was).* a thread was borrowed for (\d+) us"


def maps(pid):
    return pathlib.Path(f"/proc/{pid}/maps").read_text().splitlines()


def executable_unnamed(pid):
    """Mappings that a stub could have left."""
    return [line for line in maps(pid) if "x" in line.split()[1] and len(line.split()) < 6]


def threads(pid):
    return sorted(os.listdir(f"/proc/{pid}/task"))


class Attach(unittest.TestCase):
    def setUp(self):
        self.dir = pathlib.Path(tempfile.mkdtemp(prefix="kymo-attach-"))
        self.rings = self.dir / "rings"
        self.rings.mkdir(mode=0o700)
        self.started = []
        self.left = []  # processes of those that were started

    def tearDown(self):
        for pid in self.left:
            try:
                os.kill(pid, signal.SIGKILL)
            except ProcessLookupError:
                pass
        for process in self.started:
            if process.poll() is None:
                process.kill()
            process.wait()
            process.stdout.close()
        shutil.rmtree(self.dir, ignore_errors=True)

    def host(self, *kinds, program=None, **more):
        process = subprocess.Popen([program or HOST, *kinds], stdout=subprocess.PIPE, text=True,
                                   env={**os.environ, "KYMO_RING_DIR": str(self.rings)}, **more)
        self.started.append(process)
        self.assertEqual(int(process.stdout.readline()), process.pid)
        return process

    def kymo(self, command, *args):
        return subprocess.run([KYMO, command, *map(str, args)], capture_output=True, text=True,
                              timeout=DEADLINE_S, check=False)

    def done(self, command, *args):
        done = self.kymo(command, *args)
        self.assertEqual((done.stderr, done.returncode), ("", 0))
        return done.stdout

    def attach(self, process):
        answer = self.done("attach", process.pid)
        self.assertRegex(answer, ANSWERED)
        return int(re.search(ANSWERED, answer)[2])

    def detach(self, process):
        answer = self.done("detach", process.pid)
        self.assertRegex(answer, ANSWERED)
        return int(re.search(ANSWERED, answer)[2])

    def ended(self, process, interrupted_max=0):
        """Ends a host; its waits were all as it expected, but for so many that gave EINTR."""
        process.send_signal(signal.SIGTERM)
        out = process.stdout.read()
        process.wait()
        counts = {name: int(value) for name, value in re.findall(r"(\w+)=(\d+)", out)}
        self.assertLessEqual(counts["bad"], interrupted_max, out)
        if counts["bad"]:
            self.assertRegex(out, r"^epoll(-timed)?: \d waits went wrong, the first with Interr")
        return counts

    def refused(self, pid, *parts, command="attach"):
        done = self.kymo(command, pid)
        self.assertEqual((done.returncode, done.stdout, done.stderr.count("\n")), (1, "", 1),
                         done.stderr)
        self.assertTrue(done.stderr.startswith(f"kymo {command}: process {pid} "), done.stderr)
        for part in parts:
            self.assertIn(part, done.stderr)

    def assert_untouched(self, process, before):
        self.assertEqual([line for line in maps(process.pid) if "kymo-preload" in line], [])
        self.assertEqual(executable_unnamed(process.pid), before)
        self.assertEqual(list(self.rings.iterdir()), [])


def main():
    unittest_tap.main(sys.argv[6:])
