#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0 OR MIT
"""The runner must not lose a failure or a skip: its parsing and its verdicts."""
import os
import pathlib
import subprocess
import sys
import unittest

TOOLS = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(TOOLS))
import run_tests  # noqa: E402
import unittest_tap  # noqa: E402

CASES = """
import sys, unittest, unittest_tap

@unittest.skip("takes root")
class Barred(unittest.TestCase):
    def test_first(self):
        pass

    def test_second(self):
        pass

class Some(unittest.TestCase):
    def test_fails(self):
        self.assertEqual(1, 2)

    def test_fails_in_a_part(self):
        for i in range(4):
            with self.subTest(i=i):
                self.assertEqual(i % 2, 1)

    def test_passes(self):
        pass

    def test_skips(self):
        self.skipTest("no perf # here")

    def test_skips_parts(self):
        for what in ("IPv6", "groff", "IPv6"):
            with self.subTest(what=what):
                self.skipTest("no\\n" + what)

class Unmade(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        raise OSError("nowhere")

    def test_one(self):
        pass

    def test_other(self):
        pass

unittest_tap.main(sys.argv[1:])
"""


class ParseTest(unittest.TestCase):
    def test_tap__counts_each_kind(self):
        text = "1..3\nok 1 - a\nnot ok 2 - b\n# why\nok 3 - c # SKIP no perf\n"
        tally = run_tests.parse_tap(text, "s")
        self.assertEqual(tally.passed, ["s/a"])
        self.assertEqual([tuple(row) for row in tally.failed], [("s/b", "why\n")])
        self.assertEqual(tally.skipped, [("s/c", "no perf")])

    def test_tap__node_says_why_in_yaml(self):
        text = "1..2\nnot ok 1 - a\n  ---\n  error: '1 is not 2'\n  ...\nok 2 - b\n  ---\n"
        tally = run_tests.parse_tap(text, "s")
        self.assertEqual([tuple(row) for row in tally.failed],
                         [("s/a", "error: '1 is not 2'\n...\n")])
        self.assertEqual(tally.passed, ["s/b"])

    def test_tap__cmocka_skips_are_skips_with_their_reason(self):
        tally = run_tests.parse_tap("1..1\n# needs root\nnot ok 1 # SKIP mounts\n", "s")
        self.assertEqual(tally.failed, [])
        self.assertEqual(tally.skipped, [("s/mounts", "needs root")])

    def test_tap__a_missing_case_is_a_failure(self):
        tally = run_tests.parse_tap("1..3\nok 1 - a\n", "s")
        self.assertEqual(tally.failed, [("s", "ended after 1 of 3 cases")])

    def test_names__of_two_tests_are_told(self):
        tests = [{"name": name} for name in ("usdt", "dump", "usdt", "ring")]
        self.assertEqual(run_tests.named_twice(tests), ["usdt"])
        self.assertEqual(run_tests.named_twice(tests[1:]), [])

    def test_tap__several_groups_in_one_program_add_up(self):
        tally = run_tests.parse_tap("1..1\nok 1 - a\n1..2\nok 1 - b\n", "s")
        self.assertEqual(tally.passed, ["s/a", "s/b"])
        self.assertEqual(len(tally.failed), 1)

    def test_tap__other_text_is_no_tap(self):
        self.assertIsNone(run_tests.parse_tap("everything is okay\n", "s"))


class JudgeTest(unittest.TestCase):
    def test_judge__exit_status_speaks_where_there_is_no_tap(self):
        self.assertEqual(run_tests.judge("s", 0, "", "").line(), "1 passed, 0 failed, 0 skipped")
        self.assertEqual(run_tests.judge("s", 1, "", "").line(), "0 passed, 1 failed, 0 skipped")
        self.assertEqual(run_tests.judge("s", 77, "no root\n", "").skipped, [("s", "no root")])

    def test_judge__a_crash_after_good_tap_is_a_failure(self):
        tally = run_tests.judge("s", -11, "1..1\nok 1 - a\n", "")
        self.assertEqual(tally.line(), "1 passed, 1 failed, 0 skipped")

    def test_skips__one_that_nobody_expects_fails(self):
        tally = run_tests.Tally()
        tally.skipped = [("cli/a", "no tmpfs"), ("cli/b", "no perf"), ("cli/c", "")]
        run_tests.check_skips(tally, [("*/a", "needs a mount"), ("*/c", "needs a mount")])
        self.assertEqual(tally.skipped, [("cli/a", "no tmpfs")])
        self.assertEqual([name for name, _ in tally.failed], ["cli/b", "cli/c"])

    @staticmethod
    def tally(*failed, passed=()):
        tally = run_tests.Tally()
        tally.failed, tally.passed = list(failed), list(passed)
        return tally

    def test_alone__a_failure_stays_one_and_says_how_often_its_program_passed(self):
        runs = iter([[], [("s/a/case", "")], []])
        seen = run_tests.run_alone(self.tally(("s/a/case", "1 != 2"), ("s", "no report")),
                                   lambda name: self.tally(*next(runs), passed=[f"s/{name}/other"]))
        self.assertEqual(seen.failed, [("s/a/case", "2 of 3 alone passed\n1 != 2"),
                                       ("s", "no report")])
        self.assertEqual(seen.passed, [])

    def test_alone__more_than_a_few_are_not_run(self):
        failed = [(f"s/{program}/case", "1 != 2") for program in "abcd"]
        self.assertEqual(run_tests.run_alone(self.tally(*failed), None).failed, failed)

    def test_alone__one_that_waits_for_ever_is_not_run(self):
        failed = [("s/a/case", "meson: TIMEOUT\nended after 0 of 3 cases")]
        self.assertEqual(run_tests.run_alone(self.tally(*failed), None).failed, failed)

    def test_tiers__name_suites_that_there_are(self):
        for names in run_tests.TIERS.values():
            self.assertEqual(set(names) - run_tests.suites().keys(), set())

    def test_tiers__hold_every_suite_but_the_deep_analysis(self):
        held = {name for names in run_tests.TIERS.values() for name in names}
        self.assertEqual(run_tests.suites().keys() - held, {"analysis-deep"})

    def test_groups__what_measures_runs_alone_and_last(self):
        self.assertEqual(run_tests.groups(["corpus", "fuzz", "attach", "crash"], 2),
                         ((2, ["fuzz", "crash"]), (1, ["corpus", "attach"])))

    def test_groups__what_measures_is_not_in_the_gate(self):
        self.assertEqual(set(run_tests.MEASURES) & set(run_tests.TIERS["gate"]), set())
        self.assertEqual(set(run_tests.MEASURES) - set(run_tests.TIERS["check-all"]), set())

    def test_needed__are_a_tests_programs_and_what_it_depends_on(self):
        targets = [{"id": f"{name}@exe", "filename": [f"/b/{name}"]} for name in ("a", "c", "d")]
        tests = [{"cmd": ["/b/a", "/usr/bin/x", "word"], "depends": ["d@exe"]}]
        self.assertEqual(run_tests.needed_by(tests, targets, "/b"), ["a", "d"])

    def test_command__one_that_does_not_exist_fails(self):
        self.assertEqual(len(run_tests.command("s", ["./no-such-program"], 5).failed), 1)

    def test_command__one_that_does_not_end_fails(self):
        tally = run_tests.command("s", [sys.executable, "-c", "while True: pass"], 1)
        self.assertIn("stopped after 1 s", tally.failed[0][1])

    def test_python__each_case_is_one_line_of_tap(self):
        done = subprocess.run([sys.executable, "-c", CASES], capture_output=True, text=True,
                              env={**os.environ, "PYTHONPATH": str(TOOLS)}, check=False)
        tally = run_tests.judge("s", done.returncode, done.stdout, done.stderr)
        self.assertEqual(tally.passed, ["s/Some.passes"])
        self.assertEqual(tally.skipped, [
            ("s/Barred.first", "takes root"), ("s/Barred.second", "takes root"),
            ("s/Some.skips", "no perf # here"), ("s/Some.skips_parts", "no IPv6; no groff")])
        self.assertEqual([name for name, _ in tally.failed],
                         ["s/Some.fails", "s/Some.fails_in_a_part",
                          "s/setUpClass (__main__.Unmade)", "s"])
        self.assertIn("1 != 2", tally.failed[0][1])
        self.assertIn("(i=2)", tally.failed[1][1])
        self.assertEqual(tally.failed[3][1], "ended after 8 of 9 cases")

    def test_python__arguments_choose_cases(self):
        done = subprocess.run([sys.executable, "-c", CASES, "-k", "passes", "Some"],
                              capture_output=True, text=True, check=False,
                              env={**os.environ, "PYTHONPATH": str(TOOLS)})
        self.assertEqual((done.stdout, done.returncode), ("1..1\nok 1 - Some.passes\n", 0))


if __name__ == "__main__":
    unittest_tap.main()
