#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0 OR MIT
"""kymo upload against real servers on loopback: versitygw and MinIO, which verify signatures and
digests. Each is taken from KYMO_S3_BIN or PATH, or made by `go install` into build/s3; without both
the suite is skipped (77).

usage: check_s3.py --build BUILD
"""
import argparse
import contextlib
import datetime
import gzip
import hashlib
import json
import os
import pathlib
import re
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
import unittest
import urllib.error
import urllib.parse
import urllib.request

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT / "test/lib"), str(ROOT / "tools")]
from mock_s3 import SAFE, signature  # noqa: E402
import unittest_tap  # noqa: E402
from unittest_tap import wait_until  # noqa: E402

ACCESS, SECRET, REGION = "checkaccesskey", "check/Secret+0123456789", "us-east-1"
SERVERS = {"versitygw": "github.com/versity/versitygw/cmd/versitygw@v1.8.0",
           "minio": "github.com/minio/minio@v0.0.0-20260212201848-7aac2a2c5b7c"}
FOUND, BUILD = {}, ROOT / "build"
ODD = "a b/=:+*'()!~\u00e4/..c/%41&?#@$,;"
NOTHING = hashlib.sha256(b"").hexdigest()


def find(name):
    """The program, or None; made if there is Go to make it."""
    place = BUILD / "s3"
    for path in (os.environ.get("KYMO_S3_BIN"), str(place)):
        if path and os.access(pathlib.Path(path) / name, os.X_OK):
            return pathlib.Path(path) / name
    if shutil.which(name):
        return pathlib.Path(shutil.which(name))
    if not shutil.which("go"):
        return None
    subprocess.run(["go", "install", SERVERS[name]], env={**os.environ, "GOBIN": str(place)},
                   capture_output=True, check=False)
    return place / name if (place / name).exists() else None


def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


class Server:
    def __init__(self, name, directory):
        self.name, self.directory, self.port = name, directory, free_port()
        self.url = f"http://127.0.0.1:{self.port}"
        self.start()

    def start(self):
        at = f"127.0.0.1:{self.port}"
        words = (["--port", at, "posix", str(self.directory)] if self.name == "versitygw" else
                 ["server", "--quiet", "--address", at, str(self.directory)])
        self.process = subprocess.Popen(
            [FOUND[self.name], *words], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
            env={**os.environ, "ROOT_ACCESS_KEY": ACCESS, "ROOT_SECRET_KEY": SECRET,
                 "MINIO_ROOT_USER": ACCESS, "MINIO_ROOT_PASSWORD": SECRET})
        wait_until(self.answers)

    def answers(self):
        try:
            return self.ask("GET", "/")[0] == 200
        except OSError:
            return False

    def stop(self, number=signal.SIGTERM):
        self.process.send_signal(number)
        self.process.wait()

    def ask(self, method, path, query=(), body=b"", headers=None, service="s3"):
        """A signed request of our own: status, body."""
        date = datetime.datetime.now(datetime.timezone.utc).strftime("%Y%m%dT%H%M%SZ")
        digest = hashlib.sha256(body).hexdigest()
        target = urllib.parse.quote(path, "/" + SAFE)
        pairs = "&".join(sorted(f"{urllib.parse.quote(k, SAFE)}={urllib.parse.quote(v, SAFE)}"
                                for k, v in query))
        given = {"host": f"127.0.0.1:{self.port}", "x-amz-date": date,
                 "x-amz-content-sha256": digest, **(headers or {})}
        names = sorted(given)
        canonical = "\n".join([method, target, pairs, *(f"{n}:{given[n]}" for n in names), "",
                               ";".join(names), digest])
        scope = f"{date[:8]}/{REGION}/{service}/aws4_request"
        string = "\n".join(["AWS4-HMAC-SHA256", date, scope,
                            hashlib.sha256(canonical.encode()).hexdigest()])
        given["authorization"] = (f"AWS4-HMAC-SHA256 Credential={ACCESS}/{scope},"
                                  f"SignedHeaders={';'.join(names)},"
                                  f"Signature={signature(SECRET, scope, string)}")
        request = urllib.request.Request(f"{self.url}{target}{'?' + pairs if pairs else ''}",
                                         data=body or None, headers=given, method=method)
        try:
            with urllib.request.urlopen(request, timeout=30) as answer:
                return answer.status, answer.read()
        except urllib.error.HTTPError as error:
            return error.code, error.read()

    def keys(self, bucket="bucket"):
        status, body = self.ask("GET", f"/{bucket}", [("list-type", "2")])
        assert status == 200, body
        text = body.decode()
        return [key.replace("&amp;", "&").replace("&#39;", "'")
                for key in re.findall("<Key>(.*?)</Key>", text)]


class Case(unittest.TestCase):
    NAME = ""

    @classmethod
    def setUpClass(cls):
        if not FOUND.get(cls.NAME):
            raise unittest.SkipTest(f"{cls.NAME} cannot be had: no such program, and no Go to "
                                    "make it")
        cls.top = pathlib.Path(tempfile.mkdtemp(prefix="kymo-s3-"))
        (cls.top / "disk").mkdir()
        cls.server = Server(cls.NAME, cls.top / "disk")
        assert cls.server.ask("PUT", "/bucket")[0] == 200

    @classmethod
    def tearDownClass(cls):
        cls.server.stop()
        shutil.rmtree(cls.top, ignore_errors=True)

    def setUp(self):
        self.dir = pathlib.Path(tempfile.mkdtemp(prefix="run-", dir=self.top))
        for key in self.server.keys():
            self.server.ask("DELETE", f"/bucket/{key}")

    def make_run(self, count, megabytes=0):
        run = self.dir / "web/2026-05-18T12-30-00-0123abcd-42-777"
        run.mkdir(parents=True)
        (run / ".kymo-run").write_text("kymo run directory, version 1\n")
        bodies = {}
        for number in range(count):
            body = b"TRC\0\1" * (number + 1 + megabytes * (1 << 20) // 5)
            (run / f"{number:06}.trc").write_bytes(body)
            bodies[number] = body
        return run, bodies

    def upload(self, *words, code=0, to="s3://bucket/pre", wrapper=(), redact="none",
               **environment):
        """The files as they are, unless a case is of what is made of them."""
        env = {name: value for name, value in os.environ.items() if not name.startswith("AWS_")}
        env.update({"AWS_ACCESS_KEY_ID": ACCESS, "AWS_SECRET_ACCESS_KEY": SECRET,
                    "AWS_REGION": REGION, "AWS_ENDPOINT_URL": self.server.url,
                    "AWS_EC2_METADATA_DISABLED": "true", **environment})
        done = subprocess.run([*wrapper, BUILD / "kymo", "upload", self.dir, "--to", to,
                               "--redact", redact, *words], capture_output=True, text=True,
                              env=env, timeout=120, check=False)
        self.assertEqual(done.returncode, code, done.stdout + done.stderr)
        return done

    def assert_there(self, bodies, unpack=gzip.decompress):
        keys = self.server.keys()
        self.assertEqual(len(keys), len(bodies), keys)
        for key in keys:
            number = int(re.search(r"-(\d+)\.[a-z.]+$", key)[1])
            status, body = self.server.ask("GET", f"/bucket/{key}")
            self.assertEqual(status, 200)
            self.assertEqual(hashlib.sha256(unpack(body)).hexdigest(),
                             hashlib.sha256(bodies[number]).hexdigest())


class Common:
    def test_each_segment_is_there_once(self):
        run, bodies = self.make_run(20)
        self.upload()
        self.assert_there(bodies)
        next(run.glob(".sent-*")).unlink()
        self.assertIn("sent 20 segments", self.upload().stdout)
        self.assert_there(bodies)

    def test_the_file_as_it_is_and_larger(self):
        _, bodies = self.make_run(2, megabytes=20)
        self.upload("--layout", "kymo")
        self.assert_there(bodies, unpack=bytes)

    def test_what_is_redacted_is_known_again(self):
        run, bodies = self.make_run(3)
        self.upload(redact="names")
        keys = self.server.keys()
        self.assertEqual(len(keys), len(bodies))
        self.assertNotIn("service=web", " ".join(keys))
        next(run.glob(".sent-*")).unlink()
        self.assertIn("sent 3 segments", self.upload(redact="names").stdout)
        self.assertEqual(self.server.keys(), keys)

    def test_a_dump_and_its_manifest(self):
        place = pathlib.Path(f"{self.dir}.dumps")
        place.mkdir()
        (place / "web-7-20260518T123000Z-1.trc").write_bytes(b"TRC\0\1")
        self.assertIn("sent 1 segment", self.upload().stdout)
        manifest, = [key for key in self.server.keys() if key.endswith(".json")]
        status, body = self.server.ask("GET", f"/bucket/{manifest}")
        said = json.loads(body)
        self.assertEqual((status, manifest), (200, f"pre/dumps/{said['dump_id']}.json"))
        self.assertEqual(sorted(self.server.keys()), sorted([manifest, *said["segments"]]))
        next(place.glob(".sent-*")).unlink()
        self.assertIn("sent 1 segment", self.upload().stdout)
        self.assertEqual(len(self.server.keys()), 2)

    def test_odd_names(self):
        _, bodies = self.make_run(2)
        self.upload(to=f"s3://bucket/{ODD}")
        self.assert_there(bodies)

    def test_wrong_keys_bucket_and_clock(self):
        _, bodies = self.make_run(2)
        for words, said in (({"AWS_SECRET_ACCESS_KEY": "wrong"}, "SignatureDoesNotMatch"),
                            ({"AWS_ACCESS_KEY_ID": "nosuchkey"}, "not valid there")):
            done = self.upload("--upload-timeout", "3s", code=1, **words)
            self.assertIn(said, done.stderr)
            self.assertIn("2 left", done.stdout)
        done = self.upload("--upload-timeout", "3s", code=1, to="s3://missing-bucket")
        self.assertIn("NoSuchBucket", done.stderr)
        if shutil.which("faketime"):
            self.upload(wrapper=("faketime", "-f", "-1d"))
        else:
            self.upload()
        self.assert_there(bodies)

    def test_a_killed_server_and_a_killed_sender(self):
        _, bodies = self.make_run(60)
        with subprocess.Popen(
                [BUILD / "kymo", "upload", self.dir, "--to", "s3://bucket/pre", "--redact",
                 "none"],
                env={**os.environ, "AWS_ACCESS_KEY_ID": ACCESS, "AWS_SECRET_ACCESS_KEY": SECRET,
                     "AWS_REGION": REGION, "AWS_ENDPOINT_URL": self.server.url},
                stdout=subprocess.PIPE, stderr=subprocess.PIPE) as sender:
            wait_until(lambda: sender.poll() is not None or len(self.server.keys()) >= 10)
            self.server.stop(signal.SIGKILL)
            time.sleep(0.05)
            sender.kill()
        self.server.start()
        self.upload()
        self.assert_there(bodies)


    def read(self, *words, code=0, **environment):
        env = {**os.environ, "AWS_ACCESS_KEY_ID": ACCESS, "AWS_SECRET_ACCESS_KEY": SECRET,
               "AWS_REGION": REGION, "AWS_ENDPOINT_URL": self.server.url, **environment}
        done = subprocess.run([BUILD / "kymo", *words], capture_output=True, text=True, env=env,
                              timeout=120, check=False)
        self.assertEqual(done.returncode, code, done.stdout + done.stderr)
        return done

    def test_what_was_sent_is_read_from_the_bucket(self):
        for layout in ("kymo", "dial9"):
            place, traces = f"s3://bucket/{layout} of {ODD}", self.dir / layout
            self.read("run", "-q", "-o", traces, "--service", "web", "--to", place, "--layout",
                      layout, "--redact", "none", "--no-symbols", "--",
                      BUILD / "test/cli/run_host", "10", "paced=60000", "return")
            self.assertEqual(self.read("report", "--json", place).stdout,
                             self.read("report", "--json", traces).stdout)
            said = self.read("info", "--json", place, "--service", "web").stdout
            run, = json.loads(said)["runs"]
            self.assertEqual((run["segments"], run["layout"]), (1, layout))
            self.assertEqual(run["segments_without_index"], int(layout == "dial9"))
        said = self.read("report", place, code=1, AWS_SECRET_ACCESS_KEY="wrong").stderr
        self.assertIn("SignatureDoesNotMatch", said)
        said = self.read("report", "s3://missing-bucket/a", code=1).stderr
        self.assertIn("NoSuchBucket", said)

    def test_a_browser_gets_the_index_and_then_chunks(self):
        """What it is given is what kymo serve gives of the file."""
        place, traces = "s3://bucket/serve", self.dir / "traces"
        self.read("run", "-q", "-o", traces, "--service", "web", "--to", place, "--layout", "kymo",
                  "--redact", "none", "--no-symbols", "--", BUILD / "test/cli/run_host", "10",
                  "paced=60000", "return")
        file, = traces.glob("web/2*/*.zst")
        answers = []
        for words in ([file], [place]):
            with self.serve(*words) as url:
                wait_until(lambda: self.json(url + "api/traces")["waiting"] == 0)
                one, = self.json(url + "api/traces")["traces"]
                shown = self.json(f"{url}api/map/{one['id']}?pieces=50")
                end = shown["duration_ns"]
                del shown["segments"]
                answers.append([shown, *(self.get_bytes(url + path) for path in (
                    f"part/{one['id']}?from={end // 2}&to={end // 2 + 1}",
                    f"trace/{one['id']}"))])
        self.assertEqual(answers[0], answers[1])

    @contextlib.contextmanager
    def serve(self, *words):
        env = {**os.environ, "AWS_ACCESS_KEY_ID": ACCESS, "AWS_SECRET_ACCESS_KEY": SECRET,
               "AWS_REGION": REGION, "AWS_ENDPOINT_URL": self.server.url}
        place = self.dir / "serve" # with a page: nothing here asks for the viewer
        (place / "bin").mkdir(parents=True, exist_ok=True)
        (place / "share/kymo").mkdir(parents=True, exist_ok=True)
        shutil.copy(BUILD / "kymo", place / "bin/kymo")
        (place / "share/kymo/viewer.html").write_text(
            '<meta http-equiv="Content-Security-Policy" content="default-src \'none\'">\n'
            "<!--kymo-trace-->\n")
        with subprocess.Popen([place / "bin/kymo", "serve", *words], stdout=subprocess.PIPE,
                              env=env, text=True) as process:
            try:
                yield process.stdout.readline().strip()
            finally:
                process.terminate()

    def get_bytes(self, url):
        with urllib.request.urlopen(url, timeout=20) as answer:
            return answer.read()

    def json(self, url):
        return json.loads(self.get_bytes(url))

    def test_of_an_hour_the_indexes_and_a_part_are_read(self):
        traces = self.dir / "traces"
        self.read("run", "-q", "-o", traces, "--service", "web", "--", BUILD / "test/cli/run_host",
                  "10", "paced=60000", "return")
        segment, = traces.glob("web/2*/*.zst")
        self.assertEqual(self.server.ask("PUT", "/hour")[0], 200)
        for minute in range(1100):  # more than a page of a listing
            start = 1779105600000 + minute * 1000
            key = (f"k1/raw/service=web/date=2026-05-18/hour=12/host=h/{start}-900-0123abcd-42-777-"
                   f"{minute:06}.trc.zst")
            self.assertEqual(self.server.ask("PUT", f"/hour/{key}",
                                             body=segment.read_bytes())[0], 200)
        found = json.loads(self.read("info", "--json", "s3://hour", "--service", "web").stdout)
        self.assertEqual(sum(run["segments"] for run in found["runs"]), 1100)
        self.assertEqual(found["listings"], 3)
        self.assertLess(found["bytes_read"], found["bytes"])


    def test_an_export_in_parts(self):
        """Whole, once, and without a rest where it was ended."""
        words = ("export", "--format", "chrome",
                 str(ROOT / "test/data/dial9-2026-05-demo.bin.gz"))
        key = f"{ODD}/trace.json"
        self.read(*words, "-o", str(self.dir / "trace.json"))
        self.read(*words, "-o", f"s3://bucket/{key}")
        self.assertEqual(self.server.keys(), [key])
        status, body = self.server.ask("GET", f"/bucket/{key}")
        self.assertTrue(status == 200 and body == (self.dir / "trace.json").read_bytes())
        self.assertIn("exists", self.read(*words, "-o", f"s3://bucket/{key}", code=1).stderr)
        self.read(*words, "--force", "-o", f"s3://bucket/{key}")

        def unfinished():
            status, listed = self.server.ask("GET", "/bucket", [("uploads", ""), ("prefix", "b/c")])
            return status == 200 and b"<UploadId>" in listed

        env = {**os.environ, "AWS_ACCESS_KEY_ID": ACCESS, "AWS_SECRET_ACCESS_KEY": SECRET,
               "AWS_REGION": REGION, "AWS_ENDPOINT_URL": self.server.url}
        with subprocess.Popen([BUILD / "kymo", *words, "-o", "s3://bucket/b/c"], env=env,
                              stdout=subprocess.DEVNULL) as process:
            wait_until(lambda: process.poll() is not None or unfinished())
            process.send_signal(signal.SIGINT)
            process.wait()
        self.assertFalse(unfinished())
        self.assertEqual("b/c" in self.server.keys(), process.returncode == 0)


class Versitygw(Common, Case):
    NAME = "versitygw"


class Minio(Common, Case):
    NAME = "minio"

    def session(self):
        query = urllib.parse.urlencode({"Action": "AssumeRole", "Version": "2011-06-15",
                                        "DurationSeconds": "900"}).encode()
        status, body = self.server.ask(
            "POST", "/", body=query, service="sts",
            headers={"content-type": "application/x-www-form-urlencoded"})
        self.assertEqual(status, 200, body)
        return [re.search(f"<{tag}>(.*?)</{tag}>", body.decode())[1]
                for tag in ("AccessKeyId", "SecretAccessKey", "SessionToken")]

    def test_session_tokens(self):
        _, bodies = self.make_run(2)
        access, secret, token = self.session()
        keys = {"AWS_ACCESS_KEY_ID": access, "AWS_SECRET_ACCESS_KEY": secret}
        self.upload("--upload-timeout", "2s", code=1, **keys)
        self.upload("--upload-timeout", "2s", code=1, AWS_SESSION_TOKEN="x" + token, **keys)
        self.assertEqual(self.server.keys(), [])
        self.upload(AWS_SESSION_TOKEN=token, **keys)
        self.assert_there(bodies)


    def test_a_role_is_taken_with_the_keys_of_another_profile(self):
        _, bodies = self.make_run(2)
        (self.dir / "config").write_text("[profile team]\nrole_arn = arn:minio:iam:::role/kymo\n"
                                         "source_profile = base\n")
        for secret, code in (("wrong", 1), (SECRET, 0)):
            (self.dir / "credentials").write_text(f"[base]\naws_access_key_id = {ACCESS}\n"
                                                  f"aws_secret_access_key = {secret}\n")
            done = self.upload("--upload-timeout", "2s", code=code, AWS_ACCESS_KEY_ID="",
                               AWS_SECRET_ACCESS_KEY="", AWS_PROFILE="team",
                               AWS_CONFIG_FILE=str(self.dir / "config"),
                               AWS_SHARED_CREDENTIALS_FILE=str(self.dir / "credentials"))
            if code:
                self.assertRegex(done.stderr, "AssumeRole at .*: 403 ")
        self.assert_there(bodies)


class Dial9(Case):
    """dial9's own browser lists and fetches what we sent: KYMO_DIAL9_VIEWER names the program."""
    NAME = "versitygw"

    def test_its_browser_lists_and_fetches_ours(self):
        viewer = os.environ.get("KYMO_DIAL9_VIEWER") or shutil.which("dial9-viewer")
        if not viewer:
            self.skipTest("dial9-viewer is not installed (cargo install dial9-viewer)")
        host = BUILD / "test/cli/run_host"
        env = {**os.environ, "AWS_ACCESS_KEY_ID": ACCESS, "AWS_SECRET_ACCESS_KEY": SECRET,
               "AWS_REGION": REGION, "AWS_ENDPOINT_URL": self.server.url}
        subprocess.run([BUILD / "kymo", "run", "-q", "--ring-dir", self.dir / "rings", "-o",
                        self.dir / "t", "--service", "web", "--to", "s3://bucket/traces", "--",
                        host, "5000"], env=env, check=True)
        port = free_port()
        with subprocess.Popen([viewer, "serve", "--port", str(port), "--bucket", "bucket",
                               "--prefix", "traces"], env=env, stdout=subprocess.DEVNULL,
                              stderr=subprocess.DEVNULL) as process:
            try:
                wait_until(lambda: self.get(port, "/api/config"))
                now = int(time.time())
                listed = self.get(port, f"/api/browse?bucket=bucket&prefix=traces&from={now - 600}"
                                        f"&to={now + 600}")
                key, = self.server.keys()
                self.assertIn(key, listed.decode())
                body = self.get(port, "/api/object?bucket=bucket&key=" + urllib.parse.quote(key))
                raw = gzip.decompress(body) if body[:2] == b"\x1f\x8b" else body
                self.assertTrue(raw.startswith(b"TRC\0"))
            finally:
                process.terminate()

    def get(self, port, path):
        with contextlib.suppress(OSError):
            with urllib.request.urlopen(f"http://127.0.0.1:{port}{path}", timeout=20) as answer:
                return answer.read()
        return b""


if __name__ == "__main__":
    PARSER = argparse.ArgumentParser()
    PARSER.add_argument("--build", type=pathlib.Path, required=True)
    OPTIONS, REST = PARSER.parse_known_args()
    BUILD = OPTIONS.build.resolve()
    FOUND.update({NAME: PATH for NAME in SERVERS if (PATH := find(NAME))})
    if not FOUND:
        print("neither versitygw nor MinIO is there, and there is no Go to make them")
        sys.exit(77)
    unittest_tap.main(REST)
