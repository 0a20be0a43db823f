# SPDX-License-Identifier: Apache-2.0 OR MIT
"""Tokio programs untouched, under `kymo run`, and built with dial9, alternating.

What a variant costs is its figure less the untouched one of the same round (a pair), so that drift
of the machine cancels; a row is the median over the rounds. A run that lost records is tried again.
"""
import json

from . import emit
from .programs import (ROOT, Broken, Running, again_when_lost, check_trace, run, stored_bytes)
from .rows import differences, median_interval, ratios, row

VARIANTS = ("plain", "kymo", "dial9")
# No stacks, no switches: what recording the runtime's events costs by itself.
EVENTS_ALONE = "kymo, events alone"
EVENTS_ALONE_OPTIONS = ("--switches", "off", "--profile", ROOT / "bench" / "tokio" / "events.toml")
YIELD_VARIANTS = (*VARIANTS, EVENTS_ALONE)
# The preset that writes what was slow and counts the rest.
PRESET = "kymo, profile"
# Both write compressed segments in "dial9+gzip": the same work as kymo's. "dial9" writes them raw.
ECHO_VARIANTS = (*VARIANTS, "dial9+gzip", PRESET)
POLLS = 700_000  # a pass: more than the default ring holds, little enough to be drained in time
REQUESTS = 600_000  # long enough that start-up, some 10 ms, does not look like a cost of requests
CONNECTIONS = 50
YIELDS_PER_ROUND = 2
PASSES = 2


class Programs:
    """The three variants of the programs, and how each is started."""

    def __init__(self, context):
        self.context = context
        self.plain = context.crate("tokio/plain")
        self.dial9 = context.crate("tokio/dial9")
        self.peer = context.crate("read/peer") / "kymo-bench-read-peer"
        self.checked = set()

    def command(self, variant, program, arguments, directory):
        if variant.startswith("dial9"):
            environment = {"DIAL9_BENCH_DIR": str(directory)}
            if variant == "dial9+gzip":
                environment["DIAL9_BENCH_GZIP"] = "1"
            return ([self.dial9 / program, *arguments], environment)
        command = [self.plain / program, *arguments]
        if variant == PRESET:
            command = ["--profile", "profile", "--", *command]
        elif variant == EVENTS_ALONE:
            command = [*EVENTS_ALONE_OPTIONS, "--", *command]
        elif variant == "kymo":
            command = ["--", *command]
        if variant != "plain":
            command = [self.context.kymo, "run", "--quiet", "-o", directory, *command]
        return (command, None)

    def check_dial9(self, program, directory, polls):
        """The peer must have recorded too, or its cost means nothing. Looked at once a program."""
        if program in self.checked:
            return
        output, _, _ = run([self.peer, "count", directory])
        events = json.loads(output)["events"]
        if events < 2 * polls:
            raise Broken(f"dial9 recorded {events} events of {program} for {polls} polls")
        self.checked.add(program)


def rotated(variants, index):
    cut = index % len(variants)
    return variants[cut:] + variants[:cut]


def yield_once(programs, variant):
    """CPU ns a poll of the program's second pass, and of its first."""
    polls = PASSES * POLLS
    with programs.context.directory() as directory:
        output, _, _ = run(*programs.command(variant, "yield-loop", [str(POLLS)], directory))
        if variant in ("kymo", EVENTS_ALONE):
            check_trace(programs.context.kymo, directory,
                        {"PollStartEvent": polls, "PollEndEvent": polls, "WakeEventEvent": polls})
        elif variant == "dial9":
            programs.check_dial9("yield-loop", directory, polls)
        cpu_ns, _, first_ns = map(float, output.split())
        return {"cpu_ns": cpu_ns, "first_ns": first_ns}


def echo_once(programs, variant):
    """One run of the server against its load."""
    with programs.context.directory() as directory:
        command = programs.command(variant, "echo", [str(CONNECTIONS)], directory)
        with Running(*command) as server:
            port = server.line()
            load, _, _ = run([programs.plain / "echo-load", port, str(CONNECTIONS), str(REQUESTS)])
            server.finish()
        result = json.loads(load)
        requests = result["requests"]
        if requests != REQUESTS:
            raise Broken(f"the echo server answered {requests} of {REQUESTS} requests")
        result["rate"] = requests / result["seconds"]
        if variant in (PRESET, "kymo"):
            # What the preset holds back is counted in histograms.
            least = ({"HistogramEvent": 1} if variant == PRESET else
                     dict.fromkeys(("PollStartEvent", "PollEndEvent", "WakeEventEvent"), requests))
            events, stored, _ = check_trace(programs.context.kymo, directory, least)
            result["bytes"], result["bytes_per_event"] = stored / requests, stored / events
        elif variant == "dial9":
            programs.check_dial9("echo", directory, requests)
            result["bytes"] = stored_bytes(directory, ".bin") / requests
        elif variant == "dial9+gzip":
            result["bytes"] = stored_bytes(directory, ".gz") / requests
        return result


def measure_yields(programs):
    figures = {variant: [] for variant in (*YIELD_VARIANTS, "counter")}
    for index in range(YIELDS_PER_ROUND * programs.context.rounds):
        programs.context.progress(
            f"yield loop, {index + 1} of {YIELDS_PER_ROUND * programs.context.rounds}")
        figures["counter"].append(emit.counter_ns(programs.context))
        for variant in rotated(YIELD_VARIANTS, index):
            figures[variant].append(again_when_lost(lambda: yield_once(programs, variant)))
    return figures


def measure_echoes(programs):
    figures = {variant: [] for variant in ECHO_VARIANTS}
    for index in range(programs.context.rounds):
        programs.context.progress(f"echo, {index + 1} of {programs.context.rounds}")
        for variant in rotated(ECHO_VARIANTS, index):
            figures[variant].append(again_when_lost(lambda: echo_once(programs, variant)))
    return figures


def share_row(name, own, peer, target):
    """Own cost as a share of the peer's: of the medians, with the interval of the own one."""
    middle, low, high = median_interval(own)
    whole = median_interval(peer)[0]
    if whole <= 0:
        raise Broken(f"{name}: dial9 seems to cost {whole:.1f} ns: the machine is too noisy")
    entry = row(name, middle / whole, "share", target, 1.0)
    return {**entry, "spread": [round(low / whole, 4), round(high / whole, 4)],
            "rounds": len(own)}


def column(figures, variant, key):
    return [result[key] for result in figures[variant] if key in result]


def added(figures, variant, key):
    return differences(column(figures, variant, key), column(figures, "plain", key))


def yield_rows(figures):
    own, alone, peer = (added(figures, variant, "cpu_ns")
                        for variant in ("kymo", EVENTS_ALONE, "dial9"))
    times, peer_times = (ratios(cost, figures["counter"]) for cost in (own, peer))
    first, peer_first = (added(figures, variant, "first_ns") for variant in ("kymo", "dial9"))
    return [
        row("yield loop: untouched, per poll", column(figures, "plain", "cpu_ns"), "ns"),
        row("yield loop: kymo run adds per poll", own, "ns", None, median_interval(peer)[0]),
        row("yield loop: the same beside the counter", times, "x counter", 5.0,
            median_interval(peer_times)[0]),
        share_row("yield loop: the same beside dial9", own, peer, 0.25),
        row("yield loop: events alone, no stacks", alone, "ns", None, median_interval(peer)[0]),
        row("yield loop: events alone beside the counter",
            ratios(alone, figures["counter"]), "x counter", 5.0),
        share_row("yield loop: events alone beside dial9", alone, peer, 0.25),
        row("yield loop: added while the ring is touched first", first, "ns", None,
            median_interval(peer_first)[0]),
    ]


def echo_rows(figures):
    def change(variant, key):
        return [100 * (ratio - 1) for ratio in
                ratios(column(figures, variant, key), column(figures, "plain", key))]

    def own_row(title, key, *rest):
        return row(title, column(figures, "kymo", key), *rest)

    gzip = median_interval(column(figures, "dial9+gzip", "bytes"))[0]
    raw = median_interval(column(figures, "dial9", "bytes"))[0]
    return [
        row("echo: throughput, untouched", column(figures, "plain", "rate"), "requests/s",
            better="higher"),
        row("echo: throughput, change by recording", change("kymo", "rate"), "%", None,
            median_interval(change("dial9+gzip", "rate"))[0], better="higher"),
        row("echo: p99 latency, change by recording", change("kymo", "p99_ns"), "%", None,
            median_interval(change("dial9+gzip", "p99_ns"))[0]),
        own_row("echo: zstd bytes on disk per event", "bytes_per_event", "B", 3.0),
        own_row("echo: zstd bytes on disk per request (dial9: gzip)", "bytes", "B", 9, gzip),
        own_row("echo: zstd bytes on disk per request (dial9: raw)", "bytes", "B", None, raw),
        row("echo: kymo run --profile profile, zstd bytes on disk per request",
            column(figures, PRESET, "bytes"), "B"),
    ]


def rows(context):
    programs = Programs(context)
    return yield_rows(measure_yields(programs)) + echo_rows(measure_echoes(programs))
