# SPDX-License-Identifier: Apache-2.0 OR MIT
"""Which worker each notification is for, beside whom the program woke."""
import unittest

from faults import Faults, program

TASKS = ("notifies::listen<24", "notifies::listen<48", "notifies::listen<72")


class Notifies(Faults):
    def check(self, path):
        one = self.record(path)
        workers, names, tasks = {}, {}, {}
        for _, name, fields in one.events("WorkerEvent", "TaskFirstSeenEvent", "TaskSpawnEvent",
                                          "PollStartEvent"):
            if name == "WorkerEvent":
                workers.update({(via, fields[key]): fields["tid"]
                                for via, key in ((2, "futex"), (3, "eventfd"))
                                if fields[key] is not None})
                continue
            kind = next((task for task in TASKS if task in fields["spawn_loc"]), None)
            if kind:
                tasks[fields["task_id"]] = one.statement["tids"][TASKS.index(kind)]
                names[kind] = fields["task_id"]
        self.assertEqual(len(names), 3)
        woken, counts = None, dict.fromkeys(one.statement["tids"], 0)
        for _, name, fields in one.events("WakeEventEvent", "WorkerNotifyEvent"):
            if fields["tid"] != one.statement["waker"]:
                continue
            if name == "WakeEventEvent":
                woken = tasks.get(fields["woken_task_id"])
            elif woken:
                target = fields["via"], fields["target"]
                self.assertIn(target, workers)
                self.assertEqual(workers[target], woken)
                counts[woken] += 1
        print(f"# notifications by thread: {counts}, of {one.statement['rounds']} rounds")
        self.assertTrue(all(counts.values()), counts)

    def test_notification__is_of_the_worker_that_was_woken(self):
        self.check("notifies")

    def test_notification__with_fat_lto(self):
        self.check(program("notifies", config=('lto="fat"',)))

    def test_notification__on_the_oldest_tokio(self):
        self.check(program("notifies", tokio="v1_38"))


if __name__ == "__main__":
    unittest.main()
