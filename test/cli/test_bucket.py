#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0 OR MIT
"""Traces that are read from a bucket: s3://BUCKET/PREFIX in place of a file. The server is
test/lib/mock_s3.py; `make check-s3` has real ones.

usage: test_bucket.py KYMO ROOT HOST [unittest arguments]
"""
import contextlib
import datetime
import gzip
import http.client
import json
import os
import pathlib
import subprocess
import sys
import tempfile
import threading
import unittest

HOST = os.path.abspath(sys.argv.pop(3))
sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "lib"))
import test_serve  # noqa: E402
from cli_case import KYMO, OLD, Cli, main  # noqa: E402
import mock_s3  # noqa: E402
from mock_s3 import MockS3  # noqa: E402
from unittest_tap import DEADLINE_S  # noqa: E402

PLACE = "s3://bucket/pre"
SECOND = 1_000_000_000


def utc(unix_ns):
    when = datetime.datetime.fromtimestamp(unix_ns // SECOND, datetime.timezone.utc)
    return f"{when:%Y-%m-%dT%H:%M:%S}.{unix_ns % SECOND:09}"


def kymo_key(start_ns, end_ns, service="web", host="h1", number=0, run="0123abcd-42-777"):
    when = datetime.datetime.fromtimestamp(start_ns // SECOND, datetime.timezone.utc)
    return (f"/bucket/pre/k1/raw/service={service}/date={when:%Y-%m-%d}/hour={when:%H}/"
            f"host={host}/{start_ns // 10**6}-{(end_ns - start_ns) // 10**6}-{run}-"
            f"{number:06}.trc.zst")


def dial9_key(start_ns, service="web", host="h1", number=0, boot="b1"):
    when = datetime.datetime.fromtimestamp(start_ns // SECOND, datetime.timezone.utc)
    return (f"/bucket/pre/version=1/date={when:%Y-%m-%d}/service={service}/time={when:%H%M}/"
            f"instance={host}/boot={boot}/{start_ns // SECOND}-{number}.bin.gz")


class Bucket(Cli):
    """One sealed segment of some chunks, as kymo run writes it."""
    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.kept = tempfile.TemporaryDirectory(prefix="kymo-bucket-")
        subprocess.run([KYMO, "run", "-q", "-o", cls.kept.name, "--", HOST, "10", "paced=60000",
                        "return"], check=True, capture_output=True)
        cls.path, = pathlib.Path(cls.kept.name).glob("*/2*/000000.trc.zst")
        cls.segment = cls.path.read_bytes()
        info = json.loads(subprocess.run([KYMO, "info", "--json", cls.path],
                                         capture_output=True, check=True).stdout)
        cls.info = info
        cls.start, cls.end = info["unix_ns"], info["unix_ns"] + info["duration_ns"]
        query = ("select (start_ns - {first_ns}) * 10 / {duration_ns} as tenth, count(*) as n "
                 "from polls group by 1 having tenth between 1 and 8 order by n desc limit 1")
        # A machine that stands still leaves some of them empty.
        cls.fullest = json.loads(subprocess.run(
            [KYMO, "query", "--json", query.format(**info), cls.path],
            capture_output=True, check=True).stdout)["rows"][0]["tenth"]

    @classmethod
    def tearDownClass(cls):
        cls.kept.cleanup()
        super().tearDownClass()

    def setUp(self):
        super().setUp()
        self.server = MockS3().__enter__()
        self.env = {**self.server.environment(), "AWS_PROFILE": "", "HOME": str(self.dir)}

    def tearDown(self):
        self.server.__exit__()
        super().tearDown()

    def put(self, key=None, body=None):
        self.server.objects[key or kymo_key(self.start, self.end)] = (
            self.segment if body is None else body, {})

    def ask(self, *args, code=0):
        done = self.run_kymo(*args, code=code, env=self.env)
        for canary in (mock_s3.SECRET, mock_s3.TOKEN):
            self.assertNotIn(canary, done.out + done.err)
        return done

    def refused(self, *args, says=(), code=1):
        done = self.ask(*args, code=code)
        self.assertEqual(done.out, "")
        self.assertEqual(done.err.count("\n"), 1, done.err)
        for text in says:
            self.assertIn(text, done.err)
        return done

    def events(self, *args):
        return [json.loads(line) for line in self.ask("events", "--json", *args).out.splitlines()]

    def raw_segment(self):
        return self.ask("convert", self.path, "--recompress", "--compress", "none", "-o",
                        "-").stdout

    def window(self):
        """A tenth of the trace, inside it and with polls."""
        tenth = (self.end - self.start) // 10
        begin = self.start + self.fullest * tenth
        return "--from", utc(begin), "--to", utc(begin + tenth)

    def gets(self):
        return [path for method, path, _ in self.server.requests if "list-type" not in path]


class Reading(Bucket):
    def test_both_layouts_read_as_the_file_does(self):
        wanted = self.ask("report", "--json", self.path).out
        for key, body in ((kymo_key(self.start, self.end), self.segment),
                          (dial9_key(self.start), gzip.compress(self.raw_segment()))):
            with self.subTest(key):
                self.server.objects.clear()
                self.put(key, body)
                self.assertEqual(self.ask("report", "--json", PLACE).out, wanted)

    def test_of_a_time_the_chunks_in_it_are_fetched(self):
        self.put()
        wanted = [one for one in map(json.loads, self.ask(
            "events", "--json", self.path, *self.window()).out.splitlines())]
        self.assertGreater(len(wanted), 100)
        found = self.events(PLACE, *self.window())
        self.assertEqual([one for one in found if one["event"] != "LossEvent"], wanted)
        self.assertLess(self.server.sent_bytes, len(self.segment))

    def test_a_part_says_what_it_does_not_hold(self):
        self.put()
        part = self.dir / "part.trc.zst"
        self.ask("convert", PLACE, *self.window(), "-o", part)
        info = json.loads(self.ask("info", "--json", part).out)
        self.assertLess(info["events"], self.info["events"])
        self.assertEqual(info["lost_records"], 0)
        self.assertIn("that these files do not hold; nothing is lost",
                      self.ask("info", part).out)
        report = json.loads(self.ask("report", "--json", part).out)
        longest = json.loads(self.ask("report", "--json", self.path).out)
        self.assertLessEqual(report["tables"]["worst_polls"][0]["duration_ns"],
                             longest["tables"]["worst_polls"][0]["duration_ns"])

    def test_one_object_by_its_name(self):
        self.put()
        self.put("/bucket/pre/k1/other.trc.zst", b"no trace")
        key = kymo_key(self.start, self.end)[len("/bucket/"):]
        self.assertEqual(self.ask("events", "--json", "-n", "9", f"s3://bucket/{key}").out,
                         self.ask("events", "--json", "-n", "9", self.path).out)
        self.assertEqual(len(self.server.requests), 2)

    def test_a_server_without_ranges_gives_the_whole(self):
        self.put()
        self.server.has_ranges = False
        self.assertEqual(len(self.events(PLACE, "-n", "9")), 9)
        self.assertGreater(len(self.events(PLACE, *self.window())), 100)

    def test_no_event_is_missing_at_the_edge_of_a_chunk(self):
        """What was named or redacted before it was sent has its time from its name, which has
        milliseconds."""
        traces = self.dir / "traces"
        self.ask("run", "-o", traces, "--to", PLACE, "--layout", "kymo", "--", HOST, "10",
                 "paced=60000", "return")
        info = json.loads(self.ask("info", "--json", traces).out)
        for part in range(20):
            begin = info["unix_ns"] + info["duration_ns"] * part // 20
            range_ = ("--from", utc(begin), "--to", utc(begin + 200_000), "--type", "PollStart",
                      "--type", "PollEnd")
            self.assertEqual(len(self.events(PLACE, *range_)), len(self.events(traces, *range_)))

    def test_what_passes_is_asked_again(self):
        self.put()
        self.server.faults = ["503", "", "reset", "500"]
        self.assertEqual(len(self.events(PLACE, "-n", "9")), 9)

    def test_what_kymo_run_sent_is_what_it_wrote(self):
        for layout in ("kymo", "dial9"):
            place, traces = f"s3://bucket/{layout}", self.dir / layout
            self.ask("run", "-o", traces, "--to", place, "--layout", layout, "--redact", "none",
                     "--", HOST, "20000", "return")
            self.assertEqual(self.ask("report", "--json", place).out,
                             self.ask("report", "--json", traces).out)


    def test_what_was_sent_with_names_of_code_has_an_index(self):
        traces = self.dir / "traces"
        self.ask("run", "-o", traces, "--to", PLACE, "--layout", "kymo", "--", HOST, "10",
                 "burn=300", "return")
        run, = json.loads(self.ask("info", "--json", PLACE).out)["runs"]
        self.assertEqual(run["segments_without_index"], 0)
        begin, end = run["start_unix_ns"], run["end_unix_ns"]
        part = self.ask("report", "--full", PLACE, "--from", utc(begin + (end - begin) // 2),
                        "--to", utc(end)).out
        self.assertNotIn("no index", part)


class Choosing(Bucket):
    def setUp(self):
        super().setUp()
        hour = 3600 * SECOND
        for service in ("web", "api", "a%2Fb"):
            for host in ("h1", "h2"):
                for hours in (-30, -1, 0):
                    begin = self.start + hours * hour
                    self.put(kymo_key(begin, begin + SECOND, service, host,
                                      run=f"0123abcd-{len(service)}{hours + 40}-7"), b"x")
        for number in range(3):
            self.put(dial9_key(self.start + 60 * number * SECOND, "old", number=number), b"x")

    def keys(self, *args):
        """What is listed; the objects are no traces, so nothing more is read of them."""
        runs = json.loads(self.ask("info", "--json", PLACE, *args).out)["runs"]
        return sorted((run["service"], run["host"]) for run in runs)

    def near(self):
        return ("--from", utc(self.start - SECOND), "--to", utc(self.start + 2 * SECOND))

    def test_all_of_them(self):
        self.assertEqual(len(self.keys()), 19)

    def test_a_service_a_host_and_a_time(self):
        self.assertEqual(self.keys(*self.near()),
                         [("a/b", "h1"), ("a/b", "h2"), ("api", "h1"), ("api", "h2"),
                          ("old", "h1"), ("web", "h1"), ("web", "h2")])
        self.assertEqual(self.keys("--service", "a/b", "--host", "h2", *self.near()),
                         [("a/b", "h2")])
        self.assertEqual(self.keys("--service", "web", "--host", "h2"), [("web", "h2")] * 3)

    def test_an_hour_of_one_host_is_listed_by_its_hours_alone(self):
        self.ask("info", PLACE, "--service", "web", "--host", "h1", *self.near())
        listings = [path for _, path, _ in self.server.requests if "list-type" in path]
        self.assertEqual(len(listings), 5, listings)
        self.assertEqual(sum("host%3Dh1" in path for path in listings), 2)

    def test_what_lasts_longer_than_an_hour_is_found_late_in_it(self):
        """Sent by kymo upload; asked for five hours after its beginning, in both layouts."""
        hour = 3600 * SECOND
        begin = self.start
        run = self.dir / "traces/slow/2026-05-18T12-30-00-0123abcd-42-777"
        run.mkdir(parents=True)
        (run / ".kymo-run").write_text("kymo run directory, version 1\n")
        (run / ".lock").touch()
        (run / "000000.trc.zst").write_bytes(self.segment)
        os.utime(run / "000000.trc.zst", ns=(begin + 6 * hour,) * 2)
        late = ("--from", utc(begin + 5 * hour), "--to", utc(begin + 5 * hour + SECOND))
        for layout in ("kymo", "dial9"):
            with self.subTest(layout):
                self.ask("upload", "--to", PLACE, "--layout", layout, "--redact", "none",
                         self.dir / "traces")
                said = [path for _, path, given in self.server.requests
                        if "/k1/long/" in path and "content-length" in given]
                self.assertEqual(len(said), 1, said)
                self.assertRegex(said[0], r"/pre/k1/long/service%3Dslow/date%3D[-0-9]*/"
                                          r"hour%3D\d\d/lasts%3D8$")
                self.refused("info", PLACE, "--service", "api", *late, says=["no trace of"])
                for service in (["--service", "slow"], []):
                    self.server.requests.clear()
                    found = self.keys(*service, *late)
                    # Of kymo's own layout the index is read, and says that its events ended.
                    read = [path for path in self.gets() if "service%3Dslow" in path]
                    self.assertEqual((len(found), len(read)),
                                     (0, 1) if layout == "kymo" else (1, 0))
                self.server.objects = {key: body for key, body in self.server.objects.items()
                                       if "slow" not in key}
                self.server.requests.clear()
        for path in run.glob(".sent-*"):
            path.unlink()
        self.server.faults = ["403 AccessDenied"]
        done = self.ask("upload", "--to", PLACE, "--layout", layout, "--redact", "none",
                        self.dir / "traces")
        self.assertIn("sent 1 segment", done.out)
        self.assertIn("lasts longer than an hour, and the object that says so is refused", done.err)

    def test_what_names_long_segments_is_not_trusted(self):
        """It costs two requests an hour that it names, and names of others nothing."""
        for name in ("service=web/date=2026-05-18/hour=99/lasts=4",
                     "service=web/date=2026-05-18/hour=12/lasts=99999999",
                     "service=web/date=9999-99-99/hour=12/lasts=4",
                     "service=web/date=2026-05-18/hour=-1/lasts=4",
                     "service=web/lasts=4", "lasts=4", "x"):
            self.put(f"/bucket/pre/k1/long/{name}", b"")
        self.assertEqual(self.keys(*self.near())[0], ("a/b", "h1"))
        before = len(self.server.requests)
        for hours in (2, 4, 1024):
            hour = datetime.datetime.fromtimestamp(self.start // SECOND - 7200,
                                                   datetime.timezone.utc)
            self.put(f"/bucket/pre/k1/long/service=web/date={hour:%Y-%m-%d}/hour={hour:%H}/"
                     f"lasts={hours}", b"")
        self.keys(*self.near())
        listings = [path for _, path, _ in self.server.requests if "list-type" in path]
        self.assertEqual(sum(f"hour%3D{hour:%H}" in path for path in listings), 1)
        self.assertGreater(len(self.server.requests), before)

    def test_a_segment_of_dial9_ends_where_the_next_begins(self):
        info = json.loads(self.ask("info", "--json", PLACE, "--service", "old", "--from",
                                   utc(self.start + 70 * SECOND), "--to",
                                   utc(self.start + 80 * SECOND)).out)
        self.assertEqual([run["segments"] for run in info["runs"]], [1])

    def test_a_segment_in_both_layouts_is_one(self):
        run = "0123abcd-99-7"
        self.put(kymo_key(self.start, self.end, "both", run=run))
        self.put(dial9_key(self.start, "both", boot=run), b"x")
        run, = json.loads(self.ask("info", "--json", PLACE, "--service", "both").out)["runs"]
        self.assertEqual((run["segments"], run["segments_without_index"]), (1, 0))

    def test_pages_are_one_list(self):
        self.server.page_keys = 2
        self.assertEqual(len(self.keys()), 19)

    def test_nothing_there_is_said_with_what_was_asked_for(self):
        self.refused("report", PLACE, "--service", "none", "--host", "h1",
                     says=["no trace of service none of host h1 is there"])
        self.refused("info", "s3://bucket/elsewhere", says=["no trace is there"])


class Survey(Bucket):
    def test_names_and_indexes_are_enough(self):
        self.put()
        self.put(dial9_key(self.start, "old"), gzip.compress(self.raw_segment()))
        found = json.loads(self.ask("info", "--json", PLACE).out)
        ours = [run for run in found["runs"] if run["service"] == "web"][0]
        old = [run for run in found["runs"] if run["service"] == "old"][0]
        report = json.loads(self.ask("report", "--json", self.path).out)
        self.assertEqual(ours["events"], self.info["events"])
        self.assertEqual(ours["lost"], 0)
        self.assertEqual(ours["longest_poll"]["duration_ns"],
                         report["tables"]["worst_polls"][0]["duration_ns"])
        self.assertEqual((old["segments_without_index"], "events" in old), (1, False))
        self.assertLess(found["bytes_read"], len(self.segment))

    def test_a_table_for_people(self):
        self.put()
        said = self.ask("info", PLACE).out
        self.assertIn("Longest poll", said)
        self.assertIn("web", said)


class Serving(Bucket, test_serve.Serve):
    def serve(self, *words):
        return test_serve.Server(self.program, *words, env={**os.environ, **self.env})

    def test_a_segment_is_a_row_and_comes_as_it_is(self):
        self.put()
        self.put(dial9_key(self.start, "old"), gzip.compress(self.raw_segment()))
        with self.serve(PLACE) as server:
            rows = {row["service"]: row for row in server.read()}
            self.assertEqual(rows["web"]["polls"], 60010)
            self.assertEqual(rows["web"]["host"], "h1")
            self.assertEqual(rows["old"]["events"], 0)
            status, headers, body = server.ask(f"trace/{rows['web']['id']}")
            self.assertEqual((status, body), (200, self.segment))
            part = server.ask(f"trace/{rows['web']['id']}", Range="bytes=100-199")
            self.assertEqual((part[0], part[2]), (206, self.segment[100:200]))
            again = server.ask(f"trace/{rows['web']['id']}", If_None_Match=headers["ETag"])
            self.assertEqual(again[0], 304)
            page = server.ask()[2].decode()
            for row in rows.values():  # by its index first, where it has one
                self.assertIn(f'href="view.html?open={row["id"]}"', page)
                self.assertTrue(row["is_far"])
            for canary in (mock_s3.ACCESS, mock_s3.SECRET, self.server.url):
                self.assertNotIn(canary, page + json.dumps(rows))
            self.assertEqual(server.ask("trace/0123456789abcdef")[0], 404)
        self.assertEqual((server.code, server.err), (0, ""))

    def test_of_a_time_a_process_is_one_row(self):
        for number in range(3):
            begin = self.start + number * SECOND // 100
            self.put(kymo_key(begin, begin + SECOND // 100, number=number))
        with self.serve(PLACE, "--from", utc(self.start - SECOND), "--to",
                        utc(self.end + SECOND)) as server:
            row, = server.read()
            self.assertEqual(row["polls"], 3 * 60010)
            self.assertIn("3 segments", row["name"])
            body = server.ask(f"trace/{row['id']}")[2]
        self.assertGreater(len(body), 2 * len(self.segment))

    def many(self, count):
        for number in range(count):
            self.put(kymo_key(self.start, self.end + SECOND, number=number))
        return "--from", utc(self.start - SECOND), "--to", utc(self.end + 2 * SECOND)

    def hold(self, alone=0):
        """Objects are answered once two are asked for, but for the first ones. Returns the event
        of that; where they come one after the other it never is."""
        both, lock = threading.Event(), threading.Lock()
        passing, waiting = iter([True] * alone), []

        def wait():
            with lock:
                if next(passing, False):
                    return
                waiting.append(1)
                if len(waiting) == 2:
                    both.set()
            if not both.wait(DEADLINE_S):
                with lock:
                    waiting.pop()
        self.server.on_get = wait
        return both

    def test_segments_of_a_row_are_read_several_at_a_time_and_stand_in_order(self):
        window = self.many(4)
        both = self.hold()
        with self.serve(PLACE, *window) as server:
            row, = server.read()
            self.assertTrue(both.is_set())
            self.assertEqual(row["polls"], 4 * 60010)
            both = self.hold()
            status, _, body = server.ask(f"trace/{row['id']}")
            self.assertEqual((both.is_set(), status), (True, 200))
        self.server.objects = dict(list(self.server.objects.items())[:1])
        self.server.on_get = lambda: None
        with self.serve(PLACE, *window) as server:
            row, = server.read()
            self.assertEqual(4 * server.ask(f"trace/{row['id']}")[2], body)

    def test_the_ends_of_a_rows_segments_are_fetched_several_at_a_time_and_once(self):
        window = self.many(5)
        with self.serve(PLACE, *window) as server:
            row, = server.read()
            self.fetched()
            self.server.requests.clear()
            # The first end is asked for alone: it says whether there are ranges.
            both = self.hold(alone=1)
            found = server.json(f"api/map/{row['id']}?pieces=8")
            self.assertEqual((both.is_set(), len(found["segments"])), (True, 5))
            self.assertEqual(len(self.gets()), 5)
            self.assertLessEqual(self.fetched(), 5 * (32 << 10))
            self.assertEqual(server.json(f"api/map/{row['id']}?pieces=8"), found)
            self.assertEqual(len(self.gets()), 5)

    def test_one_segment_of_a_row_that_cannot_be_had_is_named(self):
        window = self.many(3)
        with self.serve(PLACE, *window) as server:
            row, = server.read()
            self.server.faults = ["403 AccessDenied"] * 3
            status, _, text = server.ask(f"trace/{row['id']}")
            self.assertEqual(status, 502)
            self.assertRegex(text.decode(), r"hour=.*may not read there")
            self.server.faults = []
            self.assertEqual(server.ask(f"trace/{row['id']}")[0], 200)

    def test_segments_of_a_row_that_hang_end_with_the_server(self):
        window = self.many(3)
        with self.serve(PLACE, *window) as server:
            row, = server.read()
            self.server.faults = ["hang"] * 3
            hanging = threading.Thread(target=self.quietly, args=(server, row["id"]))
            hanging.start()
            self.assertTrue(self.server.hanging.wait(DEADLINE_S))
        self.assertEqual(server.code, 0)
        self.server.release.set()
        hanging.join()

    def fetched(self):
        """Bytes of objects that left the bucket since the last look."""
        bytes_, self.server.sent_bytes = self.server.sent_bytes, 0
        return bytes_

    def chunk(self):
        """Of the segment: from and to of a stored chunk in its middle, in the time of its map."""
        with self.serve(PLACE) as server:
            row, = server.read()
            size = server.json(f"api/map/{row['id']}?pieces=4096")
        begins = [at for at, count in enumerate(size["chunks"]) if count]
        middle = begins[len(begins) // 2]
        at = size["duration_ns"] * middle // 4096
        return at, at + 1

    def test_of_an_indexed_segment_what_is_in_view_is_fetched(self):
        """The map costs the end of the object, a part its chunks; both are what files give."""
        self.put()
        wanted, _ = self.local_map("?pieces=64"), self.chunk()
        view = "from={}&to={}".format(*self.chunk())
        self.fetched()
        with self.serve(PLACE) as server:
            row, = server.read()
            self.fetched()
            found = server.json(f"api/map/{row['id']}?pieces=64")
            for key in set(found) - {"segments"}:
                self.assertEqual(found[key], wanted[key], key)
            self.assertLessEqual(self.fetched(), 32 << 10)
            status, _, part = server.ask(f"part/{row['id']}?{view}")
            self.assertEqual((status, part), (200, self.local_part(view)))
            sent = self.fetched()
            self.assertGreater(sent, 0)
            self.assertLessEqual(sent, len(part))
            self.assertLess(sent, len(self.segment) // 2)
            self.assertEqual(server.ask(f"part/{row['id']}?{view}")[2], part)
            self.assertEqual(self.fetched(), 0)
            whole = server.ask(f"trace/{row['id']}")[2]
            self.assertEqual(whole, self.segment)
            self.assertLess(self.fetched(), len(self.segment))  # not again what was there
        self.assertEqual((server.code, server.err), (0, ""))

    def local(self, path):
        with test_serve.Server(self.program, self.path) as server:
            row, = server.read()
            return server.ask(path.format(row["id"]))[2]

    def local_map(self, words):
        return json.loads(self.local("api/map/{}" + words))

    def local_part(self, view):
        return self.local("part/{}?" + view)

    def test_ranges_of_a_row_are_ranges_of_the_object(self):
        """Of one in layout dial9, too, which has no index: a map says so, and costs nothing."""
        body = os.urandom(5 << 20)
        self.put(dial9_key(self.start, "old"), body)
        with self.serve(PLACE) as server:
            row, = server.read()
            self.assertEqual(self.fetched(), 0)
            status, _, text = server.ask(f"api/map/{row['id']}")
            self.assertEqual(status, 422)
            self.assertIn(b"no index", text)
            head = server.ask(f"trace/{row['id']}", method="HEAD")
            self.assertEqual((head[0], head[1]["Content-Length"]), (200, str(len(body))))
            self.assertEqual(self.fetched(), 0)
            part = server.ask(f"trace/{row['id']}", Range="bytes=100-199")
            self.assertEqual((part[0], part[2]), (206, body[100:200]))
            self.assertEqual(self.fetched(), 1 << 20)
            self.assertEqual(server.ask(f"trace/{row['id']}", Range="bytes=-5")[2], body[-5:])
            self.assertEqual(self.fetched(), 5)
            self.assertEqual(server.ask(f"trace/{row['id']}", Range="bytes=99999999-")[0], 416)
            self.assertEqual(self.fetched(), 0)
            self.assertEqual(server.ask(f"trace/{row['id']}")[2], body)
            self.assertEqual(self.fetched(), len(body) - (1 << 20) - 5)

    def test_of_a_time_the_map_ends_where_it_does(self):
        for number in range(3):
            self.put(kymo_key(self.start, self.end + SECOND, number=number))
        window = self.window()
        with self.serve(PLACE, *window) as server:
            row, = server.read()
            found = server.json(f"api/map/{row['id']}?pieces=1")
            tenth = (self.end - self.start) // 10
            self.assertEqual(len(found["segments"]), 3)
            self.assertLessEqual(abs(found["duration_ns"] - tenth), 1)
            self.assertEqual(int(found["start_unix_ns"]), self.start + self.fullest * tenth)
            status, _, part = server.ask(f"part/{row['id']}?from=0&to={found['duration_ns']}")
            self.assertEqual(status, 200)
        path = self.dir / "part.trc.zst"
        path.write_bytes(part)
        info = json.loads(self.ask("info", "--json", path).out)
        self.assertEqual(info["files"][0]["torn"], False)
        self.assertGreater(info["events"], 0)

    def test_an_error_in_the_middle_costs_that_part_alone(self):
        self.put()
        view = "from={}&to={}".format(*self.chunk())
        wanted = self.local_part(view)
        with self.serve(PLACE) as server:
            row, = server.read()
            self.assertEqual(server.ask(f"api/map/{row['id']}")[0], 200)
            self.server.faults = ["403 AccessDenied"]
            status, _, text = server.ask(f"part/{row['id']}?{view}")
            self.assertEqual(status, 502)
            self.assertIn(b"may not read there", text)
            self.server.faults = ["503", "reset"]  # passes
            status, _, part = server.ask(f"part/{row['id']}?{view}")
            self.assertEqual((status, part), (200, wanted))
            self.assertEqual(self.server.faults, [])

    def test_an_object_that_was_replaced_is_not_mixed_with_what_was_there(self):
        self.put()
        view = "from={}&to={}".format(*self.chunk())
        with self.serve(PLACE) as server:
            row, = server.read()
            self.assertEqual(server.ask(f"api/map/{row['id']}")[0], 200)
            self.put(body=self.segment[:-1] + b"x")
            for path in (f"part/{row['id']}?{view}", f"trace/{row['id']}"):
                status, _, text = server.ask(path)
                self.assertEqual(status, 502)
                self.assertIn(b"was replaced or deleted", text)

    def test_a_server_without_ranges_is_asked_for_the_whole_once_more(self):
        self.put()
        view = "from={}&to={}".format(*self.chunk())
        wanted = self.local_part(view)
        self.server.has_ranges = False
        with self.serve(PLACE) as server:
            row, = server.read()
            self.server.requests.clear()
            for _ in range(3):
                self.assertEqual(server.ask(f"api/map/{row['id']}")[0], 200)
                self.assertEqual(server.ask(f"part/{row['id']}?{view}")[2], wanted)
            self.assertEqual(server.ask(f"trace/{row['id']}")[2], self.segment)
            self.assertLessEqual(len(self.gets()), 2)

    def test_what_the_bucket_does_not_give_is_said(self):
        self.put()
        with self.serve(PLACE) as server:
            row, = server.read()
            self.server.objects.clear()
            status, _, body = server.ask(f"trace/{row['id']}")
            self.assertEqual(status, 502)
            self.assertIn(b"was replaced or deleted", body)

    def test_a_trace_that_hangs_holds_up_nobody(self):
        self.put()
        self.put(kymo_key(self.start, self.end, "slow"))
        with self.serve(PLACE) as server:
            rows = {row["service"]: row["id"] for row in server.read()}
            self.server.faults = ["hang"]
            hanging = threading.Thread(target=self.quietly, args=(server, rows["slow"]))
            hanging.start()
            self.assertTrue(self.server.hanging.wait(DEADLINE_S))
            self.assertEqual(server.ask()[0], 200)
            self.assertEqual(len(server.json()["traces"]), 2)
        self.assertEqual(server.code, 0)
        self.server.release.set()
        hanging.join()

    def quietly(self, server, trace):
        with contextlib.suppress(OSError, http.client.HTTPException):
            server.ask(f"trace/{trace}")

    def test_trouble_at_the_start_is_one_sentence(self):
        self.server.faults = ["403 AccessDenied"]
        with self.serve(PLACE) as server:
            self.assertEqual(server.url, "")
        self.assertEqual((server.code, server.err.count("\n")), (1, 1))
        self.assertIn("may not read there", server.err)


class Trouble(Bucket):
    def test_a_listing_without_end(self):
        self.put()
        self.server.is_endless = True
        self.refused("report", PLACE, says=["a listing that does not continue"])

    def test_an_answer_of_a_gigabyte(self):
        self.put()
        self.server.faults = ["huge"] * 9
        self.refused("report", PLACE, says=["500"])
        self.assertLess(self.server.huge_bytes, 128 << 20)

    def test_what_a_person_has_to_mend(self):
        self.put()
        for fault, says in (("403 AccessDenied", "may not read there (s3:ListBucket"),
                            ("404 NoSuchBucket", "make the bucket, or name another"),
                            ("403 SignatureDoesNotMatch", "credentials are not valid")):
            with self.subTest(fault):
                self.server.faults = [fault]
                self.refused("report", PLACE, says=[says])

    def test_a_redirect_is_not_followed(self):
        with MockS3() as other:
            self.server.other = other.url + "/elsewhere"
            self.server.faults = ["away"] * 9
            self.refused("report", PLACE, says=["307"])
            self.assertEqual(other.requests, [])

    def test_what_is_gone_or_no_trace_costs_itself_alone(self):
        wanted = self.ask("events", "--json", "-n", "9", self.path).out
        self.put()
        for fault in ("404 NoSuchKey", "412 PreconditionFailed", "403 InvalidObjectState"):
            with self.subTest(fault):
                self.put(kymo_key(self.start, self.end, "gone"))
                self.server.faults = ["", "", fault]
                done = self.ask("info", PLACE)
                self.assertIn("gone", done.out)
                self.server.objects = {key: body for key, body in self.server.objects.items()
                                       if "gone" not in key}
        self.put(kymo_key(self.start, self.end, "odd", number=1), b"no trace at all")
        done = self.ask("events", "--json", "-n", "9", PLACE)
        self.assertEqual(done.out, wanted)
        self.assertIn("1 object is no trace", done.err)
        self.assertIn("service=odd", done.err)
        self.server.objects.pop(kymo_key(self.start, self.end))
        self.assertIn("none of these traces can be read", self.ask("report", PLACE, code=1).err)

    def test_of_a_process_that_is_not_there_nothing_is_listed(self):
        self.put()
        self.assertEqual(json.loads(self.ask("info", "--json", PLACE, "--pid", "1").out)["runs"],
                         [])

    def test_a_damaged_index_costs_the_shortcut_alone(self):
        body = bytearray(self.segment)
        body[-40:] = bytes(40)
        self.put(body=bytes(body))
        found = self.events(PLACE, *self.window())
        self.assertGreater(len(found), 100)

    def test_names_are_shown_safely(self):
        odd = ["\x1b[31mred\n.trc.zst", "../../../etc/cron.d/x.trc", "a//b/../c.trc.zst", "/x.trc",
               "k" * 1019 + ".trc", "a\u202eb.trc", "k1/raw/service=%1b%5b31m/date=2026-05-18/"
               "hour=12/host=..%2f..%2fx/1779107405250-1-b-1.trc.zst"]
        for key in odd:
            self.put(f"/bucket/{key}", b"x")
        for words in (("info",), ("info", "--json"), ("report",), ("convert", "-o", "out.trc")):
            done = self.ask(words[0], "s3://bucket", *words[1:], code=int(words[0] != "info"))
            text = done.out + done.err
            self.assertFalse([letter for letter in text if letter < " " and letter != "\n"], text)
            self.assertNotIn("\u202e", text)
        self.assertEqual([path.name for path in self.dir.rglob("*")], [])

    def test_too_much_is_refused_before_it_is_fetched(self):
        self.put()
        self.refused("report", PLACE, "--max-fetch", "1K", says=["--max-fetch", "--from"])
        self.assertEqual(self.gets(), [])

    def test_wrong_words(self):
        for args, says in (((PLACE, PLACE), "a bucket stands alone"),
                           ((PLACE, self.data / OLD), "a bucket stands alone"),
                           ((PLACE, "--from", "10s"), "a time in UTC"),
                           ((PLACE, "--from", "2026-05-18T12:30:00", "--to",
                             "2026-05-18T12:30:00"), "--to lies at or before"),
                           (("s3://A",), "a bucket's name has"),
                           (("s3://bucket/a/../b",), "no '.' or '..'")):
            with self.subTest(args):
                self.refused("report", *args, says=[says], code=2)
        self.refused("info", self.path, "--last", "10s", code=2,
                     says=["choose here what is read of a bucket"])
        self.assertEqual(self.server.requests, [])

    def test_no_place_for_temporary_files(self):
        self.put()
        self.env["TMPDIR"] = "/dev/null"
        self.refused("report", PLACE, says=["TMPDIR"])


class Local(Bucket):
    def test_a_service_is_chosen_of_files_too(self):
        self.fails("report", self.path, "--service", "none",
                   says=["none of these files is of service none"])


if __name__ == "__main__":
    main()
