# SPDX-License-Identifier: Apache-2.0 OR MIT
"""`kymo why`: the parts of a delay, against a model that knows where each task stood."""
import bisect
import collections
import json
import sys

from cli_case import Cli, main
from made_trace import START_NS, WORKER, MadeTrace
from tokio_queues import Model
from trace_maker import Trace

KINDS = {"behind_poll.unsplit": "poll", "lifo": "poll", "parked_notified": "notified",
         "parked_unnotified": "parked", "runtime": "runtime"}


def write(model, place=lambda task: "svc::task"):
    trace = Trace().metadata(pid=1)
    for time, name, fields in model.events:
        time += START_NS
        if name == "start":
            trace.event("PollStartEvent", time, (*WORKER, fields[0]),
                        ("task_id", "VARINT", fields[1]),
                        ("spawn_loc", "STRING", place(fields[1]).encode()))
        elif name == "end":
            trace.event("PollEndEvent", time, (*WORKER, fields[0]))
        elif name == "wake":
            trace.event("WakeEventEvent", time, ("waker_task_id", "VARINT", fields[0]),
                        ("woken_task_id", "VARINT", fields[1]),
                        ("target_worker", "U8", fields[2]))
        elif name == "notify":
            worker, is_driver = fields
            trace.event("WorkerNotifyEvent", time, ("tid", "U32", 1),
                        ("via", "U8", 3 if is_driver else 2),
                        ("target", "VARINT", 9 if is_driver else 0x7F00_0000_1000 + 64 * worker))
        elif name == "park":
            trace.event("WorkerParkEvent", time, (*WORKER, fields[0]),
                        ("tid", "U32", 100 + fields[0]), ("wait", "U8", 1 if fields[1] else 2))
        elif name == "cost":
            worker, start, cpu_ns, delay_ns = fields
            trace.event("PollCostEvent", time, (*WORKER, worker), ("tid", "U32", 100 + worker),
                        ("start_ns", "VARINT", START_NS + start), ("on_cpu", "BOOL", 0),
                        ("cpu_time_ns", "VARINT", cpu_ns), ("gap_ns", "VARINT", 0),
                        ("run_delay_ns", "VARINT?", delay_ns))
        elif name == "spawn":
            trace.event("TaskSpawnEvent", time, ("task_id", "VARINT", fields[0]),
                        ("spawn_loc", "STRING", place(fields[0]).encode()),
                        ("instrumented", "BOOL", 1))
        elif name == "terminate":
            trace.event("TaskTerminateEvent", time, ("task_id", "VARINT", fields[0]),
                        ("cancelled", "BOOL", 0))
        else:
            trace.event("WorkerUnparkEvent", time, (*WORKER, fields[0]),
                        ("tid", "U32", 100 + fields[0]))
    return trace


def placed(delay):
    """Parts of a delay with their begin and end."""
    at = delay["ready_ns"] - START_NS
    for part in delay["timeline"]:
        yield at, at + part["ns"], part
        at += part["ns"]


def compare(model, said):
    """ns of one delay: right, wrong, unknown."""
    sums = collections.Counter()
    start_ns = said["ready_ns"] - START_NS + said["delay_ns"]
    truth = model.truth(model.by_start[said["task"], start_ns])
    first = 0
    for start, end, part in placed(said):
        while first < len(truth) and truth[first][1] <= start:
            first += 1
        for since, until, what, poll in truth[first:bisect.bisect_left(truth, (end,))]:
            length = min(end, until) - max(start, since)
            if length <= 0:
                continue
            if part["part"].startswith("unknown") or part["part"] == "parked_unsplit":
                sums["unknown"] += length
                continue
            is_right = KINDS.get(part["part"]) == what
            if what == "poll" and is_right:
                is_right = part["poll"]["start_ns"] - START_NS == poll
            sums["right" if is_right else "wrong"] += length
            if part["part"].startswith("parked"):
                sums["parked right" if is_right else "parked wrong"] += length
    return sums


class Why(Cli):
    def why(self, path, *options):
        return json.loads(self.run_kymo("why", "--json", *options, path).out)

    def test_parts_of_a_delay_are_those_of_the_model(self):
        sums = collections.Counter()
        for seed in range(12):
            model = Model(seed)
            path = write(model).save(self.dir / f"model-{seed}")
            found = self.why(path, "--over", "20us", "--worst", 200)
            self.assertTrue(found["worst"])
            for delay in found["worst"]:
                self.assertEqual(sum(part["ns"] for part in delay["timeline"]), delay["delay_ns"])
                self.assertEqual(sum(delay["parts"].values()), delay["delay_ns"])
                sums += compare(model, delay)
        known = sums["right"] + sums["wrong"]
        self.assertGreaterEqual(sums["right"], 0.99 * known, sums)
        self.assertLessEqual(sums["unknown"], 0.01 * (known + sums["unknown"]), sums)
        self.assertGreater(sums["parked right"], 0)
        self.assertLessEqual(sums["parked wrong"], 0.01 * sums["parked right"], sums)


class Parts(MadeTrace):
    """Worker 0 of a made trace; task 7 is woken at 1 ms and polled at 11 ms."""
    KIND, MS = "svc::other", 1_000_000

    def late(self):
        """Task 7 waits for 10 ms, and what it waited for comes between."""
        self.poll(0, 1000, 7, "svc::late")
        self.wake(self.MS, 7)

    def said(self, *options):
        self.poll(11 * self.MS, 1000, 7, "svc::late")
        path = self.trace.save(self.dir / "trace")
        text = self.run_kymo("why", path).out
        return json.loads(self.run_kymo("why", "--json", *options, path).out), text

    def test_polls_of_others_are_named_with_their_sum(self):
        self.late()
        self.poll(2 * self.MS, 4 * self.MS, 8)
        self.poll(7 * self.MS, 3 * self.MS, 9)
        found, text = self.said()
        self.assertEqual(found["worst"][0]["parts"],
                         {"behind_poll.unsplit": 7 * self.MS, "runtime": 3 * self.MS})
        self.assertEqual(found["groups"][0]["longest_poll"],
                         {"task": 8, "name": "svc::other", "start_ns": START_NS + 2 * self.MS,
                          "duration_ns": 4 * self.MS})
        self.assertIn("svc::late waited for polls of svc::other (1 delay, polls up to 4.00 ms)",
                      text)
        self.assertIn("waited for 2 polls of svc::other (up to 4.00 ms)", text)

    def test_a_poll_with_its_cost_is_split(self):
        self.late()
        self.poll(2 * self.MS, 8 * self.MS, 8)
        self.event("PollCostEvent", 10 * self.MS + 1, (*WORKER, 0), ("tid", "U32", 5),
                   ("start_ns", "VARINT", START_NS + 2 * self.MS),
                   ("cpu_time_ns", "VARINT", 5 * self.MS), ("on_cpu", "BOOL", 0),
                   ("gap_ns", "VARINT", 0), ("run_delay_ns", "VARINT?", 2 * self.MS))
        found, text = self.said()
        self.assertEqual(found["worst"][0]["parts"],
                         {"behind_poll.on_cpu": 5 * self.MS, "behind_poll.blocked": self.MS,
                          "behind_poll.runnable": 2 * self.MS, "runtime": 2 * self.MS})
        self.assertIn("on CPU 5.00 ms, blocked 1.00 ms, waiting for a CPU 2.00 ms", text)

    def test_a_parked_worker_and_lost_records_have_their_parts(self):
        self.late()
        self.event("WorkerParkEvent", 2 * self.MS, (*WORKER, 0), ("tid", "U32", 5))
        self.event("WorkerUnparkEvent", 5 * self.MS, (*WORKER, 0), ("tid", "U32", 5))
        found, text = self.said()
        self.assertEqual(found["worst"][0]["parts"],
                         {"parked_unsplit": 3 * self.MS, "runtime": 7 * self.MS})
        self.assertIn("its worker was parked", text)

    def notify(self, at, target=0x1000, via=2):
        self.event("WorkerNotifyEvent", at, ("tid", "U32", 9), ("via", "U8", via),
                   ("target", "VARINT", target))

    def park(self, at, until, wait, worker=0):
        self.event("WorkerParkEvent", at, (*WORKER, worker), ("tid", "U32", 5 + worker),
                   ("wait", "U8", wait))
        self.event("WorkerUnparkEvent", until, (*WORKER, worker), ("tid", "U32", 5 + worker))

    def test_a_park_is_split_where_the_worker_was_notified(self):
        for at in (100, 200, 300):  # the address is learned
            self.park(at * 1000, at * 1000 + 9000, 2)
            self.notify(at * 1000 + 5000)
        self.late()
        self.park(2 * self.MS, 9 * self.MS, 2)
        self.notify(6 * self.MS)
        found, text = self.said()
        self.assertEqual(found["worst"][0]["parts"],
                         {"parked_unnotified": 4 * self.MS, "parked_notified": 3 * self.MS,
                          "runtime": 3 * self.MS})
        self.assertIn("the kernel woke it late", text)

    def describe(self, at, worker, futex=None, eventfd=None):
        self.event("WorkerEvent", at, (*WORKER, worker), ("runtime_id", "VARINT?", worker),
                   ("index", "VARINT?", worker), ("tid", "U32", 5 + worker), ("exact", "BOOL", 1),
                   ("ended", "BOOL", 0), ("identity", "VARINT", 7 + worker),
                   ("futex", "VARINT?", futex), ("eventfd", "VARINT?", eventfd))

    def test_a_futex_that_the_trace_names_is_not_learned(self):
        self.describe(50_000, 0, futex=0x1000)
        self.describe(50_000, 1, futex=0x2000)
        self.late()
        self.park(2 * self.MS, 9 * self.MS, 2)
        self.park(2 * self.MS, 8 * self.MS, 2, worker=1)
        self.notify(3 * self.MS, target=0x2000)
        self.notify(6 * self.MS)
        parts = self.said()[0]["worst"][0]["parts"]
        self.assertEqual((parts["parked_unnotified"], parts["parked_notified"]),
                         (4 * self.MS, 3 * self.MS))

    def test_a_driver_is_notified_by_its_own_descriptor_alone(self):
        self.describe(50_000, 0, eventfd=7)
        self.describe(50_000, 1, eventfd=9)
        self.late()
        self.park(2 * self.MS, 9 * self.MS, 1)
        self.park(2 * self.MS, 8 * self.MS, 1, worker=1)
        self.notify(3 * self.MS, target=9, via=3)
        self.notify(5 * self.MS, target=7, via=3)
        parts = self.said()[0]["worst"][0]["parts"]
        self.assertEqual((parts["parked_unnotified"], parts["parked_notified"]),
                         (3 * self.MS, 4 * self.MS))

    def test_the_driver_is_notified_by_its_descriptor(self):
        self.late()
        self.park(2 * self.MS, 9 * self.MS, 1)
        self.notify(3 * self.MS, target=7, via=3)
        parts = self.said()[0]["worst"][0]["parts"]
        self.assertEqual((parts["parked_unnotified"], parts["parked_notified"]),
                         (self.MS, 6 * self.MS))

    def timer(self, timeout_ms, *between):
        """Task 7 is woken by the driver 12 ms after the trace begins, polled 2 ms later."""
        self.poll(0, 1000, 7, "svc::late")
        self.event("WorkerParkEvent", self.MS, (*WORKER, 0), ("tid", "U32", 5), ("wait", "U8", 1),
                   ("timeout_ms", "VARINT?", timeout_ms))
        self.event("WorkerUnparkEvent", 4 * self.MS, (*WORKER, 0), ("tid", "U32", 5))
        for task in between:
            self.poll(5 * self.MS, 5 * self.MS, task)
        self.event("DriverTurnEvent", 12 * self.MS - 1, (*WORKER, 0),
                   ("duration_ns", "VARINT", 1000), ("ready_count", "VARINT", 0))
        self.wake(12 * self.MS, 7, origin=3)
        self.poll(14 * self.MS, 1000, 7, "svc::late")
        path = self.trace.save(self.dir / "trace")
        return json.loads(self.run_kymo("why", "--json", path).out)["worst"][0]["timer_late_max_ns"]

    def test_a_timer_was_due_when_the_last_park_was_to_end(self):
        self.assertEqual(self.timer(5, 8), 7 * self.MS)

    def test_a_timer_that_was_set_since_was_due_no_one_knows_when(self):
        self.assertIsNone(self.timer(5, 7))

    def test_a_park_without_a_time_out_says_of_no_timer_when_it_was_due(self):
        self.assertIsNone(self.timer(None, 8))

    def test_a_worker_that_goes_to_another_thread_is_a_handover(self):
        self.park(10_000, 20_000, 2)
        self.late()
        self.poll(2 * self.MS, 2 * self.MS, 8)
        self.event("BlockInPlaceEvent", 4 * self.MS, (*WORKER, 0), ("from_tid", "U32", 5),
                   ("to_tid", "U32", 6))
        found, _ = self.said()
        self.assertEqual(found["worst"][0]["parts"],
                         {"behind_poll.unsplit": 2 * self.MS, "handover": 7 * self.MS,
                          "runtime": self.MS})

    def test_what_other_workers_did_meanwhile_is_beside_the_parts(self):
        self.late()
        self.poll(2 * self.MS, 8 * self.MS, 8)
        self.poll(100, 3 * self.MS - 100, 9, worker=1)
        self.park(3 * self.MS, 9 * self.MS, 2, worker=1)
        self.wake(4 * self.MS, 7)
        self.wake(5 * self.MS, 7)
        found, text = self.said()
        worst = found["worst"][0]
        self.assertEqual((worst["idle_peer_ns"], worst["all_busy_ns"], worst["redundant_wakes"]),
                         (6 * self.MS, self.MS, 2))
        self.assertIn("another worker was parked for 6.00 ms of it", text)
        self.assertIn("it was woken 2 more times meanwhile", text)

    def test_the_time_in_which_no_worker_looked_for_io_is_before_the_delay(self):
        turn = (*WORKER, 0), ("duration_ns", "VARINT", 1000), ("ready_count", "VARINT", 1)
        self.event("DriverTurnEvent", 1000, *turn)
        self.poll(2000, 20 * self.MS, 8, "svc::hog")
        self.event("DriverTurnEvent", 20 * self.MS + 9000, *turn)
        self.event("WakeEventEvent", 20 * self.MS + 9500, ("waker_task_id", "VARINT", 0),
                   ("woken_task_id", "VARINT", 7), ("target_worker", "U8", 0), ("origin", "U8", 3))
        self.poll(20 * self.MS + 10_000, 2 * self.MS, 9)
        self.poll(23 * self.MS, 1000, 7, "svc::late")
        path = self.trace.save(self.dir / "trace")
        worst = json.loads(self.run_kymo("why", "--json", path).out)["worst"][0]
        self.assertEqual(worst["driver_gap_ns"], 20 * self.MS + 8500)
        self.assertEqual(worst["driver_gap_poll"]["name"], "svc::hog")
        self.assertIn("no worker checked for I/O and timers for 20.0 ms, as the last one to check "
                      "was in a poll of svc::hog (20.0 ms)", self.run_kymo("why", path).out)

    def test_a_long_poll_is_split_by_what_it_did_itself(self):
        self.poll(2 * self.MS, 8 * self.MS, 8, "svc::hog")
        for name, at in (("NestedPollStartEvent", 3), ("NestedPollEndEvent", 5)):
            self.event(name, at * self.MS, (*WORKER, 0), ("tid", "U32", 5),
                       ("depth", "VARINT", 1), ("task_id", "VARINT", 20),
                       ("spawn_loc", "STRING", b"svc::inner"))
        self.park(30 * self.MS, 31 * self.MS, 2)
        found = self.said()[0]["polls"]
        self.assertEqual([(poll["name"], poll["parts"]) for poll in found],
                         [("svc::hog", {"nested": 2 * self.MS, "own_unsplit": 6 * self.MS}),
                          ("svc::inner", {"own_unsplit": 2 * self.MS})])

    def test_the_function_of_the_polls_is_named(self):
        self.trace.event("SymbolTableEntry", 0, ("addr", "VARINT", 0x5000),
                         ("size", "VARINT", 64), ("symbol_name", "STRING", b"svc::report::render"),
                         ("inline_depth", "VARINT", 0),
                         ("source_file", "STRING", b"src/report.rs"), ("source_line", "VARINT", 41))
        self.late()
        self.poll(2 * self.MS, 8 * self.MS, 8)
        for at in (3, 4, 5, 6):
            self.event("CpuSampleEvent", at * self.MS, (*WORKER, 0), ("tid", "U32", 5),
                       ("source", "U8", 0), ("callchain", "STACK", [0x5000]))
        self.park(30 * self.MS, 31 * self.MS, 2)
        found, text = self.said()
        code = found["groups"][0]["code"]
        self.assertEqual((code["function"], code["line"], code["of"]),
                         ("svc::report::render", 41, 4))
        self.assertIn("80.0 % of the slow time from wake to poll of svc::late was spent waiting "
                      "for polls of svc::other (up to 8.00 ms, on CPU in svc::report::render at "
                      "src/report.rs:41).", text)

    def test_a_steal_is_seen_by_what_stood_later_in_the_queue(self):
        self.late()
        self.poll(100, 0, 8)  # worker 0 is in it until the end
        self.wake(2 * self.MS, 9, waker=8)
        self.poll(4 * self.MS, 3 * self.MS, 9, worker=1)  # stolen with 7, and polled first
        self.poll(11 * self.MS, 1000, 7, "svc::late", worker=1)
        path = self.trace.save(self.dir / "trace")
        found = json.loads(self.run_kymo("why", "--json", "--over", "5ms", path).out)
        delay = found["worst"][0]
        self.assertTrue(delay["moved"])
        self.assertEqual((delay["home"], delay["worker"], delay["steals"]), (0, 1, 1))
        polls = [(part.get("poll", {}).get("task"), part["worker"]) for part in delay["timeline"]]
        self.assertIn((9, 1), polls)
        self.assertEqual(sum(delay["parts"].values()), delay["delay_ns"])

    def test_a_task_without_a_recorded_wake_is_said_to_be_unknown(self):
        for at, delay in ((0, None), (9 * self.MS, 4 * self.MS)):
            self.event("PollStartEvent", at, (*WORKER, 0), ("task_id", "VARINT", 7),
                       ("spawn_loc", "STRING", b"svc::late"),
                       ("scheduling_delay_ns", "VARINT?", delay))
            self.event("PollEndEvent", at + 10, (*WORKER, 0))
        path = self.trace.save(self.dir / "trace")
        found = json.loads(self.run_kymo("why", "--json", path).out)
        self.assertEqual(found["worst"][0]["parts"], {"unknown.no_wake": 4 * self.MS})

    def test_a_healthy_trace_says_so(self):
        self.poll(0, 1000, 7, "svc::late")
        self.wake(2000, 7)
        self.poll(3000, 1000, 7, "svc::late")
        text = self.run_kymo("why", self.trace.save(self.dir / "trace")).out
        self.assertIn("0 of them slow", text)
        self.assertIn("No task waited longer than that", text)

    def test_wrong_words_have_one_sentence(self):
        path = self.trace.save(self.dir / "trace")
        self.fails("why", "--worst", "0", path, code=2, says=["--worst", "1 to 1000"])
        self.fails("why", "--over", "1", path, code=2, says=["--over", "'1'"])
        self.fails("why", "--task", "99", path, says=["no task 99"])
        self.fails("why", self.dir / "none", says=["none"])


class Recorded(Cli):
    def test_parts_add_up_in_the_traces_of_dial9(self):
        for name in ("dial9-0.5.7-demo.bin.gz", "dial9-2026-05-demo.bin.gz"):
            found = json.loads(self.run_kymo("why", "--json", "--worst", 1000, name).out)
            self.assertEqual(sum(found["parts"].values()), found["slow_ns"])
            self.assertEqual(sum(group["ns"] for group in found["groups"]), found["slow_ns"])
            for delay in found["worst"]:
                self.assertEqual(sum(part["ns"] for part in delay["timeline"]), delay["delay_ns"])


if __name__ == "__main__":
    sys.exit(main())
