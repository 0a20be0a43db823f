#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0 OR MIT
"""Every command and every promise of README, once, on a real Tokio program.

    journey.py [--build DIR] [--target DIR] [unittest arguments]

The program (src/bin/journey.rs) takes commands from a pipe and answers each one when it is done, so
each case waits for a state and none for a time. Output is TAP.
"""
import argparse
import collections
import contextlib
import gzip
import json
import os
import pathlib
import re
import shutil
import signal
import socket
import subprocess
import sys
import threading
import unittest

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parent
sys.path[:0] = [str(HERE / "tokio"), str(ROOT / "tools")]
import matrix  # noqa: E402  (it builds the witnesses)
import unittest_tap  # noqa: E402
from journey_case import SERVICE, SOURCE, Case, Paths, Place, Witness  # noqa: E402
from journey_case import count_of, is_at, line_of, state_of  # noqa: E402
from unittest_tap import DEADLINE_S, wait_until  # noqa: E402

SAMPLES = 40  # of a program that does nothing else: enough for one function to lead by far
LEAK = (8, 1 << 20)  # so large that each one is sampled
COMMANDS = ["run", "attach", "detach", "info", "report", "why", "export", "events", "ps", "status",
            "set", "mark", "dump", "recover", "doctor", "symbolize", "convert", "view", "task",
            "query", "check", "diff", "html", "scrub", "open", "serve",
            "top", "upload", "agents"]
RULES = """[[rule]]
name = "polls are few"
view = "polls"
value = "count(*)"
max = "{}"
"""


class Stream(unittest.TestCase):
    """One program that is recorded from its start to its end; each case reads what came of it."""

    @classmethod
    def setUpClass(cls):
        cls.at = Place()
        cls.addClassCleanup(cls.at.clean)
        cls.traces = cls.at.dir / "traces"
        witness = cls.witness = Witness(cls.at, "-o", cls.traces, "--alloc=4K")
        witness.do("polls", 1000)
        cls.wait(witness)
        witness.do("leak", *LEAK)
        cls.marked = cls.at.json("mark", SERVICE, "deploy 7")
        cls.compute(witness)
        cls.hanging = cls.at.hang_longest(witness)
        cls.waiters = {task["task"] for task in cls.waiting["places"][0]["waiting"]}
        cls.ps = cls.at.kymo("ps")
        cls.rings = cls.at.rings_of()
        cls.status = cls.at.json("status", SERVICE)
        cls.status_text = cls.at.kymo("status", SERVICE)
        cls.last = cls.at.json("dump", SERVICE, "--last", "30s", "-o", cls.at.dir / "last.trc.zst")
        witness.do("finish")
        cls.status_code = witness.end()
        cls.info = cls.at.json("info", cls.traces)
        cls.report = cls.at.json("report", cls.traces)["tables"]
        cls.profile = cls.report["profile"]
        cls.text = cls.at.kymo("report", "--full", cls.traces)

    @classmethod
    def wait(cls, witness):
        """Three tasks wait. A stack is walked by tables, which a busy machine makes late."""
        def is_seen():
            witness.do("finish")
            witness.do("wait", 3)
            cls.waiting = cls.at.json("dump", witness.pid, "--tasks")
            return cls.waiting["tasks"] == 3

        wait_until(is_seen)
        cls.waiting_text = cls.at.kymo("dump", witness.pid, "--tasks")

    @classmethod
    def compute(cls, witness):
        states = cls.at.doctor()
        cls.unsampled = None
        if "ok" not in (states["perf_event"], states["cpu_timers"]):
            cls.unsampled = "neither perf_event nor CPU timers sample here"
            return
        witness.do("compute")
        wait_until(lambda: cls.at.json("status", witness.pid)["sampling"]["samples_at_least"]
                   >= SAMPLES)
        witness.do("rest")

    def find(self, stack, function, mark):
        self.assertTrue([frame for frame in stack if is_at(frame, function, mark)],
                        f"{function}:{line_of(mark)} in {stack}")

    def test_every_poll_is_recorded(self):
        self.assertEqual(self.status_code, 0)
        self.assertGreater(self.witness.polls, 1000)
        self.assertEqual((self.info["polls"], self.report["polls"]["count"]),
                         (self.witness.polls, self.witness.polls))
        self.assertEqual((count_of(self.info, "PollStartEvent"),
                          count_of(self.info, "PollEndEvent")), 2 * (self.witness.polls,))
        self.assertEqual((self.info["lost_records"], self.info["losses"]), (0, []))

    def test_every_wake_and_park_is_recorded(self):
        self.assertGreaterEqual(self.info["wakes"], 999)  # of the first task by itself
        self.assertEqual(len(self.info["workers"]), 2)
        for worker in self.info["workers"]:
            self.assertGreater(worker["parks"], 0)
        self.assertEqual(self.info["parks"], count_of(self.info, "WorkerParkEvent"))

    def test_why_splits_each_delay(self):
        found = self.at.json("why", "--over", "0", "--worst", "1000", self.traces)
        self.assertEqual(found["delays"], self.report["delays"]["count"])
        self.assertEqual(sum(found["parts"].values()), found["slow_ns"])
        for delay in found["worst"]:
            self.assertEqual(sum(part["ns"] for part in delay["timeline"]), delay["delay_ns"])
        self.assertIn("from wake to poll", self.at.kymo("why", self.traces))

    def test_tables_have_what_the_witness_counted(self):
        (row,) = self.at.json("query", "SELECT count(*) AS polls FROM polls", self.traces)["rows"]
        self.assertEqual(row, {"polls": self.witness.polls})
        polls = self.at.kymo("view", "polls", "--limit", "0", "--format", "csv", self.traces)
        self.assertEqual(len(polls.splitlines()), 1 + self.witness.polls)
        task = self.report["worst_polls"][0]["task"]
        self.assertRegex(self.at.kymo("task", task, self.traces),
                         rf"^Task {task} \(.*journey::hang")

    def test_rules_hold_or_do_not(self):
        rules = self.at.dir / "rules.toml"
        rules.write_text(RULES.format(self.witness.polls), encoding="utf-8")
        self.assertIn("1 of 1 rules hold", self.at.kymo("check", rules, self.traces))
        rules.write_text(RULES.format(self.witness.polls - 1), encoding="utf-8")
        broken = self.at.run(Paths.kymo, "check", rules, self.traces)
        self.assertEqual(broken.returncode, 1)
        self.assertIn("0 of 1 rules hold", broken.stdout)

    def test_a_run_does_not_differ_from_itself(self):
        self.assertIn("1 runs of A and 1 of B", self.at.kymo("diff", self.traces, self.traces))

    def test_report_begins_with_the_poll_that_held_its_worker(self):
        worst = self.report["worst_polls"][0]
        self.assertIn(worst["task"], self.hanging)
        self.assertIn("journey::hang", worst["name"])
        screen = self.text[:self.text.index("Longest poll ")]
        self.assertRegex(screen, r"(?m)^1\. \w+ \((critical|warning), ")
        self.assertIn("journey::hang", screen[screen.index("\n1. "):].split("\n\n")[0])
        tables = self.text[len(screen):].splitlines()
        self.assertIn("journey::hang", tables[0])
        self.assertRegex(tables[1],
                         rf"journey::block_here at \S*{SOURCE.name}:{line_of('blocks')}$")

    def test_report_says_what_the_poll_blocked_on(self):
        polls = [one for one in self.profile["worst_polls"] if one["task"] in self.hanging]
        self.assertEqual(len(polls), 2)
        for poll in polls:
            # Beside it, a page fault may have been in the same function.
            (call,) = [one for one in poll["off_cpu"] if one["syscall"] is not None and
                       one.get("where") == "journey::block_here"]
            self.assertIn("system call", call["reason"])
            self.find(call["stack"], "journey::block_here", "blocks")

    def test_report_says_which_wakes_had_to_wait(self):
        self.assertGreaterEqual(self.report["delays"]["count"], 999)
        worst = self.report["worst_delays"][:3]
        self.assertEqual({one["task"] for one in worst}, self.waiters)
        for one in worst:
            self.assertIn("journey::wait_here", one["name"])

    def test_report_begins_with_the_hot_function(self):
        if self.unsampled:
            self.skipTest(self.unsampled)
        cpu = self.profile["cpu"]
        self.assertGreaterEqual(cpu["samples"], SAMPLES)
        self.assertEqual(cpu["functions"][0]["function"], "journey::compute_here")
        self.assertTrue(cpu["functions"][0]["file"].endswith(SOURCE.name), cpu["functions"][0])
        self.assertIn("journey::compute_here", self.text)

    def test_dump_says_where_tasks_wait(self):
        (place,) = self.waiting["places"]
        self.assertEqual({task["task"] for task in place["waiting"]}, self.waiters)
        self.assertRegex(place["in"],
                         rf"^journey::wait_here\b.*{SOURCE.name}:{line_of('waits')}\)$")
        self.assertIn(place["in"], self.waiting_text)

    def test_report_says_where_tasks_waited(self):
        places = [place for place in self.profile["waiting"]["places"]
                  if place.get("where", "").startswith("journey::wait_here")]
        self.assertEqual(len(places), 1, self.profile["waiting"])
        self.find(places[0]["stack"], "journey::wait_here", "waits")

    def test_report_names_what_leaks(self):
        first = self.profile["memory"]["stacks"][0]
        self.assertEqual((first["where"], first["live_allocations"]["estimate"],
                          first["live_bytes"]["estimate"]),
                         ("journey::leak_here", LEAK[0], LEAK[0] * LEAK[1]))
        self.find(first["stack"], "journey::leak_here", "leaks")

    def test_ps_lists_it(self):
        self.assertEqual(self.rings, {self.witness.pid: "alive"})
        row = next(line for line in self.ps.splitlines() if f" {SERVICE} " in line)
        self.assertEqual(row.split()[:4], [str(self.witness.pid), SERVICE, "stream", "alive"])

    def test_status_lists_the_poll_that_hangs(self):
        self.assertEqual(self.status["pid"], self.witness.pid)
        self.assertEqual({poll["task"] for poll in self.status["open_polls"]}, self.hanging)
        for poll in self.status["open_polls"]:
            self.assertIn("journey::hang", poll["name"])
        self.assertEqual(self.status["dropped"]["all"], 0)
        self.assertRegex(self.status_text, rf"(?m)^Process +{self.witness.pid}, alive$")
        self.assertIn("journey::hang", self.status_text)

    def test_dump_of_one_that_hangs(self):
        self.assertEqual({poll["task"] for poll in self.last["open_polls"]}, self.hanging)
        info = self.at.json("info", self.at.dir / "last.trc.zst")
        # The rest are one of each task that was woken and could not be polled.
        self.assertEqual((count_of(info, "PollStartEvent"), info["open_polls"]),
                         (self.witness.polls - len(self.waiters), len(self.hanging)))

    def test_both_at_once_count_each_event_once(self):
        info = self.at.json("info", self.traces, self.at.dir / "last.trc.zst")
        self.assertEqual(info["polls"], self.witness.polls)

    def test_mark_is_in_the_trace(self):
        self.assertEqual([one["pid"] for one in self.marked["marked"]], [self.witness.pid])
        reply = self.at.json("events", "-t", "AnnotationEvent", self.traces)
        self.assertEqual(reply["fields"]["label"], "deploy 7")

    def test_info_says_what_was_recorded(self):
        text = self.at.kymo("info", self.traces)
        for part in (SERVICE, f"pid {self.witness.pid}", "exit status 0", "PollStartEvent"):
            self.assertIn(part, text)
        self.assertEqual(self.info["metadata"]["service"], SERVICE)

    def test_events_in_each_format(self):
        of = ("events", "--type", "PollStartEvent", "--limit", "20", self.traces)
        rows = self.at.kymo(*of, "--format", "csv").splitlines()
        self.assertEqual((len(rows), rows[0].split(",")[:2]), (21, ["timestamp_ns", "event"]))
        objects = [json.loads(line) for line in self.at.kymo(*of, "--format=jsonl").splitlines()]
        self.assertEqual([one["event"] for one in objects], 20 * ["PollStartEvent"])
        self.assertEqual(len(self.at.kymo(*of).splitlines()), 20)
        self.assertEqual(self.at.kymo(*of, "--json"), self.at.kymo(*of, "--format=jsonl"))

    def test_convert_makes_one_file(self):
        file = self.at.dir / "one.trc.gz"
        reply = self.at.json("convert", self.traces, "-o", file)
        with gzip.open(file) as opened:
            self.assertEqual(opened.read(4), b"TRC\0")
        info = self.at.json("info", file)
        self.assertEqual((info["polls"], reply["events"]), (self.witness.polls, info["events"]))
        again = self.at.dir / "again.trc"
        self.at.kymo("convert", "--recompress", file, "-o", again)
        self.assertEqual(again.read_bytes(), gzip.decompress(file.read_bytes()))

    def test_symbolized_trace_needs_no_files(self):
        named = self.at.dir / "named.trc.zst"
        reply = self.at.json("symbolize", "-o", named, self.traces)
        self.assertGreater(reply["named"], 0)
        away = self.at.program.with_suffix(".away")
        self.at.program.rename(away)
        try:
            for trace, is_named in ((named, True), (self.traces, False)):
                memory = self.at.json("report", trace)["tables"]["profile"]["memory"]
                stack = memory["stacks"][0]["stack"]
                self.assertEqual(any(is_at(frame, "journey::leak_here", "leaks")
                                     for frame in stack), is_named, stack)
        finally:
            away.rename(self.at.program)

    def exported(self, form, kind):
        file = self.at.dir / f"{kind}.{form}"
        reply = self.at.json("export", "--format", form, "--kind", kind, "-o", file, self.traces)
        self.assertEqual((reply["format"], reply["kind"]), (form, kind))
        self.assertGreater(reply["samples"], 0)
        return file.read_bytes()

    def test_export_in_each_format(self):
        kinds = {"off-cpu": "journey::block_here", "waiting": "journey::wait_here",
                 "heap": "journey::leak_here", "cpu": "journey::compute_here"}
        if self.unsampled:
            del kinds["cpu"]
        for kind, function in kinds.items():
            rows = self.exported("folded", kind).decode().splitlines()
            self.assertTrue(all(re.search(r" \d+$", row) for row in rows), rows)
            self.assertTrue([row for row in rows if function in row], rows)
            self.assertIn(function.encode(), gzip.decompress(self.exported("pprof", kind)))
            frames = json.loads(self.exported("speedscope", kind))["shared"]["frames"]
            self.assertTrue([one for one in frames if function in one["name"]], frames)
            firefox = json.loads(self.exported("firefox", kind))
            self.assertIn(function, json.dumps(firefox))
            self.assertTrue(firefox["threads"])


class Run(Case):

    def test_rule_makes_a_dump_while_the_poll_hangs(self):
        trace = self.at.dir / "run.trc.zst"
        witness = Witness(self.at, "--mode", "flight", "--trigger", "poll>500ms", "-o", trace)
        witness.do("polls", 50)
        task = self.at.hang(witness)
        wait_until(lambda: "dump: " in witness.said())
        (dump,) = (self.at.dir / "run.trc.zst.dumps").iterdir()
        info = self.at.json("info", dump)
        (trigger,) = info["triggers"]
        self.assertEqual((trigger["task_id"], count_of(info, "PollStartEvent")), (task, 51))
        self.assertFalse(trace.exists())
        self.assertEqual([poll["task"] for poll in self.at.open_polls(witness)], [task])
        witness.do("finish")
        self.assertEqual(witness.end(), 0)
        self.assertEqual(self.at.json("info", trace)["polls"], witness.polls)

    def test_loss_is_counted(self):
        """A recorder process that is stopped while the ring fills up twice."""
        trace = self.at.dir / "run.trc.zst"
        witness = Witness(self.at, "-o", trace, "--ring-bytes", "128K")
        witness.process.send_signal(signal.SIGSTOP)
        wait_until(lambda: state_of(witness.process.pid) == "T")
        witness.do("polls", 20000)  # of 48 bytes and more each
        witness.process.send_signal(signal.SIGCONT)
        self.assertEqual(witness.end(), 0)
        info = self.at.json("info", trace)
        self.assertLess(info["polls"], 20000)
        self.assertGreaterEqual(info["lost_records"], 2 * (20000 - info["polls"]))
        self.assertTrue(info["losses"])
        self.assertNotIn("nothing lost", witness.said())
        self.assertNotRegex(self.at.kymo("info", trace), r"Losses +none")

    def test_settings_while_it_runs(self):
        traces = self.at.dir / "traces"
        witness = Witness(self.at, "-o", traces)
        witness.do("polls", 100)
        reply = self.at.json("set", SERVICE, "poll=off", "wake=off")
        self.assertEqual([(one["name"], one["before"], one["after"]) for one in reply["changes"]],
                         [("poll", "on", "off"), ("wake", "on", "off")])
        witness.do("polls", 200)
        self.at.kymo("set", SERVICE, "poll=on", "wake=on")
        witness.do("polls", 50)
        wait_until(lambda: self.at.streamed(traces) == 150)
        self.assertIn("poll.threshold", self.at.kymo("set", SERVICE, "poll.threshold=1s"))
        reply = {one["name"]: one["value"] for one in self.at.json("set", SERVICE)["settings"]}
        self.assertEqual((reply["poll"], reply["poll.threshold"]), ("on", "1s"))
        witness.do("polls", 70)
        self.assertEqual(witness.end(), 0)
        info, report = self.at.json("info", traces), self.at.json("report", traces)["tables"]
        self.assertEqual((witness.polls, info["polls"], info["polls_counted"],
                          report["polls"]["count"]), (420, 150, 70, 220))


class Killed(Case):
    """What is left of what was killed while a poll was open."""

    def assert_polls(self, info, count):
        """So many ended, and one was open."""
        self.assertEqual((count_of(info, "PollEndEvent"), count_of(info, "PollStartEvent"),
                          info["open_polls"]), (count, count + 1, 1))

    def test_program(self):
        traces = self.at.dir / "traces"
        witness = Witness(self.at, "-o", traces)
        witness.do("polls", 100)
        task = self.at.hang(witness)
        os.kill(witness.pid, signal.SIGKILL)
        self.assertEqual(witness.process.wait(DEADLINE_S), -signal.SIGKILL)
        info = self.at.json("info", traces)
        self.assert_polls(info, 100)
        self.assertIn("SIGKILL", info["metadata"]["process.end"])
        reply = self.at.json("events", "-t", "OpenPollEvent", traces)
        self.assertEqual(reply["fields"]["task_id"], task)
        self.assertEqual(self.at.rings_of(), {})

    def test_kymo(self):
        """The program does not notice; what the stream has not, the ring has."""
        traces = self.at.dir / "traces"
        witness = Witness(self.at, "-o", traces)
        witness.do("polls", 100)
        wait_until(lambda: self.at.streamed(traces) == 100)
        witness.process.kill()
        witness.process.wait()
        witness.do("polls", 200)
        self.assertEqual(self.at.dump(witness, "between")["polls"]["count"], 300)
        witness.do("polls", 30)
        witness.end()
        wait_until(lambda: self.at.rings_of() == {witness.pid: "dead"})
        reply = self.recover()
        self.assertEqual(reply["open_polls"], [])
        self.assertTrue(reply["continues"].startswith(str(traces)), reply)
        for files, count in (((traces,), 100), ((reply["file"],), 230),
                             ((traces, reply["file"]), 330)):
            self.assertEqual(self.at.json("info", *files)["polls"], count, files)

    def drain_again(self, witness, traces):
        """By another kymo, which stays until the program has ended. Returns its words."""
        command = [str(Paths.kymo), "attach", "--json", str(witness.pid)]
        with subprocess.Popen(command, env=self.at.environment, stdout=subprocess.PIPE, text=True,
                              stderr=subprocess.STDOUT) as staying:
            self.addCleanup(staying.kill)
            said = [json.loads(staying.stdout.readline())]
            witness.do("polls", 40)
            again = self.at.run(Paths.kymo, "attach", witness.pid)
            self.assertIn("is recorded already", again.stderr)
            self.assertEqual(self.at.json("status", witness.pid)["drained_by_pid"], staying.pid)
            wait_until(lambda: self.at.streamed(traces) == witness.polls_before + 40)
            witness.end()
            said.append(json.loads(staying.stdout.read()))
        self.assertEqual(staying.returncode, 0)
        return said

    def test_kymo_and_another_takes_its_ring_over(self):
        traces = self.at.dir / "traces"
        witness = Witness(self.at, "-o", traces)
        witness.do("polls", 100)
        wait_until(lambda: self.at.streamed(traces) == 100)
        ps = ("ps", "--ring-dir", self.at.rings)
        self.assertNotIn("attach", self.at.kymo(*ps) + self.at.kymo("status", SERVICE))
        witness.process.kill()
        witness.process.wait()
        witness.do("polls", 200)
        self.assertIn("no process drains it; `kymo attach PID` does", self.at.kymo(*ps))
        self.assertIn(f"; `kymo attach {witness.pid}` drains it", self.at.kymo("status", SERVICE))
        witness.polls_before = 300
        first, last = self.drain_again(witness, traces)
        self.assertTrue(first["is_taken_over"])
        self.assertTrue(last["trace"].startswith(str(traces)), last)
        self.assertEqual((last["records_lost"], last["samples_lost"]), (0, 0))
        info = self.at.json("info", traces)
        self.assertEqual((info["polls"], info["lost_records"], info["losses"]),
                         (witness.polls, 0, []))
        self.assertEqual(count_of(info, "PollStartEvent"), witness.polls)
        self.assertEqual(self.at.rings_of(), {})

    def test_kymo_while_the_ring_goes_round(self):
        """What no process drained meanwhile is lost, and reported so."""
        traces = self.at.dir / "traces"
        witness = Witness(self.at, "-o", traces, "--ring-bytes", "128K")
        witness.do("polls", 100)
        wait_until(lambda: self.at.streamed(traces) == 100)
        witness.process.kill()
        witness.process.wait()
        witness.do("polls", 20000)
        before = self.at.streamed(traces)
        command = [str(Paths.kymo), "attach", str(witness.pid)]
        with subprocess.Popen(command, env=self.at.environment, stdout=subprocess.PIPE, text=True,
                              stderr=subprocess.STDOUT) as staying:
            self.assertIn(f"what came before is in {traces}", staying.stdout.readline())
            witness.end()
            staying.stdout.read()
        info = self.at.json("info", traces)
        self.assertGreater(info["polls"], before)
        self.assertLess(info["polls"], 20000)
        self.assertEqual({(loss["exact"], loss["cause"], loss["to_ns"] > loss["from_ns"])
                          for loss in info["losses"]}, {(False, "overwritten", True)})
        self.assertRegex(self.at.kymo("info", traces), r"Losses +at least 1 records")

    def recover(self):
        return self.at.json("recover", "--ring-dir", self.at.rings, "-o", self.at.dir)

    def kill_both(self, *options):
        witness = Witness(self.at, "-o", self.at.dir / "traces", *options)
        witness.do("polls", 100)
        task = self.at.hang(witness)
        witness.process.kill()
        witness.process.wait()
        os.kill(witness.pid, signal.SIGKILL)
        wait_until(lambda: self.at.rings_of() == {witness.pid: "dead"})
        reply = self.recover()
        (poll,) = reply["open_polls"]
        self.assertEqual((reply["pid"], poll["task"]), (witness.pid, task))
        self.assertIn("journey::hang", poll["name"])
        info = self.at.json("info", reply["file"])
        self.assert_polls(info, 100)
        self.assertEqual(list(self.at.rings.glob("*.ring")), [])

    def test_both_in_stream_mode(self):
        self.kill_both()

    def test_both_in_flight_mode(self):
        self.kill_both("--mode", "flight")


class Client:
    """A thread that asks over loopback, on one connection after the other, and insists on every
    answer. One request at a time: so one of the workers sleeps, also on a busy machine."""

    def __init__(self, port, connections):
        self.is_over = False
        self.answered = 0
        self.trouble = None
        self.address = "127.0.0.1", int(port)
        self.thread = threading.Thread(target=self.run, args=(connections,))
        self.thread.start()

    def run(self, count):
        try:
            with contextlib.ExitStack() as stack:
                connections = [stack.enter_context(socket.create_connection(self.address))
                               for _ in range(count)]
                while not self.is_over:
                    self.ask(connections[self.answered % count])
        except OSError as error:
            self.trouble = f"request {self.answered}: {error}"

    def ask(self, connection):
        connection.settimeout(DEADLINE_S)
        asked = self.answered % 256
        connection.sendall(bytes([asked]))
        answer = connection.recv(1)
        if answer != bytes([(asked + 1) % 256]):
            raise OSError(f"{answer} for {asked}")
        self.answered += 1

    def wait_for_more(self):
        """Each connection gets more answers, or one has trouble."""
        enough = self.answered + 100
        wait_until(lambda: self.trouble or self.answered > enough)

    def end(self):
        self.is_over = True
        self.thread.join()


class Attach(Case):
    def attach(self, witness, *options):
        """Needs the right to trace: without it one sentence says so."""
        done = self.at.run(Paths.kymo, "attach", *options, witness.pid)
        if done.returncode and "may not be traced" in done.stderr:
            self.skipTest("processes may not be traced here")
        self.assertEqual((done.returncode, done.stderr), (0, ""))
        return done.stdout

    def test_from_attach_to_detach_every_poll_is_recorded(self):
        witness = Witness(self.at)
        witness.do("polls", 100)
        reply = json.loads(self.attach(witness, "--json"))
        self.assertEqual((reply["pid"], reply["mode"]), (witness.pid, "flight"))
        witness.do("polls", 300)
        again = self.at.run(Paths.kymo, "attach", witness.pid)
        self.assertEqual((again.returncode, len(again.stderr.splitlines())), (1, 1), again.stderr)
        self.assertEqual(self.at.dump(witness, "attached")["polls"]["count"], 300)
        self.assertTrue(self.at.json("detach", witness.pid)["is_ring_removed"])
        witness.do("polls", 10)
        self.assertEqual(self.at.rings_of(), {})
        self.assertEqual(witness.end(), 0)

    def test_stream_until_detach(self):
        witness = Witness(self.at)
        file = self.at.dir / "attached.trc.zst"
        self.attach(witness)
        self.at.kymo("detach", witness.pid)
        command = [str(Paths.kymo), "attach", "--mode", "stream", "-o", str(file), str(witness.pid)]
        with subprocess.Popen(command, env=self.at.environment, stdout=subprocess.PIPE, text=True,
                              stderr=subprocess.STDOUT) as staying:
            self.assertIn("is recorded", staying.stdout.readline())
            witness.do("polls", 77)
            self.at.kymo("detach", witness.pid)
            staying.stdout.read()
        self.assertEqual(staying.returncode, 0)
        self.assertEqual(self.at.json("info", file)["polls"], 77)

    def test_no_request_fails(self):
        witness = Witness(self.at)
        client = Client(witness.do("serve", 4), 4)
        try:
            for _ in range(3):
                client.wait_for_more()
                self.attach(witness)
                client.wait_for_more()
                self.assertGreater(self.at.dump(witness, "served")["polls"]["count"], 0)
                self.at.kymo("detach", witness.pid)
            client.wait_for_more()
        finally:
            client.end()
        self.assertIsNone(client.trouble)
        witness.do("finish")
        self.assertEqual(witness.end(), 0)


class Stripped(Case):
    def check(self, name):
        witness = Witness(self.at, "-o", self.at.dir / "trace")
        self.assertEqual((witness.do("polls", 100), witness.end()), (100, 0))
        info = self.at.json("info", self.at.dir / "trace")
        said = info["metadata"]
        self.assertEqual((info["polls"], said["tokio.tables_by_shape"]),
                         (witness.polls, said["tokio.tables"]))
        for one in self.at.json("report", self.at.dir / "trace")["tables"]["tasks"]:
            self.assertRegex(one["name"], name)

    def test_every_poll_is_recorded(self):
        self.assertEqual(self.at.run("strip", self.at.program).returncode, 0)
        self.check(rf"^{SERVICE}\+0x[0-9a-f]+$")

    def test_names_come_from_its_debug_file(self):
        self.at.run("objcopy", "--only-keep-debug", self.at.program, "symbols")
        self.at.run("objcopy", "--strip-all", "--add-gnu-debuglink=symbols", self.at.program)
        self.check("^witness::")


class Unrecorded(Case):
    """What cannot be recorded runs as it would alone, and one sentence says why."""

    def check(self, *program, why, code=0):
        """Its output and its end are its own; nothing else comes of it."""
        alone = self.at.run(*program)
        done = self.at.run(Paths.kymo, "run", "-o", self.at.dir / "none", "--", *program)
        pid = re.compile(r"^journey \d+")
        self.assertEqual((alone.returncode, done.returncode, pid.sub("", done.stdout)),
                         (code, code, pid.sub("", alone.stdout)))
        self.assertEqual(done.stderr.count("\n"), 1, done.stderr)
        self.assertRegex(done.stderr, rf"^kymo: .*{why}.*record")
        self.assertFalse((self.at.dir / "none").exists())
        self.assertEqual(list(self.at.rings.iterdir()), [])

    def test_without_tokio(self):
        self.check("sh", "-c", "echo no tasks; exit 4", why="Tokio", code=4)

    def test_static(self):
        source, program = self.at.dir / "alone.c", self.at.dir / "alone"
        source.write_text('#include <stdio.h>\nint main(void) { puts("alone"); return 3; }\n')
        made = self.at.run("cc", "-static", "-o", program, source)
        if made.returncode:
            self.skipTest("no static libc here")
        self.check(program, why="static", code=3)


class Usage(Case):
    def test_each_command_explains_itself(self):
        listed = re.findall(r"(?m)^  (\w+)  +[a-z]", self.at.kymo("--help"))
        self.assertEqual(collections.Counter(listed), collections.Counter(COMMANDS))
        for command in COMMANDS:
            self.assertRegex(self.at.kymo(command, "--help"), rf"^Usage: kymo {command} ")
        self.assertRegex(self.at.kymo("--version"), r"^kymo \d+\.\d+\.\d+$")

    def test_wrong_input_gives_one_sentence(self):
        nothing, text = self.at.dir / "nothing", self.at.dir / "text"
        text.write_text("no trace\n", encoding="utf-8")
        rules = self.at.dir / "rules.toml"
        rules.write_text(RULES.format(1), encoding="utf-8")
        reading = [(command, *option) for command, option in
                   (("info", ()), ("report", ()), ("why", ()), ("events", ()), ("symbolize", ()),
                    ("export", ("--format", "folded")), ("convert", ("-o", "out.trc")),
                    ("view", ("polls",)), ("task", ("1",)), ("query", ("SELECT 1",)),
                    ("check", (rules,)), ("html", ("-o", "out.html")),
                    ("scrub", ("-o", "out.trc")))]
        living = [("status",), ("set",), ("dump",)]
        wrong = [(2, "nonsense", ("nonsense",)), (125, "Usage", ("run",)),
                 (127, nothing, ("run", "--", nothing)), (126, text, ("run", "--", text)),
                 (125, "often", ("run", "--sample", "often", "--", "true")),
                 (125, "pol", ("run", "--trigger", "pol>1s", "--", "true")),
                 (125, "few", ("run", "--ring-bytes", "few", "--", "true")),
                 (125, "--compress", ("run", "--compress", "lzma", "--", "true")),
                 (125, "some", ("run", "--profile", "some", "--", "true")),
                 (2, "maybe", ("set", SERVICE, "poll=maybe")),
                 (2, "pool", ("set", SERVICE, "pool=on")), (2, "TEXT", ("mark", SERVICE)),
                 (1, SERVICE, ("mark", SERVICE, "deploy 7")),
                 (1, SERVICE, ("recover", SERVICE)), (2, "soon", ("dump", "1", "--last", "soon")),
                 (2, "yesterday", ("report", "--from", "yesterday", text)),
                 (2, "many", ("report", "--limit", "many", text)),
                 (2, "xml", ("events", "--format", "xml", text)),
                 (2, "svg", ("export", "--format", "svg", text)),
                 (2, "all", ("export", "--format", "folded", "--kind", "all", text)),
                 (2, "-o", ("convert", text)), (2, "lzma", ("convert", "--compress", "lzma", text)),
                 (2, "often", ("ps", "--interval", "often")), (2, "more", ("ps", "more")),
                 (2, "two groups", ("diff",)), (1, nothing, ("diff", nothing, text)),
                 (1, "no TOML", ("check", text, text)),
                 (1, nothing, ("doctor", nothing)), (2, "one", ("doctor", "one", "two")),
                 (2, "which process", ("attach",)), (2, "which process", ("detach",)),
                 (1, "999999999", ("attach", "999999999")),
                 (1, "999999999", ("detach", "999999999")),
                 (2, "--to", ("upload", self.at.dir)),
                 (2, "http://x", ("upload", "--to", "http://x", self.at.dir))]
        wrong += [(1, nothing, (*words, nothing)) for words in reading]
        wrong += [(1, "not a trace", (*words, text)) for words in reading]
        wrong += [(2, "trace", words) for words in reading]
        wrong += [(2, "kymo ps", words) for words in living]
        wrong += [(1, SERVICE, (*words, SERVICE)) for words in living]
        wrong += [(125 if command == "run" else 2, "--such", (command, "--such"))
                  for command in COMMANDS]
        for code, part, words in wrong:
            with self.subTest(words=words):
                self.assert_one_sentence(self.at.run(Paths.kymo, *words), code, str(part))
        self.assertEqual({words[0] for _, _, words in wrong}, {*COMMANDS, "nonsense"})


class Installed(Case):
    def test_it_records_from_where_it_is_installed(self):
        made = self.at.run("meson", "install", "-C", Paths.build, "--no-rebuild", "--quiet",
                           "--destdir", self.at.dir / "image")
        self.assertEqual(made.returncode, 0, made.stdout + made.stderr)
        prefix = self.at.dir / "image/usr/local"
        for command in COMMANDS:
            self.assertTrue((prefix / f"share/man/man1/kymo-{command}.1").exists(), command)
        trace = self.at.dir / "run.trc.gz"
        done = self.at.run(prefix / "bin/kymo", "run", "-o", trace, "--", self.at.program)
        self.assertEqual((done.returncode, done.stdout.splitlines()[-1]), (0, "done 0"))
        self.assertTrue(trace.exists(), done.stderr)
        self.link(prefix)

    def link(self, prefix):
        """A program that records by itself finds headers and libraries."""
        (pkgconfig,) = prefix.rglob("pkgconfig")
        self.at.environment.update(PKG_CONFIG_PATH=str(pkgconfig),
                                   PKG_CONFIG_SYSROOT_DIR=str(self.at.dir / "image"))
        flags = self.at.run("pkg-config", "--static", "--cflags", "--libs", "kymo")
        self.assertEqual(flags.returncode, 0, flags.stderr)
        program = self.at.dir / "example"
        made = self.at.run("cc", ROOT / "examples/c_api/flight.c", "-o", program,
                           *flags.stdout.split())
        self.assertEqual((made.returncode, made.stderr), (0, ""))


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    parser.add_argument("--build", type=pathlib.Path, default=ROOT / "build")
    parser.add_argument("--target", type=pathlib.Path)
    options, rest = parser.parse_known_args()
    if shutil.which("cargo") is None:
        print("1..0 # SKIP no cargo here")
        return
    Paths.build = options.build.resolve()
    Paths.kymo = Paths.build / "kymo"
    target = (options.target or Paths.build / "witness").resolve()
    Paths.program = matrix.build(target, "newest", "stable", "release", "pie",
                                 programs=["journey"], has_lines=True) / "journey"
    unittest_tap.main(rest)


if __name__ == "__main__":
    main()
