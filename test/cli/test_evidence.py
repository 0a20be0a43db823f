# SPDX-License-Identifier: Apache-2.0 OR MIT
"""What `info` and `report` say of made traces: nothing but what their events prove."""
import json
import sys

from cli_case import Cli, main
from trace_maker import Trace

WORKER = ("worker_id", "VARINT")
TASK = ("task_id", "VARINT")


class Made(Trace):
    def start(self, time, worker, task, name="svc::task"):
        return self.event("PollStartEvent", time, (*WORKER, worker), (*TASK, task),
                          ("spawn_loc", "STRING", name.encode()))

    def end(self, time, worker):
        return self.event("PollEndEvent", time, (*WORKER, worker))

    def poll(self, time, duration, worker, task, name="svc::task"):
        return self.start(time, worker, task, name).end(time + duration, worker)

    def lost(self, time, cause, count):
        return self.event("LossEvent", time, ("tid", "U32", 0), ("record_count", "VARINT", count),
                          ("exact", "BOOL", 1), ("from_ns", "VARINT", time - 1),
                          ("to_ns", "VARINT", time), ("cause", "STRING", cause.encode()))


class Evidence(Cli):
    def says(self, trace):
        path = trace.save(self.dir / "trace")
        info, report = self.run_kymo("info", path), self.run_kymo("report", "--full", path)
        return (info.out, json.loads(self.run_kymo("info", "--json", path).out), report.out,
                json.loads(self.run_kymo("report", "--json", path).out)["tables"])

    def test_samples_that_were_lost_are_a_loss(self):
        trace = Made().metadata(pid=1).poll(1000, 500, 0, 7)
        trace.event("GatesEvent", 1200, ("tid", "U32", 1), ("gates", "VARINT", 1))
        trace.lost(1300, "cpu-samples", 53000).lost(1300, "place-samples", 643)
        info, info_json, report, report_json = self.says(trace)
        self.assertIn("Losses    53,643 samples (53,000 CPU, 643 await points); polls", info)
        self.assertNotIn("none", info)
        self.assertIn(", 53,643 SAMPLES LOST\n", report)
        self.assertIn("53,643 samples (53,000 CPU, 643 await points)\n", report)
        for one in (info_json, report_json):
            self.assertEqual(one["lost_samples"], {"all": 53643, "cpu": 53000, "off_cpu": 0,
                                                   "await_points": 643, "allocations": 0,
                                                   "frees": 0})
            self.assertEqual(one["lost_records"], 0)
            self.assertEqual(one["losses"], [])

    def test_each_kind_of_loss_has_its_row(self):
        trace = Made().metadata(pid=1).poll(1000, 500, 0, 7)
        trace.event("MemoryProfileOverflowEvent", 1200, ("dropped_allocs", "VARINT", 5),
                    ("dropped_frees", "VARINT", 2))
        trace.event("OffCpuWindowEvent", 1300, ("observed_ns", "VARINT", 100),
                    ("stretch_ns", "VARINT", 100), ("records", "VARINT", 50),
                    ("lost", "VARINT", 9))
        trace.lost(1400, "overwritten", 12)
        info, info_json, _, _ = self.says(trace)
        rows = info[info.index("Losses"):].splitlines()[:3]
        self.assertEqual([row[:10].strip() for row in rows], ["Losses", "", ""])
        self.assertIn("12 records in 1 gap", rows[0])
        self.assertIn("7 samples (5 allocations, 2 frees)", rows[1])
        self.assertIn("9 of the kernel's switch records", rows[2])
        self.assertEqual(info_json["lost_switch_records"], 9)

    def shut_down(self, after):
        """Three tasks wait, since different times; then the runtime is dropped."""
        trace = Made().metadata(pid=1)
        for task in (7, 8, 9):
            time = 1_000 + task * 1_000_000
            trace.start(time, 0, task, "svc::connection")
            trace.event("AwaitPlaceEvent", time + 100, ("task_id", "VARINT", task),
                        ("callchain", "STACK", [0x1000]), ("inclusion_probability", "F64", 1.0),
                        ("truncated", "BOOL", 0), ("since_ns", "VARINT", 0))
            trace.end(time + 500, 0)
        trace.event("TaskTerminateEvent", 10_600_000, ("task_id", "VARINT", 6),
                    ("cancelled", "BOOL", 1))  # an abort: the program goes on after it
        trace.poll(900_000_000, 500, 0, 5, "svc::main")
        for task in (7, 8, 9):
            trace.event("TaskTerminateEvent", 1_000_000_000 + task, ("task_id", "VARINT", task),
                        ("cancelled", "BOOL", after))
        return self.says(trace)

    def test_tasks_stand_as_just_before_the_shutdown(self):
        _, _, report, report_json = self.shut_down(1)
        self.assertEqual(report_json["shutdown_ns"], 1_000_000_007)
        group = [one for one in report_json["tasks"] if one["name"] == "svc::connection"][0]
        self.assertEqual((group["tasks"], group["not_ended"]), (3, 3))
        self.assertIn("Where tasks wait: 3 just before the shutdown", report)
        self.assertIn("alive just before the shutdown", report)
        self.assertRegex(report, r"(?m)^ +3 +993 ms ")  # since the first one registered
        self.assertIn("shut down at +993 ms", report)

    def test_tasks_that_end_by_themselves_are_no_shutdown(self):
        _, _, report, report_json = self.shut_down(0)
        self.assertIsNone(report_json["shutdown_ns"])
        self.assertEqual([one["not_ended"] for one in report_json["tasks"]
                          if one["name"] == "svc::connection"], [0])
        self.assertIn("Where tasks waited; none does at the end", report)

    def sampled(self, *stacks):
        """A poll of task 7, and a CPU sample with each stack in it."""
        trace = Made().metadata(pid=1, sampling__cpu="timers", sampling__cpu__rate_hz=99)
        for address, name, line in ((0x10, b"app::hash_rounds", 7), (0x11, b"app::hash_rounds", 9),
                                    (0x20, b"app::export", 57), (0x30, b"tokio::poll", 3),
                                    (0x40, b"ky_unwind_step", 1), (0x41, b"ky_unwind_walk", 1)):
            file = b"" if name.startswith(b"ky_") else b"/src/app/main.rs"
            trace.event("SymbolTableEntry", 0, ("addr", "VARINT", address), ("size", "VARINT", 1),
                        ("symbol_name", "STRING", name), ("inline_depth", "VARINT", 0),
                        ("source_file", "STRING", file), ("source_line", "VARINT", line))
        trace.event("WakeEventEvent", 500_000, ("waker_task_id", "VARINT", 0),
                    ("woken_task_id", "VARINT", 7), ("target_worker", "VARINT", 0),
                    ("origin", "VARINT", 4))
        trace.start(1_000_000, 0, 7, "app::slow")
        for number, stack in enumerate(stacks):
            trace.event("CpuSampleEvent", 2_000_000 + number, ("worker_id", "VARINT", 0),
                        ("tid", "U32", 11), ("source", "VARINT", 0), ("callchain", "STACK", stack),
                        ("weight_ns", "VARINT", 1_000_000), ("task_id", "VARINT", 7),
                        ("poll_start_ns", "VARINT", 1_000_000), ("truncated", "BOOL", 0))
        return self.says(trace.end(90_000_000, 0))

    def test_the_headline_names_the_caller_and_no_line_of_the_leaf(self):
        _, _, report, _ = self.sampled(*[(0x10, 0x20, 0x30), (0x11, 0x20, 0x30)] * 4)
        self.assertIn("  on CPU in it: 8 of 8 samples in app::export at src/app/main.rs:57, "
                      "which calls app::hash_rounds\n", report)
        self.assertIn("Longest wait 500 us from wake to poll: app::slow (a late wake is not in "
                      "it)\n", report)

    def test_the_recorders_own_frames_are_one_row(self):
        _, _, report, report_json = self.sampled((0x40, 0x41, 0x20), (0x41, 0x20), (0x20, 0x41))
        functions = {one["function"]: one for one in report_json["profile"]["cpu"]["functions"]}
        self.assertEqual((functions["kymo"]["self"], functions["kymo"]["total"]), (2, 2))
        self.assertEqual(functions["app::export"]["self"], 1)
        self.assertNotIn("ky_unwind_step", functions)
        self.assertRegex(report, r"(?m)^ +66\.\d % .* kymo$")

    def issued(self, *wakes):
        """One wake of task 7 for each (stack, tid); of some functions the names are known."""
        trace = Made().metadata(pid=1)
        for address, name in ((0x10, "tokio::runtime::io::scheduled_io::ScheduledIo::wake"),
                              (0x11, "tokio::runtime::io::driver::Driver::turn"),
                              (0x20, "tokio::runtime::time::wheel::Wheel::poll"),
                              (0x30, "tokio::runtime::scheduler::current_thread::Context::run"),
                              (0x40, "tokio::sync::mpsc::chan::Tx<T,S>::send"), (0x41, "app::feed"),
                              (0x50, "tokio::runtime::scheduler::defer::Defer::wake"),
                              (0x60, "std::sys::thread::unix::Thread::new::thread_start")):
            file = b"/src/app/main.rs" if name.startswith("app") else b""
            trace.event("SymbolTableEntry", 0, ("addr", "VARINT", address), ("size", "VARINT", 1),
                        ("symbol_name", "STRING", name.encode()), ("inline_depth", "VARINT", 0),
                        ("source_file", "STRING", file), ("source_line", "VARINT", 40))
        for number, (stack, tid) in enumerate(wakes):
            trace.event("WakeEventEvent", 1_000_000 + number, ("waker_task_id", "VARINT", 0),
                        ("woken_task_id", "VARINT", 7),
                        ("target_worker", "VARINT", 255 if tid else 0),
                        ("origin", "VARINT", 4 if tid else 3), ("callchain", "STACK", stack),
                        ("tid", "VARINT", tid))
        trace.event("ThreadEvent", 2_000_000, ("tid", "U32", 42), ("name", "STRING", b"feeder"))
        _, _, report, report_json = self.says(trace.poll(4_000_000, 500, 0, 7))
        causes = {}
        for one in report_json["wakes"]:
            causes[one["cause"]] = causes.get(one["cause"], 0) + one["count"]
        return report, causes, report_json

    def test_a_wake_has_the_cause_that_its_functions_say(self):
        report, causes, report_json = self.issued(
            ([0x10, 0x11, 0x30], 0), ([0x10, 0x11, 0x30], 0), ([0x20, 0x30], 0),
            ([0x50, 0x30], 0), ([0x40, 0x41], 42), ([0x60], 42), ([0x99], 0), ([], 0))
        self.assertEqual(causes, {"io": 2, "timer": 1, "deferred": 1, "code": 2, "unknown": 2})
        self.assertRegex(report, r"(?m)^ +2 +25\.0 % +I/O$")
        self.assertRegex(report, r"(?m)^ +1 +12\.5 % +app::feed at main\.rs:40, thread 42")
        self.assertEqual(report_json["worst_delays"][0]["wake"],
                         {"cause": "io", "tid": None, "from": "the driver or a yield"})

    def test_a_wake_of_the_loop_is_a_yield_where_the_drivers_functions_are_seen(self):
        loop = ([0x30], 0)
        _, causes, _ = self.issued(loop, ([0x10, 0x30], 0), ([0x20, 0x30], 0))
        self.assertEqual(causes, {"deferred": 1, "io": 1, "timer": 1})
        _, causes, _ = self.issued(loop, ([0x10, 0x30], 0))
        self.assertEqual(causes, {"driver": 1, "io": 1})

    def wake(self, trace, time, task, worker, origin, waker=0):
        return trace.event("WakeEventEvent", time, ("waker_task_id", "VARINT", waker),
                           ("woken_task_id", "VARINT", task), ("target_worker", "VARINT", worker),
                           ("origin", "VARINT", origin))

    def test_a_wait_names_the_polls_of_the_queue_that_it_stood_in(self):
        trace = Made().metadata(pid=1)
        trace.poll(1_000_000, 100, 1, 9)  # worker 1 is there and has little to do
        self.wake(trace, 10_000_000, 7, 0, 3)
        for number in range(3):
            trace.poll(10_100_000 + number * 1_000_000, 900_000 + number, 0, 20 + number)
        trace.poll(13_200_000, 500, 1, 7, "svc::late")  # stolen by worker 1
        _, _, report, report_json = self.says(trace)
        self.assertIn("3 polls, the longest 900 us of task 22, on worker 0", report)
        self.assertRegex(report, r"(?m)^ +3\.20 ms +7 +svc::late .* the driver or a yield")
        worst = report_json["worst_delays"][0]
        self.assertEqual(worst["wake"], {"cause": "unknown", "tid": None,
                                         "from": "the driver or a yield"})
        self.assertEqual(worst["ahead"], {"worker": 0, "polls": 3, "busy_ns": 2_700_003,
                                          "longest_ns": 900_002, "longest_task": 22})

    def test_a_wait_that_no_poll_explains_names_none(self):
        trace = Made().metadata(pid=1)
        self.wake(trace, 10_000_000, 7, 255, 4)
        trace.poll(10_100_000, 200_000, 0, 20).poll(13_200_000, 500, 0, 7, "svc::late")
        _, _, report, report_json = self.says(trace)
        self.assertRegex(report, r"(?m)^ +3\.20 ms +7 +svc::late +0 +\S+ +- +another thread")
        self.assertIsNone(report_json["worst_delays"][0]["ahead"])

    def test_a_report_without_polls_starts_at_the_recording(self):
        trace = Made()
        for second in (5000, 5001):
            trace.event("GatesEvent", second * 10**9, ("tid", "U32", 1), ("gates", "VARINT", 1))
        _, _, report, report_json = self.says(trace)
        self.assertEqual((report_json["from_ns"], report_json["to_ns"]),
                         (5000 * 10**9, 5001 * 10**9))
        self.assertIn("trace: 1.00 s, 0 polls", report)

    def used(self, **metadata):
        trace = Made().metadata(pid=1, resources__interval_ns=1, **metadata)
        for time, switches in ((1_000, 40), (2_000_000_000, 40)):
            trace.event("ProcessResourceUsageEvent", time, *((name, "VARINT", value)
                        for name, value in (("user_cpu_ns", time), ("system_cpu_ns", 0),
                                            ("max_rss_bytes", 1), ("minor_faults", 1),
                                            ("major_faults", 0), ("block_input_ops", 0),
                                            ("block_output_ops", 0),
                                            ("voluntary_context_switches", switches),
                                            ("involuntary_context_switches", switches))))
        return self.says(trace.poll(3_000, 500, 0, 7).poll(1_900_000_000, 500, 0, 7))

    def test_switches_that_were_too_many_to_count_are_no_number(self):
        self.assertIn("Switches", self.used()[2])
        _, _, report, report_json = self.used(
            resources__missing="context switches: too many to count in every reading")
        self.assertNotIn("Switches", report)
        self.assertIn("too many to count", report)
        self.assertIsNone(report_json["resources"]["voluntary_context_switches"])

    def test_processes_are_known_apart_where_a_clock_stands_before_their_name(self):
        paths = []
        for pid in (11, 12):
            trace = Made().event("ClockSyncEvent", 500, ("realtime_ns", "VARINT", 10**18))
            trace.metadata(pid=pid, service="web").poll(1_000, 500, 0, 7)
            paths.append(trace.save(self.dir / f"trace-{pid}"))
        report = self.run_kymo("report", "--full", *paths).out
        self.assertIn("Process 1 of 2: pid 11 of web\n", report)
        self.assertIn("Process 2 of 2: pid 12 of web\n", report)
        self.run_kymo("events", *paths, code=1)

    def test_a_worker_without_parks_is_not_active_all_the_time(self):
        """Its thread used 0.1 s of the CPU in two seconds, or all of it."""
        for cpu_ns, active in ((100_000_000, None), (1_950_000_000, 1000)):
            trace = Made().metadata(pid=1).poll(1_000, 500, 0, 7)
            for time, cpu in ((1_000, 0), (2_000_001_000, cpu_ns)):
                trace.event("ThreadCpuEvent", time, ("tid", "U32", 12), ("worker_id", "VARINT", 0),
                            ("cpu_time_ns", "VARINT", cpu), ("run_delay_ns", "VARINT", 0))
            _, _, text, report = self.says(trace.poll(2_000_002_000, 500, 0, 7))
            self.assertEqual(report["workers"][0]["active_permille"], active)
            self.assertEqual(report["workers_without_parks"], int(active is None))
            self.assertEqual("have no recorded park" in text, active is None)

    def pressed(self, own_delay_ns):
        """The machine's tasks waited 0.6 s in a second; the worker's thread own_delay_ns."""
        trace = Made().metadata(pid=1, resources__interval_ns=1).poll(1_000, 500, 0, 7)
        for time, waited, cpu, delay in ((1_000, 0, 0, 0), (1_000_001_000, 600_000_000, 400_000_000,
                                                         own_delay_ns)):
            trace.event("PressureEvent", time, ("scope", "VARINT", 0),
                        ("cpu_some_ns", "VARINT", waited))
            trace.event("ThreadCpuEvent", time, ("tid", "U32", 12), ("worker_id", "VARINT", 0),
                        ("cpu_time_ns", "VARINT", cpu), ("run_delay_ns", "VARINT", delay))
        return self.says(trace.poll(1_000_002_000, 500, 0, 7))

    def test_pressure_of_the_machine_stands_beside_the_workers_own(self):
        _, _, report, report_json = self.pressed(400_000_000)
        self.assertIn("! threads of the machine waited for a CPU 60.0 % of the time between two "
                      "readings; this process's workers 50.0 % of the time they could run\n",
                      report)
        self.assertIn("cpu_pressure", report_json["resources"]["findings"])
        # That of others alone is no cause.
        _, _, report, report_json = self.pressed(4_000_000)
        self.assertNotIn("! threads of the machine", report)
        self.assertEqual(report_json["resources"]["findings"], [])

    def test_a_worker_has_its_runtime_and_its_thread(self):
        trace = Made().metadata(pid=1)
        trace.event("RuntimeEvent", 900, ("runtime_id", "VARINT", 0), ("name", "STRING", b"web"),
                    ("kind", "VARINT", 1), ("copy", "VARINT", 0))
        trace.event("WorkerEvent", 900, *((name, "VARINT", value) for name, value in (
            ("worker_id", 0), ("runtime_id", 0), ("index", 0), ("tid", 42), ("exact", 1),
            ("ended", 0))))
        trace.event("ThreadEvent", 900, ("tid", "U32", 42), ("name", "STRING", b"web-worker-1"),
                    ("start_ns", "VARINT", 900), ("exited", "BOOL", 0))
        info, _, report, report_json = self.says(trace.poll(1000, 500, 0, 7))
        for text in (info, report):
            self.assertRegex(text, r"(?m)^ +0 .*\bweb\b.* 42 web-worker-1")
        worker = report_json["workers"][0]
        self.assertEqual((worker["runtime"], worker["thread"], worker["tid"]),
                         ("web", "web-worker-1", 42))
        self.assertIsNone(worker["sched_wait_ns"])

    def test_closures_are_no_tasks(self):
        trace = Made().metadata(pid=1).poll(1000, 500, 0, 7)
        for task in (20, 21):
            trace.event("BlockingRunStartEvent", 2000 + task, ("tid", "U32", 31),
                        ("task_id", "VARINT", task), ("spawn_loc", "STRING", b"svc::resize"))
            trace.event("BlockingRunEndEvent", 2000 + task, ("tid", "U32", 31),
                        ("task_id", "VARINT", task))
        info, info_json, _, _ = self.says(trace)
        self.assertIn("Tasks     1 seen", info)
        self.assertIn("Blocking  2 runs", info)
        self.assertEqual((info_json["tasks"], info_json["blocking_runs"]), (1, 2))

    def test_a_type_that_is_absent_hides_no_other(self):
        path = Made().metadata(pid=1).poll(1000, 500, 0, 7).save(self.dir / "trace")
        done = self.run_kymo("events", "-t", "PollEndEvent", "-t", "TriggerEvent", path)
        self.assertIn("PollEndEvent", done.out)
        self.assertIn("no event in this trace is named 'TriggerEvent'", done.err)
        self.run_kymo("events", "-t", "TriggerEvent", path, code=1)

    def test_a_full_list_says_that_it_is_full(self):
        trace = Made().metadata(pid=1)
        for number in range(1100):
            trace.poll(1_000_000 + number * 1000, 500, 0, 7)
        self.assertIn("and at least 999 more of at least half that", self.says(trace)[2])


if __name__ == "__main__":
    sys.exit(main())
