# SPDX-License-Identifier: Apache-2.0 OR MIT
"""`kymo diff`: groups of made runs; test/unit/analyze has the statistics."""
import json
import math
import random
import sys

from cli_case import Cli, main
from trace_maker import Trace

START_NS = 1_000_000_000
WALL_NS = 1_700_000_000_000_000_000
S = 1_000_000_000
WORKER = ("worker_id", "VARINT")
PLACES = ["svc::%s" % name for name in ("login", "search", "basket", "order", "mail", "tick")]


class Diff(Cli):
    def run_of(self, path, number, at_s, slow=1.0, polls=600, places=PLACES, has_wall=True,
               speed=1.0):
        """A run that began at_s seconds after the first one; its first place is slower."""
        draw = random.Random(number)
        trace = Trace()
        now = START_NS + at_s * S
        if has_wall:  # before the name of the process, as kymo writes it
            trace.event("ClockSyncEvent", now, ("realtime_ns", "VARINT", WALL_NS + at_s * S))
        trace.metadata(pid=number)
        for i in range(polls):
            for task, place in enumerate(places):
                length = math.exp(draw.gauss(math.log(20e3), 0.1)) * speed
                length = int(length * (slow if task == 0 else 1))
                trace.event("PollStartEvent", now, (*WORKER, 0), ("task_id", "VARINT", task + 1),
                            ("spawn_loc", "STRING", place.encode()))
                trace.event("PollEndEvent", now + length, (*WORKER, 0))
                now += length + 1000
        trace.save(path)

    def groups(self, runs=8, slow=1.0, in_turns=True, **more):
        for index, name in enumerate("ab"):
            (self.dir / name).mkdir()
            for i in range(runs):
                at = 2 * i + index if in_turns else i + index * runs
                self.run_of(self.dir / name / f"{i}.trc", 1 + i + 100 * index, 60 * at,
                            slow if index else 1.0, **more)
        return self.dir / "a", self.dir / "b"

    def diff(self, *groups, code=0):
        return json.loads(self.run_kymo("diff", "--json", *groups, code=code).out)

    def test_a_place_that_became_slower_is_found(self):
        groups = self.groups(slow=1.1, speed=1.0)
        found = self.diff(*groups, code=1)
        self.assertEqual((found["verdict"], found["a_runs"], found["b_runs"], found["deals"]),
                         ("slower", 8, 8, 12870))
        for place in found["places"]:
            is_slow = place["site"] == "svc::login"
            self.assertEqual(place["p50"]["is_significant"], is_slow, place)
            self.assertEqual((place["a_polls"], place["b_polls"]), (4800, 4800))
            self.assertNotIn("p99", place)
        text = self.run_kymo("diff", *groups, code=1).out
        self.assertIn("8 runs of A and 8 of B, interleaved; 6 places", text)
        self.assertRegex(text, r"\nSlower\n {2}\+(9|10|11)\.\d % p50 of svc::login \(p = 0\.000")
        self.assertRegex(text, r"less than \d+\.\d % would not have been seen")
        # The other way round it is faster, which is no reason to fail.
        self.assertEqual(self.diff(*groups[::-1])["verdict"], "faster")

    def test_runs_of_the_same_program_do_not_differ(self):
        groups = self.groups(polls=150)
        found = self.diff(*groups)
        self.assertEqual(found["verdict"], "no change")
        self.assertTrue(all(place["p50"]["smallest_ppm"] > 0 for place in found["places"]))
        self.assertIn("No change was found", self.run_kymo("diff", *groups).out)

    def test_few_runs_or_runs_not_in_turns_are_indicative(self):
        groups = self.groups(runs=3, slow=2.0, polls=120)
        found = self.diff(*groups)
        self.assertEqual((found["verdict"], found["is_interleaved"]), ("indicative", True))
        self.assertIn("A verdict needs 8 runs of each", self.run_kymo("diff", *groups).out)

    def test_one_group_after_the_other_is_indicative(self):
        groups = self.groups(slow=2.0, polls=120, in_turns=False)
        self.assertEqual(self.diff(*groups)["verdict"], "indicative")
        self.assertIn("not interleaved", self.run_kymo("diff", *groups).out)

    def test_begins_that_are_not_known_are_not_interleaved(self):
        groups = self.groups(polls=120, has_wall=False)
        self.assertFalse(self.diff(*groups)["is_interleaved"])

    def test_two_files_have_figures_and_no_verdict(self):
        self.run_of(self.dir / "one", 1, 0, polls=120)
        self.run_of(self.dir / "other", 2, 60, polls=120, slow=2.0)
        found = self.diff(self.dir / "one", self.dir / "other")
        self.assertEqual((found["verdict"], found["deals"]), ("indicative", 0))
        login = next(place for place in found["places"] if place["site"] == "svc::login")
        self.assertTrue(700_000 < login["p50"]["change_ppm"] < 1_300_000, login)
        self.assertIsNone(login["p50"]["p_ppm"])

    def test_nothing_in_common_is_said(self):
        self.run_of(self.dir / "one", 1, 0, polls=120)
        self.run_of(self.dir / "other", 2, 60, polls=120, places=["svc::new"])
        self.assertIn("Nothing to compare",
                      self.run_kymo("diff", self.dir / "one", self.dir / "other").out)

    def test_wrong_words(self):
        self.run_of(self.dir / "one", 1, 0, polls=1)
        for words in ((), (self.dir / "one",), ("a", "b", "c")):
            self.fails("diff", *words, code=2, says=["two groups, A and B"])
        self.fails("diff", self.dir / "one", self.dir / "none", says=["none"])


if __name__ == "__main__":
    sys.exit(main())
