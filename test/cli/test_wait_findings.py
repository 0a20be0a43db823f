# SPDX-License-Identifier: Apache-2.0 OR MIT
"""Findings about waits, and when they are none: who made a wait end, by the functions of the wake
and of the await point; what a time-out of the program hides; what came only once."""
import json

from cli_case import Cli, main
from trace_maker import SampleTrace

MS = 1_000_000
OWN_SEND, OWN_TAKE, PERMITS, PLACE, TIMER, SLEEP, NOTIFIED, FIRED, GIVEN = range(0x10, 0xa0, 0x10)
ADD_PERMITS = "tokio::sync::batch_semaphore::Semaphore::add_permits_locked"


def started():
    return SampleTrace().metadata(pid=1, service="svc", machine__architecture="x86_64")


def wake(trace, at, waker, woken, *stack, origin=2):
    return trace.event("WakeEventEvent", at, ("waker_task_id", "VARINT", waker),
                       ("woken_task_id", "VARINT", woken), ("target_worker", "U8", 0),
                       ("origin", "U8", origin), ("callchain", "STACK", stack),
                       ("tid", "VARINT", 0))


def waited(trace, end, wait, task, name, *points):
    """A wait that ended, at these points, as the recorder says it."""
    for number, stack in enumerate(points):
        trace.event("AwaitPlaceEvent", end, ("task_id", "VARINT", task),
                    ("callchain", "STACK", stack), ("inclusion_probability", "F64", 1.0),
                    ("since_ns", "VARINT", end - wait), ("polled_ns", "VARINT", end - wait),
                    ("state", "VARINT", 0), ("task_name", "STRING", name.encode()),
                    ("wait_ns", "VARINT", wait), ("point", "VARINT", number))


def full_channel(release, point=None, given=None, is_driven=True, rare=0):
    """app::take releases room to app::send, which waits 20 ms for it each time. given: the function
    of that call, which is on no stack; is_driven: a timer woke app::send; rare: and so many times
    more later."""
    trace = started().symbol(PERMITS, release, 1).symbol(OWN_TAKE, "app::take", 7)
    trace.symbol(OWN_SEND, "app::send", 9).symbol(PLACE, point or "app::send", 3)
    if given:
        trace.symbol(GIVEN, given, 1)
    trace.symbol(FIRED, "tokio::runtime::time::wheel::process_at_time", 1)
    if is_driven:
        wake(trace, MS - 1000, 0, 8, FIRED, origin=3)
    for number in range(rare):
        wake(trace, 400 * MS + number * 10_000, 0, 8, FIRED, origin=3)
        trace.poll(400 * MS + number * 10_000 + 1000, 400 * MS + number * 10_000 + 2000, 8,
                   "app::send")
    trace.poll(MS, MS + 10_000, 8, "app::send")
    for at in range(21 * MS, 400 * MS, 20 * MS):
        trace.poll(at, at + 50_000, 7, "app::take")
        wake(trace, at + 20_000, 7, 8, PERMITS, *([GIVEN] if given else []), OWN_TAKE)
        if point:
            waited(trace, at + 60_000, 20 * MS, 8, "app::send", (PLACE, OWN_SEND))
        trace.poll(at + 60_000, at + 70_000, 8, "app::send")
    return trace


def dispatcher(timed_out=0, second=NOTIFIED, wakes_it=False):
    """app::hub waits at a timeout() beside something, and answers app::call each time; some of its
    waits, of 200 ms, are ended by the timer."""
    trace = started().symbol(OWN_TAKE, "app::hub", 7).symbol(OWN_SEND, "app::call", 9)
    trace.symbol(TIMER, "tokio::time::timeout::Timeout<T>::poll", 1)
    trace.symbol(SLEEP, "tokio::time::sleep::Sleep::poll", 1)
    trace.symbol(FIRED, "tokio::runtime::time::wheel::process_at_time", 1)
    trace.symbol(NOTIFIED, "tokio::sync::notify::Notified::poll", 1)
    trace.symbol(PLACE, "tokio::sync::mpsc::chan::Rx<T,S>::recv", 1)
    at = MS
    for number in range(20 + timed_out):
        is_late = number >= 20
        wait = 200 * MS if is_late else 15 * MS
        trace.poll(at, at + 20_000, 8, "app::call")
        if not is_late or wakes_it:
            wake(trace, at + 10_000, 8, 7, OWN_SEND)
        trace.poll(at + 30_000, at + 40_000, 7, "app::hub")
        end = at + 40_000 + wait
        wake(trace, end, 0 if is_late else 8, 7, *([FIRED] if is_late else [OWN_SEND]),
             origin=3 if is_late else 2)
        waited(trace, end + 10_000, wait, 7, "app::hub", (SLEEP, TIMER, OWN_TAKE),
               (second, TIMER, OWN_TAKE))
        trace.poll(end + 10_000, end + 60_000, 7, "app::hub")
        wake(trace, end + 30_000, 7, 8, OWN_TAKE)
        waited(trace, end + 70_000, end + 50_000 - at, 8, "app::call", (OWN_SEND,))
        at = end + 70_000
    trace.poll(at, at + 10_000, 8, "app::call")
    return trace


class WaitFindings(Cli):
    def alarms(self, trace):
        path = trace.save(self.dir / "trace.trc")
        said = json.loads(self.run_kymo("report", "--json", path).out)["findings"]
        return [(one["id"], one["culprit"]["task"]) for one in said if one["severity"] != "info"]

    def test_a_receiver_of_any_channel_makes_room(self):
        for release in ("flume::Chan<T>::pull_pending", "async_channel::try_recv<u64>",
                        "futures_channel::mpsc::Receiver<T>::next_message"):
            self.assertEqual(self.alarms(full_channel(release)), [("channel_full", "app::take")],
                             release)

    def test_a_source_that_fills_a_channel_is_not_late(self):
        release = "tokio::sync::mpsc::chan::Rx<T,S>::recv"
        self.assertTrue(self.alarms(full_channel(ADD_PERMITS, given=release)))
        self.assertEqual(self.alarms(full_channel(ADD_PERMITS, given=release, is_driven=False)), [])

    def test_one_wait_in_200_wakes_is_none(self):
        release = "tokio::sync::mpsc::chan::Rx<T,S>::recv"
        self.assertEqual(self.alarms(full_channel(ADD_PERMITS, given=release, rare=4000)), [])

    def test_a_lock_is_none_of_what_it_protects(self):
        release = "drop_in_place<tokio::sync::mutex::MutexGuard<tokio::sync::mpsc::bounded::Recv>>"
        self.assertEqual([one[0] for one in self.alarms(full_channel(ADD_PERMITS, given=release))],
                         ["async_lock_held"])

    def test_a_sender_makes_none(self):
        self.assertEqual(self.alarms(full_channel("flume::Shared<T>::send")), [])

    def test_a_lock_that_is_not_tokio_s(self):
        self.assertEqual(self.alarms(full_channel("async_lock::mutex::Mutex<T>::unlock_unchecked")),
                         [("async_lock_held", "app::take")])

    def test_a_release_without_a_name_is_named_by_who_waits(self):
        for point, finding in (("tokio::sync::mutex::Mutex<T>::lock", "async_lock_held"),
                               ("tokio::sync::rwlock::RwLock<T>::read", "async_lock_held"),
                               ("tokio::sync::mpsc::bounded::Sender<T>::send", "channel_full"),
                               ("app::send", "semaphore_exhausted")):
            self.assertEqual(self.alarms(full_channel(ADD_PERMITS, point)),
                             [(finding, "app::take")], point)

    def test_a_release_without_a_name_is_named_by_the_call_that_led_to_it(self):
        drop = "<tokio::sync::semaphore::OwnedSemaphorePermit as core::ops::drop::Drop>::drop"
        room = "<tokio::sync::mpsc::bounded::Semaphore as tokio::sync::mpsc::chan::Semaphore>"
        for given, finding in (("tokio::sync::batch_semaphore::Semaphore::release",
                                "async_lock_held"),
                               (drop, "semaphore_exhausted"),
                               (room + "::add_permit", "channel_full")):
            self.assertEqual(self.alarms(full_channel(ADD_PERMITS, given=given)),
                             [(finding, "app::take")], given)

    def test_a_wait_for_a_permit_that_lasts_is_named_by_those_that_ended(self):
        """Two tasks that send to each other, and at the end wait for room without an end."""
        def circle(released):
            trace = started().symbol(PERMITS, ADD_PERMITS, 1).symbol(GIVEN, released, 1)
            trace.symbol(PLACE, "<tokio::sync::batch_semaphore::Acquire as "
                         "core::future::future::Future>::poll", 3)
            names = {7: ("app::take", OWN_TAKE), 8: ("app::send", OWN_SEND)}
            for name, address in names.values():
                trace.symbol(address, name, 7)
            for number in range(20):
                at = MS + number * 10 * MS
                for task, other in ((7, 8), (8, 7)):
                    trace.poll(at, at + 50_000, task, names[task][0])
                    wake(trace, at + 20_000, task, other, PERMITS, GIVEN, names[task][1])
                    at += 5 * MS
            for task, (name, address) in names.items():
                trace.poll(at, at + 10_000, task, name)
                at += MS
            for task, (name, address) in names.items():
                trace.event("AwaitPlaceEvent", at + 900 * MS, ("task_id", "VARINT", task),
                            ("callchain", "STACK", (PLACE, address)),
                            ("inclusion_probability", "F64", 1.0), ("since_ns", "VARINT", at),
                            ("polled_ns", "VARINT", at - MS), ("state", "VARINT", 1),
                            ("task_name", "STRING", name.encode()),
                            ("wait_ns", "VARINT", 900 * MS), ("point", "VARINT", 0))
            for number in range(20):
                trace.poll(at + number * 45 * MS, at + number * 45 * MS + 20_000, 9, "app::serve")
            return trace

        room = "<tokio::sync::mpsc::bounded::Semaphore as tokio::sync::mpsc::chan::Semaphore>"
        for released in (room + "::add_permit",
                         "tokio::sync::batch_semaphore::Semaphore::release"):
            self.assertEqual(self.alarms(circle(released))[0][0], "mutual_wait", released)

    def test_a_thread_is_joined_by_code_that_has_no_name(self):
        join, block, poll = 0x10, 0x20, 0x30
        trace = started().symbol(join, "<std::sys::thread::unix::Thread>::join", 1)
        trace.symbol(block, "<F as axum::handler::Handler<((),),S>>::call::{{closure}}", 1)
        trace.symbol(poll, "tokio::runtime::task::raw::poll", 1)
        for number in range(20):
            at = MS + number * 30 * MS
            trace.poll(at, at + 18 * MS, 7, "axum::serve::handle_connection::{{closure}}")
            trace.off_cpu(at + 17 * MS, 16 * MS, 7, at, join, block, poll, reason=2, syscall=202)
        self.assertEqual(self.alarms(trace),
                         [("blocking_call", "axum::serve::handle_connection::{{closure}}")])

    def test_a_notify_that_was_missed_and_that_a_time_out_hides(self):
        self.assertEqual(self.alarms(dispatcher(timed_out=4)), [("lost_wake", "app::hub")])

    def test_a_time_out_that_is_no_lost_wake(self):
        self.assertEqual(self.alarms(dispatcher()), [])
        self.assertEqual(self.alarms(dispatcher(timed_out=2)), [])  # it came with the timer
        self.assertEqual(self.alarms(dispatcher(timed_out=4, second=PLACE)), [])  # a batch
        self.assertEqual(self.alarms(dispatcher(timed_out=4, wakes_it=True)), [])

    def test_long_polls_that_came_once_are_no_cause(self):
        def polls(every, length=8 * MS, served_ms=1000):
            trace = started()
            for number in range(6):
                at = MS + number * every
                trace.poll(at, at + length, 7, "app::start")
            for number in range(200):
                at = 600 * MS + number * served_ms * MS // 200
                trace.poll(at, at + 50_000, 8, "app::serve")
            return trace

        self.assertEqual(self.alarms(polls(every=10 * MS)), [])
        # In so short a recording they had no time to come again.
        self.assertEqual(self.alarms(polls(every=10 * MS, served_ms=200)),
                         [("cpu_heavy_poll", "app::start")])
        self.assertEqual(self.alarms(polls(every=60 * MS)), [("cpu_heavy_poll", "app::start")])
        self.assertEqual(self.alarms(polls(every=80 * MS, length=60 * MS)),
                         [("cpu_heavy_poll", "app::start")])


if __name__ == "__main__":
    main()
