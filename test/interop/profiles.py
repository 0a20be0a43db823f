#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0 OR MIT
"""profiles.py - what `go tool pprof` and the crate inferno make of `kymo export`. Prints TAP.

Both are built at their first use, which takes a minute: test/cli/test_export.py has what the gate
holds of the same bytes.
"""
import os
import pathlib
import re
import shutil
import subprocess
import sys
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT / "tools"), str(ROOT / "test" / "cli")]
import test_export  # noqa: E402
import unittest_tap  # noqa: E402
from trace_maker import SampleTrace  # noqa: E402

MS = 1000000


class Profiles(test_export.Case):
    export = test_export.Export.export
    waits = test_export.Export.waits
    export_waits = test_export.Export.export_waits

    def test_inferno_draws_every_line(self):
        """Needs the crate inferno, through cargo."""
        tool = ROOT / "build/cargo/flame/debug/flame"
        if shutil.which("cargo"):
            made = subprocess.run(["cargo", "build", "--quiet", "--locked", "--manifest-path",
                                   ROOT / "test/interop/flame/Cargo.toml", "--target-dir",
                                   ROOT / "build/cargo/flame"], capture_output=True, check=False)
            if made.returncode and not tool.exists():
                self.skipTest("cargo cannot build inferno here: " + made.stderr.decode()[-200:])
        if not tool.exists():
            self.skipTest("there is no cargo to build inferno with")
        drawn = subprocess.run([tool], input=self.export("folded").stdout, capture_output=True,
                               check=False)
        self.assertEqual((drawn.returncode, drawn.stderr), (0, b""))
        titles = re.findall(r"<title>(.*?)</title>", drawn.stdout.decode())
        self.assertIn("all (40,000,000 units, 100%)", titles)
        self.assertIn("app::hash (30,000,000 units, 75.00%)", titles)

    def pprof(self, file, *arguments):
        ran = subprocess.run(["go", "tool", "pprof", *arguments, file], capture_output=True,
                             check=False, env={**os.environ, "PPROF_TMPDIR": str(self.dir)})
        self.assertEqual(ran.returncode, 0, ran.stderr.decode())
        return ran.stdout.decode()

    @unittest.skipUnless(shutil.which("go"), "there is no Go here")
    def test_go_tool_pprof_says_the_same(self):
        file = self.dir / "cpu.pb.gz"
        self.export("pprof", "-o", file)
        out = self.pprof(file, "-top", "-unit=ms")
        self.assertIn("Total samples = 40ms", out)
        self.assertRegex(out, r" 30ms 75\.00% 75\.00% +30ms 75\.00%  app::hash")
        self.assertRegex(out, r" 10ms 25\.00%  +100% +40ms +100%  app::handler")
        self.assertRegex(self.pprof(file, "-top", "-sample_index=samples"), r" 3 75.* app::hash")
        self.assertIn("main.rs:42", self.pprof(file, "-top", "-lines"))
        tags = self.pprof(file, "-tags", "-unit=ms")
        self.assertRegex(tags, r"30\.?0?ms \(75.*\): (7|app::slow)")
        self.export("pprof", "--kind", "heap", "-f", "-o", file)
        self.assertRegex(self.pprof(file, "-top"), r"4kB +100% +100% +4kB +100%  app::hash")

    @unittest.skipUnless(shutil.which("go"), "there is no Go here")
    def test_go_tool_pprof_keeps_what_stands_in_angle_brackets(self):
        trace = SampleTrace()
        for address, name in ((0x10, "<a::One as core::future::Future>::poll"),
                              (0x20, "<a::Two<T> as core::future::Future>::poll")):
            trace.symbol(address, name, 7).cpu(100 + address, 10 * MS, 0, 0, address)
        source, file = trace.save(self.dir / "brackets.trc"), self.dir / "brackets.pb.gz"
        self.kymo("export", "--format", "pprof", "-o", file, source)
        out = self.pprof(file, "-top", "-unit=ms")
        for name in ("One", "Two<T>"):
            self.assertIn(f"10ms 50.00%  <a::{name} as core::future::Future>::poll", out)

    @unittest.skipUnless(shutil.which("go"), "there is no Go here")
    def test_go_tool_pprof_can_focus_on_why_a_thread_was_off(self):
        file = self.dir / "off.pb.gz"
        self.export_waits("pprof", "-o", file)
        tags = self.pprof(file, "-tags", "-unit=ms")
        for name in ("futex", "page fault", "preempted", "system call 7", "blocked", "runnable",
                     "blocked incl. run queue"):
            self.assertRegex(tags, rf"ms \(.*\): {name}\n")
        for focus, total in (("reason=futex", 100), ("reason=preempted", 30),
                             ("state=runnable", 50), ("state=^blocked$", 80)):
            out = self.pprof(file, "-top", "-unit=ms", f"-tagfocus={focus}")
            self.assertRegex(out, rf"\n +{total}ms .* app::wait", focus)
        # An interval of two parts is one sample.
        self.assertRegex(self.pprof(file, "-top", "-sample_index=samples"), r"\n +4 .* app::wait")
        leaves = self.pprof(file, "-top", "-unit=ms", "-tagleaf=reason")
        self.assertRegex(leaves, r"\n +100ms .* futex")


if __name__ == "__main__":
    test_export.KYMO = str(ROOT / "build" / "kymo")
    test_export.ROOT = ROOT
    unittest_tap.main(sys.argv[1:])
