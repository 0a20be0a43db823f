#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0 OR MIT
"""check_demo.py KYMO TRACE - `make demo` has to show what is wrong with the service, wherever a
busy machine puts it among the rest. Prints TAP."""
import json
import pathlib
import subprocess
import sys
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
import unittest_tap  # noqa: E402

KYMO, TRACE = sys.argv[1:3]
SERVICE = pathlib.Path(__file__).resolve().parent.parent / "examples" / "demo-service"
SPOOLER_NS = 120_000_000  # examples/demo-service: the blocking call of GET /export
RENDER_NS = 60_000_000    # and the computation of report::render


def kymo(*arguments):
    done = subprocess.run([KYMO, *arguments, TRACE], check=True, capture_output=True, text=True)
    return json.loads(done.stdout)


class Demo(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.info = kymo("info", "--json")
        cls.report = kymo("report", "--json", "--limit", "1000")["tables"]

    def longest(self, name):
        return max((poll["duration_ns"] for poll in self.report["worst_polls"]
                    if name in poll["name"]), default=0)

    def test_report__the_blocking_endpoint_is_among_the_worst_polls(self):
        self.assertGreaterEqual(self.longest("axum::serve"), SPOOLER_NS)

    def test_report__the_render_job_stands_under_its_own_name(self):
        self.assertGreaterEqual(self.longest("report::render"), RENDER_NS)
        self.assertTrue([group for group in self.report["tasks"]
                         if "demo_service::report::render" in group["name"]])

    def test_report__the_line_of_the_blocking_call_is_named(self):
        own = [frame for row in self.report["profile"]["off_cpu"]["stacks"]
               if row["reason"] == "blocked in a system call" and row["max_ns"] >= SPOOLER_NS
               for frame in row["stack"] if frame["function"] == row["where"]
               and "demo_service::export" in frame["function"]][0]
        self.assertTrue(own["file"].endswith("examples/demo-service/src/main.rs"), own)
        line = (SERVICE / "src" / "main.rs").read_text().splitlines()[own["line"] - 1]
        self.assertIn("std::thread::sleep", line)

    def test_report__where_the_others_wait_is_named(self):
        places = [place["where"] for place in self.report["profile"]["waiting"]["places"]]
        for function in ("demo_service::order", "demo_service::report::render"):
            self.assertTrue([where for where in places if function in where], places)

    def test_info__nothing_was_lost(self):
        self.assertEqual(self.info["lost_records"], 0)

    def test_info__both_workers_are_there(self):
        busy = [worker for worker in self.report["workers"] if worker["parks"] > 0]
        self.assertEqual(len(busy), 2)


if __name__ == "__main__":
    sys.argv = sys.argv[:1]
    unittest_tap.main()
