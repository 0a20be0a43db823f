#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0 OR MIT
"""kymo dump and recover: traces of rings whose process runs, is stopped, or is gone.

usage: test_dump.py KYMO HOST [unittest arguments]
HOST is run_host.c.
"""
import fcntl
import json
import os
import pathlib
import shutil
import signal
import struct
import subprocess
import sys
import tempfile
import time
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "tools"))
import unittest_tap  # noqa: E402
from unittest_tap import DEADLINE_S, wait_until  # noqa: E402

KYMO = HOST = ""
POLLS = 1000


def is_stopped(pid):
    text = pathlib.Path(f"/proc/{pid}/stat").read_text(encoding="utf-8")
    return text.rsplit(")", 1)[1].split()[0] == "T"


def kill_if_there(pid):
    try:
        os.kill(pid, signal.SIGKILL)
    except ProcessLookupError:
        pass


class Rings(unittest.TestCase):
    def setUp(self):
        self.dir = pathlib.Path(tempfile.mkdtemp(prefix="kymo-dump-"))
        self.rings = self.dir / "rings"
        self.rings.mkdir(mode=0o700)
        self.out = self.dir / "out"
        self.out.mkdir()
        self.started = []

    def tearDown(self):
        for process in self.started:
            if process.poll() is None:
                process.kill()
            process.wait()
        shutil.rmtree(self.dir, ignore_errors=True)

    def kymo(self, command, *args, program=None, **options):
        return subprocess.run([program or KYMO, command, *args], capture_output=True, text=True,
                              timeout=DEADLINE_S, check=False, **options)

    def dump(self, *args):
        return self.kymo("dump", "--ring-dir", self.rings, *map(str, args), cwd=self.out)

    def recover(self, *args):
        return self.kymo("recover", "--ring-dir", self.rings, "-o", self.out, *map(str, args))

    def info(self, *paths):
        done = self.kymo("info", "--json", *paths)
        self.assertEqual(done.returncode, 0, done.stderr)
        return json.loads(done.stdout)

    def metadata(self, path):
        return self.info(path)["metadata"]

    def polls(self, *paths):
        return next(t["count"] for t in self.info(*paths)["types"] if t["name"] == "PollEndEvent")

    def host(self, *actions, polls=POLLS, **variables):
        """A host that has recorded, taken the actions, and waits for a file that never comes."""
        ready = self.dir / f"ready{len(self.started)}"
        process = subprocess.Popen([HOST, str(polls), *actions, f"touch={ready}",
                                    f"wait={self.dir / 'end'}"],
                                   env={**os.environ, "KYMO_RING_DIR": str(self.rings),
                                        **variables})
        self.started.append(process)
        wait_until(ready.exists)
        return process

    def dead(self, *actions, **variables):
        process = self.host(*actions, **variables)
        process.kill()
        process.wait()
        return process

    def ring_of(self, process):
        return next(self.rings.glob(f"*-{process.pid}-*.ring"))

    def traces(self):
        return sorted(self.out.iterdir())

    def assert_one_sentence(self, done, *parts, code=1):
        self.assertEqual((done.returncode, done.stdout, done.stderr.count("\n")), (code, "", 1),
                         done.stderr)
        for part in parts:
            self.assertIn(part, done.stderr)


class Dump(Rings):
    def test_a_running_process_gives_one_file_and_one_line(self):
        host = self.host(KYMO_SERVICE="front")
        done = self.dump(host.pid)
        self.assertEqual((done.returncode, done.stderr), (0, ""))
        self.assertEqual(done.stdout.count("\n"), 1)
        (trace,) = self.traces()
        self.assertRegex(trace.name, rf"^front-{host.pid}-\d{{8}}T\d{{6}}Z\.trc\.zst$")
        self.assertEqual(trace.stat().st_mode & 0o777, 0o600)
        for part in (trace.name, " events, ", " UTC (", "nothing lost"):
            self.assertIn(part, done.stdout)
        self.assertEqual(self.polls(trace), POLLS)
        self.assertIsNone(host.poll())

    def test_a_stopped_process_is_dumped(self):
        host = self.host("begin=77", KYMO_SERVICE="hung")
        host.send_signal(signal.SIGSTOP)
        wait_until(lambda: is_stopped(host.pid))
        done = self.dump("hung", "--json")
        said = json.loads(done.stdout)
        self.assertEqual((said["pid"], said["open_poll_count"]), (host.pid, 1))
        self.assertEqual([(poll["task"], poll["name"]) for poll in said["open_polls"]],
                         [(77, "host::job")])
        self.assertEqual(self.polls(self.out / said["file"]), POLLS)
        self.assertTrue(is_stopped(host.pid))

    def test_reason_label_and_pairs_are_in_the_trace(self):
        host = self.host()
        path = self.dir / "named.trc.gz"
        done = self.dump(host.pid, "-o", path, "--reason", "slow logins", "--label", "INC-7",
                         "-m", "a=b", "-m", "c=d=e")
        self.assertEqual(done.returncode, 0, done.stderr)
        pairs = self.metadata(path)
        self.assertEqual({key: pairs[key] for key in ("kymo.dump.reason", "kymo.dump.label",
                                                      "a", "c")},
                         {"kymo.dump.reason": "slow logins", "kymo.dump.label": "INC-7", "a": "b",
                          "c": "d=e"})

    def test_a_named_file_is_replaced_and_a_default_name_never(self):
        host = self.host()
        path = self.dir / "again.trc"
        for _ in range(2):
            self.assertEqual(self.dump(host.pid, "-o", path).returncode, 0)
        self.assertEqual([p.name for p in self.dir.glob("again*")], ["again.trc"])
        # As many in one second as there are: each has a name of its own.
        for _ in range(3):
            self.assertEqual(self.dump(host.pid).returncode, 0)
        self.assertEqual(len(self.traces()), 3)

    def test_the_range_is_cut(self):
        host = self.host()
        whole = json.loads(self.dump(host.pid, "--json").stdout)
        middle = (whole["oldest_ns"] + whole["newest_ns"]) // 2
        early = json.loads(self.dump(host.pid, "--json", "--to", f"@{middle}").stdout)
        self.assertLess(early["newest_ns"], middle)
        before = json.loads(self.dump(host.pid, "--json", "--to",
                                      f"@{early['newest_ns']}").stdout)
        self.assertLess(before["newest_ns"], early["newest_ns"])
        late = json.loads(self.dump(host.pid, "--json", "--from", f"@{middle}").stdout)
        self.assertGreaterEqual(late["oldest_ns"], middle)
        none = json.loads(self.dump(host.pid, "--json", "--last", "1ms").stdout)
        self.assertLess(none["events"], whole["events"])

    def test_after_takes_what_comes_until_the_process_ends(self):
        host = subprocess.Popen([HOST, str(POLLS), f"wait={self.dir / 'go'}", "polls=500",
                                 "signal=9"],
                                env={**os.environ, "KYMO_RING_DIR": str(self.rings)})
        self.started.append(host)
        wait_until(lambda: json.loads(self.kymo("ps", "--ring-dir", self.rings, "-i", "0",
                                                "--json").stdout)["rings"])
        trace = self.dir / "after.trc"
        # A day, if it waited for the dead.
        dump = subprocess.Popen([KYMO, "dump", "--ring-dir", self.rings, str(host.pid), "--after",
                                 "24h", "-o", trace], stdout=subprocess.DEVNULL)
        self.started.append(dump)
        (self.dir / "go").touch()
        self.assertEqual(dump.wait(DEADLINE_S), 0)
        self.assertEqual(self.polls(trace), POLLS + 500)

    def test_a_dead_process_is_dumped_and_its_ring_stays(self):
        host = self.dead("begin=5")
        said = json.loads(self.dump(host.pid, "--json").stdout)
        self.assertEqual(said["open_poll_count"], 1)
        self.assertTrue(self.ring_of(host).exists())

    def test_the_last_of_a_dead_process_counts_from_its_end(self):
        host = self.dead("paced=20000")
        whole = json.loads(self.dump(host.pid, "--json").stdout)
        millis = (whole["newest_ns"] - whole["oldest_ns"]) // 1_000_000
        self.assertGreater(millis, 4)
        # Dead for longer than it lived: counted from now nothing of it would be left.
        wait_until(lambda: time.monotonic_ns() > whole["newest_ns"] + 3_000_000 * millis)
        last = json.loads(self.dump(host.pid, "--json", "--last", f"{2 * millis}ms").stdout)
        self.assertEqual(last["records_read"], whole["records_read"])
        self.assertEqual(last["oldest_ns"], whole["oldest_ns"])
        half = json.loads(self.dump(host.pid, "--json", "--last", f"{millis // 2}ms").stdout)
        self.assertEqual(half["newest_ns"], whole["newest_ns"])
        self.assertLess(half["events"], whole["events"])
        self.assertGreaterEqual(half["oldest_ns"],
                                whole["newest_ns"] - millis // 2 * 1_000_000)

    def test_a_range_without_a_moment_of_the_ring_makes_no_file(self):
        living, dead = self.host(), self.dead()
        end_ns = json.loads(self.dump(dead.pid, "--json").stdout)["newest_ns"]
        self.traces()[0].unlink()
        for args, part in (((living.pid, "--from", "2100-01-01T00:00:00Z"), "in the future"),
                           ((living.pid, "--to", "2020-01-01T00:00:00Z"), "recording began"),
                           ((living.pid, "--to", "1971-01-01T00:00:00Z"), "recording began"),
                           ((living.pid, "--to", "@0"), "recording began"),
                           ((living.pid, "--from", "@0", "--to", "@1"), "recording began"),
                           ((dead.pid, "--from", f"@{end_ns + 1}"), "after the last event"),
                           ((dead.pid, "--to", "@1"), "recording began")):
            with self.subTest(args=args):
                self.assert_one_sentence(self.dump(*args), part, " UTC", "there is no file")
        self.assertEqual(self.traces(), [])
        done = self.dump(dead.pid, "--from", f"@{end_ns}")
        self.assertEqual(done.returncode, 0, done.stderr)

    def test_a_range_before_the_ring_is_reported(self):
        host = self.host(polls=40000, KYMO_RING_BYTES=str(128 << 10))
        done = self.dump(host.pid, "--last", "10m")
        self.assertRegex(done.stdout, r"the ring of 131 kB is full and reaches .* back, 10m 00s "
                         r"would take one of \d")
        said = json.loads(self.dump(host.pid, "--last", "10m", "--json").stdout)
        self.assertGreater(said["ring_bytes_needed"], said["ring_bytes"])
        self.assertEqual(said["ring_bytes_used"], said["ring_bytes"])

    def test_a_ring_that_is_not_full_holds_all_there_ever_was(self):
        host = self.host(polls=40000, KYMO_RING_BYTES=str(8 << 20))
        for args in ((), ("--last", "10m")):
            done = self.dump(host.pid, *args)
            self.assertRegex(done.stdout, r"; the ring of 8\.39 MB holds all \S+ \S+ since the "
                             r"start, \d+\.\d % used")
            self.assertNotRegex(done.stdout, "reaches|would take|older")
        said = json.loads(self.dump(host.pid, "--json").stdout)
        self.assertLess(said["ring_bytes_used"], said["ring_bytes"])
        self.assertGreater(said["ring_bytes_used"], 0)

    def streamed(self, *actions, ring_bytes=8 << 20):
        """A host under `kymo run`, which is at its ring; both, and the traces."""
        traces, ready = self.dir / "traces", self.dir / "ready"
        run = subprocess.Popen([KYMO, "run", "-q", "--ring-dir", self.rings, "-o", traces,
                                "--ring-bytes", str(ring_bytes), "--", HOST, str(POLLS), *actions,
                                f"touch={ready}", f"wait={self.dir / 'end'}"])
        self.started.append(run)
        wait_until(ready.exists)
        (ring,) = self.rings.glob("*.ring")
        host = int(ring.name.split("-")[1])
        self.addCleanup(kill_if_there, host)
        wait_until(lambda: json.loads(self.kymo("status", "--ring-dir", self.rings, "--json",
                                                str(host)).stdout)["drained_into"])
        return run, host, traces

    def test_a_stream_is_reported_as_written_all_the_time(self):
        _, host, traces = self.streamed()
        self.assertIn("; it is also in the trace that is written all the time",
                      self.dump(host).stdout)
        said = json.loads(self.dump(host, "--json").stdout)
        self.assertTrue(said["is_drained"])
        self.assertIn(str(traces.resolve()), said["drained_into"])

    def test_a_flight_that_is_watched_is_not_drained(self):
        _, host, _ = self.streamed()
        self.assertEqual(self.kymo("set", "--ring-dir", self.rings, str(host),
                                   "mode=flight").returncode, 0)
        self.assertFalse(json.loads(self.dump(host, "--json").stdout)["is_drained"])

    def test_of_a_stream_that_wrapped_older_events_are_in_the_trace(self):
        _, host, _ = self.streamed("paced=40000", ring_bytes=128 << 10)
        self.assertIn("; what is older is in the trace that is written all the time",
                      self.dump(host).stdout)

    def test_a_stream_whose_run_was_killed_is_in_no_trace_any_more(self):
        run, host, traces = self.streamed()
        run.kill()
        run.wait()
        done = self.dump(host)
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertNotIn("all the time", done.stdout)
        self.assertIn("; this ring is not drained now, what was drained before is in "
                      f"{traces.resolve()}", done.stdout)
        self.assertFalse(json.loads(self.dump(host, "--json").stdout)["is_drained"])

    def test_a_reader_does_not_drain_it(self):
        host = self.host()
        with open(self.ring_of(host), "rb"):
            done = self.dump(host.pid)
            status = json.loads(self.kymo("status", "--ring-dir", self.rings, "--json",
                                          str(host.pid)).stdout)
        self.assertTrue(done.stdout.endswith("; this ring is not drained now\n"), done.stdout)
        self.assertIsNone(status["drained_by_pid"])

    def test_a_process_that_records_nothing_is_reported(self):
        self.assert_one_sentence(self.dump(os.getpid()), "does not record")
        self.assert_one_sentence(self.dump(2**22 - 1), "no process")
        self.assert_one_sentence(self.dump("nobody"), "'nobody'")
        self.assertEqual(self.traces(), [])

    def test_trouble_with_the_file_leaves_nothing(self):
        host = self.host()
        self.assert_one_sentence(self.dump(host.pid, "-o", self.dir / "no/such/x.trc"), "no/such")
        full = self.dump(host.pid, "-o", "/dev/full/x.trc")
        self.assert_one_sentence(full, "/dev/full")
        self.assertEqual(self.traces(), [])

    def test_a_name_that_is_too_long_is_refused_and_not_cut(self):
        host = self.host()
        deep = self.out
        while len(str(deep)) < 500:
            deep /= "d" * 100
        deep.mkdir(parents=True)
        place = deep / ("e" * (607 - len(str(deep)) - 1))
        place.mkdir()
        self.assertEqual(self.dump(host.pid, "-o", place).returncode, 0)
        self.assertEqual([len(one.name) > 20 for one in place.glob("*.trc.zst")], [True])
        self.assert_one_sentence(self.dump(host.pid, "-o", f"{place}/"), "608 bytes", code=2)
        named = deep / ("n" * 200) / "x.trc"
        named.parent.mkdir()
        self.assert_one_sentence(self.dump(host.pid, "-o", named), "and may have 607", code=2)
        self.assertEqual(sorted(one.name for one in named.parent.iterdir()), [])
        wrong = self.kymo("dump", "--ring-dir", "/" + "r" * 255, str(host.pid))
        self.assertEqual((wrong.returncode, wrong.stdout), (2, ""))
        self.assertIn("--ring-dir has 256 bytes, and may have 255", wrong.stderr)

    def test_an_interrupted_list_of_tasks_leaves_nothing(self):
        host, temporary = self.host(), self.dir / "tmp"
        temporary.mkdir()
        kymo = subprocess.Popen([KYMO, "dump", "--ring-dir", self.rings, str(host.pid), "--tasks",
                                 "--after", "60s"], env={**os.environ, "TMPDIR": temporary})
        self.started.append(kymo)
        wait_until(lambda: list(temporary.iterdir()))
        kymo.send_signal(signal.SIGINT)
        self.assertEqual(kymo.wait(DEADLINE_S), -signal.SIGINT)
        self.assertEqual(list(temporary.iterdir()), [])

    def test_wrong_usage(self):
        host = self.host()
        for args in ([], [host.pid, host.pid], [host.pid, "--last", "soon"],
                     [host.pid, "--last", "0"], [host.pid, "--last", "1s", "--from", "1s"],
                     [host.pid, "--after", "1s", "--to", "1s"], [host.pid, "-o", "x.txt"],
                     [host.pid, "-o", "-"], [host.pid, "-o", "x.trc", "--compress", "gzip"],
                     [host.pid, "-m", "=x"], [host.pid, "--compress", "rar"],
                     [host.pid, "--from", "2s", "--to", "1s"], [host.pid, "--last", "30"],
                     [host.pid, "--from", "1s", "--to", "1s"]):
            done = self.dump(*args)
            self.assertEqual((done.returncode, done.stdout), (2, ""), args)
        self.assertEqual(self.traces(), [])


    def test_while_the_drain_rotates(self):
        """Every dump is a whole trace, and the stream after it has everything."""
        ready, traces = self.dir / "ready", self.dir / "traces"
        gates = [self.dir / f"gate{n}" for n in range(6)]
        run = subprocess.Popen([KYMO, "run", "--ring-dir", self.rings, "-o", traces,
                                "--rotate-interval", "2ms", "--", HOST, "1000", f"touch={ready}",
                                *[word for gate in gates for word in (f"wait={gate}",
                                                                      "paced=50000")],
                                f"wait={self.dir / 'end'}"], stderr=subprocess.PIPE, text=True)
        self.started.append(run)
        wait_until(ready.exists)
        (ring,) = self.rings.glob("*.ring")
        self.addCleanup(kill_if_there, int(ring.name.split("-")[1]))
        segments = lambda: len(list(traces.rglob("*.trc.zst")))

        def is_dumped():
            path = self.out / f"{len(self.traces())}.trc"
            done = self.dump("run_host", "-o", path)
            self.assertEqual(done.returncode, 0, done.stderr)
            counts = {t["name"]: t["count"] for t in self.info(path)["types"]}
            self.assertIn(counts["PollStartEvent"] - counts["PollEndEvent"], (0, 1))
            return segments() >= index
        for index, gate in enumerate(gates):
            gate.touch()
            wait_until(is_dumped)  # until the drain has rotated once more
        (self.dir / "end").touch()
        err = run.communicate(timeout=DEADLINE_S)[1]
        self.assertEqual(run.returncode, 0, err)
        self.assertRegex(err, "nothing lost")
        self.assertGreater(segments(), 5)
        self.assertEqual(self.polls(traces), 301000)
        # Read together, what a dump and the stream both have counts once.
        self.assertEqual(self.polls(traces, *self.traces()), 301000)
        self.assertGreater(self.info(traces, self.traces()[-1])["copies"], 1000)
        self.assertIn("counted once", self.kymo("info", traces, *self.traces()).stdout)

    def test_dumps_that_overlap_count_each_event_once(self):
        host = self.host("sleep=20", polls=3000)
        for name in ("a.trc", "b.trc"):
            self.assertEqual(self.dump(host.pid, "-o", name).returncode, 0)
        both = self.info(*self.traces())
        self.assertEqual((self.polls(*self.traces()), both["lost_records"]), (3000, 0))
        self.assertGreater(both["copies"], 5999)
        done = self.kymo("events", "--type", "PollEndEvent", "--format=csv", *self.traces())
        self.assertEqual(len(done.stdout.splitlines()), 3001)
        one = self.dir / "one.trc"
        self.assertEqual(self.kymo("convert", *self.traces(), "-o", one).returncode, 0)
        self.assertEqual(self.polls(one), 3000)

    @unittest.skipIf(os.geteuid() != 0, "needs root to become another user")
    def test_a_process_that_becomes_another_user_is_dumped_and_recovered(self):
        os.chmod(self.dir, 0o777)  # it makes its mark there afterwards
        host = self.host("user=65534", "polls=500")
        self.assertEqual(self.dump(host.pid, "-o", self.out / "alive.trc").returncode, 0)
        self.assertEqual(self.polls(self.out / "alive.trc"), POLLS + 500)
        host.kill()
        host.wait()
        self.assertEqual(self.recover().returncode, 0)
        self.assertEqual([self.polls(path) for path in self.traces()], [POLLS + 500] * 2)

    def test_a_removed_ring_is_reached_through_its_process(self):
        host = self.host(KYMO_SERVICE="bare")
        self.ring_of(host).unlink()
        done = self.kymo("dump", str(host.pid), "-o", self.out / "bare.trc")
        if os.geteuid() != 0:
            self.assert_one_sentence(done, "has no name any more", "root can")
            return
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertEqual(self.polls(self.out / "bare.trc"), POLLS)

    @unittest.skipIf(os.geteuid() != 0, "needs root to become another user")
    def test_a_removed_ring_is_reported_to_users_who_may_not_open_it(self):
        for path in (self.dir, self.rings, self.out):
            os.chmod(path, 0o755)
        os.chown(self.rings, 65534, 65534)
        ready = self.dir / "out" / "bare"
        os.chown(self.out, 65534, 65534)
        other_user = {"user": 65534, "group": 65534, "extra_groups": [], "cwd": "/"}
        # A clone may lie where no other user may read.
        program, host = (shutil.copy(path, self.dir) for path in (KYMO, HOST))
        host = subprocess.Popen([host, str(POLLS), f"touch={ready}", f"wait={self.dir / 'end'}"],
                                env={**os.environ, "KYMO_RING_DIR": str(self.rings)}, **other_user)
        self.started.append(host)
        wait_until(ready.exists)
        self.ring_of(host).unlink()
        for command in (["dump", str(host.pid)], ["status", str(host.pid)]):
            self.assert_one_sentence(self.kymo(*command, program=program, **other_user),
                                     f"process {host.pid}", "has no name any more", "root can")
        done = self.kymo("ps", "-i", "0", program=program, **other_user)
        self.assertIn(f"process {host.pid} records into it", done.stderr)
        self.assertIn("root can", done.stderr)
        done = self.kymo("recover", program=program, **other_user)
        self.assertEqual((done.returncode, done.stdout), (0, ""), done.stderr)
        self.assertIsNone(host.poll())


class Recover(Rings):
    def test_nothing_to_recover_makes_no_directory(self):
        place = self.dir / "new"
        done = self.kymo("recover", "--ring-dir", self.rings, "-o", place)
        self.assertEqual((done.returncode, place.exists()), (0, False), done.stderr)
        self.dead("begin=4711")
        self.assertEqual(self.kymo("recover", "--ring-dir", self.rings, "-o", place).returncode, 0)
        self.assertEqual(len(list(place.iterdir())), 1)

    def test_a_killed_process_becomes_a_trace_and_its_ring_goes(self):
        host = self.dead("begin=4711", KYMO_SERVICE="front")
        done = self.recover()
        self.assertEqual((done.returncode, done.stderr), (0, ""))
        lines = done.stdout.splitlines()
        self.assertEqual(lines[0], f"front (pid {host.pid}) ended: unknown, no process waited for "
                                   f"it")
        self.assertIn("polled task 4711 host::job, for an unknown time: nothing was recorded after "
                      "its begin", lines[2])
        (trace,) = self.traces()
        self.assertIn(trace.name, lines[3])
        self.assertEqual(self.polls(trace), POLLS)
        self.assertEqual(list(self.rings.iterdir()), [])
        pairs = self.metadata(trace)
        self.assertEqual((pairs["process.end"], pairs["kymo.dump.reason"]),
                         ("unknown", "kymo recover"))
        report = self.kymo("report", "--full", trace)
        self.assertIn("host::job", report.stdout)
        (hung,) = [line for line in report.stdout.splitlines() if "still open when" in line]
        self.assertEqual(hung.split()[:2], ["-", "4711"])

    def test_the_stack_of_a_crash_has_names(self):
        host = subprocess.run([HOST, "100", "begin=4711", "crash"], check=False,
                              env={**os.environ, "KYMO_RING_DIR": str(self.rings)})
        self.assertEqual(host.returncode, -signal.SIGSEGV)
        done = self.recover("--keep")
        self.assertEqual((done.returncode, done.stderr), (0, ""))
        self.assertRegex(done.stdout, r"signal 11 on thread \d+:\n +in crash_inside \(.*run_host.c"
                                      r":\d+\)\n +from crash \(.*run_host.c:\d+\)\n")
        reply = json.loads(self.recover("--json").stdout)
        (crash,) = reply["crashes"]
        self.assertEqual([frame["function"] for frame in crash["stack"][:2]],
                         ["crash_inside", "crash"])
        self.assertEqual((crash["signal"], crash["whole"]), (11, True))
        self.assertTrue(crash["stack"][0]["file"].endswith("run_host.c"))
        self.assertEqual(reply["open_poll_stacks"], [])
        self.assertEqual(list(self.rings.iterdir()), [])

    def test_a_file_in_the_place_of_the_directory_is_reported_once(self):
        for _ in range(2):
            self.dead()
        place = self.dir / "file"
        place.write_text("mine")
        done = self.kymo("recover", "--ring-dir", self.rings, "-o", place)
        self.assert_one_sentence(done, str(place), "Not a directory")
        self.assertEqual((len(list(self.rings.iterdir())), place.read_text()), (2, "mine"))

    def test_keep_keeps_and_the_same_ring_gives_the_same_name(self):
        self.dead()
        for _ in range(2):
            self.assertEqual(self.recover("--keep").returncode, 0)
        self.assertEqual(len(self.traces()), 1)
        self.assertEqual(len(list(self.rings.iterdir())), 1)

    def test_one_by_pid_service_or_file_leaves_the_others(self):
        first, second = self.dead(KYMO_SERVICE="a"), self.dead(KYMO_SERVICE="b")
        third = self.dead(KYMO_SERVICE="c")
        self.assertEqual(self.recover(first.pid).returncode, 0)
        self.assertEqual(self.recover("b").returncode, 0)
        self.assertEqual(len(list(self.rings.iterdir())), 1)
        self.assertEqual(self.recover(self.ring_of(third)).returncode, 0)
        self.assertEqual(len(self.traces()), 3)
        self.assertEqual(second.returncode, -signal.SIGKILL)

    def test_a_ring_in_the_current_directory_needs_no_slash(self):
        dead, other = self.dead(KYMO_SERVICE="here"), self.dead(KYMO_SERVICE="there.ring")
        name = self.ring_of(dead).name
        recover = lambda who: self.kymo("recover", "-o", self.out, "--ring-dir", self.rings, who,
                                        cwd=self.rings)
        self.assertEqual(recover(name).returncode, 0)
        self.assertEqual([path.name for path in self.rings.iterdir()], [self.ring_of(other).name])
        self.assert_one_sentence(recover(name), f"service '{name}'")
        self.assertEqual(recover("there.ring").returncode, 0)  # no such file: a service
        self.assertEqual(len(self.traces()), 2)

    def test_a_ring_file_whose_name_is_too_long_is_reported(self):
        host = self.dead()
        deep = self.dir
        while len(str(deep)) < 500:
            deep /= "d" * 100
        deep.mkdir(parents=True)
        moved = deep / "moved.ring"
        self.ring_of(host).rename(moved)
        self.assert_one_sentence(self.recover(moved), "too long")
        self.assertTrue(moved.exists())

    def test_a_sentence_for_a_closed_stream_does_not_go_into_the_ring(self):
        host = self.dead()
        self.assertEqual(self.recover("--keep").returncode, 0)
        (trace,) = self.traces()
        trace.unlink()
        trace.mkdir()  # so that there is something to say while the ring is open
        for closed in ("2>&-", "0<&- >&- 2>&-", ">&- 2>&-"):
            done = subprocess.run(["sh", "-c", f'exec "$@" {closed}', "sh", KYMO, "recover",
                                   "--ring-dir", self.rings, "-o", self.out],
                                  timeout=DEADLINE_S, check=False)
            self.assertEqual(done.returncode, 1)
        self.assertEqual(self.ring_of(host).read_bytes()[:8], b"KYMORING")
        trace.rmdir()
        self.assertEqual(self.recover().returncode, 0)
        self.assertEqual(self.polls(trace), POLLS)

    def test_a_living_process_is_left_alone(self):
        host = self.host()
        done = self.recover()
        self.assertEqual((done.returncode, done.stdout), (0, ""))
        self.assertIn("no dead process", done.stderr)
        for who in (host.pid, self.ring_of(host)):
            self.assert_one_sentence(self.recover(who), f"kymo dump {host.pid}")
        self.assertTrue(self.ring_of(host).exists())

    def test_a_ring_that_another_process_recovers_is_left_alone(self):
        host = self.dead()
        with open(self.ring_of(host), "r+b") as file:
            lock = struct.pack("hhqqi4x", fcntl.F_WRLCK, os.SEEK_SET, 0, 1, 0)
            fcntl.fcntl(file, 37, lock)  # F_OFD_SETLK
            for who, code in ((), 0), ((host.pid,), 1), (("run_host",), 1):
                done = self.recover(*who)
                self.assertEqual((done.returncode, done.stdout), (code, ""))
                self.assertRegex(done.stderr, r"\A.*another kymo.*skipped\n\Z")
        self.assertEqual(self.recover().returncode, 0)
        self.assertEqual(len(self.traces()), 1)

    def test_several_at_once_make_each_trace_once(self):
        for _ in range(6):
            self.dead()
        command = [KYMO, "recover", "--json", "--ring-dir", self.rings, "-o", self.out]
        runs = [subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL,
                                 text=True) for _ in range(4)]
        lines = [line for run in runs for line in run.communicate(timeout=DEADLINE_S)[0].split("\n")
                 if line]
        self.assertEqual({run.returncode for run in runs}, {0})
        files = sorted(json.loads(line)["file"] for line in lines)
        self.assertEqual(files, sorted(map(str, self.traces())))
        self.assertEqual(len(files), 6)
        self.assertEqual(list(self.rings.iterdir()), [])

    def test_service_that_died_twice_and_runs_again_is_recovered_twice(self):
        self.dead(), self.dead()
        self.dead(KYMO_SERVICE="other")
        self.host()
        done = self.recover("run_host")
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertEqual(len(list(self.out.glob("run_host-*"))), 2)
        self.assertEqual(len(list(self.out.iterdir())), 2)
        again = self.recover("run_host")
        self.assertIn("runs and records", again.stderr)

    def test_what_killed_runs_left_beside_the_rings_goes_with_the_next_command(self):
        runs = [subprocess.Popen([KYMO, "run", "-q", "--sample", "off", "--ring-dir", self.rings,
                                  "--", "cat"], stdin=subprocess.PIPE,
                                 stdout=subprocess.PIPE) for _ in range(2)]
        self.started += runs
        for run in runs:
            run.stdin.write(b"up\n")
            run.stdin.flush()
            self.assertEqual(run.stdout.readline(), b"up\n")
        for run, command in zip(runs, (["run", "-q", "--ring-dir", self.rings, "--", "true"],
                                       ["recover", "--ring-dir", self.rings])):
            count = len(list(self.rings.glob(".status-*")))
            run.kill()
            run.wait()
            self.assertEqual(len(list(self.rings.glob(".status-*"))), count)
            done = self.kymo(*command)
            self.assertEqual(done.returncode, 0, done.stderr)
            self.assertEqual(len(list(self.rings.glob(".status-*"))), count - 1)
            run.communicate()  # its `cat` ends

    def test_a_full_disk_is_named(self):
        small = self.dir / "small"
        small.mkdir()
        inside = ["unshare", "-rm", "sh", "-c"]
        mount = 'mount -t tmpfs -o size=16k none "$0" || exit 77; "$@"'
        if subprocess.run([*inside, mount, small, "true"], capture_output=True,
                          check=False).returncode:
            self.skipTest("no file system can be mounted here")
        process = self.dead(polls=100000)
        for command in (("dump", str(process.pid), "--compress", "none"),
                        ("recover", "--compress", "none")):
            done = subprocess.run([*inside, mount, small, KYMO, *command, "--ring-dir", self.rings,
                                   "-o", f"{small}/{'x.trc' if command[0] == 'dump' else ''}"],
                                  capture_output=True, text=True, check=False)
            self.assertEqual(done.returncode, 1, done.stderr)
            self.assertRegex(done.stderr, r"No space left on device: the file system at \S+/small "
                                          r"has too little room \(16\.4 kB, ")
        self.assertTrue(self.ring_of(process).exists())

    def test_leftovers_of_a_killed_recover_go(self):
        self.dead()
        self.recover("--keep")
        (trace,) = self.traces()
        left = self.out / f"{trace.name}.4711.tmp"
        left.write_bytes(b"half")
        other = self.out / "mine.4711.tmp"
        other.write_bytes(b"")
        self.assertEqual(self.recover().returncode, 0)
        self.assertEqual(self.traces(), sorted([trace, other]))


class Damaged(Rings):
    """One sentence each; what is whole is still recovered."""

    def setUp(self):
        super().setUp()
        self.whole = self.dead(KYMO_SERVICE="whole")

    def assert_others_recovered(self, done, *parts):
        self.assertEqual(done.returncode, 1, done.stderr)
        self.assertEqual(done.stderr.count("\n"), 1, done.stderr)
        for part in parts:
            self.assertIn(part, done.stderr)
        self.assertEqual([path.name.split("-")[0] for path in self.traces()], ["whole"])

    def patched(self, offset, data):
        ring = self.ring_of(self.dead(KYMO_SERVICE="hurt"))
        with open(ring, "r+b") as file:
            file.seek(offset)
            file.write(data)
        return ring

    def test_one_of_a_newer_version(self):
        ring = self.patched(8, struct.pack("<I", 99))
        self.assert_others_recovered(self.recover(), ring.name, "version 99")
        self.assertTrue(ring.exists())

    def test_one_that_is_cut_in_its_header(self):
        ring = self.ring_of(self.dead())
        os.truncate(ring, 100)
        self.assert_others_recovered(self.recover(), ring.name)

    def test_one_that_is_none(self):
        ring = self.patched(0, b"another program")
        self.assert_others_recovered(self.recover(), ring.name)
        self.assertTrue(ring.exists())

    def test_a_symbolic_link_in_its_place(self):
        secret = self.dir / "secret"
        secret.write_text("mine")
        link = self.rings / "whole-1-1.ring"
        link.symlink_to(secret)
        self.assert_others_recovered(self.recover(), link.name, "symbolic link")
        self.assertEqual(secret.read_text(), "mine")
        self.assertTrue(link.is_symlink())

    @unittest.skipIf(os.geteuid() != 0, "needs root to give a file away")
    def test_one_of_another_user(self):
        ring = self.ring_of(self.dead())
        os.chown(ring, 12345, -1)
        self.assert_others_recovered(self.recover(), ring.name, "12345")
        self.assertTrue(ring.exists())

    def test_one_that_is_cut_after_its_header_gives_what_it_has(self):
        ring = self.ring_of(self.dead(polls=60000, KYMO_SERVICE="hurt"))
        os.truncate(ring, (1 << 20) + (256 << 10))
        done = self.recover()
        self.assertEqual((done.returncode, done.stderr), (0, ""))
        self.assertIn("the ring file ends at byte", done.stdout)
        self.assertEqual(len(self.traces()), 2)
        (hurt,) = [path for path in self.traces() if path.name.startswith("hurt")]
        losses = self.kymo("events", "--type", "LossEvent", "--format=csv", hurt).stdout
        self.assertIn("corrupt", losses)
        self.assertNotIn("nothing lost", done.stdout.splitlines()[-1])

    def test_flipped_bits_never_end_it(self):
        for offset in range(0, 8192, 509):
            self.patched(offset, bytes([0xa5]))
        done = self.recover()
        self.assertIn(done.returncode, (0, 1))
        self.assertIn("whole", " ".join(path.name for path in self.traces()))


class Bound(Rings):
    def test_the_oldest_of_many_go_and_never_a_living_one(self):
        alive = self.host()
        dead = [self.dead(KYMO_SERVICE=f"s{n}") for n in range(11)]
        done = self.recover("s0", "--keep")
        self.assertEqual(done.returncode, 0, done.stderr)
        left = {path.name.rsplit("-", 2)[0] for path in self.rings.glob("s*.ring")}
        self.assertEqual(left, {f"s{n}" for n in range(3, 11)})
        self.assertTrue(self.ring_of(alive).exists())
        self.assertEqual(len(dead), 11)

    def test_a_file_that_is_not_ours_stays(self):
        mine = self.rings / "mine.ring"
        mine.write_bytes(b"not a ring")
        for n in range(10):
            self.dead(KYMO_SERVICE=f"s{n}")
        self.recover("s9", "--keep")
        self.assertEqual(mine.read_bytes(), b"not a ring")


if __name__ == "__main__":
    # Ignored under nohup or in the background, which children inherit.
    signal.signal(signal.SIGINT, signal.default_int_handler)
    KYMO, HOST = map(os.path.abspath, sys.argv[1:3])
    unittest_tap.main(sys.argv[3:])
