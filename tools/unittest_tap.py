# SPDX-License-Identifier: Apache-2.0 OR MIT
"""Python's unittest printing TAP: one line a case, so that run_tests.py and meson see its skips;
and how its cases wait.

A test program ends with `unittest_tap.main(sys.argv[3:])`, which takes unittest's own arguments:
names of classes and cases, -k, -f.
"""
import re
import sys
import time
import unittest

DEADLINE_S = 60


def wait_until(condition):
    """A condition, not a duration: the deadline only ends a hanging test."""
    deadline = time.monotonic() + DEADLINE_S
    while not condition():
        if time.monotonic() > deadline:
            raise TimeoutError("the awaited state did not come")
        time.sleep(0.01)


def name_of(test):
    """`Class.case` of module.Class.test_case; what stands outside a case has no such name."""
    found = re.fullmatch(r"(?:.*\.)?(\w+)\.test_(\w+)", test.id())
    return f"{found[1]}.{found[2]}" if found else test.id().replace("#", "")


class TapResult(unittest.TestResult):
    """Says at the end of each case how it went; one that skips a part of itself is a skip."""

    def __init__(self, out):
        super().__init__()
        self.out, self.number, self.is_in_case = out, 0, False
        self.traces, self.reasons = [], []

    def say(self, test):
        self.number += 1
        verdict, reason = ("not ok" if self.traces else "ok"), ""
        if self.reasons and not self.traces:
            reason = " # SKIP " + "; ".join(dict.fromkeys(self.reasons))
        print(f"{verdict} {self.number} - {name_of(test)}{reason}", file=self.out)
        for line in "\n".join(self.traces).splitlines():
            print(f"# {line}", file=self.out)
        self.out.flush()
        self.traces, self.reasons = [], []

    def startTest(self, test):
        super().startTest(test)
        self.is_in_case = True

    def stopTest(self, test):
        super().stopTest(test)
        if self.is_in_case:  # Python 3.12.1 stops skipped cases that it did not start
            self.say(test)
        self.is_in_case = False

    def note(self, test, notes, text):
        notes.append(text)
        if not self.is_in_case:  # a class or module that could not be set up, or not taken down
            self.say(test)

    def addFailure(self, test, err):
        super().addFailure(test, err)
        self.note(test, self.traces, self.failures[-1][1])

    def addError(self, test, err):
        super().addError(test, err)
        self.note(test, self.traces, self.errors[-1][1])

    def addSubTest(self, test, subtest, err):
        super().addSubTest(test, subtest, err)
        if err is not None:
            self.note(test, self.traces, f"{subtest}\n{self._exc_info_to_string(err, test)}")

    def addSkip(self, test, reason):
        super().addSkip(test, reason)
        self.note(test, self.reasons, " ".join(reason.split()))

    def addUnexpectedSuccess(self, test):
        super().addUnexpectedSuccess(test)
        self.note(test, self.traces, "it was expected to fail")


class TapRunner:
    """What unittest.main() makes of the cases that it found."""

    def __init__(self, failfast=False, **_):
        self.failfast = failfast

    def run(self, cases):
        print(f"1..{cases.countTestCases()}", flush=True)
        result = TapResult(sys.stdout)
        result.failfast = self.failfast
        cases.run(result)
        return result


def main(arguments=(), module="__main__"):
    """Runs the cases of the program, or those that the arguments name, and ends it."""
    unittest.main(module=module, argv=[sys.argv[0], *arguments], testRunner=TapRunner)
