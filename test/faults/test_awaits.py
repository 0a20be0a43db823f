# SPDX-License-Identifier: Apache-2.0 OR MIT
"""Which task awaits each closure of the blocking pool, beside what the program did."""
import json
import unittest

from faults import Faults, program

# A part of each closure's name, and who awaits it; None: nothing does, though its end wakes a task.
WAITERS = {"closure<24": "awaits::patient", "closure<48": "awaits::collector",
           "closure<120": "block_on", "listener::": None, "heir::": None}


class Awaits(Faults):
    def check(self, path):
        one = self.record(path)
        what = "SELECT task, site, waiter, waiter_site FROM blocking"
        rows = json.loads(one.kymo("query", "--json", what, one.trace))["rows"]
        awaited, runs = {}, dict.fromkeys(WAITERS, 0)
        for row in rows:
            kind = next((kind for kind in WAITERS if f"awaits::{kind}" in row["site"]), None)
            # Code that the linker made one has several names.
            if not kind or " or " in row["site"]:
                continue
            runs[kind] += 1
            if row["waiter"] is None:
                continue
            self.assertIsNotNone(WAITERS[kind], row)
            self.assertIn(WAITERS[kind], row["waiter_site"])
            awaited.setdefault(kind, []).append(row)
        self.assertEqual(runs["closure<24"], one.statement["rounds"])
        self.assertEqual(set(awaited), {kind for kind in WAITERS if WAITERS[kind]}, runs)
        for kind, known in awaited.items():
            print(f"# {kind}: {len(known)} of {runs[kind]} closures had a task that waited")
        run = awaited["closure<24"][0]
        self.assertRegex(one.kymo("task", run["task"], one.trace),
                         rf"its end woke task {run['waiter']} \(awaits::patient")
        self.assertRegex(one.kymo("task", run["waiter"], one.trace),
                         rf"awaits task {run['task']} .*closure<24")
        self.assertIn("awaits::collector", one.kymo("view", "blocking", "--limit", "0", one.trace))

    def test_closure__names_the_task_that_awaits_it(self):
        self.check("awaits")

    def test_closure__names_it_with_fat_lto(self):
        self.check(program("awaits", config=('lto="fat"',)))

    def test_closure__names_it_on_the_oldest_tokio(self):
        self.check(program("awaits", tokio="v1_38"))


if __name__ == "__main__":
    unittest.main()
