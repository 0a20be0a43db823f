# SPDX-License-Identifier: Apache-2.0 OR MIT
"""The findings of `kymo report`: their schema, their score, what is left unsaid. What each finding
is found by is shown by the golden traces of the fault corpus (test/golden/test_faults.py)."""
import json
import pathlib
import re
import sys

from cli_case import Cli, main
from trace_maker import SampleTrace

ROOT = pathlib.Path(__file__).resolve().parents[2]
SCHEMA = json.loads((ROOT / "docs/findings.schema.json").read_text())
MS = 1_000_000
TYPES = {"object": dict, "array": list, "string": str, "integer": int, "number": (int, float),
         "null": type(None)}


def violations(value, schema, where="$"):
    """What JSON Schema says of a value, for the keywords that the schema uses."""
    if "$ref" in schema:
        schema = SCHEMA["$defs"][schema["$ref"].rsplit("/", 1)[1]]
    kinds = schema.get("type", [])
    kinds = [kinds] if isinstance(kinds, str) else kinds
    if kinds and not any(isinstance(value, TYPES[kind]) for kind in kinds):
        return [f"{where}: {value!r} is no {kinds}"]
    bad = []
    if "const" in schema and value != schema["const"]:
        bad.append(f"{where}: {value!r}")
    if "enum" in schema and value not in schema["enum"]:
        bad.append(f"{where}: {value!r} is none of {schema['enum']}")
    if "pattern" in schema and value is not None and not re.search(schema["pattern"], value):
        bad.append(f"{where}: {value!r} is not {schema['pattern']}")
    if "minLength" in schema and len(value) < schema["minLength"]:
        bad.append(f"{where} is empty")
    if "minimum" in schema and not schema["minimum"] <= value <= schema.get("maximum", value):
        bad.append(f"{where}: {value} is out of range")
    for key in schema.get("required", ()):
        if key not in value:
            bad.append(f"{where} lacks {key}")
    for key, inner in schema.get("properties", {}).items():
        if isinstance(value, dict) and key in value:
            bad += violations(value[key], inner, f"{where}.{key}")
    if isinstance(value, dict) and "properties" in schema:
        bad += [f"{where}.{key} is not in the schema" for key in set(value) -
                set(schema["properties"])]
    for at, one in enumerate(value if "items" in schema else ()):
        bad += violations(one, schema["items"], f"{where}[{at}]")
    return bad


def service(polls=40, long_ns=20 * MS, blocked=True):
    """One worker; each long poll of app::slow is followed by one of app::quick, ready before it."""
    trace = SampleTrace().metadata(pid=1, service="svc", machine__architecture="x86_64")
    trace.symbol(0x10, "app::read_all", 9).symbol(0x20, "app::slow", 7)
    at = MS
    for number in range(polls):
        trace.event("WakeEventEvent", at, ("waker_task_id", "VARINT", 0),
                    ("woken_task_id", "VARINT", 8), ("target_worker", "U8", 0))
        trace.poll(at + 1000, at + 1000 + long_ns, 7, "app::slow")
        if blocked:
            trace.off_cpu(at + long_ns, long_ns - 100_000, 7, at + 1000, 0x10, 0x20, syscall=0)
        trace.poll(at + 2000 + long_ns, at + 52_000 + long_ns, 8, "app::quick")
        at += long_ns + 10 * MS * (1 + number % 2)
    return trace


def lost(trace, from_ns, to_ns, count=7, cause=b"overwritten"):
    return trace.event("LossEvent", to_ns, ("tid", "U32", 0), ("record_count", "VARINT", count),
                       ("exact", "BOOL", 1), ("from_ns", "VARINT", from_ns),
                       ("to_ns", "VARINT", to_ns), ("cause", "STRING", cause))


def queue(rss, limit=None, sends=1, polls=60):
    """A task that sends into an unbounded channel wakes at the start, and that a timer wakes since;
    with readings of memory, one a second, in kB."""
    trace = SampleTrace().metadata(pid=1, service="svc", machine__architecture="x86_64")
    trace.symbol(0x30, "tokio::sync::mpsc::unbounded::UnboundedSender<T>::send", 9)
    trace.symbol(0x40, "app::place", 7)
    for number in range(polls):
        at = (100 * number + 1) * MS
        stack = [0x30, 0x40] if number < sends else []
        trace.event("WakeEventEvent", at, ("waker_task_id", "VARINT", 0),
                    ("woken_task_id", "VARINT", 8), ("target_worker", "U8", 0),
                    ("origin", "U8", 3), ("callchain", "STACK", stack), ("tid", "VARINT", 0))
        trace.poll(at + 1000, at + 50_000, 8, "app::store")
    for number, kb in enumerate(rss):
        trace.event("PartialResourceUsageEvent", (1000 * number + 2) * MS,
                    ("rss_bytes", "VARINT?", kb * 1000))
        trace.event("CgroupUsageEvent", (1000 * number + 2) * MS, ("level", "U8", 0),
                    ("memory_bytes", "VARINT?", kb * 1000),
                    ("memory_limit_bytes", "VARINT?", limit))
    return trace


class Findings(Cli):
    def report(self, trace, *words):
        path = trace.save(self.dir / "trace.trc")
        return json.loads(self.run_kymo("report", "--json", *words, path).out)

    def test_json_follows_the_schema(self):
        self.assertEqual(violations(self.report(service()), SCHEMA), [])
        for path in sorted((ROOT / "test/golden/faults").glob("*.trc.zst")):
            said = json.loads(self.run_kymo("report", "--json", path).out)
            self.assertEqual(violations(said, SCHEMA), [], path)

    def test_a_call_is_no_wait_for_a_cpu_beyond_what_the_kernel_counted(self):
        """The machine's tasks waited for most of the time; of the worker's thread the kernel
        counted so much run delay in all. One call of 300 ms, timed by the clock alone."""
        def severity(own_delay_ns):
            trace = service(polls=1, long_ns=300 * MS)
            for time, waited, delay in ((MS, 0, 0), (1001 * MS, 900 * MS, own_delay_ns)):
                trace.event("PressureEvent", time, ("scope", "VARINT", 0),
                            ("cpu_some_ns", "VARINT", waited))
                trace.event("ThreadCpuEvent", time, ("tid", "U32", 11), ("worker_id", "VARINT", 0),
                            ("cpu_time_ns", "VARINT", 100 * MS * (time > MS)),
                            ("run_delay_ns", "VARINT", delay))
            said = self.report(trace)["findings"]
            return next(one["severity"] for one in said if one["id"] == "blocking_call")

        self.assertEqual((severity(20 * MS), severity(500 * MS)), ("critical", "info"))

    def test_each_finding_has_its_section(self):
        table = (ROOT / "src/analyze/findings/findings.def").read_text()
        anchors = re.findall(r'KY_FINDING\(\w+, "(\w+)", \d+, "([a-z-]+)"\)', table)
        self.assertGreaterEqual(len(anchors), 20)
        sections = re.findall(r"(?m)^## (\S+)$", (ROOT / "docs/findings.md").read_text())
        self.assertEqual(sorted(anchor for _, anchor in anchors), sorted(sections))
        for name, anchor in anchors:
            self.assertEqual(name.replace("_", "-"), anchor)

    def test_the_schema_check_can_fail(self):
        said = self.report(service())
        said["findings"][0]["severity"] = "fatal"
        said["findings"][0]["impact"]["share"] = 2
        del said["trace"]["duration_ns"]
        said["more"] = 1
        self.assertEqual(len(violations(said, SCHEMA)), 4)

    def test_a_blocked_poll_is_named_with_its_call_and_its_victims(self):
        said = self.report(service())["findings"]
        self.assertEqual([one["id"] for one in said], ["blocking_call"])
        one = said[0]
        self.assertIn("app::slow", one["statement"])
        self.assertIn("blocked in read", one["statement"])
        self.assertEqual((one["culprit"]["task"], one["culprit"]["function"]),
                         ("app::slow", "app::slow"))
        self.assertEqual(one["culprit"]["callee"], "app::read_all")
        self.assertEqual(one["impact"]["victims"], 40)
        self.assertGreater(one["score"], 0.9)

    def test_short_polls_that_are_blocked_all_the_time_are_a_warning(self):
        """Each is shorter than a neighbour's time slice; the trace shows that they were blocked."""
        def severity(polls, long_ns):
            trace, at = service(polls, long_ns), MS
            for number in range(polls):
                trace.event("PollCostEvent", at + 1500 + long_ns, ("worker_id", "VARINT", 0),
                            ("tid", "U32", 5), ("task_id", "VARINT", 7),
                            ("start_ns", "VARINT", at + 1000), ("on_cpu", "BOOL", 0),
                            ("cpu_time_ns", "VARINT", 100_000), ("gap_ns", "VARINT", 0),
                            ("run_delay_ns", "VARINT?", 0))
                at += long_ns + 10 * MS * (1 + number % 2)
            one = self.report(trace)["findings"][0]
            return one["id"], one["severity"]
        self.assertEqual(severity(40, 5 * MS // 2), ("blocking_call", "warning"))
        self.assertEqual(severity(10, 5 * MS // 2), ("blocking_call", "info"))
        self.assertEqual(severity(40, 3 * MS // 2), ("blocking_call", "info"))

    def test_the_key_is_the_same_in_another_trace(self):
        first, second = (self.report(service(polls))["findings"][0] for polls in (40, 50))
        self.assertEqual(first["key"], second["key"])
        self.assertNotEqual(first["impact"]["delay_ns"], second["impact"]["delay_ns"])

    def test_throttling_is_named_with_its_time(self):
        trace = service(long_ns=2 * MS).event(
            "CgroupThrottledEvent", 400 * MS, ("level", "U8", 0), ("from_ns", "VARINT", 300 * MS),
            ("to_ns", "VARINT", 400 * MS), ("throttled_ns", "VARINT", 80 * MS))
        one = self.report(trace)["findings"][0]
        self.assertEqual((one["id"], one["severity"]), ("cgroup_throttled", "critical"))
        self.assertEqual(one["impact"]["delay_ns"], 80 * MS)

    def test_short_polls_are_healthy(self):
        said = self.report(service(long_ns=2 * MS))
        self.assertEqual([one["severity"] for one in said["findings"]], ["info"])
        text = self.run_kymo("report", self.dir / "trace.trc").out
        self.assertIn("Healthy: ", text)

    def test_what_neither_cost_nor_sample_says_is_not_guessed(self):
        (one,) = self.report(service(blocked=False))["findings"]
        self.assertEqual((one["id"], one["confidence"]), ("cpu_heavy_poll", "possible"))
        self.assertNotIn("ran on CPU", one["statement"])
        self.assertIn("does not say whether", one["missing"][0]["effect"])

    def test_a_range_has_its_own_findings(self):
        said = self.report(service(), "--from", "10s")
        self.assertEqual(said["findings"], [])
        text = self.run_kymo("report", "--from", "10s", self.dir / "trace.trc").out
        self.assertIn("No poll is in the trace", text)

    def losses(self, trace):
        return [one for one in self.report(trace)["findings"] if one["id"] == "recorder_losses"]

    def test_a_short_gap_is_said_and_is_no_alarm(self):
        (one,) = self.losses(lost(service(long_ns=2 * MS), 100 * MS, 105 * MS))
        self.assertEqual(one["severity"], "info")
        self.assertEqual((one["impact"]["victims"], one["impact"]["worst_ns"]), (1, 5 * MS))
        self.assertIn("7 records were lost in 1 gap", one["statement"])
        self.assertIn("--ring-bytes", one["action"])
        text = self.run_kymo("report", self.dir / "trace.trc").out
        self.assertIn("Healthy: ", text)
        self.assertIn("7 records were lost in 1 gap", text)
        self.assertIn("Too small or too short to count: 1 other cause ", text)

    def test_a_gap_of_a_fifth_of_the_time_stands_after_the_causes(self):
        said = self.report(lost(service(), 1000 * MS, 1300 * MS))["findings"]
        self.assertEqual([one["id"] for one in said], ["blocking_call", "recorder_losses"])
        self.assertEqual(said[1]["severity"], "info")
        self.assertGreater(said[1]["score"], 0.15)
        said = self.report(lost(service(long_ns=2 * MS), 100 * MS, 300 * MS))["findings"]
        self.assertEqual({one["severity"] for one in said}, {"info"})
        self.assertIn("recorder_losses", [one["id"] for one in said])

    def test_gaps_that_overlap_count_once(self):
        trace = service(long_ns=2 * MS)
        for start in (100, 101, 102):
            lost(trace, start * MS, (start + 3) * MS)
        (one,) = self.losses(trace)
        self.assertEqual((one["impact"]["victims"], one["impact"]["delay_ns"]), (3, 5 * MS))

    def test_where_a_dump_begins_is_no_loss(self):
        for cause in (b"horizon", b"flight"):
            self.assertEqual(self.losses(lost(service(), 1 * MS, 500 * MS, 0, cause)), [])

    def test_lost_samples_and_unwatched_time_are_named(self):
        trace = lost(service(long_ns=2 * MS), 2 * MS, 3 * MS, 11, b"cpu-samples")
        (one,) = self.losses(trace.metadata(watchdog__late=2, watchdog__unwatched_ns=40 * MS))
        self.assertEqual(one["severity"], "info")
        self.assertIn("11 samples were lost", one["statement"])
        self.assertIn("checked nothing for 40.0 ms, in 2 intervals", one["statement"])
        self.assertIn("--sample-bytes", one["action"])

    def test_what_a_threshold_holds_back_is_named_and_is_no_loss(self):
        trace = service(long_ns=2 * MS).event(
            "HistogramEvent", 500 * MS, ("kind", "STRING", b"poll"), ("name", "STRING", b""),
            ("unit", "STRING", b"ns"), ("from_ns", "VARINT", 2 * MS), ("count", "VARINT", 320),
            ("sum", "VARINT", 320_000), ("min", "VARINT", 1000), ("max", "VARINT", 1000),
            ("buckets", "BYTES", b"\x80\x08\xc0\x02"))
        (one,) = self.losses(trace)
        self.assertEqual((one["severity"], one["impact"]["victims"]), ("info", 0))
        self.assertIn("320 of 400 polls are counted alone", one["statement"])
        self.assertIn("poll.threshold=off", one["action"])

    def test_lost_switch_records_are_named(self):
        trace = service(long_ns=2 * MS).event(
            "OffCpuWindowEvent", 300 * MS, ("observed_ns", "VARINT", 9 * MS),
            ("stretch_ns", "VARINT", 100 * MS), ("records", "VARINT", 50), ("lost", "VARINT", 3))
        (one,) = self.losses(trace)
        self.assertEqual(one["severity"], "info")
        self.assertIn("3 switch records of the kernel were lost", one["statement"])

    def growth(self, *words, **options):
        return [(one["severity"], one["confidence"]) for one in
                self.report(queue(*words, **options))["findings"] if one["id"] == "queue_growth"]

    def test_a_queue_is_a_warning_where_memory_grows_evenly_and_critical_near_its_limit(self):
        even, limit = [1000, 1400, 1500, 1600, 1700, 1800], 1_000_000_000
        self.assertEqual(self.growth(even), [("warning", "possible")])
        self.assertEqual(self.growth(even, 10 * limit), [("warning", "possible")])
        self.assertEqual(self.growth(even, limit // 100), [("critical", "possible")])
        for uneven in (even[:4], [1000] * 6, [1000, 1400, 1401, 1600, 1700, 1800], even[::-1]):
            self.assertEqual(self.growth(uneven, limit // 100), [("info", "possible")], uneven)

    def test_a_consumer_that_sends_still_wake_is_no_queue_that_grows(self):
        even = [1000, 1400, 1500, 1600, 1700, 1800]
        self.assertEqual(self.growth(even, sends=60), [])
        self.assertEqual(self.growth(even, sends=0), [])
        self.assertEqual(self.growth(even, sends=50), [])

    def of_recording(self, trace, name):
        said = self.report(trace)
        self.assertEqual(violations(said, SCHEMA), [])
        found = [one for one in said["findings"] if one["id"] == name]
        self.assertLessEqual({one["severity"] for one in found}, {"info"})
        return found

    def test_what_the_recording_was_set_up_without_is_one_finding_with_an_action_each(self):
        for key, value, capability, action in (
                ("sampling__cpu", "off", "CPU samples", "--sample 99"),
                ("unwind__tables", "none: Permission denied", "unwind tables", "unwind-tables"),
                ("unwind__tables", "3 modules, 9 rows, 2 without (Bad address)",
                 "unwind tables of some modules", "unwind-tables"),
                ("poll_cost__mark", "the kernel does not clear it", "rseq", "glibc"),
                ("tokio__tables_by_shape", 3, "symbols of Tokio", "STRIP=false"),
                ("kymo__gates_off", "waker_clone,alloc,places", "await points", "places=on"),
                ("kymo__gates_off", "wake", "wakes", "wake=on"),
                ("clock__jumps", 2, "steady clock", "doctor"),
                ("resources__interval_ns", 0, "readings of resources", "resources=1s"),
                ("resources__missing", "open files: Permission denied",
                 "some readings of resources", "user"),
                ("ring__anonymous", "true", "ring in shared memory", "tmpfs"),
                ("flight__age_ns", 400 * MS, "a longer ring", "--ring-bytes"),
                ("alloc__unseen", "jemalloc", "allocations of some allocator", "preload")):
            (one,) = self.of_recording(service().metadata(**{key: value}), "recorder_setup")
            (lack,) = one["missing"]
            self.assertEqual(lack["capability"], capability)
            self.assertIn(action, lack["action"])
            self.assertIn(capability, one["statement"])
        refused = service().metadata(sampling__cpu="none", sampling__cpu__refused="perf_event: "
                                     "Permission denied", clock__jumps=1, kymo__gates_off="park")
        (one,) = self.of_recording(refused, "recorder_setup")
        self.assertEqual(len(one["missing"]), 3)
        self.assertIn("Permission denied", one["statement"])
        self.assertIn("perf_event_paranoid", one["action"])

    def test_a_set_up_without_a_lack_is_silent(self):
        for keys in ({}, {"sampling__cpu": "perf_event", "poll_cost__mark": "rseq",
                          "unwind__tables": "7 modules, 47758 rows", "clock__jumps": 0,
                          "kymo__gates_off": "waker_clone,alloc", "flight__age_ns": 4000 * MS,
                          "resources__interval_ns": 1000 * MS, "ring__anonymous": "false"},
                     {"poll_cost__mark": "not tried"},
                     {"kymo__gates_off": "wakening,parks"},
                     {"resources__missing": "pressure of the cgroup: no cgroup counts it"}):
            self.assertEqual(self.of_recording(service().metadata(**keys), "recorder_setup"), [])

    def test_work_that_is_not_recorded_is_named(self):
        name = "uninstrumented_tasks"
        self.assertEqual(self.of_recording(service(), name), [])
        (one,) = self.of_recording(service().metadata(kymo__gates_off="poll,alloc"), name)
        self.assertIn("poll=on", one["action"])
        (one,) = self.of_recording(service().metadata(tokio__tables_refused=2), name)
        self.assertIn("2 kinds of tasks", one["statement"])
        trace = service().event(
            "TaskSpawnEvent", MS // 2, ("task_id", "VARINT", 9), ("spawn_loc", "STRING", b"lib.rs"),
            ("instrumented", "BOOL", 0))
        (one,) = self.of_recording(trace, name)
        self.assertIn("1 of 3 tasks was spawned without instrumentation", one["statement"])
        self.assertEqual(one["impact"]["victims"], 1)

    def test_a_busy_thread_that_is_no_worker_is_named(self):
        def used(thread_ns, closure_ns=0):
            trace = service(long_ns=2 * MS)
            for at, cpu in ((2, 0), (500, thread_ns)):
                trace.event("ThreadUsageEvent", at * MS, ("tid", "U32", 77),
                            ("thread_name", "STRING", b"cruncher"), ("cpu_time_ns", "VARINT", cpu),
                            ("run_delay_ns", "VARINT", 0))
            if closure_ns:
                for event, at in (("BlockingRunStartEvent", 2 * MS),
                                  ("BlockingRunEndEvent", 2 * MS + closure_ns)):
                    trace.event(event, at, ("task_id", "VARINT", 50), ("tid", "U32", 77),
                                ("name", "STRING", b"app::crunch"))
            return self.of_recording(trace, "uninstrumented_tasks")
        (one,) = used(400 * MS)
        self.assertEqual((one["culprit"]["kind"], one["culprit"]["thread"]), ("thread", "cruncher"))
        self.assertIn("used 400 ms", one["statement"])
        self.assertEqual(used(10 * MS), [])
        self.assertEqual(used(400 * MS, 399 * MS), [])

    def test_they_are_a_table_for_sql_and_for_checks(self):
        path = service().save(self.dir / "trace.trc")
        rows = json.loads(self.run_kymo("view", "findings", "--json", path).out)["rows"]
        said = self.report(service())["findings"]
        self.assertEqual([row["finding"] for row in rows], [one["id"] for one in said])
        self.assertIn("blocking_call", self.run_kymo(
            "query", "SELECT finding, action FROM findings WHERE score_ppm > 900000", path).out)
        rules = self.dir / "rules.toml"
        rules.write_text('[[rule]]\nname = "nothing"\nview = "findings"\n'
                         'where = "severity <> \'info\'"\nvalue = "count(*)"\nmax = 0\n')
        self.assertRegex(self.run_kymo("check", rules, path, code=1).out, "broken +1 +at most 0 ")

    def test_the_screen_has_what_harm_and_what_next(self):
        trace = service().save(self.dir / "trace.trc")
        text = self.run_kymo("report", trace).out
        for label in ("what ", "cause ", "harm ", "next "):
            self.assertRegex(text, rf"(?m)^   {label}")
        self.assertLessEqual(max(len(line) for line in text.splitlines()), 100)


if __name__ == "__main__":
    sys.exit(main())
