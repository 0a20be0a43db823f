#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0 OR MIT
"""Tests of what bench/ does with figures: medians, verdicts, table, JSON, retries, memory maps."""
import json
import pathlib
import random
import statistics
import sys
import tempfile
import unittest
import unittest.mock

HERE = pathlib.Path(__file__).resolve().parent
sys.path[:0] = [str(HERE), str(HERE.parent / "tools")]

import picture  # noqa: E402
import unittest_tap  # noqa: E402
from measure import (cost, cost_rows, crates, drain, dumps, echo, emit, end_to_end,  # noqa: E402
                     flight, memory, off_cpu, paired, programs, rows, sampler, watch)


class Rows(unittest.TestCase):
    def test_interval_of_15_rounds_leaves_out_four_at_each_end(self):
        values = [100 + index for index in range(15)]
        self.assertEqual(rows.median_interval(reversed(values)), (107, 103, 111))

    def test_interval_of_few_rounds_is_everything(self):
        self.assertEqual(rows.median_interval([3, 1]), (2, 1, 3))

    def test_no_value_is_an_error(self):
        with self.assertRaisesRegex(ValueError, "no value"):
            rows.median_interval([])

    def test_pairs_of_unequal_length_are_an_error(self):
        with self.assertRaises(ValueError):
            rows.differences([1, 2], [1])

    def test_differences_cancel_drift(self):
        plain = [100, 200, 400]
        own = [110, 210, 410]
        self.assertEqual(rows.row("x", rows.differences(own, plain), "ns")["value"], 10)

    def test_verdict_looks_at_what_is_better(self):
        self.assertEqual(rows.verdict(rows.row("x", [2], "ns", 2)), "reached")
        self.assertEqual(rows.verdict(rows.row("x", [2.1], "ns", 2)), "MISSED")
        self.assertEqual(rows.verdict(rows.row("x", [2.1], "1/s", 2, better="higher")), "reached")
        self.assertEqual(rows.verdict(rows.row("x", [1.9], "1/s", 2, better="higher")), "MISSED")
        self.assertEqual(rows.verdict(rows.row("x", [1.9], "ns")), "")

    def test_number_keeps_four_digits_or_the_whole_part(self):
        shown = {0: "0.000", 1.0369: "1.037", 40: "40.0", 250: "250", 32073.4: "32,073",
                 -2.95: "-2.950", None: "-"}
        for value, text in shown.items():
            self.assertEqual(rows.number(value), text)

    def test_table_is_aligned_and_names_every_row(self):
        entries = [rows.row("short", [1, 2, 3], "ns", 5, 9.5),
                   rows.row("a longer name", 70, "instructions", 65)]
        lines = rows.table(entries)
        self.assertEqual(lines[0].split(),
                         ["what", "value", "unit", "spread", "target", "dial9", "verdict"])
        self.assertEqual(lines[0].index("verdict"), lines[2].index("reached"))
        self.assertEqual(lines[0].index("verdict"), lines[3].index("MISSED"))
        self.assertEqual(lines[0].index("unit"), lines[2].index("ns"))
        self.assertIn("1.000 .. 3.000", lines[2])
        self.assertIn("9.500", lines[2])
        self.assertIn("<= 65.0", lines[3])

    def test_json_has_the_agreed_keys(self):
        with tempfile.TemporaryDirectory() as folder:
            path = pathlib.Path(folder) / "results" / "latest.json"
            entries = [rows.row("x", [1, 2], "ns", 1)]
            rows.write_json(path, {"processors": 2}, {"rounds": 3}, entries)
            read = json.loads(path.read_text())
            self.assertEqual([name.name for name in path.parent.iterdir()], ["latest.json"])
        entry = read["benchmarks"][0]
        for key in ("name", "value", "unit", "target", "better", "peer", "spread"):
            self.assertIn(key, entry)
        self.assertEqual((entry["spread"], entry["verdict"]), ([1, 2], "MISSED"))
        self.assertEqual(read["machine"], {"processors": 2})


class Watch(unittest.TestCase):
    def test_rows_are_the_share_and_the_looks(self):
        found = [{"percent": 0.2, "looks_a_second": 10}, {"percent": 0.1, "looks_a_second": 12}]
        share, looks = watch.rows_of("x", found)
        self.assertEqual((share["value"], share["target"], looks["value"]), (0.15, 0.1, 11))
        self.assertEqual(rows.verdict(share), "MISSED")
        self.assertEqual(rows.verdict(looks), "reached")


    def test_a_stuck_poll_that_nobody_noticed_is_no_figure(self):
        middle, longest = watch.stuck_rows({"stuck": 3, "fired_ms": [5, 120, 30]})
        self.assertEqual((middle["value"], longest["value"]), (30, 120))
        self.assertEqual(rows.verdict(longest), "MISSED")
        with self.assertRaisesRegex(programs.Broken, "2 of 3"):
            watch.stuck_rows({"stuck": 3, "fired_ms": [5, 120]})


class Lost(unittest.TestCase):
    def attempts(self, failures):
        seen = []

        def attempt():
            seen.append(None)
            if len(seen) <= failures:
                raise programs.Lost("kymo lost 7 records")
            return "figure"

        return attempt, seen

    def test_lossy_run_is_tried_twice_more(self):
        attempt, seen, said = *self.attempts(2), []
        self.assertEqual(programs.again_when_lost(attempt, notice=said.append), "figure")
        self.assertEqual((len(seen), len(said)), (3, 2))

    def test_third_lossy_run_is_a_failure(self):
        attempt, seen, said = *self.attempts(3), []
        with self.assertRaisesRegex(programs.Broken, "lost 7 records, 3 times in a row"):
            programs.again_when_lost(attempt, notice=said.append)
        self.assertEqual(len(seen), 3)

    def check(self, info, least):
        with tempfile.TemporaryDirectory() as folder:
            kymo = pathlib.Path(folder) / "kymo"
            kymo.write_text(f"#!/bin/sh\ncat <<'END'\n{json.dumps(info)}\nEND\n")
            kymo.chmod(0o755)
            (pathlib.Path(folder) / "000000.trc.zst").write_bytes(b"12345")
            return programs.check_trace(kymo, folder, least)

    INFO = {"lost_records": 0, "events": 30,
            "types": [{"name": "PollStartEvent", "count": 10}]}

    def test_whole_trace_passes_with_its_size(self):
        events, stored, counts = self.check(self.INFO, {"PollStartEvent": 10})
        self.assertEqual((events, stored, counts), (30, 5, {"PollStartEvent": 10}))

    def test_loss_makes_a_run_no_result(self):
        with self.assertRaisesRegex(programs.Lost, "lost 3 records"):
            self.check({**self.INFO, "lost_records": 3}, {})

    def test_run_that_recorded_too_little_is_no_result(self):
        with self.assertRaisesRegex(programs.Broken, "10 PollStartEvent, there were 11"):
            self.check(self.INFO, {"PollStartEvent": 11})


class Running(unittest.TestCase):
    def test_cpu_time_holds_that_of_children_waited_for(self):
        spin = "python3 -c 'import time\nwhile time.process_time() < 0.2: pass'"
        output, cpu_s, peak_bytes = programs.run(["sh", "-c", f"{spin}; echo done"])
        self.assertEqual(output, "done\n")
        self.assertGreaterEqual(cpu_s, 0.2)
        self.assertGreater(peak_bytes, 1 << 20)

    def test_failure_is_named(self):
        with self.assertRaisesRegex(programs.Broken, "exit 3 ended with 3"):
            programs.run(["sh", "-c", "exit 3"])

    def test_program_that_hangs_is_stopped_with_its_children(self):
        with self.assertRaisesRegex(programs.Broken, "did not end within 0.2 s"):
            with programs.Running(["sh", "-c", "sleep 1000 & sleep 1000"], limit_s=0.2) as running:
                running.finish()  # returns only when the child, too, has let go of the pipe


class Memory(unittest.TestCase):
    def test_ring_is_counted_apart_from_the_rest(self):
        smaps = ("55d0-55d1 r-xp 00000000 fe:00 12 /usr/bin/host\nSize: 40 kB\nRss: 12 kB\n"
                 "7f00-7f01 rw-s 00000000 00:1a 3 /dev/shm/kymo-0/1-2.ring\nRss: 512 kB\n"
                 "7f02-7f03 rw-s 00000000 00:01 4 /memfd:kymo-ring (deleted)\nRss: 64 kB\n"
                 "7f04-7f05 rw-p 00000000 00:00 0\nRss: 8 kB\nPss: 8 kB\n")
        self.assertEqual(memory.resident(smaps), (20 * 1024, 576 * 1024))


class Crates(unittest.TestCase):
    def test_loops_are_less_the_untouched_one_of_their_round(self):
        cost = {"plain": 100, "inside": 160, "dial9": 340}
        found = {title: {name: [{"cpu_ns": ns + drift, "peak": (ns + drift) * 2**20}
                                for drift in (0, 30, 90)] for name, ns in cost.items()}
                 for title in ("yield loop, a poll and its wake", "spawn, first poll and end")}
        entries = {entry["name"]: entry for entry in crates.loop_rows(found)}
        spawn = entries["spawn, first poll and end: the crate adds"]
        self.assertEqual((spawn["value"], spawn["peer"], spawn["target"]), (60, 240, 80))
        memory_row = next(entry for name, entry in entries.items() if "peak memory" in name)
        self.assertEqual((memory_row["value"], memory_row["peer"]), (60, 240))

    def test_echo_counts_stream_and_flight_apart(self):
        cost = {"plain": 5000, "plain again": 5010, "inside, stream": 5150,
                "inside, flight": 5060, "dial9": 5300}
        found = {name: [{"cpu_ns": ns + drift, "bytes": 7 if "stream" in name else 33,
                         "rate": 10**9 / ns, "p50_ns": ns, "p99_ns": 2 * ns, "p999_ns": 3 * ns}
                        for drift in (0, 300, 900)] for name, ns in cost.items()}
        entries = crates.echo_rows(found)
        costs = [entry for entry in entries if "CPU" in entry["name"] or "bytes" in entry["name"]]
        self.assertEqual([(entry["value"], entry["peer"]) for entry in costs],
                         [(5300, None), (10, None), (150, 300), (60, 300), (7, 33)])
        latencies = {entry["name"]: entry for entry in entries if entry not in costs}
        self.assertEqual(len(latencies), 12)
        late = latencies["echo: p99, inside, stream"]
        self.assertEqual((late["value"], late["peer"], late["better"]), (10.3, 10.6, "lower"))
        rate = latencies["echo: requests a second, untouched"]
        self.assertEqual((rate["value"], rate["peer"], rate["better"]), (200000, None, "higher"))

    def test_a_server_with_the_crate_records_in_a_thread_of_its_own(self):
        inside = crates.echo_variant("inside, flight", {})
        self.assertTrue(inside.records("kymo-drain") and not inside.records("tokio-rt-worker"))
        self.assertFalse(crates.echo_variant("plain", {}).records("kymo-drain"))
        self.assertTrue(crates.echo_variant("dial9", {}).records("dial9-flush"))


class Flight(unittest.TestCase):
    def figures(self, variants=flight.VARIANTS):
        cost = {"plain": 5000, "kymo": 5090, flight.EVENTS_ALONE: 5040, "go": 6000,
                "go+flight": 6700, "dial9": 5900}
        return {variant: [{"cpu_ns": cost[variant] + drift, "rate": 1e9 / cost[variant],
                           "p99_ns": 10, "p999_ns": 20, "start_ms": 1, "cut_ms": 2}
                          for drift in (0, 300, 900)] for variant in variants}

    def rows(self, figures):
        return {entry["name"]: entry for entry in flight.rows_of(figures)}

    def test_every_recorder_is_compared_with_its_own_server(self):
        found = self.rows(self.figures())
        cost = "adds per request, CPU of all processes"
        own = found[f"echo, kymo run --mode flight: {cost}"]
        go = found[f"echo in Go, FlightRecorder: {cost}"]
        alone = found[f"echo, flight, events alone, no stacks: {cost}"]
        self.assertEqual((own["value"], own["peer"], own["target"]), (90, 900, 100))
        self.assertEqual((alone["value"], alone["peer"], alone["target"]), (40, 900, 100))
        self.assertEqual((go["value"], go["peer"], go["target"]), (700, None, None))

    def test_without_go_its_rows_are_left_out(self):
        found = self.rows(self.figures(("plain", "dial9", *flight.OWN)))
        self.assertFalse([name for name in found if "Go" in name])
        self.assertEqual(len(found), 2 + len(flight.SHAPES))

    def test_cpu_clock_of_another_process_counts_all_its_threads(self):
        spin = ("import threading, time\n"
                "def work():\n while time.thread_time() < 0.1: pass\n"
                "thread = threading.Thread(target=work); thread.start(); thread.join()\n"
                "print('spun', flush=True); input()")
        with programs.Running([sys.executable, "-c", spin]) as running:
            self.assertEqual(running.line(), "spun")
            self.assertGreaterEqual(echo.cpu_ns(running.process.pid), 100_000_000)
            running.process.stdin.write("\n")
            running.finish()

    def test_dumps_are_paired_with_the_load_beside_them(self):
        def loads(p999_ns):
            return [{"p999_ns": p999_ns * turn, "p50_ns": 10, "cpu_ns": 5} for turn in (1, 2, 3)]

        found = dumps.rows_of({"quiet": loads(100), "dumped": loads(132), "burned": loads(120),
                               "once": loads(105), "dump_ms": [200, 240, 310]})
        self.assertEqual(found[0]["value"], 240)
        self.assertEqual(found[1]["value"], 310)
        for entry, value in zip(found[2:6], (32, 20, 10, 5), strict=True):
            self.assertAlmostEqual(entry["value"], value)
        self.assertEqual({entry["value"] for entry in found[6:14]}, {0})


def noisy(middle, spread, sets=2, turns=100, seed=1, shared=50):
    """Made-up turns: drift that all variants share, and noise of each."""
    chance = random.Random(seed)

    def turn():
        drift = chance.gauss(0, shared * spread)
        return {name: value + drift + chance.gauss(0, spread) for name, value in middle.items()}

    return [[turn() for _ in range(turns)] for _ in range(sets)]


class Paired(unittest.TestCase):
    def test_pairs_are_of_one_turn_and_sets_stay_apart(self):
        sets = [[{"a": 5, "b": 3}, {"b": 30, "a": 50}], [{"a": 1, "b": 1}]]
        self.assertEqual(paired.paired(sets, "a", "b"), [[2, 20], [0]])

    def test_drift_that_a_turn_shares_cancels(self):
        sets = noisy({"plain": 5000, "own": 5100}, 10)
        own = paired.estimate(paired.paired(sets, "own", "plain"), 1)
        low, high = own.interval()
        self.assertAlmostEqual(own.value, 100, delta=3)
        self.assertTrue(low < own.value < high and high - low < 6, (low, own.value, high))
        alone = paired.estimate(paired.column(sets, "own"), 1)
        self.assertGreater(alone.interval()[1] - alone.interval()[0], 60)

    def test_what_is_in_a_fifth_of_the_turns_counts_by_its_share(self):
        chance = random.Random(5)
        sets = [[200 if chance.random() < 0.2 else 0 for _ in range(400)] for _ in range(2)]
        self.assertAlmostEqual(paired.estimate(sets, 1, block=5).value, 40, delta=4)
        self.assertEqual(statistics.median(sets[0]), 0)

    def test_what_is_in_a_hundredth_of_the_turns_is_cut(self):
        sets = [[100.0] * 99 + [5000.0]] * 2
        for block in (1, 5):
            self.assertEqual(paired.estimate(sets, 1, block).value, 100)

    def test_blocks_are_successive_turns_of_one_set(self):
        self.assertEqual(paired.blocks_of([1, 3, 5, 7, 100], 2), [2, 6])
        self.assertEqual(paired.blocks_of([1, 3], 5), [2])
        whole = paired.estimate([[1, 3, 5, 7], [9, 11]], 1, block=2)
        self.assertEqual((whole.value, whole.turns, whole.blocks), (6, 6, 3))

    def test_one_seed_gives_one_interval(self):
        sets = [[1.0, 2.0, 4.0, 8.0, 16.0], [3.0, 5.0]]
        first, second, other = (paired.estimate(sets, seed) for seed in (7, 7, 8))
        self.assertEqual(first, second)
        self.assertNotEqual(first.draws, other.draws)

    def test_sets_that_differ_widen_the_interval(self):
        alike = paired.estimate([[0.0, 1.0] * 50, [0.0, 1.0] * 50], 1).interval()
        apart = paired.estimate([[0.0, 1.0] * 50, [20.0, 21.0] * 50], 1).interval()
        self.assertLess(alike[1] - alike[0], 0.5)
        self.assertLess(apart[0], 1)
        self.assertGreater(apart[1], 20)

    def test_intervals_hold_the_truth_as_often_as_they_say(self):
        chance = random.Random(3)
        for turns in (6, 30):
            held = 0
            for trial in range(200):
                sets = [[chance.gauss(40, 100) for _ in range(turns)]]
                low, high = paired.estimate(sets, trial).interval()
                held += low <= 40 <= high
            self.assertTrue(183 <= held <= 198, (turns, held))

    def test_quantiles_of_student_are_those_of_the_tables(self):
        for freedom, quantile in ((4, 2.776), (10, 2.228), (60, 2.000)):
            self.assertAlmostEqual(paired.student(0.975, freedom), quantile, delta=0.01 * quantile)

    def test_sums_keep_the_width_of_their_parts(self):
        left, right = (paired.estimate(paired.column(noisy({"x": middle}, spread), "x"), spread)
                       for middle, spread in ((30, 3), (40, 4)))
        total = left + right
        self.assertAlmostEqual(total.value, left.value + right.value)
        parts = statistics.variance(left.draws) + statistics.variance(right.draws)
        self.assertAlmostEqual(statistics.variance(total.draws) / parts, 1, delta=0.1)
        self.assertAlmostEqual((left - right).value, left.value - right.value)


class NoResult(unittest.TestCase):
    """A row beside a control that leaves its limit is no figure."""

    def control(self, shift, spread=10):
        sets = noisy({"a": 5000, "b": 5000 + shift}, spread)
        return paired.Control({"untouched": paired.estimate(paired.paired(sets, "b", "a"), 1)},
                              15, "ns")

    def row(self, control, own=((100, 102, 98, 101, 99),), **more):
        return paired.settled("x", paired.estimate(own, 1), control, 150,
                              paired.estimate([[300, 310, 290, 305, 295]], 1), **more)

    def test_a_quiet_control_gives_figures_with_intervals(self):
        entry = self.row(self.control(0))
        self.assertEqual((entry["value"], entry["peer"], rows.verdict(entry)),
                         (100, 300, "reached"))
        self.assertNotIn("no_result", entry)
        self.assertTrue(entry["spread"][0] < 100 < entry["spread"][1])
        self.assertTrue(max(map(abs, entry["control"])) <= 15 == entry["control_limit"])

    def test_a_control_that_is_apart_or_wide_leaves_no_figure(self):
        for control in (self.control(30), self.control(-30), self.control(0, spread=300)):
            entry = self.row(control)
            self.assertEqual((entry["value"], entry["peer"], entry["spread"]), (None, None, None))
            self.assertGreater(max(map(abs, entry["control"])), 15)
            self.assertRegex(entry["no_result"], r"A/A \[.*\] ns exceeds ±15 ns")
            self.assertEqual(rows.verdict(entry), "no result")

    def test_a_control_just_beyond_the_limit_is_beyond_it(self):
        for end, is_result in ((15.0, True), (15.01, False)):
            draws = tuple([-1.0] * 500 + [end] * 500)
            control = paired.Control({"default": paired.Estimate(7, draws, 99, 99)}, 15, "ns")
            self.assertEqual("no_result" not in self.row(control), is_result)

    def test_the_noisier_of_two_controls_decides(self):
        quiet, apart = self.control(0), self.control(40)
        both = paired.Control({"untouched": quiet.estimates["untouched"],
                               "default": apart.estimates["untouched"]}, 15, "ns")
        self.assertIn("no_result", self.row(both))

    def test_too_few_turns_are_no_result(self):
        self.assertEqual(self.row(self.control(0), own=((1, 2), (3, 4)))["no_result"],
                         "4 blocks of turns, 5 are the least")
        self.assertEqual(self.row(self.control(0), own=())["no_result"],
                         "0 blocks of turns, 5 are the least")
        few = paired.Control({"default": paired.estimate([[0, 0]], 1)}, 15, "ns")
        self.assertEqual(self.row(few)["no_result"], "2 blocks of turns, 5 are the least")

    def test_a_recording_that_is_not_whole_is_no_result(self):
        entry = self.row(self.control(0), fault="default: kymo lost 7 records")
        self.assertEqual((entry["value"], entry["no_result"]),
                         (None, "default: kymo lost 7 records"))

    def test_table_and_json_say_no_result(self):
        entry = self.row(self.control(30))
        line = rows.table([entry])[2]
        self.assertRegex(line, r"^x +no result +ns +- +- +- +A/A \[.*exceeds")
        with tempfile.TemporaryDirectory() as folder:
            path = pathlib.Path(folder) / "x.json"
            rows.write_json(path, {}, {}, [entry])
            read = json.loads(path.read_text())["benchmarks"][0]
        self.assertEqual((read["value"], read["verdict"]), (None, "no result"))
        self.assertIn("exceeds", read["no_result"])


class Cost(unittest.TestCase):
    """Rows of the area from made-up turns."""

    SERVER = {"untouched": 5000, "untouched again": 5000, "shut": 5029, "events": 5067,
              "places": 5107, "offcpu": 5156, "samples": 5170, "default": 5183,
              "default again": 5183, "flight": 5085, "preset profile": 5150, "dial9": 5249,
              "dial9+gzip": 5255}
    RECORDER = {"events": 120, "default": 150, "default again": 150, "flight": 20,
                "preset profile": 90, "dial9": 115, "dial9+gzip": 300}
    IDLE_NS = {"default": 1_000_000, "default again": 1_000_000, "events": 500_000}  # a second

    def bench(self, spread=5, **changed):
        idle = [[{name: (0, self.IDLE_NS.get(name, 0)) for name in self.SERVER}] * 10] * 2
        # Two seconds a load of 100,000 requests, with what the recorder takes by itself in them.
        long = [[{name: (100_000 * value + 2 * self.IDLE_NS.get(name, 0), 100_000, 2)
                  for name, value in turn.items()} for turn in turns]
                for turns in noisy(self.RECORDER, 0.1, turns=5, shared=0)]
        whole = [[{name: (300_000 * (value + self.RECORDER.get(name, 0)) +
                          4 * self.IDLE_NS.get(name, 0), 4)
                   for name, value in turn.items()} for turn in turns]
                 for turns in noisy(self.SERVER, spread, sets=1, turns=12)]
        found = {"short": noisy(self.SERVER, spread), "parks": noisy(self.SERVER, spread),
                 "long": long, "idle": idle, "whole": whole, "faults": {},
                 "cold": {}, "whole_faults": {},
                 "empty": noisy({name: value / 1000 for name, value in self.SERVER.items()}, 0.01),
                 "wakes": [dict.fromkeys(self.SERVER, 8), dict.fromkeys(self.SERVER, 9)],
                 "context": unittest.mock.Mock(seed=1)}
        return unittest.mock.Mock(**{**found, **changed})

    def rows(self, bench):
        return {entry["name"]: entry for entry in cost_rows.rows_of(bench)}

    def assert_near(self, entry, value, peer, delta=3):
        self.assertAlmostEqual(entry["value"], value, delta=delta)
        self.assertAlmostEqual(entry["peer"], peer, delta=delta)

    def test_rows_are_what_was_added_beside_dial9(self):
        found = self.rows(self.bench())
        self.assert_near(found["a request, server: default (+ switches)"], 183, 249)
        self.assert_near(found["a request, recorder: default"], 150, 115)
        self.assert_near(found["a request, all: default"], 333, 364)
        self.assert_near(found["a request, all: flight mode, default"], 105, 364)
        self.assert_near(found["a park and a request, server: events alone"], 67, 249)
        self.assert_near(found["start and end, all: default"], 0.183, 0.249, 0.01)
        self.assert_near(found["a whole run of 300,000 requests, all, a request: default"],
                         333, 364)
        self.assert_near(found["idle, all: default"], 0.1, 0, 0.001)
        self.assertEqual(found["idle, wake-ups of all threads: default"]["value"], 8.5)
        self.assertAlmostEqual(found["a request, all: dial9 with gzip"]["value"], 555, delta=3)
        self.assertAlmostEqual(found["A/A control, a request, server: default twice"]["value"], 0,
                               delta=3)
        self.assertFalse([name for name, entry in found.items() if entry["value"] is None])

    def test_a_noisy_machine_spoils_its_family_alone(self):
        found = self.rows(self.bench(short=noisy(self.SERVER, 300)))
        lost = {name for name, entry in found.items() if entry["value"] is None}
        self.assertTrue(lost)
        self.assertTrue(all(name.startswith(("a request, server", "a request, all"))
                            for name in lost), lost)
        self.assertIn("a request, server: untouched", set(found) - lost)

    def test_a_faulty_recording_spoils_rows_of_its_variant_alone(self):
        found = self.rows(self.bench(faults={"flight": "kymo lost 7 records"}))
        self.assertEqual(found["a request, all: flight mode, default"]["no_result"],
                         "flight: kymo lost 7 records")
        self.assertIsNotNone(found["a request, all: default"]["value"])
        self.assertIsNotNone(found["start and end, all: flight mode, default"]["value"])

    def test_a_cold_ring_spoils_rows_of_the_server_alone(self):
        found = self.rows(self.bench(cold={"default": "7 of 9 requests to warm up"}))
        self.assertEqual(found["a request, all: default"]["no_result"],
                         "default: 7 of 9 requests to warm up")
        for name in ("a request, recorder: default", "idle, all: default",
                     "start and end, all: default"):
            self.assertIsNotNone(found[name]["value"], name)

    def test_whole_runs_that_were_left_out_are_no_result(self):
        found = self.rows(self.bench(whole=[[]]))
        entry = found["a whole run of 300,000 requests, all, a request: default"]
        self.assertEqual((entry["value"], entry["no_result"]),
                         (None, "0 blocks of turns, 5 are the least"))

    def test_another_build_is_paired_with_this_one(self):
        middle = {**self.SERVER, "default before": 5200}
        found = self.rows(self.bench(short=noisy(middle, 5)))
        entry = found["a request, server: default, this build less the other"]
        self.assertAlmostEqual(entry["value"], -17, delta=3)

    def test_orders_are_random_and_follow_the_seed(self):
        def orders(seed):
            bench = object.__new__(cost.Bench)
            bench.chance = random.Random(seed)
            return [bench.order("abcdef") for _ in range(3)]

        self.assertEqual(orders(1), orders(1))
        self.assertNotEqual(orders(1), orders(2))
        self.assertEqual({tuple(sorted(order)) for order in orders(1)}, {tuple("abcdef")})

    def test_turns_end_with_their_time_and_are_one_at_least(self):
        self.assertEqual(list(cost.turns(3, float("inf"))), [0, 1, 2])
        self.assertEqual(list(cost.turns(3, float("-inf"))), [0])


class Shapes(unittest.TestCase):
    def figures(self):
        def result(cpu_ns, **more):
            return {"cpu_ns": cpu_ns, "first_ns": cpu_ns + 1, "rate": 1e9 / cpu_ns,
                    "p99_ns": cpu_ns, **more}

        return {"plain": [result(1000), result(1100), result(1050)],
                "kymo": [result(1100, bytes=5, bytes_per_event=1.5) for _ in range(3)],
                end_to_end.EVENTS_ALONE: [result(1090) for _ in range(3)],
                "dial9": [result(2000, bytes=33) for _ in range(3)],
                "dial9+gzip": [result(3000, bytes=13) for _ in range(3)],
                end_to_end.PRESET: [result(1080, bytes=1) for _ in range(3)],
                "counter": [10, 10, 10]}

    def test_end_to_end_rows_pair_by_round(self):
        found = {entry["name"]: entry for entry in
                 end_to_end.yield_rows(self.figures()) + end_to_end.echo_rows(self.figures())}
        self.assertEqual(found["yield loop: kymo run adds per poll"]["value"], 50)
        self.assertEqual(found["yield loop: kymo run adds per poll"]["peer"], 950)
        self.assertEqual(found["yield loop: the same beside the counter"]["value"], 5)
        self.assertEqual(found["yield loop: events alone beside the counter"]["value"], 4)
        self.assertEqual(found["echo: zstd bytes on disk per request (dial9: gzip)"]["peer"], 13)
        title = "echo: kymo run --profile profile, zstd bytes on disk per request"
        self.assertEqual(found[title]["value"], 1)

    def test_share_of_a_peer_that_costs_nothing_is_no_result(self):
        with self.assertRaisesRegex(programs.Broken, "too noisy"):
            end_to_end.share_row("share", [5], [-1], 0.25)

    def test_every_variant_goes_first_in_turn(self):
        variants = end_to_end.ECHO_VARIANTS
        first = {end_to_end.rotated(variants, index)[0] for index in range(len(variants))}
        self.assertEqual(first, set(variants))

    def test_emit_names_what_it_counts(self):
        self.assertEqual(emit.TITLES.keys(), emit.TIMES_COUNTER_MAX.keys())
        self.assertEqual(emit.TITLES.keys(), emit.INSTRUCTIONS_MAX.keys())

    def test_drain_names_are_those_the_program_prints(self):
        source = (HERE / "drain" / "bench_drain.c").read_text()
        for name in (*drain.LOADS, *drain.NAMES.values(), *drain.RETAINED_NAMES):
            self.assertIn(f'{name}"', source)

    def test_cut_names_are_those_the_program_prints(self):
        source = (HERE / "cut" / "bench_cut.c").read_text()
        for name, _, _, _ in drain.CUT_ROWS:
            self.assertIn(f'"{name}"', source)

    def test_cut_that_lost_something_misses_its_target(self):
        found = {name: {"value": 1, "target": 0} for name, _, _, _ in drain.CUT_ROWS}
        verdicts = {entry["name"]: rows.verdict(entry) for entry in drain.cut_rows(found)}
        self.assertEqual(verdicts["held at the start, not in the dump"], "MISSED")
        with self.assertRaisesRegex(programs.Broken, "printed no"):
            drain.cut_rows({})

    def test_drain_rows_add_what_the_host_pays(self):
        found = {name: {"value": 10, "spread": 1} for name in drain.RETAINED_NAMES}
        found.update({prefix + name: {"value": 10, "spread": 1} for prefix in drain.LOADS
                      for name in drain.NAMES.values()})
        first = drain.rows_of(found, (12, 11, 14), 60)[0]
        self.assertEqual((first["value"], first["spread"], first["target"], first["peer"]),
                         (22, [20, 25], 30, 60))
        found.popitem()
        with self.assertRaisesRegex(programs.Broken, "printed no drain bytes zstd 1"):
            drain.rows_of(found, None, None)


class Kernel(unittest.TestCase):
    """What perf_event costs: samples and switches."""

    def test_a_park_costs_what_it_takes_more_than_the_step_before(self):
        found = [{"alone_ns": 2800 + drift, "sampled_ns": 4100 + drift, "shut_ns": 4200 + drift,
                  "open_ns": 4700 + drift, "read_ns": 30} for drift in (0, 700, 200)]
        values = {entry["name"]: entry["value"] for entry in off_cpu.switch_rows(found)}
        self.assertEqual(values, {
            "a park: sampled at 99 Hz, more": 1300,
            "a park: between windows of switches, more": 100,
            "a park: in a window, more": 500,
            "a switch record: read": 30,
            "20,000 parks a second: the kernel's part of sampling": 2.6,
            "20,000 parks a second: its part of switches, between windows": 0.2,
        })

    def test_a_sample_has_a_row_for_each_of_its_sides(self):
        found = [{"host_ns": 22000, "bare_host_ns": 18000, "reader_ns": 1700}] * 3
        self.assertEqual([entry["value"] for entry in sampler.perf_rows(found)],
                         [22000, 18000, 1700])

    def test_what_a_machine_refuses_has_no_rows(self):
        context = unittest.mock.Mock(rounds=2)
        with tempfile.TemporaryDirectory() as folder:
            program = pathlib.Path(folder) / "refused"
            program.write_text("#!/bin/sh\nexit 77\n")
            program.chmod(0o755)
            context.program.return_value = str(program)
            self.assertEqual(off_cpu.measure_switches(context), [])
            self.assertEqual(sampler.measure_perf(context), [])
            program.write_text("#!/bin/sh\necho why >&2\nexit 1\n")
            with self.assertRaisesRegex(programs.Broken, "refused: why"):
                sampler.measure_perf(context)


class PictureTest(unittest.TestCase):
    def rows(self, peer):
        return [{"area": "instructions", "name": f"a request, host: {name}", "value": value,
                 "peer": peer} for name, value in
                (("untouched", 4000.0), ("events alone", 1200.0), ("default", 2800.0),
                 ("default, this build less the other", -40.0))]

    def test_it_has_a_bar_a_row_and_one_of_the_peer(self):
        drawn = picture.bars(self.rows(4400.0))
        self.assertEqual([value for _, value, _ in drawn], [1200.0, 2800.0, 4400.0])
        self.assertEqual([is_peer for _, _, is_peer in drawn], [False, False, True])
        self.assertEqual(picture.svg(drawn, "a < b").count("<rect x="), 3)
        self.assertIn("a &lt; b", picture.svg(drawn, "a < b"))

    def test_without_a_peer_there_is_none(self):
        self.assertEqual(picture.bars(self.rows(None)), [])
        self.assertEqual(picture.bars([]), [])


if __name__ == "__main__":
    unittest_tap.main()
