# SPDX-License-Identifier: Apache-2.0 OR MIT
"""`kymo view` and `kymo query`: one list of tables as text, JSON, CSV and SQL; read-only."""
import csv
import io
import json
import os
import resource
import subprocess
import sys

from cli_case import KYMO, NEW, ROOT, Cli, main
from trace_maker import Trace

START_NS = 1_000_000_000
US = 1000
MS = 1_000_000
WORKER = ("worker_id", "VARINT")


class Made(Cli):
    def setUp(self):
        super().setUp()
        self.trace = Trace().metadata(pid=1, service="shop")

    def event(self, name, at, *fields):
        self.trace.event(name, START_NS + at, *fields)

    def poll(self, at, length, task, site, worker=0):
        self.event("PollStartEvent", at, (*WORKER, worker), ("task_id", "VARINT", task),
                   ("spawn_loc", "STRING", site.encode()))
        self.event("PollEndEvent", at + length, (*WORKER, worker))

    def wake(self, at, task, worker=0, waker=0):
        self.event("WakeEventEvent", at, ("waker_task_id", "VARINT", waker),
                   ("woken_task_id", "VARINT", task), ("target_worker", "U8", worker))

    def made(self):
        """Two workers, three tasks at two places; task 7 is woken and polled 2 ms later."""
        self.poll(0, 10 * US, 7, "svc::a")
        self.wake(20 * US, 7, waker=9, worker=1)
        self.poll(30 * US, 5 * US, 8, "svc::b", worker=1)
        self.poll(2020 * US, 40 * US, 7, "svc::a", worker=1)
        self.poll(3000 * US, 1 * US, 9, "svc::a")
        self.event("OrderPlaced", 4 * MS, ("price", "VARINT", 12), ("who", "STRING", b"a\"b"))
        self.event("OrderPlaced", 5 * MS, ("price", "VARINT", 30), ("who", "STRING", b"c"))
        return self.trace.save(self.dir / "made")

    def rows(self, *words, **more):
        done = json.loads(self.run_kymo(*words, "--json", **more).out)
        return done["rows"]

    def sql(self, text, path):
        return [list(row.values()) for row in self.rows("query", text, path)]


class Library(Made):
    """SQLite is loaded with the first query."""

    def test_no_command_pays_for_what_it_does_not_need(self):
        done = subprocess.run([KYMO, "--version"], check=True, text=True, capture_output=True,
                              env={**os.environ, "LD_TRACE_LOADED_OBJECTS": "1"})
        self.assertIn("libc.so.6", done.stdout)
        for name in ("sqlite", "curl", "microhttpd", "gnutls"):
            self.assertNotIn(f"lib{name}", done.stdout)

    def test_where_it_is_missing_a_query_says_so(self):
        (self.dir / "lib").mkdir()
        (self.dir / "lib" / "libsqlite3.so.0").touch()
        done = self.run_kymo("query", "SELECT 1", self.made(), code=1,
                             env={"LD_LIBRARY_PATH": str(self.dir / "lib")})
        self.assertEqual((done.out, done.err),
                         ("", "kymo query: libsqlite3.so.0 cannot be loaded, so there are no "
                              "queries; install libsqlite3-0\n"))


class Metrics(Made):
    """Values by hand: test/unit/analyze/test_tokio_metrics.c; a program: test/tokio/metrics.py."""

    def test_of_a_task_they_stand_by_their_names(self):
        rows = {row["metric"]: row for row in self.rows("view", "task_metrics", self.made())
                if row["site"] == "svc::a"}
        self.assertEqual((rows["total_poll_count"]["value"], rows["total_poll_count"]["state"]),
                         (3, "exact"))
        self.assertEqual(rows["total_scheduled_duration"]["value"], 2 * MS)
        self.assertEqual(rows["total_idle_duration"]["value"], 10 * US)
        self.assertEqual(rows["total_scheduled_duration"]["value_max"], None)
        self.assertIn("not recorded", rows["total_scheduled_duration"]["note"])

    def test_they_add_up_as_the_polls_do(self):
        polls = self.sql("SELECT site, count(*), sum(duration_ns), sum(duration_ns >= 50000), "
                         "sum(delay_ns IS NULL) FROM polls GROUP BY site ORDER BY site", NEW)
        for site, count, busy_ns, slow, _ in polls:
            rows = dict(self.sql("SELECT metric, value FROM task_metrics "
                                 f"WHERE site = '{site}'", NEW))
            self.assertEqual([rows[name] for name in (
                "total_poll_count", "total_poll_duration", "total_slow_poll_count")],
                [count, busy_ns, slow])
            self.assertEqual(rows["total_scheduled_count"] + rows["first_poll_count"], count)
        total, = self.sql("SELECT sum(value) FROM runtime_metrics "
                          "WHERE metric = 'poll_time_histogram'", NEW)
        self.assertEqual(total, [sum(row[1] for row in polls)])

    def test_text_is_aligned_and_says_why(self):
        lines = self.run_kymo("view", "runtime_metrics", "--limit", "0",
                              self.made()).out.splitlines()
        heads = lines[0].split()
        self.assertEqual(heads, ["runtime", "metric", "bucket_ns", "value", "value_max", "unit",
                                 "state", "note"])
        at = lines[0].index("state")
        states = {line[at:at + 12].strip() for line in lines[1:]}
        self.assertEqual(states, {"exact", "bounded", "not recorded"})
        row, = (line for line in lines if "budget_forced_yield_count" in line.split())
        self.assertTrue(row.endswith("RuntimeMetrics::budget_forced_yield_count (tokio_unstable)"))

    def test_lints_name_those_of_tokio_console(self):
        rows = self.rows("view", "console-lints", self.made())
        self.assertEqual({row["lint"] for row in rows},
                         {"self-wakes", "lost-waker", "never-yielded", "auto-boxed-future",
                          "large-future"})
        self.assertEqual({row["state"] for row in rows if row["lint"] == "large-future"},
                         {"not recorded"})


class Tables(Made):
    def test_one_list_is_text_json_csv_and_sql(self):
        path = self.made()
        listed = self.run_kymo("view").out.splitlines()[1:]
        schema = self.run_kymo("query", "--schema").out
        self.assertGreater(len(listed), 20)
        for name in [line.split()[0] for line in listed]:
            text = self.run_kymo("view", name, path).out
            whole = json.loads(self.run_kymo("view", name, "--format", "json", path).out)
            names = [column["name"] for column in whole["columns"]]
            rows = list(csv.reader(io.StringIO(
                self.run_kymo("view", name, "--format", "csv", path).out)))
            self.assertEqual(rows[0], names)
            self.assertEqual(text.splitlines()[0].split(), names)
            self.assertEqual(len(rows) - 1, len(whole["rows"]))
            for cells, row in zip(rows[1:], whole["rows"]):
                self.assertEqual(cells, ["" if value is None else str(value)
                                         for value in row.values()])
            self.assertIn(name.replace("-", "_"), schema)

    def test_the_page_is_printed_from_the_list(self):
        self.assertEqual((ROOT / "docs/sql.md").read_text(),
                         self.run_kymo("query", "--schema").out,
                         "run `kymo query --schema > docs/sql.md`")

    def test_values_are_those_of_the_trace(self):
        path = self.made()
        polls = self.rows("view", "polls", "--sort", "start_ns", path)
        self.assertEqual([(row["start_ns"] - START_NS, row["duration_ns"], row["delay_ns"],
                           row["worker"], row["task"], row["site"]) for row in polls],
                         [(0, 10 * US, None, 0, 7, "svc::a"),
                          (30 * US, 5 * US, None, 1, 8, "svc::b"),
                          (2020 * US, 40 * US, 2000 * US, 1, 7, "svc::a"),
                          (3000 * US, 1 * US, None, 0, 9, "svc::a")])
        self.assertEqual(self.sql("SELECT task, site, waker, waker_site, worker, time_ns FROM "
                                  "wakes", path),
                         [[7, "svc::a", 9, "svc::a", 1, START_NS + 20 * US]])
        self.assertEqual(self.sql("SELECT delay_state, count(*) FROM polls GROUP BY 1", path),
                         [["measured", 1], ["no wake", 3]])
        self.assertEqual(self.sql("SELECT busy_ns, polls FROM workers WHERE worker = 1", path),
                         [[45 * US, 2]])
        self.assertEqual(self.sql("SELECT trace_start_ns()", path), [[START_NS]])

    def test_text_has_units_and_what_is_not_known(self):
        lines = self.run_kymo("view", "polls", "-n", 1, self.made()).out.splitlines()
        self.assertEqual(lines[1].split(), ["+0.002020", "40.0", "us", "2.00", "ms", "-", "1", "7",
                                            "svc::a"])
        self.assertIn("--limit 0", lines[2])

    def test_rows_are_chosen_grouped_and_limited(self):
        path = self.made()
        chosen = self.rows("view", "polls", "--where", "duration_ns >= 10e3 -- a comment", path)
        self.assertEqual([row["task"] for row in chosen], [7, 7])
        groups = self.rows("view", "polls", "--group-by", "site", "--sort=-rows", path)
        self.assertEqual([(row["site"], row["rows"], row["sum_duration_ns"],
                           row["max_duration_ns"]) for row in groups],
                         [("svc::a", 3, 51 * US, 40 * US), ("svc::b", 1, 5 * US, 5 * US)])
        cut = json.loads(self.run_kymo("view", "polls", "-n", 2, "--json", path).out)
        self.assertEqual((len(cut["rows"]), cut["is_cut"]), (2, True))
        shown = self.rows("view", "tasks", "--columns", "task,polls", "--sort=task", path)
        self.assertEqual(shown, [{"task": 7, "polls": 2}, {"task": 8, "polls": 1},
                                 {"task": 9, "polls": 1}])

    def test_the_programs_events_are_tables_by_field(self):
        path = self.made()
        rows = self.rows("view", "OrderPlaced", "--where", "price > 20", path)
        self.assertEqual(rows, [{"time_ns": START_NS + 5 * MS, "price": 30, "who": "c"}])
        self.assertEqual(self.sql("SELECT who, sum(price) FROM OrderPlaced GROUP BY who", path),
                         [['a"b', 12], ["c", 30]])
        self.assertEqual(self.sql("SELECT fields->>'price' FROM events WHERE type = 'OrderPlaced'",
                                  path), [[12], [30]])

    def test_equal_names_of_columns_are_told_apart(self):
        self.assertEqual(self.rows("query", "SELECT 1, 1 AS \"1\", 2.5, NULL AS n, x'41'",
                                   self.made()),
                         [{"1": 1, "1#2": 1, "2.5": 2.5, "n": None, "x'41'": "A"}])

    def test_each_process_has_its_own_part(self):
        one = self.made()
        other = Trace().metadata(pid=2).event(
            "PollStartEvent", START_NS, (*WORKER, 0), ("task_id", "VARINT", 1),
            ("spawn_loc", "STRING", b"svc::other")).save(self.dir / "other")
        lines = self.run_kymo("view", "tasks", "--json", one, other).out.splitlines()
        self.assertEqual([len(json.loads(line)["rows"]) for line in lines], [3, 1])


class Own(Made):
    """What the program itself says: its events by field, counters, annotations; and queues."""

    def test_events_of_the_program_are_listed_with_their_fields(self):
        self.event("Paid", 6 * MS, ("rate", "F64", 0.5), ("change", "I64", -3),
                   ("ok", "BOOL", 1), ("note", "STRING?", None))
        path = self.made()
        rows = self.rows("view", "custom", path)
        self.assertEqual([(row["event"], row["events"], row["fields"]) for row in rows],
                         [("OrderPlaced", 2, "price varint, who string"),
                          ("Paid", 1, "rate f64, change i64, ok bool, note string?")])
        self.assertEqual(self.sql("SELECT field, type, value, time_ns FROM custom_values "
                                  "WHERE event = 'Paid'", path),
                         [["rate", "f64", 0.5, START_NS + 6 * MS],
                          ["change", "i64", -3, START_NS + 6 * MS],
                          ["ok", "bool", 1, START_NS + 6 * MS],
                          ["note", "string", None, START_NS + 6 * MS]])
        self.assertEqual(self.sql("SELECT sum(value) FROM custom_values WHERE field = 'price'",
                                  path), [[42]])
        self.assertIn("price varint, who string", self.run_kymo("view", "custom", path).out)

    def test_a_view_of_an_event_has_the_fields_of_all_its_shapes(self):
        path = self.made()
        self.trace.ids.clear()
        self.trace.bytes += b"TRC\0\1"
        self.event("OrderPlaced", 7 * MS, ("price", "VARINT", 5), ("shop", "STRING", b"x"))
        path = self.trace.save(self.dir / "shapes")
        rows = self.rows("view", "OrderPlaced", path)
        self.assertEqual([(row["price"], row["who"], row["shop"]) for row in rows],
                         [(12, 'a"b', None), (30, "c", None), (5, None, "x")])
        rows = self.rows("view", "OrderPlaced", "--where", "price > 10", "--group-by", "who", path)
        self.assertEqual(sorted((row["rows"], row["who"]) for row in rows), [(1, 'a"b'), (1, "c")])

    def test_counters_and_annotations_stand_by_time(self):
        for at, value in ((3, 7), (1, -2), (2, 5)):
            self.event("CounterEvent", at * MS, ("name", "STRING", b"jobs"),
                       ("value", "I64", value))
        self.event("AnnotationEvent", 4 * MS, ("tid", "U32", 0), ("label", "STRING", b"deploy"))
        path = self.made()
        self.assertEqual([row["value"] for row in self.rows("view", "counters", path)], [-2, 5, 7])
        self.assertEqual(self.rows("view", "counter-ranges", path),
                         [{"counter": "jobs", "readings": 3, "min_value": -2, "max_value": 7,
                           "last_ns": START_NS + 3 * MS}])
        row, = self.rows("view", "annotations", path)
        self.assertEqual((row["label"], row["tid"], row["time_ns"]),
                         ("deploy", None, START_NS + 4 * MS))
        rules = self.dir / "rules.toml"
        for most, code in ((6, 1), (7, 0)):
            rules.write_text('[[rule]]\nview = "counters"\nvalue = "max(value)"\n'
                             f'max = {most}\n')
            done = json.loads(self.run_kymo("check", "--json", rules, path, code=code).out)
            self.assertEqual(done["rules"][0]["result"], "broken" if code else "held")

    def queued(self):
        for at, depth in ((0, 0), (1, 4), (2, 4), (3, 9), (4, 0)):
            self.event("PollStartEvent", at * MS, (*WORKER, 0), ("local_queue", "U8", depth),
                       ("task_id", "VARINT", 7), ("spawn_loc", "STRING", b"svc::a"))
            self.event("PollEndEvent", at * MS + US, (*WORKER, 0))
        for at, depth in ((1, 0), (2, 30), (3, 10)):
            self.event("RuntimeMetricsEvent", at * MS, ("runtime_name", "STRING", b"main"),
                       ("global_queue_depth", "U32", depth), ("alive_tasks", "U32", 50 + at))
        return self.trace.save(self.dir / "queued")

    def test_queues_have_percentiles_and_samples(self):
        path = self.queued()
        rows = self.rows("view", "queues", path)
        self.assertEqual([[row[key] for key in ("kind", "runtime", "worker", "samples",
                                                "min_tasks", "p50_tasks", "p99_tasks", "max_tasks")]
                          for row in rows],
                         [["runtime", "main", None, 3, 0, 10, 30, 30],
                          ["worker", None, 0, 5, 0, 4, 9, 9]])
        self.assertEqual([row["max_ns"] - START_NS for row in rows], [2 * MS, 3 * MS])
        self.assertEqual(self.sql("SELECT kind, tasks, alive_tasks FROM queue_samples "
                                  "ORDER BY time_ns, kind", path),
                         [["runtime", 0, 51], ["worker", 4, None], ["runtime", 30, 52],
                          ["runtime", 10, 53], ["worker", 9, None], ["worker", 0, None]])
        queues = json.loads(self.run_kymo("report", "--json", path).out)["tables"]["queues"]
        self.assertEqual([(queue["kind"], queue["max"]) for queue in queues],
                         [("runtime", 30), ("worker", 9)])
        self.assertRegex(self.run_kymo("report", "--full", path).out,
                         r"worker 0 +5 +0 +4 +9 +9 +\+0\.003000")

    def test_why_says_how_many_stood_in_the_queues_of_a_delay(self):
        self.event("WakeEventEvent", 1500 * US, ("waker_task_id", "VARINT", 0),
                   ("woken_task_id", "VARINT", 7), ("target_worker", "U8", 0), ("origin", "U8", 3))
        path = self.queued()
        found = json.loads(self.run_kymo("why", "--json", "--over", "0", path).out)["worst"]
        self.assertEqual([(delay["worker_queue_max"], delay["runtime_queue_max"])
                          for delay in found], [(4, 30)])
        self.assertIn("    in the delay up to 4 tasks stood in the queue of its worker, up to 30 "
                      "in that of the runtime\n",
                      self.run_kymo("why", "--over", "0", path).out)

    def test_a_trace_without_samples_has_no_queues(self):
        self.assertEqual(self.rows("view", "queues", self.made()), [])

    def test_a_list_that_is_full_says_so(self):
        fields = [(f"field{number}", "VARINT", number) for number in range(20)]
        self.event("SpanEnter:svc::work:src/a.rs:1", 8 * MS, ("span_id", "VARINT", 1), *fields)
        path = self.made()
        row, = self.rows("view", "left-out", path)
        self.assertEqual((row["list"], row["rows"]), ("span_fields", 4))
        for words in (("info",), ("report",), ("report", "--full")):
            self.assertIn("4 fields of spans have no room in memory: their spans lack them",
                          self.run_kymo(*words, path).out, words)
        self.assertIn("4 fields of spans", self.run_kymo("view", "spans", path).err)
        found = json.loads(self.run_kymo("report", "--json", path).out)["tables"]
        self.assertEqual(found["left_out"], {"span_fields": 4})

    def test_each_wake_has_its_cause(self):
        symbols = {0x1000: "tokio::runtime::io::driver::Driver::turn",
                   0x2000: "tokio::runtime::time::wheel::Wheel::poll", 0x3000: "svc::send"}
        for address, name in symbols.items():
            self.trace.event("SymbolTableEntry", 0, ("addr", "VARINT", address),
                             ("size", "VARINT", 16), ("symbol_name", "STRING", name.encode()),
                             ("inline_depth", "VARINT", 0),
                             ("source_file", "STRING", b"/src/app/main.rs"),
                             ("source_line", "VARINT", 4))
        for at, frames in ((1, [0x1000]), (2, [0x2000]), (3, [0x3000]), (4, []), (5, [0x3000])):
            self.event("WakeEventEvent", at * MS, ("waker_task_id", "VARINT", 0),
                       ("woken_task_id", "VARINT", 7), ("target_worker", "U8", 0),
                       ("origin", "U8", 3), ("callchain", "STACK", frames))
        path = self.trace.save(self.dir / "causes")
        self.assertEqual(self.sql("SELECT cause, function FROM wakes ORDER BY time_ns", path),
                         [["io", None], ["timer", None],
                          ["code", "svc::send (/src/app/main.rs:4)"], [None, None],
                          ["code", "svc::send (/src/app/main.rs:4)"]])
        self.assertEqual(sorted((row["wakes"], row["cause"] or "") for row in
                                self.rows("view", "wake-causes", path)),
                         [(1, ""), (1, "io"), (1, "timer"), (2, "code")])


class Order(Made):
    """What is offered in an order has it; bounds that are passed on choose as SQLite does."""

    def setUp(self):
        super().setUp()
        number = 12345
        for i in range(3000):
            number = (number * 1103515245 + 12345) % 2**31
            task, worker = number % 97, number // 97 % 3
            self.poll(i * 10 * US, (number % 900) * 10, task, f"svc::{'cab'[task % 3]}", worker)
            if number % 5 == 0:
                self.wake(i * 10 * US + 9500, task, worker, number % 7)
        self.path = self.trace.save(self.dir / "many")

    def test_groups_and_orders_are_those_of_a_sort(self):
        for table in ("polls", "wakes"):
            for key in ("site", "task", "worker"):
                counts = self.sql(f"SELECT {key}, count(*) FROM {table} GROUP BY {key}", self.path)
                # `+ ''` hides the column from the index.
                hidden = key + (" || ''" if key == "site" else " + 0")
                self.assertEqual(counts, self.sql(f"SELECT {hidden}, count(*) FROM {table} "
                                                  "GROUP BY 1 ORDER BY 1", self.path))
                for order in ("", " DESC"):
                    rows = [row[0] for row in self.sql(
                        f"SELECT {key} FROM {table} ORDER BY {key}{order}", self.path)]
                    self.assertEqual(rows, sorted(rows, reverse=bool(order)))
                    self.assertEqual(len(rows), sum(count for _, count in counts))

    def test_no_sort_is_needed(self):
        for table in ("polls", "wakes"):
            for key in ("site", "task", "worker"):
                for text in (f"SELECT {key}, count(*) FROM {table} GROUP BY {key}",
                             f"SELECT * FROM {table} ORDER BY {key} DESC"):
                    plan = self.run_kymo("query", "EXPLAIN QUERY PLAN " + text, self.path).out
                    self.assertNotIn("TEMP B-TREE", plan)
        plan = self.run_kymo("query", "EXPLAIN QUERY PLAN SELECT * FROM polls ORDER BY "
                             "duration_ns", self.path).out
        self.assertIn("TEMP B-TREE", plan)

    def test_bounds_choose_what_sqlite_chooses(self):
        middle = START_NS + 15 * MS
        for bound in ("site = 'svc::a'", "site = 'svc::x'", "task = 5", "task = 5.0", "task = 'x'",
                      "task IS NULL", "worker = 1", "worker = 1 AND task = 6",
                      "site = 'svc::b' AND worker = 2", f"start_ns > {middle}",
                      f"start_ns BETWEEN {middle} AND {middle + MS}", f"start_ns <= {middle}",
                      f"start_ns < {middle}.5", "start_ns > -1", "start_ns < -1",
                      f"start_ns = {middle}", "site = 'SVC::A' COLLATE NOCASE",
                      "task IN (1, 2, 3)", f"worker = 2 AND start_ns >= {middle}"):
            hidden = bound
            for column in ("start_ns", "task", "worker"):
                hidden = hidden.replace(column, f"+{column}")
            hidden = hidden.replace("site", "+site")
            columns = "start_ns, duration_ns, task, worker, site FROM polls WHERE"
            self.assertEqual(sorted(self.sql(f"SELECT {columns} {bound}", self.path)),
                             sorted(self.sql(f"SELECT {columns} {hidden}", self.path)), bound)

    def test_a_bound_of_another_type_is_converted_as_in_a_table(self):
        self.assertEqual(self.sql("SELECT count(*) FROM polls WHERE task = '5'", self.path),
                         self.sql("SELECT count(*) FROM polls WHERE task = 5", self.path))

    def test_joins_read_a_table_again(self):
        self.assertEqual(self.sql("SELECT count(*) FROM tasks t JOIN polls p ON p.task = t.task",
                                  self.path), [[3000]])
        self.assertEqual(self.sql("SELECT count(*) FROM polls p WHERE NOT EXISTS (SELECT 1 FROM "
                                  "tasks t WHERE t.task = p.task AND t.site = p.site)", self.path),
                         [[0]])

    def test_percentiles_are_those_of_the_rows(self):
        rows = sorted(row[0] for row in self.sql("SELECT duration_ns FROM polls", self.path))
        found = self.sql("SELECT p50(duration_ns), p90(duration_ns), p99(duration_ns), "
                         "p999(duration_ns), p50(NULL) FROM polls", self.path)[0]
        for value, share in zip(found, (0.5, 0.9, 0.99, 0.999)):
            exact = rows[-(-len(rows) * round(1000 * share) // 1000) - 1]
            self.assertTrue(exact <= value <= exact * (1 + 1 / 128), (share, exact, value))
        self.assertIsNone(found[4])


class Wrong(Made):
    def test_names_that_are_not_there(self):
        path = self.made()
        self.fails("view", "pols", path, says=["'pols'", "did you mean 'polls'?"])
        self.fails("view", "polls\"; --", path, says=["there is no view"])
        for option in ("--sort", "--group-by", "--columns"):
            self.fails("view", "polls", option, "duration", path,
                       says=[option, "'duration'", "duration_ns"])
        self.fails("query", "SELECT * FROM pols", path, says=["no such table: pols", "polls?"])
        self.fails("query", "SELECT duraton_ns FROM polls", path,
                   says=["no such column: duraton_ns", "character 8", "duration_ns?"])

    def test_expressions_say_where_they_are_wrong(self):
        path = self.made()
        self.fails("view", "polls", "--where", "task < < 3", path,
                   says=['near "<"', "at character 8"])
        self.fails("view", "polls", "--where", "task <", path, says=["at its end"])
        self.fails("view", "polls", "--where", "tsk < 3", path,
                   says=["no such column: tsk (at character 1)", "task?"])
        self.fails("view", "polls", "--where", "nope(task)", path, says=["no such function: nope"])
        self.fails("query", "SELEC 1", path, says=['near "SELEC"', "at character 1"])
        self.fails("query", "  ", path, says=["no SQL"])
        self.fails("query", "SELECT 1; SELECT 2", path, says=["one SELECT at a time"])

    def test_words_that_are_missing_are_asked_for(self):
        for words in (["view", "polls"], ["query"], ["query", "SELECT 1"]):
            self.fails(*words, code=2, says=["name "])

    def test_nothing_is_written_or_read_by_sql(self):
        path = self.made()
        secret = self.dir / "secret"
        secret.write_text("secret")
        before = sorted(self.dir.iterdir())
        for text in ("CREATE TABLE t(x)", "CREATE TEMP TABLE t(x)", "DROP TABLE polls",
                     "INSERT INTO polls VALUES(1)", "UPDATE polls SET task = 1",
                     "DELETE FROM polls", "DELETE FROM sqlite_master",
                     f"ATTACH '{self.dir}/new.db' AS other", "ATTACH ':memory:' AS other",
                     f"VACUUM INTO '{self.dir}/new.db'", "VACUUM", "REINDEX", "ANALYZE",
                     "PRAGMA temp_store_directory = '/'", "PRAGMA journal_mode = wal",
                     "PRAGMA user_version", "SELECT * FROM pragma_database_list",
                     "SELECT load_extension('x')", f"SELECT readfile('{secret}')",
                     f"SELECT writefile('{self.dir}/new', 'x')", "SELECT fts3_tokenizer('x')",
                     "BEGIN", "BEGIN IMMEDIATE", "COMMIT", "ROLLBACK", "SAVEPOINT a",
                     "CREATE VIEW v AS SELECT 1", "CREATE TRIGGER t BEFORE INSERT ON polls BEGIN "
                     "SELECT 1; END", "CREATE VIRTUAL TABLE v USING fts5(x)", "DETACH temp",
                     "WITH x AS (SELECT 1) DELETE FROM polls", "REPLACE INTO polls VALUES(1)",
                     "SELECT edit('x')", "ALTER TABLE polls RENAME TO p"):
            done = self.fails("query", text, path, cwd=self.dir)
            self.assertEqual(done.out, "", text)
            self.assertNotIn("secret", done.out)
            self.assertEqual(sorted(self.dir.iterdir()), before, text)
        for text in ("1) UNION SELECT load_extension('x'", "(DELETE FROM polls)"):
            self.fails("view", "polls", "--where", text, path)

    def bounded(self, *words, path=None):
        """Runs it where no byte can be written to a file."""
        def limit():
            resource.setrlimit(resource.RLIMIT_FSIZE, (0, 0))
        return subprocess.run([KYMO, "query", *words, path or self.made()], capture_output=True,
                              text=True, cwd=self.dir, check=False, preexec_fn=limit,
                              env=dict(os.environ, TMPDIR=str(self.dir),
                                       SQLITE_TMPDIR=str(self.dir)))

    NUMBERS = "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n{}) "

    def test_sorting_writes_no_file(self):
        done = self.bounded(self.NUMBERS.format(" LIMIT 200000") +
                            "SELECT count(*), max(t) FROM (SELECT printf('%0200d', i) t FROM n "
                            "ORDER BY i % 1000, t LIMIT 199999)")
        self.assertEqual((done.returncode, done.stderr), (0, ""))
        self.assertEqual(done.stdout.split()[-2], "199999")

    def test_memory_has_a_bound(self):
        done = self.bounded("--max-memory", "64M", self.NUMBERS.format("") +
                            "SELECT * FROM (SELECT randomblob(10000) FROM n ORDER BY 1)")
        self.assertEqual(done.returncode, 1, done.stderr)
        self.assertIn("more than 67.1 MB of memory", done.stderr)
        self.assertEqual(done.stderr.count("\n"), 1)
        done = self.bounded("SELECT length(zeroblob(1000000000))")
        self.assertIn("too big", done.stderr)

    def test_time_has_a_bound(self):
        done = self.bounded("--max-time", "50ms", self.NUMBERS.format("") + "SELECT max(i) FROM n")
        self.assertEqual(done.returncode, 1)
        self.assertIn("stopped after 50.0 ms; --max-time", done.stderr)

    def test_control_bytes_do_not_reach_the_terminal(self):
        self.poll(0, 10, 1, "\x1b[31mred\n\"q\"")
        path = self.trace.save(self.dir / "hostile")
        for words in (["view", "tasks"], ["query", "SELECT site FROM tasks"],
                      ["view", "tasks", "--format", "csv"], ["view", "tasks", "--json"]):
            self.assertNotIn("\x1b", self.run_kymo(*words, path).out)

    def test_events_are_read_once_in_a_query(self):
        self.fails("query", "SELECT count(*) FROM events a, events b", self.made(),
                   says=["events can stand once"])
        piped = self.run_kymo("query", "SELECT count(*) FROM events", "-",
                              data=self.made().read_bytes()).out
        self.assertEqual(piped.split()[-1], str(len(self.content(self.dir / "made").splitlines())))

    def test_a_trace_of_another_writer(self):
        path = self.data / NEW
        sites = self.sql("SELECT site, count(*) FROM polls GROUP BY site", path)
        self.assertEqual(sum(count for _, count in sites),
                         self.sql("SELECT count(*) FROM polls", path)[0][0])
        functions = self.rows("view", "functions", path)
        self.assertEqual(sum(row["samples"] for row in functions),
                         self.sql("SELECT count(*) FROM cpu", path)[0][0])
        self.assertTrue(any("query_metric" in (row["function"] or "") for row in functions))

    def test_an_empty_trace_has_empty_tables(self):
        path = Trace().metadata(pid=1).save(self.dir / "empty")
        for line in self.run_kymo("view").out.splitlines()[1:]:
            rows = self.rows("view", line.split()[0], path)
            self.assertEqual(rows == [], line.split()[0] not in ("metadata", "event-types",
                                                                "events"), line)




if __name__ == "__main__":
    sys.exit(main())
