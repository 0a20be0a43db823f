#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0 OR MIT
"""kymo export -o s3://BUCKET/KEY: an object whose length is not known before, whole or not at all.

usage: test_export_place.py KYMO ROOT HOST [unittest arguments]
"""
import pathlib
import signal
import subprocess
import sys
import threading

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "lib"))
from cli_case import KYMO, OLD, ROOT, Cli, main  # noqa: E402
import mock_s3  # noqa: E402
from mock_s3 import MockS3  # noqa: E402
from unittest_tap import DEADLINE_S  # noqa: E402

TO = "s3://bucket/night/trace.json"
KEY = "/bucket/night/trace.json"
PART = 8 << 20
LAST = "600ms"


class ExportPlace(Cli):
    """`large` is two parts; a HEAD and a begin before them, and an end."""
    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.large = subprocess.run([KYMO, "export", "--format", "chrome", "--last", LAST,
                                    ROOT / "test/data" / OLD],
                                   capture_output=True, check=True).stdout

    def environment(self, server):
        return {**server.environment(), "HOME": str(self.dir), "AWS_PROFILE": "",
                "PATH": "/usr/bin:/bin"}

    def put(self, server, *words, to=TO, code=0, form="chrome"):
        done = subprocess.run([KYMO, "export", "--format", form, "-o", to, "--last", LAST, *words,
                               self.data / OLD], env=self.environment(server),
                              capture_output=True, text=True, timeout=DEADLINE_S, check=False)
        self.assertEqual(done.returncode, code, done.stderr)
        for canary in (mock_s3.SECRET, mock_s3.TOKEN):
            self.assertNotIn(canary, done.stdout + done.stderr)
        return done

    def asked(self, server):
        """What was asked for, without the HEAD before."""
        return [method for method, *_ in server.requests if method != "HEAD"]

    def whole(self, server):
        self.assertEqual(list(server.objects), [KEY])
        self.assertTrue(server.objects[KEY][0] == self.large)
        self.assertEqual(server.uploads, {})

    def nothing(self, server):
        self.assertEqual((server.objects, server.uploads), ({}, {}))


class Whole(ExportPlace):
    def test_what_fits_into_a_part_is_one_request(self):
        with MockS3() as server:
            done = self.put(server, to="s3://bucket/night/trace.json.gz")
            self.assertIn("s3://bucket/night/trace.json.gz: ", done.stdout)
            self.assertEqual(self.asked(server), ["PUT"])
            (key, (body, given)), = server.objects.items()
            path = self.dir / "trace.json.gz"
            self.run_kymo("export", "--format", "chrome", "--last", LAST, "-o", path,
                          self.data / OLD)
            self.assertEqual((key, body), (KEY + ".gz", path.read_bytes()))
            self.assertEqual(given["content-type"], "application/gzip")

    def test_more_is_sent_in_parts(self):
        with MockS3() as server:
            self.put(server)
            self.whole(server)
            self.assertEqual(self.asked(server), ["POST", "PUT", "PUT", "POST"])
            sizes = [int(given["content-length"]) for method, _, given in server.requests
                     if method == "PUT"]
            self.assertEqual(sizes, [PART, len(self.large) - PART])

    def test_a_name_that_is_taken_is_said_before_anything_is_sent(self):
        with MockS3() as server:
            server.objects[KEY] = (b"another's", {})
            self.assertIn("exists; replace it with --force", self.put(server, code=1).stderr)
            self.assertEqual(self.asked(server), [])
            self.put(server, "--force")
            self.whole(server)


class Trouble(ExportPlace):
    def test_what_passes_is_asked_again(self):
        """Before each request, and after each: its answer is lost. A begin without an answer is an
        upload whose name nobody knows."""
        for faults in (["503", "", "reset", "", "500", "", "400 BadDigest"],
                       ["", "lost answer", "", "lost answer", "", "lost answer"]):
            with self.subTest(faults), MockS3(["", *faults]) as server:
                self.put(server)
                self.whole(server)
                self.assertEqual(server.faults, [])

    def test_a_small_object_whose_answer_was_lost_is_known_again(self):
        with MockS3(["", "lost answer"]) as server:
            self.put(server, to=TO + ".gz")
            self.assertEqual(self.asked(server), ["PUT", "PUT"])
            self.assertEqual(len(server.objects), 1)

    def test_what_fails_leaves_nothing(self):
        for at in (0, 2):
            with self.subTest(at), \
                    MockS3(["", "", *[""] * at, "403 AccessDenied"]) as server:
                self.assertIn("may not write there (s3:PutObject)",
                              self.put(server, code=1).stderr)
                self.nothing(server)
                self.assertEqual(self.asked(server)[-1], "DELETE")

    def test_a_success_that_is_none_is_seen(self):
        for times, code in ((1, 0), (9, 1)):
            with self.subTest(times), MockS3() as server:
                server.joins_badly = times
                done = self.put(server, code=code)
                if code:
                    self.assertIn("cannot join the parts: InternalError", done.stderr)
                    self.nothing(server)
                else:
                    self.whole(server)

    def test_what_another_put_there_meanwhile_stays(self):
        with MockS3() as server:
            server.on_request = lambda: server.objects.setdefault(KEY, (b"another's", {})) \
                if len(server.requests) > 2 else None
            self.assertIn("exists", self.put(server, code=1).stderr)
            self.assertEqual(server.objects[KEY][0], b"another's")
            self.assertEqual(server.uploads, {})

    def test_a_signal_leaves_nothing(self):
        for number in (signal.SIGINT, signal.SIGTERM):
            with self.subTest(number), MockS3(["", "", "", "hang"]) as server, \
                    subprocess.Popen([KYMO, "export", "--format", "chrome", "-o", TO, "--last",
                                      LAST, self.data / OLD], env=self.environment(server),
                                     stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
                self.assertTrue(server.hanging.wait(DEADLINE_S))
                process.send_signal(number)
                process.communicate(timeout=DEADLINE_S)
                self.assertEqual(process.returncode, -number)
                self.nothing(server)
        # While the begin runs, whose answer says what there is to abort.
        with MockS3() as server:
            seen, go = threading.Event(), threading.Event()
            server.on_request = lambda: (seen.set(), go.wait(DEADLINE_S)) \
                if self.asked(server) == ["POST"] else None
            with subprocess.Popen([KYMO, "export", "--format", "chrome", "-o", TO, "--last", LAST,
                                   self.data / OLD], env=self.environment(server),
                                  stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
                self.assertTrue(seen.wait(DEADLINE_S))
                process.send_signal(signal.SIGINT)
                go.set()
                process.communicate(timeout=DEADLINE_S)
            self.assertEqual(process.returncode, -signal.SIGINT)
            self.assertEqual(self.asked(server), ["POST", "DELETE"])
            self.nothing(server)

    def test_parts_that_stay_are_said(self):
        with MockS3(["", "", "403 AccessDenied", "403 AccessDenied"]) as server:
            self.assertIn("parts of it stay in bucket bucket", self.put(server, code=1).stderr)
            self.assertEqual(len(server.uploads), 1)

    def test_credentials_stay_where_they_belong(self):
        with MockS3() as other, MockS3(["away"] * 9) as server:
            server.other = other.url + "/elsewhere"
            self.assertIn("307", self.put(server, code=1).stderr)
            self.assertEqual(other.requests, [])

    def test_wrong_words(self):
        with MockS3() as server:
            for place, says in (("s3://bucket", "no object"), ("s3://bucket/a//b", "no empty"),
                                ("s3://B/c", "a bucket's name has")):
                done = subprocess.run([KYMO, "export", "--format", "chrome", "-o", place,
                                       self.data / OLD], env=self.environment(server),
                                      capture_output=True, text=True, check=False)
                self.assertEqual(done.returncode, 1)
                self.assertIn(says, done.stderr)
            self.assertEqual(server.requests, [])


if __name__ == "__main__":
    sys.argv.pop(3)
    main()
