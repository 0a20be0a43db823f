# SPDX-License-Identifier: Apache-2.0 OR MIT
"""What the crate costs a program that links it, beside the crate dial9 and beside nothing.

The same source text three times (bench/tokio: plain, inside, dial9), alternating. Loops on one
worker cost CPU time of that worker; the echo server costs CPU time of all its threads, the
recorder's among them, read before and after a load over connections that stay open.
"""
import contextlib
import os
import pathlib
import re
import shutil
import statistics
import subprocess
import tempfile
import time

from .echo import CONNECTIONS, SLICE, Server, Variant, pinned
from .programs import ROOT, Broken, again_when_lost, check_trace, run, stored_bytes
from .rows import differences, median_interval, row

LOOPS = ("plain", "inside", "dial9")
POLLS, PINGS, SPAWNS = 700_000, 150_000, 150_000  # a pass
WARM_UP, REQUESTS = 60_000, 150_000
SETTLE_S = 2.0  # until the recorder has written what a load made
ROUNDS_MAX = 7
ECHO = ("plain", "inside, stream", "inside, flight", "dial9", "plain again")
BYTES_LEAST = 10  # dial9's, a request


class Programs:
    def __init__(self, context):
        self.context = context
        self.crates = {name: context.crate(f"tokio/{name}") for name in LOOPS}

    @staticmethod
    def environment(name, directory):
        if name == "dial9":
            return {"DIAL9_BENCH_DIR": str(directory)}
        if not name.startswith("inside"):
            return {}
        (directory / "rings").mkdir(mode=0o700)
        return {"KYMO_MODE": "flight" if "flight" in name else "stream",
                "KYMO_TRACE_DIR": str(directory), "KYMO_RING_DIR": str(directory / "rings")}


def loop_once(programs, name, program, arguments, least):
    """CPU ns of the worker, an operation; peak memory of the process."""
    with programs.context.directory() as directory:
        output, _, peak_bytes = run([programs.crates[name] / program, *arguments],
                                    programs.environment(name, directory))
        if name == "inside":
            check_trace(programs.context.kymo, directory, least)
        elif name == "dial9" and not stored_bytes(directory, ".bin"):
            raise Broken(f"dial9 recorded nothing of {program}")
        return {"cpu_ns": float(output.split()[0]), "peak": peak_bytes}


def measure_loops(programs, rounds):
    polls = dict.fromkeys(("PollStartEvent", "PollEndEvent", "WakeEventEvent"), 2 * POLLS)
    kinds = {
        "yield loop, a poll and its wake": ("yield-loop", [str(POLLS)], polls),
        "spawn, first poll and end": ("storms", ["spawn", str(SPAWNS)],
                                      {"PollStartEvent": 2 * SPAWNS,
                                       "TaskTerminateEvent": 2 * SPAWNS}),
        "the same and awaited: two polls, a wake, an await": (
            "storms", ["join", str(SPAWNS)],
            {"PollStartEvent": 3 * SPAWNS, "TaskTerminateEvent": 2 * SPAWNS}),
        "a message and back, two polls and wakes": ("storms", ["ping", str(PINGS)],
                                                    {"PollStartEvent": 2 * PINGS}),
    }
    found = {title: {name: [] for name in LOOPS} for title in kinds}
    for index in range(rounds):
        for title, (program, arguments, least) in kinds.items():
            programs.context.progress(f"{title}, {index + 1} of {rounds}")
            cut = index % len(LOOPS)
            for name in LOOPS[cut:] + LOOPS[:cut]:
                found[title][name].append(again_when_lost(
                    lambda: loop_once(programs, name, program, arguments, least)))
    return found


def echo_variant(name, environment):
    return Variant(name, dial9=name == "dial9", inside=name.startswith("inside"),
                   environment=tuple(environment.items()))


def load_long(server, requests):
    """What the load program says of it: requests a second, and quantiles of their times, each the
    median over the slices."""
    slices = [server.load(min(SLICE, left)) for left in range(requests, 0, -SLICE)]
    time.sleep(SETTLE_S)
    result = {key: statistics.median(one[key] for one in slices)
              for key in ("p50_ns", "p99_ns", "p999_ns")}
    result["rate"] = requests / sum(one["seconds"] for one in slices)
    return result


def echo_once(programs, name):
    """CPU ns of all threads, a request; bytes on disk likewise."""
    with programs.context.directory() as directory, contextlib.ExitStack() as stack:
        environment = programs.environment(name, directory)
        server = Server(echo_variant(name, environment), programs.crates, directory, stack)
        load_long(server, WARM_UP)
        before = sum(server.clocks())
        result = load_long(server, REQUESTS)
        cpu_ns = (sum(server.clocks()) - before) / REQUESTS
        served = server.served
        server.finish()
        result["cpu_ns"] = cpu_ns
        if name == "inside, stream":
            events = dict.fromkeys(("PollStartEvent", "WakeEventEvent"), served * 9 // 10)
            _, stored, _ = check_trace(programs.context.kymo, directory, events)
            result["bytes"] = stored / served
        elif name == "dial9":
            result["bytes"] = stored_bytes(directory, ".bin") / served
            if result["bytes"] < BYTES_LEAST:
                raise Broken(f"dial9 recorded too little of {served} requests")
        return result


def measure_echo(programs, rounds):
    found = {name: [] for name in ECHO}
    with pinned():
        for index in range(rounds):
            programs.context.progress(f"echo, {CONNECTIONS} connections, {index + 1} of {rounds}")
            cut = index % len(ECHO)
            for name in ECHO[cut:] + ECHO[:cut]:
                found[name].append(again_when_lost(lambda: echo_once(programs, name)))
    return found


def dependencies(manifest, package, *features):
    """Crates that a program gets with it, beyond Tokio and what that has itself."""
    def tree(*arguments):
        done = subprocess.run(
            ["cargo", "tree", "--locked", "--quiet", "--edges", "normal", "--prefix", "none",
             "--no-dedupe", "--format", "{p}", *arguments], cwd=manifest, text=True,
            capture_output=True, check=False, env=dict(os.environ))
        if done.returncode:
            raise Broken(f"cargo tree: {done.stderr.strip()}")
        return {line.split()[0] for line in done.stdout.splitlines() if line}

    return len(tree("--package", package, *features) - tree("--package", "tokio") - {package})


def clean_build_s():
    """Of the default crate with all it needs but Tokio's sources, which a program has anyway."""
    with tempfile.TemporaryDirectory(prefix="kymo-bench-") as target:
        environment = dict(os.environ, CARGO_TARGET_DIR=target)
        environment.pop("RUSTFLAGS", None)
        command = ["cargo", "build", "--locked", "--quiet", "--offline"]
        subprocess.run([*command, "--package", "tokio"], cwd=ROOT / "crates", env=environment,
                       capture_output=True, check=True)
        began = time.monotonic()
        subprocess.run([*command, "--package", "kymo"], cwd=ROOT / "crates", env=environment,
                       capture_output=True, check=True)
        return time.monotonic() - began


# ---- spans of tracing ----

SPAN_KINDS = ("none", "kymo", "dial9")
SPAN_ENTERS = 400_000  # a pass: what it makes fits into the ring
SPAN_COUNTED = 20_000


def span_command(programs, kind, count, directory):
    environment = {"DIAL9_BENCH_DIR": str(directory)} if kind == "dial9" else {}
    if kind == "kymo":
        (directory / "rings").mkdir(mode=0o700)
        environment = {"KYMO_MODE": "stream", "KYMO_RING_BYTES": "64M",
                       "KYMO_TRACE_DIR": str(directory), "KYMO_RING_DIR": str(directory / "rings")}
    program = programs.context.crate("tokio/spans") / "kymo-bench-spans"
    return [program, kind, str(count)], environment


def span_once(programs, kind):
    """CPU ns of the worker, an enter and its exit."""
    with programs.context.directory() as directory:
        output, _, _ = run(*span_command(programs, kind, SPAN_ENTERS, directory))
        if kind == "kymo":
            check_trace(programs.context.kymo, directory,
                        dict.fromkeys(("SpanRunStartEvent", "SpanRunEndEvent"), 2 * SPAN_ENTERS))
        return float(output)


def span_instructions(programs, kind):
    """The same, counted by callgrind."""
    with programs.context.directory() as directory:
        command, environment = span_command(programs, kind, SPAN_COUNTED, directory)
        run(["valgrind", "--tool=callgrind", "--collect-atstart=no", f"--log-file={directory}/log",
             f"--callgrind-out-file={directory}/out", *command], environment)
        text = pathlib.Path(directory / "out").read_text()
        return int(re.search(r"^(?:summary|totals): (\d+)", text, re.M).group(1)) / SPAN_COUNTED


def span_rows(programs, rounds):
    found = {kind: [] for kind in SPAN_KINDS}
    for index in range(rounds):
        programs.context.progress(f"spans of tracing, {index + 1} of {rounds}")
        cut = index % len(SPAN_KINDS)
        for kind in SPAN_KINDS[cut:] + SPAN_KINDS[:cut]:
            found[kind].append(again_when_lost(lambda: span_once(programs, kind)))
    added = {kind: differences(found[kind], found["none"]) for kind in ("kymo", "dial9")}
    title = "tracing, enter and exit of a span"
    rows = [row(f"{title}: registry alone", found["none"], "ns"),
            row(f"{title}: the layer adds", added["kymo"], "ns", 60,
                median_interval(added["dial9"])[0])]
    if shutil.which("valgrind"):
        counted = {kind: span_instructions(programs, kind) for kind in SPAN_KINDS}
        rows.append(row(f"{title}: the layer adds", counted["kymo"] - counted["none"],
                        "instructions", peer=counted["dial9"] - counted["none"]))
    return rows


def loop_rows(found):
    rows = []
    targets = {"spawn, first poll and end": 80}
    for title, figures in found.items():
        added = {name: differences([one["cpu_ns"] for one in figures[name]],
                                   [one["cpu_ns"] for one in figures["plain"]])
                 for name in ("inside", "dial9")}
        rows.append(row(f"{title}: untouched", [one["cpu_ns"] for one in figures["plain"]], "ns"))
        rows.append(row(f"{title}: the crate adds", added["inside"], "ns", targets.get(title),
                        median_interval(added["dial9"])[0]))
    figures = found["yield loop, a poll and its wake"]
    memory = {name: differences([one["peak"] / 2**20 for one in figures[name]],
                                [one["peak"] / 2**20 for one in figures["plain"]])
              for name in ("inside", "dial9")}
    rows.append(row("yield loop: peak memory that the crate adds, its ring of 32 MiB included",
                    memory["inside"], "MiB", 40, median_interval(memory["dial9"])[0]))
    return rows


def latency_rows(found):
    """Of a load in a closed loop, on the same two CPUs as what it loads."""
    rows = []
    for key, title, unit, scale in (("rate", "requests a second", "1/s", 1),
                                    ("p50_ns", "p50", "us", 1000), ("p99_ns", "p99", "us", 1000),
                                    ("p999_ns", "p99.9", "us", 1000)):
        peer = median_interval([one[key] / scale for one in found["dial9"]])[0]
        for name in ("plain", "inside, stream", "inside, flight"):
            rows.append(row(f"echo: {title}, {'untouched' if name == 'plain' else name}",
                            [one[key] / scale for one in found[name]], unit,
                            peer=None if name == "plain" else peer,
                            better="higher" if key == "rate" else "lower"))
    return rows


def echo_rows(found):
    def added(name):
        return differences([one["cpu_ns"] for one in found[name]],
                           [one["cpu_ns"] for one in found["plain"]])

    peer = median_interval(added("dial9"))[0]
    title = "a request, CPU of all threads"
    return [
        row(f"echo: {title}, untouched", [one["cpu_ns"] for one in found["plain"]], "ns"),
        row(f"echo: {title}, A/A control", added("plain again"), "ns"),
        row(f"echo: {title}, the crate adds, stream (dial9: raw)", added("inside, stream"), "ns",
            165, peer),
        row(f"echo: {title}, the crate adds, flight (dial9: raw)", added("inside, flight"), "ns",
            75, peer),
        *latency_rows(found),
        row("echo: zstd bytes on disk a request (dial9: raw)",
            [one["bytes"] for one in found["inside, stream"]], "B", 9,
            median_interval([one["bytes"] for one in found["dial9"]])[0]),
    ]


def rows(context):
    programs = Programs(context)
    rounds = min(context.rounds, ROUNDS_MAX)
    kymo = dependencies(ROOT / "crates", "kymo")
    peer = dependencies(ROOT / "bench" / "tokio" / "dial9", "dial9")
    return [
        *loop_rows(measure_loops(programs, rounds)),
        *span_rows(programs, rounds),
        *echo_rows(measure_echo(programs, rounds)),
        row("crates that the default build has beyond Tokio's own", kymo, "crates", 6, peer),
        row("clean build of the default crate, Tokio built already", clean_build_s(), "s", 20),
    ]
