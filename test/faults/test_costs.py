# SPDX-License-Identifier: Apache-2.0 OR MIT
"""What long polls cost: on CPU, waiting for a CPU, blocked, and what was counted in them."""
import os
import unittest.mock

from faults import Faults

MS = 1_000_000


KINDS = ("spin", "sleep", "touch")


def near(one, other):
    """Within 2 % or 200 us: a poll's end is stamped before its costs are read."""
    return abs(one - other) <= max(other * 0.02, 0.2 * MS)


class Costs(Faults):
    def setUp(self):
        super().setUp()
        self.run_ = self.record("costs", "--seconds", 3)
        self.costs = [fields for _, _, fields in self.run_.events("PollCostEvent")]
        self.durations, began = {}, {}
        for at, name, fields in self.run_.events("PollStartEvent", "PollEndEvent"):
            if name == "PollStartEvent":
                began[fields["worker_id"]] = at
            else:
                start = began.pop(fields["worker_id"])
                self.durations[fields["worker_id"], start] = at - start

    def of(self, kind):
        """[(cost, least, most, rest)] of the polls of this kind: the poll's CPU time is what its
        work took at least, and at most what its thread used from the work before to the work
        after. Between them is what Tokio and the recorder did, in this poll and outside. rest:
        how much longer than its work the poll was."""
        said = self.run_.statement
        rows = {one: list(zip(*(said[f"{one}_{what}"] for what in (
            "tid", "cpu_from_ns", "cpu_to_ns", "at_ns", "wall_ns")))) for one in KINDS}
        turns = sorted(row for one in KINDS for row in rows[one])
        pairs = []
        for row in rows[kind]:
            tid, cpu_from, cpu_to, at, wall = row
            # Another worker may have had a long poll then, too: that one began earlier.
            found = [cost for cost in self.costs if cost["start_ns"] <= at]
            self.assertTrue(found, f"{kind} at {at}")
            place = turns.index(row)
            before, after = turns[place - 1:place] or [(0,)], turns[place + 1:place + 2] or [(0,)]
            if before[0][0] == tid == after[0][0]:
                cost = max(found, key=lambda cost: cost["start_ns"])
                pairs.append((cost, cpu_to - cpu_from, after[0][1] - before[0][2],
                              self.duration(cost) - wall))
        self.assertGreater(len(pairs), len(rows[kind]) / 4)
        return pairs

    def duration(self, cost):
        return self.durations[cost["worker_id"], cost["start_ns"]]

    def check_cpu(self, kind):
        """Each is right where it says that it is: the truth lies within the gap it states."""
        pairs = self.of(kind)
        for cost, least, most, _ in pairs:
            said = cost["cpu_time_ns"]
            self.assertTrue(said - cost["gap_ns"] <= most or near(said - cost["gap_ns"], most),
                            (cost, least, most))
            self.assertTrue(said >= least or near(said, least), (cost, least, most))
        return pairs

    def test_parts_of_polls(self):
        spin = self.check_cpu("spin")
        for cost, *_ in spin:
            off = self.duration(cost) - cost["cpu_time_ns"]
            if cost["voluntary_context_switches"]:
                # It waited, in the poll or in the gap before: what is left is blocked time.
                self.assertLessEqual(cost["run_delay_ns"], off + cost["gap_ns"] + 0.2 * MS,
                                     (cost, off))
                continue
            away = max(abs(cost["run_delay_ns"] - off) - cost["gap_ns"], 0)
            self.assertTrue(near(off + away, off), (cost, off))
        self.assertTrue([cost for cost, *_ in spin if not cost["voluntary_context_switches"]])
        slept = max(self.run_.statement["slept_ns"])
        for cost, _, _, rest in self.check_cpu("sleep"):
            blocked = self.duration(cost) - cost["cpu_time_ns"] - cost["run_delay_ns"]
            self.assertFalse(cost["on_cpu"])
            self.assertGreaterEqual(cost["voluntary_context_switches"], 1)
            # CPU time and run delay of the gap are in the two that were taken away.
            away = min(max(20 * MS - blocked, 0), cost["gap_ns"])
            self.assertTrue(blocked + away >= 20 * MS or near(blocked + away, 20 * MS),
                            (cost, blocked))
            # Late to wake, and what it may have waited for beside its work.
            self.assertTrue(blocked <= slept + rest or near(blocked, slept + rest),
                            (cost, blocked, slept, rest))
        for cost, *_ in self.check_cpu("touch"):
            self.assertGreaterEqual(cost["minor_faults"], self.run_.statement["pages"])
            self.assertLess(cost["minor_faults"], self.run_.statement["pages"] + 300)
        self.check_report()
        self.check_threads()

    def check_threads(self):
        """The threads that took the CPUs have a name. They end before the last reading, so what
        they used since the one before it is missing."""
        hogs = [one for one in self.run_.report()["threads"] if one["name"] == "pool-hog"]
        self.assertEqual(len(hogs), 2)
        said = sum(self.run_.statement["hog_cpu_ns"])
        self.assertLess(sum(one["cpu_ns"] for one in hogs), said * 1.02)
        self.assertGreater(sum(one["cpu_ns"] for one in hogs), said * 0.4)
        self.assertIn("pool-hog", self.run_.report_text())

    def check_report(self):
        """The parts add up, in JSON and in the columns of the text."""
        worst = self.run_.report()["worst_polls"]
        for poll in worst:
            cost = poll["cost"]
            self.assertEqual(cost["cpu_ns"] + cost["run_delay_ns"] + cost["blocked_ns"],
                             poll["duration_ns"])
        self.assertIn("Waited for CPU", self.run_.report_text())


class WithoutRseq(Costs):
    """No area of the C library's: each cost is a difference of two readings, with its gap."""
    environment = {"GLIBC_TUNABLES": "glibc.pthread.rseq=0"}

    def setUp(self):
        with unittest.mock.patch.dict(os.environ, self.environment):
            super().setUp()
        self.assertTrue(self.costs)
        self.assertFalse(any(cost["on_cpu"] for cost in self.costs))
        self.assertEqual(self.run_.info()["metadata"]["poll_cost.mark"],
                         "the C library has registered no rseq area")


class OwnRseq(WithoutRseq):
    """Nor is an area that the program registers itself touched."""
    environment = dict(WithoutRseq.environment, OWN_RSEQ="1")

    def setUp(self):
        super().setUp()
        self.assertEqual(self.run_.statement["own_rseq"], [1, 1])
