# SPDX-License-Identifier: Apache-2.0 OR MIT
"""Findings about waits that nothing ends, and about what makes others wait: a circle beside another
root, room that no receiver makes, tasks that are told to end, locks held within polls, tasks that
never wait; and when such waits are too few to say anything."""
import json

from cli_case import Cli, main
from trace_maker import SampleTrace

MS = 1_000_000
OWN, ANSWER, ROOM, MESSAGE, RELEASE, ASKED, TIMES, LOCKED, POINT = range(0x10, 0xA0, 0x10)


def started():
    trace = SampleTrace().metadata(pid=1, service="svc", machine__architecture="x86_64")
    for address, name in ((ANSWER, "tokio::sync::oneshot::Sender<T>::send"),
                          (ROOM, "tokio::sync::mpsc::bounded::Sender<T>::send"),
                          (MESSAGE, "tokio::sync::mpsc::chan::Tx<T,S>::send"),
                          (RELEASE, "tokio::sync::batch_semaphore::Semaphore::add_permits_locked"),
                          (ASKED, "tokio::sync::oneshot::Receiver<T>::poll"),
                          (TIMES, "tokio::sync::batch_semaphore::Acquire::poll"),
                          (LOCKED, "tokio::sync::mutex::Mutex<T>::lock")):
        trace.symbol(address, name, 1)
    return trace.symbol(OWN, "app::work", 7)


def wake(trace, at, waker, woken, *stack):
    return trace.event("WakeEventEvent", at, ("waker_task_id", "VARINT", waker),
                       ("woken_task_id", "VARINT", woken), ("target_worker", "U8", 0),
                       ("origin", "U8", 2), ("callchain", "STACK", stack), ("tid", "VARINT", 0))


def waits(trace, end, since, task, name, *stack):
    """It waits so at the end."""
    return trace.event("AwaitPlaceEvent", end, ("task_id", "VARINT", task),
                       ("callchain", "STACK", stack), ("inclusion_probability", "F64", 1.0),
                       ("since_ns", "VARINT", since), ("polled_ns", "VARINT", since),
                       ("state", "VARINT", 1), ("task_name", "STRING", name.encode()),
                       ("wait_ns", "VARINT", end - since), ("point", "VARINT", 0))


def pairs(*asked):
    """Each pair (task, debtor): the task waits for an answer of the other one, ten times for 1 ms,
    and then for ever; the last poll of task 9 is the end of the trace."""
    trace = started()
    at = MS
    for number in range(10):
        for task, debtor in asked:
            trace.poll(at, at + 10_000, task, f"app::t{task}")
            trace.poll(at + MS, at + MS + 20_000, debtor, f"app::t{debtor}")
            wake(trace, at + MS + 10_000, debtor, task, ANSWER, OWN)
            trace.poll(at + MS + 30_000, at + MS + 40_000, task, f"app::t{task}")
            at += 2 * MS
    since = {}
    for task, _ in asked:
        trace.poll(at, at + 10_000, task, f"app::t{task}")
        since[task] = at + 10_000
        at += 20_000
    for number in range(20):
        at += 100 * MS
        trace.poll(at, at + 10_000, 9, "app::t9")
    for task, _ in asked:
        waits(trace, at, since[task], task, f"app::t{task}", ASKED, OWN)
    return trace


def hub(stuck=3, wait=2000, every=MS):
    """app::member sends to app::hub, which takes no more: `stuck` of its tasks wait for room."""
    trace = started()
    at = MS
    for number in range(40):
        task = 1 + number % 4
        trace.poll(at, at + 20_000, task, "app::member")
        wake(trace, at + 10_000, task, 8, MESSAGE, OWN)
        trace.poll(at + 30_000, at + 50_000, 8, "app::hub")
        at += every
    since = {}
    for task in range(1, 5):
        trace.poll(at, at + 10_000, task, "app::member")
        since[task] = at + 10_000
        at += 20_000
    for number in range(wait // 100):
        at += 100 * MS
        trace.poll(at, at + 10_000, 9, "app::other")
    for task in range(1, stuck + 1):
        waits(trace, at, since[task], task, "app::member", TIMES, ROOM, OWN)
    return trace


def lock_in_poll(length, rounds=40):
    """app::commit polls for `length` with an asynchronous lock, for which app::read waits."""
    trace = started().symbol(OWN, "app::commit", 7)
    trace.symbol(0x200, "tokio::sync::mutex::MutexGuard<T>::drop", 1)
    at = MS
    for number in range(rounds):
        trace.poll(at, at + 20_000, 2, "app::read")
        trace.poll(at + 30_000, at + length, 1, "app::commit")
        wake(trace, at + length - 10_000, 1, 2, RELEASE, 0x200, OWN)
        trace.poll(at + length + 20_000, at + length + 30_000, 2, "app::read")
        at += 30 * MS
    return trace


def watched(told_ms):
    """app::request starts an app::watch every 10 ms, which waits. At the end a message ends most of
    them, `told_ms` before the runtime is dropped, which cancels the rest."""
    trace = started()
    for number in range(200):
        at = (10 * number + 1) * MS
        trace.poll(at, at + 10_000, 1, "app::request")
        trace.poll(at + 20_000, at + 30_000, 100 + number, "app::watch")
    end = 2010 * MS
    for number in range(200):
        is_told = number < 150
        at = end + number * 20_000 + (0 if is_told else told_ms * MS)
        if is_told:
            trace.poll(at, at + 5000, 100 + number, "app::watch")
        trace.event("TaskTerminateEvent", at + 6000, ("task_id", "VARINT", 100 + number),
                    ("cancelled", "BOOL", int(not is_told)))
    return trace


def left(point, polls=200):
    """app::request starts an app::clean every 10 ms, which waits at that point to the end."""
    trace, end = started(), 2010 * MS
    trace.symbol(POINT, point, 1)
    for number in range(polls):
        at = (10 * number + 1) * MS
        trace.poll(at, at + 10_000, 1, "app::request")
        trace.poll(at + 20_000, at + 30_000, 100 + number, "app::clean")
    for number in range(polls):
        waits(trace, end, (10 * number + 1) * MS + 30_000, 100 + number, "app::clean", POINT, OWN)
    return trace


def pool(begun=(20, 21), submitted=(22, 23, 24), name="app::watch"):
    """Tasks 8 to 10 each submit a closure and await it; closures that begin never return."""
    trace, end = started(), 2200 * MS
    trace.symbol(POINT, "<tokio::runtime::task::join::JoinHandle<T> as Future>::poll", 1)
    for number, closure in enumerate(begun):
        trace.event("BlockingRunStartEvent", (1 + number) * MS, ("tid", "U32", 30 + number),
                    ("task_id", "VARINT", closure), ("spawn_loc", "STRING", name.encode()))
    for number, closure in enumerate(submitted):
        at = (100 + number) * MS
        trace.poll(at, at + 50_000, 8 + number, "app::upload")
        trace.event("SpawnWindowEvent", at + 50_000, ("tid", "U32", 11),
                    ("worker_id", "VARINT", 0), ("task_id", "VARINT", 8 + number),
                    ("begin_ns", "VARINT", at), ("first_id", "VARINT", closure),
                    ("count", "VARINT", 1))
    for number in range(20):
        at = (200 + 100 * number) * MS
        trace.poll(at, at + 50_000, 5, "app::tick")
    for number in range(len(submitted)):
        waits(trace, end, (100 + number) * MS + 50_000, 8 + number, "app::upload", POINT, OWN)
    return trace


def spinning(events, polls=20_000):
    """app::spin is woken in the worker's loop after each poll; a timer wakes app::tick at times. No
    function of I/O wakes: `events` is what the driver returned at each look."""
    trace = started()
    trace.symbol(0x310, "tokio::runtime::scheduler::multi_thread::worker::Context::run", 1)
    trace.symbol(0x320, "tokio::runtime::time::wheel::Wheel::poll", 1)
    for number in range(polls):
        at = MS + 20_000 * number
        trace.poll(at, at + 1000, 1, "app::spin")
        trace.event("DriverTurnEvent", at + 2000, ("worker_id", "VARINT", 0),
                    ("duration_ns", "VARINT", 500), ("ready_count", "VARINT", events))
        for task, stack in ((1, 0x310), (2, 0x320)) if number % 100 == 0 else ((1, 0x310),):
            trace.event("WakeEventEvent", at + 2500 + task, ("waker_task_id", "VARINT", 0),
                        ("woken_task_id", "VARINT", task), ("target_worker", "U8", 0),
                        ("origin", "U8", 3), ("callchain", "STACK", (stack,)),
                        ("tid", "VARINT", 0))
        if number % 100 == 0:
            trace.poll(at + 5000, at + 6000, 2, "app::tick")
    return trace


def accepting(spawners=1, pending=5):
    """A task spawns one for each connection, which the driver wakes for I/O, and waits for 25 ms
    elsewhere each time; it never waits in accept()."""
    trace = started().symbol(0x330, "tokio::runtime::io::scheduled_io::ScheduledIo::wake", 1)
    child = 100
    for number in range(40):
        for task in range(1, 1 + spawners):
            at = (30 * number + 10 * task) * MS
            trace.poll(at, at + 50_000, task, f"app::listen{task}")
            trace.event("SpawnWindowEvent", at + 50_000, ("tid", "U32", 11),
                        ("worker_id", "VARINT", 0), ("task_id", "VARINT", task),
                        ("begin_ns", "VARINT", at), ("first_id", "VARINT", child),
                        ("count", "VARINT", 1))
            trace.poll(at + 60_000, at + 70_000, child, "app::serve")
            trace.event("WakeEventEvent", at + MS, ("waker_task_id", "VARINT", 0),
                        ("woken_task_id", "VARINT", child), ("target_worker", "U8", 0),
                        ("origin", "U8", 3), ("callchain", "STACK", (0x330,)),
                        ("tid", "VARINT", 0))
            trace.poll(at + MS + 10_000, at + MS + 20_000, child, "app::serve")
            waits(trace, at + 29 * MS, at + 50_000, task, f"app::listen{task}", OWN)
            trace.event("TaskTerminateEvent", at + 2 * MS, ("task_id", "VARINT", child),
                        ("cancelled", "BOOL", 0))
            child += 1
        trace.event("TcpAcceptQueueEvent", (30 * number + 5) * MS, ("socket_cookie", "VARINT", 7),
                    ("socket_inode", "VARINT", 9), ("ip_version", "U8", 4),
                    ("local_addr", "STRING", b"127.0.0.1"), ("local_port", "U16", 80),
                    ("pending_connections", "U32", pending), ("backlog_limit", "U32", 128))
    return trace


def driven(polls=10, length=20 * MS, is_current=True, sampled=True):
    """A root is polled for long, again and again, and a task that became ready meanwhile waits."""
    trace, root = started(), 1 << 39 | is_current << 32 | 1
    for number in range(60):  # the sampler is on
        trace.poll(MS + number * 20 * MS, MS + number * 20 * MS + 90_000, 3, "app::other")
        trace.cpu(MS + number * 20 * MS + 50_000, 1000, 3, MS + number * 20 * MS, OWN)
    for number in range(polls):
        at = (3 + 100 * number) * MS
        trace.event("WakeEventEvent", at + length // 2, ("waker_task_id", "VARINT", 0),
                    ("woken_task_id", "VARINT", 8), ("target_worker", "U8", 0),
                    ("origin", "U8", 3), ("callchain", "STACK", ()), ("tid", "VARINT", 0))
        trace.event("RootPollEvent", at + length + 10_000, ("task_id", "VARINT", root),
                    ("name", "STRING", b"block_on (current-thread)"), ("tid", "U32", 11),
                    ("begin_min_ns", "VARINT", at - 10_000), ("begin_max_ns", "VARINT", at),
                    ("end_min_ns", "VARINT", at + length), ("woken_ns", "VARINT", at - 5000),
                    ("pending", "BOOL", 1))
        if sampled:
            trace.cpu(at + length // 2, length, 0, 0, OWN)
        trace.poll(at + length + 20_000, at + length + 30_000, 8, "app::tick")
    trace.event("WorkerUnparkEvent", 2 * MS, ("worker_id", "VARINT", 0), ("tid", "U32", 11))
    return trace


def streamed(tasks, length=300_000, ticks=0):
    """Tasks of app::trade of one worker: each is polled, yields, and is woken after the others.
    `ticks`: so many times app::tick is woken by a timer, and polled after all of them."""
    trace = started().symbol(0x300, "tokio::runtime::scheduler::defer::Defer::wake", 1)
    trace.symbol(0x301, "tokio::runtime::time::wheel::Wheel::poll", 1)
    for number in range(6000 // tasks):
        at = MS + number * tasks * length
        if number < ticks:
            trace.event("WakeEventEvent", at - 4000, ("waker_task_id", "VARINT", 0),
                        ("woken_task_id", "VARINT", 900), ("target_worker", "U8", 0),
                        ("origin", "U8", 3), ("callchain", "STACK", (0x301,)),
                        ("tid", "VARINT", 0))
            trace.poll(at + tasks * length - 9000, at + tasks * length - 8000, 900, "app::tick")
        for task in range(tasks):
            at = MS + (number * tasks + task) * length
            trace.event("WakeEventEvent", at - 5000, ("waker_task_id", "VARINT", 0),
                        ("woken_task_id", "VARINT", 1 + task), ("target_worker", "U8", 0),
                        ("origin", "U8", 3), ("callchain", "STACK", (0x300,)),
                        ("tid", "VARINT", 0))
            trace.poll(at, at + length - 10_000, 1 + task, "app::trade")
    return trace


class StuckFindings(Cli):
    def said(self, trace):
        path = trace.save(self.dir / "trace.trc")
        said = json.loads(self.run_kymo("report", "--json", path).out)["findings"]
        return [one for one in said if one["severity"] != "info"]

    def alarms(self, trace):
        return [(one["id"], one["culprit"]["task"]) for one in self.said(trace)]

    def test_a_circle_beside_another_root(self):
        """1 waits for 9, which lives; 2 and 3 for each other, and 4 for one of them."""
        found = {one["id"]: one for one in self.said(pairs((1, 9), (2, 3), (3, 2), (4, 3)))}
        self.assertEqual(set(found), {"lost_wake", "mutual_wait"})
        self.assertEqual(found["lost_wake"]["culprit"]["task"], "app::t1")
        self.assertEqual(found["lost_wake"]["impact"]["victims"], 1)
        self.assertEqual(found["mutual_wait"]["culprit"]["task"], "app::t2")
        self.assertEqual(found["mutual_wait"]["impact"]["victims"], 3)

    def test_two_circles(self):
        found = self.said(pairs((1, 2), (2, 1), (3, 4), (4, 3)))
        self.assertEqual([(one["id"], one["impact"]["victims"]) for one in found],
                         [("mutual_wait", 2)] * 2)

    def test_the_first_waits_for_room_that_does_not_come(self):
        self.assertEqual(self.alarms(hub()), [("channel_full", "app::hub")])

    def test_few_or_short_waits_for_room_say_nothing(self):
        self.assertEqual(self.alarms(hub(stuck=2)), [])
        self.assertEqual(self.alarms(hub(wait=500, every=30 * MS)), [])

    def test_a_lock_that_is_held_within_a_poll_is_that_poll_s_doing(self):
        self.assertEqual(self.alarms(lock_in_poll(10 * MS)), [("cpu_heavy_poll", "app::commit")])

    def test_few_or_short_waits_for_a_lock_say_nothing(self):
        self.assertEqual(self.alarms(lock_in_poll(2 * MS)), [])

    def test_tasks_that_are_told_to_end_at_the_end_were_a_leak(self):
        for told_ms in (0, 5):
            self.assertEqual(self.alarms(watched(told_ms)), [("task_leak", "app::watch")])

    def test_tasks_that_are_left_at_a_timer_may_be_a_leak_and_connections_are_none(self):
        (one,) = self.said(left("tokio::time::sleep::Sleep::poll_elapsed"))
        self.assertEqual((one["id"], one["confidence"], one["culprit"]["task"]),
                         ("task_leak", "possible", "app::clean"))
        self.assertEqual(self.alarms(left("tokio::net::TcpStream::poll_read")), [])

    def test_closures_that_never_get_a_thread_exhaust_the_pool(self):
        (one,) = self.said(pool())
        self.assertEqual((one["id"], one["severity"], one["culprit"]["task"]),
                         ("blocking_pool_exhausted", "critical", "app::watch"))
        self.assertEqual(one["impact"]["victims"], 3)
        self.assertIn("2 closures run", one["statement"])

    def test_functions_that_were_made_one_stand_together_for_what_nobody_awaits(self):
        folded = "tokio::runtime::blocking::task::BlockingTask<app::{}>"
        (one,) = self.said(pool(name=" or ".join(folded.format(f) for f in ("scan", "hash"))))
        self.assertIn("closures of app::scan or app::hash", one["statement"])

    def test_closures_that_run_for_long_are_no_line(self):
        """Those that are awaited run, or a later one began, or none of the program's runs."""
        for trace in (pool(begun=(20, 21, 22, 23, 24)), pool(begun=(20, 25)), pool(begun=())):
            self.assertEqual(self.alarms(trace), [])

    def test_what_the_loop_wakes_without_events_of_the_driver_has_yielded(self):
        self.assertEqual(self.alarms(spinning(0)), [("self_wake_loop", "app::spin")])
        self.assertEqual(self.alarms(spinning(1)), [])

    def test_who_spawns_a_task_for_each_connection_accepts_them(self):
        (one,) = self.said(accepting())
        self.assertEqual((one["id"], one["confidence"], one["culprit"]["task"]),
                         ("accept_delayed", "possible", "app::listen1"))
        self.assertEqual(self.alarms(accepting(spawners=2)), [])
        self.assertEqual(self.alarms(accepting(pending=0)), [])

    def test_the_future_that_drives_a_runtime_holds_its_tasks(self):
        (one,) = self.said(driven())
        self.assertEqual((one["id"], one["culprit"]["task"], one["culprit"]["function"]),
                         ("cpu_heavy_poll", "block_on (current-thread)", "app::work"))
        self.assertEqual(one["impact"]["victims"], 10)
        self.assertEqual(self.alarms(driven(sampled=False)),
                         [("blocking_call", "block_on (current-thread)")])
        for trace in (driven(polls=2), driven(length=2 * MS), driven(is_current=False)):
            self.assertEqual(self.alarms(trace), [])

    def test_a_batch_that_keeps_all_workers_busy_overloads_nobody(self):
        for tasks in (1, 3, 20):
            self.assertEqual(self.alarms(streamed(tasks)), [])
        self.assertEqual(self.alarms(streamed(20, ticks=2)), [])

    def test_a_batch_behind_which_timers_are_late_is_an_overload(self):
        self.assertEqual(self.alarms(streamed(20, ticks=3)), [("overload", "app::trade")])


if __name__ == "__main__":
    main()
