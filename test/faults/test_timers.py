# SPDX-License-Identifier: Apache-2.0 OR MIT
"""How late timers fired before their task was woken, beside what the task measured."""
import json
import unittest

from faults import Faults, program

MS = 1_000_000


class Timers(Faults):
    def rows(self, one, what):
        rows = json.loads(one.kymo("query", "--json", what, one.trace))["rows"]
        return [tuple(row.values()) for row in rows]

    def check(self, path):
        one = self.record(path)
        measured = one.statement["late"]
        task, = self.rows(one, "SELECT task FROM tasks WHERE site LIKE '%timers::late%'")[0]
        polls = dict(self.rows(one, "SELECT start_ns, duration_ns FROM polls "
                                    f"WHERE task = {task}"))
        found = json.loads(one.kymo("why", "--json", "--over", "0", "--worst", 1000, "--task", task,
                                    one.trace))["worst"]
        found.sort(key=lambda one: one["ready_ns"])
        self.assertEqual(len(found), len(measured))
        known, tight = 0, 0
        for delay, late_ns in zip(found, measured):
            most_ns = delay["timer_late_max_ns"]
            if most_ns is None:
                continue
            known += 1
            polled_ns = delay["ready_ns"] + delay["delay_ns"]
            # Time-outs and Tokio's timers are in whole ms, rounded up. Where the wheel of timers
            # comes to its next 64 ms first, the park is only until then.
            tight += late_ns >= most_ns + delay["delay_ns"] - MS
            self.assertLessEqual(late_ns,
                                 most_ns + delay["delay_ns"] + polls[polled_ns] + MS)
        print(f"# of {len(measured)} timers {known} have how late they were, {tight} to the ms: to "
              f"{max(measured) // MS} ms")
        self.assertGreater(tight, 0)
        dues = self.rows(one, "SELECT count(*), count(late_ns) FROM parks WHERE due_ns > start_ns "
                              "AND waits_in = 'driver'")
        self.assertGreater(dues[0][0], 0)
        self.assertIn("its timer was due at most",
                      one.kymo("why", "--over", "0", "--worst", 1000, "--task", task, one.trace))

    def test_timer__is_late_by_what_the_task_measures(self):
        self.check("timers")

    def test_timer__is_late_on_the_oldest_tokio(self):
        self.check(program("timers", tokio="v1_38"))

    def test_timer__without_io_waits_on_the_condition_variable(self):
        one = self.record(program("timed"))
        rows = self.rows(one, "SELECT waits_in, due_ns - start_ns FROM parks WHERE due_ns "
                              "IS NOT NULL AND is_open = 0")
        self.assertGreater(len(rows), 0)
        for waits_in, length_ns in rows:
            self.assertEqual(waits_in, "condvar")
            self.assertLessEqual(length_ns, (one.statement["sleep_ms"] + 1) * MS)
        self.assertGreater(max(rows)[1], 0)


if __name__ == "__main__":
    unittest.main()
