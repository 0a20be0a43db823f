#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0 OR MIT
"""kymo attach: how much of the CPU time the samples stand for. Estimates: what they are depends on
chance and on the machine, so the gate has none of them.

usage: test_attach_shares.py KYMO HOST STEPS LIBRARY DENY [unittest arguments]
They are those of attach_case.py.
"""
from attach_case import ANSWERED, main
from sample_case import SampleCase
from unittest_tap import wait_until


class Shares(SampleCase):
    def check(self, samples, seconds):
        """The samples stand for what all threads burned, or a little more; most is of one."""
        weights = {}
        for sample in samples:
            weights[sample["tid"]] = weights.get(sample["tid"], 0) + sample["weight_ns"] / 1e9
        self.assertGreater(sum(weights.values()), seconds * 0.8, weights)
        self.assertGreater(max(weights.values()), seconds * 0.5, weights)

    def test_external_perf_event_samples_without_request(self):
        process = self.host("futex", "busy")
        stream = self.stream(process)
        if not self.events_of_perf(stream.pid):
            self.finish(process, stream)
            self.assertRegex(self.source()[1], "^perf_event: ")
            self.skipTest(f"no samples by perf_event here: {self.source()[1]}")
        self.burned(process, 1)
        self.assertEqual((self.timers(process), self.events_of_perf(process.pid),
                          self.has_handler(process)), (0, 0, False))
        self.finish(process, stream)
        self.assertEqual(self.source(), ("perf_event", None))
        self.check(self.samples(), 1)
        self.assertEqual({sample["sampler"] for sample in self.samples()}, {1})
        self.ended(process)

    def test_where_perf_is_refused_the_process_samples_itself_when_asked_to(self):
        process = self.host("futex", "busy")
        stream = self.stream(process, deny=["perf"])
        self.burned(process, 0.2)
        self.assertEqual((self.timers(process), self.has_handler(process)), (0, False))
        self.finish(process, stream)
        self.assertEqual(self.source(), ("none", "perf_event: Operation not permitted"))
        self.assertEqual(self.samples(), [])
        self.trace = self.dir / "never"
        stream = self.stream(process, "--sample", "99", "--sampler", "perf", deny=["perf"])
        self.assertEqual((self.timers(process), self.has_handler(process)), (0, False))
        self.finish(process, stream)
        self.trace = self.dir / "asked"
        stream = self.stream(process, "--sampler", "timers")
        self.burned(process, 1)
        self.assertGreater(self.timers(process), 0)
        self.finish(process, stream)
        self.assertEqual(self.timers(process), 0)
        self.assertEqual(self.source()[0], "timers")
        self.check(self.samples(), 1)
        self.ended(process, 1)

    def test_flight_mode_samples_inside_only_on_request(self):
        process = self.host("futex", "busy")
        self.attach(process)
        self.burned(process, 0.2)
        self.assertEqual((self.timers(process), self.has_handler(process)), (0, False))
        self.detach(process)
        self.trace = self.dir / "dump.trc"
        for _ in range(2):
            self.assertRegex(self.done("attach", "--sample", "99", process.pid), ANSWERED)
            self.burned(process, 1)
            self.assertGreater(self.timers(process), 0)
            self.assertEqual(self.kymo("dump", process.pid, "-o", self.trace).returncode, 0)
            self.detach(process)
            self.assertEqual(self.timers(process), 0)
            self.check(self.samples(), 1)
            # The tables were left there: stacks reach the thread's first function.
            whole = sum(not sample["truncated"] for sample in self.samples())
            self.assertGreater(whole, len(self.samples()) * 0.9)
        self.ended(process, 1)

    def test_threads_that_record_nothing_are_sampled_from_their_start(self):
        """Each lives shorter than the time between two readings of /proc."""
        process = self.host("futex", "brief")
        self.trace = self.dir / "dump.trc"
        for _ in range(2):
            self.assertRegex(self.done("attach", "--sample", "250", process.pid), ANSWERED)
            self.burned(process, 2)
            self.assertEqual(self.kymo("dump", process.pid, "-o", self.trace).returncode, 0)
            self.detach(process)
            # One that was making its timer meanwhile drops it as soon as it runs again.
            wait_until(lambda: self.timers(process) == 0)
            samples = self.samples()
            # Of 500 threads each that meets a tick of the kernel has a sample.
            self.assertGreater(len({sample["tid"] for sample in samples}), 150)
            self.assertGreater(sum(sample["weight_ns"] for sample in samples) / 1e9, 0.6)
        self.burned(process, 0.1)
        self.ended(process, 1)


if __name__ == "__main__":
    main()
