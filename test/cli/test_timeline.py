#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0 OR MIT
"""What `kymo export --format perfetto` and `chrome` say of a trace, decoded here without any code
of src, against `kymo query`; test/interop/perfetto.py asks Perfetto's own engine.

usage: test_timeline.py KYMO SOURCE_ROOT [unittest arguments]
"""
import collections
import gc
import gzip
import json
import pathlib
import struct
import sys
import zlib

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "lib"))
from cli_case import Cli, NEW, OLD, main  # noqa: E402
import protobuf  # noqa: E402
from trace_maker import SampleTrace  # noqa: E402

MS = 1000000
BEGIN, END, INSTANT, COUNTER = 1, 2, 3, 4
SCRIPTS = ["задача::работа", "任务::运行", "مهمة::تشغيل", "<b>&\"'\\ x</b>", "a\tb\nc", "🦀::poll"]


def fields(data):
    return protobuf.fields(data, lambda part: struct.unpack("<Q", part)[0])


class Perfetto:
    """Slices, instants, counters and arrows of a file; what a reader would drop is an error."""

    def __init__(self, data):
        self.tracks, self.names, self.clock, self.default = {}, {}, {}, {}
        self.slices, self.instants, self.counters = [], [], []
        self.out, self.into, self.open = {}, {}, collections.defaultdict(list)
        self.cleared = set()
        self.packets(data)
        self.unfinished = [one for stack in self.open.values() for one in stack]

    def packets(self, data):
        for field, packet in fields(data):
            assert field == 1
            packet = dict_of(packet)
            if 50 in packet:
                assert list(packet) == [50]
                self.packets(zlib.decompress(packet[50][0]))
            else:
                self.packet(packet)

    def packet(self, packet):
        said = [field for field in (6, 11, 12, 59, 60) if field in packet]
        assert len(said) == 1, packet
        sequence = packet[10][0]
        if 59 in packet:
            assert packet[13] == [1]
            self.cleared.add(sequence)
            defaults = dict_of(packet[59][0])
            self.default[sequence] = (defaults[58][0], dict_of(defaults.get(11, [b""])[0]).get(11))
            self.names[sequence] = {}
        elif 6 in packet:
            clocks = [dict_of(one) for one in dict_of(packet[6][0])[1]]
            for clock in clocks:
                if clock[1][0] == 64:
                    assert clock[3] == [1]
                    self.clock[sequence] = clock[2][0]
                    assert {3: clock[2]} == {one[1][0]: one[2] for one in clocks if one[1] == [3]}
        elif 60 in packet:
            track = dict_of(packet[60][0])
            self.tracks[track[1][0]] = track
        elif 12 in packet:
            for one in dict_of(packet[12][0])[2]:
                self.names[sequence][dict_of(one)[1][0]] = dict_of(one)[2][0].decode()
        else:
            self.event(sequence, packet[8][0], dict_of(packet[11][0]))

    def event(self, sequence, stamp, event):
        assert sequence in self.cleared
        clock, default = self.default[sequence]
        if clock == 64:
            self.clock[sequence] += stamp
            stamp = self.clock[sequence]
        track = event.get(11, default)[0]
        assert track in self.tracks
        name = self.names[sequence][event[10][0]] if 10 in event else None
        values = {one[10][0].decode(): (one.get(3) or one.get(6))[0]
                  for one in map(dict_of, event.get(4, []))}
        one = {"ts": stamp, "name": name, "track": track, "values": values,
               "task": event.get(52, [None])[0]}
        for flow in event.get(47, []):
            assert flow not in self.out
            self.out[flow] = one
        for flow in event.get(48, []):
            assert flow in self.out and flow not in self.into
            self.into[flow] = one
        kind = event[9][0]
        if kind == BEGIN:
            self.open[track].append(one)
        elif kind == END:
            begun = self.open[track].pop()
            begun["dur"] = stamp - begun["ts"]
            self.slices.append(begun)
        elif kind == INSTANT:
            self.instants.append(one)
        else:
            assert kind == COUNTER
            self.counters.append((track, stamp, event[30][0]))

    def on_lanes(self, names=None):
        """Slices of workers: their tracks' parent is the process, or such a track."""
        for one in self.slices:
            track = self.tracks[one["track"]]
            above = self.tracks.get(track.get(5, [0])[0], {})
            is_lane = 4 in track or 4 in above or any(
                text.startswith((b"worker ", b"thread ")) for text in track.get(2, []))
            if is_lane and (names is None or one["name"] in names):
                yield one


def dict_of(data):
    out = {}
    for field, value in fields(data):
        if field in out:
            out[field].append(value)
        else:
            out[field] = [value]
    return out


class Timeline(Cli):
    decoded = {}

    def perfetto(self, *arguments):
        if arguments not in self.decoded or arguments[-1] not in (OLD, NEW):
            data = self.run_kymo("export", "--format", "perfetto", *arguments).stdout
            gc.disable()  # millions of lists, none of which is garbage
            self.decoded[arguments] = Perfetto(data)
            gc.enable()
        return self.decoded[arguments]

    def chrome(self, *arguments):
        return json.loads(self.run_kymo("export", "--format", "chrome", *arguments).stdout)

    def query(self, sql, path):
        return json.loads(self.run_kymo("query", "--json", sql, path).stdout)["rows"]

    def one(self, sql, path):
        return list(self.query(sql, path)[0].values())

    def made(self):
        trace = SampleTrace().metadata(pid=4242, service="front")
        for number, name in enumerate(SCRIPTS):
            at = (100 + 10 * number) * MS
            trace.poll(at, at + 3 * MS, number + 1, name)
            trace.event("WakeEventEvent", at + 4 * MS, ("waker_task_id", "VARINT", 0),
                        ("woken_task_id", "VARINT", number + 2), ("target_worker", "U8", 0))
        trace.event("CounterEvent", 150 * MS, ("name", "STRING", b"depth"), ("value", "I64", -7))
        trace.event("Login", 151 * MS, ("user", "STRING", "Ω".encode()), ("n", "VARINT", 3))
        return trace.save(self.dir / "made.trc")

    def test_polls_parks_and_wakes_are_those_of_the_trace(self):
        for path in (NEW, OLD):
            with self.subTest(path):
                seen = self.perfetto(path)
                own = {"park", "driver turn"}
                polls = [one for one in seen.on_lanes() if one["name"] not in own]
                self.assertEqual([len(polls)],
                                 self.one("SELECT count(*) FROM polls WHERE NOT is_open", path))
                self.assertEqual([sum(one["dur"] for one in polls)],
                                 self.one("SELECT sum(duration_ns) FROM polls WHERE NOT is_open",
                                          path))
                parks = list(seen.on_lanes({"park"}))
                self.assertEqual([sum(one["dur"] for one in parks)],
                                 self.one("SELECT sum(duration_ns) FROM parks WHERE NOT is_open",
                                          path))
                wakes = [one for one in seen.instants if one["name"] == "wake"]
                self.assertEqual([len(wakes)], self.one("SELECT count(*) FROM wakes", path))
                sites = collections.Counter(one["name"] for one in polls)
                rows = self.query("SELECT coalesce(site, '(unnamed)') AS s, count(*) AS n FROM "
                                  "polls WHERE NOT is_open GROUP BY 1", path)
                self.assertEqual(dict(sites), {row["s"]: row["n"] for row in rows})

    def test_an_arrow_leads_from_a_wake_to_the_next_poll_of_its_task(self):
        seen = self.perfetto(NEW)
        self.assertGreater(len(seen.into), 1000)
        for flow, poll in seen.into.items():
            self.assertEqual(seen.out[flow]["name"], "wake")
            self.assertEqual(seen.out[flow]["task"], poll["task"])
            self.assertLessEqual(seen.out[flow]["ts"], poll["ts"])

    def test_names_in_every_script_counters_events_and_losses(self):
        path = self.made()
        seen = self.perfetto(path)
        process = dict_of(seen.tracks[1][3][0])
        self.assertEqual((process[1], process[6]), ([4242], [b"front"]))
        polls = [one for one in seen.on_lanes() if one["name"] in SCRIPTS]
        self.assertEqual([one["name"] for one in polls], SCRIPTS)
        self.assertEqual({one["dur"] for one in polls}, {3 * MS})
        self.assertEqual(len(seen.into), len(SCRIPTS) - 1)
        track, stamp, value = seen.counters[0]
        self.assertEqual(seen.tracks[track][2], [b"depth"])
        self.assertEqual((stamp, value), (150 * MS, (1 << 64) - 7))
        login = [one for one in seen.instants if one["name"] == "Login"]
        self.assertEqual(login[0]["values"], {"user": "Ω".encode(), "n": 3})
        page = self.chrome(path)
        names = [one["name"] for one in page["traceEvents"] if one["ph"] == "B"]
        self.assertEqual([name for name in names if name in SCRIPTS], SCRIPTS)
        self.assertIn({"value": -7}, [one["args"] for one in page["traceEvents"]
                                      if one["ph"] == "C"])

    def test_chrome_slices_nest_and_say_the_same(self):
        page = self.chrome(NEW)
        stacks, last, polls = collections.defaultdict(list), collections.defaultdict(float), 0
        for one in page["traceEvents"]:
            if one["ph"] not in "BE":
                continue
            self.assertGreaterEqual(one["ts"], last[one["tid"]])
            last[one["tid"]] = one["ts"]
            if one["ph"] == "B":
                stacks[one["tid"]].append(one)
                polls += "task" in one.get("args", {})
            else:
                stacks[one["tid"]].pop()
        self.assertEqual([polls], self.one("SELECT count(*) FROM polls", NEW))
        arrows = collections.Counter(one["ph"] for one in page["traceEvents"])
        self.assertEqual(arrows["f"], len(self.perfetto(NEW).into))

    def test_slices_that_overlap_without_nesting_go_to_another_track(self):
        trace = SampleTrace()
        for kind, at, worker, tid in (("Start", 100, 0, 7), ("Start", 110, 1, 7)):
            trace.event(f"Poll{kind}Event", at * MS, ("worker_id", "VARINT", worker),
                        ("local_queue", "VARINT", 0), ("task_id", "VARINT", worker + 1),
                        ("spawn_loc", "STRING", b"a"))
        trace.event("PollEndEvent", 120 * MS, ("worker_id", "VARINT", 0))
        trace.event("PollEndEvent", 130 * MS, ("worker_id", "VARINT", 1))
        trace.event("DriverTurnEvent", 125 * MS, ("worker_id", "VARINT", 0),
                    ("duration_ns", "VARINT", 10 * MS), ("ready_count", "VARINT", 1))
        path = trace.save(self.dir / "overlap.trc")
        seen = self.perfetto(path)
        turn = [one for one in seen.slices if one["name"] == "driver turn"]
        poll = [one for one in seen.on_lanes({"a"})]
        self.assertEqual([one["dur"] for one in turn], [10 * MS])
        self.assertEqual(sorted(one["dur"] for one in poll), [20 * MS, 20 * MS])
        self.assertNotIn(turn[0]["track"], [one["track"] for one in poll])

    def test_an_open_poll_has_no_end(self):
        trace = SampleTrace()
        trace.poll(100 * MS, 101 * MS, 1, "a")
        trace.event("PollStartEvent", 105 * MS, ("worker_id", "VARINT", 0),
                    ("local_queue", "VARINT", 0), ("task_id", "VARINT", 2),
                    ("spawn_loc", "STRING", b"stuck"))
        trace.event("PollStartEvent", 300 * MS, ("worker_id", "VARINT", 1),
                    ("local_queue", "VARINT", 0), ("task_id", "VARINT", 3),
                    ("spawn_loc", "STRING", b"b"))
        seen = self.perfetto(trace.save(self.dir / "open.trc"))
        self.assertIn("stuck", [one["name"] for one in seen.unfinished])
        self.assertNotIn("stuck", [one["name"] for one in seen.slices])

    def test_a_range_a_worker_and_a_task_alone(self):
        whole = self.perfetto(OLD)
        part = self.perfetto("--from", "1s", "--to", "2s", OLD)
        start = self.one("SELECT trace_start_ns()", OLD)[0]
        inside = [one for one in whole.on_lanes() if start + 10**9 <= one["ts"] < start + 2 * 10**9]
        self.assertEqual(len(inside), len(list(part.on_lanes())))
        task = self.one("SELECT task FROM tasks WHERE polls > 100 LIMIT 1", OLD)[0]
        lone = self.perfetto("--task", task, OLD)
        self.assertEqual({one["task"] for one in lone.on_lanes()}, {task})
        worker = self.one("SELECT worker FROM workers WHERE polls > 100 LIMIT 1", OLD)[0]
        lane = self.perfetto("--worker", worker, OLD)
        self.assertEqual([len([one for one in lane.on_lanes()
                               if one["name"] not in ("park", "driver turn")])],
                         self.one(f"SELECT count(*) FROM polls WHERE worker = {worker}", OLD))

    def test_what_was_written_is_said(self):
        out = self.dir / "t.pftrace"
        said = json.loads(self.run_kymo("export", "--format", "perfetto", "--json", "-o", out,
                                        NEW).stdout)
        self.assertEqual([said["polls"]], self.one("SELECT count(*) FROM polls", NEW))
        self.assertEqual([said["wakes"]], self.one("SELECT count(*) FROM wakes", NEW))
        self.assertEqual([said["spans"]], self.one("SELECT count(*) FROM spans", NEW))
        self.run_kymo("export", "--format", "perfetto", "-o", self.dir / "t.pftrace.gz", NEW)
        # What is packed as a whole is not packed in pieces before.
        parts = [dict_of(packet)[50][0] for _, packet in fields(out.read_bytes())]
        self.assertGreater(len(parts), 1)
        self.assertEqual(gzip.decompress((self.dir / "t.pftrace.gz").read_bytes()),
                         b"".join(map(zlib.decompress, parts)))

    def test_samples_are_not_chosen_for_a_timeline(self):
        self.fails("export", "--format", "perfetto", "--kind", "cpu", NEW, code=2,
                   says=["--kind chooses samples, which perfetto does not have"])


if __name__ == "__main__":
    main()
