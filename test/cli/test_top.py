#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0 OR MIT
"""kymo top, kymo serve --live: what a process that records did last.

usage: test_top.py KYMO HOST [unittest arguments]
HOST is run_host.c.
"""
import json
import os
import pathlib
import pty
import select
import shutil
import signal
import subprocess
import sys
import termios
import unittest

sys.path[:0] = [str(pathlib.Path(__file__).resolve().parent),
                str(pathlib.Path(__file__).resolve().parents[2] / "tools")]
import test_dump  # noqa: E402
import test_serve  # noqa: E402
import unittest_tap  # noqa: E402
from unittest_tap import DEADLINE_S, wait_until  # noqa: E402

POLLS = test_dump.POLLS
TAKING, GIVING = b"\x1b[?1049h", b"\x1b[?7h\x1b[?25h\x1b[?1049l"
LONG = "1h"  # no case depends on how long ago something was


class Top(test_dump.Rings):
    def top(self, *args):
        return self.kymo("top", "--ring-dir", self.rings, "--last", LONG, *map(str, args))


class Once(Top):
    def test_json_has_what_the_process_did(self):
        host = self.host("begin=77", KYMO_SERVICE="front")
        done = self.top("--json", host.pid)
        self.assertEqual((done.returncode, done.stderr), (0, ""))
        said = json.loads(done.stdout)
        self.assertEqual((said["pid"], said["service"], said["lost"]), (host.pid, "front", 0))
        (worker,) = said["workers"]
        self.assertEqual((worker["tid"], worker["polls"]), (host.pid, POLLS + 1))
        (kind,) = said["kinds"]
        self.assertEqual((kind["name"], kind["polls"]), ("host::job", POLLS + 1))
        longest = said["worst_polls"][0]
        self.assertEqual((longest["is_open"], longest["task"], longest["name"]),
                         (True, 77, "host::job"))
        self.assertLessEqual(kind["poll_max_ns"], kind["busy_ns"])
        self.assertEqual(len(said["worst_polls"]), 5)

    def test_the_figures_are_those_of_a_dump_and_its_report(self):
        host = self.host(KYMO_SERVICE="front")
        said = json.loads(self.top("--json", "front").stdout)
        path = self.dir / "same.trc"
        self.assertEqual(self.dump(host.pid, "-o", path).returncode, 0)
        tables = json.loads(self.kymo("report", "--json", path).stdout)["tables"]
        self.assertEqual(said["polls"], tables["polls"]["count"])
        # Each cut reads the clocks anew, and rounds a time of the counter's to the ns by that.
        longest = said["workers"][0]["poll_max_ns"]
        self.assertAlmostEqual(longest, tables["polls"]["max_ns"], delta=1)
        self.assertEqual(said["events"], self.info(path)["events"])

    def test_text_has_the_three_tables_and_a_finding_or_none(self):
        host = self.host("begin=77", KYMO_SERVICE="front")
        done = self.top("--once", host.pid)
        self.assertEqual((done.returncode, done.stderr), (0, ""))
        head, finding, *rest = done.stdout.splitlines()
        self.assertIn(f"front, pid {host.pid}, last ", head)
        self.assertRegex(finding, r"^(critical: |warning: |No finding)")
        text = "\n".join(rest)
        for words in ("Worker ", "Kind of task", "Slowest poll", "host::job", "now  open"):
            self.assertIn(words, text)
        self.assertNotIn("\x1b", done.stdout)

    def test_a_stopped_process_is_shown_and_stays_as_it_is(self):
        host = self.host("begin=77")
        host.send_signal(signal.SIGSTOP)
        wait_until(lambda: test_dump.is_stopped(host.pid))
        ring = self.ring_of(host)
        before = ring.read_bytes()
        self.assertEqual(json.loads(self.top("--json", host.pid).stdout)["polls"], POLLS)
        self.assertEqual(ring.read_bytes(), before)
        self.assertTrue(test_dump.is_stopped(host.pid))

    def test_a_window_without_a_poll_says_so(self):
        host = self.host()
        host.send_signal(signal.SIGSTOP)
        wait_until(lambda: test_dump.is_stopped(host.pid))
        done = self.top("--once", "--last", "1ns", host.pid)
        self.assertEqual((done.returncode, done.stderr), (0, ""))
        self.assertRegex(done.stdout, "No (event|poll) in this time.")
        said = json.loads(self.top("--json", "--last", "1ns", host.pid).stdout)
        self.assertEqual((said.get("polls", 0), said.get("worst_polls", [])), (0, []))

    def test_what_records_nothing_costs_one_sentence(self):
        host = self.dead()
        for who, part in ((os.getpid(), "does not record"), (999999999, "999999999"),
                          ("nosuch", "nosuch"), (host.pid, str(host.pid))):
            for words in ((), ("--once",), ("--json",)):
                self.assert_one_sentence(self.top(*words, who), part)

    def test_wrong_words_cost_one_sentence(self):
        for words, part in (((), "which process"), (("1", "2"), "one process"),
                            (("--last", "soon", "1"), "--last"), (("--last", "2h", "1"), "--last"),
                            (("--last", "0", "1"), "--last")):
            done = self.kymo("top", *words)
            self.assertEqual(done.returncode, 2)
            self.assertIn(part, done.stderr)

    def test_without_a_terminal_it_names_what_works(self):
        host = self.host()
        done = self.kymo("top", "--ring-dir", self.rings, str(host.pid), stdin=subprocess.DEVNULL)
        self.assert_one_sentence(done, "--once", "--json")


class Screen(Top):
    def setUp(self):
        super().setUp()
        self.recorded = self.host("begin=77", KYMO_SERVICE="front")
        self.terminal, self.inner = pty.openpty()
        self.before = termios.tcgetattr(self.inner)
        self.seen = b""
        self.process = subprocess.Popen(
            [test_dump.KYMO, "top", "--ring-dir", self.rings, "--last", LONG, "front"],
            stdin=self.inner, stdout=self.inner, stderr=subprocess.PIPE,
            env={**os.environ, "TERM": "xterm"}, start_new_session=True)
        self.started.append(self.process)
        self.see(b"q quit")

    def tearDown(self):
        super().tearDown()
        os.close(self.terminal)
        os.close(self.inner)

    def read(self, wait_s=0.05):
        while select.select([self.terminal], [], [], wait_s)[0]:
            self.seen += os.read(self.terminal, 65536)

    def see(self, words):
        def is_there():
            self.read()
            return words in self.seen
        wait_until(is_there)

    def press(self, keys, words):
        self.read()
        self.seen = b""
        os.write(self.terminal, keys)
        self.see(words)

    def end(self, code):
        self.assertEqual(self.process.wait(DEADLINE_S), code)
        self.read()
        self.assertTrue(self.seen.rstrip().endswith(GIVING), self.seen[-80:])
        self.assertEqual(termios.tcgetattr(self.inner), self.before)
        return self.process.stderr.read().decode()

    def test_q_gives_the_terminal_back(self):
        self.assertIn(TAKING, self.seen)
        self.assertIn(b"host::job", self.seen)
        self.assertNotEqual(termios.tcgetattr(self.inner), self.before)
        os.write(self.terminal, b"q")
        self.assertEqual(self.end(0), "")
        self.assertIsNone(self.recorded.poll())

    def test_keys_pause_sort_and_help(self):
        self.press(b"s", b"sorted by polls")
        self.press(b"s", b"sorted by longest poll")
        self.press(b"p", b"PAUSED")
        self.press(b"p", b"p pause")
        self.press(b"h", b"Space pause, and continue")
        self.press(b"h", b"Kind of task")
        os.write(self.terminal, b"\x04")
        self.end(0)

    def test_signals_give_the_terminal_back(self):
        number = signal.SIGTERM
        self.process.send_signal(number)
        self.end(-number)

    def test_the_others_do_too(self):
        for number in (signal.SIGINT, signal.SIGHUP, signal.SIGQUIT, signal.SIGABRT):
            self.process.send_signal(number)
            self.end(-number)
            self.tearDown()
            self.setUp()
        os.write(self.terminal, b"q")
        self.end(0)

    def test_the_end_of_the_process_is_said_after_the_screen(self):
        self.recorded.kill()
        self.recorded.wait()
        said = self.end(0)
        self.assertIn(f"process {self.recorded.pid} records no more", said)
        self.assertEqual(said.count("\n"), 1)

    def test_ctrl_z_gives_it_back_and_fg_takes_it_again(self):
        self.read()
        self.seen = b""
        self.process.send_signal(signal.SIGTSTP)
        wait_until(lambda: test_dump.is_stopped(self.process.pid))
        self.see(GIVING)
        self.assertEqual(termios.tcgetattr(self.inner), self.before)
        self.seen = b""
        self.process.send_signal(signal.SIGCONT)
        self.see(TAKING)
        self.see(b"q quit")
        os.write(self.terminal, b"q")
        self.end(0)


class Live(Top):
    def setUp(self):
        super().setUp()
        program = self.dir / "bin/kymo"
        program.parent.mkdir()
        shutil.copy(test_dump.KYMO, program)
        (self.dir / "share/kymo").mkdir(parents=True)
        (self.dir / "share/kymo/viewer.html").write_text(test_serve.PAGE, encoding="utf-8")
        self.program = program

    def serve(self, *words):
        return test_serve.Server(self.program, "--ring-dir", self.rings, *words)

    def test_each_look_is_a_copy_that_stays_as_it_is(self):
        host = self.host(KYMO_SERVICE="front")
        with self.serve("--live", "front") as server:
            self.assertIn(b'<a href="view.html?trace=live">front, pid %d, live</a>' % host.pid,
                          server.ask()[2])
            status, headers, _ = server.ask("trace/live", method="HEAD")
            self.assertEqual((status, headers["Location"]), (302, "live-1"))
            status, headers, copy = server.ask("trace/live-1")
            self.assertEqual((status, int(headers["Content-Length"])), (200, len(copy)))
            trace = self.out / "copy.trc"
            trace.write_bytes(copy)
            self.assertEqual(self.polls(trace), POLLS)
            self.assertEqual(server.ask("trace/live-1", Range="bytes=4-9")[::2],
                             (206, copy[4:10]))
            wait_until(lambda: server.ask("trace/live")[1]["Location"] == "live-2")
            self.assertEqual(server.ask("trace/live-1")[2], copy)
            wait_until(lambda: server.ask("trace/live")[1]["Location"] == "live-5")
            self.assertEqual([server.ask(f"trace/live-{at}")[0] for at in (0, 1, 2, 5, 6)],
                             [404, 404, 200, 200, 404])
            self.assertEqual(server.ask_at("/trace/live")[0], 403)
        self.assertEqual((server.code, server.err), (0, ""))
        self.assertIsNone(host.poll())

    def test_what_records_nothing_costs_one_sentence(self):
        host = self.dead()
        for who in ("nosuch", str(host.pid), "999999999"):
            done = subprocess.run([self.program, "serve", "--ring-dir", self.rings, "--live", who],
                                  capture_output=True, text=True, check=False)
            self.assert_one_sentence(done, who)
        with self.serve(self.out) as server:
            self.assertEqual(server.ask("trace/live")[0], 404)
            self.assertEqual(server.ask("trace/live-1")[0], 404)


def main():
    # Ignored under nohup or in the background, which children inherit.
    for number in (signal.SIGINT, signal.SIGQUIT, signal.SIGHUP):
        signal.signal(number, signal.SIG_DFL)
    test_dump.KYMO, test_dump.HOST = (os.path.abspath(word) for word in sys.argv[1:3])
    unittest_tap.main(sys.argv[3:])


if __name__ == "__main__":
    main()
