#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0 OR MIT
"""kymo serve: who is answered, what is given out, and what the list says.

usage: test_serve.py KYMO SOURCE_ROOT [unittest arguments]
The viewer is a page of three lines here; test/viewer/serve.test.mjs has the real one.
"""
import gzip
import http.client
import json
import os
import pathlib
import shutil
import signal
import socket
import subprocess
import unittest

import cli_case
from cli_case import KYMO, OLD, ROOT, Cli
from unittest_tap import DEADLINE_S, wait_until

GOLDEN = ROOT / "test/golden/faults"
POLICY = "default-src 'none'; script-src 'sha256-x'"
PAGE = f"""<!doctype html>
<meta http-equiv="Content-Security-Policy" content="{POLICY}">
<title>kymo</title>
<!--kymo-trace-->
"""
REFUSED = (("Host", "evil.example"), ("Host", "127.0.0.1:1"), ("Host", ""),
           ("Origin", "http://evil.example"), ("Origin", "null"),
           ("Sec-Fetch-Site", "cross-site"), ("Sec-Fetch-Site", "same-site"))


class Server:
    """kymo serve until the end of the block. The program runs from a copy with its viewer."""

    def __init__(self, program, *words, env=None):
        self.process = subprocess.Popen([program, "serve", *map(str, words)], env=env,
                                        stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)

    def __enter__(self):
        self.url = self.process.stdout.readline().strip()
        self.host, _, self.token = self.url.removeprefix("http://").rstrip("/").partition("/")
        return self

    def __exit__(self, *_):
        self.code = None
        if self.process.poll() is None:
            self.process.terminate()
        _, self.err = self.process.communicate(timeout=DEADLINE_S)
        self.code = self.process.returncode

    def ask(self, path="", method="GET", body=None, **headers):
        """(status, headers, bytes) of a path below the token."""
        return self.ask_at(f"/{self.token}/{path}", method, body, **headers)

    def ask_at(self, path, method="GET", body=None, **headers):
        link = http.client.HTTPConnection(self.host, timeout=DEADLINE_S)
        link.request(method, path, body,
                     {name.replace("_", "-"): value for name, value in headers.items()})
        answer = link.getresponse()
        data = answer.read()
        link.close()
        return answer.status, answer.headers, data

    def say(self, data):
        """What comes back for these bytes, up to the end of the connection."""
        host, _, port = self.host.rpartition(":")
        with socket.create_connection((host.strip("[]"), int(port)), DEADLINE_S) as link:
            try:
                link.sendall(data)
                link.shutdown(socket.SHUT_WR)
            except OSError:
                pass
            parts = []
            try:
                while part := link.recv(65536):
                    parts.append(part)
            except ConnectionResetError:
                pass
            return b"".join(parts)

    def json(self, path="api/traces"):
        status, _, data = self.ask(path)
        if status != 200:
            raise AssertionError(f"{path}: {status} {data}")
        return json.loads(data)

    def read(self):
        """The list, once all files are read and none has changed since."""
        wait_until(lambda: self.json()["waiting"] == 0 and
                   all(one["is_current"] for one in self.json()["traces"]))
        return self.json()["traces"]


class Serve(Cli):
    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.place = pathlib.Path(cli_case.tempfile.mkdtemp(prefix="kymo-serve-"))
        cls.addClassCleanup(shutil.rmtree, cls.place)
        cls.program = cls.place / "bin/kymo"
        cls.program.parent.mkdir()
        shutil.copy(KYMO, cls.program)
        (cls.place / "share/kymo").mkdir(parents=True)
        (cls.place / "share/kymo/viewer.html").write_text(PAGE, encoding="utf-8")

    def setUp(self):
        super().setUp()
        self.traces = self.dir / "traces"
        self.traces.mkdir()

    def serve(self, *words):
        return Server(self.program, *(words or [self.traces]))

    def put(self, name, source="cpu_poll.trc.zst"):
        path = self.traces / name
        path.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(GOLDEN / source, path)
        return path


    def put_indexed(self, name, source="cpu_poll.trc.zst"):
        """With the index and the seek table that a recorder writes."""
        path = self.traces / name
        self.run_kymo("convert", "-o", path, GOLDEN / source)
        return path


class Access(Serve):
    def test_it_prints_its_address_and_ends_by_a_signal(self):
        for ending in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
            with self.serve() as server:
                self.assertRegex(server.url, r"^http://127\.0\.0\.1:\d+/[0-9a-f]{32}/$")
                self.assertEqual(server.ask()[0], 200)
                server.process.send_signal(ending)
                server.process.wait(DEADLINE_S)
            self.assertEqual((server.code, server.err), (0, ""))

    def test_without_the_token_there_is_no_answer(self):
        self.put("one.trc.zst")
        with self.serve() as server:
            token = server.token
            (one,) = server.json()["traces"]
            wrong = [token[:-1], token + "0", token.upper(), "0" * 32, "", "..",
                     ("1" if token[0] == "0" else "0") + token[1:]]
            for given in [word for word in wrong if word != token]:
                for path in ("", "api/traces", "view.html", f"trace/{one['id']}"):
                    status, _, data = server.ask_at(f"/{given}/{path}")
                    self.assertEqual((status, data.count(b"\n")), (403, 1), (given, path))
                    self.assertNotIn(b"one.trc", data)
            self.assertEqual(server.ask_at(f"/{token}")[0], 403)
            for path in ("/", "/api/traces"):
                self.assertEqual(server.ask_at(path)[0], 403)
                self.assertEqual(server.ask_at(path, Authorization=f"Bearer {token}")[0], 200)
                for other in (f"Bearer {token}0", f"bearer{token}", f"Basic {token}", "Bearer "):
                    self.assertEqual(server.ask_at(path, Authorization=other)[0], 403)

    def test_two_servers_have_two_tokens(self):
        with self.serve() as one, self.serve() as other:
            self.assertNotEqual(one.token, other.token)
            self.assertNotEqual(one.host, other.host)
            self.assertEqual(one.ask_at(f"/{other.token}/")[0], 403)

    def test_foreign_hosts_and_sites_are_refused(self):
        with self.serve() as server:
            for name, value in REFUSED:
                status, _, data = server.ask(**{name.replace("-", "_"): value})
                self.assertEqual((status, data.count(b"\n")), (403, 1), (name, value))
            port = server.host.rpartition(":")[2]
            for name, value in (("Host", f"localhost:{port}"), ("Origin", f"http://{server.host}"),
                                ("Sec-Fetch-Site", "same-origin"), ("Sec-Fetch-Site", "none")):
                self.assertEqual(server.ask(**{name.replace("-", "_"): value})[0], 200, value)
            path = f"/{server.token}/".encode()
            for lines in (b"", b"Host: a\r\nHost: b\r\n",
                          f"Host: {server.host}\r\nHost: {server.host}\r\n".encode()):
                got = server.say(b"GET " + path + b" HTTP/1.1\r\n" + lines + b"\r\n")
                self.assertRegex(got, rb"^HTTP/1\.1 40[03] ")
            got = server.say(b"GET " + path + b" HTTP/1.0\r\n\r\n")
            self.assertRegex(got, rb"^HTTP/1\.. 40[03] ")

    def test_it_gives_and_takes_nothing(self):
        with self.serve() as server:
            for method in ("POST", "PUT", "DELETE", "OPTIONS", "PATCH", "TRACE", "KYMO"):
                status, headers, data = server.ask(method=method)
                self.assertEqual((status, headers["Allow"], data.count(b"\n")),
                                 (405, "GET, HEAD", 1), method)
            self.assertEqual(server.ask(method="POST", body=b"x" * 100000)[0], 403)
            self.assertEqual(server.ask(body=b"x")[0], 403)
            status, headers, data = server.ask(method="HEAD")
            self.assertEqual((status, data), (200, b""))
            self.assertGreater(int(headers["Content-Length"]), 100)

    def test_what_is_no_request_or_too_long_ends(self):
        with self.serve() as server:
            path = f"/{server.token}/".encode()
            host = f"Host: {server.host}\r\n".encode()
            for data in (b"GET " + path + b" HTTP/1.1\r\n" + host + b"X: " + b"x" * 100000,
                         b"GET " + path + b"x" * 100000 + b" HTTP/1.1\r\n" + host + b"\r\n",
                         b"GET " + path + b" HTTP/1.1\r\n" + host + b"X: y\r\n" * 20000,
                         b"\0" * 50000, os.urandom(1000) + b"\r\n\r\n", b"\r\n" * 40000,
                         b"GET " + path + b" HTTP/9.9\r\n" + host + b"\r\n",
                         b"GET http://evil.example/ HTTP/1.1\r\n" + host + b"\r\n"):
                got = server.say(data)
                self.assertNotIn(b" 200 ", got[:20], data[:60])
            self.assertEqual(server.ask()[0], 200)

    def test_many_connections_at_once_leave_it_alive(self):
        with self.serve() as server:
            host, _, port = server.host.rpartition(":")
            links = [socket.create_connection((host, int(port)), DEADLINE_S) for _ in range(200)]
            for link in links:
                try:
                    link.sendall(b"GET /")
                except OSError:
                    pass
            for link in links:
                link.close()
            wait_until(lambda: self.answers(server))

    @staticmethod
    def answers(server):
        try:
            return server.ask()[0] == 200
        except OSError:
            return False

    def test_every_answer_says_what_a_browser_may_do_with_it(self):
        self.put("one.trc.zst")
        with self.serve() as server:
            (one,) = server.json()["traces"]
            for path in ("", "list.css", "view.html", "api/traces", f"api/traces/{one['id']}",
                         f"trace/{one['id']}", "nothing"):
                _, headers, _ = server.ask(path)
                self.assertEqual(headers["X-Content-Type-Options"], "nosniff", path)
                self.assertEqual(headers["Cross-Origin-Resource-Policy"], "same-origin")
                self.assertEqual(headers["Referrer-Policy"], "no-referrer")
                self.assertIn("default-src 'none'", headers["Content-Security-Policy"])
                self.assertIn("frame-ancestors 'none'", headers["Content-Security-Policy"])
                self.assertNotIn("Access-Control-Allow-Origin", headers)
                self.assertNotEqual(headers["Cache-Control"], None)

    def test_the_viewer_comes_without_its_own_policy(self):
        with self.serve() as server:
            status, headers, data = server.ask("view.html")
            self.assertEqual(status, 200)
            self.assertEqual(data.decode(), PAGE.replace('http-equiv="Content-Security-Policy"',
                                                         'name="kymo-policy"'))
            self.assertEqual(headers["Content-Security-Policy"],
                             f"{POLICY}; connect-src 'self'; frame-ancestors 'none'")
            self.assertEqual(server.ask("view.html", If_None_Match=headers["ETag"])[0], 304)

    def test_listening_elsewhere_is_said(self):
        with self.serve("--listen", "127.0.0.1:0", self.traces) as server:
            self.assertEqual(server.ask()[0], 200)
            port = server.host.rpartition(":")[2]
            done = subprocess.run([self.program, "serve", "--listen", server.host, self.traces],
                                  capture_output=True, text=True, check=False)
            self.assertEqual((done.returncode, done.stdout, done.stderr.count("\n")), (1, "", 1))
            self.assertIn(port, done.stderr)
        with self.serve("--listen", "0.0.0.0:0", self.traces) as server:
            port = server.host.rpartition(":")[2]
            self.assertEqual(server.ask(Host=f"127.0.0.1:{port}")[0], 200)
            self.assertEqual(server.ask(Host=f"evil.example:{port}")[0], 403)
        self.assertIn("other machines can reach", server.err)

    def test_wrong_words_cost_one_sentence(self):
        nothing = self.dir / "nothing"
        for words in ((nothing,), ("/dev/null",)):
            done = subprocess.run([self.program, "serve", *words], capture_output=True, text=True,
                                  check=False)
            self.assertEqual((done.returncode, done.stdout, done.stderr.count("\n")), (1, "", 1))
            self.assertIn(str(words[0]), done.stderr)
        for value in ("8080", "host:1", "127.0.0.1", "127.0.0.1:", "127.0.0.1:65536", "[::1:1",
                      "::1:80", "127.0.0.1:x", ":80", "", "127.0.0.1:-1"):
            self.fails("serve", "--listen", value, self.traces, code=2, says=("--listen",))
        self.fails("serve", code=2, says=("name a directory",))
        (self.place / "share/kymo/viewer.html").rename(self.place / "kept.html")
        try:
            done = subprocess.run([self.program, "serve", self.traces], capture_output=True,
                                  text=True, check=False)
            self.assertEqual((done.returncode, done.stderr.count("\n")), (1, 1))
            self.assertIn("make viewer", done.stderr)
        finally:
            (self.place / "kept.html").rename(self.place / "share/kymo/viewer.html")


class Files(Serve):
    def test_a_file_comes_as_it_is(self):
        for name, data in (("a.trc.zst", (GOLDEN / "cpu_poll.trc.zst").read_bytes()),
                           ("b.bin.gz", (self.data / OLD).read_bytes()),
                           ("c.trc", gzip.decompress((self.data / OLD).read_bytes()))):
            (self.traces / name).write_bytes(data)
        with self.serve() as server:
            for one in server.json()["traces"]:
                path = pathlib.Path(one["name"])
                status, headers, data = server.ask(f"trace/{one['id']}")
                self.assertEqual((status, data), (200, path.read_bytes()))
                self.assertEqual(headers["Content-Type"], "application/octet-stream")
                self.assertNotIn("Content-Encoding", headers)
                self.assertIn("".join(f"%{ord(byte):02X}" for byte in path.name),
                              headers["Content-Disposition"])

    def test_ranges_and_tags(self):
        whole = self.put("one.trc.zst").read_bytes()
        size = len(whole)
        with self.serve() as server:
            (one,) = server.json()["traces"]
            path = f"trace/{one['id']}"
            tag = server.ask(path)[1]["ETag"]
            for text, data in (("bytes=0-9", whole[:10]), (f"bytes={size - 1}-", whole[-1:]),
                               ("bytes=-7", whole[-7:]), (f"bytes=5-{size + 9}", whole[5:])):
                status, headers, got = server.ask(path, Range=text)
                self.assertEqual((status, got), (206, data), text)
                begin = whole.index(data) if len(data) > 7 else size - len(data)
                self.assertEqual(headers["Content-Range"],
                                 f"bytes {begin}-{begin + len(data) - 1}/{size}")
            for text in (f"bytes={size}-", "bytes=-0"):
                status, headers, _ = server.ask(path, Range=text)
                self.assertEqual((status, headers["Content-Range"]), (416, f"bytes */{size}"))
            for text in ("bytes=5-1", "bytes=0-1,3-4", "lines=1-2", "bytes=a-b"):
                self.assertEqual(server.ask(path, Range=text)[::2], (200, whole), text)
            self.assertEqual(server.ask(path, If_None_Match=tag)[::2], (304, b""))
            self.assertEqual(server.ask(path, If_None_Match='"other"')[0], 200)
            self.assertEqual(server.ask(path, Range="bytes=0-9", If_Range=tag)[0], 206)
            self.assertEqual(server.ask(path, Range="bytes=0-9", If_Range='"other"')[0], 200)
            status, headers, data = server.ask(path, method="HEAD")
            self.assertEqual((status, data, headers["Content-Length"], headers["ETag"]),
                             (200, b"", str(size), tag))

    def test_a_tag_names_the_file_and_what_it_holds(self):
        trace = self.put("one.trc.active")
        with self.serve() as server:
            (one,) = server.json()["traces"]
            path = f"trace/{one['id']}"
            before = server.ask(path)[1]["ETag"]
            with open(trace, "ab") as file:
                file.write(b"more")
            after = server.ask(path)[1]["ETag"]
            self.assertNotEqual(before, after)
            self.assertEqual(before.split("-")[0], after.split("-")[0])
            trace.rename(self.traces / "one.trc")
            (again,) = server.json()["traces"]
            self.assertEqual(again["id"], one["id"])
            self.assertEqual(again["name"], str(self.traces / "one.trc"))
            self.assertEqual(server.ask(path)[1]["ETag"], after)
            kept = self.traces / "kept"
            (self.traces / "one.trc").rename(kept)
            shutil.copy(GOLDEN / "deadlock.trc.zst", self.traces / "one.trc")
            self.assertIn(server.ask(path)[0], (200, 404))
            self.assertNotEqual(server.ask(path)[2],
                                (GOLDEN / "deadlock.trc.zst").read_bytes())

    def test_texts_are_packed_as_the_client_likes(self):
        self.put("a.trc.zst")
        with self.serve() as server:
            server.read()
            plain = server.ask()[2]
            for coding in ("gzip", "zstd"):
                status, headers, data = server.ask(Accept_Encoding=f"br, {coding}")
                self.assertEqual((status, headers["Content-Encoding"]), (200, coding))
                self.assertEqual(headers["Vary"], "Accept-Encoding")
                unpacked = (gzip.decompress(data) if coding == "gzip" else
                            subprocess.run(["zstd", "-dc"], input=data, check=True,
                                           capture_output=True).stdout)
                self.assertEqual(unpacked, plain)
                again = server.ask(Accept_Encoding=coding, If_None_Match=headers["ETag"])
                self.assertEqual((again[0], again[2]), (304, b""))
                # The other coding is another answer.
                self.assertEqual(server.ask(If_None_Match=headers["ETag"])[0], 200)
            refused = server.ask(Accept_Encoding="gzip;q=0")
            self.assertIsNone(refused[1]["Content-Encoding"])

    def test_a_map_says_what_the_index_says(self):
        path = self.put_indexed("a.trc.zst")
        with self.serve() as server:
            one, = server.read()
            server_map = server.json(f"api/map/{one['id']}?pieces=10")
            again = server.json(f"api/map/{one['id']}?pieces=1")
        info = json.loads(self.run_kymo("info", "--json", path).out)
        self.assertEqual(server_map["pieces"], 10)
        for one in (server_map, again):
            self.assertEqual(sum(one["events"]), one["event_count"])
            self.assertLessEqual(one["event_count"], info["events"])
            self.assertGreater(one["event_count"], info["events"] // 2)
        report = json.loads(self.run_kymo("report", "--json", path).out)["tables"]
        longest = max(lane["longest"][2] for lane in again["workers"] if lane["longest"])
        self.assertEqual(longest, report["polls"]["max_ns"])
        self.assertEqual(sum(lane["polls"] for lane in again["workers"]),
                         report["polls"]["count"])

    def test_a_part_is_a_trace_of_its_own(self):
        self.put_indexed("a.trc.zst")
        with self.serve() as server:
            one, = server.read()
            whole = server.json(f"api/map/{one['id']}?pieces=1")
            end = whole["duration_ns"]
            status, _, data = server.ask(f"part/{one['id']}?from={end // 2}&to={end // 2 + 1}")
            self.assertEqual(status, 200)
        part = self.dir / "part.trc.zst"
        part.write_bytes(data)
        info = json.loads(self.run_kymo("info", "--json", part).out)
        self.assertEqual(info["files"][0]["torn"], False)
        self.assertLessEqual(info["events"], whole["event_count"] + 64)
        self.assertGreater(info["events"], 0)

    def test_what_has_no_map_says_so(self):
        self.put_indexed("a.trc.zst")
        self.put_indexed("b.trc.zst", "lock_held.trc.zst")
        self.put("plain.trc.zst")  # of one frame, without a table
        with self.serve() as server:
            ids = {pathlib.Path(one["name"]).name: one["id"] for one in server.read()}
            for path, code in ((ids["plain.trc.zst"], 422),
                               (f"{ids['a.trc.zst']},{ids['b.trc.zst']}", 422),
                               ("0" * 16, 404), ("..", 404), ("a,b", 404),
                               (f"{ids['a.trc.zst']}?from=5&to=3", 400),
                               (f"{ids['a.trc.zst']}?pieces=0", 400),
                               (f"{ids['a.trc.zst']}?pieces=99999", 400),
                               (f"{ids['a.trc.zst']}?from=-1", 400)):
                status, _, data = server.ask(f"api/map/{path}")
                self.assertEqual(status, code, path)
                self.assertRegex(data.decode(), r"^\S.*\.\n$")
            self.assertEqual(server.ask(f"part/{ids['a.trc.zst']}")[0], 400)

    def test_the_heat_map_has_a_row_for_each_process(self):
        self.put("a.trc.zst")
        self.put("b/a.trc.zst", "lock_held.trc.zst")
        with self.serve() as server:
            ids = {one["service"]: one["id"] for one in server.read()}
            page = server.ask()[2].decode()
            chosen = server.ask(f"?pick={ids['cpu_poll']},{ids['lock_held']},%22%3E%3Cb%3E")[2]
        self.assertEqual(page.count('<th scope="row">'), 2)
        self.assertIn(f'href="view.html?open={ids["lock_held"]}"', page)
        # What blocks for longest stands first.
        self.assertLess(page.index("lock_held vm"), page.index("cpu_poll vm"))
        self.assertIn(f'view.html?open={ids["lock_held"]},{ids["cpu_poll"]}"', chosen.decode())
        self.assertNotIn(b"<b>", chosen)

    def test_nothing_outside_is_reached(self):
        secret = self.dir / "secret.trc.zst"
        shutil.copy(GOLDEN / "deadlock.trc.zst", secret)
        outside = self.dir / "outside"
        outside.mkdir()
        shutil.copy(secret, outside / "two.trc.zst")
        self.put("one.trc.zst")
        (self.traces / "link.trc.zst").symlink_to(secret)
        (self.traces / "inner.trc.zst").symlink_to("one.trc.zst")
        (self.traces / "directory").symlink_to(outside)
        (self.traces / "up").symlink_to("..")
        os.mkfifo(self.traces / "pipe.trc")
        with self.serve() as server:
            (one,) = server.json()["traces"]
            self.assertEqual(one["name"], str(self.traces / "one.trc.zst"))
            for path in ("../secret.trc.zst", "..%2fsecret.trc.zst", "%2e%2e/secret.trc.zst",
                         "one.trc.zst", "link.trc.zst", "/etc/passwd", "", "0" * 16, "0" * 15,
                         one["id"] + "0", one["id"].upper() + "/", f"{one['id']}/../x",
                         f"-{one['id'][1:]}", f"+{one['id'][1:]}"):
                status, _, data = server.ask(f"trace/{path}")
                self.assertIn(status, (400, 403, 404), path)
                self.assertNotIn(secret.read_bytes()[:16], data)
            # What was a file becomes a link between two requests.
            trace = self.traces / "one.trc.zst"
            trace.unlink()
            trace.symlink_to(secret)
            self.assertEqual(server.ask(f"trace/{one['id']}")[0], 404)
            trace.unlink()
            shutil.copy(secret, trace)
            status, _, data = server.ask(f"trace/{one['id']}")
            self.assertTrue(status == 404 or data != secret.read_bytes() or
                            server.json()["traces"][0]["id"] == one["id"])

    def test_a_directory_that_becomes_a_link_is_not_followed(self):
        self.put("sub/one.trc.zst")
        outside = self.dir / "outside"
        outside.mkdir()
        shutil.copy(GOLDEN / "deadlock.trc.zst", outside / "one.trc.zst")
        with self.serve() as server:
            (one,) = server.json()["traces"]
            (self.traces / "sub").rename(self.dir / "moved")
            (self.traces / "sub").symlink_to(outside)
            self.assertEqual(server.ask(f"trace/{one['id']}")[0], 404)
            self.assertEqual(server.json()["traces"], [])


class List(Serve):
    def test_it_says_what_kymo_info_and_report_say(self):
        for name in ("deadlock.trc.zst", "cpu_poll.trc.zst"):
            self.put(name, name)
        shutil.copy(self.data / OLD, self.traces / OLD)
        with self.serve() as server:
            listed = server.read()
            self.assertEqual(len(listed), 3)
            for one in listed:
                facts = server.json(f"api/traces/{one['id']}")
                info = json.loads(self.run_kymo("info", "--json", one["name"]).out)
                self.assertEqual(facts.pop("info"), info)
                self.assertEqual(facts, one)
                tables = json.loads(self.run_kymo("report", "--json", one["name"]).out)["tables"]
                self.assertEqual(one["worst_delay_ns"], tables["delays"]["max_ns"])
                self.assertEqual(one["worst_poll_ns"], tables["polls"]["max_ns"])
                self.assertEqual(one["polls"], info["polls"])
                self.assertEqual(one["events"], info["events"])
                self.assertEqual(one["bytes"], os.stat(one["name"]).st_size)
                self.assertEqual((one["service"], one["state"]), (info["service"], "read"))

    def test_order_and_choice(self):
        for name in ("deadlock.trc.zst", "cpu_poll.trc.zst", "driver_late.trc.zst"):
            self.put(f"x/{name}", name)
        with self.serve() as server:
            listed = server.read()
            names = [one["name"] for one in listed]
            self.assertEqual(names, sorted(names))
            for key, field in (("size", "bytes"), ("delay", "worst_delay_ns"), ("polls", "polls"),
                               ("time", "start_unix_ns"), ("service", "service")):
                for sign in ("", "-"):
                    sorted_list = server.json(f"api/traces?sort={sign}{key}")["traces"]
                    got = [one[field] for one in sorted_list]
                    self.assertEqual(got, sorted(got, reverse=bool(sign)), key)
            self.assertEqual(server.json("api/traces?sort=nonsense")["traces"], listed)
            (one,) = server.json("api/traces?service=cpu_poll")["traces"]
            self.assertEqual(one["service"], "cpu_poll")
            self.assertEqual(server.json("api/traces?service=cpu_poll&host=none")["traces"], [])
            page = server.ask("?service=cpu_poll")[2].decode()
            self.assertEqual(page.count("view.html?trace="), 1)

    def test_what_is_broken_has_one_sentence(self):
        whole = (GOLDEN / "cpu_poll.trc.zst").read_bytes()
        (self.traces / "text.trc").write_text("no trace\n")
        (self.traces / "empty.trc.zst").write_bytes(b"")
        (self.traces / "begin.trc.zst").write_bytes(whole[:9])
        half = gzip.decompress((self.data / OLD).read_bytes())[:1000001]
        (self.traces / "half.trc").write_bytes(half)
        (self.traces / "notes.txt").write_text("not listed\n")
        (self.traces / "log.gz").write_bytes(gzip.compress(b"not listed"))
        (self.traces / ".hidden.trc").write_bytes(whole)
        with self.serve() as server:
            listed = {pathlib.Path(one["name"]).name: one for one in server.read()}
            self.assertEqual(sorted(listed), ["begin.trc.zst", "empty.trc.zst", "half.trc",
                                              "text.trc"])
            for name in ("begin.trc.zst", "empty.trc.zst", "text.trc"):
                one = listed[name]
                self.assertEqual((one["state"], one["polls"]), ("failed", None))
                self.assertIn(name, one["sentence"])
                self.assertNotIn("\n", one["sentence"])
            self.assertEqual(listed["half.trc"]["state"], "read")
            page = server.ask()[2].decode()
            self.assertIn("(without its end)", page)
            self.assertIn("text.trc: not a trace", page)

    def test_files_that_are_named_are_listed_whatever_they_hold(self):
        one = self.put("one.trc.zst")
        text = self.dir / "text"
        text.write_text("no trace\n")
        link = self.dir / "link"
        link.symlink_to(one)
        with self.serve(text, one, link, self.traces) as server:
            self.assertEqual([entry["name"] for entry in server.read()], [str(text), str(one)])

    def test_new_segments_come_and_what_is_gone_goes(self):
        with self.serve() as server:
            self.assertEqual(server.json(), {"waiting": 0, "is_cut": False, "traces": []})
            self.assertIn(b"There is no trace here yet", server.ask()[2])
            first = self.put("s/000000.trc.zst")
            self.assertEqual([one["name"] for one in server.read()], [str(first)])
            second = self.put("s/000001.trc.zst", "deadlock.trc.zst")
            self.assertEqual([one["service"] for one in server.read()], ["cpu_poll", "deadlock"])
            first.unlink()
            self.assertEqual([one["name"] for one in server.read()], [str(second)])
            shutil.rmtree(self.traces)
            self.assertEqual(server.json()["traces"], [])
            self.assertEqual(server.ask()[0], 200)

    def test_a_file_that_grows_is_read_again(self):
        whole = gzip.decompress((self.data / OLD).read_bytes())
        trace = self.traces / "000000.trc.active"
        trace.write_bytes(whole[:1000000])
        with self.serve() as server:
            (before,) = server.read()
            with open(trace, "ab") as file:
                file.write(whole[1000000:])
            (after,) = server.read()
            self.assertEqual(before["id"], after["id"])
            self.assertLess(before["polls"], after["polls"])
            trace.rename(self.traces / "000000.trc")
            (sealed,) = server.read()
            self.assertEqual((sealed["id"], sealed["polls"]), (after["id"], after["polls"]))

    def test_a_thousand_files(self):
        for at in range(1000):
            self.put(f"d{at % 10}/{at:04}.trc.zst")
        with self.serve() as server:
            self.assertEqual(len(server.json()["traces"]), 1000)
            self.assertEqual(server.ask()[2].decode().count("view.html?trace="), 1000)
            wait_until(lambda: server.json()["waiting"] < 1000)

    def test_names_are_text(self):
        name = "<img src=x onerror=alert(1)>&\"'\n.trc.zst"
        self.put(name)
        (self.traces / b"\xff\xfe.trc".decode(errors="surrogateescape")).write_bytes(b"x")
        with self.serve() as server:
            page = server.ask("?service=%3Cb%3E%22&sort=%22%3E")[2]
            self.assertNotIn(b"<b>", page)
            page = server.ask()[2]
            self.assertNotIn(b"<img", page)
            self.assertIn(b"&lt;img src=x onerror=alert(1)>&amp;&quot;", page)
            listed = server.read()
            self.assertIn(str(self.traces / name), [one["name"] for one in listed])
            for one in listed:
                self.assertEqual(server.ask(f"trace/{one['id']}")[0], 200)

    def test_directories_too_deep_are_passed_over_and_said(self):
        deep = self.traces
        for _ in range(20):
            deep = deep / "d"
        deep.mkdir(parents=True)
        shutil.copy(GOLDEN / "cpu_poll.trc.zst", deep / "one.trc.zst")
        with self.serve() as server:
            self.assertEqual(server.json()["is_cut"], True)
            self.assertIn(b"more files than this list holds", server.ask()[2])


if __name__ == "__main__":
    cli_case.main()
