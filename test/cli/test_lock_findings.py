# SPDX-License-Identifier: Apache-2.0 OR MIT
"""Who held the lock that polls waited for: by who woke the futex, and what that thread did then."""
import json

from cli_case import Cli, main
from trace_maker import SampleTrace

MS = 1_000_000
LOCK, OTHER_LOCK = 0x7000_1000, 0x7000_2000
FIRST_TID = 100
FUTEX, ON_CPU = 2, 202
LOOK_UP, TAKE, REBUILD, INDEX, SLEEP = 0x10, 0x20, 0x30, 0x40, 0x50


class LockTrace(SampleTrace):
    """Three workers, each a thread; worker 0 runs the task that holds the lock."""
    def __init__(self, sleeper):
        super().__init__()
        self.metadata(pid=1, service="svc", machine__architecture="x86_64")
        for address, name in ((LOOK_UP, sleeper),
                              (TAKE, "app::take"), (REBUILD, "app::rebuild"),
                              (INDEX, "app::index::{{closure}}"), (SLEEP, "clock_nanosleep")):
            self.symbol(address, name, 1 if address in (LOOK_UP, SLEEP) else 9)
        for worker in range(3):
            self.event("WorkerEvent", 0, ("worker_id", "VARINT", worker),
                       ("runtime_id", "VARINT", 1), ("tid", "U32", FIRST_TID + worker))

    def run(self, worker, start, end, task, name):
        self.event("WakeEventEvent", start - 1000, ("waker_task_id", "VARINT", 0),
                   ("woken_task_id", "VARINT", task), ("target_worker", "U8", worker))
        self.event("PollStartEvent", start, ("worker_id", "VARINT", worker),
                   ("local_queue", "VARINT", 0), ("task_id", "VARINT", task),
                   ("spawn_loc", "STRING", name.encode()))
        return self.event("PollEndEvent", end, ("worker_id", "VARINT", worker))

    def off(self, worker, end, length, task, poll, *frames, reason=FUTEX, lock=LOCK):
        return self.event("OffCpuEvent", end, ("tid", "U32", FIRST_TID + worker),
                          ("worker_id", "VARINT", worker), ("task_id", "VARINT", task),
                          ("duration_ns", "VARINT", length), ("reason", "VARINT", reason),
                          ("syscall", "VARINT?", ON_CPU), ("callchain", "STACK", frames),
                          ("poll_start_ns", "VARINT", poll), ("source", "U8", 3),
                          ("lock_addr", "VARINT?", lock))

    def unlock(self, tid, at, lock=LOCK):
        return self.event("WorkerNotifyEvent", at, ("tid", "U32", tid), ("via", "U8", 2),
                          ("target", "VARINT", lock))


MUTEX = "std::sys::sync::mutex::futex::Mutex::lock_contended"


def convoy(holds=True, unlocks=True, lock=LOCK, foreign=False, sleeper=MUTEX):
    """Each round task 1 holds the lock for 20 ms; tasks 2 and 3 wait for it, one by one."""
    trace = LockTrace(sleeper)
    for number in range(20):
        at = (40 * number + 5) * MS
        if holds:
            trace.run(0, at, at + 20 * MS, 1, "app::index")
            trace.off(0, at + 19 * MS, 18 * MS, 1, at, SLEEP, REBUILD, INDEX, reason=1, lock=None)
        trace.run(1, at + MS, at + 21 * MS, 2, "app::handle")
        trace.run(2, at + MS, at + 22 * MS, 3, "app::handle")
        if unlocks:
            trace.unlock(999 if foreign else FIRST_TID, at + 20 * MS - 2000, lock)
        trace.off(1, at + 20 * MS, 18 * MS, 2, at + MS, LOOK_UP, TAKE)
        if unlocks: # the first that waited lets the second in
            trace.unlock(FIRST_TID + 1, at + 20 * MS + 200_000, lock)
        trace.off(2, at + 20 * MS + 300_000, 18 * MS, 3, at + MS, LOOK_UP, TAKE)
    if foreign:
        trace.event("ThreadEvent", 900 * MS, ("tid", "U32", 999), ("name", "STRING", b"refresher"))
    return trace


def held_on_cpu(rounds, waiting=True):
    """Task 1 runs 20 ms on CPU with the lock, each 40 ms; two polls wait for it, or stand behind
    such a poll ready."""
    trace = LockTrace(MUTEX)
    for number in range(rounds):
        at = (40 * number + 5) * MS
        trace.run(0, at, at + 20 * MS, 1, "app::index")
        for sample in range(1, 20):
            trace.event("CpuSampleEvent", at + sample * MS, ("worker_id", "VARINT", 0),
                        ("tid", "U32", FIRST_TID), ("source", "VARINT", 0),
                        ("callchain", "STACK", (REBUILD, INDEX)), ("weight_ns", "VARINT", MS),
                        ("task_id", "VARINT", 1), ("poll_start_ns", "VARINT", at),
                        ("truncated", "BOOL", 0))
        for worker in (1, 2) if waiting else ():
            trace.run(worker, at + 12 * MS, at + 20 * MS + worker * 100_000, 1 + worker,
                      "app::handle")
            trace.unlock(FIRST_TID, at + 20 * MS - 2000)
            trace.off(worker, at + 20 * MS + worker * 50_000, 8 * MS, 1 + worker,
                      at + 12 * MS, LOOK_UP, TAKE)
    return trace


class Locks(Cli):
    def said(self, trace):
        path = trace.save(self.dir / "trace.trc")
        said = json.loads(self.run_kymo("report", "--json", path).out)["findings"]
        return {one["id"]: one for one in said}

    def finding(self, trace):
        return self.said(trace)["lock_convoy"]

    def test_the_task_that_held_it_is_the_culprit_also_of_those_further_back(self):
        one = self.finding(convoy())
        self.assertIn("Polls of app::handle were blocked by a lock that polls of app::index held",
                      one["statement"])
        self.assertEqual(one["culprit"]["task"], "app::index")
        self.assertIn("app::rebuild", json.dumps(one["culprit"]))

    def test_a_thread_of_no_runtime_is_named(self):
        one = self.finding(convoy(holds=False, foreign=True))
        self.assertIn("a lock that another thread held, refresher, for up to", one["statement"])
        self.assertEqual(one["culprit"]["thread"], "refresher")
        self.assertEqual(one["culprit"]["kind"], "thread")
        self.assertIsNone(one["culprit"]["task"])  # who waited is none
        self.assertIn("app::take", json.dumps(one["culprit"]))

    def test_another_lock_that_was_let_go_says_nothing(self):
        for trace in (convoy(lock=OTHER_LOCK), convoy(unlocks=False)):
            one = self.finding(trace)
            self.assertIn("a lock that another thread held for up to", one["statement"])
            self.assertEqual(one["culprit"]["task"], "app::handle")
            self.assertIn("app::take", json.dumps(one["culprit"]))

    def test_a_lock_that_polls_on_cpu_hold_leads_where_others_wait_for_it(self):
        path = held_on_cpu(50).save(self.dir / "trace.trc")
        said = json.loads(self.run_kymo("report", "--json", path).out)["findings"]
        self.assertEqual([(one["id"], one["culprit"]["task"]) for one in said[:2]],
                         [("lock_convoy", "app::index"), ("cpu_heavy_poll", "app::index")])
        self.assertIn("What held it are polls that ran on CPU", said[0]["impact"]["statement"])

    def test_two_waits_for_a_lock_say_nothing(self):
        trace = held_on_cpu(1)
        for number in range(100):
            trace.run(0, (50 + 20 * number) * MS, (50 + 20 * number) * MS + 50_000, 9, "app::serve")
        self.assertEqual(self.finding(trace)["severity"], "info")

    def test_a_thread_that_is_joined_has_no_lock(self):
        """join() sleeps on a futex, too: the kernel wakes it when the thread is gone."""
        trace = convoy(holds=False, unlocks=False, sleeper="__pthread_clockjoin_ex")
        said = self.said(trace)
        self.assertIn("blocking_call", said)
        self.assertNotIn("lock_convoy", said)


if __name__ == "__main__":
    main()
