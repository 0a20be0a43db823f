#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0 OR MIT
"""kymo dump --upload and --exec. The server is test/lib/mock_s3.py.

usage: test_dump_sent.py KYMO HOST [unittest arguments]
HOST is run_host.c.
"""
import json
import os
import pathlib
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "lib"))
import mock_s3  # noqa: E402
from mock_s3 import MockS3  # noqa: E402
import test_dump  # noqa: E402
import unittest_tap  # noqa: E402


class Sent(test_dump.Rings):
    """--upload and --exec: the file is made, stays, and goes where `kymo upload FILE` sends it."""

    def sent(self, server, *args, code=0, **more):
        env = {name: value for name, value in os.environ.items() if not name.startswith("AWS_")}
        done = self.kymo("dump", "--ring-dir", self.rings, *map(str, args), cwd=self.out,
                         env={**env, "HOME": str(self.dir), **server.environment(**more)})
        self.assertEqual(done.returncode, code, done.stdout + done.stderr)
        for canary in (mock_s3.SECRET, mock_s3.TOKEN):
            self.assertNotIn(canary, done.stdout + done.stderr)
        return done

    def files(self):
        return [path for path in self.traces() if not path.name.startswith(".")]

    def objects(self, server):
        """The manifest and the bytes of the object that it names."""
        (manifest,) = [json.loads(body) for key, (body, _) in server.objects.items()
                       if "/dumps/" in key]
        (key,) = manifest["segments"]
        self.assertEqual(len(server.objects), 2)
        return manifest, server.objects[f"/bucket/{key}"]

    def test_a_dump_and_its_manifest_arrive_once(self):
        host = self.host(KYMO_SERVICE="front")
        with MockS3() as server:
            done = self.sent(server, host.pid, "--upload", "s3://bucket/pre", "--reason",
                             "why-canary")
            self.assertIn("sent 1 segment", done.stdout)
            (path,) = self.files()
            self.assertEqual(done.stdout.split()[0], path.name)
            manifest, (body, given) = self.objects(server)
            copy = self.dir / "copy.trc.gz"
            copy.write_bytes(body)
            again = self.kymo("upload", path, "--to", "s3://bucket/pre",
                              env={**os.environ, **server.environment()})
            self.assertIn("sent 0 segments", again.stdout)
            self.assertEqual(len(server.objects), 2)
        self.assertEqual(given["x-amz-meta-dump-id"], manifest["dump_id"])
        self.assertEqual((self.polls(path), self.polls(copy)), (test_dump.POLLS, test_dump.POLLS))
        self.assertIn("why-canary", str(self.metadata(path)))
        self.assertNotIn("why-canary", str(self.metadata(copy)))

    def test_what_is_not_sent_stays_and_is_said(self):
        host = self.host()
        with MockS3(["403 AccessDenied"]) as server:
            done = self.sent(server, host.pid, "--upload", "s3://bucket/pre",
                             "--upload-timeout", "100ms", code=1)
            self.assertIn("403 AccessDenied", done.stderr)
            self.assertIn("`kymo upload`", done.stderr)
            self.assertEqual(server.objects, {})
            (path,) = self.files()
            self.assertEqual(self.polls(path), test_dump.POLLS)
            again = self.kymo("upload", path, "--to", "s3://bucket/pre",
                              env={**os.environ, **server.environment()})
            self.assertIn("sent 1 segment", again.stdout)

    def test_a_command_and_json(self):
        host = self.host(KYMO_SERVICE="front")
        facts, copy = self.dir / "facts", self.dir / "copy.trc.zst"
        keep = self.dir / "keep"
        keep.write_text(f"#!/bin/sh\nenv | grep KYMO_SEGMENT > {facts}\ncat > {copy}\n")
        keep.chmod(0o755)
        with MockS3() as server:
            done = self.sent(server, host.pid, "-o", self.dir / "named.trc.zst", "--json",
                             "--exec", keep, "--upload", "s3://bucket/pre", "--layout", "kymo",
                             "--redact", "none", "--no-symbols")
            first, *rest = map(json.loads, done.stdout.splitlines())
            self.assertEqual(first["file"], str(self.dir / "named.trc.zst"))
            self.assertEqual(sorted((one["to"].split()[0], one["sent"], one["left"])
                                    for one in rest),
                             [("exec", 1, 0), ("s3://bucket/pre", 1, 0)])
            self.assertEqual(len(server.objects), 2)
        self.assertEqual(copy.read_bytes(), (self.dir / "named.trc.zst").read_bytes())
        self.assertRegex(facts.read_text(), r"KYMO_SEGMENT_DUMP=\w{26}\n")
        self.assertIn("KYMO_SEGMENT_SERVICE=front\n", facts.read_text())

    def test_wrong_words_make_no_dump(self):
        host = self.host()
        with MockS3() as server:
            for words, says in ((("--upload", "otlp:http://127.0.0.1:1"), "--push"),
                                (("--upload", "s3://"), "--upload: a bucket's name"),
                                (("--upload", "s3://bucket/pre", "--tasks"), "--output"),
                                (("--exec", "/nowhere/keep"), "there is no program")):
                done = self.sent(server, host.pid, *words, code=2)
                self.assert_one_sentence(done, says, code=2)
            self.assertEqual((server.requests, self.traces()), ([], []))


if __name__ == "__main__":
    test_dump.KYMO, test_dump.HOST = map(os.path.abspath, sys.argv[1:3])
    unittest_tap.main(sys.argv[3:])
