#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0 OR MIT
"""kymo ps, status, set and mark on programs that record, hang, or are gone.

usage: test_control.py KYMO HOST [unittest arguments]
HOST is run_host.c.
"""
import contextlib
import json
import os
import pathlib
import shutil
import signal
import subprocess
import sys
import tempfile
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "tools"))
import unittest_tap  # noqa: E402
from unittest_tap import DEADLINE_S, wait_until  # noqa: E402

KYMO = HOST = ""
BOXED = f"boxed{os.getpid()}"  # a service in a namespace, different from those of other tests


class Control(unittest.TestCase):
    def setUp(self):
        self.dir = pathlib.Path(tempfile.mkdtemp(prefix="kymo-control-"))
        self.rings = self.dir / "rings"
        self.rings.mkdir(mode=0o700)
        self.started = []

    def tearDown(self):
        for name in ("go", "more", "end"):  # for a process that still waits for one of these
            (self.dir / name).touch()
        for process in self.started:
            if process.poll() is None:
                children = f"/proc/{process.pid}/task/{process.pid}/children"
                for child in pathlib.Path(children).read_text().split():
                    with contextlib.suppress(ProcessLookupError):  # it has ended meanwhile
                        os.kill(int(child), signal.SIGKILL)  # of `kymo run`, `unshare`
                process.kill()
            process.wait()
        shutil.rmtree(self.dir, ignore_errors=True)

    def kymo(self, command, *args):
        words = [arg if isinstance(arg, bytes) else str(arg) for arg in args]
        return subprocess.run([KYMO, command, "--ring-dir", self.rings, *words],
                              capture_output=True, text=True, timeout=DEADLINE_S, check=False)

    def json(self, command, *args):
        done = self.kymo(command, "--json", *args)
        self.assertEqual((done.stderr, done.returncode), ("", 0))
        return json.loads(done.stdout)

    def polls(self, trace):
        done = subprocess.run([KYMO, "info", "--json", trace], capture_output=True, text=True,
                              timeout=DEADLINE_S, check=True)
        return next(one["count"] for one in json.loads(done.stdout)["types"]
                    if one["name"] == "PollStartEvent")

    def ps(self, *args):
        return self.json("ps", "-i", "0", *args)["rings"]

    def host(self, *actions, after=(), **variables):
        """A host that has recorded 1,000 polls and taken the actions, takes those of after, then
        waits for a file `end`."""
        ready = self.dir / f"ready{len(self.started)}"
        process = subprocess.Popen([HOST, "1000", *actions, f"touch={ready}", *after,
                                    f"wait={self.dir / 'end'}"],
                                   env={**os.environ, "KYMO_RING_DIR": str(self.rings),
                                        **variables})
        self.started.append(process)
        wait_until(ready.exists)
        return process

    def ring_of(self, process):
        return next(self.rings.glob(f"*-{process.pid}-*.ring"))

    def assert_one_sentence(self, done, *parts, code=1):
        self.assertEqual((done.returncode, done.stdout, done.stderr.count("\n")), (code, "", 1),
                         done.stderr)
        for part in parts:
            self.assertIn(part, done.stderr)


class Ps(Control):
    def test_no_recording_process_is_reported_and_no_trouble(self):
        done = self.kymo("ps")
        self.assertEqual((done.returncode, done.stdout), (0, ""))
        self.assertEqual(done.stderr.count("\n"), 1)
        self.assertIn("nothing is recording", done.stderr)
        self.assertEqual(self.json("ps")["rings"], [])

    def test_a_recording_process_and_one_that_was_killed(self):
        alive, dead = self.host(KYMO_SERVICE="front"), self.host(KYMO_SERVICE="back")
        dead.kill()
        dead.wait()
        rings = {ring["pid"]: ring for ring in self.ps()}
        self.assertEqual({pid: (ring["service"], ring["state"]) for pid, ring in rings.items()},
                         {alive.pid: ("front", "alive"), dead.pid: ("back", "dead")})
        self.assertEqual(rings[alive.pid]["path"], str(self.ring_of(alive)))
        lines = self.kymo("ps", "-v", "-i", "0").stdout.splitlines()
        self.assertEqual(lines[0].split(), ["PID", "SERVICE", "MODE", "STATE", "AGE", "RING",
                                            "DROPPED", "PATH"])
        self.assertEqual({line.split()[0] for line in lines[1:3]}, {str(alive.pid), str(dead.pid)})
        # The living host streams, and no kymo drains its ring.
        self.assertEqual(lines[3:], ["(!) no process drains it; `kymo attach PID` does"])

    def test_a_stopped_process_is_alive(self):
        process = self.host()
        process.send_signal(signal.SIGSTOP)
        self.assertEqual([ring["state"] for ring in self.ps()], ["alive"])

    def test_rate_is_counted_over_the_interval(self):
        quiet, busy = self.host(), self.host(after=["polls=1000000000000"])

        def has_run():  # a machine may leave nothing of 50 ms to the busy one
            found = self.json("ps", "-i", "50ms")
            self.assertEqual(found["interval_ns"], 50000000)
            rates = {ring["pid"]: ring["events_per_second"] for ring in found["rings"]}
            self.assertEqual(rates[quiet.pid], 0)
            return rates[busy.pid] > 0
        wait_until(has_run)
        self.assertEqual({ring["events_per_second"] for ring in self.ps()}, {None})
        self.assertIn("EVENTS/S in 50.0 ms", self.kymo("ps", "-i", "50ms").stdout)

    def test_wrong_usage(self):
        for wrong in (["-i", "soon"], ["-i", "0.5"], ["-i", "2h"], ["1234"], ["--pid"]):
            self.assertEqual(self.kymo("ps", *wrong).returncode, 2)


class Status(Control):
    def test_reports_what_is_recorded_and_what_hangs(self):
        process = self.host("begin=42", KYMO_SERVICE="front")
        process.send_signal(signal.SIGSTOP)
        reply = self.json("status", process.pid)
        self.assertEqual((reply["pid"], reply["service"], reply["state"], reply["ended"]),
                         (process.pid, "front", "alive", None))
        self.assertEqual(reply["path"], str(self.ring_of(process)))
        self.assertGreaterEqual(reply["events_at_least"], 2000)
        self.assertEqual((reply["threads"], reply["dropped"]["all"]), (1, 0))
        self.assertEqual((reply["settings"]["poll"], reply["settings"]["waker_clone"]),
                         ("on", "off"))
        polls = [(poll["tid"], poll["task"], poll["name"], poll["depth"])
                 for poll in reply["open_polls"]]
        self.assertEqual(polls, [(process.pid, 42, "host::job", 0)])
        self.assertGreater(reply["open_polls"][0]["open_ns"], 0)
        text = self.kymo("status", "front").stdout
        for part in (f"{process.pid}, alive", "Open polls 1", "host::job", "off: waker_clone"):
            self.assertIn(part, text)

    def test_recorder_process_is_reported_by_mode(self):
        process = self.host()
        self.assertIn("no process that is visible", self.kymo("status", process.pid).stdout)
        self.kymo("set", process.pid, "mode=flight")
        self.assertIn("no process: in flight mode", self.kymo("status", process.pid).stdout)
        self.assertEqual(self.ps()[0]["mode"], "flight")

    def test_an_open_poll_gets_older(self):
        process = self.host("begin=42")
        first = self.json("status", process.pid)["open_polls"][0]["open_ns"]
        self.assertGreater(self.json("status", process.pid)["open_polls"][0]["open_ns"], first)

    def test_a_dead_process_still_has_a_status(self):
        process = self.host("begin=42")
        process.kill()
        process.wait()
        reply = self.json("status", process.pid)
        self.assertEqual((reply["state"], len(reply["open_polls"])), ("dead", 1))
        self.assertIn("Open polls 1 when it ended", self.kymo("status", process.pid).stdout)

    def test_refusals(self):
        self.assert_one_sentence(self.kymo("status", "4194303"), "no process 4194303")
        self.assert_one_sentence(self.kymo("status", os.getpid()), "does not record")
        self.assert_one_sentence(self.kymo("status", "nobody"), "service 'nobody'")
        self.assertEqual(self.kymo("status").returncode, 2)
        self.assertEqual(self.kymo("status", "1", "2").returncode, 2)


class Set(Control):
    def test_changes_are_printed_and_seen_by_the_process(self):
        process = self.host(after=[f"wait={self.dir / 'more'}", "polls=100"])
        claims = lambda: self.json("status", process.pid)["events_at_least"]
        before = claims()
        done = self.kymo("set", process.pid, "poll=off", "poll.threshold=1ms", "mode=flight")
        self.assertEqual((done.returncode, done.stderr), (0, ""))
        self.assertEqual(done.stdout, "poll: on -> off\npoll.threshold: default -> 1ms\n"
                         "mode: default -> flight\n")
        (self.dir / "more").touch()
        os.kill(process.pid, 0)
        (self.dir / "end").touch()
        process.wait()
        self.assertEqual(claims(), before)  # the 100 polls were not recorded

    def test_nothing_is_written_when_one_value_is_wrong(self):
        process = self.host()
        done = self.kymo("set", process.pid, "poll=off", "wake=maybe")
        self.assert_one_sentence(done, "'maybe'", "on or off", code=2)
        self.assertIn("poll=on\n", self.kymo("set", process.pid).stdout)
        done = self.kymo("set", process.pid, "poll=off", "pull=off")
        self.assert_one_sentence(done, "there is no setting 'pull'", "did you mean 'poll'",
                                 "waker_clone", "mode", code=2)
        self.assertIn("poll=on\n", self.kymo("set", process.pid).stdout)

    def test_a_value_that_is_set_already_is_reported(self):
        process = self.host()
        self.assertEqual(self.kymo("set", process.pid, "poll=on").stdout, "poll: on, as it was\n")

    def test_a_dump_may_stop_the_recording_until_it_is_started_again(self):
        process = self.host(after=[f"wait={self.dir / 'go'}", "polls=100",
                                    f"touch={self.dir / 'done'}", f"wait={self.dir / 'more'}",
                                    "polls=10", f"touch={self.dir / 'again'}"])
        self.kymo("set", process.pid, "wake=off")
        made = self.json("dump", "--stop", "-o", self.dir / "last.trc", process.pid)
        self.assertTrue(made["is_stopped"])
        held = self.polls(self.dir / "last.trc")
        (self.dir / "go").touch()
        wait_until((self.dir / "done").exists)
        again = self.json("dump", "-o", self.dir / "again.trc", process.pid)
        self.assertEqual((self.polls(self.dir / "again.trc"), again["is_stopped"]), (held, False))
        # Each asks its own two clocks what time that was.
        self.assertLess(abs(again["stopped_unix_ns"] - made["stopped_unix_ns"]), 10**9)
        status = self.kymo("status", process.pid).stdout
        self.assertIn("recording=off, as started otherwise", status)
        self.assertRegex(status, rf"stopped .* after its start; `kymo set {process.pid} rec")
        self.assertIn("off: wake", status)  # as it will be again
        done = self.kymo("set", process.pid, "recording=on")
        self.assertEqual((done.stdout, done.stderr), ("recording: off -> on\n", ""))
        self.assertIn("wake=off\n", self.kymo("set", process.pid).stdout)
        (self.dir / "more").touch()
        wait_until((self.dir / "again").exists)
        more = self.json("dump", "-o", self.dir / "more.trc", process.pid)
        self.assertEqual(self.polls(self.dir / "more.trc"), held + 10)
        self.assertIsNone(more["stopped_unix_ns"])

    def test_stopped_recording_is_reported_everywhere(self):
        process = self.host()
        done = self.kymo("dump", "--stop", "-o", self.dir / "no" / "x.trc", process.pid)
        self.assertEqual((done.returncode, done.stdout), (1, ""))
        self.assertIn("recording was stopped", done.stderr)  # although there is no file
        self.assertIn("stopped", self.kymo("ps", "-i", "10ms").stdout)
        self.assertIsNotNone(self.ps()[0]["stopped_after_ns"])
        self.assertIn("recording=on` resumes it",
                      self.kymo("dump", "-o", self.dir / "x.trc", process.pid).stdout)
        process.kill()
        process.wait()
        said = self.kymo("recover", "-o", self.dir, process.pid).stdout
        self.assertRegex(said, r"recording was stopped at .* UTC\n")
        trace = next(self.dir.glob("*.trc.zst"))
        for command in "info", "report":
            reply = subprocess.run([KYMO, command, trace], capture_output=True, text=True,
                                  check=True).stdout
            self.assertRegex(reply, r"(?m)^Stopped +\d.* before the last event")
        events = subprocess.run([KYMO, "events", trace], capture_output=True, text=True,
                                check=True).stdout
        self.assertIn('label="recording stopped"', events)

    def test_changes_as_json(self):
        process = self.host()
        self.assertEqual(self.json("set", process.pid, "poll=off")["changes"],
                         [{"name": "poll", "before": "on", "after": "off"}])
        self.assertIn({"name": "poll", "value": "off"},
                      self.json("set", process.pid)["settings"])

    def test_set_reports_a_stream_that_no_process_drains(self):
        process = self.host(KYMO_SERVICE="alone")
        undrained = ("but this ring is not drained: nothing is written until a recorder process "
                     f"drains it; `kymo dump {process.pid}` writes what it holds\n")
        for value, said in (("flight", "mode: default -> flight\n"),
                            ("stream", "mode: flight -> stream, " + undrained),
                            ("stream", "mode: stream, as it was, " + undrained),
                            ("default", "mode: stream -> default, " + undrained)):
            done = self.kymo("set", process.pid, f"mode={value}")
            self.assertEqual((done.returncode, done.stdout, done.stderr), (0, said, ""))
        self.assertEqual(self.json("set", process.pid, "mode=stream"),
                         {"pid": process.pid, "service": "alone",
                          "changes": [{"name": "mode", "before": "default", "after": "stream"}],
                          "is_streaming": True, "is_drained": False})
        # Not where the mode is left alone.
        self.assertEqual(self.kymo("set", process.pid, "wake=off").stdout, "wake: on -> off\n")

    def test_a_missing_ring_directory_is_reported(self):
        process = self.host()
        there, self.rings = self.rings, self.dir / "ringz"
        for who in (process.pid, "run_host"):
            for command in (["status", who], ["set", who, "wake=off"], ["mark", who, "x"],
                            ["dump", who]):
                self.assert_one_sentence(self.kymo(*command), "ringz: there is no such directory")
        self.assert_one_sentence(self.kymo("ps"), "ringz: there is no such directory")
        # Before the first start of a service that is as it should be.
        self.assert_one_sentence(self.kymo("recover"), "there is no such directory", code=0)
        self.rings = there
        there.chmod(0o777)
        self.assert_one_sentence(self.kymo("status", process.pid), "others may write")

    def test_dead_processes_are_refused(self):
        process = self.host()
        process.kill()
        process.wait()
        self.assert_one_sentence(self.kymo("set", process.pid, "poll=off"), "is gone",
                                 "kymo recover")

    def test_a_zombie_does_not_run(self):
        process = self.host()
        ring = self.ring_of(process)
        process.kill()
        os.waitid(os.P_PID, process.pid, os.WEXITED | os.WNOWAIT)
        self.assert_one_sentence(self.kymo("set", process.pid, "poll=off"), "is gone",
                                 "kymo recover")
        ring.unlink()
        self.assert_one_sentence(self.kymo("set", process.pid, "poll=off"), "no process")

    def test_a_truncated_ring_is_reported_without_a_crash(self):
        process = self.host()
        process.send_signal(signal.SIGSTOP)  # it must not touch what is gone
        os.truncate(self.ring_of(process), 4096)
        done = self.kymo("set", process.pid, "poll=off")
        self.assert_one_sentence(done, "truncated at byte 4096")
        process.kill()

    def test_other_users_are_refused(self):
        if os.geteuid() != 0:
            self.skipTest("needs root to become another user")
        process = self.host()
        for path in (self.dir, self.rings):
            os.chmod(path, 0o755)
        # A clone may lie where no other user may read.
        program = shutil.copy(KYMO, self.dir)
        done = subprocess.run([program, "set", str(process.pid), "poll=off"], user=65534,
                              group=65534, extra_groups=[], capture_output=True, text=True,
                              check=False, cwd="/")
        self.assert_one_sentence(done, f"process {process.pid} belongs to user 0")


class Order(Control):
    def test_options_may_stand_after_the_process(self):
        pid = str(self.host().pid)
        trace = self.dir / "after.trc"
        for command, *words in (("status", pid, "--json"), ("set", pid, "wake=off", "--json"),
                                ("mark", pid, "here"), ("dump", pid, "-o", trace)):
            done = subprocess.run([KYMO, command, *words, "--ring-dir", self.rings],
                                  capture_output=True, text=True, timeout=DEADLINE_S, check=False)
            self.assertEqual((done.returncode, done.stderr), (0, ""), command)
        self.assertTrue(trace.exists())


class Mark(Control):
    def test_one_process_or_all(self):
        first, second = self.host(KYMO_SERVICE="front"), self.host(KYMO_SERVICE="back")
        self.assertEqual(self.kymo("mark", "front", "deploy 7").stdout,
                         f"marked {first.pid} (front)\n")
        done = self.kymo("mark", "--all", "all of them \u00e4")
        self.assertEqual(sorted(done.stdout.splitlines()),
                         sorted([f"marked {first.pid} (front)", f"marked {second.pid} (back)"]))
        marked = self.json("mark", "--all", "again")["marked"]
        self.assertEqual({(one["pid"], one["service"]) for one in marked},
                         {(first.pid, "front"), (second.pid, "back")})
        texts = lambda process: [mark["text"] for mark in
                                 self.json("status", process.pid)["marks"]]
        self.assertEqual(texts(first), ["deploy 7", "all of them \u00e4", "again"])
        self.assertEqual(texts(second), ["all of them \u00e4", "again"])

    def test_texts_are_checked(self):
        process = self.host()
        for text, part in (("x" * 105, "105 bytes"), ("", "needs a text"), ("a\nb", "one line"),
                           (b"a\xff", "byte 1")):
            self.assert_one_sentence(self.kymo("mark", process.pid, text), part, code=2)
        self.assertEqual(self.kymo("mark", process.pid, "x" * 104).returncode, 0)
        for wrong in (["only"], ["--all", "1", "text"], [str(process.pid), "two", "words"], []):
            self.assertEqual(self.kymo("mark", *wrong).returncode, 2)

    def test_all_without_any_is_trouble(self):
        self.assert_one_sentence(self.kymo("mark", "--all", "x"), "nothing is recording")


class Lost(Control):
    def test_records_that_were_overwritten_are_a_loss_in_status(self):
        """`kymo run` stands still while its program writes more than the ring holds."""
        ready, go, written = self.dir / "ready", self.dir / "go", self.dir / "written"
        run = subprocess.Popen([KYMO, "run", "--ring-bytes", "128K", "--ring-dir", self.rings,
                                "-o", self.dir / "traces", "--", HOST, "1000", f"touch={ready}",
                                f"wait={go}", "polls=100000", f"touch={written}",
                                f"wait={self.dir / 'end'}"], stderr=subprocess.DEVNULL)
        self.started.append(run)
        wait_until(ready.exists)
        pid = self.ps()[0]["pid"]
        wait_until(lambda: self.json("status", pid)["drained_by_pid"] == run.pid)
        self.assertEqual(self.json("status", pid)["lost"], {"records": 0, "samples": 0})
        self.assertIn("Lost       nothing lost\n", self.kymo("status", pid).stdout)
        run.send_signal(signal.SIGSTOP)
        go.touch()
        wait_until(written.exists)
        run.send_signal(signal.SIGCONT)
        wait_until(lambda: self.json("status", pid)["lost"]["records"])
        lost = self.json("status", pid)["lost"]["records"]
        self.assertRegex(self.kymo("status", pid).stdout, r"Lost       [1-9][0-9,]* records lost\n")
        (self.dir / "end").touch()
        self.assertEqual(run.wait(DEADLINE_S), 0)
        done = subprocess.run([KYMO, "info", "--json", self.dir / "traces"], capture_output=True,
                              text=True, timeout=DEADLINE_S, check=True)
        self.assertGreaterEqual(json.loads(done.stdout)["lost_records"], lost)


class Streamed(Control):
    """What is changed externally shows in the trace that `kymo run` writes meanwhile."""

    def test_gates_and_marks_are_in_the_trace(self):
        traces, go = self.dir / "traces", self.dir / "go"
        ready = self.dir / "ready"
        run = subprocess.Popen([KYMO, "run", "--ring-dir", self.rings, "-o", traces, "--",
                                HOST, "1000", f"touch={ready}", f"wait={go}", "polls=10000"],
                               stderr=subprocess.DEVNULL)
        self.started.append(run)
        wait_until(ready.exists)
        ring = self.ps()[0]
        wait_until(lambda: self.json("status", ring["pid"])["drained_by_pid"] == run.pid)
        self.assertEqual(self.kymo("mark", ring["pid"], "deploy 7").returncode, 0)
        self.assertEqual(self.kymo("set", ring["pid"], "wake=off").returncode, 0)
        done = self.kymo("set", ring["pid"], "mode=stream")
        self.assertEqual((done.stdout, done.stderr), ("mode: default -> stream\n", ""))
        self.assertTrue(self.json("set", ring["pid"], "mode=stream")["is_drained"])
        go.touch()
        self.assertEqual(run.wait(DEADLINE_S), 0)
        done = subprocess.run([KYMO, "events", "--format", "jsonl", traces], capture_output=True,
                              text=True, check=True)
        events = [json.loads(line) for line in done.stdout.splitlines()]
        named = lambda name: [event for event in events if event["event"] == name]
        self.assertEqual([(event["fields"]["label"], event["fields"]["tid"])
                          for event in named("AnnotationEvent")], [("deploy 7", 0)])
        self.assertEqual([event["fields"]["gates"] for event in named("GatesEvent")],
                         [0x6fbf & ~2])


@unittest.skipUnless(os.geteuid() == 0 and shutil.which("unshare"), "needs root and unshare")
class Namespaces(Control):
    """Processes in a pid and mount namespace of their own, as in a container."""

    def boxed(self, *actions, before=""):
        """A host whose /dev/shm is its own. Returns its pid as it is seen from here."""
        ready, pid_file = self.dir / "boxed", self.dir / "inner"
        script = (f"mount -t tmpfs none /dev/shm && echo $$ > {pid_file}; {before} "
                  f"exec {HOST} 1000 {' '.join(actions)} touch={ready} wait={self.dir / 'end'}")
        variables = {name: value for name, value in os.environ.items() if name != "KYMO_RING_DIR"}
        process = subprocess.Popen(["unshare", "-p", "-m", "-f", "--mount-proc", "--kill-child",
                                    "sh", "-c", script],
                                   env={**variables, "KYMO_SERVICE": BOXED})
        self.started.append(process)
        wait_until(ready.exists)
        self.assertEqual(pid_file.read_text(), "1\n")
        children = pathlib.Path(f"/proc/{process.pid}/task/{process.pid}/children").read_text()
        return int(children.split()[0])

    def everywhere(self, command, *args):
        return subprocess.run([KYMO, command, *map(str, args)], capture_output=True, text=True,
                              timeout=DEADLINE_S, check=False)

    def test_by_the_pid_seen_from_here(self):
        pid = self.boxed("begin=42")
        done = self.everywhere("status", "--json", pid)
        self.assertEqual((done.stderr, done.returncode), ("", 0))
        reply = json.loads(done.stdout)
        self.assertEqual((reply["pid"], reply["ring_pid"], reply["is_foreign"], reply["state"]),
                         (pid, 1, True, "alive"))
        self.assertEqual([poll["task"] for poll in reply["open_polls"]], [42])
        self.assertTrue(reply["path"].startswith(f"/proc/{pid}/root" + "/dev/shm/kymo-"))
        self.assertEqual(self.everywhere("set", pid, "poll=off").stdout, "poll: on -> off\n")
        self.assertEqual(self.everywhere("mark", pid, "x").stdout, f"marked {pid} ({BOXED})\n")

    def test_all_shows_the_living_and_the_dead_of_the_box(self):
        pid = self.boxed(before=f"{HOST} 10 signal=9;")
        # Through the first process that has this mount namespace.
        found = json.loads(self.everywhere("ps", "--all", "-i", "0", "--json").stdout)["rings"]
        of_box = {ring["state"]: (ring["pid"], ring["ring_pid"]) for ring in found
                  if ring["service"] == BOXED}
        self.assertEqual(set(of_box), {"alive", "dead"})
        self.assertEqual((of_box["alive"], of_box["dead"][0]), ((pid, 1), None))


class Crowd(Control):
    def test_many_at_once_see_the_same(self):
        process = self.host()
        all_ps = [subprocess.Popen([KYMO, "ps", "--ring-dir", self.rings, "--json", "-i", "0"],
                                  stdout=subprocess.PIPE) for _ in range(20)]
        for one in all_ps:
            out = one.communicate(timeout=DEADLINE_S)[0]
            self.assertEqual([(ring["pid"], ring["state"]) for ring in json.loads(out)["rings"]],
                             [(process.pid, "alive")])


def main():
    global KYMO, HOST
    KYMO, HOST = map(os.path.abspath, sys.argv[1:3])
    unittest_tap.main(sys.argv[3:])


if __name__ == "__main__":
    main()
