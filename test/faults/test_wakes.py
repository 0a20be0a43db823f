# SPDX-License-Identifier: Apache-2.0 OR MIT
"""The cause of each wake beside what the program did."""
import collections
import unittest

from faults import Faults, program


class Wakes(Faults):
    def check(self, path, has_lines=True):
        one = self.record(path)
        rounds = one.statement["rounds"]
        wakes = one.report()["wakes"]
        counts = collections.Counter()
        for wake in wakes:
            counts[wake["cause"]] += wake["count"]
        self.assertLessEqual(counts["unknown"], 0.05 * sum(counts.values()), counts)
        # What a yield wakes, no other cause does, and the other way round.
        self.assertGreaterEqual(counts["deferred"], rounds)
        self.assertLessEqual(counts["deferred"], rounds * 1.1)
        # One for each time that a task really slept: two of its own, half a child's, the answers'.
        drivers = counts["timer"] + counts["io"] + counts["driver"]
        self.assertGreaterEqual(drivers, 3 * rounds)
        if has_lines:
            self.assertGreaterEqual(counts["timer"], 2 * rounds)
            self.assertGreaterEqual(counts["io"], rounds / 2)
            self.assertEqual(counts["driver"], 0)
        self.assertGreaterEqual(counts["join"], rounds / 2)
        by_code = {wake["function"]: wake for wake in wakes if wake["cause"] == "code"
                   and "function" in wake}
        fed = [wake for name, wake in by_code.items() if name.endswith("wakes::feed")]
        self.assertEqual(len(fed), 1, by_code.keys())
        self.assertGreaterEqual(fed[0]["count"], rounds * 0.9)
        self.assertTrue(fed[0]["tid"])
        answered = [wake for name, wake in by_code.items() if name.endswith("wakes::answer")]
        self.assertEqual(sum(wake["count"] for wake in answered), rounds)
        text = one.report_text()
        self.assertRegex(text, r"wakes::feed.*, thread \d+ feeder")

    def test_wakes__have_their_causes(self):
        self.check("wakes")

    def test_wakes__have_their_causes_in_a_debug_build(self):
        self.check(program("wakes", profile="debug"))

    def test_wakes__have_their_causes_with_fat_lto(self):
        self.check(program("wakes", config=('lto="fat"',)))

    def test_wakes__have_their_causes_on_the_oldest_tokio(self):
        self.check(program("wakes", tokio="v1_38"))

    def test_wakes__without_line_tables_the_driver_is_one(self):
        self.check(program("wakes", config=("debug=false",)), has_lines=False)


if __name__ == "__main__":
    unittest.main()
