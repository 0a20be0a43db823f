#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0 OR MIT
"""`kymo agents`: every command in every skill runs, and every key that it names is in the answer.

usage: test_skills.py KYMO SOURCE_ROOT [unittest arguments]
"""
import json
import os
import re
import shutil
import subprocess

import cli_case
from cli_case import Cli, NEW, ROOT, main

MARKER = "kymo run directory, version 1\n"
BOOT = "0123abcd"
SOURCES = sorted((ROOT / "share/kymo/skills").glob("*.md"))


def values_at(value, path):
    """What lies at "findings[].id": of each element of a list."""
    found = [value]
    for part in path.split("."):
        name, is_list = part.removesuffix("[]"), part.endswith("[]")
        found = [one[name] for one in found if isinstance(one, dict) and name in one]
        if is_list:
            found = [element for one in found for element in one]
    return found


class Skills(Cli):
    def place(self):
        """A folder that has what the skills speak of, and kymo on its path."""
        place = self.dir / "place"
        (place / "bin").mkdir(parents=True)
        (place / "bin" / "kymo").symlink_to(cli_case.KYMO)
        run = place / "traces" / "web" / f"2026-05-18T12-30-00-{BOOT}-42-777"
        run.mkdir(parents=True)
        (run / ".kymo-run").write_text(MARKER)
        (run / ".lock").touch()
        (run / "000000.trc").write_bytes(b"TRC\0\1")
        shutil.copy("/bin/true", place / "service")
        self.run_kymo("convert", "-q", "-o", place / "trace.trc.zst", NEW)
        for name in ("before", "after"):
            shutil.copy(place / "trace.trc.zst", place / f"{name}.trc.zst")
        return place

    def shell(self, place, block):
        env = dict(os.environ, PATH=f"{place / 'bin'}:{os.environ['PATH']}",
                   KYMO_RING_DIR=str(place / "rings"))
        done = subprocess.run(["sh", "-eu"], input=block, capture_output=True, text=True, env=env,
                              cwd=place, check=False)
        self.assertEqual(done.returncode, 0, f"{block}\n{done.stderr}")
        return done.stdout

    def check(self, path, place):
        blocks = re.findall(r"(?ms)^```(\w+)\n(.*?)^```$", path.read_text(encoding="utf-8"))
        out = None
        for kind, block in blocks:
            if kind == "sh":
                out = self.shell(place, block)
                continue
            self.assertEqual(kind, "keys")
            answer = json.loads(out)
            for line in block.splitlines():
                key = line.split()[0]
                self.assertTrue(values_at(answer, key), f"{path.name}: {key} is in no answer")
        return len(blocks)

    def test_commands_run_and_keys_are_there(self):
        place = self.place()
        (place / "rings").mkdir()
        for path in SOURCES:
            with self.subTest(path.name):
                self.assertGreater(self.check(path, place), 0)

    def test_each_is_in_the_program(self):
        names = [line.split()[0] for line in self.run_kymo("agents", "skills").out.splitlines()]
        self.assertEqual(names, [path.stem for path in SOURCES])
        self.assertEqual(len(names), 10)
        for path in SOURCES:
            for name in (path.stem, "kymo-" + path.stem):
                self.assertEqual(self.run_kymo("agents", "skill", name).out,
                                 path.read_text(encoding="utf-8"))

    def test_a_skill_that_another_names_is_there(self):
        for path in SOURCES:
            for name in re.findall(r"\bkymo-([a-z-]+[a-z])", path.read_text(encoding="utf-8")):
                self.assertIn(name, [one.stem for one in SOURCES], path.name)

    def test_they_are_written_to_a_folder(self):
        target = self.dir / "skills"
        self.assertIn("10 skills", self.run_kymo("agents", "skills", target).out)
        for path in SOURCES:
            self.assertEqual((target / f"kymo-{path.stem}" / "SKILL.md").read_bytes(),
                             path.read_bytes())
        self.fails("agents", "skills", target, says=["--force"])
        self.run_kymo("agents", "skills", "--force", target)

    def test_wrong_words_are_named(self):
        self.fails("agents", "skill", "nonsense", says=["nonsense"])
        self.fails("agents", "nonsense", code=2, says=["nonsense"])
        self.fails("agents", "skill", code=2, says=["which"])


if __name__ == "__main__":
    main()
