#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0 OR MIT
"""`kymo scrub` and what `kymo html` leaves out: canaries in every kind of text appear in no byte of
what was written, while the reports say the same.

usage: test_scrub.py KYMO SOURCE_ROOT [unittest arguments]
"""
import base64
import gzip
import json
import os
import pathlib
import re
import shutil
import subprocess

import cli_case
from cli_case import Cli, NEW, OLD, main
from trace_maker import TAGS, Trace

MS = 1000000
CANARY = "hunter2canary"
HOMES = ["/home" + "/joecanary", "/Users" + "/joecanary", "/" + "root"]
TAGS.update(LIST=14, MAP=15, POOLED=7)


def text(value):
    return len(value).to_bytes(4, "little") + value


class Made(Trace):
    """A trace that has a secret wherever there is a text."""

    def raw(self, name, time, *fields):
        """Fields whose bytes are given: containers."""
        self.event(name, time, *((field, "BYTES", b"") for field, _, _ in fields))
        del self.bytes[len(self.bytes) - 4 * len(fields):]
        for _, _, raw in fields:
            self.bytes += raw
        return self


def secrets():
    trace = Made()
    trace.metadata(service="front", host="box", pid=7, kymo__version="1",
                   app__token=CANARY + "1", kymo__dump__reason=CANARY + "2",
                   process__end=f"killed in {HOMES[0]}/app")
    trace.event("SymbolTableEntry", 0, ("addr", "VARINT", 0x10), ("size", "VARINT", 16),
                ("symbol_name", "STRING", b"app::work"), ("inline_depth", "VARINT", 0),
                ("source_file", "STRING", f"{HOMES[1]}/app/src/main.rs".encode()),
                ("source_line", "VARINT", 7))
    trace.map(f"{HOMES[2]}/app/target/app", "aa" * 20, 0x1000, 0x2000, 0)
    for number in range(20):
        at = (100 + 10 * number) * MS
        trace.event("PollStartEvent", at, ("worker_id", "VARINT", 0), ("local_queue", "VARINT", 0),
                    ("task_id", "VARINT", number + 1),
                    ("spawn_loc", "STRING", f"{HOMES[0]}/app/src/main.rs:5:9".encode()))
        trace.event("PollEndEvent", at + 3 * MS, ("worker_id", "VARINT", 0))
    enter = f"SpanEnter:app::login:{HOMES[0]}/app/src/login.rs:40"
    trace.event(enter, 101 * MS, ("span_id", "VARINT", 9),
                ("span_name", "STRING", b"login"), ("worker_id", "VARINT", 0),
                ("user", "STRING", f"{CANARY}3".encode()))
    trace.event(enter.replace("Enter", "Exit"), 102 * MS, ("span_id", "VARINT", 9),
                ("span_name", "STRING", b"login"), ("worker_id", "VARINT", 0))
    trace.event("Query", 103 * MS, ("sql", "STRING", f"{CANARY}4".encode()), ("n", "VARINT", 5),
                ("raw", "BYTES", f"{CANARY}5".encode()),
                ("tags", "STRING_MAP", [(f"{CANARY}6".encode(), f"{CANARY}7".encode())]))
    trace.event("AnnotationEvent", 104 * MS, ("label", "STRING", f"{CANARY}8".encode()),
                ("tid", "U32", 0))
    trace.crash(400 * MS, 0x10, 0, 0, (0x7972616e61633968,), f"{CANARY}9".encode())
    # A list of a text and a list with a text, and a map from a text to a text.
    inner = bytes([4]) + text(f"{CANARY}A".encode())
    trace.schema("Tree", [("list", "LIST"), ("map", "MAP")])
    trace.bytes += (b"\2" + trace.ids["Tree"].to_bytes(2, "little") + b"\0\0\0" +
                    (2).to_bytes(4, "little") + inner + bytes([14]) + (1).to_bytes(4, "little") +
                    inner + (1).to_bytes(4, "little") + bytes([4]) + text(f"{CANARY}B".encode()) +
                    bytes([4]) + text(f"{CANARY}C".encode()))
    return trace


class Scrub(Cli):
    def written(self, path):
        """The bytes of a file, unpacked."""
        if str(path).endswith(".zst"):
            return subprocess.run(["zstd", "-dcq", path], check=True, capture_output=True).stdout
        data = pathlib.Path(path).read_bytes()
        return gzip.decompress(data) if data[:2] == b"\x1f\x8b" else data

    def scrub(self, source, *arguments, name="out.trc"):
        out = self.dir / name
        self.run_kymo("scrub", "-q", "-f", "-o", out, *arguments, source)
        return out

    def test_no_secret_is_in_any_byte(self):
        source = secrets().save(self.dir / "secrets.trc")
        self.assertEqual(len(set(re.findall(CANARY.encode() + b".", source.read_bytes()))), 12)
        for name in ("out.trc", "out.trc.zst", "out.trc.gz"):
            data = self.written(self.scrub(source, name=name))
            self.assertNotIn(b"canary", data)
            self.assertNotIn(b"yranac", data)
            self.assertNotIn(b"/root", data)
            self.assertIn(b"~/app/src/main.rs:5:9", data)
            self.assertIn(b"app::work", data)
            self.assertIn(b"login", data)
            self.assertIn(b"kymo.version", data)

    def test_arguments_alone_keep_values(self):
        data = self.written(self.scrub(secrets().save(self.dir / "s.trc"), "--redact", "args"))
        found = {one[-1:] for one in re.findall(CANARY.encode() + b".", data)}
        self.assertEqual(found, {b"3", b"4", b"5", b"6", b"7", b"8", b"A", b"B", b"C"})
        self.assertNotIn(b"joecanary", data)

    def test_names_become_hashes_that_are_equal_where_the_names_were(self):
        source = secrets().save(self.dir / "s.trc")
        out = self.scrub(source, "--redact", "names")
        data = self.written(out)
        for secret in (b"canary", b"app::", b"main.rs", b"login", b"front", b"box"):
            self.assertNotIn(secret, data)
        rows = json.loads(self.run_kymo("query", "--json", "SELECT site, count(*) AS n FROM polls "
                                        "GROUP BY site", out).stdout)["rows"]
        self.assertEqual([row["n"] for row in rows], [20])
        self.assertRegex(rows[0]["site"], r"^n[0-9a-f]{12}$")
        spans = json.loads(self.run_kymo("query", "--json", "SELECT count(*) AS n FROM spans",
                                         out).stdout)["rows"]
        self.assertEqual(spans, [{"n": 1}])
        other = self.scrub(source, "--redact", "names", name="other.trc")
        self.assertNotEqual(self.written(other), data)

    def test_what_is_kept_stays(self):
        source = secrets().save(self.dir / "s.trc")
        data = self.written(self.scrub(source, "--keep", "values,paths"))
        self.assertIn(b"joecanary", data)
        self.assertIn(f"{CANARY}3".encode(), data)
        self.assertNotIn(f"{CANARY}1".encode(), data)
        whole = self.scrub(source, "--keep", "all")
        self.assertEqual(self.content(whole), self.content(source))

    def test_reports_say_the_same(self):
        for source in (NEW, OLD):
            out = self.scrub(source, "--keep", "paths", name="same.trc.zst")
            for command in (("report", "--full"), ("why",),
                            ("query", "SELECT count(*), sum(duration_ns), min(site) FROM polls"),
                            ("query", "SELECT name, count(*), sum(duration_ns) FROM spans "
                                      "GROUP BY 1 ORDER BY 1")):
                before = self.run_kymo(*command, source).out.replace(source, "FILE")
                after = self.run_kymo(*command, out).out.replace(str(out), "FILE")
                self.assertEqual(before, after)
            fields = json.loads(self.run_kymo("query", "--json", "SELECT fields FROM spans WHERE "
                                              "fields != '{}'", out).stdout)["rows"]
            texts = {value for row in fields for value in json.loads(row["fields"]).values()
                     if isinstance(value, str) and not re.fullmatch(r"-?[\d.]+|true|false", value)}
            self.assertLessEqual(texts, {"***"})

    def test_a_page_leaves_out_the_same(self):
        program = self.dir / "kymo"
        shutil.copy(cli_case.KYMO, program)
        (self.dir / "viewer").mkdir()
        (self.dir / "viewer" / "viewer.html").write_text("<body><!--kymo-trace--></body>")
        source = secrets().save(self.dir / "s.trc")
        for arguments, is_there in (((), False), (("--keep", "all"), True)):
            page = self.dir / "page.html"
            subprocess.run([program, "html", "-q", "-f", "-o", page, *arguments, source],
                           check=True)
            body = re.search(r'data-name="[^"]*">([^<]*)<', page.read_text()).group(1)
            (self.dir / "in_page").write_bytes(base64.b64decode(body))
            data = subprocess.run(["zstd", "-dcqf", self.dir / "in_page"], check=True,
                                  capture_output=True).stdout
            self.assertEqual(b"canary" in data, is_there)
            self.assertNotIn(CANARY, page.read_text())

    def test_what_was_replaced_is_said(self):
        out = self.dir / "said.trc.zst"
        said = json.loads(self.run_kymo("scrub", "--json", "-o", out, NEW).stdout)
        self.assertEqual(said["redacted"], ["paths", "args", "memory", "values"])
        self.assertEqual(said["stored_bytes"], os.path.getsize(out))

    def test_wrong_words_are_named(self):
        self.fails("scrub", "--redact", "some", "-o", "x", NEW, code=2, says=["some"])
        self.fails("scrub", "--keep", "paths,some", "-o", "x", NEW, code=2, says=["some"])
        self.fails("scrub", NEW, code=2, says=["--output"])


if __name__ == "__main__":
    main()
