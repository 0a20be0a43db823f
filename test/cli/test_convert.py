#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0 OR MIT
"""kymo convert where several traces become one, and where text is none.

usage: test_convert.py KYMO SOURCE_ROOT [unittest arguments]
"""
import json
import os
import pathlib
import shutil
import struct
import subprocess
import sys
import tempfile
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "tools"))
import unittest_tap  # noqa: E402

KYMO = ""
ROOT = pathlib.Path()
HEADER = b"TRC\0\1"


def text16(data):
    return struct.pack("<H", len(data)) + data


def text32(data):
    return struct.pack("<I", len(data)) + data


def schema(type_id, name, fields):
    return (b"\1" + struct.pack("<H", type_id) + text16(name) + b"\1" +
            struct.pack("<H", len(fields)) +
            b"".join(text16(field) + bytes([kind]) for field, kind in fields))


def event(type_id, delta_ns, fields):
    return b"\2" + struct.pack("<H", type_id) + delta_ns.to_bytes(3, "little") + fields


def varint(number):
    data = b""
    while number >= 0x80:
        data += bytes([number & 0x7f | 0x80])
        number >>= 7
    return data + bytes([number])


def metadata(pid, more=()):
    pairs = {b"pid": pid, b"boot_id": b"11111111-2222", b"process.start_time_ticks": b"7",
             **dict(more)}
    return schema(5, b"SegmentMetadataEvent", [(b"entries", 10)]) + event(
        5, 1, struct.pack("<I", len(pairs)) +
        b"".join(text32(key) + text32(value) for key, value in pairs.items()))


def poll(worker, task):
    """start and end, one apart."""
    return (schema(6, b"PollStartEvent", [(b"worker_id", 9), (b"task_id", 9)]) +
            schema(7, b"PollEndEvent", [(b"worker_id", 9)]) +
            event(6, 10, bytes([worker, task])) + event(7, 20, bytes([worker])))


def index():
    """One that names no chunk: what it says must not survive."""
    return schema(8, b"SegmentIndexEvent", [(b"index", 5)]) + event(
        8, 1, text32(struct.pack("<IIII", 1, 0, 16, 0x58494d4b)))


def stream(at_ns, *frames):
    return HEADER + b"\5" + struct.pack("<Q", at_ns) + b"".join(frames)


def part(name, from_ns, to_ns, *frames):
    """What a stream or a dump holds of one process, whose counter has one tick a ns."""
    coverage = {b"coverage.ring": b"1", b"coverage.part": name,
                b"coverage.from_ticks": b"%d" % from_ns, b"coverage.to_ticks": b"%d" % to_ns}
    clock = schema(9, b"CounterClockEvent", [(b"ticks", 9), (b"clock_ns", 9), (b"rate_q48", 9)])
    return stream(from_ns, metadata(b"11", coverage), clock,
                  event(9, 1, varint(from_ns) * 2 + varint(1 << 48)), *frames)


def at(ns):
    return b"\5" + struct.pack("<Q", ns)


def fired(ns, rule):
    names = {b"a": 1, b"b": 2}
    pool = b"".join(b"\3" + struct.pack("<II", 1, i) + text32(name) for name, i in names.items())
    return (at(ns) + pool + schema(11, b"TriggerEvent", [(b"rule", 7), (b"value", 9)]) +
            event(11, 0, struct.pack("<I", names[rule]) + varint(3)))


class Convert(unittest.TestCase):
    def setUp(self):
        self.dir = pathlib.Path(tempfile.mkdtemp(prefix="kymo-convert-"))
        self.out = self.dir / "out.trc"

    def tearDown(self):
        shutil.rmtree(self.dir)

    def file(self, name, *parts):
        (self.dir / name).write_bytes(b"".join(parts))
        return self.dir / name

    def sealed(self, name, pid, at_ns=1000, polls=1):
        return self.file(
            name, stream(at_ns, metadata(pid), poll(0, 3)),
            *(stream(at_ns + 100 * i, poll(0, 4)) for i in range(1, polls)),
            stream(at_ns + 100 * polls, index()))

    def convert(self, *args, code=0):
        done = subprocess.run([KYMO, "convert", "--json", *map(str, args), "-f", "-o", self.out],
                              capture_output=True, text=True, check=False)
        self.assertEqual(done.returncode, code, done.stderr)
        return json.loads(done.stdout), done.stderr

    def rows(self):
        """Of the index at the end: (offset, bytes, events, polls) of each stream."""
        raw = self.out.read_bytes()
        self.assertEqual(raw[-4:], b"KMIX")
        found = raw[-struct.unpack("<I", raw[-8:-4])[0]:]
        at, rows = 8, []
        for _ in range(struct.unpack_from("<II", found)[1]):
            row = struct.unpack_from("<QQQQIIII", found, at)
            polls = sum(struct.unpack_from("<QQQQII", found, at + 48 + 40 * i)[5]
                        for i in range(row[7]))
            self.assertEqual(raw[row[0]:row[0] + 5], HEADER)
            rows.append((row[0], row[4], row[5], polls))
            at += 48 + 40 * row[7]
        self.assertEqual(at, len(found) - 8)
        return rows

    def info(self):
        return json.loads(subprocess.run([KYMO, "info", "--json", self.out], check=True,
                                         capture_output=True).stdout)

    def test_recompress_leaves_a_whole_file_as_it_is(self):
        one = self.sealed("one", b"11", polls=3)
        said, err = self.convert("--recompress", one)
        self.assertEqual(self.out.read_bytes(), one.read_bytes())
        self.assertEqual((said["indexed"], said["events"], err), (True, 8, ""))

    def test_recompress_of_several_files_has_one_index_with_their_offsets(self):
        one, two = self.sealed("one", b"11", polls=3), self.sealed("two", b"11", 5000, polls=2)
        said, err = self.convert("--recompress", one, two)
        self.assertEqual((said["indexed"], err), (True, ""))
        rows = self.rows()
        self.assertEqual([row[2:] for row in rows], [(3, 1), (2, 1), (2, 1), (3, 1), (2, 1)])
        for (offset, size, *_), (following, *_) in zip(rows[:2], rows[1:3]):
            self.assertEqual(offset + size, following)
        self.assertEqual(self.out.read_bytes().count(b"KMIX"), 1)
        info = self.info()
        self.assertTrue(info["files"][0]["sealed"])
        self.assertEqual({entry["name"]: entry["count"] for entry in info["types"]},
                         {"PollStartEvent": 5, "PollEndEvent": 5, "SegmentMetadataEvent": 2,
                          "SegmentIndexEvent": 1})

    def test_recompress_of_segments_in_one_file_has_their_offsets(self):
        both = self.file("both", self.sealed("one", b"11").read_bytes(),
                         self.sealed("two", b"11", 5000).read_bytes())
        said, err = self.convert("--recompress", both)
        self.assertEqual((said["indexed"], err), (True, ""))
        self.assertEqual([row[2:] for row in self.rows()], [(3, 1), (3, 1)])

    def test_recompress_of_several_processes_is_reported(self):
        one, two = self.sealed("one", b"11"), self.sealed("two", b"12")
        for args in (["--recompress"], []):
            done = subprocess.run([KYMO, "convert", *args, one, two, "-o", self.dir / "refused"],
                                  capture_output=True, text=True, check=False)
            self.assertEqual((done.returncode, done.stderr.count("\n")), (1, 1), done.stderr)
            self.assertIn("pid 11, pid 12;", done.stderr)
            self.assertIn("--mix", done.stderr)
            self.assertFalse((self.dir / "refused").exists())
            said, err = self.convert("--mix", *args, one, two)
            self.assertTrue(said["indexed"])
            self.assertEqual(err.count("\n"), 1, err)
            self.assertIn("two is of process 12", err)
            if args:  # sorted by time, their polls get into each other's way
                self.assertEqual([row[2:] for row in self.rows()], [(3, 1), (3, 1)])

    def test_recompress_with_a_truncated_file_has_no_index_and_reports_it(self):
        whole, cut = self.sealed("whole", b"11"), self.file(
            "cut", stream(9000, metadata(b"11"), poll(0, 3)))
        for files in ([whole, cut], [cut, whole]):
            said, err = self.convert("--recompress", *files)
            self.assertFalse(said["indexed"])
            self.assertEqual(err.count("\n"), 1, err)
            self.assertIn("1 index is left out", err)
            self.assertNotIn(b"KMIX", self.out.read_bytes())

    def test_recompress_past_damage_names_the_offsets_that_are(self):
        one = self.sealed("one", b"11").read_bytes()
        hole = self.file("hole", one[:-len(stream(0, index()))], b"\xee" * 50,
                         stream(3000, poll(0, 4)), stream(4000, index()))
        said, err = self.convert("--recompress", hole, code=1)
        self.assertTrue(said["indexed"])
        self.assertEqual(err.count("\n"), 1, err)
        self.assertEqual([row[2:] for row in self.rows()], [(3, 1), (2, 1)])
        self.assertNotIn(b"\xee", self.out.read_bytes())

    def test_recompress_keeps_an_index_that_something_follows(self):
        odd = self.file("odd", stream(1000, index(), poll(0, 3)))
        said, err = self.convert("--recompress", odd)
        self.assertEqual(self.out.read_bytes(), odd.read_bytes())
        self.assertEqual((said["indexed"], said["events"], err), (False, 3, ""))

    def counts(self, *paths):
        said = json.loads(subprocess.run([KYMO, "info", "--json", *paths], check=True,
                                         capture_output=True).stdout)
        return {entry["name"]: entry["count"] for entry in said["types"]}, said["copies"]

    def test_a_rule_that_fired_is_in_its_dump_and_in_the_stream_and_counts_once(self):
        ms = 1_000_000
        whole = self.file("stream", part(b"stream-1", ms, 10 * ms, at(3 * ms), poll(0, 3),
                                         fired(5 * ms, b"a")))
        dump = self.file("dump", part(b"dump", 2 * ms, 20 * ms, at(3 * ms), poll(0, 3),
                                      fired(5 * ms + 300_000, b"a"), fired(6 * ms, b"b"),
                                      at(12 * ms), poll(0, 4)))
        for order in ((whole, dump), (dump, whole)):
            counts, copies = self.counts(*order)
            self.assertEqual((counts["PollStartEvent"], counts["TriggerEvent"]), (2, 2))
            self.assertEqual(copies, 4)  # the poll, the rule, the reading of the clock

    def test_a_file_of_several_parts_keeps_all_that_it_has(self):
        ms = 1_000_000
        both = self.file("both", part(b"stream-1", ms, 10 * ms, at(3 * ms), poll(0, 3)),
                         part(b"dump", 2 * ms, 20 * ms, at(4 * ms), poll(0, 3)))
        other = self.file("other", part(b"dump", 2 * ms, 20 * ms, at(4 * ms), poll(0, 3)))
        counts, copies = self.counts(both, other)
        self.assertEqual((counts["PollStartEvent"], copies), (3, 0))

    def bad_text(self):
        fields = [(b"text", 4), (b"raw", 5), (b"pooled", 7), (b"map", 10), (b"na\xc0me", 4)]
        return stream(
            1000, b"\3" + struct.pack("<II", 1, 9) + text32(b"pool\xf5"),
            schema(5, b"Odd\xff", fields),
            event(5, 1, text32(b"cut\xe2\x82") + text32(b"raw\xfe") + struct.pack("<I", 9) +
                  struct.pack("<I", 1) + text32(b"key\xc1") + text32(b"value\xf8") +
                  text32("whole é".encode())))

    def test_damage_is_trouble_and_a_torn_tail_is_none(self):
        one = self.sealed("one", b"11").read_bytes()
        hole = self.file("hole", one, b"\xee" * 50, stream(3000, poll(0, 4)))
        torn = self.file("torn", one, stream(3000, poll(0, 4))[:-1])
        bare = self.file("bare", HEADER, b"\5\1")
        for command in ("info", "report", "events"):
            for path, code in ((hole, 1), (torn, 0)):
                done = subprocess.run([KYMO, command, path], capture_output=True, check=False)
                self.assertEqual((done.returncode, done.stderr.count(b"\n")), (code, 1))
                self.assertNotEqual(done.stdout, b"")
        for args in (["--recompress"], []):
            said, _ = self.convert(*args, hole, code=1)
            self.assertGreater(said["events"], 4)
            self.convert(*args, torn)
            said, _ = self.convert(*args, bare, code=1)
            self.assertEqual(said["events"], 0)

    def test_devices_are_written_to_and_never_replaced(self):
        one = self.sealed("one", b"11")
        for suffix in ("", "--recompress"):
            extra = [suffix] if suffix else []
            done = subprocess.run([KYMO, "convert", "-f", "-o", "/dev/null", one, *extra],
                                  capture_output=True, check=False)
            self.assertEqual((done.returncode, done.stderr), (0, b""))
            link = self.dir / "full"
            link.unlink(missing_ok=True)
            link.symlink_to("/dev/full")
            done = subprocess.run([KYMO, "convert", "-f", "-o", link, one, *extra],
                                  capture_output=True, check=False)
            self.assertEqual((done.returncode, done.stderr.count(b"\n")), (1, 1), done.stderr)
            self.assertIn(b"No space left", done.stderr)
            self.assertTrue(link.is_symlink())

    def test_a_full_disk_is_named(self):
        small = self.dir / "small"
        small.mkdir()
        script = ('mount -t tmpfs -o size=16k none "$1" && '
                  '"$2" convert --compress none -o "$1/x.trc" "$3"; code=$?; exit $code')
        inside = ["unshare", "-rm", "sh", "-c"]
        probe = subprocess.run([*inside, 'mount -t tmpfs none "$0"', small], capture_output=True,
                               check=False)
        if probe.returncode:
            self.skipTest("no file system can be mounted here: " + probe.stderr.decode().strip())
        large = self.sealed("large", b"large")
        with open(large, "ab") as file:
            file.write(pathlib.Path(large).read_bytes() * 200)
        done = subprocess.run([*inside, script, "sh", small, KYMO, large], capture_output=True,
                              check=False)
        self.assertEqual(done.returncode, 1, done.stderr)
        self.assertRegex(done.stderr.decode(), r"No space left on device: the file system at \S+"
                                               r"/small has too little room \(16\.4 kB, ")

    def test_a_name_of_another_packing_is_refused(self):
        one = self.sealed("one", b"11")
        for ending in ("xz", "bz2", "lz4", "zstd"):
            named = self.dir / f"a.trc.{ending}"
            done = subprocess.run([KYMO, "convert", "-o", named, one], capture_output=True,
                                  check=False)
            self.assertEqual((done.returncode, done.stderr.count(b"\n")), (2, 1), done.stderr)
            self.assertFalse(named.exists())
            subprocess.run([KYMO, "convert", "--compress", "none", "-o", named, one], check=True,
                           capture_output=True)

    def test_text_that_is_not_utf8_is_mended_and_counted(self):
        said, err = self.convert(self.file("bad", self.bad_text()))
        raw = self.out.read_bytes()
        for mended in (b"cut??", b"pool?", b"key?", b"value?", b"Odd?", b"na?me",
                       "whole é".encode(), b"raw\xfe"):
            self.assertIn(mended, raw)
        self.assertEqual(said["events"], 1)
        self.assertEqual(err.count("\n"), 1, err)
        self.assertIn("6 texts were not UTF-8", err)
        said, err = self.convert(self.file("mended", raw))
        self.assertEqual((self.out.read_bytes(), err), (raw, ""))

    def test_ids_that_nothing_defines_stay_apart(self):
        pooled = [(b"a", 7), (b"b", 7), (b"c", 6), (b"d", 14)]
        ids = [5, 2**31 + 5, 5, 5, 2**32 - 1]
        frames = schema(5, b"Odd", pooled) + b"".join(
            event(5, 1, struct.pack("<III", i, 5, 5) + struct.pack("<IBI", 1, 7, i)) for i in ids)
        said, err = self.convert(self.file("odd", stream(1000, frames)),
                                 self.file("more", stream(9000, frames)))
        self.assertEqual(err.count("\n"), 1, err)
        self.assertIn("40 values refer to a string or stack that is not defined there", err)
        self.assertEqual(said["events"], 10)
        out = subprocess.run([KYMO, "events", "--json", self.out], check=True, capture_output=True)
        rows = [json.loads(line)["fields"] for line in out.stdout.splitlines()]
        first = [row["a"]["undefined_pool_id"] for row in rows]
        for part in (first[:5], first[5:]):
            self.assertEqual([part.index(i) for i in part], [0, 1, 0, 0, 4])
        self.assertEqual(len(set(first)), 6)
        self.assertEqual(first, [row["d"][0]["undefined_pool_id"] for row in rows])
        for row in rows:
            self.assertEqual(row["b"]["undefined_pool_id"], rows[rows.index(row) // 5 * 5]["a"][
                "undefined_pool_id"])
            self.assertGreater(row["c"]["undefined_pool_id"], 2**31)

    def test_recompress_keeps_text_as_it_is(self):
        bad = self.file("bad", self.bad_text())
        self.assertEqual(self.convert("--recompress", bad)[1], "")
        self.assertEqual(self.out.read_bytes(), bad.read_bytes())


if __name__ == "__main__":
    KYMO, ROOT = os.path.abspath(sys.argv[1]), pathlib.Path(sys.argv[2]).resolve()
    unittest_tap.main(sys.argv[3:])
