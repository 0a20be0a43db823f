#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0 OR MIT
"""The program as people use it: golden output, every error, exit codes, pipes.

usage: test_cli.py KYMO SOURCE_ROOT [unittest arguments]
"""
import csv
import datetime
import gzip
import io
import json
import os
import pty
import re
import select
import shutil
import signal
import struct
import subprocess
import sys
import unittest

import cli_case
import trace_maker
from cli_case import KYMO, NEW, OLD, ROOT, Cli

READERS = ["info", "report", "events"]

# test/data/README.md: what the peer's own decoder counts.
COUNTS = {
    NEW: {
        "PollStartEvent": 99717, "PollEndEvent": 99717, "WakeEventEvent": 98133,
        "TaskSpawnEvent": 121, "TaskTerminateEvent": 142, "TaskDumpEvent": 31278,
        "WorkerParkEvent": 6884, "WorkerUnparkEvent": 6884, "CpuSampleEvent": 7861,
        "RuntimeMetricsEvent": 692, "ProcessResourceUsageEvent": 41, "TcpAcceptQueueEvent": 10,
        "AllocEvent": 928, "FreeEvent": 920, "SymbolTableEntry": 5268, "ClockSyncEvent": 3,
        "SegmentMetadataEvent": 2, "SpanCloseEvent": 27663, "SpanEnter": 80633,
        "SpanExit": 80633, "ConnectionAcceptedWire": 81, "ConnectionClosedWire": 81,
        "metrique:RequestMetrics": 25123,
    },
    OLD: {
        "PollStartEvent": 36801, "PollEndEvent": 36801, "WakeEventEvent": 35552,
        "TaskSpawnEvent": 262, "TaskTerminateEvent": 359, "TaskDumpEvent": 12952,
        "WorkerParkEvent": 6304, "WorkerUnparkEvent": 6304, "CpuSampleEvent": 6949,
        "QueueSampleEvent": 464, "SymbolTableEntry": 992, "ClockSyncEvent": 2,
        "SegmentMetadataEvent": 1, "SpanCloseEvent": 9890, "SpanEnter": 28503,
        "SpanExit": 28503,
    },
}


class Info(Cli):
    def test_text_is_as_committed(self):
        for name in (NEW, OLD):
            golden = ROOT / "test/cli" / (name + ".info")
            done = self.run_kymo("info", name)
            if os.environ.get("KYMO_UPDATE_GOLDEN"):
                golden.write_bytes(done.stdout)
            self.assertEqual(done.out, golden.read_text())
            self.assertEqual(done.err, "")

    def test_counts_are_those_of_the_peers_decoder(self):
        for name, want in COUNTS.items():
            types = json.loads(self.run_kymo("info", "--json", name).stdout)["types"]
            self.assertEqual(self.grouped((t["name"], t["count"]) for t in types), want)

    def test_container_is_recognised_by_content_not_name(self):
        want = self.run_kymo("info", OLD).out.split("\n", 2)[2]
        plain, packed = self.dir / "trace.gz", self.dir / "trace.txt"
        plain.write_bytes(self.raw())
        self.run_kymo("convert", "--recompress", "--compress", "zstd", OLD, "-o", packed)
        for path, container in ((plain, "raw"), (packed, "zstd")):
            out = self.run_kymo("info", path).out
            self.assertIn(f"{path}  {container}", out)
            self.assertEqual(out.split("\n", 2)[2], want)

    def test_standard_input_is_read_like_a_file(self):
        done = self.run_kymo("info", "-", data=(self.data / OLD).read_bytes())
        self.assertTrue(done.out.startswith("standard input  gzip"))
        self.assertIn("210,639", done.out)

    def test_directory_is_one_trace_and_foreign_files_are_noticed(self):
        os.mkdir(self.dir / "deep")
        shutil.copy(self.data / OLD, self.dir / "deep/10.bin")
        shutil.copy(self.data / OLD, self.dir / "9.bin")
        (self.dir / "notes.txt").write_text("hello")
        (self.dir / ".lock").write_text("")
        done = self.run_kymo("info", self.dir)
        self.assertIn("421,278", done.out)
        self.assertLess(done.out.index("9.bin"), done.out.index("10.bin"))
        self.assertIn("1 file is no trace and left out, the first is", done.err)
        self.assertIn("notes.txt", done.err)


class Events(Cli):
    whole = None  # all events of OLD, read once

    def lines(self, *args):
        out = self.run_kymo("events", "--json", *args).out
        return [json.loads(line) for line in out.splitlines()]

    def everything(self):
        if Events.whole is None:
            Events.whole = self.lines(OLD)
        return Events.whole

    def test_every_event_comes_once_in_order_of_time(self):
        events = self.everything()
        self.assertEqual(len(events), 210639)
        self.assertEqual(self.grouped((e["event"], 1) for e in events), COUNTS[OLD])
        times = [e["timestamp_ns"] for e in events if e["timestamp_ns"]]
        self.assertEqual(times, sorted(times))

    def test_stored_order_is_that_of_the_file(self):
        out = self.run_kymo("events", "--json", "--stored-order", OLD).out
        times = [int(t) for t in re.findall(r'^\{"timestamp_ns":(\d+)', out, re.MULTILINE)]
        self.assertEqual(len(times), 210639)
        self.assertEqual(sum(b < a for a, b in zip(times, times[1:])), 6365)

    def test_limit(self):
        self.assertEqual(self.run_kymo("events", "-n", "3", OLD).out.count("\n"), 3)
        self.assertEqual(self.run_kymo("events", "--limit", "0", OLD).out, "")

    def test_types_are_chosen_by_name_and_prefix(self):
        events = self.lines("--type", "QueueSampleEvent", "--type", "TaskSpawn*", OLD)
        self.assertEqual(len(events), 464 + 262)
        self.assertEqual(len(self.lines("-t", "SpanEnter:*", OLD)), 28503)

    def test_unknown_type_lists_what_there_is(self):
        self.fails("events", "--type", "PollStrtEvent", OLD,
                   says=["PollStrtEvent", "did you mean PollStartEvent", "PollStart[Event]",
                         "WakeEvent[Event]", "with or without what stands in []"])

    def test_the_last_event_of_a_name_may_be_left_out(self):
        wakes = self.lines("-t", "WakeEventEvent", OLD)
        self.assertEqual(self.lines("-t", "WakeEvent", OLD), wakes)
        self.assertEqual(len(wakes), COUNTS[OLD]["WakeEventEvent"])
        trace = trace_maker.Trace()
        for name in ("WakeEvent", "WakeEventEvent"):
            trace.event(name, 5, ("x", "VARINT", 1))
        both = trace.save(self.dir / "both.trc")
        self.assertEqual([e["event"] for e in self.lines("-t", "WakeEvent", both)], ["WakeEvent"])

    def test_times_of_the_wall_clock(self):
        trace = trace_maker.Trace()
        for now, unix_ns in ((1000, 1768480200_000000042), (5000, 1768480300_000000000)):
            trace.event("ClockSyncEvent", now, ("realtime_ns", "VARINT", unix_ns))
            trace.event("X", now + 100, ("x", "VARINT", now))
        path = trace.save(self.dir / "wall.trc")
        text = self.run_kymo("events", "--clock", "wall", "-t", "X", path).out.splitlines()
        self.assertEqual([line.split()[0] for line in text],
                         ["2026-01-15T12:30:00.000000142", "2026-01-15T12:31:40.000000100"])
        later = self.lines("--from", "2026-01-15T12:30:00.000000143", "-t", "X", path)
        self.assertEqual(len(later), 1)
        self.assertEqual([e["unix_ns"] for e in self.lines("--clock", "wall", "-t", "X", path)],
                         [1768480200_000000142, 1768480300_000000100])
        rows = list(csv.DictReader(io.StringIO(self.run_kymo(
            "events", "--format", "csv", "--clock", "wall", "-t", "X", path).out)))
        self.assertEqual(rows[1]["unix_ns"], "1768480300000000100")
        self.assertNotIn("unix_ns", self.lines("-t", "X", path)[0])

    def test_a_trace_without_a_reading_of_the_wall_clock_says_so(self):
        path = trace_maker.Trace().event("X", 5, ("x", "VARINT", 1)).save(self.dir / "no.trc")
        for command in ("events", "report"):
            self.fails(command, "--clock", "wall", path,
                       says=["has no reading of the wall clock", "--clock trace"])
            self.fails(command, "--clock", "utc", path, code=2,
                       says=["--clock is trace or wall, not 'utc'"])

    def test_task_takes_the_ends_of_its_polls(self):
        events = self.lines("--task", "5", OLD)
        kinds = self.grouped((e["event"], 1) for e in events)
        self.assertGreater(kinds["PollStartEvent"], 0)
        self.assertEqual(kinds["PollStartEvent"], kinds["PollEndEvent"])
        self.assertTrue(all(5 in e["fields"].values() or e["event"] == "PollEndEvent"
                            for e in events))

    def test_worker_and_time_range(self):
        everything = self.everything()
        start = min(e["timestamp_ns"] for e in everything
                    if e["event"].startswith(("Poll", "Worker", "Wake")))
        some = self.lines("--from", "1.5s", "--to", "1600ms", OLD)
        self.assertEqual(some, [e for e in everything if start + 1500000000 <= e["timestamp_ns"]
                                < start + 1600000000])
        self.assertGreater(len(some), 1000)
        self.assertEqual(self.lines("--from", f"@{start + 1500000000}", "--to", "1.6s", OLD), some)
        ones = self.lines("--worker", "1", "--from", "1.5s", "--to", "1600ms", OLD)
        self.assertEqual(ones, [e for e in some if e["fields"].get("worker_id") == 1 or
                                e["fields"].get("target_worker") == 1])

    def test_wall_clock_is_the_traces_own(self):
        sync = next(e for e in self.lines("-t", "ClockSyncEvent", OLD))
        unix_ns = sync["fields"]["realtime_ns"] + 2000000000
        text = subprocess.run(["date", "-u", "-d", f"@{unix_ns // 10**9}", "+%Y-%m-%dT%H:%M:%S"],
                              capture_output=True, check=True).stdout.decode().strip()
        wall = f"{text}.{unix_ns % 10**9:09d}Z"
        first = self.lines("--from", wall, "-n", "1", OLD)[0]
        self.assertGreaterEqual(first["timestamp_ns"], sync["timestamp_ns"] + 2000000000)
        self.assertLess(first["timestamp_ns"], sync["timestamp_ns"] + 2100000000)

    def test_csv_has_one_width_and_the_same_values(self):
        rows = list(csv.reader(io.StringIO(self.run_kymo(
            "events", "--format", "csv", "-t", "WakeEventEvent", OLD).out)))
        self.assertEqual(rows[0], ["timestamp_ns", "event", "waker_task_id", "woken_task_id",
                                   "target_worker"])
        events = [e for e in self.everything() if e["event"] == "WakeEventEvent"]
        self.assertEqual(rows[1:], [[str(e["timestamp_ns"]), e["event"],
                                     *map(str, e["fields"].values())] for e in events])
        some = self.run_kymo("events", "--format", "csv", "--from", "1.5s", "--to", "1.6s", NEW)
        wide = list(csv.reader(io.StringIO(some.out)))
        self.assertGreater(len(wide), 1000)
        self.assertEqual({len(row) for row in wide}, {len(wide[0])})

    def test_stacks_are_hexadecimal_and_strings_resolved(self):
        event = self.lines("-t", "CpuSampleEvent", "-n", "1", NEW)[0]
        self.assertTrue(all(re.fullmatch("0x[0-9a-f]+", f) for f in event["fields"]["callchain"]))
        event = self.lines("-t", "TaskSpawnEvent", "-n", "1", NEW)[0]
        self.assertIn("src/main.rs:", event["fields"]["spawn_loc"])

    def test_wrong_values_are_usage(self):
        for args in (["--from", "soon"], ["--to", "5"], ["--limit", "-1"], ["--task", "x"],
                     ["--format", "xml"], ["--max-bytes", "1.5G"], ["--max-ratio", "0"]):
            done = self.run_kymo("events", *args, OLD, code=2)
            self.assertIn(args[1], done.err)


class Report(Cli):
    def test_the_first_screen_names_the_cause_and_no_table(self):
        out = self.run_kymo("report", OLD).out
        self.assertLess(len(out.splitlines()), 60)
        self.assertRegex(out, r"(?m)^1\. cpu_heavy_poll \(warning, possible, ")
        self.assertNotIn("Worst polls", out)

    def test_first_lines_of_the_tables_are_the_longest(self):
        out = self.run_kymo("report", "--full", NEW).out
        self.assertTrue(out.startswith(self.run_kymo("report", NEW).out.split("\n\n")[0]))
        out = out[out.rindex("metrics-service: "):].splitlines()
        self.assertIn("metrics-service: ", out[0])
        self.assertIn("Longest poll 32.3 ms: examples/metrics-service/src/main.rs:334:14", out[1])
        self.assertIn("Longest wait ", out[2])
        self.assertTrue(any(re.match(r"  poll +99,717 ", line) for line in out))
        self.assertIn("Worst polls", "\n".join(out[:10]))

    def test_the_worst_are_told_by_the_wall_clock(self):
        worst = json.loads(self.run_kymo("report", "--json", OLD).out)["tables"]
        text = self.run_kymo("report", "--full", "--clock", "wall", OLD).out
        for row in (worst["worst_polls"][0], worst["worst_delays"][0]):
            second = datetime.datetime.fromtimestamp(row["unix_ns"] // 10**9,
                                                     datetime.timezone.utc)
            micros = row["unix_ns"] % 10**9 // 1000
            self.assertIn(f"{second:%Y-%m-%d %H:%M:%S}.{micros:06d}", text)

    def test_json_has_the_same_content(self):
        report = json.loads(self.run_kymo("report", "--json", "--limit", "3", NEW).out)["tables"]
        text = self.run_kymo("report", "--full", "--limit", "3", NEW).out
        self.assertEqual(len([line for line in text.splitlines()
                              if re.search(r" \+\d+\.\d{6}", line)
                              and not re.match("  (worker|runtime) ", line)]), 6)  # queues
        found = json.dumps(report)
        for number in ("32334125", "99717"):
            self.assertIn(number, found)

    def test_equal_rows_are_folded(self):
        out = self.run_kymo("report", "--full", OLD).out
        polls = out[out.index("Worst polls"):out.index("Worst waits")]
        waits = out[out.index("Worst waits"):out.index("Workers:")]
        self.assertEqual(polls.count("axum_traced.rs:173:32"), 1)
        self.assertRegex(polls, r"50\.3 ms .* and 1 more of at least half that")
        self.assertRegex(waits, r"47\.7 ms +80 .* 47\.7 ms of task 121 ")
        self.assertRegex(waits, r"8\.96 ms .* and at least \d+ more meanwhile")

    def test_a_memory_limit_names_file_and_option(self):
        self.fails("report", "--max-memory", "1M", OLD,
                   says=[OLD + ": byte ", "--max-memory", "raise it"])

    def test_a_range_after_the_end_is_empty(self):
        self.assertIn(": 0 ns from", self.run_kymo("report", "--full", "--from", "100s", NEW).out)

    def test_range_cuts(self):
        whole = self.run_kymo("report", "--full", NEW).out
        cut = self.run_kymo("report", "--full", "--from", "1s", "--to", "2s", NEW).out
        self.assertIn("32.3 ms", whole)
        self.assertNotIn("32.3 ms", cut)
        self.assertIn(": 1.00 s from", cut.splitlines()[0])
        self.fails("report", "--from", "2s", "--to", "1s", NEW, code=2, says=["--to lies"])

    def test_reencoding_changes_nothing_in_it(self):
        out = self.dir / "x.trc.zst"
        self.run_kymo("convert", OLD, "-o", out)
        self.assertEqual(self.run_kymo("report", "--json", out).out,
                         self.run_kymo("report", "--json", OLD).out)


class Convert(Cli):
    def test_every_event_and_field_survives(self):
        for name, trace, count in (("x.trc", OLD, "210,639"), ("x.trc.gz", OLD, "210,639"),
                                   ("x.trc.zst", NEW, "572,815")):
            out = self.dir / name
            done = self.run_kymo("convert", trace, "-o", out)
            self.assertIn(f"{count} events", done.out)
            self.assertEqual(self.content(out), self.content(trace))
            self.assertEqual(os.listdir(self.dir), [name])
            out.unlink()

    def test_what_it_writes_is_sorted(self):
        out = self.dir / "x.trc.zst"
        self.run_kymo("convert", OLD, "-o", out)
        lines = self.run_kymo("events", "--json", "--stored-order", out).out
        times = [int(t) for t in re.findall(r'^\{"timestamp_ns":(\d+)', lines, re.MULTILINE)]
        times = [t for t in times if t]
        self.assertGreater(len(times), 200000)
        self.assertEqual(times, sorted(times))

    def test_recompress_keeps_the_bytes(self):
        for kind in ("gzip", "zstd", "none"):
            out, plain = self.dir / ("x." + kind), self.dir / "plain"
            self.run_kymo("convert", "--recompress", "--compress", kind, OLD, "-o", out)
            self.run_kymo("convert", "--recompress", "--compress", "none", "-f", out, "-o", plain)
            self.assertEqual(plain.read_bytes(), self.raw())

    def test_annotations_survive(self):
        def annotations(path):
            data = self.run_kymo("convert", "--recompress", "--compress", "none", path,
                                 "-o", "-").stdout
            return set(re.findall(rb"dial9\.span\.type|dial9\.role|gauge|metrique\.unit", data))
        out = self.dir / "x.zst"
        self.run_kymo("convert", NEW, "-o", out)
        self.assertTrue(annotations(NEW))
        self.assertEqual(annotations(out), annotations(NEW))

    def test_existing_file_is_kept_unless_forced(self):
        out = self.dir / "x"
        out.write_text("precious")
        self.fails("convert", OLD, "-o", out, says=[out, "--force"])
        self.assertEqual(out.read_text(), "precious")
        self.run_kymo("convert", OLD, "-o", out, "--force")
        self.assertEqual(self.content(out), self.content(OLD))

    def test_failure_leaves_nothing(self):
        torn = self.dir / "in"
        torn.write_bytes(b"\x28\xb5\x2f\xfd garbage")
        self.run_kymo("convert", torn, "-o", self.dir / "out", code=1)
        self.assertEqual(os.listdir(self.dir), ["in"])
        self.fails("convert", OLD, "-o", self.dir / "no/such", says=["no/such"])
        self.fails("convert", OLD, "-o", self.dir, says=[self.dir])

    def test_json_says_what_was_written(self):
        out = self.dir / "x.zst"
        said = json.loads(self.run_kymo("convert", "--json", OLD, "-o", out).out)
        self.assertEqual(said["events"], 210639)
        self.assertEqual(said["stored_bytes"], out.stat().st_size)

    def read_index(self, raw):
        """Rows of docs/format.md, section 14: (chunk, workers) each."""
        self.assertEqual(raw[-4:], b"KMIX")
        index = raw[-struct.unpack("<I", raw[-8:-4])[0]:]
        version, chunks = struct.unpack_from("<II", index)
        self.assertEqual(version, 1)
        at, rows = 8, []
        for _ in range(chunks):
            chunk = struct.unpack_from("<QQQQIIII", index, at)
            workers = [struct.unpack_from("<QQQQII", index, at + 48 + 40 * i)
                       for i in range(chunk[7])]
            rows.append((chunk, workers))
            at += 48 + 40 * chunk[7]
        self.assertEqual(at, len(index) - 8)
        return rows

    def test_what_was_sealed_gets_a_new_index(self):
        sealed, out = self.dir / "in", self.dir / "x.trc"
        golden = ROOT / "test/golden/traces/SegmentIndexEvent.trc"
        sealed.write_bytes(self.raw() + golden.read_bytes())
        old = json.loads(self.run_kymo("info", "--json", sealed).out)
        done = self.run_kymo("convert", "--json", sealed, "-o", out)
        self.assertTrue(json.loads(done.out)["indexed"])
        self.assertTrue(json.loads(self.run_kymo("info", "--json", out).out)["files"][0]["sealed"])
        raw, polls, events, offset = out.read_bytes(), 0, 0, 0
        for chunk, workers in self.read_index(raw):
            self.assertEqual(chunk[0], offset)
            self.assertEqual(raw[offset:offset + 5], b"TRC\0\1")
            offset += chunk[4]
            events += chunk[5]
            polls += sum(worker[5] for worker in workers)
            for worker in workers:
                self.assertLessEqual(worker[0], chunk[2] - chunk[1])
        self.assertEqual(polls, 36801)
        self.assertEqual(events, 210639)
        self.assertEqual(old["files"][0]["sealed"], True)

    def test_what_was_not_sealed_stays_so(self):
        out = self.dir / "x.trc"
        self.assertFalse(json.loads(
            self.run_kymo("convert", "--json", OLD, "-o", out).out)["indexed"])
        self.assertFalse(json.loads(self.run_kymo("info", "--json", out).out)["files"][0]["sealed"])

    def test_usage(self):
        self.run_kymo("convert", OLD, code=2)
        self.run_kymo("convert", "--compress", "zstd:20", OLD, "-o", "x", code=2)
        self.run_kymo("convert", "--compress", "lzma", OLD, "-o", "x", code=2)
        self.fails("convert", "--compress", "gzip:12", OLD, "-o", self.dir / "x.gz", code=2)


class Processes(Cli):
    def write(self, name, pid, boot="11111111-2222"):
        def text(s):
            return struct.pack("<I", len(s)) + s.encode()
        schema = (b"\x01" + struct.pack("<HH", 5, 20) + b"SegmentMetadataEvent" + b"\x01" +
                  struct.pack("<HH", 1, 7) + b"entries" + b"\x0a")
        keys = {"pid": pid, "boot_id": boot, "process.start_time_ticks": "7", "x": pid,
                "service": "web"}
        event = b"\x02\5\0\0\0\0" + struct.pack("<I", len(keys)) + b"".join(
            text(k) + text(v) for k, v in keys.items())
        (self.dir / name).write_bytes(b"TRC\0\1" + schema + event)
        return self.dir / name

    def sections(self, command, *args):
        done = self.run_kymo(command, *args)
        self.assertEqual(done.err, "")
        return re.findall(r"^Process (\d of \d: .*)$", done.out, re.M)

    def test_each_process_has_its_own_section(self):
        one, two, more = self.write("one", "11"), self.write("two", "12"), self.write("x", "11")
        for command in ("info", "report"):
            self.assertEqual(self.sections(command, one, two, more),
                             ["1 of 2: pid 11 of web", "2 of 2: pid 12 of web"])
            self.assertEqual(self.sections(command, "--pid", "12", one, two), [])
            lines = self.run_kymo(command, "--json", one, two).out.splitlines()
            self.assertEqual([(json.loads(line)["pid"], json.loads(line)["service"])
                              for line in lines if line], [("11", "web"), ("12", "web")])
        files = self.run_kymo("info", "--pid", "11", one, two, more).out
        self.assertIn("2 files", files)
        self.assertNotIn("two", files)

    def test_one_output_of_several_processes_is_refused(self):
        one, two, out = self.write("one", "11"), self.write("two", "12"), self.dir / "out"
        for command in (["events"], ["export", "--format", "folded"], ["convert", "-o", out],
                        ["convert", "--recompress", "-o", out], ["symbolize", "-o", out]):
            self.fails(*command, one, two,
                       says=["2 processes: pid 11 of web, pid 12 of web; choose one with --pid"])
        self.run_kymo("convert", "--pid", "12", "-o", out, one, two)
        self.assertEqual(self.run_kymo("events", out).out,
                         self.run_kymo("events", "--pid", "12", one, two).out)
        done = self.run_kymo("convert", "--mix", "-fo", out, one, two)
        self.assertIn("two is of process 12 (boot 11111111), but", done.err)
        self.assertIn("one is of process 11 (boot 11111111)", done.err)
        mixed = json.loads(self.run_kymo("info", "--json", out).out)["notices"]
        self.assertEqual(len(mixed), 1)

    def test_a_pid_that_no_file_has_is_refused(self):
        one = self.write("one", "11")
        for paths in ([one], [one, self.write("two", "12")]):
            self.fails("info", "--pid", "13", *paths, says=["none of these files", "pid 11 of web"])
        self.fails("info", "--pid", "13", OLD, says=["not named, of " + OLD])

    def test_symbolize_in_place_leaves_other_processes(self):
        one, two = self.write("one", "11"), self.write("two", "12")
        said = self.run_kymo("symbolize", "--json", "--pid", "12", one, two).out
        self.assertEqual(json.loads(said)["file"], str(two))

    def test_the_same_pid_of_another_boot_is_another_process(self):
        one, two = self.write("one", "11"), self.write("two", "11", boot="33333333-4444")
        self.assertEqual(self.sections("info", one, two),
                         ["1 of 2: pid 11 of web (boot 11111111, started at tick 7)",
                          "2 of 2: pid 11 of web (boot 33333333, started at tick 7)"])

    def test_segments_of_one_process_are_one_trace(self):
        self.assertEqual(self.sections("info", self.write("a", "1"), self.write("b", "1")), [])

    def test_files_without_a_process_are_of_the_only_one(self):
        self.assertEqual(self.sections("info", self.write("a", "1"), OLD), [])

    def test_traces_that_name_no_process_are_distinguished_by_their_clocks(self):
        names = [f"not named, of {OLD}", f"not named, of {NEW}"]
        for command in ("info", "report"):
            self.assertEqual(self.sections(command, OLD, NEW),
                             [f"{i + 1} of 2: {name}" for i, name in enumerate(names)])
        self.fails("events", "-n", "1", OLD, NEW, says=names)


class Trouble(Cli):
    def test_a_damaged_zstd_frame_costs_itself_alone(self):
        whole, bad = self.dir / "x.zst", self.dir / "bad"
        self.run_kymo("convert", OLD, "-o", whole)
        data = bytearray(whole.read_bytes())
        for at in (len(data) // 2, 100):
            data[at] ^= 0x55
            bad.write_bytes(data)
            done = self.run_kymo("info", "--json", bad, code=1)
            self.assertGreater(json.loads(done.out)["events"], 180000)
            self.assertIn(f"{bad}: the zstd data is damaged at byte ", done.err)
            data[at] ^= 0x55

    def test_nothing_is_concluded_across_damage(self):
        def worst(path, code=0):
            report = json.loads(self.run_kymo("report", "--json", "--limit", "1000", path,
                                              code=code).out)["tables"]
            return report, [{(w["start_ns"], w[value]) for w in report[rows]} for rows, value in (
                ("worst_polls", "duration_ns"), ("worst_delays", "delay_ns"))]
        whole, bad = self.dir / "x.zst", self.dir / "bad"
        self.run_kymo("convert", OLD, "-o", whole)
        _, known = worst(whole)
        data = bytearray(whole.read_bytes())
        for tenth in (2, 4, 6, 8):
            at = len(data) * tenth // 10
            data[at] ^= 0x55
            bad.write_bytes(data)
            data[at] ^= 0x55
            report, found = worst(bad, code=1)
            for new, old in zip(found, known):
                least = min(value for _, value in old)
                self.assertEqual({row for row in new if row[1] > least} - old, set())
            self.assertTrue(any(loss["cause"] == "damaged input" for loss in report["losses"]))

    def test_a_kymo_trace_without_its_seal_is_reported_once(self):
        golden = (ROOT / "test/golden/traces/LossEvent.trc").read_bytes()
        one, two, live = self.dir / "one", self.dir / "two", self.dir / "x.trc.active"
        for path in (one, two, live):
            path.write_bytes(golden)
        to = ["-f", "-o", self.dir / "out"]
        for command in (["info"], ["report"], ["events"], ["convert", *to],
                        ["convert", "--recompress", *to]):
            self.assertIn("one: ends without its seal", self.run_kymo(*command, one).err)
            said = self.run_kymo(*command, one, two, live).err
            self.assertEqual(said.count("without their seal"), 1, said)
            self.assertIn(" and 1 more", said)
            self.assertEqual(self.run_kymo(*command, live).err, "")
            self.assertNotIn("seal", self.run_kymo(*command, OLD).err)

    def test_a_segment_torn_in_its_first_chunk_is_left_out(self):
        whole, torn = self.dir / "000000.trc.zst", self.dir / "000001.trc.zst.active"
        self.run_kymo("convert", "--recompress", "--compress", "zstd", OLD, "-o", whole)
        torn.write_bytes(whole.read_bytes()[:4096])
        for names in ([whole, torn], [torn, whole]):
            self.assertIn("210,639", self.run_kymo("info", *names).out)
            done = self.run_kymo("events", "-n", "9", *names)
            self.assertEqual(done.out, self.run_kymo("events", "-n", "9", whole).out)
            self.assertEqual(done.err.count("active: the zstd data ends early"), 1, done.err)
            self.assertIn("this file is left out", done.err)
        self.assertIn("ends early", self.run_kymo("events", torn, code=1).err)
        self.assertIn("none of the files", self.run_kymo("events", torn, self.copy(torn),
                                                         code=1).err)

    def copy(self, path):
        """The same bytes under another name."""
        other = path.with_name("other.trc.zst")
        other.write_bytes(path.read_bytes())
        return other

    def test_a_file_that_is_named_twice_counts_once(self):
        one = self.dir / "one.trc"
        one.write_bytes(self.raw())
        (self.dir / "link.trc").symlink_to("one.trc")
        done = self.run_kymo("info", "--json", one, self.dir, one)
        self.assertEqual(json.loads(done.out)["events"], 210639)
        self.assertEqual(done.err.count("is among the files already and left out\n"), 3, done.err)

    def test_filters_that_leave_nothing_are_reported(self):
        for args in (["--from", "99h"], ["--task", "99999999"], ["--worker", "4000"],
                     ["-t", "PollStartEvent", "--to", "0s"]):
            done = self.run_kymo("events", *args, OLD)
            self.assertIn("none of the 210639 events matches; the trace goes from 0 s to ",
                          done.err)
        self.assertEqual(self.run_kymo("events", "-n", "0", OLD).err, "")
        self.assertIn("leave nothing", self.run_kymo("report", "--from", "99h", OLD).err)
        for command in ("events", "report"):
            self.fails(command, "--from", "5s", "--to", "1s", OLD, code=2, says=["--to lies"])

    def test_a_wrong_checksum_of_gzip_is_named(self):
        bad = self.dir / "bad"
        data = bytearray((self.data / OLD).read_bytes())
        data[-6] ^= 1
        bad.write_bytes(data)
        self.assertIn(f"{bad}: the gzip data is damaged at byte",
                      self.run_kymo("info", bad, code=1).err)

    def test_a_full_disk_below_the_output_is_one_sentence(self):
        for command in READERS:
            with open("/dev/full", "wb") as full:
                done = subprocess.run([KYMO, command, self.data / OLD], stdout=full,
                                      stderr=subprocess.PIPE, check=False)
            self.assertEqual(done.returncode, 1)
            self.assertEqual(done.stderr.decode(), f"kymo {command}: standard output cannot be "
                             "written: No space left on device\n")

    def test_the_sum_of_losses_does_not_wrap(self):
        whole = self.dir / "in"
        golden = (ROOT / "test/golden/traces/LossEvent.trc").read_bytes()
        whole.write_bytes(golden * 3)
        self.assertEqual(json.loads(self.run_kymo("report", "--json", whole).stdout)["tables"]
                         ["lost_records"], 2**64 - 1)

    def test_many_damaged_places_are_a_few_sentences(self):
        bad = self.dir / "bad"
        bad.write_bytes(b"TRC\0\1\x99" * 5000)
        for command in (["info"], ["report"], ["events"],
                        ["convert", "-o", self.dir / "a"],
                        ["convert", "--recompress", "-o", self.dir / "b"]):
            done = self.run_kymo(*command, bad, code=1)
            self.assertEqual(done.err.count("\n"), 11, command)
            self.assertIn("the first 10 are shown", done.err)

    def test_what_is_no_trace_is_reported_in_one_sentence(self):
        empty = self.dir / "empty"
        empty.write_bytes(b"")
        text = self.dir / "text.gz"
        text.write_bytes(gzip.compress(b"hello, hello"))
        future = self.dir / "future"
        future.write_bytes(b"TRC\0\x02" + b"x" * 100)
        bare = self.dir / "bare"
        os.mkdir(bare)
        for command in READERS:
            self.fails(command, "/proc/none/trace", says=["/proc/none/trace", "No such file"])
            self.fails(command, "/bin/ls", says=["/bin/ls", "not a trace"])
            self.fails(command, empty, says=[empty, "empty"])
            self.fails(command, text, says=[text, "holds no trace"])
            self.fails(command, future, says=[future, "version 2", "newer kymo"])
            self.fails(command, bare, says=[bare, "no trace below this directory"])

    @unittest.skipIf(os.geteuid() == 0, "root may read everything")
    def test_permission_denied(self):
        secret = self.dir / "secret"
        secret.write_bytes(self.raw())
        secret.chmod(0)
        self.fails("info", secret, says=[secret, "Permission denied"])

    def cut(self, data, name):
        path = self.dir / name
        path.write_bytes(data[:len(data) * 2 // 3 + 3])  # inside a record, also of the raw file
        return path

    def test_torn_files_give_what_is_before_the_tear(self):
        packed = self.dir / "whole.zst"
        self.run_kymo("convert", OLD, "-o", packed)
        for path in (self.cut((self.data / OLD).read_bytes(), "torn.gz"),
                     self.cut(packed.read_bytes(), "torn.zst"), self.cut(self.raw(), "torn.trc")):
            info = json.loads(self.run_kymo("info", "--json", path).out)
            self.assertGreater(info["events"], 50000)
            self.assertLess(info["events"], 210639)
            for command in READERS:
                done = self.run_kymo(command, path)
                self.assertEqual(done.err.count("\n"), 1, done.err)
                self.assertIn(path.name, done.err)
                if path.suffix == ".zst":
                    self.assertRegex(done.err, r"its last [1-9]\d* bytes, from byte \d+ on")
            out = self.dir / "mended"
            self.run_kymo("convert", path, "-f", "-o", out)
            self.assertEqual(json.loads(self.run_kymo("info", "--json", out).out)["events"],
                             info["events"])
            self.run_kymo("convert", "--recompress", path, "-f", "-o", out)
            self.assertEqual(self.run_kymo("events", "-n", "1", out).err, "")

    def test_damage_in_the_middle_is_passed_over(self):
        data = bytearray(self.raw())
        data[len(data) // 2:len(data) // 2 + 64] = b"\xff" * 64
        path = self.dir / "damaged"
        path.write_bytes(data)
        done = self.run_kymo("info", path, code=1)
        self.assertGreater(done.err.count("\n"), 0)
        self.assertIn("damaged", done.err)

    def test_bombs_are_bounded(self):
        bomb = self.dir / "bomb.gz"
        bomb.write_bytes(gzip.compress(b"TRC\0\x01" + bytes(100 << 20)))
        for args, option in (([], "--max-ratio"), (["--max-bytes", "1M"], "--max-bytes")):
            for command in READERS:
                done = self.run_kymo(command, *args, bomb, code=1)
                self.assertIn(str(bomb), done.err)
                self.assertIn(option, done.err)
            self.run_kymo("convert", *args, bomb, "-o", self.dir / "out", code=1)
            self.assertEqual(os.listdir(self.dir), ["bomb.gz"])

    def test_a_trace_without_events_is_one(self):
        bare, out = self.dir / "bare.trc", self.dir / "out.zst"
        bare.write_bytes(b"TRC\0\x01")
        self.run_kymo("convert", bare, "-o", out)
        for command in READERS:
            for path in (bare, out):
                self.assertEqual(self.run_kymo(command, path).err, "")

    def test_closed_pipes_are_quiet(self):
        for command in ("events", "info"):
            with subprocess.Popen([KYMO, command, OLD], cwd=self.data, stdout=subprocess.PIPE,
                                  stderr=subprocess.PIPE, preexec_fn=lambda: signal.signal(
                                      signal.SIGPIPE, signal.SIG_IGN)) as child:
                child.stdout.close()
                err = child.stderr.read()
                self.assertIn(child.wait(), (0, -signal.SIGPIPE))
                self.assertEqual(err, b"")

    @unittest.skipUnless(os.path.exists("/dev/full"), "no /dev/full")
    def test_full_disk_is_trouble(self):
        for command in READERS:
            with open("/dev/full", "wb") as full:
                done = subprocess.run([KYMO, command, OLD], cwd=self.data, stdout=full,
                                      stderr=subprocess.PIPE, check=False)
            self.assertEqual(done.returncode, 1)
            self.assertIn(b"No space left", done.stderr)

    def test_usage(self):
        self.fails("inof", code=2, says=["did you mean 'info'"])
        self.fails("frobnicate", code=2, says=["kymo --help"])
        self.run_kymo(code=2)
        for command in READERS:
            self.run_kymo(command, code=2)
            self.run_kymo(command, "--no-such-option", OLD, code=2)

    def test_nothing_is_coloured_in_a_pipe(self):
        for command in READERS:
            args = ["-n", "5"] if command == "events" else []
            self.assertNotIn("\033", self.run_kymo(command, *args, OLD).out)


class Progress(Cli):
    """A slow pipe makes any command slow; steps after the first second are reported at once."""
    STEPS = {
        ("report",): ["reading", "sorting", "reading again", "finding what was slow",
                      "naming code", "finding causes", "writing the report"],
        ("info",): ["reading", "sorting"],
        ("export", "--format", "folded"): ["reading", "sorting", "reading again", "naming code",
                                       "writing"],
        ("events", "--format", "jsonl"): ["reading", "reading again"],
        ("symbolize", "-o", "named.trc"): ["reading", "naming code", "reading again",
                                           "writing to disk"],
        ("convert", "-o", "new.trc"): ["reading", "reading again", "writing to disk"],
    }

    def start(self, number, command, is_terminal=True):
        pipe = self.dir / f"pipe{number}"
        screen, other = pty.openpty() if is_terminal else os.pipe()
        os.mkfifo(pipe)
        ran = subprocess.Popen([KYMO, *command, pipe], cwd=self.dir, stdout=subprocess.DEVNULL,
                               stderr=other)
        os.close(other)
        self.addCleanup(os.close, screen)
        self.addCleanup(ran.wait)
        self.addCleanup(ran.kill)
        return command, ran, screen, open(pipe, "wb")

    def seen(self, screen, until):
        """What the terminal got up to some words; None: to its end."""
        text = b""
        while until is None or until not in text:
            self.assertTrue(select.select([screen], [], [], 60)[0], text)
            try:
                part = os.read(screen, 4096)
            except OSError: # the other side is closed
                part = b""
            if not part:
                self.assertIsNone(until, text)
                break
            text += part
        return text

    def test_every_step_is_reported_on_a_terminal_and_none_elsewhere(self):
        trace = (ROOT / "test/golden/traces/CpuSampleEvent.trc").read_bytes()
        elsewhere = self.start(99, ("report",), is_terminal=False)
        runs = [self.start(*each) for each in enumerate(self.STEPS)]
        for _, _, _, pipe in [elsewhere, *runs]:
            pipe.write(trace[:100])
            pipe.flush()
        texts = [self.seen(screen, b"reading ") for _, _, screen, _ in runs]
        with elsewhere[3] as pipe:
            pipe.write(trace[100:])
        self.assertNotIn(b"\r", self.seen(elsewhere[2], None))
        for text, (command, ran, screen, pipe) in zip(texts, runs):
            with pipe:
                pipe.write(trace[100:])
            text += self.seen(screen, None)
            with self.subTest(command=command):
                self.assertEqual(ran.wait(), 0, text)
                lines = re.split(rb"\r\033\[K", text)
                self.assertEqual((lines[0], lines[-1]), (b"", b""), text) # it is gone at the end
                said = [re.sub(rb"( [0-9].*|, .*)$", b"", line).decode() for line in lines if line]
                said = [step for step in said if step != "searching for traces"] # a slow machine
                steps = [step for at, step in enumerate(said) if said[at - 1:at] != [step]]
                self.assertEqual(steps, self.STEPS[command])


if __name__ == "__main__":
    cli_case.main()
