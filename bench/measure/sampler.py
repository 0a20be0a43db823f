# SPDX-License-Identifier: Apache-2.0 OR MIT
"""What sampling the processor costs: one sample of the fallback source, and a busy service sampled
at 99 Hz, beside the peer's own profiler.

A busy service does the same work in every run: what its run costs more with sampling than without,
in CPU time of all processes that belong to it, is what sampling adds. Runs alternate."""
import json
import subprocess

from .programs import Broken, Lost, Running, again_when_lost, said
from .rows import differences, median_interval, row

EMPTY_TIMES_MAX = 1.2
FRAME_NS_MAX = 60
ADDED_MAX = 0.5  # per cent
RATE_HZ = 99
POLLS = 48_000  # some 2.5 s of both processors
# Recorder, sampler.
VARIANTS = (("kymo", "off"), ("kymo", "perf"), ("kymo", "timers"),
            ("dial9", "off"), ("dial9", "perf"), ("dial9", "ctimer"))
PEER = {"perf": "perf", "timers": "ctimer"}
SAMPLES_LEAST = 0.7  # of those that the CPU time lets expect: the first come late


def one_sample(context):
    with context.directory() as directory:
        done = subprocess.run([context.program("sampler"), directory], text=True,
                              capture_output=True)
    if done.returncode != 0:
        raise Broken(f"bench_sampler: {done.stderr.strip() or done.returncode}")
    return json.loads(done.stdout)


def sample_rows(context):
    context.progress("sampler: one sample of the fallback source")
    found = [one_sample(context) for _ in range(min(context.rounds, 9))]
    empty = median_interval([e["empty_ns"] for e in found])[0]
    return [
        row("sample: signal with an empty handler", [e["empty_ns"] for e in found], "ns"),
        row("sample: timer source, 20 frames", [e["sample_ns"] for e in found], "ns",
            round(EMPTY_TIMES_MAX * empty + FRAME_NS_MAX * found[0]["frames"])),
    ]


def perf_rows(found):
    """One sample by perf_event: in the thread that it stops, and in whoever reads it."""
    return [
        row("sample: perf_event, in the thread that it stops", [e["host_ns"] for e in found], "ns"),
        row("sample: the same without its stack: the kernel's own",
            [e["bare_host_ns"] for e in found], "ns"),
        row("sample: perf_event, read, walked and kept", [e["reader_ns"] for e in found], "ns"),
    ]


def measure_perf(context):
    context.progress("sampler: one sample by perf_event")
    found = [said([context.program("sampler", "perf")]) for _ in range(min(context.rounds, 9))]
    if None in found:
        context.progress("perf_event yields nothing here: rows left out")
        return []
    return perf_rows(found)


class Service:
    """The busy service under both recorders."""

    def __init__(self, context):
        self.context = context
        self.plain = context.crate("tokio/plain")
        # As the peer's README wants it for its profiler.
        self.dial9 = context.crate("tokio/dial9", "profiler",
                                   "--cfg tokio_unstable -C force-frame-pointers=yes")

    def command(self, recorder, sampler, directory):
        if recorder == "dial9":
            environment = {"DIAL9_BENCH_DIR": str(directory), "DIAL9_BENCH_GZIP": "1"}
            if sampler != "off":
                environment["DIAL9_BENCH_SAMPLER"] = sampler
            return [self.dial9 / "busy", str(POLLS)], environment
        how = ["--sample", "off"] if sampler == "off" else ["--sampler", sampler, "--sample",
                                                            str(RATE_HZ)]
        return [self.context.kymo, "run", "--quiet", *how, "-o", directory, "--",
                self.plain / "busy", str(POLLS)], None

    def check(self, directory, sampler, cpu_s, name):
        """What recorded nothing costs nothing; what lost something is no result."""
        done = subprocess.run([self.context.kymo, "info", "--json", directory], text=True,
                              capture_output=True)
        if done.returncode != 0:
            raise Broken(f"kymo info cannot read the trace of {name}: {done.stderr.strip()}")
        info = json.loads(done.stdout)
        counts = {entry["name"]: entry["count"] for entry in info["types"]}
        if counts.get("PollStartEvent", 0) < POLLS:
            raise Lost(f"{name}: {counts.get('PollStartEvent', 0)} polls, there were {POLLS}")
        samples, wanted = counts.get("CpuSampleEvent", 0), cpu_s * RATE_HZ
        if (samples > 0) if sampler == "off" else (samples < SAMPLES_LEAST * wanted):
            raise Broken(f"{name}: {samples} samples of {cpu_s:.1f} s of CPU time")

    def once(self, recorder, sampler):
        """CPU seconds of a run, start and end included."""
        with self.context.directory() as directory:
            with Running(*self.command(recorder, sampler, directory)) as running:
                output, cpu_s, _ = running.finish()
            self.check(directory, sampler, int(output.split()[0]) / 1e9, f"{recorder} {sampler}")
        return cpu_s


def measure_services(context):
    service = Service(context)
    figures = {variant: [] for variant in VARIANTS}
    for index in range(context.rounds):
        context.progress(f"sampler: busy service, {index + 1} of {context.rounds}")
        cut = index % len(VARIANTS)
        for variant in VARIANTS[cut:] + VARIANTS[:cut]:
            figures[variant].append(again_when_lost(lambda: service.once(*variant)))
    return figures


def added(figures, recorder, sampler):
    """Per cent of what the same service takes when nobody samples it."""
    base = figures[recorder, "off"]
    whole = median_interval(base)[0]
    return [100 * difference / whole
            for difference in differences(figures[recorder, sampler], base)]


def service_rows(figures):
    result = [row("busy service: CPU time, recorded, not sampled", figures["kymo", "off"], "s",
                  None, median_interval(figures["dial9", "off"])[0])]
    for sampler, peers in PEER.items():
        own, peer = added(figures, "kymo", sampler), added(figures, "dial9", peers)
        result += [
            row(f"busy service: sampling by {sampler} adds", own, "%", ADDED_MAX,
                median_interval(peer)[0]),
            row(f"busy service: that less dial9's by {peers}", differences(own, peer), "%", 0),
        ]
    return result


def rows(context):
    return (sample_rows(context) + measure_perf(context) +
            service_rows(measure_services(context)))
