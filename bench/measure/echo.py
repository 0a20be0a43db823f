# SPDX-License-Identifier: Apache-2.0 OR MIT
"""Echo servers that stay alive, their CPU clocks, and loads over connections that stay open.

The server's threads run on one CPU; the load program and what records run on the other one. dial9
records in threads of the server's process: they count as recorder, and they run on its CPU.
"""
import contextlib
import dataclasses
import json
import os
import pathlib
import time

from .memory import host_of
from .programs import Broken, Running

CONNECTIONS = 50
SLICE = 10_000  # requests, less than a second even on a busy machine
LIMIT_S = 900
SERVER_CPU, OTHER_CPU = 0, 1


@dataclasses.dataclass(frozen=True)
class Variant:
    """One way to run the server: untouched, under `kymo run` with options, or built with a crate
    that records."""
    name: str
    options: tuple = ()
    kymo: pathlib.Path = None  # the program that records it; None: no kymo
    dial9: bool = False
    inside: bool = False  # built with the crate kymo
    environment: tuple = ()

    @property
    def folder(self):
        return "dial9" if self.dial9 else "inside" if self.inside else "plain"

    def records(self, thread_name):
        """Whether a thread of the server's process is the recorder's."""
        return (self.dial9 and thread_name.startswith("dial9")
                or self.inside and thread_name.startswith("kymo-"))


def cpu_ns(pid):
    """CPU time of a process and of all threads it ever had: the clock of clock_getcpuclockid(3)."""
    return time.clock_gettime_ns((~int(pid) << 3) | 2)


def thread_cpu_ns(pid, thread):
    """CPU time of a thread that sleeps; of one that runs, as of the last cpu_ns() of its process,
    which brings it up to date: the kernel refuses clocks of another process's threads."""
    return int(pathlib.Path(f"/proc/{pid}/task/{thread}/schedstat").read_text().split()[0])


def wakes(pid):
    """How often the threads of a process that live now have slept."""
    count = 0
    for status in pathlib.Path(f"/proc/{pid}/task").glob("*/status"):
        for line in status.read_text().splitlines():
            if line.startswith("voluntary_ctxt_switches:"):
                count += int(line.split()[1])
    return count


@contextlib.contextmanager
def pinned():
    """What is started inside runs on the CPU of load and recorder; servers are moved from it."""
    before = os.sched_getaffinity(0)
    if not before >= {SERVER_CPU, OTHER_CPU}:
        raise Broken("it wants two CPUs: one for the server, one for load and recorder")
    os.sched_setaffinity(0, {OTHER_CPU})
    try:
        yield
    finally:
        os.sched_setaffinity(0, before)


class Server:
    """One variant under way with its load program, whose connections stay open until finish()."""

    def __init__(self, variant, crates, directory, stack, connections=CONNECTIONS):
        self.variant, self.directory = variant, directory
        self.served, self.load_s, self.started = 0, 0.0, time.monotonic()
        command, environment = self.command(variant, crates, directory, connections)
        self.running = stack.enter_context(Running(command, environment, LIMIT_S))
        port = self.running.line()
        self.pid = int(host_of(self.running.process.pid, self.program(variant, crates)))
        self.loading = stack.enter_context(
            Running([crates["plain"] / "echo-load", port, str(connections)], limit_s=LIMIT_S))
        self.load(connections, connections)  # every connection is there, and every thread
        self.serving = self.pin()

    @staticmethod
    def program(variant, crates):
        return crates[variant.folder] / "echo"

    @staticmethod
    def command(variant, crates, directory, connections):
        """The command that serves so many connections and ends, and its environment."""
        command = [Server.program(variant, crates), str(connections)]
        if variant.kymo:
            command = [variant.kymo, "run", "--quiet", *variant.options, "-o", directory, "--",
                       *command]
        environment = {"DIAL9_BENCH_DIR": str(directory)} if variant.dial9 else {}
        return command, {**environment, **dict(variant.environment)}

    def pin(self):
        """Pins every thread; returns those that serve."""
        serve, record = [], []
        for task in pathlib.Path(f"/proc/{self.pid}/task").iterdir():
            records = self.variant.records((task / "comm").read_text())
            os.sched_setaffinity(int(task.name), {OTHER_CPU if records else SERVER_CPU})
            (record if records else serve).append(int(task.name))
        if (self.variant.dial9 or self.variant.inside) and not record:
            raise Broken(f"{self.variant.name} has no thread that records")
        return serve

    def clocks(self):
        """CPU ns so far: (server, recorder)."""
        if self.variant.kymo:
            return cpu_ns(self.pid), cpu_ns(self.running.process.pid)
        if not self.variant.dial9:
            return cpu_ns(self.pid), 0
        # Threads that its recorder starts later are not among those that serve.
        whole = cpu_ns(self.pid)
        server = sum(thread_cpu_ns(self.pid, thread) for thread in self.serving)
        return server, whole - server

    def wakes(self):
        return sum(map(wakes, {self.pid, self.running.process.pid}))

    def load(self, requests, connections=CONNECTIONS):
        """A load over that many of the connections; what echo-load says of it."""
        began = time.monotonic()
        try:
            self.loading.process.stdin.write(f"{requests} {connections}\n")
            self.loading.process.stdin.flush()
            result = json.loads(self.loading.line() or "{}")
        except BrokenPipeError:
            result = {}
        if result.get("requests") != requests:
            status = self.running.process.poll()
            raise Broken(f"the echo server ({self.variant.name}) answered "
                         f"{result.get('requests', 'none')} of {requests} requests; it " +
                         ("runs" if status is None else f"ended with {status}"))
        self.served += requests
        self.load_s += time.monotonic() - began
        return result

    def load_until(self, requests, deadline):
        """The same in slices, until so many are served or the time is used up; how many were."""
        served = 0
        while served < requests and (not served or time.monotonic() < deadline):
            count = min(SLICE, requests - served)
            self.load(count)
            served += count
        return served

    def timed(self, requests, connections=CONNECTIONS):
        """Server CPU ns a request of one load."""
        before = self.clocks()[0]
        self.load(requests, connections)
        return (self.clocks()[0] - before) / requests

    def finish(self):
        """Ends load and server: CPU ns of all its processes, from their start to their end, and
        the seconds of that in which no load ran."""
        self.loading.finish()
        _, total_s, _ = self.running.finish()
        return total_s * 1e9, time.monotonic() - self.started - self.load_s
