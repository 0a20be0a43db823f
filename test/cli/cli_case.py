# SPDX-License-Identifier: Apache-2.0 OR MIT
"""What tests of the program have in common: a folder for each case, a run of kymo with its exit
code and its one sentence, the two committed traces of dial9."""
import gzip
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "tools"))
import unittest_tap  # noqa: E402

KYMO = os.path.abspath(sys.argv[1])
ROOT = pathlib.Path(sys.argv[2]).resolve()
NEW = "dial9-0.5.7-demo.bin.gz"
OLD = "dial9-2026-05-demo.bin.gz"
SANITIZER = ("AddressSanitizer", "runtime error:", "LeakSanitizer")


class Cli(unittest.TestCase):
    contents = {}  # of the committed traces

    def setUp(self):
        self.dir = pathlib.Path(tempfile.mkdtemp(prefix="kymo-cli-"))
        self.data = ROOT / "test/data"

    def tearDown(self):
        shutil.rmtree(self.dir)

    def run_kymo(self, *args, code=0, data=None, cwd=None, env=None):
        full = dict(os.environ, **(env or {}))
        done = subprocess.run([KYMO, *map(str, args)], input=data, capture_output=True,
                              cwd=cwd or self.data, env=full, check=False)
        done.out = done.stdout.decode(errors="replace")
        done.err = done.stderr.decode(errors="replace")
        for word in SANITIZER:
            self.assertNotIn(word, done.err)
        self.assertEqual(done.returncode, code, f"{args}\n{done.out[-400:]}\n{done.err[-800:]}")
        return done

    def fails(self, *args, code=1, says=(), **more):
        """Fails with exactly one sentence that says what is wanted."""
        done = self.run_kymo(*args, code=code, **more)
        if code == 1:
            self.assertEqual(done.err.count("\n"), 1, done.err)
        for text in says:
            self.assertIn(str(text), done.err)
        return done

    def content(self, *paths):
        if paths not in ((NEW,), (OLD,)):
            return self.run_kymo("events", "--json", *paths).stdout
        if paths not in self.contents:
            self.contents[paths] = self.run_kymo("events", "--json", *paths).stdout
        return self.contents[paths]

    def grouped(self, counts):
        total = {}
        for name, count in counts:
            name = re.sub(r"^(SpanEnter|SpanExit):.*", r"\1", name)
            total[name] = total.get(name, 0) + count
        return total

    def raw(self):
        return gzip.decompress((self.data / OLD).read_bytes())


def main():
    unittest_tap.main(sys.argv[3:])
