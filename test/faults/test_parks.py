# SPDX-License-Identifier: Apache-2.0 OR MIT
"""Parks of workers, in builds whose optimizer leaves little of Tokio's functions."""
import shutil
import subprocess
import unittest

from faults import Faults, program

SMALL = ('lto="fat"', 'opt-level="z"')
# Every function by whose name a launch is known, as where all of them are inlined.
LAUNCH = ("*multi_thread*worker*Launch*", "*multi_thread*worker*3run*",
          "*multi_thread*worker*Context*")


class Parks(Faults):
    def check(self, path):
        one = self.record(path, "--seconds", 1)
        report = one.report()
        workers = [row for row in report["workers"] if row["polls"]]
        self.assertTrue(workers)
        for row in workers:
            # A worker that ticks parks between any two ticks.
            self.assertGreater(row["parks"], 0, row)
            self.assertGreater(row["parked_ns"], row["busy_ns"], row)
        self.assertEqual(one.events("BlockingRunStartEvent"), [])

    def test_parks__are_seen_with_fat_lto_for_size(self):
        self.check(program("ticks", config=SMALL))

    def test_parks__are_seen_where_no_function_names_the_launch(self):
        if shutil.which("objcopy") is None:
            self.skipTest("no objcopy here")
        path = self.dir / "ticks"
        command = ["objcopy", "--wildcard", *(f"--strip-symbol={one}" for one in LAUNCH),
                   program("ticks", config=SMALL), path]
        subprocess.run(command, check=True)
        self.check(path)


if __name__ == "__main__":
    unittest.main()
