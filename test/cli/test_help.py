#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0 OR MIT
"""Help and man pages.

usage: test_help.py KYMO SOURCE_ROOT [unittest arguments]
"""
import json
import os
import re
import shutil
import subprocess
import unittest

import cli_case
from cli_case import ROOT, Cli

COMMANDS = ["info", "report", "events", "convert", "run", "ps", "status", "set", "mark",
            "symbolize"]


class Help(Cli):
    def options(self, command):
        text = self.run_kymo(command, "--help").out
        return set(re.findall(r"(?<![\w-])(--?[A-Za-z?][A-Za-z-]*)(?=[ =,\n\[])", "\n".join(
            line for line in text.splitlines() if re.match(r"\s+-", line))))

    def test_every_command_is_listed_and_helps(self):
        out = self.run_kymo("--help").out
        for command in COMMANDS:
            self.assertRegex(out, rf"(?m)^  {command} ")
            for flag in ("--help", "-h"):
                self.assertIn("Usage: kymo " + command, self.run_kymo(command, flag).out)
        self.assertEqual(self.run_kymo("help").out, out)
        self.assertIn("Usage: kymo info", self.run_kymo("help", "info").out)

    def test_version(self):
        version = (ROOT / "VERSION").read_text().strip()
        self.assertEqual(self.run_kymo("--version").out, f"kymo {version}\n")
        self.assertEqual(self.run_kymo("info", "--version").out, f"kymo {version}\n")

    def test_man_pages_have_every_option(self):
        for command in COMMANDS:
            page = (ROOT / f"docs/man/kymo-{command}.1").read_text().replace("\\-", "-")
            page = re.sub(r"\\f[A-Z]", "", page)  # changes of font
            options = self.options(command)
            self.assertGreater(len(options), 3)
            for option in options:
                self.assertRegex(page, rf"(?<![\w-]){re.escape(option)}(?![\w-])",
                                 f"kymo-{command}.1 lacks {option}")
            self.assertIn(f"kymo {command}", (ROOT / "docs/man/kymo.1").read_text())

    def test_info_json_has_triggers_checks_and_crashes(self):
        """As the traces' own listings have them (test/golden/traces)."""
        expected = {
            "Trigger": ("triggers", {
                "time_ns": 48016777215, "rule": "text-47-0", "value": 3145841537,
                "threshold": 3145907074, "unit": "text-47-3", "tid": 3146038148,
                "task_id": 3146103685, "suppressed": 3146169222, "late": 3146234759}),
            "StuckThread": ("stuck", {
                "time_ns": 47016777215, "tid": 3080239000, "task_id": 3080370074,
                "poll_start_ns": 3080435611, "state": "\ufffd", "running": False,
                "syscall": 3080566685, "pc": 3080697759, "wchan": "text-46-9",
                "cpu_ns": 3081090981, "run_delay_ns": 3081156518}),
            "Crash": ("crashes", {
                "time_ns": 46016777215, "signal": 3014702000, "code": -46001, "tid": 3014898611,
                "pc": 3015029685, "address": 3014833074}),
        }
        keys = {key for key, _ in expected.values()}
        page = (ROOT / "docs/man/kymo-info.1").read_text()
        for event, (key, second) in expected.items():
            path = ROOT / f"test/golden/traces/{event}Event.trc"
            info = json.loads(self.run_kymo("info", "--json", path).out)
            self.assertEqual((len(info[key]), info[key][1]), (3, second))
            self.assertEqual([info[other] for other in keys - {key}], [[], []])
            for name in second:
                self.assertRegex(page, rf"\b{name}\b")

    def test_each_man_page_stands_for_itself(self):
        """One that only includes another is found once it is installed, and not before."""
        for page in (ROOT / "docs/man").glob("*.[15]"):
            text = page.read_text().replace("\\-", "-")
            self.assertNotRegex(text, r"(?m)^\.so ", page)
            self.assertRegex(text, rf"(?m)^\.SH NAME\n{page.stem} - ", page)

    @unittest.skipUnless(shutil.which("man") and shutil.which("groff"), "no man or groff here")
    def test_man_pages_format_without_warnings(self):
        for page in sorted((ROOT / "docs/man").glob("*.1")):
            done = subprocess.run(["man", "--warnings", "-l", page], capture_output=True,
                                  env=dict(os.environ, MANWIDTH="90", LC_ALL="C.UTF-8"),
                                  check=False)
            self.assertEqual((done.returncode, done.stderr), (0, b""), page)


if __name__ == "__main__":
    cli_case.main()
