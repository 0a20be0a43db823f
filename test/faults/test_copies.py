# SPDX-License-Identifier: Apache-2.0 OR MIT
"""Two copies of Tokio in one program: with symbols, and without."""
import json
import os
import shutil
import subprocess

import faults
from faults import Faults

MANIFEST = """[package]
name = "two_tokios"
version = "0.1.0"
edition = "2021"
[workspace]
[[bin]]
name = "two_tokios"
path = "{source}"
[dependencies]
newest = {{ package = "tokio", version = "=1.54.1", features = ["rt-multi-thread"] }}
oldest = {{ package = "tokio", path = "oldest", features = ["rt-multi-thread"] }}
"""


def source_of_the_oldest():
    """Where cargo has it, as the programs on it are built with it."""
    done = subprocess.run(["cargo", "metadata", "--locked", "--format-version", "1"],
                          cwd=faults.FOLDERS["v1_38"], capture_output=True, text=True, check=True)
    (one,) = [package["manifest_path"] for package in json.loads(done.stdout)["packages"]
              if package["name"] == "tokio"]
    return os.path.dirname(one)


def two_tokios():
    """Cargo has one release of a source that fits both; so one of them comes from a folder."""
    folder = faults.Paths.build.resolve() / "faults" / "two_tokios"
    folder.mkdir(parents=True, exist_ok=True)
    shutil.copytree(source_of_the_oldest(), folder / "oldest", dirs_exist_ok=True)
    source = faults.ROOT / "examples/faults/src/two_tokios.rs"
    (folder / "Cargo.toml").write_text(MANIFEST.format(source=source))
    done = subprocess.run(["cargo", "build", "--quiet", "--release"], cwd=folder,
                          capture_output=True, text=True, check=False,
                          env=dict(os.environ, CARGO_TARGET_DIR=str(folder / "target")))
    if done.returncode != 0:
        raise RuntimeError(done.stderr)
    return folder / "target/release/two_tokios"


class Copies(Faults):
    def counts(self, program):
        """Polls by copy, whose number stands above bit 48 of a task's; tasks; closures."""
        run = self.record(program)
        polls, ids = {}, set()
        for _, _, fields in run.events("PollStartEvent"):
            copy = fields["task_id"] >> 48
            polls[copy] = polls.get(copy, 0) + 1
            ids.add(fields["task_id"])
        said = run.statement
        self.assertEqual(sorted(polls.values()), sorted(said["polls"]), run.said)
        self.assertEqual(len(polls), 2)
        self.assertEqual(len(ids), 2 * said["tasks"])
        runs = run.events("BlockingRunEndEvent")
        self.assertEqual(len(runs), 2 * said["runs"])
        self.assertEqual(run.info()["metadata"]["tokio.copies"], "2")
        return polls, len(ids), len(runs)

    def test_a_stripped_twin_has_the_same_counts(self):
        if shutil.which("strip") is None:
            self.skipTest("no strip here")
        whole = two_tokios()
        of_whole = self.counts(whole)
        for what in ("--strip-all", "--discard-all"):
            twin = self.dir / what.lstrip("-")
            subprocess.run(["strip", what, "-o", twin, whole], check=True)
            self.assertEqual(self.counts(twin), of_whole, what)
