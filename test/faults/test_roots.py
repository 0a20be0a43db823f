# SPDX-License-Identifier: Apache-2.0 OR MIT
"""The futures of block_on: their waits and wakes beside what the program measured."""
import unittest

from faults import Faults, program

SLACK_NS = 20_000_000  # the program is late by itself
FRAME = "wait_for_answer"


class Roots(Faults):
    def check(self, path):
        one = self.record(path, "--seconds", 1)
        roots = {root["name"]: root for root in one.report()["roots"]}
        self.assertEqual(set(roots), {"block_on", "block_on (current-thread)"})
        for name, said in (("block_on", "multi_thread"),
                           ("block_on (current-thread)", "current_thread")):
            waits = one.statement[said]
            root = roots[name]
            # The last wait of a runtime's root ends with a poll after which nothing is recorded;
            # who drops a runtime waits for its threads, in a block_on as well.
            self.assertGreaterEqual(root["waits"], len(waits) - 1)
            self.assertGreaterEqual(root["delays"], root["waits"])
            self.assertLessEqual(root["wait_max_ns"], max(waits) + SLACK_NS)
            self.assertGreater(root["wait_ns"], (len(waits) - 1) * 50_000_000)
            self.assertLessEqual(root["poll_max_ns"]["at_least"], root["poll_max_ns"]["at_most"])
            wakes = [fields for _, _, fields in one.events("WakeEventEvent")
                     if fields["woken_task_id"] == root["id"]]
            self.assertGreaterEqual(len(wakes), len(waits))
            self.assertTrue(all(fields["waker_task_id"] for fields in wakes[:len(waits)]))
            points = [fields for _, _, fields in one.events("AwaitPlaceEvent")
                      if fields["task_id"] == root["id"] and fields["wait_ns"]]
            self.assertEqual(len(points), len(waits))
        text = one.report_text()
        self.assertIn("Roots: futures of block_on", text)
        self.assertIn(FRAME, text)
        self.assertIn("none does at the end", text)

    def test_root__waits_are_told_with_their_points_and_wakers(self):
        self.check("roots")

    def test_root__in_a_debug_build(self):
        self.check(program("roots", profile="debug"))

    def test_root__with_fat_lto(self):
        self.check(program("roots", config=('lto="fat"',)))

    def test_root__on_the_oldest_tokio(self):
        self.check(program("roots", tokio="v1_38"))


if __name__ == "__main__":
    unittest.main()
