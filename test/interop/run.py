#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0 OR MIT
"""run.py - our traces in dial9's readers, dial9's traces in ours. Prints TAP.

Three readers decode the same bytes: `kymo`, the decoder of the crate dial9-trace-format (through
dial9-dump), and the viewer's parser from the crate dial9-viewer, which cargo downloads and which is
never part of this tree. The crate's counts and values are the reference.
"""
import collections
import gzip
import json
import pathlib
import random
import re
import shutil
import subprocess
import sys
import tempfile
import unittest

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parent.parent
sys.path[:0] = [str(ROOT / "tools"), str(ROOT / "test/lib")]
import dial9_viewer  # noqa: E402
import unittest_tap  # noqa: E402

KYMO = ROOT / "build" / "kymo"
CARGO = ROOT / "build" / "cargo"
DUMP = CARGO / "interop" / "release" / "dial9-dump"
SERVICE = CARGO / "demo" / "release" / "demo-service"
DATA = sorted((ROOT / "test" / "data").glob("dial9-*.bin.gz"))
CUTS = 20
SEED = 20261121


def run(argv, **options):
    done = subprocess.run([str(word) for word in argv], capture_output=True, **options)
    if done.returncode != 0:
        raise AssertionError(f"{' '.join(map(str, argv))} ended with {done.returncode}:\n"
                             f"{done.stderr.decode(errors='replace')[-2000:]}")
    return done.stdout


def cargo_build(manifest, target):
    run(["cargo", "build", "--quiet", "--locked", "--release", "--manifest-path", manifest,
         "--target-dir", CARGO / target])


def crate_counts(raw):
    return json.loads(run([DUMP, "counts"], input=raw))


def kymo_counts(*paths):
    info = json.loads(run([KYMO, "info", "--json", *paths]))
    counts = collections.Counter()
    for entry in info["types"]:
        counts[entry["name"]] += entry["count"]
    return dict(counts)


def canonical(value):
    """One spelling for what the two sides write differently: containers as tuples of pairs."""
    if isinstance(value, dict):
        return tuple(sorted((key, canonical(item)) for key, item in value.items()))
    if isinstance(value, list):
        pairs = [item for item in value if isinstance(item, list) and len(item) == 2]
        if value and len(pairs) == len(value) and all(isinstance(key, str) for key, _ in pairs):
            return tuple(sorted((key, canonical(item)) for key, item in pairs))
        return tuple(canonical(item) for item in value)
    if isinstance(value, bool):
        return int(value)
    if isinstance(value, str) and re.fullmatch(r"0x[0-9a-f]+", value):
        return int(value, 16)  # frames of a stack
    return value


def crate_events(raw):
    """Every event the crate decodes, as a multiset."""
    events = collections.Counter()
    for line in run([DUMP, "events"], input=raw).decode().splitlines():
        name, time_ns, fields = json.loads(line)
        present = [(key, canonical(value)) for key, value in fields if value is not None]
        events[name, time_ns, tuple(sorted(present))] += 1
    return events


def kymo_events(*paths):
    """The same from `kymo events --format jsonl`."""
    events = collections.Counter()
    for line in run([KYMO, "events", "--format", "jsonl", *paths]).decode().splitlines():
        row = json.loads(line)
        present = [(key, canonical(value)) for key, value in row["fields"].items()
                   if value is not None]
        events[row["event"], row["timestamp_ns"], tuple(sorted(present))] += 1
    return events


def decompressed(path):
    if path.name.endswith(".gz"):
        return gzip.decompress(path.read_bytes())
    if path.name.endswith(".zst"):
        return run(["zstd", "--quiet", "--decompress", "--stdout", path])
    return path.read_bytes()


def segments(directory):
    """Sealed segments below a trace directory, in order."""
    found = sorted(path for path in pathlib.Path(directory).rglob("*.trc*")
                   if path.is_file() and not path.name.endswith(".active"))
    if not found:
        raise AssertionError(f"no segment in {directory}")
    return found


def viewer_scripts():
    """The published parser's folder."""
    return dial9_viewer.skills() / "dial9-toolkit/scripts"


def viewer_parse(scripts, path):
    return json.loads(run(["node", HERE / "viewer_parse.js", scripts, path]))


class Interop(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cargo_build(HERE / "dial9-dump" / "Cargo.toml", "interop")
        cargo_build(ROOT / "examples" / "demo-service" / "Cargo.toml", "demo")
        cls.scratch = pathlib.Path(tempfile.mkdtemp(prefix="kymo-interop-"))
        cls.addClassCleanup(shutil.rmtree, cls.scratch)
        cls.recorded = cls.scratch / "recorded"
        said = run([KYMO, "run", "-o", cls.recorded, "--", SERVICE, "--load-seconds", "2"])
        cls.requests = int(re.search(rb"demo-load: (\d+) requests", said)[1])

    def assert_same_events(self, theirs, ours):
        missing, extra = theirs - ours, ours - theirs
        self.assertTrue(theirs)
        self.assertEqual((sum(missing.values()), sum(extra.values())), (0, 0),
                         f"only the crate: {list(missing)[:3]}\nonly kymo: {list(extra)[:3]}")

    def store(self, name, raw, container):
        """Writes raw bytes in a container, under a name without an extension."""
        path = self.scratch / name
        if container == "gzip":
            path.write_bytes(gzip.compress(raw, 1, mtime=0))
        elif container == "zstd":
            path.write_bytes(run(["zstd", "--quiet", "-1", "--stdout"], input=raw))
        else:
            path.write_bytes(raw)
        return path

    def test_data__both_traces_are_there(self):
        self.assertEqual([path.name for path in DATA],
                         ["dial9-0.5.7-demo.bin.gz", "dial9-2026-05-demo.bin.gz"])

    def test_dial9_traces__kymo_counts_what_the_crate_counts(self):
        for path in DATA:
            with self.subTest(trace=path.name):
                theirs = crate_counts(decompressed(path))
                self.assertIsNone(theirs["error"])
                self.assertEqual(kymo_counts(path), theirs["counts"])

    def test_dial9_traces__kymo_reads_the_values_that_the_crate_reads(self):
        for path in DATA:
            with self.subTest(trace=path.name):
                self.assert_same_events(crate_events(decompressed(path)), kymo_events(path))

    def test_cuts__kymo_counts_what_the_crate_counts_up_to_any_byte(self):
        draw = random.Random(SEED)
        for path in DATA:
            raw = decompressed(path)
            for number in range(CUTS):
                cut = draw.randrange(5, len(raw))
                container = draw.choice(("raw", "gzip", "zstd"))
                with self.subTest(trace=path.name, cut=cut, container=container):
                    piece = self.store(f"cut-{number}", raw[:cut], container)
                    self.assertEqual(kymo_counts(piece), crate_counts(raw[:cut])["counts"])

    def converted(self, path, number):
        target = self.scratch / f"converted-{number}.trc"
        if not target.exists():
            run([KYMO, "convert", path, "-o", target])
        return target

    def test_convert__the_crate_reads_the_same_events_from_our_encoder(self):
        for number, path in enumerate(DATA):
            with self.subTest(trace=path.name):
                ours = decompressed(self.converted(path, number))
                self.assertIsNone(crate_counts(ours)["error"])
                self.assert_same_events(crate_events(decompressed(path)), crate_events(ours))

    def test_convert__the_viewer_makes_the_same_of_our_encoder(self):
        scripts = viewer_scripts()
        for number, path in enumerate(DATA):
            with self.subTest(trace=path.name):
                theirs = viewer_parse(scripts, path)
                ours = viewer_parse(scripts, self.converted(path, number))
                for part in ("events", "spawns", "ends", "perWorker", "schedulingDelays",
                             "blockInPlaceGaps", "disorder"):
                    self.assertEqual(ours[part], theirs[part], part)

    def test_recorded__the_crate_reads_what_kymo_reads(self):
        total = collections.Counter()
        for path in segments(self.recorded):
            raw = decompressed(path)
            theirs = crate_counts(raw)
            self.assertIsNone(theirs["error"])
            self.assertEqual(kymo_counts(path), theirs["counts"])
            self.assert_same_events(crate_events(raw), kymo_events(path))
            total.update(theirs["counts"])
        self.assertEqual(kymo_counts(self.recorded), dict(total))
        # How many requests there are in two seconds is the machine's business.
        self.assertGreater(self.requests, 0)
        self.assertGreater(total["PollStartEvent"], self.requests)
        self.assertGreater(total["WakeEventEvent"], self.requests / 2)

    def test_recorded__the_viewer_opens_it_and_finds_nothing_false(self):
        scripts = viewer_scripts()
        raw = b"".join(decompressed(path) for path in segments(self.recorded))
        seen = viewer_parse(scripts, self.store("recorded.bin", raw, "raw"))
        counts = crate_counts(raw)["counts"]
        short = {"PollStart": "PollStartEvent", "PollEnd": "PollEndEvent",
                 "WorkerPark": "WorkerParkEvent", "WorkerUnpark": "WorkerUnparkEvent",
                 "WakeEvent": "WakeEventEvent"}
        for theirs, name in short.items():
            self.assertEqual(seen["events"].get(theirs, 0), counts.get(name, 0), name)
        self.assertEqual(seen["disorder"]["overlaps"], 0)
        self.assertEqual(seen["disorder"]["strayEnds"], 0)
        self.assertEqual(seen["blockInPlaceGaps"], 0, "the service never calls block_in_place")
        self.assertFalse(seen["truncated"])
        self.assertEqual((seen["incompleteFiles"], seen["sealedFiles"]),
                         (0, len(segments(self.recorded))), "a sealed file lost no events")
        self.assertEqual(seen["metadata"]["tokio.local_queue"], "false")
        self.assertEqual(len([worker for worker, row in seen["perWorker"].items()
                              if row["parks"] > 0]), 2, "the service has two workers")

    def test_recorded__the_viewers_worst_polls_are_ours(self):
        scripts = viewer_scripts()
        raw = b"".join(decompressed(path) for path in segments(self.recorded))
        seen = viewer_parse(scripts, self.store("recorded.bin", raw, "raw"))
        report = json.loads(run([KYMO, "report", "--json", self.recorded]))["tables"]
        ours = [poll["duration_ns"] for poll in report["worst_polls"]]
        self.assertEqual([row["ns"] for row in seen["longest"]], ours)

    def test_recorded__its_analysis_runs_to_the_end(self):
        scripts = viewer_scripts()
        raw = b"".join(decompressed(path) for path in segments(self.recorded))
        path = self.store("analyzed.bin", raw, "raw")
        report = run(["node", scripts / "analyze.js", path]).decode(errors="replace")
        self.assertIn("report::render", report)


if __name__ == "__main__":
    if not KYMO.is_file():
        sys.exit(f"interop: {KYMO.relative_to(ROOT)} is missing: run make first")
    unittest_tap.main()
