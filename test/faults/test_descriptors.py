# SPDX-License-Identifier: Apache-2.0 OR MIT
"""Blocking calls inside polls: what they were made with, with whom, and how they ended."""
import errno
import platform

from faults import Faults

FILE, PIPE, TERMINAL, TCP = 1, 3, 4, 6  # OffCpuEvent.fd_kind
CALL = 3  # OffCpuEvent.source
BYTES = 100
ESTABLISHED, CLOSE_WAIT = 1, 8
RECVFROM = {"x86_64": 45, "aarch64": 207}


class Descriptors(Faults):
    def setUp(self):
        super().setUp()
        self.run_ = self.record("descriptors")
        self.calls = [fields for _, _, fields in self.run_.events("OffCpuEvent")
                      if fields["source"] == CALL]

    def of(self, kind):
        return [one for one in self.calls if one["fd_kind"] == kind]

    def test_calls_name_their_descriptor(self):
        """Of each kind those that took long: a call that came late had nothing to wait for."""
        said = self.run_.statement
        for kind, name in ((PIPE, "pipe"), (TERMINAL, "terminal"), (FILE, "flock")):
            self.assertGreaterEqual(len(self.of(kind)), 1, name)
        for one in self.of(PIPE):
            self.assertEqual(one["bytes"], BYTES)
        tcp = [one for one in self.of(TCP) if one["syscall"] == RECVFROM[platform.machine()]]
        failed = [one for one in tcp if one["errno"] is not None]
        self.assertEqual([one["errno"] for one in failed], [errno.EAGAIN] * said["tries"])
        self.assertGreater(len(tcp), len(failed))
        for one in tcp:
            self.assertEqual(one["peer_port"], said["peer_port"])
            self.assertIn(one["tcp_state"], (ESTABLISHED, CLOSE_WAIT))
            self.assertEqual(one["bytes"], None if one["errno"] else BYTES)
        self.check_report()

    def check_report(self):
        said, kinds = self.run_.statement, {}
        for row in self.run_.report()["profile"]["off_cpu"]["stacks"]:
            kinds.setdefault(row["calls"]["fd_kind"], []).append(row["calls"])
        self.assertEqual(sum(one["bytes"] for one in kinds["pipe"]), BYTES * len(self.of(PIPE)))
        self.assertIn(said["peer_port"],
                      {port for one in kinds["tcp"] for port in one["peer_ports"]})
        self.assertEqual(sum(one["failed"] for one in kinds["tcp"]), said["tries"])
        text = self.run_.report_text()
        for words in ("read, a pipe", "read, a terminal", "flock, a file",
                      f"to port {said['peer_port']}, all failed: EAGAIN"):
            self.assertIn(words, text)


class Failing(Faults):
    """Calls that fail again and again are counted, up to the last power of two."""

    def test_no_descriptor_left_and_nothing_to_read(self):
        run = self.record("failing")
        said, groups = run.statement, run.report()["failing_calls"]
        for name, number in (("full", errno.EMFILE), ("row", errno.EAGAIN)):
            of = [one for one in groups if one["errno"] == number]
            count = sum(one["count_min"] for one in of)
            self.assertLessEqual(count, said[name])
            self.assertTrue(all(one["task"].startswith("failing::") for one in of))
            # Each of the two workers that had a part of it is at most a half short.
            self.assertGreater(count, said[name] / 2 - 2 * 256)
        text = run.report_text()
        self.assertRegex(text, "! accept4 failed at least [0-9,]+ times with EMFILE")
        self.assertRegex(text, "! recvfrom failed at least [0-9,]+ times in a row with EAGAIN")
        events = run.events("FailedCallsEvent")
        self.assertLess(len(events), 64, "bounded")

    def test_a_healthy_program_has_none(self):
        self.assertNotIn("failing_calls", self.record("ticks").report())


class Sockets(Faults):
    """Of a call that lasts, the state of its socket is read while it does."""

    def test_calls_that_last_name_the_state_of_their_socket(self):
        run = self.record("sockets")
        said, missing = run.statement, run.info()["metadata"].get("resources.missing", "")
        if "sockets that threads wait on" in missing:
            self.skipTest(missing)
        waits = run.report()["socket_waits"]
        # A thread that was woken in between, as by a probe's answer, begins to stand anew.
        read = [one for one in waits if one["local_port"] == said["read_port"]][-1]
        write = [one for one in waits if one["local_port"] == said["write_port"]][-1]
        connect = [one for one in waits if one["state"] == "SYN_SENT"][-1]
        self.assertEqual((read["state"], write["state"]), ("ESTABLISHED", "ESTABLISHED"))
        self.assertEqual({read["peer_port"], write["peer_port"]}, {said["peer_port"]})
        self.assertEqual(read["send_queue_bytes"], 0)
        self.assertGreater(write["send_queue_bytes"], 0)
        self.assertGreater(connect["unacked"], 0)
        self.assertIsNone(connect["silent_ns"])
        for one in (read, write, connect):
            self.assertLess(one["since_ns"], one["to_ns"])
            self.assertIn("sockets::", one["task"])
        text = run.report_text()
        peer = f"socket ESTABLISHED, peer port {said['peer_port']}, no data came in for"
        self.assertRegex(text, f"s of it, in recvfrom: {peer}")
        self.assertRegex(text, f"! Thread .* in recvfrom: {peer}.*, in sockets::read_from_silence")
        self.assertRegex(text, "in connect: socket SYN_SENT")

    def test_calls_that_are_short_have_none(self):
        self.assertNotIn("socket_waits", self.record("descriptors").report())
