# SPDX-License-Identifier: Apache-2.0 OR MIT
"""Requests on connections: when they begin, what their connection was, and who took their time."""
import json

from cli_case import main
from made_trace import START_NS, WORKER, MadeTrace

US = 1000
MS = 1_000_000
DRIVER, TASK = 3, 2  # WakeEventEvent.origin


class Requests(MadeTrace):
    METADATA, ORIGIN = {"machine__architecture": "x86_64"}, DRIVER

    def enter(self, at, span, task=7, idle=None, name="conn", connection=5, worker=0):
        self.event("SpanEnter:kymo::conn:kymo:0", at, ("dial9.tokio.task_id", "VARINT?", task),
                   ("span_id", "VARINT", span), ("span_name", "STRING", name.encode()),
                   (*WORKER, worker), ("connection", "VARINT", connection), ("fd", "VARINT", 12),
                   ("peer_port", "VARINT?", 4711),
                   ("idle_since_ns", "VARINT?", None if idle is None else START_NS + idle))

    def exit(self, at, span, start, name="conn", task=7, bytes_in=100, bytes_out=200):
        self.event("SpanExit:kymo::conn:kymo:0", at, ("dial9.tokio.task_id", "VARINT?", task),
                   ("span_id", "VARINT", span), ("span_name", "STRING", name.encode()),
                   ("start_ns", "VARINT", START_NS + start), ("fd", "VARINT", 12),
                   ("peer_port", "VARINT?", 4711), ("bytes_in", "VARINT", bytes_in),
                   ("bytes_out", "VARINT", bytes_out))

    def wait(self, at, span, since):
        self.event("ConnWaitEvent", at, ("span_id", "VARINT", span),
                   ("since_ns", "VARINT", START_NS + since))

    def rows(self, table="requests", where="1"):
        path = self.trace.save(self.dir / "made")
        done = self.run_kymo("query", "--json", f"SELECT * FROM {table} WHERE {where}", path)
        return json.loads(done.out)["rows"]

    def made(self):
        """Woken at 5 ms and polled at 7; half of its body comes at 11 ms; it waits for another
        task from 14 to 20 ms and answers at 22."""
        self.poll(0, 1 * MS, 7)
        self.wake(5 * MS, 7)
        self.poll(7 * MS, 1 * MS, 7)
        self.enter(7 * MS + 200 * US, 1, idle=1 * MS)
        self.wake(11 * MS, 7)
        self.poll(12 * MS, 2 * MS, 7)
        self.wait(12 * MS + 100 * US, 1, 7 * MS + 500 * US)
        self.wake(20 * MS, 7, waker=9, origin=TASK)
        self.poll(21 * MS, 2 * MS, 7)
        self.exit(22 * MS, 1, 7 * MS + 200 * US)

    def test_its_time_is_the_service_the_scheduler_and_the_client(self):
        self.made()
        row, = self.rows()
        self.assertEqual({key: row[key] for key in (
            "start_ns", "duration_ns", "service_ns", "scheduler_ns", "client_ns", "unknown_ns",
            "idle_ns")}, {"start_ns": START_NS + 5 * MS, "duration_ns": 17 * MS,
                          "service_ns": 10 * MS, "scheduler_ns": 4 * MS, "client_ns": 3 * MS,
                          "unknown_ns": 0, "idle_ns": 4 * MS})
        self.assertEqual([row[key] for key in ("connection", "peer_port", "bytes_in", "bytes_out",
                                               "task", "site", "name", "is_open")],
                         [5, 4711, 100, 200, 7, "svc::task", "conn", 0])
        span, = self.rows("spans")
        self.assertEqual((span["request"], span["lead_ns"], span["waiting_ns"]),
                         ("in", 2 * MS + 200 * US, 6 * MS))
        self.assertEqual(json.loads(span["fields"]),
                         {"connection": "5", "fd": "12", "peer_port": "4711", "bytes_in": "100",
                          "bytes_out": "200"})

    def test_report_and_view_show_it(self):
        self.made()
        path = self.trace.save(self.dir / "made")
        text = self.run_kymo("report", "--full", path).out
        self.assertRegex(text, r"Waiting  For client  Span")
        self.assertRegex(text, r"1 +17\.0 ms .* 23\.5 % +23\.5 % +35\.3 % +17\.6 % +conn\n")
        group, = json.loads(self.run_kymo("report", "--json", path).out)["tables"]["spans"]
        self.assertEqual((group["waiting_ns"], group["client_ns"]), (6 * MS, 3 * MS))
        self.assertRegex(self.run_kymo("view", "requests", path).out,
                         r"17\.0 ms +10\.0 ms +4\.00 ms +3\.00 ms +0 ns +4\.00 ms +5 +4711 +100")

    def test_why_has_the_delay_before_its_first_read(self):
        self.made()
        path = self.trace.save(self.dir / "made")
        found = json.loads(self.run_kymo("why", "--json", "--over", "0", "--span", "conn",
                                         path).out)
        self.assertEqual(sorted(one["delay_ns"] for one in found["worst"]),
                         [1 * MS, 1 * MS, 2 * MS])

    def begin_of(self, **own):
        """Of a request that its task read 100 us after its poll began at 7 ms, woken at 5."""
        self.poll(0, 1 * MS, 7)
        self.wake(5 * MS, 7, **own.pop("wake", {}))
        self.poll(7 * MS, 1 * MS, 7)
        self.enter(7 * MS + 100 * US, 1, **own)
        self.exit(7 * MS + 300 * US, 1, 7 * MS + 100 * US, name=own.get("name", "conn"))
        row, = self.rows("spans")
        return row["start_ns"] - START_NS, row["lead_ns"]

    def test_the_drivers_wake_begins_it(self):
        self.assertEqual(self.begin_of(idle=1 * MS), (5 * MS, 2 * MS + 100 * US))

    def test_a_wake_by_another_task_does_not(self):
        self.assertEqual(self.begin_of(idle=1 * MS, wake={"waker": 9, "origin": TASK}),
                         (7 * MS + 100 * US, 0))

    def test_a_wake_before_the_last_answer_does_not(self):
        self.assertEqual(self.begin_of(idle=5 * MS + 1), (7 * MS + 100 * US, 0))

    def test_a_wake_of_another_worker_counts(self):
        self.assertEqual(self.begin_of(idle=1 * MS, wake={"worker": 3}),
                         (5 * MS, 2 * MS + 100 * US))

    def test_what_the_program_asks_itself_begins_with_its_write(self):
        self.assertEqual(self.begin_of(idle=1 * MS, name="conn_out"), (7 * MS + 100 * US, 0))
        row, = self.rows("spans")
        self.assertEqual((row["request"], row["name"]), ("out", "conn_out"))

    def test_of_two_in_one_poll_the_first_alone_was_woken_for(self):
        self.wake(5 * MS, 7)
        self.poll(7 * MS, 1 * MS, 7)
        self.enter(7 * MS + 100 * US, 1, idle=1 * MS)
        self.exit(7 * MS + 200 * US, 1, 7 * MS + 100 * US)
        self.enter(7 * MS + 300 * US, 2, idle=7 * MS + 200 * US)
        self.exit(7 * MS + 400 * US, 2, 7 * MS + 300 * US)
        self.enter(7 * MS + 500 * US, 3, idle=7 * MS + 400 * US)  # no answer comes
        self.assertEqual([(row["lead_ns"], row["is_open"]) for row in self.rows("spans")],
                         [(2 * MS + 100 * US, 0), (0, 0), (0, 1)])

    def test_connections_add_up(self):
        for number in range(3):
            at = 10 * MS * number
            self.poll(at, 5 * MS, 7)
            self.enter(at + 1 * MS, number + 1, idle=at, connection=5 if number < 2 else 6)
            self.exit(at + 3 * MS, number + 1, at + 1 * MS)
        first, second = sorted(self.rows("connections"), key=lambda row: row["connection"])
        self.assertEqual([first[key] for key in ("connection", "requests", "duration_ns",
                                                 "service_ns", "idle_ns", "bytes_in")],
                         [5, 2, 4 * MS, 4 * MS, 2 * MS, 200])
        self.assertEqual((second["connection"], second["requests"]), (6, 1))

    def test_a_begin_that_is_lost_leaves_the_end(self):
        self.poll(0, 5 * MS, 7)
        self.exit(4 * MS, 1, 2 * MS)
        row, = self.rows()
        self.assertEqual((row["duration_ns"], row["connection"], row["peer_port"]),
                         (2 * MS, None, 4711))

    def test_what_is_not_seen_is_a_loss(self):
        self.poll(0, 5 * MS, 7)
        for count in (2, 3):
            self.event("ConnUnseenEvent", 1 * MS, ("count", "VARINT", count))
        path = self.trace.save(self.dir / "unseen")
        self.assertIn("5 connections or requests on them are not seen",
                      self.run_kymo("report", "--full", path).out +
                      self.run_kymo("info", path).out)
        self.assertEqual(json.loads(self.run_kymo("report", "--json", path).out)["tables"]
                         ["requests_unseen"], 5)


if __name__ == "__main__":
    main()
