#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0 OR MIT
"""What kymo says of a trace to receivers of OpenTelemetry: the bytes, decoded here without any code
of src, against `kymo query` and `kymo report`; and the sending, to a receiver of this test's.
`make check-otlp` has real ones.

usage: test_otlp.py KYMO SOURCE_ROOT HOST [unittest arguments]
"""
import collections
import json
import math
import os
import pathlib
import shutil
import subprocess
import sys
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "lib"))
from cli_case import KYMO, NEW, OLD, Cli, main  # noqa: E402
from otlp import (Metrics, Profiles, Receiver, Spans, fields, message, partial,  # noqa: E402
                  status_message)
from trace_maker import SampleTrace  # noqa: E402
from unittest_tap import DEADLINE_S  # noqa: E402

MS = 1000000
UNIX_NS = 1779107405 * 10**9
DURATION, DELAY = "kymo.task.poll.duration", "kymo.task.poll.delay"
TRACE_ID, SPAN_ID = "4bf92f3577b34da6a3ce929d0e0e4736", "00f067aa0ba902b7"
USER = "/home/" + "someone"
CANARY = "canary-of-an-argument"
HOST = ""
OWN = ("OTEL_", "KYMO_PPROF_", "http_proxy", "https_proxy", "HTTP_PROXY", "HTTPS_PROXY",
       "ALL_PROXY", "all_proxy")


def index_of(seconds, scale):
    """The bucket as the specification has it; a power of two belongs to the bucket below."""
    mantissa, exponent = math.frexp(seconds)
    if mantissa == 0.5:
        return ((exponent - 1) << scale) - 1
    return math.ceil(math.log2(seconds) * 2**scale) - 1


class Otlp(Cli):
    decoded = {}

    def export(self, signal, *arguments):
        key = (signal, *map(str, arguments))
        if key not in self.decoded or arguments[-1] not in (OLD, NEW):
            kind = {"metrics": Metrics, "traces": Spans, "profiles": Profiles}[signal]
            words = ["--experimental"] if signal == "profiles" else []
            self.decoded[key] = kind(self.run_kymo("export", "--format", f"otlp-{signal}", *words,
                                                   *arguments).stdout)
        return self.decoded[key]

    def query(self, sql, path):
        return json.loads(self.run_kymo("query", "--json", sql, path).stdout)["rows"]

    def report(self, *arguments):
        return json.loads(self.run_kymo("report", "--json", *arguments).stdout)

    def made(self, name="web", home=USER):
        """Task 1 polls for 2 ms in a request whose trace is known, task 2 for 60 without."""
        trace = SampleTrace().metadata(pid=4242, service=name, host="h1", boot_id="0123abcd-ef",
                                       process__start_time_ticks=777, argv=CANARY)
        trace.event("ClockSyncEvent", 100 * MS, ("realtime_ns", "VARINT", UNIX_NS))
        trace.event("SpanEnter:request:a.rs:1", 100 * MS,
                    ("dial9.tokio.task_id", "VARINT?", 1), ("span_id", "VARINT", 9),
                    ("parent_span_id", "VARINT?", None), ("span_name", "STRING", b"request"),
                    ("trace_id", "STRING", TRACE_ID.encode()),
                    ("otel.span_id", "STRING", SPAN_ID.encode()),
                    ("secret", "STRING", CANARY.encode()))
        trace.poll(101 * MS, 103 * MS, 1, f"{home}/src/main.rs:1:1")
        trace.event("SpanEnter:query:a.rs:2", 104 * MS,
                    ("dial9.tokio.task_id", "VARINT?", 1), ("span_id", "VARINT", 10),
                    ("parent_span_id", "VARINT?", 9), ("span_name", "STRING", b"query"))
        trace.poll(104 * MS, 107 * MS, 1, f"{home}/src/main.rs:1:1")
        trace.event("SpanCloseEvent", 108 * MS, ("span_id", "VARINT", 10))
        trace.event("SpanCloseEvent", 109 * MS, ("span_id", "VARINT", 9))
        trace.event("WakeEventEvent", 110 * MS, ("waker_task_id", "VARINT", 1),
                    ("woken_task_id", "VARINT", 2), ("target_worker", "U8", 0))
        trace.poll(112 * MS, 172 * MS, 2, "b.rs:1:1")
        trace.poll(180 * MS, 180 * MS + 500000000 // 1024, 1, f"{home}/src/main.rs:1:1")
        trace.event("LossEvent", 190 * MS, ("tid", "U32", 5), ("record_count", "VARINT", 9),
                    ("exact", "BOOL", 1), ("from_ns", "VARINT", 185 * MS),
                    ("to_ns", "VARINT", 188 * MS), ("cause", "STRING", b"overwritten"))
        return trace

    def path(self, **more):
        return self.made(**more).save(self.dir / "made.trc")


class Content(Otlp):
    def test_counts_and_sums_are_those_of_the_report(self):
        for path in (NEW, OLD):
            for range_of in ((), ("--from", "1s", "--to", "2500ms")):
                with self.subTest(path=path, range=range_of):
                    said = self.export("metrics", *range_of, path)
                    tables = self.report(*range_of, path)["tables"]
                    for metric, key in ((DURATION, "polls"), (DELAY, "delays")):
                        parts = said.histograms[metric].values()
                        of = tables[key]
                        self.assertEqual(sum(part["count"] for part in parts), of["count"])
                        self.assertEqual(round(sum(part["sum"] for part in parts) * 1e9),
                                         of["total_ns"])
                        self.assertEqual(max(part["max"] for part in parts),
                                         of["max_ns"] / 1e9)
                        self.assertEqual(min(part["min"] for part in parts),
                                         of["min_ns"] / 1e9)

    def test_each_site_has_the_buckets_of_its_polls(self):
        said = self.export("metrics", NEW)
        rows = self.query("SELECT coalesce(site, '(unnamed)') AS s, duration_ns AS d FROM polls "
                          "WHERE NOT is_open AND NOT is_unproven", NEW)
        durations = collections.defaultdict(list)
        for row in rows:
            durations[row["s"]].append(row["d"])
        self.assertEqual(set(durations), set(said.histograms[DURATION]))
        self.assertGreater(len(durations), 3)
        for site, values in durations.items():
            part = said.histograms[DURATION][site]
            self.assertEqual((part["count"], part["sum"]), (len(values), sum(values) / 1e9))
            self.assertEqual((part["min"], part["max"]), (min(values) / 1e9, max(values) / 1e9))
            wanted = collections.Counter(index_of(value / 1e9, part["scale"])
                                         for value in values if value)
            self.assertEqual(part["buckets"], dict(wanted))
            # No finer scale has room for them.
            finer = {index_of(value / 1e9, part["scale"] + 1) for value in values if value}
            self.assertTrue(part["scale"] == 8 or max(finer) - min(finer) >= 160)
        self.assertEqual({said.units[DURATION], said.units[DELAY]}, {"s"})

    def test_a_power_of_two_is_in_the_bucket_below_it(self):
        part = self.export("metrics", self.path()).histograms[DURATION]["~/src/main.rs:1:1"]
        seconds = 2.0**-11
        self.assertIn(index_of(seconds, part["scale"]), part["buckets"])
        self.assertEqual(index_of(seconds, part["scale"]), -(11 << part["scale"]) - 1)

    def test_more_sites_than_a_receiver_should_have_are_one(self):
        trace = SampleTrace().event("ClockSyncEvent", MS, ("realtime_ns", "VARINT", UNIX_NS))
        for number in range(260):
            trace.poll((10 + 10 * number) * MS, (11 + 10 * number) * MS + 1000 * number, 1,
                       f"site{number}")
        said = self.export("metrics", trace.save(self.dir / "many.trc"))
        sites = said.histograms[DURATION]
        self.assertEqual(len(sites), 201)
        self.assertEqual(sites["other"]["count"], 60)
        self.assertEqual(set(sites) - {"other"}, {f"site{number}" for number in range(60, 260)})

    def test_what_a_policy_counted_is_in_it(self):
        trace = self.made()
        trace.event("HistogramEvent", 185 * MS, ("kind", "STRING", b"poll"),
                    ("name", "STRING", b"b.rs:1:1"), ("from_ns", "VARINT", 130 * MS),
                    ("to_ns", "VARINT", 185 * MS), ("count", "VARINT", 3),
                    ("sum", "VARINT", 700), ("min", "VARINT", 100), ("max", "VARINT", 400),
                    ("buckets", "BYTES", b"\x64\x01\x63\x02"))
        path = trace.save(self.dir / "counted.trc")
        part = self.export("metrics", path).histograms[DURATION]["b.rs:1:1"]
        self.assertEqual((part["count"], part["sum"], part["min"]), (4, 60000700 / 1e9, 1e-7))

    def test_losses_are_told(self):
        said = self.export("metrics", self.path())
        self.assertEqual(said.sums["kymo.lost.records"], {("overwritten",): 9})
        self.assertEqual(self.export("traces", self.path()).resource["kymo.lost.records"], 9)
        self.assertEqual(self.export("metrics", NEW).sums["kymo.lost.records"], {(): 0})

    def test_times_and_resource_are_those_of_the_trace(self):
        said = self.export("metrics", self.path())
        (start, end), = said.times
        self.assertEqual(start, UNIX_NS + MS)
        self.assertGreater(end, UNIX_NS + 80 * MS)
        # Nothing that differs from segment to segment: each would be a series of its own.
        self.assertEqual(said.resource, {
            "service.name": "web", "host.name": "h1", "process.pid": 4242,
            "service.instance.id": "0123abcd-4242-777"})
        self.assertEqual(self.export("traces", self.path()).resource, {
            **said.resource, "kymo.lost.records": 9, "kymo.trace.start_unix_ns": UNIX_NS + MS})

    def test_slow_polls_are_spans_under_the_trace_that_a_span_knew(self):
        said = self.export("traces", self.path())
        polls = sorted(said.polls, key=lambda one: one["start"])
        self.assertEqual([(one["start"], one["end"]) for one in polls], [
            (UNIX_NS + 1 * MS, UNIX_NS + 3 * MS), (UNIX_NS + 4 * MS, UNIX_NS + 7 * MS),
            (UNIX_NS + 12 * MS, UNIX_NS + 72 * MS)])
        # The second one is in a span inside of it.
        self.assertEqual([(one["trace"], one["parent"]) for one in polls[:2]],
                         [(TRACE_ID, SPAN_ID)] * 2)
        self.assertNotEqual(polls[2]["trace"], TRACE_ID)
        self.assertEqual((polls[2]["parent"], polls[2]["attributes"]["kymo.poll.delay_ns"]),
                         ("", 2 * MS))
        self.assertEqual(polls[2]["attributes"]["kymo.task.id"], 2)
        self.assertEqual(len({one["id"] for one in said.all}), len(said.all))
        slow = self.export("metrics", self.path()).sums["kymo.task.poll.slow"]
        self.assertEqual(slow, {("~/src/main.rs:1:1",): 2, ("b.rs:1:1",): 1})

    def test_an_event_in_a_span_says_its_trace_as_the_layer_of_tracing_does(self):
        trace = SampleTrace().event("ClockSyncEvent", 100 * MS, ("realtime_ns", "VARINT", UNIX_NS))
        kind = "SpanEnter:request:a.rs:1"
        for number, at in ((9, 100), (9, 200)):  # an id that comes back
            trace.event(kind, at * MS, ("dial9.tokio.task_id", "VARINT?", 1),
                        ("span_id", "VARINT", number), ("parent_span_id", "VARINT?", None),
                        ("span_name", "STRING", b"request"))
            trace_id = TRACE_ID if at == 100 else TRACE_ID[::-1]
            trace.event("span request", at * MS + 1, ("span_id", "VARINT?", number),
                        ("order", "VARINT", 7), ("trace_id", "STRING", trace_id.encode()))
            trace.poll((at + 1) * MS, (at + 3) * MS, 1, "a")
            trace.event("SpanCloseEvent", (at + 4) * MS, ("span_id", "VARINT", number))
        trace.event("span request", 300 * MS, ("span_id", "VARINT?", None),
                    ("order", "VARINT", 7), ("trace_id", "STRING", b"f" * 32))
        polls = self.export("traces", trace.save(self.dir / "layer.trc")).polls
        self.assertEqual([one["trace"] for one in sorted(polls, key=lambda one: one["start"])],
                         [TRACE_ID, TRACE_ID[::-1]])

    def test_forms_of_trace_ids(self):
        forms = {f"00-{TRACE_ID}-{SPAN_ID}-01": (TRACE_ID, SPAN_ID), f'"{TRACE_ID}"':
                 (TRACE_ID, ""), TRACE_ID.upper(): (TRACE_ID, ""), "0" * 32: None,
                 TRACE_ID[:-1]: None, TRACE_ID + "0": None, f"00-{TRACE_ID}-{SPAN_ID}": None,
                 "x" * 32: None, "": None}
        for text, wanted in forms.items():
            trace = SampleTrace().event("ClockSyncEvent", 100 * MS,
                                        ("realtime_ns", "VARINT", UNIX_NS))
            trace.event("SpanEnter:request:a.rs:1", 100 * MS,
                        ("dial9.tokio.task_id", "VARINT?", 1), ("span_id", "VARINT", 9),
                        ("parent_span_id", "VARINT?", None), ("span_name", "STRING", b"r"),
                        ("traceparent" if "-" in text else "trace_id", "STRING", text.encode()))
            trace.poll(101 * MS, 103 * MS, 1, "a")
            poll, = self.export("traces", trace.save(self.dir / "form.trc")).polls
            with self.subTest(text):
                found = (poll["trace"], poll["parent"])
                self.assertEqual(found if found[0] == TRACE_ID else None, wanted)

    def test_findings_are_spans_that_lead_to_their_polls(self):
        for path in (NEW, OLD, str(self.path())):
            said = self.export("traces", path)
            wanted = self.report(path)["findings"]
            self.assertEqual([one["name"] for one in said.findings],
                             [one["id"] for one in wanted])
            ids = {(one["trace"], one["id"]) for one in said.polls}
            for span, finding in zip(said.findings, wanted):
                own = span["attributes"]
                self.assertEqual(own["kymo.finding.severity"], finding["severity"])
                self.assertEqual(own["kymo.finding.victims"], finding["impact"]["victims"])
                self.assertEqual(own["kymo.finding.score"], finding["score"])
                self.assertEqual(own["kymo.finding.statement"].replace("~", USER),
                                 finding["statement"])
                self.assertEqual([event[0] for event in span["events"]],
                                 [one["kind"] for one in finding["evidence"]])
                self.assertLessEqual(set(span["links"]), ids)
        self.assertTrue(any(one["links"] for one in self.export("traces", NEW).findings))

    def test_the_same_trace_has_the_same_bytes(self):
        for signal in ("traces", "metrics"):
            first, second = (self.run_kymo("export", "--format", f"otlp-{signal}", NEW).stdout
                             for _ in range(2))
            self.assertEqual(first, second)

    def test_nothing_private_gets_out(self):
        path = self.path()
        for word in ("otlp-traces", "otlp-metrics"):
            said = self.run_kymo("export", "--format", word, path).stdout
            for canary in (CANARY.encode(), b"someone", b"/home"):
                self.assertNotIn(canary, said)

    def test_profiles_have_the_samples_that_pprof_has(self):
        for path in (NEW, OLD):
            said = self.export("profiles", path)
            self.assertGreater(len(said.all), 0)
            for kind, unit, samples in said.all:
                name = {"samples": "cpu", "cpu": "cpu", "off_cpu": "off-cpu",
                        "waiting": "waiting", "allocated": "heap"}[kind]
                out = self.dir / f"{name}.folded"
                done = self.run_kymo("export", "--format", "folded", "--json", "--kind", name, "-f",
                                     "-o", out, path)
                wanted = json.loads(done.stdout)
                self.assertEqual(sum(one["value"] for one in samples), wanted["sum"])
                self.assertIn(unit, ("count", "nanoseconds", "bytes"))
                leaves = {one["stack"][0][0] for one in samples if one["stack"][0]}
                text = out.read_text()
                self.assertTrue(leaves)
                for leaf in leaves:
                    self.assertIn(leaf.replace(";", ":"), text)

    def test_samples_lead_to_the_span_that_was_known(self):
        trace = self.made()
        trace.symbol(0x10, "app::work", 7)
        trace.cpu(102 * MS, 10 * MS, 1, 101 * MS, 0x10)
        trace.cpu(150 * MS, 10 * MS, 2, 112 * MS, 0x10)
        (kind, unit, samples), = self.export("profiles", trace.save(self.dir / "cpu.trc")).all
        self.assertEqual((kind, unit), ("cpu", "nanoseconds"))
        self.assertEqual([(one["link"], one["time"]) for one in samples], [
            ((TRACE_ID, SPAN_ID), UNIX_NS + 2 * MS), ((), UNIX_NS + 50 * MS)])
        self.assertEqual([one["stack"] for one in samples], [[["app::work"]]] * 2)
        self.assertEqual([one["attributes"] for one in samples], [{"thread.id": 11}] * 2)

    def test_wrong_words_are_said(self):
        self.fails("export", "--format", "otlp-profiles", NEW, code=2, says=["--experimental"])
        self.fails("export", "--format", "chrome", "--experimental", NEW, code=2,
                   says=["--experimental goes with"])
        self.fails("export", "--format", "otlp", NEW, code=2, says=["--push"])
        self.fails("export", "--format", "chrome", "--push", "http://h", NEW, code=2,
                   says=["--push goes with"])
        self.fails("export", "--format", "otlp-traces", "--task", "1", NEW, code=2,
                   says=["--task"])
        bare = SampleTrace()
        bare.poll(MS, 2 * MS, 1, "a")
        self.fails("export", "--format", "otlp-traces", bare.save(self.dir / "bare.trc"),
                   says=["time of day"])


class Sending(Otlp):
    def environment(self, **more):
        full = {name: value for name, value in os.environ.items() if not name.startswith(OWN)}
        return {**full, "HOME": str(self.dir), **more}

    def start(self, *words, **more):
        return subprocess.run([KYMO, *map(str, words)], env=self.environment(**more),
                              capture_output=True, text=True, timeout=DEADLINE_S, check=False)

    def push(self, url, *words, code=0, path=None, form="otlp", **more):
        done = self.start("export", "--format", form, "--push", url, *words,
                          path or self.path(), **more)
        self.assertEqual(done.returncode, code, done.stderr)
        self.assertNotIn(CANARY, done.stdout + done.stderr)
        return done


class Push(Sending):
    def test_both_requests_arrive_packed(self):
        with Receiver() as receiver:
            done = self.push(receiver.url)
        self.assertIn("4 polls at 2 places", done.stdout)
        self.assertEqual([path for path, *_ in receiver.requests], ["/v1/traces", "/v1/metrics"])
        for _, given, _ in receiver.requests:
            self.assertEqual(given["content-type"], "application/x-protobuf")
            self.assertEqual(given["content-encoding"], "gzip")
        self.assertEqual(len(Spans(receiver.bodies("/v1/traces")[0]).polls), 3)
        self.assertEqual(len(Metrics(receiver.bodies("/v1/metrics")[0]).histograms), 2)

    def test_trouble_that_passes_is_tried_again_and_nothing_is_sent_twice(self):
        answers = [(503, {"Retry-After": "1"}, b""), (200, {}, b""), (429, {}, b""),
                   (502, {}, b""), (504, {}, b"")]
        with Receiver(answers) as receiver:
            self.push(receiver.url)
        self.assertEqual([path for path, _ in receiver.taken], ["/v1/traces", "/v1/metrics"])
        self.assertEqual(len(receiver.requests), 6)

    def test_what_is_refused_is_said_once_and_not_tried_again(self):
        with Receiver([(400, {}, status_message("span id has 3 bytes"))]) as receiver:
            done = self.push(receiver.url, code=1)
        self.assertEqual([path for path, *_ in receiver.requests], ["/v1/traces", "/v1/metrics"])
        self.assertEqual(done.stderr.count("span id has 3 bytes"), 1)
        self.assertIn("answers 400", done.stderr)

    def test_what_a_receiver_left_out_is_said(self):
        with Receiver([(200, {}, partial(7))]) as receiver:
            done = self.push(receiver.url, code=1)
        self.assertIn("without 7", done.stderr)
        self.assertEqual(len(receiver.requests), 2)

    def test_headers_come_from_the_environment_and_stay_at_their_host(self):
        headers = f"authorization=Bearer%20{CANARY}, x-scope = a%2Cb"
        with Receiver() as other, Receiver() as receiver:
            self.push(receiver.url, OTEL_EXPORTER_OTLP_HEADERS=headers)
            for _, given, _ in receiver.requests:
                self.assertEqual(given["authorization"], f"Bearer {CANARY}")
                self.assertEqual(given["x-scope"], "a,b")
            receiver.answers = [(307, {"Location": other.url + "/v1/traces"}, b"")]
            done = self.push(receiver.url, "--push-timeout", "5s", code=1,
                             OTEL_EXPORTER_OTLP_HEADERS=headers)
            self.assertEqual(other.requests, [])
        self.assertIn("307", done.stderr)

    def test_the_environment_names_the_receiver(self):
        with Receiver() as receiver, Receiver() as second:
            self.push("", OTEL_EXPORTER_OTLP_ENDPOINT=receiver.url + "/base/",
                      OTEL_EXPORTER_OTLP_METRICS_ENDPOINT=second.url + "/m",
                      OTEL_EXPORTER_OTLP_COMPRESSION="none",
                      OTEL_EXPORTER_OTLP_METRICS_HEADERS="k=m")
        (path, given, body), = receiver.requests
        self.assertEqual((path, given.get("content-encoding")), ("/base/v1/traces", None))
        self.assertEqual(len(Spans(body).polls), 3)
        (path, given, _), = second.requests
        self.assertEqual((path, given["k"]), ("/m", "m"))

    def test_one_signal_can_be_turned_off(self):
        with Receiver() as receiver:
            self.push(receiver.url, OTEL_TRACES_EXPORTER="none")
        self.assertEqual([path for path, *_ in receiver.requests], ["/v1/metrics"])

    def test_wrong_addresses_and_headers_are_said(self):
        for url, says in (("ftp://h", "http://HOST"), (f"http://u:{CANARY}@h", "credentials"),
                          ("http://h/a?b=c", "query"), ("http://", "http://HOST")):
            self.assertIn(says, self.push(url, code=2).stderr)
        for headers in (f"{CANARY}", f"a b={CANARY}", f"a={CANARY}%0d%0ab: c"):
            done = self.push("http://127.0.0.1:9", code=2, OTEL_EXPORTER_OTLP_HEADERS=headers)
            self.assertIn("OTEL_EXPORTER_OTLP_HEADERS", done.stderr)

    def test_profiles_are_sent_only_where_that_is_asked_for(self):
        with Receiver() as receiver:
            self.push(receiver.url, "--experimental", path=self.data / NEW)
        self.assertEqual([path for path, *_ in receiver.requests],
                         ["/v1/traces", "/v1/metrics", "/v1development/profiles"])
        self.assertGreater(len(Profiles(receiver.bodies("/v1development/profiles")[0]).all), 0)

    def test_profiles_are_pushed_as_pyroscope_takes_them(self):
        with Receiver() as receiver:
            done = self.push(receiver.url, path=self.data / NEW, form="pprof",
                             KYMO_PPROF_HEADERS="X-Scope-OrgID=t")
        (path, given, body), = receiver.requests
        self.assertEqual(path, "/push.v1.PusherService/Push")
        self.assertEqual((given["content-type"], given["x-scope-orgid"]),
                         ("application/proto", "t"))
        series = [message(one) for field, one in fields(body) if field == 1]
        labels = [{message(pair)[1][0]: message(pair)[2][0] for pair in one[1]} for one in series]
        self.assertEqual({one[b"service_name"] for one in labels}, {b"metrics-service"})
        self.assertIn(b"process_cpu", [one[b"__name__"] for one in labels])
        self.assertIn(f"{len(series)} profiles", done.stdout)
        for one in series:
            self.assertGreater(len(message(message(one[2][0])[1][0])[2]), 0)


class Segments(Sending):
    def make_run(self, count):
        run = self.dir / "traces/web/2026-05-18T12-30-00-0123abcd-42-777"
        run.mkdir(parents=True)
        (run / ".kymo-run").write_text("kymo run directory, version 1\n")
        (run / ".lock").touch()
        for number in range(count):
            self.made(name=f"web{number}").save(run / f"{number:06}.trc")
        return run

    def upload(self, to, *words, code=0, **more):
        done = self.start("upload", self.dir / "traces", "--to", to, *words, **more)
        self.assertEqual(done.returncode, code, done.stdout + done.stderr)
        return done

    def names(self, receiver, path="/v1/metrics"):
        return [Metrics(body).resource["service.name"] for body in receiver.bodies(path)]

    def test_each_segment_is_sent_once(self):
        self.make_run(3)
        with Receiver() as receiver:
            self.assertIn("sent 3 segments", self.upload(f"otlp:{receiver.url}").stdout)
            self.assertEqual(self.names(receiver), ["web0", "web1", "web2"])
            self.assertIn("sent 0 segments", self.upload(f"otlp:{receiver.url}").stdout)
            self.assertEqual(len(receiver.requests), 6)

    def test_a_body_that_arrived_is_not_sent_again(self):
        self.make_run(2)
        with Receiver([(200, {}, b""), (503, {"Retry-After": "0"}, b""), (500, {}, b"")]) as \
                receiver:
            self.upload(f"otlp:{receiver.url}")
        self.assertEqual(self.names(receiver), ["web0", "web1"])
        self.assertEqual(len(receiver.bodies("/v1/traces")), 2)
        self.assertEqual(len(receiver.requests), 6)

    def test_a_killed_sender_sends_no_body_twice(self):
        """Killed while the receiver is silent: after the spans arrived, and after the metrics of
        one segment and the spans of the next."""
        for before in (1, 3):
            with self.subTest(before), Receiver([(200, {}, b"")] * before + ["hang"]) as receiver:
                run = self.make_run(2)
                with subprocess.Popen([KYMO, "upload", self.dir / "traces", "--to",
                                       f"otlp:{receiver.url}"], env=self.environment(),
                                      stdout=subprocess.DEVNULL) as process:
                    self.assertTrue(receiver.hanging.wait(DEADLINE_S))
                    process.kill()
                receiver.release.set()
                self.assertIn(f"sent {2 - before // 2} segment",
                              self.upload(f"otlp:{receiver.url}").stdout)
                for path in ("/v1/traces", "/v1/metrics"):
                    self.assertEqual(self.names(receiver, path) if "metrics" in path else
                                     [Spans(body).resource["service.name"]
                                      for body in receiver.bodies(path)], ["web0", "web1"])
                self.assertEqual(len(receiver.requests), 5)
                shutil.rmtree(run)

    def test_a_refused_segment_holds_up_no_other_and_stays(self):
        run = self.make_run(3)
        with Receiver([(400, {}, status_message("not this one"))]) as receiver:
            done = self.upload(f"otlp:{receiver.url}", code=1)
        self.assertEqual(done.stderr.count("not this one\n"), 1)
        self.assertIn("1 left", done.stdout)
        self.assertEqual(len(list(run.glob("*.trc"))), 3)
        self.assertEqual(len(receiver.requests), 6)

    def test_what_cannot_be_analysed_is_refused(self):
        run = self.make_run(2)
        (run / "000000.trc").write_bytes(b"no trace at all")
        with Receiver() as receiver:
            done = self.upload(f"otlp:{receiver.url}", "--redact", "none", "--no-symbols",
                               code=1)
        self.assertIn("000000.trc: cannot be analysed", done.stderr)
        self.assertEqual(self.names(receiver), ["web1"])

    def test_what_a_user_mends_is_said_once(self):
        self.make_run(2)
        with Receiver([(401, {}, b"no token")] * 9) as receiver:
            done = self.upload(f"otlp:{receiver.url}", "--upload-timeout", "1s", code=1)
        self.assertEqual(done.stderr.count("no token\n"), 1, done.stderr)
        self.assertIn("2 left", done.stdout)
        self.assertEqual(len(receiver.requests), 1)

    def test_wrong_words_are_said_before_anything_is_sent(self):
        self.make_run(1)
        for word in ("otlp:h:1", "pprof:", f"otlp:http://u:{CANARY}@h"):
            done = self.upload(word, code=2)
            self.assertIn("--to: the address", done.stderr)
            self.assertNotIn(CANARY, done.stderr)

    def test_a_run_sends_what_it_recorded(self):
        with Receiver() as receiver:
            done = self.start("run", "--ring-dir", self.dir / "rings", "-o", self.dir / "traces",
                              "--to", f"otlp:{receiver.url}", "--", HOST, "5000")
            self.assertEqual(done.returncode, 0, done.stderr)
            self.assertIn("sent 1 segment", done.stderr)
        said = Metrics(receiver.bodies("/v1/metrics")[0])
        path, = (self.dir / "traces").glob("*/2*/*.trc*")
        self.assertEqual(sum(part["count"] for part in said.histograms[DURATION].values()),
                         self.report(path)["tables"]["polls"]["count"])
        self.assertEqual(said.resource["service.name"], "run_host")


if __name__ == "__main__":
    HOST = os.path.abspath(sys.argv.pop(3))
    main()
