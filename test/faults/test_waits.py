# SPDX-License-Identifier: Apache-2.0 OR MIT
"""Where tasks wait: every long wait has its await point, and no sum exceeds what polls allow."""
from faults import Faults, program

LONG_NS = 10_000_000


def long_waits(run):
    """[(task, begin_ns, end_ns)] between a poll of a task and its next one."""
    waits, worker_task, ended = [], {}, {}
    for time_ns, name, fields in run.events("PollStartEvent", "PollEndEvent"):
        if name == "PollStartEvent":
            task = fields["task_id"]
            worker_task[fields["worker_id"]] = task
            if task in ended and time_ns - ended[task] >= LONG_NS:
                waits.append((task, ended[task], time_ns))
        elif fields["worker_id"] in worker_task:
            ended[worker_task.pop(fields["worker_id"])] = time_ns
    return waits


class Waits(Faults):
    def check(self, run):
        waits = long_waits(run)
        all_ns = sum(end - begin for _, begin, end in waits)
        pointed = {(fields["task_id"], time_ns)
                   for time_ns, _, fields in run.events("AwaitPlaceEvent")
                   if fields.get("wait_ns") and fields["callchain"]}
        known_ns = sum(end - begin for task, begin, end in waits if (task, end) in pointed)
        self.assertGreater(len(waits), 100)
        self.assertGreaterEqual(known_ns, 0.99 * all_ns)
        return waits

    def check_report(self, run):
        """Of what each function waited, the report says as much."""
        points = run.report()["profile"]["waiting"]["places"]
        for what in ("sleep", "semaphore", "read", "select"):
            rows = [row for row in points
                    if any(f"wait_{what}" in line["function"] for line in row["stack"])]
            said_ns = sum(row["ns"]["estimate"] for row in rows)
            truth_ns = sum(run.statement[what])
            self.assertLess(abs(said_ns - truth_ns), 0.05 * truth_ns, what)

    def test_every_long_wait_has_its_point(self):
        run = self.record("waits")
        self.check(run)
        self.check_report(run)

    def test_every_long_wait_has_its_point_on_the_oldest_tokio(self):
        self.check(self.record(program("waits", "v1_38")))

    def test_every_long_wait_has_its_point_in_a_debug_build(self):
        self.check(self.record(program("waits", profile="debug")))
