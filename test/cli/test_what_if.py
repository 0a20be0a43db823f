# SPDX-License-Identifier: Apache-2.0 OR MIT
"""`kymo why --what-if`: against a model that runs the same program again with shorter polls."""
import collections
import json
import sys

from cli_case import Cli, main
from made_trace import START_NS, WORKER, MadeTrace
from test_why import write
from tokio_queues import Model, Repeated
from trace_maker import Trace

CAP_NS = 100_000


def place(task):
    return "svc::hog" if Repeated.is_capped(task) else "svc::task"


def delays(model):
    """{(task, number of its poll): ns from wake to poll}"""
    counts, found = collections.Counter(), {}
    for one in model.delays:
        found[one["task"], counts[one["task"]]] = one["start_ns"] - one["ready_ns"]
        counts[one["task"]] += 1
    return found


def quantile(values, share):
    """As histogram.h says: the least that so many are not above."""
    return sorted(values)[max(0, -int(-len(values) * share // 1) - 1)]


def single_queue(model, workers):
    """Waiting times if one queue fed all workers, and nothing but the polls took time."""
    free, waits = [0] * workers, []
    polls = sorted((one["ready_ns"], one["task"]) for one in model.delays)
    for ready, task in polls:
        model.polls = {}
        first = min(range(workers), key=free.__getitem__)
        start = max(ready, free[first])
        free[first] = start + model.length(model.tasks[task - 1])
        waits.append(start - ready)
    return waits


class WhatIf(Cli):
    def what_if(self, path, *options):
        return json.loads(self.run_kymo("why", "--json", *options, path).out)["what_if"]

    def runs(self, seed, workers, kind, **how):
        """(what kymo says, delays of the recorded run, of the same polls in the shorter one,
        that run)"""
        path = write(Repeated(seed, workers, kind, **how), place).save(self.dir / "trace")
        said = self.what_if(path, "--over", "100us", "--what-if", f"svc::hog={CAP_NS}ns")
        before = delays(Repeated(seed, workers, kind, **how))
        shorter = Repeated(seed, workers, kind, CAP_NS, **how)
        after = delays(shorter)
        # the shorter run is ahead: it has what was recorded, and more
        self.assertLessEqual(len(before.keys() - after.keys()), len(before) // 100)
        return said, before, {key: after[key] for key in before if key in after}, shorter

    def same(self, said, values):
        values = list(values)
        self.assertEqual((said["delays"], said["sum_ns"], said["max_ns"], said["over"]),
                         (len(values), sum(values), max(values),
                          sum(ns > 100_000 for ns in values)))
        for key, share in (("p50_ns", .5), ("p90_ns", .9), ("p99_ns", .99)):
            exact = quantile(values, share)  # a bucket of the histogram is 1/128 wide
            self.assertLessEqual(exact, said[key])
            self.assertLessEqual(said[key], exact * 129 // 128)

    def test_one_worker_is_played_to_the_nanosecond(self):
        for kind in ("outside", "inside"):
            for seed in range(6):
                said, before, after, _ = self.runs(seed, 1, kind)
                self.same(said["before"], before.values())
                self.same(said["after"], after.values())
                self.assertGreater(said["before"]["p99_ns"], 2 * said["after"]["p99_ns"])
                self.assertEqual((said["no_wake"], said["not_stolen"]), (0, 0))

    def test_the_place_itself_has_its_own_delays(self):
        said, before, after, _ = self.runs(1, 1, "inside")
        (hog,) = said["places"]
        self.assertEqual(hog["name"], "svc::hog")
        for key, values in (("before", before), ("after", after)):
            self.same(hog[key], [ns for (task, _), ns in values.items()
                                 if Repeated.is_capped(task)])

    def test_one_worker_whose_order_of_polls_changes_is_played_nearly(self):
        # A task woken by another thread stands apart, and is taken when the worker's own queue is
        # empty: the replay leaves the two in the order of the trace.
        for seed in range(6):
            said, before, after, _ = self.runs(seed, 1, "mixed", until_ns=400_000_000)
            self.same(said["before"], before.values())
            less = sum(before.values()) - sum(after.values())
            self.assertLessEqual(abs(said["after"]["sum_ns"] - sum(after.values())), less // 100)

    def test_several_workers_are_not_said_to_be_faster_than_they_become(self):
        # They steal otherwise in the shorter run, mostly more; the replay does not.
        for workers in (2, 4, 8):
            for seed in range(4):
                said, before, after, _ = self.runs(seed, workers, "mixed",
                                                   until_ns=400_000_000 // workers)
                self.same(said["before"], before.values())
                now, then = said["after"], list(after.values())
                self.assertLess(now["p99_ns"], said["before"]["p99_ns"])
                self.assertGreaterEqual(now["p99_ns"], quantile(then, .99))
                self.assertGreaterEqual(now["sum_ns"], sum(then))
                less = said["before"]["sum_ns"] - sum(then)
                self.assertGreaterEqual(said["before"]["sum_ns"] - now["sum_ns"], 0.8 * less)

    def test_no_answer_is_below_what_one_queue_for_all_would_give(self):
        for workers in (2, 4, 8):
            for seed in range(4):
                said, _, _, shorter = self.runs(seed, workers, "outside",
                                                until_ns=200_000_000 // workers)
                waits = single_queue(shorter, workers)
                for key, share in (("p90_ns", .9), ("p99_ns", .99)):
                    self.assertGreaterEqual(said["after"][key], quantile(waits, share))
                self.assertGreaterEqual(said["after"]["sum_ns"], sum(waits))

    def test_nothing_moves_where_nothing_is_shortened(self):
        # One ns of the longest poll alone: with steals, the driver, and wakes from outside.
        for seed in range(8):
            path = write(Model(seed), place).save(self.dir / "trace")
            (hog,) = self.what_if(path, "--what-if", "svc::hog=0")["places"]
            said = self.what_if(path, "--what-if", f"svc::hog={hog['longest_ns'] - 1}ns")
            self.assertEqual(said["places"][0]["shortened"], 1)
            self.assertEqual(said["places"][0]["shortened_ns"], 1)
            before, after = said["before"], said["after"]
            self.assertEqual(before["p99_ns"], after["p99_ns"])
            self.assertLessEqual(abs(before["sum_ns"] - after["sum_ns"]),
                                 before["sum_ns"] // 1000)


class Rules(MadeTrace):
    """Each rule of the replay alone, in a made trace."""
    MS = 1_000_000

    def park(self, at, until, worker=0):
        for name, time in (("WorkerParkEvent", at), ("WorkerUnparkEvent", until)):
            self.event(name, time, (*WORKER, worker), ("tid", "U32", 100 + worker))

    def said(self, *caps):
        self.path = self.trace.save(self.dir / "trace")
        options = [word for cap in caps or ("svc::hog=1ms",) for word in ("--what-if", cap)]
        return json.loads(self.run_kymo("why", "--json", *options, self.path).out)["what_if"]

    def hog(self, length=10, inside=lambda: None, task=1, name="svc::hog"):
        self.wake(1000, task, 255)
        self.poll(2000, length * self.MS, task, name)

    def test_a_wake_inside_the_poll_keeps_its_share_of_it(self):
        self.hog()
        self.wake(2000 + 4 * self.MS, 7, waker=1)
        self.poll(3000 + 10 * self.MS, 1000, 7)
        said = self.said()
        # ready at 0.4 ms of 1 ms, polled 1 us after the end
        self.assertEqual(said["before"]["max_ns"], 6 * self.MS + 1000)
        self.assertEqual(said["after"]["max_ns"], 600_000 + 1000)

    def test_a_wake_from_outside_comes_when_it_came(self):
        self.park(100, 900)
        self.hog()
        self.wake(2000 + 4 * self.MS, 7, 255)
        self.poll(3000 + 10 * self.MS, 1000, 7)
        said = self.said()
        # by then the worker is idle: it takes as long as it did after its park
        self.assertEqual(said["reaction_ns"], 1000)
        self.assertEqual(said["after"]["max_ns"], 1000)

    def test_a_task_is_not_polled_before_its_own_poll_ends(self):
        self.hog()
        self.wake(2000 + 9 * self.MS, 1, 255)
        self.poll(3000 + 10 * self.MS, 1000, 1, "svc::hog")
        said = self.said()
        self.assertEqual(said["before"]["max_ns"], 1000)
        # the wake is 8 ms after the end now
        self.assertLessEqual(said["after"]["max_ns"], 1000)

    def test_a_park_takes_up_what_was_won(self):
        self.hog()
        self.park(2500 + 10 * self.MS, 20 * self.MS)
        self.wake(20 * self.MS + 100, 7)
        self.poll(20 * self.MS + 600, 1000, 7)
        self.wake(21 * self.MS, 8, 255)
        self.poll(21 * self.MS + 500, 1000, 8)
        said = self.said()
        self.assertEqual(said["before"], said["after"])
        self.assertEqual(said["places"][0]["shortened_ns"], 9 * self.MS)

    def test_a_stolen_task_stays_where_its_worker_is_free_first(self):
        self.hog()
        self.wake(2000 + 5 * self.MS, 7, waker=1)
        self.park(1000, 2000 + 8 * self.MS, worker=1)
        self.poll(3000 + 8 * self.MS, 1000, 7, worker=1)
        self.poll(3000 + 10 * self.MS, 1000, 9)  # what its own worker does after the hog
        said = self.said()
        self.assertEqual(said["not_stolen"], 1)
        self.assertEqual(said["after"]["max_ns"], 500_000 + 1000)

    def test_a_poll_without_a_known_wake_begins_when_it_did(self):
        self.poll(0, 10 * self.MS, 1, "svc::hog")
        self.poll(11 * self.MS, 5 * self.MS, 2)
        self.wake(12 * self.MS, 7, 255)
        self.poll(17 * self.MS, 1000, 7)
        said = self.said()
        self.assertEqual(said["no_wake"], 2)
        self.assertEqual(said["before"], said["after"])

    def test_a_spawn_counts_as_a_wake_by_the_poll_that_spawns(self):
        self.wake(1000, 1, 255)
        self.event("PollStartEvent", 2000, (*WORKER, 0), ("task_id", "VARINT", 1),
                   ("spawn_loc", "STRING", b"svc::hog"))
        self.event("TaskSpawnEvent", 2000 + 5 * self.MS, ("task_id", "VARINT", 7),
                   ("spawn_loc", "STRING", b"svc::task"), ("instrumented", "BOOL", 1),
                   ("parent_task_id", "VARINT?", 1))
        self.event("PollEndEvent", 2000 + 10 * self.MS, (*WORKER, 0))
        self.poll(3000 + 10 * self.MS, 1000, 7)
        said = self.said()
        self.assertEqual(said["before"]["max_ns"], 5 * self.MS + 1000)
        self.assertEqual(said["after"]["max_ns"], 500_000 + 1000)

    def test_several_places_are_shortened_at_once(self):
        self.hog()
        self.wake(3000, 2, waker=1)
        self.poll(3000 + 10 * self.MS, 6 * self.MS, 2, "svc::other")
        self.wake(4000 + 10 * self.MS, 7, waker=2)
        self.poll(4000 + 16 * self.MS, 1000, 7)
        both = self.said("svc::hog=1ms", "svc::other=2ms")
        self.assertEqual([(one["name"], one["cap_ns"], one["polls"], one["shortened"],
                           one["shortened_ns"]) for one in both["places"]],
                         [("svc::hog", self.MS, 1, 1, 9 * self.MS),
                          ("svc::other", 2 * self.MS, 1, 1, 4 * self.MS)])
        self.assertLess(both["after"]["sum_ns"], self.said()["after"]["sum_ns"])

    def test_from_and_task_choose_the_delays_and_not_the_polls(self):
        self.hog()
        for task in (7, 8):
            self.wake(2000 + 5 * self.MS, task, waker=1)
        for number, task in enumerate((7, 8)):
            self.poll(3000 + 10 * self.MS + 2000 * number, 1000, task)
        self.said()
        for options in (("--task", 8), ("--from", "10.003s", "--from", "10004us")):
            found = json.loads(self.run_kymo("why", "--json", "--what-if", "svc::hog=1ms",
                                             *options, self.path).out)["what_if"]
            self.assertEqual((found["before"]["delays"], found["places"][0]["shortened"]), (1, 1))
            self.assertLess(found["after"]["max_ns"], self.MS)

    def test_text_says_the_new_p99_and_what_is_assumed(self):
        self.test_a_wake_from_outside_comes_when_it_came()
        text = self.run_kymo("why", "--what-if", "svc::hog=1ms", self.path).out
        self.assertIn("The p99 from wake to poll would be 1.00 us instead of 6.00 ms, if no poll "
                      "of svc::hog took more than 1.00 ms.\n"
                      "1 of 1 poll of svc::hog is longer (up to 10.0 ms): 9.00 ms less in all.",
                      text)
        self.assertIn("Assumed:", text)
        self.assertIn("come when they came", text)
        self.assertIn("begins 1.00 us after the wake", text)
        rows = [line.split() for line in text.split("Assumed")[0].splitlines()
                if " before " in line or " after " in line]
        self.assertEqual([row[-1] for row in rows], ["1", "0", "0", "0"], text)

    def test_a_place_without_a_longer_poll_is_said_to_change_nothing(self):
        self.hog()
        self.wake(2000 + 5 * self.MS, 7, waker=1)
        self.poll(3000 + 10 * self.MS, 1000, 7)
        said = self.said("svc::hog=10ms")
        self.assertEqual(said["before"], said["after"])
        text = self.run_kymo("why", "--what-if", "svc::hog=10ms", self.path).out
        self.assertIn("No poll of svc::hog that could be shortened is longer than 10.0 ms (the "
                      "longest took 10.0 ms): this changes nothing.", text)
        self.assertNotIn("Assumed", text)

    def test_a_poll_inside_another_one_is_not_shortened(self):
        self.hog(name="svc::outer")
        for name, at in (("NestedPollStartEvent", 3), ("NestedPollEndEvent", 6)):
            self.event(name, at * self.MS, (*WORKER, 0), ("tid", "U32", 5),
                       ("depth", "VARINT", 1), ("task_id", "VARINT", 20),
                       ("spawn_loc", "STRING", b"svc::hog"))
        said = self.said()
        self.assertEqual([(one["shortened"], one["kept"]) for one in said["places"]], [(0, 1)])
        text = self.run_kymo("why", "--what-if", "svc::hog=1ms", self.path).out
        self.assertIn("1 longer poll of it stays: inside another poll", text)

    def test_a_site_is_a_name_or_a_part_of_one_name_alone(self):
        self.hog()
        self.poll(11 * self.MS, 1000, 2, "src/a=b.rs:41")
        self.poll(12 * self.MS, 1000, 3, "src/a=b.rs:410")
        self.said()
        for site, name in (("hog", "svc::hog"), ("src/a=b.rs:41", "src/a=b.rs:41"),
                           ("rs:410", "src/a=b.rs:410")):
            self.assertEqual(self.said(f"{site}=1ms")["places"][0]["name"], name)
        self.fails("why", "--what-if", "a=b.rs=1ms", self.path, code=1,
                   says=["'a=b.rs'", "src/a=b.rs:41 and src/a=b.rs:410"])
        self.fails("why", "--what-if", "nothing=1ms", self.path, code=1,
                   says=["'nothing'", "svc::hog, src/a=b.rs:41 and src/a=b.rs:410"])
        self.fails("why", "--what-if", "hog=1ms", "--what-if", "svc::h=2ms", self.path, code=1,
                   says=["same place"])

    def test_wrong_words_have_one_sentence(self):
        self.hog()
        self.said()
        for words in ("svc::hog", "=1ms", "svc::hog=", "svc::hog=1", "svc::hog=soon"):
            self.fails("why", "--what-if", words, self.path, code=2,
                       says=["--what-if", "SITE=DURATION", f"'{words}'"])
        self.fails("why", *["--what-if", "svc::hog=1ms"] * 17, self.path, code=2,
                   says=["--what-if", "16 times"])
        empty = Trace().metadata(pid=1).save(self.dir / "empty")
        self.fails("why", "--what-if", "hog=1ms", empty, says=["no polls"])


class Recorded(Cli):
    def test_the_traces_of_dial9_are_played_as_they_were(self):
        for name, site in (("dial9-0.5.7-demo.bin.gz", "main.rs:418"),
                           ("dial9-2026-05-demo.bin.gz", "axum_traced")):
            def said(cap):
                return json.loads(self.run_kymo("why", "--json", "--what-if", f"{site}={cap}ns",
                                                name).out)["what_if"]
            longest = said(1 << 60)["places"][0]["longest_ns"]
            played = said(longest - 1)
            self.assertEqual(played["places"][0]["shortened"], 1)
            for key in ("p50_ns", "p90_ns", "p99_ns"):
                # some stamps of wakes are 0.5 us beside the delays that Tokio measured
                self.assertLessEqual(abs(played["before"][key] - played["after"][key]),
                                     played["before"][key] // 50)
            self.assertLessEqual(abs(played["before"]["sum_ns"] - played["after"]["sum_ns"]),
                                 played["before"]["sum_ns"] // 500)


if __name__ == "__main__":
    sys.exit(main())
