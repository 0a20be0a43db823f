#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0 OR MIT
"""Names of tasks in the tables of `kymo report`: short, and never two kinds alike.

usage: test_names.py KYMO [unittest arguments]
"""
import pathlib
import subprocess
import sys
import tempfile
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "tools"))
import trace_maker  # noqa: E402
import unittest_tap  # noqa: E402

KYMO = ""
LONG = "company::service::" + "::".join(f"part{i}" for i in range(20)) + "::"


class Names(unittest.TestCase):
    def report(self, *names):
        trace = trace_maker.Trace()
        for number, name in enumerate(names):
            worker = ("worker_id", "VARINT", 0)
            trace.event("PollStartEvent", 1000 + 100 * number, worker,
                        ("task_id", "VARINT", number + 1),
                        ("spawn_loc", "STRING", name.encode()))
            trace.event("PollEndEvent", 1050 + 100 * number, worker)
        with tempfile.TemporaryDirectory() as folder:
            path = trace.save(pathlib.Path(folder) / "t.trc")
            text = subprocess.run([KYMO, "report", "--full", path], capture_output=True, text=True,
                                  check=True).stdout
        rows = text.partition("Tasks by name")[2].partition("\n\n")[0].splitlines()[2:]
        return sorted(row.split("  ")[-1] for row in rows)

    def test_a_wrapper_is_left_out(self):
        self.assertEqual(self.report("core::pin::Pin<alloc::boxed::Box<app::job::{{closure}}>>"),
                         ["app::job::{{closure}}"])

    def test_two_kinds_never_read_alike(self):
        self.assertEqual(self.report("app::job", "tokio::task::coop::Unconstrained<app::job>"),
                         ["app::job", "tokio::task::coop::Unconstrained<app::job>"])
        first, second = LONG + "a::x::run::{{closure}}", LONG + "b::x::run::{{closure}}"
        shown = self.report(first, second)
        self.assertEqual(len(set(shown)), 2, shown)
        names = [f"tokio::runtime::blocking::task::BlockingTask<app::{job}::{{{{closure}}}}>"
                 for job in ("hash", "read")]
        self.assertEqual(self.report(*names), ["app::hash::{{closure}}", "app::read::{{closure}}"])

    def test_folded_code_has_all_its_names(self):
        first, second = LONG + "first::{{closure}}", LONG + "second::{{closure}}"
        self.assertEqual(self.report(f"{first} or {second}"),
                         ["company::...::first::{{closure}} or company::...::second::{{closure}}"])


if __name__ == "__main__":
    KYMO = str(pathlib.Path(sys.argv[1]).resolve())
    unittest_tap.main(sys.argv[2:])
