# SPDX-License-Identifier: Apache-2.0 OR MIT
"""Findings about queues: tasks that stand ready while another worker is idle, in its queue
(worker_imbalance) or in the LIFO slot (lifo_slot_starvation); and polls that Tokio's budget cannot
end (coop_budget_bypassed). What real programs do is shown by the golden traces."""
import json
import sys

from cli_case import Cli, main
from trace_maker import SampleTrace

MS = 1_000_000
START = 1000 * MS
WORKER = ("worker_id", "VARINT")


class Runtimes(SampleTrace):
    """One worker each on a thread of its own, unless `runtime_of` says otherwise."""

    def __init__(self, workers, runtime_of=lambda worker: worker):
        super().__init__()
        self.metadata(pid=1)
        for worker in range(workers):
            self.event("RuntimeEvent", 900, ("runtime_id", "VARINT", runtime_of(worker)),
                       ("name", "STRING", b""), ("kind", "U8", 2), ("copy", "U8", 0))
            self.event("WorkerEvent", 900, (*WORKER, worker),
                       ("runtime_id", "VARINT?", runtime_of(worker)), ("index", "VARINT?", 0),
                       ("tid", "U32", 100 + worker), ("exact", "BOOL", 1), ("ended", "BOOL", 0),
                       ("identity", "VARINT", worker + 1))

    def on(self, worker, at, length, task, name):
        self.event("PollStartEvent", START + at, (*WORKER, worker), ("local_queue", "VARINT", 0),
                   ("task_id", "VARINT", task), ("spawn_loc", "STRING", name.encode()))
        return self.event("PollEndEvent", START + at + length, (*WORKER, worker))

    def wake(self, at, task, worker, waker=0):
        return self.event("WakeEventEvent", START + at, ("waker_task_id", "VARINT", waker),
                          ("woken_task_id", "VARINT", task), ("target_worker", "U8", worker))

    def parked(self, worker, start, end, wait=1):
        self.event("WorkerParkEvent", START + start, (*WORKER, worker),
                   ("tid", "U32", 100 + worker), ("wait", "U8", wait))
        return self.event("WorkerUnparkEvent", START + end, (*WORKER, worker),
                          ("tid", "U32", 100 + worker))

    def notify(self, at):
        """Of the worker that waits in a driver."""
        return self.event("WorkerNotifyEvent", START + at, ("tid", "U32", 1), ("via", "U8", 3),
                          ("target", "VARINT", 9))


def crowd(trace, rounds=20, tasks=20, length=500_000):
    """Worker 0: `tasks` of app::serve become ready at once, again and again, and are polled one
    after the other, in short polls. Returns the end."""
    step = tasks * length + MS
    for number in range(rounds):
        at = number * step
        for task in range(tasks):
            trace.wake(at + task, 1 + task, 0)
        for task in range(tasks):
            trace.on(0, at + 1000 + task * length, length - 1000, 1 + task, "app::serve")
    return rounds * step


def idle_but_for_one(trace, worker, end, name="app::serve", busy=100_000):
    trace.on(worker, 0, busy, 100 + worker, name)
    return trace.parked(worker, busy + 1000, end)


def storms(trace, length, wakes=1000, rounds=30):
    """app::push wakes a task of app::read `wakes` times in each of its polls of `length`, and goes
    on to the end of the poll if they come to less; app::read is polled after it."""
    step = 2 * length + MS
    for number in range(rounds):
        at = number * step
        for wake in range(wakes):
            trace.wake(at + 100 + wake * 500, 2, 0, 1)
        trace.on(0, at, length, 1, "app::push")
        trace.on(0, at + length + 1000, 50_000, 2, "app::read")
    return rounds * step


class QueueFindings(Cli):
    def findings(self, trace):
        path = trace.save(self.dir / "trace.trc")
        return json.loads(self.run_kymo("report", "--json", path).out)["findings"]

    def first(self, trace):
        found = self.findings(trace)
        self.assertTrue(found)
        return found[0]

    def test_runtimes_side_by_side_of_which_one_is_hot(self):
        trace = Runtimes(3)
        end = crowd(trace)
        for worker in (1, 2):
            idle_but_for_one(trace, worker, end)
        one = self.first(trace)
        self.assertEqual((one["id"], one["severity"]), ("worker_imbalance", "warning"))
        self.assertEqual(one["culprit"]["task"], "app::serve")
        self.assertIn("The 2 other workers like it", one["statement"])
        self.assertEqual(one["impact"]["victims"], 20 * 18)  # all but two wait for over 1 ms
        self.assertGreater(one["score"], 0.9)
        self.assertNotIn("overload", [other["id"] for other in self.findings(trace)
                                      if other["severity"] != "info"])

    def test_where_all_are_busy_it_is_an_overload(self):
        trace = Runtimes(2)
        end = crowd(trace)
        for number in range(end // MS):
            trace.on(1, number * MS, MS - 10_000, 101, "app::serve")
        self.assertEqual([one["id"] for one in self.findings(trace) if one["severity"] != "info"],
                         ["overload"])

    def test_an_idle_runtime_with_other_work_is_no_peer(self):
        trace = Runtimes(2)
        idle_but_for_one(trace, 1, crowd(trace), "app::metrics")
        self.assertEqual(self.first(trace)["id"], "overload")

    def test_a_runtime_with_more_workers_is_no_peer(self):
        trace = Runtimes(3, lambda worker: min(worker, 1))
        end = crowd(trace)
        for worker in (1, 2):
            idle_but_for_one(trace, worker, end)
        self.assertEqual(self.first(trace)["id"], "overload")

    def test_a_worker_that_was_notified_is_not_idle(self):
        for is_notified, expected in ((False, "worker_imbalance"), (True, "overload")):
            trace = Runtimes(2)
            end = crowd(trace)
            trace.on(1, 0, 100_000, 101, "app::serve")
            for at in range(MS, end, MS):
                trace.parked(1, at, at + MS - 1000)
                if is_notified:
                    trace.notify(at + 1000)
            self.assertEqual(self.first(trace)["id"], expected)

    def test_workers_with_as_much_to_do_are_balanced(self):
        """Each has its turn: what stands ready on one could have been polled by the other, and
        yet none of them is hot."""
        trace = Runtimes(2)
        for number in range(20):
            at, worker = number * 12 * MS, number % 2
            for task in range(20):
                trace.wake(at + task, 1 + task + 50 * worker, worker)
            for task in range(20):
                trace.on(worker, at + 1000 + task * 500_000, 499_000, 1 + task + 50 * worker,
                         "app::serve")
            trace.parked(1 - worker, at, at + 12 * MS - 1000)
        self.assertNotIn("worker_imbalance", [one["id"] for one in self.findings(trace)])

    def waker(self, has_idle_peer, other_wakes=False, woken_at=1000):
        """Worker 0: polls of app::slow last 20 ms and wake app::partner at that moment."""
        trace = Runtimes(2, lambda worker: 0)
        for number in range(20):
            at = number * 30 * MS
            trace.wake(at + woken_at, 2, 0, waker=1)
            if other_wakes:
                trace.wake(at + 2000, 3, 0, waker=1)
            trace.on(0, at, 20 * MS, 1, "app::slow")
            trace.on(0, at + 20 * MS + 1000, 10_000, 2, "app::partner")
            trace.parked(0, at + 21 * MS, at + 30 * MS - 1000)
            if has_idle_peer:
                trace.parked(1, at, at + 30 * MS - 1000, wait=2)
            else:
                trace.on(1, at, 29 * MS, 4, "app::other")
        return trace

    def test_what_a_poll_wakes_lies_in_the_lifo_slot_until_it_ends(self):
        one = self.first(self.waker(True))
        self.assertEqual((one["id"], one["culprit"]["task"]),
                         ("lifo_slot_starvation", "app::slow"))
        self.assertIn("stood in the LIFO slot", one["impact"]["statement"])

    def test_without_an_idle_worker_the_slot_harms_nobody(self):
        found = self.findings(self.waker(False))
        self.assertNotIn("lifo_slot_starvation", [one["id"] for one in found])
        self.assertIn("cpu_heavy_poll", [one["id"] for one in found])

    def test_a_poll_that_wakes_near_its_end_is_long_and_no_more(self):
        found = self.findings(self.waker(True, woken_at=12 * MS))
        self.assertEqual(found[0]["id"], "cpu_heavy_poll")

    def test_what_is_woken_before_another_is_not_in_the_slot(self):
        found = self.findings(self.waker(True, other_wakes=True))
        self.assertEqual(found[0]["id"], "cpu_heavy_poll")

    def long_polls(self, *frames):
        """Polls of 20 ms, with a sample each ms; frames: leaf first, as numbers of names."""
        trace = SampleTrace().metadata(pid=1, service="svc", machine__architecture="x86_64")
        names = ("<tokio::sync::mpsc::unbounded::UnboundedReceiver<T>>::try_recv", "app::digest",
                 "<tokio::task::coop::unconstrained::Unconstrained<F> as "
                 "core::future::future::Future>::poll", "tokio::task::coop::with_unconstrained")
        for number, name in enumerate(names, 1):
            trace.symbol(0x10 * number, name, 9 if name.startswith("app") else 1)
        for number in range(20):
            at = (1 + number * 30) * MS
            trace.poll(at, at + 20 * MS, 7, "app::drain")
            for sample in range(20):
                trace.cpu(at + sample * MS + 1000, MS, 7, at, *(0x10 * frame for frame in frames))
        return trace

    def test_unconstrained_has_no_budget(self):
        one = self.first(self.long_polls(2, 3))
        self.assertEqual((one["id"], one["confidence"], one["culprit"]["function"]),
                         ("coop_budget_bypassed", "possible", "app::digest"))
        self.assertIn("unconstrained()", one["statement"])

    def test_operations_that_take_no_budget(self):
        one = self.first(self.long_polls(1, 2))
        self.assertEqual(one["id"], "coop_budget_bypassed")
        self.assertIn("operations on a queue or socket", one["statement"])

    def test_what_such_an_operation_calls_is_the_program_s_own(self):
        self.assertEqual(self.first(self.long_polls(2, 1))["id"], "cpu_heavy_poll")

    def test_a_timer_s_own_way_past_the_budget_is_none(self):
        self.assertEqual(self.first(self.long_polls(2, 4))["id"], "cpu_heavy_poll")


    def test_a_task_woken_again_and_again_while_it_is_ready(self):
        trace = Runtimes(1)
        storms(trace, 4 * MS, wakes=7000)
        found = self.first(trace)
        self.assertEqual((found["id"], found["culprit"]["task"]),
                         ("redundant_wakes", "app::push"))
        self.assertEqual(len([one for one in self.findings(trace)
                              if one["id"] == "redundant_wakes"]), 1)

    def test_many_wakes_in_short_polls_are_no_more_than_info(self):
        trace = Runtimes(1)
        storms(trace, MS, wakes=1500)
        found = [one for one in self.findings(trace) if one["id"] == "redundant_wakes"]
        self.assertEqual([one["severity"] for one in found], ["info"])
        self.assertIn("1,500 times in a row: 44,970 of 45,000 wakes", found[0]["statement"])

    def test_a_few_redundant_wakes_do_not_make_a_long_poll(self):
        trace = Runtimes(1)
        storms(trace, 10 * MS, wakes=200)
        self.assertEqual(self.first(trace)["id"], "cpu_heavy_poll")

    def test_wakes_of_one_task_are_no_herd(self):
        trace = Runtimes(1)
        storms(trace, 10 * MS, wakes=200)
        self.assertNotIn("thundering_herd", [one["id"] for one in self.findings(trace)])

    def test_a_driver_that_nobody_checked_since_the_first_poll(self):
        trace = Runtimes(1)
        end = crowd(trace, rounds=10)
        trace.event("DriverTurnEvent", START + end + MS, (*WORKER, 0),
                    ("duration_ns", "VARINT", 5000), ("ready_count", "VARINT", 3))
        found = [one for one in self.findings(trace) if one["id"] == "driver_starved"]
        self.assertEqual([one["severity"] for one in found], ["critical"])
        self.assertIn("1 time: one ran up to 200 polls", found[0]["statement"])
        self.assertIn("The next check found I/O 1 time.", found[0]["statement"])

    def test_a_driver_that_nobody_checked_up_to_the_last_poll(self):
        trace = Runtimes(1)
        trace.event("DriverTurnEvent", START - MS, (*WORKER, 0), ("duration_ns", "VARINT", 5000),
                    ("ready_count", "VARINT", 3))
        crowd(trace, rounds=10)
        found = [one for one in self.findings(trace) if one["id"] == "driver_starved"]
        self.assertEqual([one["severity"] for one in found], ["critical"])
        self.assertNotIn("The next check", found[0]["statement"])

    def test_delays_behind_thousands_of_polls_are_left_out_and_counted(self):
        trace = Runtimes(1)
        crowd(trace, rounds=1, tasks=4000, length=2_000)
        said = self.run_kymo("why", "--json", trace.save(self.dir / "crowd.trc"))
        why = json.loads(said.out)
        self.assertGreater(why["left_out"], 0)
        self.assertLess(why["left_out"], why["slow_delays"])


    def test_two_tasks_that_one_poll_wakes_in_turns_are_no_herd(self):
        def woken(tasks):
            trace = Runtimes(1)
            for number in range(20):
                at = number * 60 * MS
                for wake in range(300):
                    trace.wake(at + 100 + wake * 500, 2 + wake % tasks, 0, 1)
                trace.on(0, at, 200_000, 1, "app::push")
                for task in range(tasks):
                    trace.on(0, at + MS + task * 400_000, 390_000, 2 + task, "app::read")
            return [one["id"] for one in self.findings(trace) if one["severity"] != "info"]
        self.assertIn("thundering_herd", woken(100))
        self.assertNotIn("thundering_herd", woken(2))


if __name__ == "__main__":
    sys.exit(main())
