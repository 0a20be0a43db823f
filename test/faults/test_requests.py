# SPDX-License-Identifier: Apache-2.0 OR MIT
"""Requests on connections, beside what the client and the server measured themselves."""
import json

from faults import Faults, program

# requests.rs: ways with a connection of their own; their names in its statement.
WAYS = ("quick", "sleep", "burn", "body", "ask", "hold", "one", "other", "greeted")
US = 1000


class Requests(Faults):
    def check(self, path):
        run = self.record(path, options=("--conn",))
        said = run.statement
        rows = json.loads(run.kymo("query", "--json", "SELECT * FROM requests ORDER BY start_ns",
                                   run.trace))["rows"]
        taken = [row for row in rows if row["name"] == "conn"]
        self.check_accepted(said, taken)
        self.check_descriptors(run, said, taken)
        self.check_made(said, rows)
        self.assertEqual(run.report()["requests_unseen"], 0)
        return rows

    def check_accepted(self, said, rows):
        for way in WAYS:
            own = [row for row in rows if row["peer_port"] == said[f"{way}_port"]]
            self.assertEqual(len(own), said[f"{way}_requests"], way)
            self.assertEqual(len({row["connection"] for row in own}), 1, way)
            self.assertEqual(len({row["task"] for row in own}), 1, way)
            self.assertEqual({row["bytes_in"] for row in own},
                             {said["request_bytes"] + (way == "body") * said["body_bytes"]}, way)
            self.assertEqual({row["bytes_out"] for row in own}, {said["answer_bytes"]}, way)
            # One after the other, and each whole.
            for one, following in zip(own, own[1:]):
                self.assertLessEqual(one["start_ns"] + one["duration_ns"], following["start_ns"])
            for row in own:
                self.assertEqual(row["duration_ns"], row["service_ns"] + row["scheduler_ns"] +
                                 row["client_ns"] + row["unknown_ns"], way)
            # From the end of the first read, before the server reads its clock, to the end of
            # the write, after it does.
            self.assertGreaterEqual(sum(row["duration_ns"] for row in own),
                                    said[f"{way}_server_ns"], way)
        self.check_parts(said, rows)
        closed, = [row for row in rows if row["peer_port"] == said["dropped_port"]]
        self.assertEqual((closed["bytes_in"], closed["bytes_out"]), (said["request_bytes"], 0))

    def check_parts(self, said, rows):
        """Who took the time: nothing else can have, for the worker and the server are idle."""
        def most(way):
            sums = {part: sum(row[part] for row in rows if row["peer_port"] == said[f"{way}_port"])
                    for part in ("service_ns", "scheduler_ns", "client_ns", "unknown_ns")}
            return max(sums, key=sums.get)

        for way, part in (("sleep", "service_ns"), ("burn", "service_ns"), ("ask", "service_ns"),
                          ("body", "client_ns")):
            self.assertEqual(most(way), part, way)
        late = [row for row in rows if row["peer_port"] in (said["one_port"], said["other_port"])]
        self.assertTrue(any(row["scheduler_ns"] >= said["burn_ns"] for row in late))

    def check_descriptors(self, run, said, rows):
        """What became ready is the connection that the task serves: known wherever the driver
        brought one event, so for each of the ways that are alone on their time."""
        wakes = json.loads(run.kymo("query", "--json",
                                    "SELECT task, descriptor, is_inferred FROM wakes "
                                    "WHERE cause = 'io'", run.trace))["rows"]
        seen = []
        for way in ("quick", "sleep", "burn", "body", "greeted"):
            row = next(row for row in rows if row["peer_port"] == said[f"{way}_port"])
            own = [wake for wake in wakes if wake["task"] == row["task"]]
            self.assertEqual(len({wake["descriptor"] for wake in own} - {None}), 1, way)
            self.assertIn(0, {wake["is_inferred"] for wake in own}, way)
            seen += {wake["descriptor"] for wake in own} - {None}
        self.assertEqual(len(set(seen)), len(seen))

    def check_made(self, said, rows):
        """Of the client's threads, which are no tasks, and of the task that asks upstream."""
        made = [row for row in rows if row["name"] == "conn_out"]
        clients = [row for row in made if row["peer_port"] == said["server_port"]]
        self.assertEqual(len(clients), sum(said[f"{way}_requests"] for way in WAYS
                                           if way != "greeted") + 1)
        self.assertEqual({row["task"] for row in clients}, {None})
        asked = [row for row in made if row["peer_port"] == said["upstream_server_port"]]
        self.assertEqual(len(asked), said["ask_requests"])
        self.assertEqual(len({row["connection"] for row in asked}), len(asked))
        self.assertEqual({row["site"] for row in asked}, {rows_site(rows, said)})

    def test_all_requests_with_their_bytes_and_parts(self):
        self.check(program("requests"))

    def test_without_the_option_there_are_none(self):
        run = self.record("requests")
        self.assertEqual(run.events("SpanEnter:kymo::conn:kymo:0"), [])

    def test_on_the_oldest_tokio(self):
        self.check(program("requests", tokio="v1_38"))


def rows_site(rows, said):
    """Spawn place of the server's tasks."""
    return next(row["site"] for row in rows if row["peer_port"] == said["quick_port"])
