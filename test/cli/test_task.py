# SPDX-License-Identifier: Apache-2.0 OR MIT
"""`kymo task`: the life of a task, as made traces have it."""
import json
import sys

from cli_case import NEW, main
from made_trace import START_NS, WORKER, MadeTrace

US = 1000
MS = 1_000_000


class Task(MadeTrace):
    METADATA, ORIGIN = {"machine__architecture": "x86_64"}, 0

    def spawn(self, at, task, parent=None):
        self.event("TaskSpawnEvent", at, ("task_id", "VARINT", task),
                   ("spawn_loc", "STRING", b"svc::child"), ("instrumented", "BOOL", 1),
                   ("parent_task_id", "VARINT?", parent))

    def made(self):
        """Task 7: polled, spawns 9, woken twice by 8 and once by the driver, off CPU, ends."""
        self.spawn(0, 7)
        self.poll(0, 20 * US, 7, "svc::child")
        self.spawn(15 * US, 9, parent=7)
        self.wake(100 * US, 7, worker=1, waker=8)
        self.wake(110 * US, 7, worker=1, waker=8)
        self.poll(90 * US, 60 * US, 8, "svc::waker", worker=1)
        self.poll(200 * US, 5 * MS, 7, "svc::child")
        self.event("OffCpuEvent", 5 * MS, ("tid", "U32", 5), (*WORKER, 0),
                   ("task_id", "VARINT", 7), ("duration_ns", "VARINT", 4 * MS), ("reason", "U8", 1),
                   ("syscall", "VARINT?", 35), ("callchain", "STACK", (0x1000,)),
                   ("weight", "F64", 1.0), ("poll_start_ns", "VARINT", START_NS + 200 * US),
                   ("truncated", "BOOL", 0), ("source", "U8", 3))
        self.wake(6 * MS, 7, origin=3)
        self.event("TaskTerminateEvent", 7 * MS, ("task_id", "VARINT", 7))
        return self.trace.save(self.dir / "made")

    def life(self, task, path, *options):
        return json.loads(self.run_kymo("task", task, "--json", *options, path).out)

    def test_events_stand_in_the_order_of_time(self):
        found = self.life(7, self.made())
        self.assertEqual([(event["kind"], event["time_ns"] - START_NS)
                          for event in found["events"]],
                         [("spawn", 0), ("poll", 0), ("spawned", 15 * US), ("wake", 100 * US),
                          ("wake", 110 * US), ("poll", 200 * US), ("off_cpu", 1 * MS),
                          ("wake", 6 * MS), ("end", 7 * MS)])
        self.assertEqual((found["polls"], found["busy_ns"], found["poll_max_ns"]),
                         (2, 20 * US + 5 * MS, 5 * MS))
        first, second, driver = [event for event in found["events"] if event["kind"] == "wake"]
        self.assertEqual((first["waker"], first["waker_site"], first["worker"]),
                         (8, "svc::waker", 1))
        self.assertEqual([wake["is_redundant"] for wake in (first, second, driver)],
                         [False, True, False])
        self.assertEqual((driver["waker"], driver["origin"]), (None, "the driver or a yield"))
        self.assertEqual(found["events"][5]["delay_ns"], 100 * US)

    def test_text_says_the_same(self):
        lines = [line.strip() for line in
                 self.run_kymo("task", 7, self.made()).out.splitlines()]
        self.assertEqual(lines[0], "Task 7 (svc::child)")
        for line in ("+0.000000  spawned", "+0.000015    spawns task 9 (svc::child)",
                     "+0.000100  woken by task 8 (svc::waker), on worker 1",
                     "+0.000110  woken by task 8 (svc::waker), on worker 1; it was ready already",
                     "+0.000200  polled for 5.00 ms on worker 0, 100 us after it was ready",
                     "+0.006000  woken by the driver or a yield, on worker 0", "+0.007000  ended"):
            self.assertIn(line, lines)
        self.assertTrue(any(line.startswith("+0.001000    off CPU for 4.00 ms: nanosleep()")
                            for line in lines), lines)

    def test_a_wake_in_its_own_poll_is_marked(self):
        self.event("PollStartEvent", 0, (*WORKER, 0), ("task_id", "VARINT", 7),
                   ("spawn_loc", "STRING", b"svc::a"))
        self.wake(10 * US, 7, waker=7)
        self.event("PollEndEvent", 20 * US, (*WORKER, 0))
        path = self.trace.save(self.dir / "own")
        self.assertIn("while it is polled", self.run_kymo("task", 7, path).out)

    def test_a_range_and_a_limit_choose(self):
        path = self.made()
        self.assertEqual(len(self.life(7, path, "--from", "100us", "--to", "1ms")["events"]), 3)
        self.assertEqual(len(self.life(7, path, "--limit", 2)["events"]), 2)
        self.assertIn("... and 7 more", self.run_kymo("task", 7, "-n", 2, path).out)

    def test_a_task_that_is_not_there(self):
        path = self.data / NEW
        self.fails("task", 9999, path, says=["no task 9999", "kymo view tasks"])
        for words in (["task"], ["task", "7"], ["task", "x", path]):
            self.fails(*words, code=2)

    def test_all_polls_of_another_writers_task_are_there(self):
        found = self.life(9, self.data / NEW)
        self.assertEqual(sum(event["kind"] == "poll" for event in found["events"]),
                         found["polls"])
        self.assertEqual(sum(event["kind"] == "wake" for event in found["events"]),
                         found["wakes"])
        times = [event["time_ns"] for event in found["events"]]
        self.assertEqual(times, sorted(times))
        self.assertTrue(any("ensure_table" in (event.get("function") or "")
                            for event in found["events"]))

    def chain(self, task, path, *options):
        return json.loads(self.run_kymo("task", task, "--chain", "--json", *options, path).out)

    def asked(self):
        """Task 1 asks task 2, which waits for the driver, stands behind task 3, and answers."""
        self.poll(1 * MS, 1 * MS, 1, "svc::ask")
        self.wake(1500 * US, 2, waker=1)
        self.poll(2500 * US, 500 * US, 2, "svc::answer")
        self.wake(6 * MS, 2, origin=3)
        self.poll(6 * MS, 1 * MS, 3, "svc::other")
        self.poll(7 * MS, 1 * MS, 2, "svc::answer")
        self.wake(7600 * US, 1, waker=2)
        self.poll(8 * MS, 1 * MS, 1, "svc::ask")
        return self.trace.save(self.dir / "asked")

    def test_a_chain_is_what_the_waker_did(self):
        found = self.chain(1, self.asked())
        self.assertEqual([(link["kind"], link["task"], link["depth"], link["to_ns"] -
                           link["from_ns"]) for link in found["links"]],
                         [("poll", 1, 0, 1 * MS), ("ready", 2, 1, 500 * US),
                          ("poll", 2, 1, 500 * US), ("waiting", 2, 1, 3 * MS),
                          ("ready", 2, 1, 1 * MS), ("poll", 2, 1, 600 * US),
                          ("ready", 1, 0, 400 * US), ("poll", 1, 0, 1 * MS)])
        self.assertEqual(sum(group["ns"] for group in found["groups"]), 8 * MS)
        behind = [group for group in found["groups"] if group.get("culprit") == "svc::other"]
        self.assertEqual([(group["site"], group["part"], group["ns"]) for group in behind],
                         [("svc::answer", "behind_poll", 1 * MS)])
        text = self.run_kymo("task", 1, "--chain", self.dir / "asked").out
        self.assertIn("svc::answer is ready: waits for polls of svc::other", text)
        self.assertRegex(text, r"\+0\.00\d+ +3\.00 ms +task 2 \(svc::answer\) is waiting for")

    def test_a_chain_of_a_range_and_of_few_steps(self):
        path = self.asked()
        found = self.chain(1, path, "--from", "500us", "--to", "2500us")
        self.assertEqual(sum(group["ns"] for group in found["groups"]), 2 * MS)
        self.assertEqual(len(self.chain(1, path, "--limit", 3)["links"]), 3)
        text = self.run_kymo("task", 1, "--chain", "-n", 3, path).out
        self.assertIn("... and 5 shorter ones", text)

    def awaited(self, last, count):
        """Task 1 waits from the begin for the poll of `last`, which comes after `count` MS."""
        self.poll(0, US, 1, "svc::waits", worker=1)
        self.wake(count * MS + 700 * US, 1, waker=last)
        self.poll((count + 1) * MS, US, 1, "svc::waits", worker=1)
        return self.chain(1, self.trace.save(self.dir / "awaited"))

    def test_a_chain_follows_spawns_however_many(self):
        count = 30_000
        for at in range(count):
            self.spawn(at * MS + 2 * US, at + 2, parent=at + 1 if at else None)
            self.poll(at * MS + 500 * US, 500 * US + 3 * US, at + 2, "svc::spawned", worker=0)
        found = self.awaited(count + 1, count - 1)
        self.assertEqual(sum(group["ns"] for group in found["groups"]),
                         found["to_ns"] - found["from_ns"])
        self.assertGreater(len(found["links"]), 2 * count - 10)

    def test_a_chain_of_too_many_steps_says_how_long_the_rest_is(self):
        for at in range(33_000):
            self.poll(at * 10 * US, US, 1, "svc::busy")
        found = self.chain(1, self.trace.save(self.dir / "many"))
        self.assertTrue(found["is_cut"])
        self.assertEqual(found["links"][0]["kind"], "unknown")
        for rows in (found["groups"], [{"ns": one["to_ns"] - one["from_ns"]}
                                       for one in found["links"]]):
            self.assertEqual(sum(row["ns"] for row in rows), found["to_ns"] - found["from_ns"])

    def test_tasks_that_spawn_each_other_are_not_followed_for_ever(self):
        self.spawn(6 * MS, 3, parent=2)
        self.spawn(10 * MS, 2, parent=3)
        self.poll(20 * MS, MS, 2, "svc::spawned")
        found = self.awaited(2, 20)
        self.assertEqual(sum(group["ns"] for group in found["groups"]),
                         found["to_ns"] - found["from_ns"])
        self.assertEqual(found["links"][1]["kind"], "unknown")

    def test_a_chain_is_of_a_task(self):
        self.event("BlockingRunStartEvent", 0, ("tid", "U32", 9), ("task_id", "VARINT", 5),
                   ("spawn_loc", "STRING", b"svc::run"))
        self.event("BlockingRunEndEvent", 10, ("tid", "U32", 9), ("task_id", "VARINT", 5))
        done = self.run_kymo("task", 5, "--chain", self.trace.save(self.dir / "run"), code=1)
        self.assertIn("5 is a closure of the blocking pool, which no worker polls: --chain is of "
                      "tasks", done.err)

    def test_names_do_not_reach_the_terminal(self):
        self.poll(0, 10, 1, "\x1b[31mred")
        path = self.trace.save(self.dir / "hostile")
        self.assertNotIn("\x1b", self.run_kymo("task", 1, "--chain", path).out)
        self.assertNotIn("\x1b", self.run_kymo("task", 1, path).out)
        self.assertNotIn("\x1b", self.run_kymo("task", 1, "--json", path).out)


if __name__ == "__main__":
    sys.exit(main())
