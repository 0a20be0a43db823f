#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0 OR MIT
"""setup.sh before a made-up machine: what it installs as root, what it tells a user."""
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
import unittest_tap  # noqa: E402

SETUP = pathlib.Path(__file__).resolve().parent / "setup.sh"


class SetupTest(unittest.TestCase):
    def setUp(self):
        self.bin = pathlib.Path(tempfile.mkdtemp(prefix="kymo-setup-"))
        self.addCleanup(shutil.rmtree, self.bin)
        for tool in ("sh", "mktemp", "rm", "tail", "cat"):
            (self.bin / tool).symlink_to(shutil.which(tool))
        self.tool("cargo", "exit 0")
        self.tool("node", "exit 0")
        self.tool("apt-get", f'echo "apt-get $*" >>{self.bin}/apt.log')
        self.packages()

    def tool(self, name, script):
        path = self.bin / name
        path.write_text(f"#!/bin/sh\n{script}\n")
        path.chmod(0o755)

    def packages(self, missing=(), user=0):
        tests = " ".join(f'[ "$4" = {name} ] && exit 1;' for name in missing)
        self.tool("dpkg-query", f'{tests} echo "install ok installed"')
        self.tool("id", f"echo {user}")

    def run_setup(self, group):
        done = subprocess.run([SETUP, group], env={"PATH": str(self.bin)}, text=True,
                              capture_output=True)
        log = self.bin / "apt.log"
        return done, log.read_text().splitlines() if log.exists() else []

    def test_root__nothing_missing_changes_nothing(self):
        done, calls = self.run_setup("test")
        self.assertEqual((done.returncode, done.stdout, done.stderr, calls), (0, "", "", []))

    def test_root__installs_what_is_missing_after_an_update(self):
        self.packages(missing=("meson", "zlib1g-dev"))
        done, calls = self.run_setup("build")
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertEqual(calls, ["apt-get update",
                                 "apt-get install --no-install-recommends -y meson zlib1g-dev"])

    def test_root__says_so_when_it_cannot_install(self):
        self.packages(missing=("meson",))
        self.tool("apt-get", "echo 'E: no such host' >&2; exit 100")
        done, _ = self.run_setup("build")
        self.assertEqual(done.returncode, 1)
        self.assertIn("E: no such host", done.stderr)
        self.assertIn("could not install: meson", done.stderr)

    def test_user__is_told_the_command_in_one_sentence(self):
        self.packages(missing=("valgrind",), user=1000)
        done, calls = self.run_setup("test")
        self.assertEqual((done.returncode, calls), (1, []))
        self.assertEqual(done.stderr, "setup: packages are missing; run: sudo apt-get update && "
                         "sudo apt-get install --no-install-recommends -y valgrind\n")

    def test_build__does_not_ask_for_what_only_tests_need(self):
        self.packages(missing=("valgrind", "libcmocka-dev"), user=1000)
        done, _ = self.run_setup("build")
        self.assertEqual(done.returncode, 0, done.stderr)

    def test_tools__rust_and_node_are_named_when_missing(self):
        (self.bin / "cargo").unlink()
        done, _ = self.run_setup("build")
        self.assertEqual(done.returncode, 1)
        self.assertIn("cargo is missing", done.stderr)

    def test_other_system__names_the_packages(self):
        (self.bin / "dpkg-query").unlink()
        done, _ = self.run_setup("build")
        self.assertEqual(done.returncode, 1)
        self.assertIn("has no dpkg", done.stderr)


if __name__ == "__main__":
    unittest_tap.main()
