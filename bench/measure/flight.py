# SPDX-License-Identifier: Apache-2.0 OR MIT
"""What keeping the last events in memory costs an echo server, beside Go's and dial9's recorders.

The CPU time of a server and of whoever records it is read before and after the load, while all of
them live: starting and the cut at the end have rows of their own. Each recorder is compared with
the same server without it, in the same round; the load program is one and the same.
"""
import concurrent.futures
import contextlib
import json
import os
import pathlib
import re
import shutil
import socket
import statistics
import subprocess
import threading
import time

from .end_to_end import EVENTS_ALONE, EVENTS_ALONE_OPTIONS
from .memory import host_of
from .programs import ROOT, Broken, Running, again_when_lost, check_trace, run
from .rows import differences, median_interval, ratios, row

VARIANTS = ("plain", "kymo", EVENTS_ALONE, "go", "go+flight", "dial9")
BASES = {"kymo": "plain", EVENTS_ALONE: "plain", "dial9": "plain", "go+flight": "go"}
RING_BYTES = 32 << 20
CONNECTIONS = 50
WARM_UP = 20_000
# Short loads, so that what else the machine does meets all variants. Together they fill about
# 10 MiB of the ring: every page is touched for the first time, which happens once in a life. So
# this is what recording costs at its dearest.
LOADS = 8
ROUND_LIMIT_S = 600
REQUESTS = 30_000
GO_LEAST = (1, 25)
EVENTS = ("PollStartEvent", "PollEndEvent", "WakeEventEvent")
CUT_RING_BYTES = 64 << 20
CUT_FILL = 1_800_000  # 40 bytes a request
CUT_REQUESTS = 150_000
IDLE_S = 5
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


def cpu_ns(pid):
    """CPU time of a process and of all threads it ever had: the clock of clock_getcpuclockid(3)."""
    return time.clock_gettime_ns((~int(pid) << 3) | 2)


class Programs:
    """The servers, how each is started, and what must be true of its recording afterwards."""

    warm_up = WARM_UP

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
        if variant in ("kymo", EVENTS_ALONE):
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
        if variant in ("kymo", EVENTS_ALONE):
            check_trace(self.context.kymo, directory,
                        dict.fromkeys(EVENTS, LOADS * REQUESTS))
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
        self.one(programs.warm_up)
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


def measure(programs, name="flight"):
    figures = {variant: [] for variant in programs.variants}
    for index in range(programs.context.rounds):
        programs.context.progress(f"{name}, {index + 1} of {programs.context.rounds}")
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


def cut_while(programs, pid, directory, port):
    """One load during which `kymo dump` runs again and again: its figures, CPU ms of each dump."""
    spent, is_over = [], threading.Event()

    def dump():
        while not is_over.is_set():
            path = directory / f"{len(spent)}.trc.zst"
            _, cpu_s, _ = run([programs.context.kymo, "dump", str(pid), "-o", path])
            spent.append(cpu_s * 1e3)
            path.unlink()

    with concurrent.futures.ThreadPoolExecutor(1) as pool:
        dumping = pool.submit(dump)
        try:
            result = load(programs, port, CUT_REQUESTS)
        finally:
            is_over.set()
        dumping.result()
    return result, spent


def idle_share(pid):
    """What `kymo run` does while nothing happens: % of a core, wake-ups a second."""
    def looked():
        status = pathlib.Path(f"/proc/{pid}/status").read_text()
        return cpu_ns(pid), int(re.search(r"\nvoluntary_ctxt_switches:\s*(\d+)", status).group(1))

    cpu, wakes = looked()
    time.sleep(IDLE_S)
    cpu_after, wakes_after = looked()
    return (cpu_after - cpu) / 1e7 / IDLE_S, (wakes_after - wakes) / IDLE_S


def measure_cuts(programs):
    """One server whose ring is full; loads with and without dumps take turns."""
    figures = {"quiet": [], "dumped": [], "dump_ms": []}
    rounds = programs.context.rounds
    with programs.context.directory() as directory:
        echo = programs.plain / "echo"
        count = str(1 + CONNECTIONS * (1 + 2 * rounds))
        command = [programs.context.kymo, "run", "--quiet", "--mode", "flight", "--ring-bytes",
                   str(CUT_RING_BYTES), "-o", directory / "end", "--", echo, count]
        with Running(command, limit_s=600) as server:
            port = server.line()
            pid = host_of(server.process.pid, echo)
            with contextlib.closing(socket.create_connection(("127.0.0.1", int(port)))):
                programs.context.progress("dump: filling a ring of 64 MiB")
                load(programs, port, CUT_FILL)
                figures["idle"] = idle_share(server.process.pid)
                for index in range(rounds):
                    programs.context.progress(f"dump, {index + 1} of {rounds}")
                    for is_dumped in ((False, True) if index % 2 else (True, False)):
                        if not is_dumped:
                            figures["quiet"].append(load(programs, port, CUT_REQUESTS))
                            continue
                        result, spent = cut_while(programs, pid, directory, port)
                        figures["dumped"].append(result)
                        figures["dump_ms"] += spent
            server.finish()
    return figures


def cut_rows(figures):
    def changes(key):
        return [100 * (ratio - 1) for ratio in
                ratios([found[key] for found in figures["dumped"]],
                       [found[key] for found in figures["quiet"]])]

    share, wakes = figures["idle"]
    return [
        row("kymo dump of a full 64 MiB ring under load, zstd, CPU of the process",
            figures["dump_ms"], "ms", 300),
        row("the same, the worst", max(figures["dump_ms"]), "ms"),
        row("p99.9 of the load while dumps follow one another, change", changes("p999_ns"), "%"),
        row("p50 of the load while dumps follow one another, change", changes("p50_ns"), "%"),
        row("kymo run --mode flight, no rule armed: share of a core", share, "%", 0.1),
        row("kymo run --mode flight, no rule armed: wake-ups", wakes, "1/s", 20),
    ]


def rows(context):
    programs = Programs(context)
    if programs.why_no_go:
        context.progress(f"Go's FlightRecorder is left out: {programs.why_no_go}")
    return rows_of(measure(programs)) + cut_rows(measure_cuts(programs))
