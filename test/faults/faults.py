# SPDX-License-Identifier: Apache-2.0 OR MIT
"""What tests of recorded programs have in common: the programs of examples/faults built in the ways
that are used, a recording of one by `kymo run`, and what kymo then says of it.

A test is a file test_NAME.py here; run.py runs them all. What the program measured itself is its
statement (examples/faults/src/lib.rs); a test holds the trace against it.
"""
import argparse
import functools
import json
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile
import unittest

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parent.parent
sys.path[:0] = [str(ROOT / "tools")]
TIMEOUT_S = 120
FOLDERS = {"newest": ROOT / "examples/faults", "v1_38": ROOT / "examples/faults/v1_38"}


class Paths:
    build = ROOT / "build"

    @classmethod
    def kymo(cls):
        return cls.build / "kymo"


@functools.lru_cache(maxsize=None)
def program(name, tokio="newest", profile="release", config=(), flags=()):
    """Path of the program. config: settings of the profile, such as 'strip=true' or
    'lto="fat"'; flags: of rustc. Each set has its own target folder, so cargo keeps what it
    built."""
    kind = "-".join([tokio, *("".join(c for c in one if c.isalnum()) for one in (*config, *flags))])
    target = Paths.build.resolve() / "faults" / kind
    command = ["cargo", "build", "--locked", "--quiet", "--bin", name,
               "--profile", "dev" if profile == "debug" else profile]
    for one in config:
        command += ["--config", f"profile.{profile}.{one}"]
    done = subprocess.run(command, cwd=FOLDERS[tokio], capture_output=True, text=True, check=False,
                          env=dict(os.environ, CARGO_TARGET_DIR=str(target),
                                   CARGO_ENCODED_RUSTFLAGS="\x1f".join(flags)))
    if done.returncode != 0:
        raise RuntimeError(f"cargo build failed in {FOLDERS[tokio]}:\n{done.stderr}")
    return target / profile / name


class Recording:
    """One run of a program under `kymo run`."""

    def __init__(self, folder, status, statement, said):
        self.folder, self.status, self.statement, self.said = folder, status, statement, said
        self.trace = folder / "traces"

    def kymo(self, *words, code=0):
        done = subprocess.run([Paths.kymo(), *map(str, words)], capture_output=True, text=True,
                              timeout=TIMEOUT_S, check=False)
        if done.returncode != code:
            raise AssertionError(f"kymo {words} ended with {done.returncode}: {done.stderr}")
        return done.stdout

    def report(self):
        return json.loads(self.kymo("report", "--json", self.trace))["tables"]

    def report_text(self):
        return self.kymo("report", "--full", self.trace)

    def info(self):
        return json.loads(self.kymo("info", "--json", self.trace))

    def events(self, *types):
        """[(timestamp_ns, name, fields)], of these types where any are given and any are there."""
        known = {one["name"] for one in self.info()["types"]}
        wanted = [word for one in types if one in known for word in ("-t", one)]
        if types and not wanted:
            return []
        lines = self.kymo("events", "--json", *wanted, self.trace).splitlines()
        events = (json.loads(line) for line in lines)
        return [(one.get("timestamp_ns"), one["event"], one["fields"]) for one in events]


class Faults(unittest.TestCase):
    """A case records into a folder of its own."""

    def setUp(self):
        self.dir = pathlib.Path(tempfile.mkdtemp(prefix="kymo-faults-"))
        self.addCleanup(shutil.rmtree, self.dir, ignore_errors=True)

    def record(self, path, *arguments, options=(), status=0):
        """path: of the program, or its name in the release build on the newest Tokio."""
        path = program(path) if isinstance(path, str) else path
        folder = pathlib.Path(tempfile.mkdtemp(dir=self.dir))
        rings = folder / "rings"
        rings.mkdir(mode=0o700)
        command = [Paths.kymo(), "run", *options, "--ring-dir", rings, "-o", folder / "traces",
                   "--", path, *arguments]
        done = subprocess.run(list(map(str, command)), capture_output=True, text=True,
                              timeout=TIMEOUT_S, check=False)
        self.assertEqual(done.returncode, status, done.stderr)
        lines = [line for line in done.stdout.splitlines() if line.startswith("{")]
        return Recording(folder, done.returncode, json.loads(lines[-1]) if lines else None,
                         done.stderr)


def main(names=None):
    """Runs the files of these names (test_NAME.py), or all."""
    import unittest_tap

    parser = argparse.ArgumentParser(description="Records programs with known causes.")
    parser.add_argument("--build", type=pathlib.Path, default=Paths.build)
    parser.add_argument("names", nargs="*", help="of files test_NAME.py; none: all")
    parser.add_argument("-k", metavar="TEXT", help="cases whose name contains it")
    options = parser.parse_args()
    Paths.build = options.build.resolve()
    if shutil.which("cargo") is None:
        print("1..0 # SKIP no cargo here")
        return
    modules = options.names or sorted(path.stem[5:] for path in HERE.glob("test_*.py"))
    sys.path.insert(0, str(HERE))
    main_module = sys.modules["__main__"]
    for name in modules:
        module = __import__(f"test_{name}")
        for key, value in vars(module).items():
            if isinstance(value, type) and issubclass(value, Faults) and value is not Faults:
                setattr(main_module, key, value)
    unittest_tap.main(["-k", options.k] if options.k else [])
