# SPDX-License-Identifier: Apache-2.0 OR MIT
"""Spans of tracing and of programs: whose they are, what they have, and where their time went."""
import json
import sys
from math import comb

from cli_case import NEW, main
from made_trace import START_NS, WORKER, MadeTrace
from trace_maker import Trace

US = 1000
MS = 1_000_000
PLACE = "svc::api::handle:src/api.rs:40"


class Spans(MadeTrace):
    METADATA, ORIGIN = {"machine__architecture": "x86_64"}, 3

    def enter(self, at, span, task=None, parent=None, place=PLACE, **own):
        self.event(f"SpanEnter:{place}", at, ("dial9.tokio.task_id", "VARINT?", task),
                   ("span_id", "VARINT", span), ("parent_span_id", "VARINT?", parent),
                   ("span_name", "STRING", b"handle"),
                   *((key, "STRING", value.encode()) for key, value in own.items()))

    def exit(self, at, span, place=PLACE):
        self.event(f"SpanExit:{place}", at, ("dial9.tokio.task_id", "VARINT?", None),
                   ("span_id", "VARINT", span), ("span_name", "STRING", b"handle"))

    def close(self, at, span):
        self.event("SpanCloseEvent", at, ("span_id", "VARINT", span))

    def rows(self, path, columns="*", where="1"):
        done = self.run_kymo("query", "--json", f"SELECT {columns} FROM spans WHERE {where}", path)
        return json.loads(done.out)["rows"]

    def made(self):
        """Span 5 of task 7: in two polls of it, between which it waits and is ready."""
        self.poll(0, 2 * MS, 7)
        self.enter(1 * MS, 5, task=7, tenant="blue", parent=4)
        self.exit(2 * MS, 5)
        self.wake(6 * MS, 7)
        self.poll(7 * MS, 3 * MS, 7)
        self.enter(7 * MS, 5, task=7, tenant="blue", parent=4)
        self.exit(9 * MS, 5)
        self.close(12 * MS, 5)
        return self.trace.save(self.dir / "made")

    def test_a_span_is_one_from_its_first_enter_to_its_last_exit(self):
        self.enter(500 * US, 4, task=7, place="svc::main::outer:src/main.rs:1")
        row, = self.rows(self.made(), where="span = 5")
        self.assertEqual((row["name"], row["task"], row["site"], row["enters"]),
                         ("svc::api::handle", 7, "svc::task", 2))
        self.assertEqual((row["duration_ns"], row["active_ns"]), (8 * MS, 3 * MS))
        self.assertEqual((row["parent"], row["parent_name"]), (4, "svc::main::outer"))
        self.assertEqual(json.loads(row["fields"]), {"tenant": "blue"})
        self.assertFalse(row["is_open"])
        outer, = self.rows(self.dir / "made", where="span = 4")
        self.assertTrue(outer["is_open"])
        self.assertIsNone(outer["ready_ns"])

    def test_its_time_is_that_of_its_task(self):
        row, = self.rows(self.made())
        self.assertEqual([row[key] for key in ("cpu_ns", "off_cpu_ns", "polled_ns", "ready_ns",
                                               "waiting_ns", "unknown_ns", "polls")],
                         [0, 0, 3 * MS, 1 * MS, 4 * MS, 0, 2])
        text = self.run_kymo("report", "--full", self.dir / "made").out
        self.assertRegex(text, r"1 +8\.00 ms .* 37\.5 % +12\.5 % +50\.0 % +svc::api::handle")
        group, = json.loads(self.run_kymo("report", "--json", self.dir / "made").out)[
            "tables"]["spans"]
        self.assertEqual((group["polled_ns"], group["ready_ns"], group["waiting_ns"]),
                         (3 * MS, 1 * MS, 4 * MS))

    def test_ids_of_closed_spans_come_back(self):
        self.poll(0, 10 * MS, 7)
        for at in (1 * MS, 4 * MS):
            self.enter(at, 5, task=7)
            self.exit(at + 1 * MS, 5)
            self.close(at + 2 * MS, 5)
        rows = self.rows(self.trace.save(self.dir / "again"), "start_ns, duration_ns")
        self.assertEqual([row["duration_ns"] for row in rows], [1 * MS, 1 * MS])

    def test_an_id_that_comes_back_after_a_lost_close_is_another_span(self):
        self.poll(0, 40 * MS, 7)
        for at, place, parent in ((1 * MS, PLACE, 2), (10 * MS, "svc::api::other:src/b.rs:1", 2),
                                  (20 * MS, "svc::api::other:src/b.rs:1", 3)):
            self.enter(at, 5, task=7, place=place, parent=parent)
            self.exit(at + 1 * MS, 5, place=place)
        self.close(30 * MS, 5)
        rows = self.rows(self.trace.save(self.dir / "lost"), "name, duration_ns, is_open")
        self.assertEqual([(row["name"], bool(row["is_open"])) for row in rows],
                         [("svc::api::handle", True), ("svc::api::other", True),
                          ("svc::api::other", False)])
        self.assertEqual(rows[2]["duration_ns"], 1 * MS)

    def test_one_that_is_entered_again_is_active_until_the_last_exit(self):
        self.enter(2 * MS, 5, task=7)
        self.enter(3 * MS, 5, task=7)
        self.exit(4 * MS, 5)
        self.exit(10 * MS, 5)
        self.close(11 * MS, 5)
        row, = self.rows(self.trace.save(self.dir / "nested"))
        self.assertEqual((row["enters"], row["active_ns"], row["duration_ns"]), (2, 8 * MS, 8 * MS))

    OWN = "kymo::span:kymo:0"

    def run_of(self, start, end, span):
        self.event("SpanRunStartEvent", start, ("span_id", "VARINT", span), ("tid", "VARINT", 1),
                   ("task_id", "VARINT", 7))
        self.event("SpanRunEndEvent", end, ("span_id", "VARINT", span), ("tid", "VARINT", 1))

    def end(self, at, span, start):
        self.event(f"SpanExit:{self.OWN}", at, ("dial9.tokio.task_id", "VARINT?", None),
                   ("span_id", "VARINT", span), ("span_name", "STRING", b"handle"),
                   ("start_ns", "VARINT", START_NS + start))

    def test_one_whose_runs_are_told_is_active_in_them_alone(self):
        self.enter(1 * MS, 5, task=7, place=self.OWN)
        self.run_of(1 * MS, 2 * MS, 5)
        self.run_of(7 * MS, 9 * MS, 5)
        self.end(12 * MS, 5, 1 * MS)
        self.enter(20 * MS, 6, task=7, place=self.OWN)
        self.end(23 * MS, 6, 20 * MS)
        rows = self.rows(self.trace.save(self.dir / "runs"))
        self.assertEqual([(row["span"], row["enters"], row["active_ns"], row["duration_ns"])
                          for row in rows],
                         [(5, 2, 3 * MS, 11 * MS), (6, 1, 3 * MS, 3 * MS)])

    def test_runs_before_its_begin_is_known_count(self):
        self.run_of(1 * MS, 2 * MS, 5)
        self.run_of(3 * MS, 4 * MS, 5)
        self.end(12 * MS, 5, 0)
        row, = self.rows(self.trace.save(self.dir / "begun"))
        self.assertEqual((row["enters"], row["active_ns"], row["duration_ns"]),
                         (2, 2 * MS, 12 * MS))

    def test_it_says_what_it_follows_from(self):
        self.enter(1 * MS, 5, task=7, place=self.OWN)
        self.event("SpanFollowsEvent", 2 * MS, ("span_id", "VARINT", 5),
                   ("follows_from", "VARINT", 99))
        self.end(3 * MS, 5, 1 * MS)
        row, = self.rows(self.trace.save(self.dir / "follows"))
        self.assertEqual(json.loads(row["fields"]), {"follows_from": "99"})

    def test_fields_that_are_numbers_say_what_they_are(self):
        numbers = {"half": 0.5, "less": -1.25, "carry": 0.9999999, "whole": 3.0, "none": 0.0,
                   "few": 1.000001}
        fields = [(key, "F64", value) for key, value in numbers.items()]
        unsaid = [(str(at), "F64", value) for at, value in
                  enumerate((float("nan"), float("inf"), 1e300, -1e-300))]
        self.event(f"SpanEnter:{PLACE}", 1 * MS, ("span_id", "VARINT", 5),
                   ("most", "VARINT", 2**64 - 1), *fields, *unsaid)
        self.exit(2 * MS, 5)
        self.close(3 * MS, 5)
        row, = self.rows(self.trace.save(self.dir / "numbers"))
        self.assertEqual(json.loads(row["fields"]), {
            "most": "18446744073709551615", "half": "0.5", "less": "-1.25", "carry": "1",
            "whole": "3", "none": "0", "few": "1.000001"})

    def test_one_that_is_not_closed_is_open(self):
        self.poll(0, 10 * MS, 7)
        self.enter(1 * MS, 5, task=7)
        self.exit(2 * MS, 5)
        self.enter(3 * MS, 6, task=7)
        self.exit(4 * MS, 6)
        self.close(4 * MS, 6)
        rows = self.rows(self.trace.save(self.dir / "open"), "span, is_open")
        self.assertEqual([(row["span"], bool(row["is_open"])) for row in rows],
                         [(5, True), (6, False)])

    def test_older_traces_have_its_worker(self):
        self.poll(0, 10 * MS, 9, worker=3)
        for name, at in (("SpanEnter", 1 * MS), ("SpanExit", 2 * MS)):
            self.event(f"{name}:{PLACE}", at, (*WORKER, 3), ("span_id", "VARINT", 5),
                       ("span_name", "STRING", b"handle"))
        row, = self.rows(self.trace.save(self.dir / "older"))
        self.assertEqual((row["task"], row["duration_ns"]), (9, 1 * MS))

    def test_an_ad_hoc_span_is_entered_once_and_has_late_fields(self):
        place = "dial9_utils::adhoc_db:src/db.rs:7"
        span = 1 << 63 | 5
        self.poll(0, 10 * MS, 7)
        self.enter(1 * MS, span, task=7, place=place, table="users")
        self.event(f"SpanExit:{place}", 3 * MS, ("dial9.tokio.task_id", "VARINT?", 7),
                   ("span_id", "VARINT", span), ("span_name", "STRING", b"db"),
                   ("active_ns", "VARINT", 5), ("table", "STRING", b"users"),
                   ("rows", "VARINT?", 12))
        self.close(4 * MS, 99)  # others are closed
        row, = self.rows(self.trace.save(self.dir / "adhoc"))
        self.assertEqual((row["name"], row["duration_ns"], bool(row["is_open"])),
                         ("handle", 2 * MS, False))
        self.assertEqual(json.loads(row["fields"]), {"table": "users", "rows": "12"})

    def test_why_explains_the_delays_inside_of_spans(self):
        self.made()
        self.wake(20 * MS, 7)
        self.poll(25 * MS, 1 * MS, 7)  # after its span
        path = self.trace.save(self.dir / "why")
        found = json.loads(self.run_kymo("why", "--json", "--over", "0", path).out)
        self.assertEqual(found["slow_delays"], 2)
        for name in ("handle", "svc::api::handle"):
            found = json.loads(self.run_kymo("why", "--json", "--over", "0", "--span", name,
                                             path).out)
            self.assertEqual((found["slow_delays"], found["worst"][0]["delay_ns"]), (1, 1 * MS))
        worst = found["worst_span"]
        self.assertEqual((worst["name"], worst["span"], worst["duration_ns"]),
                         ("svc::api::handle", 5, 8 * MS))
        links = worst["chain"]["links"]
        self.assertEqual([(link["kind"], link["to_ns"] - link["from_ns"]) for link in links],
                         [("poll", 1 * MS), ("waiting", 4 * MS), ("ready", 1 * MS),
                          ("poll", 2 * MS)])
        self.assertEqual(links[0]["from_ns"], worst["start_ns"])
        text = self.run_kymo("why", "--span", "handle", path).out
        self.assertRegex(text, r"^The longest span svc::api::handle, from \+0\.001000 s on; its "
                               r"critical path:\ntask 7 \(svc::task\): 8\.00 ms\n")
        early = json.loads(self.run_kymo("why", "--json", "--span", "handle", "--from", "+15ms",
                                         path).out)
        self.assertNotIn("worst_span", early)
        self.fails("why", "--span", "andle", self.data / NEW,
                   says=["no task was in a span named 'andle'", "query_metric"])

    def test_many_spans_of_one_task_overlap(self):
        """4,000 spans of a task of 1,000 polls: sums over its polls say the same as each walk."""
        for number in range(1000):
            at = number * MS
            if number:
                self.wake(at - 200 * US, 7)
            self.poll(at, 300 * US, 7)  # then it waits for 500 us, and is ready for 200 us
        for number in range(4000):
            span, place = 1 << 63 | number + 1, "dial9_utils::adhoc:a.rs:1"
            begin = number * 137 % 500_000 * US
            self.enter(begin, span, task=7, place=place)
            self.exit(begin + 1 * MS + number * 7919 % 400_000 * US, span, place=place)
        rows = self.rows(self.trace.save(self.dir / "overlap"),
                         "start_ns, duration_ns, polled_ns, ready_ns, waiting_ns, unknown_ns")
        self.assertEqual(len(rows), 4000)

        def until(ns):
            """(polled, ready, waiting) from the first poll to this moment."""
            whole, rest = divmod(ns - START_NS, MS)
            return [whole * length * US + max(min(rest, to * US) - since * US, 0)
                    for length, since, to in ((300, 0, 300), (200, 800, 1000), (500, 300, 800))]

        for row in rows:
            end_ns = row["start_ns"] + row["duration_ns"]
            # After its last poll what it does is not known: the span has no later one of it.
            last_ns = (end_ns - START_NS - 1) // MS * MS + START_NS + 300 * US
            parts = [to - since for since, to in zip(until(row["start_ns"]),
                                                     until(min(end_ns, last_ns)))]
            self.assertEqual([row[key] for key in ("polled_ns", "ready_ns", "waiting_ns",
                                                   "unknown_ns")],
                             [*parts, max(end_ns - last_ns, 0)], row)

    def tail(self, path):
        done = self.run_kymo("query", "--json", "SELECT * FROM span_tail", path)
        return json.loads(done.out)["rows"]

    def many(self, tenant_of, count=400, slow=10):
        """Spans one after the other, the last `slow` of 2 ms in place of 1 ms, all of it waiting:
        tenant_of(is_slow, number)."""
        at = 0
        for number in range(count):
            is_slow = number >= count - slow
            length = (2 if is_slow else 1) * MS
            self.poll(at, 100 * US, 7)
            self.enter(at + 10 * US, number + 1, task=7, tenant=tenant_of(is_slow, number))
            self.exit(at + 20 * US, number + 1)
            self.wake(at + length - 100 * US, 7)
            self.poll(at + length - 100 * US, 90 * US, 7)
            self.enter(at + length - 90 * US, number + 1, task=7,
                       tenant=tenant_of(is_slow, number))
            self.exit(at + length - 20 * US, number + 1)
            self.close(at + length - 20 * US, number + 1)
            at += length
        return self.trace.save(self.dir / "many")

    def test_the_tail_says_which_part_and_which_field(self):
        path = self.many(lambda is_slow, number:
                         "red" if is_slow and number % 5 or not is_slow and number % 10 == 0
                         else "blue")
        part, field = self.tail(path)
        self.assertEqual((part["kind"], part["what"], part["slow_ns"], part["typical_ns"],
                          part["explains_ppm"]), ("part", "waiting", 1800 * US, 800 * US,
                                                  1_000_000))
        self.assertEqual((field["kind"], field["what"], field["value"], field["slow_spans"],
                          field["typical_spans"]), ("field", "tenant", "red", 10, 200))
        # Fisher's exact test, for four: both values of the field, the spawn place, concurrency.
        have = field["typical_ppm"] * 200 // 1_000_000
        self.assertEqual(field["slow_ppm"], 800_000)
        p = 4 * sum(comb(8 + have, k) * comb(202 - have, 10 - k) for k in range(8, 11)) / \
            comb(210, 10)
        self.assertAlmostEqual(field["p_ppb"], p * 1e9, delta=2)

    def test_the_tail_is_silent_where_nothing_differs(self):
        rows = self.tail(self.many(lambda is_slow, number: "red" if number % 3 else "blue"))
        self.assertEqual([row["kind"] for row in rows], ["part"])

    def sampled(self, function_of, is_off_cpu):
        """Spans as those of many(): in each whose function is not None a sample of it."""
        functions = {"svc::common": 0x1000, "svc::lock": 0x2000}
        for name, address in functions.items():
            self.trace.event("SymbolTableEntry", 0, ("addr", "VARINT", address),
                             ("size", "VARINT", 16), ("symbol_name", "STRING", name.encode()),
                             ("inline_depth", "VARINT", 0), ("source_file", "STRING", b"/a.rs"),
                             ("source_line", "VARINT", 3))

        def tenant_of(is_slow, number):
            name = function_of(is_slow, number)
            if name is None or number in seen:
                return "blue"
            seen.add(number)
            begin = number if not is_slow else 390 + 2 * (number - 390)
            fields = (("tid", "U32", 11), ("worker_id", "VARINT", 0), ("task_id", "VARINT", 7),
                      ("callchain", "STACK", [functions[name]]),
                      ("poll_start_ns", "VARINT", START_NS + begin * MS))
            if is_off_cpu:
                self.event("OffCpuEvent", begin * MS + 530 * US,
                           ("duration_ns", "VARINT", 500 * US), ("reason", "VARINT", 1), *fields)
            else:
                self.event("CpuSampleEvent", begin * MS + 30 * US, ("source", "VARINT", 0),
                           ("weight_ns", "VARINT", 250 * US), *fields)
            return "blue"

        seen = set()
        return self.tail(self.many(tenant_of))

    def test_the_tail_says_which_function_the_slow_ones_are_in(self):
        for is_off_cpu, kind, ns in ((True, "off_cpu", 400 * US), (False, "cpu", 200 * US)):
            self.trace = Trace().metadata(pid=1, **self.METADATA)
            rows = self.sampled(lambda is_slow, number: "svc::lock" if is_slow and number % 5 else
                                None, is_off_cpu)
            self.assertEqual([row["kind"] for row in rows], ["part", kind])
            row = rows[1]
            self.assertEqual((row["what"], row["value"], row["slow_ns"], row["typical_ns"],
                              row["slow_ppm"], row["typical_ppm"]),
                             ("svc::lock", None, ns, 0, 800_000, 0))
            self.assertEqual(row["explains_ppm"], ns * 1_000_000 // MS)
            # Fisher's exact test, for four: tenant, spawn place, function, concurrency.
            p = 4 * comb(202, 2) * comb(8, 8) / comb(210, 10)
            self.assertAlmostEqual(row["p_ppb"], p * 1e9, delta=1)

    def test_a_function_that_all_are_in_is_no_difference(self):
        rows = self.sampled(lambda is_slow, number: "svc::common", True)
        self.assertEqual([row["kind"] for row in rows], ["part"])

    def test_values_that_each_span_has_alone_prove_nothing(self):
        rows = self.tail(self.many(lambda is_slow, number: f"request-{number}"))
        self.assertEqual([row["kind"] for row in rows], ["part"])

    def test_of_few_spans_nothing_is_said(self):
        self.assertEqual(self.tail(self.many(lambda is_slow, number: "red", count=99)), [])

    def test_all_spans_of_another_writer_are_there(self):
        path = self.data / NEW
        closes, = json.loads(self.run_kymo(
            "query", "--json", "SELECT events FROM event_types WHERE type = 'SpanCloseEvent'",
            path).out)["rows"]
        sums, = self.rows(path, "count(*) AS n, count(task) AS tasks, max(abs(cpu_ns + off_cpu_ns "
                                "+ polled_ns + ready_ns + waiting_ns + unknown_ns - duration_ns)) "
                                "AS apart, count(fields) AS fields")
        self.assertEqual((sums["n"], sums["tasks"], sums["apart"]), (closes["events"],
                                                                     closes["events"], 0))
        self.assertGreater(sums["fields"], 0)


if __name__ == "__main__":
    sys.exit(main())
