# SPDX-License-Identifier: Apache-2.0 OR MIT
"""Programs in which nothing is late."""
from faults import Faults, program


class Healthy(Faults):
    def check(self, run):
        tasks = {fields["task_id"] for _, _, fields in run.events("PollStartEvent")}
        self.assertEqual(len(tasks), run.statement["tasks"])
        self.assertEqual(run.report()["losses"], [])

    def test_ticks(self):
        self.check(self.record("ticks"))

    def test_ticks_on_the_oldest_tokio(self):
        self.check(self.record(program("ticks", "v1_38")))
