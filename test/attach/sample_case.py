# SPDX-License-Identifier: Apache-2.0 OR MIT
"""What the tests of sampling by kymo attach share."""
import contextlib
import json
import os
import pathlib
import re
import signal
import subprocess

from attach_case import ANSWERED, DENY, KYMO, Attach
from unittest_tap import DEADLINE_S, wait_until

SIGPROF = 1 << signal.SIGPROF - 1


class SampleCase(Attach):
    """With a trace of what is sampled from the attach to the detach."""

    def setUp(self):
        super().setUp()
        self.trace = self.dir / "traces"

    @staticmethod
    def timers(process):
        return pathlib.Path(f"/proc/{process.pid}/timers").read_text().count("ID:")

    @staticmethod
    def events_of_perf(pid):
        links = []
        for entry in os.scandir(f"/proc/{pid}/fd"):
            with contextlib.suppress(FileNotFoundError):  # it was closed meanwhile
                links.append(os.readlink(entry.path))
        return sum("perf_event" in link for link in links)

    @staticmethod
    def has_handler(process):
        status = pathlib.Path(f"/proc/{process.pid}/status").read_text()
        return bool(int(re.search(r"SigCgt:\s*(\w+)", status)[1], 16) & SIGPROF)

    def burned(self, process, seconds):
        """Waits until it has used so much CPU time since now."""
        def used():
            fields = pathlib.Path(f"/proc/{process.pid}/stat").read_text().rsplit(")", 1)[1].split()
            return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")
        end = used() + seconds
        wait_until(lambda: used() >= end)

    def stream(self, process, *args, deny=()):
        before = [DENY, *deny, "--"] if deny else []
        stream = subprocess.Popen([*before, KYMO, "attach", "--mode", "stream", "--ring-dir",
                                   self.rings, "-o", self.trace, *args, str(process.pid)],
                                  stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        self.started.append(stream)
        self.assertRegex(stream.stdout.readline(), ANSWERED)
        return stream

    def finish(self, process, stream):
        self.detach(process)
        _, err = stream.communicate(timeout=DEADLINE_S)
        self.assertEqual((err, stream.returncode), ("", 0))

    def source(self):
        metadata = json.loads(self.done("info", "--json", self.trace))["metadata"]
        return metadata.get("sampling.cpu"), metadata.get("sampling.cpu.refused")

    def samples(self):
        done = self.kymo("events", "--type", "CpuSampleEvent", "--format", "jsonl", self.trace)
        return [json.loads(line)["fields"] for line in done.stdout.splitlines()]
