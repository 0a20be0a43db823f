#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0 OR MIT
"""kymo upload and kymo run --to: each segment arrives once, whatever the server and the machine
do. The server is test/lib/mock_s3.py; `make check-s3` has real ones.

usage: test_upload.py KYMO ROOT HOST [unittest arguments]
"""
import contextlib
import gzip
import hashlib
import http.server
import json
import os
import pathlib
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import unittest
import urllib.parse

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "lib"))
from cli_case import KYMO, Cli, main  # noqa: E402
import mock_s3  # noqa: E402
from mock_s3 import MockS3  # noqa: E402
from unittest_tap import DEADLINE_S, wait_until  # noqa: E402

HOST = ""
BOOT = "0123abcd"
MARKER = "kymo run directory, version 1\n"
START_S = 1779107405
NAMES = ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_SESSION_TOKEN", "AWS_PROFILE",
         "AWS_REGION", "AWS_DEFAULT_REGION", "AWS_ENDPOINT_URL", "AWS_ENDPOINT_URL_S3",
         "AWS_WEB_IDENTITY_TOKEN_FILE", "AWS_ROLE_ARN", "AWS_ROLE_SESSION_NAME",
         "AWS_ENDPOINT_URL_STS", "AWS_CONTAINER_CREDENTIALS_FULL_URI",
         "AWS_CONTAINER_CREDENTIALS_RELATIVE_URI",
         "AWS_CA_BUNDLE", "CURL_CA_BUNDLE", "SSL_CERT_FILE",
         "http_proxy", "https_proxy", "HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY", "all_proxy")


def trace_bytes(number):
    """The smallest traces there are."""
    return b"TRC\0\1" * (number % 7 + 1)


class Upload(Cli):
    def setUp(self):
        super().setUp()
        self.traces = self.dir / "traces"
        self.clean = {name: None for name in NAMES}

    def make_run(self, count, service="web", pid=42):
        run = self.traces / service / f"2026-05-18T12-30-00-{BOOT}-{pid}-777"
        run.mkdir(parents=True, exist_ok=True)
        (run / ".kymo-run").write_text(MARKER)
        (run / ".lock").touch()
        for number in range(count):
            path = run / f"{number:06}.trc"
            path.write_bytes(trace_bytes(number))
            os.utime(path, (START_S + 60 * number, START_S + 60 * number))
        return run

    def environment(self, server, **more):
        full = {name: value for name, value in os.environ.items() if name not in NAMES}
        full.update(HOME=str(self.dir), **server.environment())
        full.update(more)
        return {name: value for name, value in full.items() if value is not None}

    def upload(self, server, *args, code=0, to="s3://bucket/pre", env=None, redact="none"):
        """The files as they are, unless a test is of what is made of them."""
        done = subprocess.run(
            [KYMO, "upload", str(self.traces), "--to", to,
             *(("--redact", redact) if redact else ()), *args],
            capture_output=True, text=True, env=self.environment(server, **(env or {})),
            timeout=DEADLINE_S, check=False)
        self.assertEqual(done.returncode, code, f"{done.stdout}\n{done.stderr}")
        for canary in (mock_s3.SECRET, mock_s3.TOKEN):
            self.assertNotIn(canary, done.stdout + done.stderr)
        return done

    def assert_all_there(self, server, count):
        """Each segment once, unpacked as it was."""
        found = sorted((int(key.rsplit("-", 1)[1].split(".")[0]), body)
                       for key, (body, _) in server.objects.items())
        self.assertEqual([number for number, _ in found], list(range(count)))
        for number, body in found:
            self.assertEqual(gzip.decompress(body), trace_bytes(number))


class Sends(Upload):
    def test_it_sends_each_segment_once(self):
        self.make_run(5)
        with MockS3() as server:
            self.assertIn("sent 5 segments", self.upload(server).stdout)
            self.assert_all_there(server, 5)
            self.assertEqual(len(server.requests), 5)
            self.assertIn("sent 0 segments", self.upload(server).stdout)
            self.assertEqual(len(server.requests), 5)
            key, (body, given) = sorted(server.objects.items())[0]
        self.assertRegex(key, rf"^/bucket/pre/version=1/date=2026-05-18/service=web/time=1230/"
                              rf"instance=unknown/boot={BOOT}-42-777/{START_S}-0\.bin\.gz$")
        self.assertEqual(given["content-type"], "application/gzip")
        self.assertEqual(given["x-amz-meta-service"], "web")
        self.assertEqual(given["x-amz-meta-segment-index"], "0")
        self.assertEqual(given["x-amz-meta-start-time"], str(START_S))
        self.assertEqual(given["x-amz-meta-boot-id"], f"{BOOT}-42-777")
        self.assertEqual(given["x-amz-meta-kymo-sha256"], hashlib.sha256(body).hexdigest())

    def test_the_layout_of_kymo_sends_the_file_as_it_is(self):
        run = self.make_run(2)
        with MockS3() as server:
            self.upload(server, "--layout", "kymo", to="s3://bucket")
            bodies = {key.rsplit("-", 1)[1]: body for key, (body, _) in server.objects.items()}
            self.assertEqual(bodies, {path.name: path.read_bytes()
                                      for path in run.glob("*.trc")})
            start = "/bucket/k1/raw/service=web/date=2026-05-18/hour=12/"
            self.assertTrue(all(key.startswith(start) for key in server.objects))

    def test_json_says_it(self):
        self.make_run(2)
        with MockS3() as server:
            said = json.loads(self.upload(server, "--json").stdout)
        self.assertEqual((said["sent"], said["left"], said["reason"]), (2, 0, None))

    def test_a_directory_without_runs_is_said(self):
        self.traces.mkdir()
        with MockS3() as server:
            self.assertIn("no run", self.upload(server, code=1).stderr)


class Trouble(Upload):
    def test_what_passes_is_tried_again(self):
        self.make_run(4)
        faults = ["503", "500", "", "reset", "", "huge", "", "400 RequestTimeout", "lost answer"]
        with MockS3(faults) as server:
            self.upload(server)
            self.assert_all_there(server, 4)
            self.assertLess(server.huge_bytes, 64 << 20)

    def test_many_segments_under_all_of_it(self):
        """The same, at length."""
        kinds = ["500", "", "503", "", "reset", "", "lost answer", "", "",
                 "403 RequestTimeTooSkewed", "400 BadDigest", "", ""]
        self.make_run(60)
        with MockS3(kinds * 4) as server:
            self.upload(server)
            self.assert_all_there(server, 60)

    def test_what_cannot_be_read_stays_and_is_named(self):
        """As a recorder leaves it that was killed inside its first write."""
        run = self.make_run(3)
        (run / "000001.trc").write_bytes(b"T")
        with MockS3() as server:
            said = self.upload(server, redact=None, code=1).stderr
            self.assertEqual(len(server.objects), 2)
        self.assertRegex(said, r"000001\.trc: cannot be read: .*byte 1")
        self.assertRegex(said, r"1 left, .*000001\.trc; each was refused, so it stays here")
        self.assertEqual((run / "000001.trc").read_bytes(), b"T")

    def test_a_server_that_reads_and_answers_slowly(self):
        """Slow is no error; an answer without an end ends with the time to send."""
        run = self.make_run(1)
        (run / "000000.trc").write_bytes(b"TRC\0\1" + os.urandom(100000))
        with MockS3() as server:
            server.piece = 1000
            self.upload(server, "--layout", "kymo")
            (body, _), = server.objects.values()
            self.assertEqual(body, (run / "000000.trc").read_bytes())
        run = self.make_run(2, pid=43)
        with MockS3(["slow"]) as server:
            done = self.upload(server, "--layout", "kymo", "--upload-timeout", "1s", code=1)
            self.assertTrue(server.hanging.is_set())
            self.assertIn("2 left", done.stdout)
            self.assertEqual(server.objects, {})
            self.assertIn("sent 2 segments", self.upload(server, "--layout", "kymo").stdout)

    def test_ten_thousand_that_wait_are_counted_and_stay(self):
        run = self.make_run(10000)
        with MockS3() as gone:
            gone.server.server_close()
            said = json.loads(self.upload(gone, "--upload-timeout", "0", "--json", code=1).stdout)
        self.assertEqual((said["sent"], said["left"]), (0, 10000))
        self.assertEqual(len(list(run.glob("*.trc"))), 10000)

    def test_the_servers_clock_is_taken(self):
        self.make_run(3)
        with MockS3() as server:
            server.ahead_s = 86400
            self.upload(server)
            self.assert_all_there(server, 3)
            self.assertEqual(len(server.requests), 4)

    def test_another_region_is_taken(self):
        self.make_run(3)
        with MockS3(["region"]) as server:
            self.upload(server)
            self.assert_all_there(server, 3)
            self.assertEqual(len(server.requests), 4)

    def test_credentials_stay_where_they_belong(self):
        self.make_run(1)
        with MockS3() as other, MockS3(["away"] * 9) as server:
            server.other = other.url + "/elsewhere"
            done = self.upload(server, "--upload-timeout", "1s", code=1)
            self.assertEqual(other.requests, [])
        self.assertIn("307", done.stderr)

    def test_what_a_user_mends_is_said_once_and_at_the_end(self):
        self.make_run(3)
        with MockS3() as server:
            done = self.upload(server, "--upload-timeout", "2s", code=1,
                               env={"AWS_SECRET_ACCESS_KEY": "wrong"})
            said = [line for line in done.stderr.splitlines() if "SignatureDoesNotMatch" in line]
            self.assertEqual(len(said), 2, said)
            self.assertIn("3 left", said[1])
            self.assertIn("3 left", done.stdout)
            self.assertEqual(len(server.requests), 1)
            self.upload(server)
            self.assert_all_there(server, 3)

    def test_expired_credentials_are_read_anew(self):
        self.make_run(2)
        path = self.dir / ".aws/credentials"
        path.parent.mkdir()
        path.write_text(f"[default]\naws_access_key_id={mock_s3.ACCESS}\n"
                        f"aws_secret_access_key={mock_s3.SECRET}\n"
                        f"aws_session_token={mock_s3.TOKEN}\n")
        with MockS3(["400 ExpiredToken"]) as server:
            self.upload(server, env={"AWS_ACCESS_KEY_ID": None, "AWS_SECRET_ACCESS_KEY": None})
            self.assert_all_there(server, 2)
            self.assertEqual(len(server.requests), 3)
            self.assertEqual(server.requests[0][2]["x-amz-security-token"], mock_s3.TOKEN)

    def test_an_object_of_others_is_left_as_it_is(self):
        run = self.make_run(2)
        with MockS3() as server:
            self.upload(server)
            key = sorted(server.objects)[0]
            server.objects[key] = (b"another's", {})
            next(run.glob(".sent-*")).unlink()
            done = self.upload(server, code=1)
            self.assertEqual(server.objects[key][0], b"another's")
            self.assertIn("another object has its name", done.stderr)
            self.assertIn("1 left", done.stdout)

    def test_a_segment_that_is_no_trace_holds_up_no_other(self):
        run = self.make_run(3)
        (run / "000001.trc").write_bytes(b"no trace at all")
        with MockS3() as server:
            done = self.upload(server, code=1)
            self.assertEqual(len(server.objects), 2)
            self.assertIn("000001.trc: cannot be read", done.stderr)

    def test_a_server_that_is_away_delays_no_other_destination(self):
        self.make_run(2)
        with MockS3() as server, MockS3() as gone:
            gone.server.server_close()
            done = self.upload(server, "--exec", "true", "--upload-timeout", "1s", code=1,
                               env={"AWS_ENDPOINT_URL": gone.url})
        self.assertIn("exec true: sent 2 segments", done.stdout)
        self.assertIn("2 left", done.stdout)


@unittest.skipUnless(shutil.which("openssl"), "no openssl that makes certificates")
class Tls(Upload):
    def certificate(self, name, host="IP:127.0.0.1"):
        """Signed by itself: an authority and a server in one."""
        key, path = self.dir / f"{name}.key", self.dir / f"{name}.pem"
        subprocess.run(["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt",
                        "ec_paramgen_curve:prime256v1", "-nodes", "-keyout", key, "-out", path,
                        "-days", "2", "-subj", f"/CN={name}", "-addext",
                        f"subjectAltName={host}"], check=True, capture_output=True)
        both = self.dir / f"{name}.both"
        both.write_bytes(key.read_bytes() + path.read_bytes())
        return path, both

    def test_an_authority_of_the_user_is_trusted_by_any_of_its_names(self):
        path, both = self.certificate("ours")
        for variable in ("AWS_CA_BUNDLE", "CURL_CA_BUNDLE", "SSL_CERT_FILE"):
            run = self.make_run(2)
            with self.subTest(variable), MockS3(certificate=both) as server:
                self.upload(server, env={variable: str(path)})
                self.assert_all_there(server, 2)
                _, _, given = server.requests[0]
                self.assertEqual(given["x-amz-content-sha256"], "UNSIGNED-PAYLOAD")
                body, _ = next(iter(server.objects.values()))
                self.assertEqual(given["x-amz-checksum-crc32c"], mock_s3.crc32c(body))
            next(run.glob(".sent-*")).unlink()

    def test_a_certificate_that_is_not_trusted_gets_nothing(self):
        """Of another authority, of another host; and a file of authorities that is none."""
        path, _ = self.certificate("ours")
        _, others = self.certificate("others")
        wrong, wrong_both = self.certificate("elsewhere", "DNS:example.com")
        for both, bundle, part in ((others, path, "its certificate is not trusted"),
                                   (others, "", "its certificate is not trusted"),
                                   (wrong_both, wrong, "its certificate is not trusted"),
                                   (others, self.dir / "none", "certificates in")):
            run = self.make_run(1)
            with self.subTest(part), MockS3(certificate=both) as server, \
                    subprocess.Popen([KYMO, "upload", str(self.traces), "--to", "s3://bucket/pre"],
                                     env=self.environment(server, AWS_CA_BUNDLE=str(bundle)),
                                     stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                                     text=True) as process:
                first = process.stderr.readline()
                process.terminate()  # once it is said, at whatever moment that is
                out, err = process.communicate(timeout=DEADLINE_S)
                done = self.upload(server, "--upload-timeout", "0", code=1,
                                   env={"AWS_CA_BUNDLE": str(bundle)})
                self.assertEqual((server.requests, server.objects), ([], {}))
            self.assertIn(part, first)
            self.assertIn("1 left", done.stdout)
            self.assertTrue((run / "000000.trc").exists())
            said = [line for line in (first + err).splitlines() if "left, the oldest" not in line]
            self.assertEqual(len(said), 1, first + err)
            self.assertNotIn(mock_s3.SECRET, first + err + out)


class Processes(Upload):
    def start(self, server, *args):
        return subprocess.Popen([KYMO, "upload", str(self.traces), "--to", "s3://bucket/pre",
                                 "--redact", "none", *args], env=self.environment(server),
                                stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)

    def test_a_killed_sender_loses_and_doubles_nothing(self):
        self.make_run(20)
        for fault in ("hang", "lost answer"):
            for before in (0, 3, 7):
                with MockS3([""] * before + [fault, "hang"]) as server:
                    with self.start(server) as process:
                        self.assertTrue(server.hanging.wait(DEADLINE_S))
                        process.kill()
                    server.faults.clear()
                    self.upload(server)
                    self.assert_all_there(server, 20)
                    for path in self.traces.glob("*/*/.sent-*"):
                        path.unlink()

    def test_two_senders_share_the_runs(self):
        for pid in range(50, 56):
            self.make_run(1, pid=pid)
        with MockS3() as server:
            both = [self.start(server) for _ in range(2)]
            for process in both:
                process.communicate(timeout=DEADLINE_S)
            self.upload(server)
            self.assertEqual(len(server.objects), 6)
            self.assertEqual(len([1 for method, *_ in server.requests if method == "PUT"]), 6)

    def test_what_a_killed_recorder_left_open_is_sent(self):
        run = self.make_run(2)
        (run / "000001.trc").rename(run / "000001.trc.active")
        with MockS3() as server:
            self.upload(server)
            self.assert_all_there(server, 2)

    def test_a_torn_list_costs_nothing(self):
        run = self.make_run(3)
        with MockS3() as server:
            self.upload(server)
            path = next(run.glob(".sent-*"))
            path.write_bytes(path.read_bytes()[:-3])
            self.assertIn("sent 1 segment,", self.upload(server).stdout)
            self.assert_all_there(server, 3)
            self.assertEqual(path.read_bytes().count(b"took"), 3)


class Keys(http.server.BaseHTTPRequestHandler):
    """A container's endpoint; a machine's, which gives nothing without its token; and STS."""
    def log_message(self, *_):
        pass

    def reply(self, body, status=200):
        self.send_response(status)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def do_PUT(self):
        self.server.seen.append((self.path, self.headers.get("Authorization")))
        self.reply(b"machine-token")

    def do_POST(self):
        form = self.rfile.read(int(self.headers["Content-Length"])).decode()
        self.server.seen.append((self.path, form))
        if self.server.refuses:
            self.reply(b"<ErrorResponse><Error><Type>Sender</Type><Code>InvalidIdentityToken</Code>"
                       b"</Error></ErrorResponse>", 400)
            return
        self.reply(f"""<AssumeRoleWithWebIdentityResponse><AssumeRoleWithWebIdentityResult>
            <SubjectFromWebIdentityToken>x</SubjectFromWebIdentityToken><Credentials>
            <AccessKeyId>{mock_s3.ACCESS}</AccessKeyId>
            <SecretAccessKey>{mock_s3.SECRET}</SecretAccessKey>
            <SessionToken>{mock_s3.TOKEN}</SessionToken>
            <Expiration>2099-01-01T00:00:00Z</Expiration>
            </Credentials></AssumeRoleWithWebIdentityResult></AssumeRoleWithWebIdentityResponse>
            """.encode())

    def do_GET(self):
        self.server.seen.append((self.path, self.headers.get("Authorization")))
        if self.path.startswith("/latest/"):
            if self.headers.get("X-aws-ec2-metadata-token") != "machine-token":
                self.reply(b"", 401)
                return
            if self.path.endswith("/"):
                self.reply(b"role-1\n")
                return
        body = json.dumps({"AccessKeyId": mock_s3.ACCESS, "SecretAccessKey": mock_s3.SECRET,
                           "Token": mock_s3.TOKEN, "Expiration": "2099-01-01T00:00:00Z"}).encode()
        self.reply(body)


@contextlib.contextmanager
def keys_server():
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Keys)
    server.seen, server.refuses = [], False
    threading.Thread(target=server.serve_forever, args=(0.02,), daemon=True).start()
    yield server
    server.shutdown()
    server.server_close()


class Credentials(Upload):
    def test_a_containers_endpoint_gives_them(self):
        self.make_run(1)
        token = self.dir / "token"
        token.write_text("file-token\n")
        with MockS3() as server, keys_server() as keys:
            url = f"http://127.0.0.1:{keys.server_address[1]}/creds"
            self.upload(server, env={"AWS_ACCESS_KEY_ID": None, "AWS_SECRET_ACCESS_KEY": None,
                                     "AWS_CONTAINER_CREDENTIALS_FULL_URI": url,
                                     "AWS_CONTAINER_AUTHORIZATION_TOKEN_FILE": str(token)})
            self.assertEqual(keys.seen, [("/creds", "file-token")])
            self.assertEqual(server.requests[0][2]["x-amz-security-token"], mock_s3.TOKEN)

    def test_a_machines_role_gives_them(self):
        self.make_run(1)
        with MockS3() as server, keys_server() as keys:
            self.upload(server, env={"AWS_ACCESS_KEY_ID": None, "AWS_SECRET_ACCESS_KEY": None,
                                     "AWS_EC2_METADATA_DISABLED": None,
                                     "AWS_EC2_METADATA_SERVICE_ENDPOINT":
                                         f"http://127.0.0.1:{keys.server_address[1]}"})
            place = "/latest/meta-data/iam/security-credentials/"
            self.assertEqual([path for path, _ in keys.seen],
                             ["/latest/api/token", place, place + "role-1"])
            self.assertEqual(server.requests[0][2]["x-amz-security-token"], mock_s3.TOKEN)

    def web_identity(self, keys, **more):
        token = self.dir / "identity"
        token.write_text("eyJ.canary+/=\n")
        return {"AWS_ACCESS_KEY_ID": None, "AWS_SECRET_ACCESS_KEY": None,
                "AWS_WEB_IDENTITY_TOKEN_FILE": str(token),
                "AWS_ROLE_ARN": "arn:aws:iam::123456789012:role/kymo",
                "AWS_ENDPOINT_URL_STS": f"http://127.0.0.1:{keys.server_address[1]}/sts", **more}

    def test_a_web_identity_gives_them(self):
        self.make_run(1)
        with MockS3() as server, keys_server() as keys:
            self.upload(server, env=self.web_identity(keys, AWS_ROLE_SESSION_NAME="pod-7"))
            self.assertEqual([path for path, _ in keys.seen], ["/sts"])
            self.assertEqual(urllib.parse.parse_qs(keys.seen[0][1], strict_parsing=True),
                             {"Action": ["AssumeRoleWithWebIdentity"], "Version": ["2011-06-15"],
                              "RoleArn": ["arn:aws:iam::123456789012:role/kymo"],
                              "RoleSessionName": ["pod-7"],
                              "WebIdentityToken": ["eyJ.canary+/="]})
            self.assertEqual(server.requests[0][2]["x-amz-security-token"], mock_s3.TOKEN)

    def test_a_web_identity_of_the_profile_gives_them(self):
        self.make_run(1)
        with MockS3() as server, keys_server() as keys:
            env = self.web_identity(keys, AWS_ROLE_ARN=None)
            config = self.dir / "config"
            config.write_text("[profile pod]\nrole_arn = arn:role\nweb_identity_token_file = "
                              + env["AWS_WEB_IDENTITY_TOKEN_FILE"] + "\n")
            self.upload(server, env={**env, "AWS_WEB_IDENTITY_TOKEN_FILE": None,
                                     "AWS_PROFILE": "pod", "AWS_CONFIG_FILE": str(config)})
            fields = urllib.parse.parse_qs(keys.seen[0][1], strict_parsing=True)
            self.assertEqual(fields["RoleArn"] + fields["RoleSessionName"], ["arn:role", "kymo"])

    def test_a_web_identity_that_is_refused_is_said_and_the_machine_is_not_asked(self):
        self.make_run(1)
        with MockS3() as server, keys_server() as keys:
            keys.refuses = True
            env = self.web_identity(keys, AWS_EC2_METADATA_DISABLED=None,
                                    AWS_EC2_METADATA_SERVICE_ENDPOINT=
                                    f"http://127.0.0.1:{keys.server_address[1]}")
            done = self.upload(server, "--upload-timeout", "1s", code=1, env=env)
            self.assertIn("400 InvalidIdentityToken", done.stderr)
            self.assertNotIn("canary", done.stderr + done.stdout)
            self.assertEqual({path for path, _ in keys.seen}, {"/sts"})
            pathlib.Path(env["AWS_WEB_IDENTITY_TOKEN_FILE"]).write_text("")
            done = self.upload(server, "--upload-timeout", "1s", code=1, env=env)
            self.assertIn("it is empty", done.stderr)
            self.assertEqual(server.requests, [])

    def role(self, keys, profile="[base]", **more):
        config, credentials = self.dir / "config", self.dir / "credentials"
        config.write_text("[profile team]\nrole_arn = arn:aws:iam::1:role/kymo\n"
                          "source_profile = base\nexternal_id = a+b\n")
        credentials.write_text(f"{profile}\naws_access_key_id = BASE\n"
                               "aws_secret_access_key = base-canary\n")
        return {"AWS_ACCESS_KEY_ID": None, "AWS_SECRET_ACCESS_KEY": None, "AWS_PROFILE": "team",
                "AWS_CONFIG_FILE": str(config), "AWS_SHARED_CREDENTIALS_FILE": str(credentials),
                "AWS_ENDPOINT_URL_STS": f"http://127.0.0.1:{keys.server_address[1]}/sts", **more}

    def test_a_role_of_the_profile_gives_them(self):
        """The signature is judged by MinIO, in make check-s3."""
        self.make_run(1)
        with MockS3() as server, keys_server() as keys:
            self.upload(server, env=self.role(keys))
            (path, form), = keys.seen
            self.assertEqual(path, "/sts")
            self.assertEqual(urllib.parse.parse_qs(form, strict_parsing=True),
                             {"Action": ["AssumeRole"], "Version": ["2011-06-15"],
                              "RoleArn": ["arn:aws:iam::1:role/kymo"],
                              "RoleSessionName": ["kymo"], "ExternalId": ["a+b"]})
            self.assertEqual(server.requests[0][2]["x-amz-security-token"], mock_s3.TOKEN)
            self.assertNotIn("base-canary", form)

    def test_a_role_that_is_not_given_is_said(self):
        self.make_run(1)
        with MockS3() as server, keys_server() as keys:
            done = self.upload(server, "--upload-timeout", "1s", code=1,
                               env=self.role(keys, profile="[other]"))
            self.assertIn("profile base, whose keys would take role", done.stderr)
            keys.refuses = True
            done = self.upload(server, "--upload-timeout", "1s", code=1, env=self.role(keys))
            self.assertIn("AssumeRole at http", done.stderr)
            self.assertNotIn("base-canary", done.stderr + done.stdout)
            self.assertEqual(server.requests, [])

    def program(self, says, then=""):
        """A profile whose keys a program prints; `called` has what it was called with."""
        program, config = self.dir / "my keys", self.dir / "config"
        program.write_text(f"#!/bin/sh\necho \"$@\" >> '{self.dir}/called'\n"
                           f"cat <<'END'\n{says}\nEND\necho stderr-canary >&2\n{then}\n")
        program.chmod(0o755)
        config.write_text(f'[profile tool]\ncredential_process = "{program}" --for $HOME "a b"\n'
                          "[profile team]\nrole_arn = arn:role\nsource_profile = tool\n")
        return {"AWS_ACCESS_KEY_ID": None, "AWS_SECRET_ACCESS_KEY": None, "AWS_PROFILE": "tool",
                "AWS_CONFIG_FILE": str(config), "AWS_EC2_METADATA_DISABLED": "true"}

    def keys_text(self, **more):
        return json.dumps({"Version": 1, "AccessKeyId": mock_s3.ACCESS, "SecretAccessKey":
                           mock_s3.SECRET, "SessionToken": mock_s3.TOKEN, **more})

    def test_a_program_of_the_profile_prints_them(self):
        self.make_run(2)
        with MockS3() as server:
            self.upload(server, env=self.program(self.keys_text()))
            self.assert_all_there(server, 2)
            self.assertEqual(server.requests[0][2]["x-amz-security-token"], mock_s3.TOKEN)
        # No shell: $HOME stays. Without an end they are asked for once.
        self.assertEqual((self.dir / "called").read_text(), "--for $HOME a b\n")

    def test_a_programs_keys_that_end_are_asked_for_anew(self):
        self.make_run(2)
        with MockS3() as server:
            self.upload(server, env=self.program(self.keys_text(Expiration="2026-05-18T12:30:00Z")))
            self.assert_all_there(server, 2)
        self.assertGreater(len((self.dir / "called").read_text().splitlines()), 1)

    def test_a_programs_keys_take_the_role(self):
        self.make_run(1)
        with MockS3() as server, keys_server() as keys:
            self.upload(server, env={**self.program(self.keys_text()), "AWS_PROFILE": "team",
                                     "AWS_ENDPOINT_URL_STS":
                                         f"http://127.0.0.1:{keys.server_address[1]}/sts"})
            (path, form), = keys.seen
            self.assertEqual(path, "/sts")
            self.assertNotIn("Canary", form)
            self.assertIn("RoleArn=arn%3Arole", form)

    def test_a_program_that_fails_is_said_and_its_secrets_are_not(self):
        self.make_run(1)
        no_keys = "is no JSON of version 1"
        with MockS3() as server:
            for says, then, why in ((self.keys_text(), "exit 3", "my keys exits with 3"),
                                    (self.keys_text(), "kill -9 $$", "died of signal 9"),
                                    (self.keys_text(), "yes program-canary", "prints more than"),
                                    (self.keys_text(Version=2), "", no_keys),
                                    (self.keys_text(SecretAccessKey=None), "", no_keys),
                                    ("program-canary", "", no_keys)):
                done = self.upload(server, "--upload-timeout", "100ms", code=1,
                                   env=self.program(says, then))
                self.assertIn(why, done.stderr)
                self.assertNotIn("canary", done.stderr + done.stdout)  # nor its keys: upload()
            self.assertEqual(server.requests, [])

    def test_a_profile_with_keys_that_we_cannot_get_is_said(self):
        self.make_run(1)
        config = self.dir / "config"
        config.write_text("[default]\nsso_session = work\n")
        with MockS3() as server:
            done = self.upload(server, "--upload-timeout", "1s", code=1,
                               env={"AWS_ACCESS_KEY_ID": None, "AWS_SECRET_ACCESS_KEY": None,
                                    "AWS_CONFIG_FILE": str(config)})
        self.assertIn("profile default gets them by sso_session", done.stderr)

    def test_without_any_a_sentence_says_where_they_could_be(self):
        self.make_run(1)
        with MockS3() as server:
            done = self.upload(server, "--upload-timeout", "1s", code=1,
                               env={"AWS_ACCESS_KEY_ID": None, "AWS_SECRET_ACCESS_KEY": None,
                                    "AWS_CONTAINER_CREDENTIALS_FULL_URI": "http://example.com/"})
            self.assertEqual(server.requests, [])
        self.assertIn("AWS_ACCESS_KEY_ID", done.stderr)
        self.assertIn("1 left", done.stdout)


class Records(Upload):
    def start(self, server, *args, **more):
        return subprocess.Popen(
            [KYMO, "run", "--ring-dir", str(self.dir / "rings"), "-o", str(self.traces),
             "--to", "s3://bucket/pre", *args], env=self.environment(server),
            stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, **more)

    def run_kymo_to(self, server, *args, code=0):
        with self.start(server, *args) as process:
            _, err = process.communicate(timeout=DEADLINE_S)
        self.assertEqual(process.returncode, code, err)
        return err

    def segments(self):
        return list(self.traces.glob("*/2*/*.trc*"))

    def test_all_of_a_run_is_there_when_it_ends(self):
        with MockS3() as server:
            # A stack that was sampled by chance would have names in the copy alone.
            err = self.run_kymo_to(server, "--no-symbols", "--", HOST, "5000")
            self.assertIn("sent 1 segment", err)
            (body, _), = server.objects.values()
        path, = self.segments()
        copy = self.dir / "copy.bin.gz"
        copy.write_bytes(body)
        clean = self.dir / "clean.trc"
        self.run_kymo("scrub", "--redact", "args", "-o", clean, path)
        self.assertEqual(self.content(copy), self.content(clean))

    def test_what_an_earlier_run_left_is_sent_by_the_next(self):
        with MockS3() as server:
            server.server.server_close()
            err = self.run_kymo_to(server, "--upload-timeout", "500ms", "--", HOST, "1000")
            self.assertIn("; 1 left", err)
            self.assertIn("left, the oldest is", err)
        with MockS3() as server:
            self.assertIn("sent 2 segments", self.run_kymo_to(server, "--", HOST, "1000"))
            self.assertEqual(len(server.objects), 2)

    def test_a_sigterm_sends_the_last_segment(self):
        ready = self.dir / "ready"
        with MockS3() as server, \
                self.start(server, "--", HOST, "2000", f"touch={ready}",
                           f"wait={self.dir / 'never'}") as process:
            wait_until(ready.exists)
            process.send_signal(signal.SIGTERM)
            _, err = process.communicate(timeout=DEADLINE_S)
            self.assertEqual(len(server.objects), 1, err)
        self.assertEqual(process.returncode, -signal.SIGTERM)

    @contextlib.contextmanager
    def sending(self):
        """Of a recording whose first segment is on its way for ever: the ids of `kymo run` and of
        the program."""
        ready, never = self.dir / "ready", self.dir / "never"
        with MockS3(["hang"] * 9) as server, \
                self.start(server, "--rotate-interval", "1ms", "--upload-timeout", "0", "--", HOST,
                           "2000", "paced=5000", f"touch={ready}", f"wait={never}") as process:
            wait_until(ready.exists)
            self.assertTrue(server.hanging.wait(DEADLINE_S))
            pid, = subprocess.run(["pgrep", "-P", str(process.pid)], check=True, text=True,
                                  capture_output=True).stdout.split()
            yield str(process.pid), pid
            never.touch()
            process.communicate(timeout=DEADLINE_S)

    def test_status_says_what_waits(self):
        with self.sending() as (_, pid):
            words = ("status", "--ring-dir", self.dir / "rings", pid)
            sent = json.loads(self.run_kymo(*words, "--json").out)["sent"]
            self.assertEqual((sent["destinations"], sent["segments"], sent["lost"]), (1, 0, 0))
            self.assertGreaterEqual(sent["waiting"], 1)
            said = self.run_kymo(*words).out
            self.assertRegex(said, r"(?m)^Sent +0 segments, \d+ waiting$")
            self.assertNotIn(mock_s3.SECRET, said + self.run_kymo(*words, "--json").out)

    def test_nothing_of_the_sending_is_in_the_recorded_program(self):
        """No library, thread or connection: a request there costs what it cost without."""
        maps, threads, files = {}, {}, {}
        with self.sending() as (recorder, pid):
            for who in (pid, recorder):
                place = pathlib.Path("/proc") / who
                maps[who] = (place / "maps").read_text()
                threads[who] = [(task / "comm").read_text().strip()
                                for task in (place / "task").iterdir()]
                files[who] = [os.readlink(fd) for fd in (place / "fd").iterdir()]
        self.assertIn("libcurl", maps[recorder])
        self.assertIn("kymo-send", threads[recorder])
        self.assertTrue(any(name.startswith("socket:") for name in files[recorder]))
        self.assertNotIn("libcurl", maps[pid])
        self.assertEqual(len(threads[pid]), 1, threads[pid])
        self.assertFalse([name for name in files[pid] if name.startswith("socket:")])

    def test_what_the_bound_deletes_unsent_is_counted(self):
        run = self.make_run(3, service="run_host")
        for path in run.glob("*.trc"):
            path.write_bytes(b"TRC\0\1" * 9000)
        with MockS3(["500"] * 999) as server:
            self.upload(server, "--upload-timeout", "0", code=1)
            sealed, go = (lambda: list(self.traces.glob("run_host/2*/000000.trc.zst")),
                          self.dir / "go")
            with self.start(server, "--total-bytes", "100K", "--upload-timeout", "0",
                            "--rotate-interval", "1ms", "--", HOST, "2000", f"wait={go}",
                            "polls=2000") as process:
                wait_until(sealed)
                go.touch()
                _, err = process.communicate(timeout=DEADLINE_S)
        self.assertRegex(err, r"[12] segments? lost: --total-bytes deleted (it|them)")
        newest = max(self.traces.glob("run_host/2*/*.trc.zst"), key=lambda path: path.name)
        said = json.loads(self.run_kymo("info", "--json", newest).out)
        self.assertIn("kymo.segments.unsent", json.dumps(said))
        every = newest.parent
        lost = json.loads(self.run_kymo("info", "--json", every).out)["unsent_segments"]
        # What the last seal deletes is in no chunk any more.
        self.assertTrue(1 <= lost <= int(re.search(r"(\d) segments? lost", err)[1]), (lost, err))
        self.assertRegex(self.run_kymo("report", every).out,
                         rf"(?m)^note: {lost} segments? (was|were) deleted by the bound on disk")
        self.assertRegex(self.run_kymo("info", every).out,
                         rf"(?m)^Losses +{lost} segments? (was|were) deleted by the bound on disk")
        self.assertEqual(json.loads(self.run_kymo("info", "--json", every).out)["lost_records"], 0)

    def test_ctrl_c_ends_the_sending(self):
        with MockS3(["hang"] * 9) as server, self.start(server, "--", HOST, "1000") as process:
            self.assertTrue(server.hanging.wait(DEADLINE_S))
            process.send_signal(signal.SIGINT)
            _, err = process.communicate(timeout=DEADLINE_S)
        self.assertEqual(process.returncode, 0)
        self.assertIn("left, the oldest is", err)

    def test_both_killed_and_all_is_there_after_the_next_start(self):
        ready = self.dir / "ready"
        with MockS3() as server:
            with self.start(server, "--rotate-interval", "20ms", "--", HOST, "2000",
                            "paced=20000", f"touch={ready}",
                            f"wait={self.dir / 'never'}") as process:
                wait_until(ready.exists)
                wait_until(self.segments)
                for pid in subprocess.run(["pgrep", "-P", str(process.pid)], check=True,
                                          capture_output=True, text=True).stdout.split():
                    os.kill(int(pid), signal.SIGKILL)
                process.kill()
                process.wait()
            err = self.run_kymo_to(server, "--", HOST, "1000")
            # A recorder that is killed inside its first write leaves nothing to send, and says so.
            whole = [path for path in self.segments() if subprocess.run(
                [KYMO, "info", str(path)], capture_output=True, check=False).returncode == 0]
            self.assertEqual(len(server.objects), len(whole), f"{self.segments()}\n{err}")
            for path in set(self.segments()) - set(whole):
                self.assertTrue(path.stat().st_size == 0 or str(path) in err, (path, err))

    def test_wrong_words_start_nothing(self):
        with MockS3() as server:
            for words, part in ((("--to", "http://x"), "http://x"), (("--exec", " "), "words"),
                                (("--to", "s3://bucket/pre/"), "twice"),
                                (("-o", str(self.dir / "a.trc")), "one file")):
                err = self.run_kymo_to(server, *words, "--", "touch", str(self.dir / "x"),
                                       code=125)
                self.assertIn(part, err)
        self.assertFalse((self.dir / "x").exists())

    def test_no_secret_is_in_what_others_see(self):
        with MockS3(["hang"] * 9) as server, self.start(server, "--", HOST, "1000") as process:
            self.assertTrue(server.hanging.wait(DEADLINE_S))
            seen = pathlib.Path(f"/proc/{process.pid}/cmdline").read_bytes()
            process.send_signal(signal.SIGINT)
            out, err = process.communicate(timeout=DEADLINE_S)
        texts = [out, err, seen.decode()] + [path.read_text() for path in
                                             self.traces.glob("*/*/.sent-*")]
        for text in texts:
            self.assertNotIn(mock_s3.SECRET, text)


if __name__ == "__main__":
    HOST = os.path.abspath(sys.argv.pop(3))
    main()
