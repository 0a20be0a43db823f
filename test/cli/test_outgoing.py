#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0 OR MIT
"""What leaves the machine: code has its names, what others shall not read is replaced, and a
segment that is sent again is known again. The server is test/lib/mock_s3.py.

usage: test_outgoing.py KYMO ROOT HOST [unittest arguments]
"""
import gzip
import json
import os
import pathlib
import re
import shutil
import signal
import subprocess
import sys
import unittest

HOST = os.path.abspath(sys.argv.pop(3))
from cli_case import KYMO, main  # noqa: E402
import test_upload  # noqa: E402
from test_upload import DEADLINE_S, MockS3, Upload, wait_until  # noqa: E402
import test_scrub  # noqa: E402
from test_symbolize import build, build_id, function  # noqa: E402
from trace_maker import Trace  # noqa: E402

CANARY = test_scrub.CANARY.encode()
BIAS = 0x7F0000000000


class Outgoing(Upload):
    def secret_run(self, service="front"):
        run = self.make_run(0, service=service)
        test_scrub.secrets().save(run / "000000.trc")
        return run

    def sent(self, server):
        """What the only object unpacks to, and all that was said around it."""
        (key, (body, given)), = server.objects.items()
        return gzip.decompress(body), f"{key} {sorted(given.items())}".encode()

    def found(self, data):
        return {one[-1:] for one in re.findall(CANARY + b".", data)}


class Redaction(Outgoing):
    def test_arguments_and_homes_stay_here_unless_it_is_told_otherwise(self):
        self.secret_run()
        with MockS3() as server:
            done = self.upload(server, redact=None)
            data, around = self.sent(server)
        self.assertEqual(self.found(data), {b"3", b"4", b"5", b"6", b"7", b"8", b"A", b"B", b"C"})
        self.assertNotIn(b"joecanary", data)
        self.assertIn(b"~/app/src/main.rs:5:9", data)
        self.assertIn(b"app::work", data)
        self.assertNotIn(b"canary", around + (done.stdout + done.stderr).encode())

    def test_each_level_reaches_every_destination(self):
        for level, kept in (("values", (b"app::work", b"login", b"front", b"box")), ("names", ())):
            with self.subTest(level), MockS3() as server:
                run = self.secret_run()
                place = self.dir / level
                place.mkdir()
                keep = self.dir / f"keep-{level}"
                keep.write_text(f"#!/bin/sh\ncp $KYMO_SEGMENT_PATH {place}/trace\n"
                                f"cat > {place}/input\nenv > {place}/env\n")
                keep.chmod(0o755)
                done = self.upload(server, "--exec", str(keep), redact=level)
                data, around = self.sent(server)
                for path in (place / "trace", place / "input"):
                    self.assertEqual(self.content(path).count(b"\n"),
                                     self.content(run / "000000.trc").count(b"\n"))
                    data += path.read_bytes()
                facts = b"".join(line for line in (place / "env").read_bytes().splitlines(True)
                                 if line.startswith(b"KYMO_SEGMENT_"))
                texts = data + around + facts + (done.stdout + done.stderr).encode()
                for path in run.glob(".sent-*"):
                    texts += path.read_bytes()
                for secret in (b"canary", b"yranac"):
                    self.assertNotIn(secret, texts)
                for word in (b"app::work", b"login", b"front", b"box"):
                    self.assertEqual(word in data + around + facts, word in kept, word)
                shutil.rmtree(self.traces)

    def test_none_sends_the_file_itself(self):
        run = self.secret_run()
        with MockS3() as server:
            self.upload(server, "--layout", "kymo", "--no-symbols", redact="none")
            (body, given), = server.objects.values()
        self.assertEqual(body, (run / "000000.trc").read_bytes())
        self.assertNotIn("x-amz-meta-kymo-origin", given)

    def test_reports_of_the_copy_say_the_same(self):
        run = self.make_run(0)
        shutil.copy(self.data / test_scrub.NEW, run / "000000.trc.gz")
        with MockS3() as server:
            self.upload(server, redact="args")
            # Its file is younger than its events by months.
            body, = (body for key, (body, _) in server.objects.items() if "/long/" not in key)
        copy = self.dir / "copy.gz"
        copy.write_bytes(body)
        self.assertEqual(self.run_kymo("report", "--json", copy).stdout,
                         self.run_kymo("report", "--json", run / "000000.trc.gz").stdout)

    def test_a_level_that_is_none_is_said(self):
        self.secret_run()
        with MockS3() as server:
            done = self.upload(server, redact="all", code=2)
        self.assertIn("args, values, names or none, not 'all'", done.stderr)


class Again(Outgoing):
    """The list of what was sent is gone, as after a kill between the answer and the line."""

    def forget(self, run):
        for path in run.glob(".sent-*"):
            path.unlink()

    def test_what_was_sent_is_known_again_at_every_level(self):
        for level in ("args", "values", "names"):
            with self.subTest(level), MockS3(["lost answer"]) as server:
                run = self.secret_run()
                self.assertIn("sent 1 segment", self.upload(server, redact=level).stdout)
                first = server.objects.copy()
                self.forget(run)
                self.assertIn("sent 1 segment", self.upload(server, redact=level).stdout)
                self.assertEqual(server.objects, first)
                shutil.rmtree(self.traces)

    def test_other_bytes_of_the_same_segment_are_known_too(self):
        run = self.secret_run()
        with MockS3() as server:
            self.upload(server, redact="args")
            key, (_, given) = next(iter(server.objects.items()))
            server.objects[key] = (b"packed by an older library",
                                   {**given, "x-amz-meta-kymo-sha256": "0" * 64})
            self.forget(run)
            self.assertIn("sent 1 segment", self.upload(server, redact="args").stdout)
            for level, marker in (("values", None), ("args", run.parent / ".send-key")):
                if marker:
                    marker.unlink()
                self.forget(run)
                done = self.upload(server, redact=level, code=1)
                self.assertIn("another object has its name", done.stderr)

    def test_the_key_is_its_owners_alone_and_one_that_is_not_sends_nothing(self):
        run = self.secret_run()
        key = run.parent / ".send-key"
        with MockS3() as server:
            self.upload(server, redact="names")
            self.assertEqual(key.stat().st_mode & 0o777, 0o600)
            self.forget(run)
            server.objects.clear()
            key.chmod(0o644)
            done = self.upload(server, "--upload-timeout", "100ms", redact="names", code=1)
            self.assertIn(".send-key", done.stderr)
            self.assertEqual(server.objects, {})


class Symbols(Outgoing):
    def named_run(self):
        program = build(self.dir, "-g")
        start, count = function(program, "outer_work")
        trace = Trace().metadata(service="front", host="box", pid=7, kymo__version="1")
        trace.map(program, build_id(program), BIAS, BIAS + 0x100000, BIAS)
        trace.stack(100, *[BIAS + start + i for i in range(count)])
        run = self.make_run(0)
        trace.save(run / "000000.trc")
        return run

    def rows(self, server):
        (body, _), = server.objects.values()
        copy = self.dir / "copy.gz"
        copy.write_bytes(body)
        return [line["fields"] for line in map(json.loads, self.content(copy).splitlines())
                if line["event"].startswith("Symbol")]

    def test_code_has_its_names_before_it_leaves(self):
        for level in ("args", "none"):
            with self.subTest(level), MockS3() as server:
                self.named_run()
                self.upload(server, redact=level)
                rows = self.rows(server)
                self.assertIn(("inner_work", 1),
                              {(row["symbol_name"], row["inline_depth"]) for row in rows})
                self.assertTrue(all(row["source_file"].endswith("work.c") for row in rows))
                shutil.rmtree(self.traces)

    def test_names_are_redacted_after_they_were_found(self):
        self.named_run()
        with MockS3() as server:
            self.upload(server, redact="names")
            rows = self.rows(server)
        self.assertTrue(rows)
        for row in rows:
            self.assertRegex(row["symbol_name"], r"^n[0-9a-f]{12}$")
            self.assertRegex(row["source_file"], r"^n[0-9a-f]{12}$")

    def test_addresses_stay_without_names_on_demand(self):
        run = self.named_run()
        with MockS3() as server:
            self.upload(server, "--no-symbols", redact="args")
            self.assertEqual(self.rows(server), [])
            server.objects.clear()
            next(run.glob(".sent-*")).unlink()
            self.upload(server, "--no-symbols", redact="none")
            self.assertEqual(self.sent(server)[0], (run / "000000.trc").read_bytes())

    def test_a_program_that_was_replaced_meanwhile_costs_no_segment(self):
        run = self.named_run()
        with MockS3() as server:
            self.upload(server, redact="args")
            next(run.glob(".sent-*")).unlink()
            (self.dir / "prog").unlink()
            self.assertIn("sent 1 segment", self.upload(server, redact="args").stdout)
            self.assertTrue(self.rows(server))


class Dumps(Outgoing):
    """A dump of a rule is an object like a segment, and then the manifest that says it is whole."""

    def dump(self, service="front"):
        place = pathlib.Path(f"{self.traces}.dumps")
        place.mkdir()
        path = place / f"{service}-7-20260518T123000Z-1.trc"
        trace = test_scrub.secrets()
        trace.metadata(boot_id="0123abcd-4567", process__start_time_ticks=777)
        return trace.save(path)

    def manifest(self, server):
        (key, (body, given)), = [one for one in server.objects.items()
                                 if one[0].endswith(".json")]
        return key, json.loads(body), given

    def test_a_dump_and_then_its_manifest(self):
        path = self.dump()
        self.make_run(1)
        with MockS3() as server:
            self.assertIn("sent 2 segments", self.upload(server).stdout)
            key, said, given = self.manifest(server)
            puts = [request[1] for request in server.requests]
        objects = [one for one in server.objects if "service=front" in one]
        self.assertEqual(len(objects), 1)
        self.assertRegex(objects[0], r"boot=0123abcd-7-777/\d+-\d+\.bin\.gz$")
        self.assertRegex(key, rf"^/bucket/pre/dumps/{said['dump_id']}\.json$")
        self.assertEqual([puts.index(one) for one in puts if "dumps" in one], [1], puts)
        self.assertEqual(said["segments"], [objects[0].removeprefix("/bucket/")])
        self.assertEqual((said["segments_processed"], said["triggered_at"]),
                         (1, "2026-05-18T12:30:00.000000000Z"))
        self.assertEqual(set(said), {"dump_id", "triggered_at", "time_range", "metadata",
                                     "segments_processed", "segments"})
        self.assertEqual(given["content-type"], "application/json")
        self.assertEqual(server.objects[objects[0]][1]["x-amz-meta-dump-id"], said["dump_id"])
        self.assertEqual(gzip.decompress(server.objects[objects[0]][0]), path.read_bytes())

    def test_a_manifest_that_did_not_arrive_is_sent_again_and_the_dump_is_not(self):
        path = self.dump()
        with MockS3(["", "500", "403 AccessDenied"]) as server:
            self.upload(server, "--upload-timeout", "2s", code=1)
            self.assertEqual(len(server.objects), 1)
            self.assertIn("sent 1 segment", self.upload(server).stdout)
            self.assertEqual(len(server.objects), 2)
            next(path.parent.glob(".sent-*")).unlink()
            self.upload(server)
            self.assertEqual(len(server.objects), 2)

    def test_the_layout_of_kymo_has_its_place_for_it(self):
        self.dump("front.end")
        with MockS3() as server:
            self.upload(server, "--layout", "kymo")
            key, said, _ = self.manifest(server)
        self.assertRegex(key, r"^/bucket/pre/k1/dump/\w{26}\.json$")
        self.assertTrue(said["segments"][0].endswith(".trc"), said)

    def test_a_service_is_in_no_name_of_it_at_the_level_of_names(self):
        self.dump("canaryweb")
        env = self.dir / "env"
        keep = self.dir / "keep"
        keep.write_text(f"#!/bin/sh\nenv | grep KYMO_SEGMENT > {env}\n")
        keep.chmod(0o755)
        with MockS3() as server:
            done = self.upload(server, "--exec", str(keep), redact="names")
            texts = str(server.objects).encode() + env.read_bytes() + done.stdout.encode()
        self.assertNotIn(b"canary", texts)
        self.assertRegex(env.read_text(), r"KYMO_SEGMENT_DUMP=\w{26}\n")

    def test_what_is_no_dump_stays(self):
        path = self.dump()
        for name in ("notes.txt", "front-7-20260518T123000Z-2.trc.active", "front.trc"):
            shutil.copy(path, path.parent / name)
        (path.parent / "front-7-20260518T123000Z-3.trc").symlink_to("/etc/passwd")
        with MockS3() as server:
            self.assertIn("sent 1 segment", self.upload(server).stdout)

    def one(self, server, path, *args, code=0, to="s3://bucket/pre", redact="args"):
        done = subprocess.run([KYMO, "upload", str(path), "--to", to, "--redact", redact, *args],
                              capture_output=True, text=True, env=self.environment(server),
                              timeout=DEADLINE_S, check=False)
        self.assertEqual(done.returncode, code, done.stderr)
        return done

    def test_a_dump_by_its_file_with_any_name(self):
        """As `kymo dump` names it, and as its user did: redacted, with a manifest, once."""
        first = self.dump().rename(self.dir / "front-7-20260518T123000Z.trc")
        odd = self.dir / "of last‮night.trc"
        shutil.copy(first, odd)
        link = self.dir / "link.trc"
        link.symlink_to(odd)
        with MockS3() as server:
            for path, said in ((first, "sent 1 segment"), (first, "sent 0 segments"),
                               (odd, "sent 1 segment"), (link, "sent 0 segments")):
                self.assertIn(said, self.one(server, path).stdout)
            manifests = [json.loads(body) for key, (body, _) in server.objects.items()
                         if key.endswith(".json")]
            self.assertEqual(len(server.objects), 4)
        self.assertEqual(len({one["dump_id"] for one in manifests}), 2)
        for one in manifests:
            key, = one["segments"]
            body, given = server.objects["/bucket/" + key]
            self.assertRegex(key, r"service=\w+/.*boot=0123abcd-7-777/\d+-\d+\.bin\.gz$")
            self.assertEqual(given["x-amz-meta-dump-id"], one["dump_id"])
            self.assertNotIn(test_scrub.CANARY.encode() + b"2", gzip.decompress(body))

    def test_a_directory_of_dumps_alone(self):
        path = self.dump()
        with MockS3() as server:
            self.assertIn("sent 1 segment", self.one(server, path.parent).stdout)
            self.assertEqual(len(server.objects), 2)

    def test_what_is_no_dump_by_its_file_is_refused(self):
        run = self.make_run(1)
        text, path = self.dir / "text.trc", self.dump()
        text.write_text("no trace")
        with MockS3() as server:
            for one, code, says in ((run / "000000.trc", 2, "with its run"),
                                    (text, 1, "not a trace"),
                                    (self.dir / "none.trc", 1, "No such file")):
                done = self.one(server, one, code=code)
                self.assertEqual((done.stdout, done.stderr.count("\n")), ("", 1), done.stderr)
                self.assertIn(says, done.stderr)
            done = self.one(server, path, code=2, to="otlp:http://127.0.0.1:1")
            self.assertIn("--push", done.stderr)
            self.assertEqual(server.requests, [])

    def test_a_run_in_flight_mode_sends_its_dumps_and_its_end(self):
        go = self.dir / "go"
        with MockS3() as server, subprocess.Popen(
                [KYMO, "run", "--mode", "flight", "--ring-dir", str(self.dir / "rings"), "-o",
                 str(self.traces), "--dump-dir", str(self.dir / "kept"), "--trigger",
                 "poll>20ms cooldown=1h", "--to", "s3://bucket/pre", "--", HOST, "200", "begin=7",
                 f"wait={go}"], env=self.environment(server), stderr=subprocess.PIPE,
                text=True) as process:
            wait_until(lambda: any(key.endswith(".json") for key in list(server.objects)))
            go.touch()
            _, err = process.communicate(timeout=DEADLINE_S)
            self.assertEqual(len(server.objects), 3, err)
            _, said, _ = self.manifest(server)
            self.assertIn("/bucket/" + said["segments"][0], server.objects)
        self.assertEqual(len(list((self.dir / "kept").glob("*.trc.zst"))), 1)


class Rings(test_upload.Records):
    """Recorder and program are killed together: the rest is in the ring."""

    def setUp(self):
        super().setUp()
        self.rings = self.dir / "rings"

    def kill_both(self, server):
        ready = self.dir / f"ready{len(list(self.dir.glob('ready*')))}"
        with self.start(server, "--upload-timeout", "0", "--", HOST, "2000", f"touch={ready}",
                        f"wait={self.dir / 'never'}") as process:
            wait_until(ready.exists)
            wait_until(lambda: list(self.traces.glob("*/2*/*.active")))
            process.send_signal(signal.SIGSTOP)
            pid, = subprocess.run(["pgrep", "-P", str(process.pid)], check=True, text=True,
                                  capture_output=True).stdout.split()
            os.kill(int(pid), signal.SIGKILL)
            process.kill()
            process.wait()
        return int(pid)

    def polls(self, server):
        """Of all that arrived, once each."""
        for number, (body, _) in enumerate(server.objects.values()):
            (self.dir / f"copy{number}.gz").write_bytes(body)
        return next(one["count"] for one in json.loads(self.run_kymo(
            "info", "--json", *self.dir.glob("copy*.gz")).stdout)["types"]
                    if one["name"] == "PollEndEvent")

    def test_an_upload_sends_what_dead_processes_left_in_rings(self):
        with MockS3() as server:
            server.server.server_close()
            pid = self.kill_both(server)
        self.assertEqual(len(list(self.rings.glob("*.ring"))), 1)
        with MockS3() as server:
            done = self.upload(server, "--ring-dir", str(self.rings), redact=None)
            self.assertRegex(done.stderr, rf"made from the ring of pid {pid}, which ended")
            self.assertEqual(self.polls(server), 2000)
            self.assertEqual(list(self.rings.glob("*.ring")), [])
            count = len(server.objects)
            self.upload(server, "--ring-dir", str(self.rings), redact=None)
            self.assertEqual(len(server.objects), count)

    def test_the_next_run_sends_it_too(self):
        with MockS3() as server:
            server.server.server_close()
            self.kill_both(server)
        with MockS3() as server:
            self.run_kymo_to(server, "--", HOST, "1000")
            self.assertEqual(list(self.rings.glob("*.ring")), [])
            segments = {path.parent.name for path in self.segments()}
            self.assertEqual(len(segments), 2)
            self.assertEqual(len(server.objects), len(self.segments()))

    def test_a_living_process_keeps_its_ring(self):
        ready, end = self.dir / "ready", self.dir / "end"
        with MockS3() as server, \
                self.start(server, "--", HOST, "2000", f"touch={ready}", f"wait={end}") as process:
            try:
                wait_until(ready.exists)
                wait_until(lambda: list(self.traces.glob("*/2*/*.active")))
                self.upload(server, "--ring-dir", str(self.rings), redact=None)
                self.assertEqual(len(list(self.rings.glob("*.ring"))), 1)
                self.assertEqual(server.objects, {})
            finally: # else it would be awaited for ever
                end.touch()
            _, err = process.communicate(timeout=DEADLINE_S)
            self.assertIn("nothing lost", err)
            self.assertEqual(len(server.objects), 1)

    def test_rings_of_others_stay(self):
        """Of a process that was not recorded into this directory."""
        ready = self.dir / "ready"
        self.make_run(1)
        self.rings.mkdir(mode=0o700)
        with subprocess.Popen([HOST, "2000", f"touch={ready}", f"wait={self.dir / 'never'}"],
                              env={**os.environ, "KYMO_RING_DIR": str(self.rings)}) as process:
            wait_until(ready.exists)
            process.kill()
        with MockS3() as server:
            self.upload(server, "--ring-dir", str(self.rings))
            self.assertEqual(len(server.objects), 1)
        self.assertEqual(len(list(self.rings.glob("*.ring"))), 1)

    def test_a_recovery_that_was_killed_before_the_ring_went_adds_nothing(self):
        with MockS3() as server:
            server.server.server_close()
            self.kill_both(server)
        ring, = self.rings.glob("*.ring")
        kept = self.dir / "kept"
        os.link(ring, kept)
        with MockS3() as server:
            self.upload(server, "--ring-dir", str(self.rings), redact=None)
            count = len(server.objects)
            kept.rename(ring)
            self.upload(server, "--ring-dir", str(self.rings), redact=None)
            self.assertEqual(len(server.objects), count)
            self.assertEqual(list(self.rings.glob("*.ring")), [])


class Records(test_upload.Records):
    def test_what_a_run_sends_is_redacted(self):
        with MockS3() as server:
            self.run_kymo_to(server, "--metadata", "token=hunter2canary", "--", HOST, "2000")
            (body, given), = server.objects.values()
        self.assertNotIn(b"canary", gzip.decompress(body) + str(given).encode())
        path, = self.segments()
        self.assertIn("hunter2canary", self.content(path).decode())


for case in [name for name in dir(test_upload.Records) if name.startswith("test_")]:
    setattr(Records, case, None)  # they run where they stand
    setattr(Rings, case, None)

if __name__ == "__main__":
    test_upload.HOST = HOST
    main()
