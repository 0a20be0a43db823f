# SPDX-License-Identifier: Apache-2.0 OR MIT
"""What keeping the last events in memory costs an echo server, beside Go's and dial9's recorders.

The CPU time of a server and of whoever records it is read before and after the load, while all of
them live: starting and the cut at the end have rows of their own. Each recorder is compared with
the same server without it, in the same round; the load program is one and the same.
"""
import contextlib
import json
import os
import re
import shutil
import socket
import statistics
import subprocess

from .echo import cpu_ns
from .end_to_end import EVENTS_ALONE, EVENTS_ALONE_OPTIONS
from .memory import host_of
from .programs import ROOT, Broken, Running, again_when_lost, check_trace, run
from .rows import differences, median_interval, ratios, row

OWN = ("kymo", EVENTS_ALONE)
VARIANTS = ("plain", "kymo", EVENTS_ALONE, "go", "go+flight", "dial9")
BASES = {**dict.fromkeys((*OWN, "dial9"), "plain"), "go+flight": "go"}
RING_BYTES = 32 << 20
CONNECTIONS = 50
WARM_UP = 20_000
# Short loads, so that what else the machine does meets all variants. Together they fill about
# 10 MiB of the ring: every page is touched for the first time, which happens once in a life. So
# this is what recording costs at its dearest; the area "cost" measures rings that have come round.
LOADS = 8
ROUND_LIMIT_S = 600
REQUESTS = 30_000
GO_LEAST = (1, 25)
EVENTS = ("PollStartEvent", "PollEndEvent", "WakeEventEvent")
GO_BYTES_LEAST = 8  # a request; it takes some 30


def go_reason():
    """Why Go's recorder cannot be measured here; None: it can."""
    if not shutil.which("go"):
        return "no Go is installed"
    done = subprocess.run(["go", "env", "GOVERSION"], text=True, capture_output=True,
                          env={**os.environ, "GOTOOLCHAIN": "local"})
    found = re.match(r"go(\d+)\.(\d+)", done.stdout)
    if done.returncode != 0 or not found:
        return "'go env GOVERSION' failed"
    if tuple(map(int, found.groups())) < GO_LEAST:
        return f"{found.group(0)} has no FlightRecorder (1.25 has)"
    return None


def build_go(context):
    program = context.cargo / "go-echo"
    context.progress("building go")
    done = subprocess.run(["go", "build", "-o", program], cwd=ROOT / "bench" / "go", text=True,
                          capture_output=True,
                          env={**os.environ, "GOTOOLCHAIN": "local", "GOFLAGS": "-mod=readonly"})
    if done.returncode != 0:
        raise Broken(f"bench/go does not build:\n{done.stderr.strip()[-2000:]}")
    return program


class Programs:
    """The servers, how each is started, and what must be true of its recording afterwards."""

    def __init__(self, context):
        self.context = context
        self.plain = context.crate("tokio/plain")
        self.dial9 = context.crate("tokio/dial9")
        self.peer = context.crate("read/peer") / "kymo-bench-read-peer"
        self.why_no_go = go_reason()
        self.go = None if self.why_no_go else build_go(context)
        self.variants = tuple(name for name in VARIANTS if self.go or not name.startswith("go"))

    def command(self, variant, directory):
        """The command, its environment and the program that serves."""
        count = str((1 + LOADS) * CONNECTIONS + 1)  # warm-up, loads, what keeps it alive
        echo = self.plain / "echo"
        if variant in OWN:
            options = EVENTS_ALONE_OPTIONS if variant == EVENTS_ALONE else ()
            return ([self.context.kymo, "run", "--quiet", "--mode", "flight", "--ring-bytes",
                     str(RING_BYTES), *options, "-o", directory, "--", echo, count], None, echo)
        if variant == "dial9":
            echo = self.dial9 / "echo"
            return ([echo, count], {"DIAL9_BENCH_DIR": str(directory)}, echo)
        if variant == "go":
            return ([self.go, count], None, self.go)
        if variant == "go+flight":
            return ([self.go, count, str(RING_BYTES), directory / "trace"], None, self.go)
        return ([echo, count], None, echo)

    def check(self, variant, directory):
        """A recorder that recorded nothing costs nothing."""
        if variant in OWN:
            check_trace(self.context.kymo, directory, dict.fromkeys(EVENTS, LOADS * REQUESTS))
        elif variant == "dial9":
            output, _, _ = run([self.peer, "count", directory])
            if json.loads(output)["events"] < 2 * LOADS * REQUESTS:
                raise Broken("dial9 recorded too little of the echo server")
        elif variant == "go+flight":
            size = (directory / "trace").stat().st_size
            if size < GO_BYTES_LEAST * LOADS * REQUESTS:
                raise Broken(f"Go's recorder wrote {size} bytes of {LOADS * REQUESTS} requests")


def load(programs, port, requests):
    output, _, _ = run([programs.plain / "echo-load", port, str(CONNECTIONS), str(requests)])
    result = json.loads(output)
    if result["requests"] != requests:
        raise Broken(f"the echo server answered {result['requests']} of {requests} requests")
    return result


class Server:
    """One variant under way, warmed up; a connection of our own keeps it alive."""

    def __init__(self, programs, variant, stack):
        self.programs, self.variant = programs, variant
        self.directory = stack.enter_context(programs.context.directory())
        command, environment, program = programs.command(variant, self.directory)
        self.running = stack.enter_context(Running(command, environment, limit_s=ROUND_LIMIT_S))
        self.port = self.running.line()
        self.pids = {self.running.process.pid, int(host_of(self.running.process.pid, program))}
        self.alive = stack.enter_context(
            contextlib.closing(socket.create_connection(("127.0.0.1", int(self.port)))))
        self.start_ns = self.spent_ns()
        self.one(WARM_UP)
        self.loads, self.load_ns = [], 0

    def spent_ns(self):
        return sum(map(cpu_ns, self.pids))

    def one(self, requests):
        try:
            return load(self.programs, self.port, requests)
        except Broken as broken:  # the load's own words do not say who let it down
            status = self.running.process.poll()
            late = ", stopped after its time" if self.running.is_late else ""
            raise Broken(f"{broken}; its server ({self.variant}) " +
                         ("runs" if status is None else f"ended with {status}{late}")) from broken

    def load(self):
        before = self.spent_ns()
        self.loads.append(self.one(REQUESTS))
        self.load_ns += self.spent_ns() - before

    def finish(self):
        def middle(key):
            return statistics.median(found[key] for found in self.loads)

        before = self.spent_ns()
        self.alive.close()
        _, total_s, _ = self.running.finish()
        self.programs.check(self.variant, self.directory)
        return {"cpu_ns": self.load_ns / REQUESTS / len(self.loads),
                "rate": REQUESTS / middle("seconds"), "p99_ns": middle("p99_ns"),
                "p999_ns": middle("p999_ns"), "start_ms": self.start_ns / 1e6,
                "cut_ms": total_s * 1e3 - before / 1e6}


def rotated(variants, index):
    cut = index % len(variants)
    return variants[cut:] + variants[:cut]


def one_round(programs, index):
    """All variants at once, each a process of its own; short loads go round among them."""
    with contextlib.ExitStack() as stack:
        servers = {variant: Server(programs, variant, stack)
                   for variant in rotated(programs.variants, index)}
        for turn in range(LOADS):
            for variant in rotated(programs.variants, index + turn):
                servers[variant].load()
        return {variant: server.finish() for variant, server in servers.items()}


def measure(programs):
    figures = {variant: [] for variant in programs.variants}
    for index in range(programs.context.rounds):
        programs.context.progress(f"flight, {index + 1} of {programs.context.rounds}")
        found = again_when_lost(lambda: one_round(programs, index))
        for variant in programs.variants:
            figures[variant].append(found[variant])
    return figures


def column(figures, variant, key):
    return [found[key] for found in figures[variant]]


def added(figures, variant, key):
    """Per round: the recorded run less the one without the recorder."""
    return differences(column(figures, variant, key), column(figures, BASES[variant], key))


def change(figures, variant, key):
    """The same in percent."""
    return [100 * (ratio - 1) for ratio in
            ratios(column(figures, variant, key), column(figures, BASES[variant], key))]


SHAPES = (
    ("adds per request, CPU of all processes", added, "cpu_ns", {"unit": "ns", "target": 100}),
    ("throughput, change", change, "rate", {"unit": "%", "better": "higher"}),
    ("p99 latency, change", change, "p99_ns", {"unit": "%"}),
    ("p99.9 latency, change", change, "p999_ns", {"unit": "%"}),
    ("the start adds, CPU", added, "start_ms", {"unit": "ms"}),
    ("the end adds, CPU: the cut (dial9: closing)", added, "cut_ms", {"unit": "ms"}),
)


def rows_of(figures):
    """Own rows with dial9's figure as peer; Go's in rows of their own: it is another server."""
    def shown(variant, title, how, key, unit, peer=None, **more):
        return row(title, how(figures, variant, key), unit,
                   peer=median_interval(how(figures, peer, key))[0] if peer else None, **more)

    result = [row("echo: without a recorder, per request", column(figures, "plain", "cpu_ns"),
                  "ns")]
    result += [shown("kymo", f"echo, kymo run --mode flight: {title}", how, key, peer="dial9",
                     **more) for title, how, key, more in SHAPES]
    title, how, key, more = SHAPES[0]
    result.append(shown(EVENTS_ALONE, f"echo, flight, events alone, no stacks: {title}", how, key,
                        peer="dial9", **more))
    if "go" not in figures:
        return result
    result.append(row("echo in Go: without a recorder, per request",
                      column(figures, "go", "cpu_ns"), "ns"))
    return result + [shown("go+flight", f"echo in Go, FlightRecorder: {title}", how, key,
                           **{**more, "target": None}) for title, how, key, more in SHAPES]


def rows(context):
    programs = Programs(context)
    if programs.why_no_go:
        context.progress(f"Go's FlightRecorder is left out: {programs.why_no_go}")
    return rows_of(measure(programs))
