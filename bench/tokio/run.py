#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0 OR MIT
"""End-to-end cost of recording: untouched, `kymo run`, built with dial9, alternating in one run.

Cost of a variant = its figure minus the untouched figure of the same round (a pair), so slow drift
of the machine cancels; the row is the median over rounds with its 95 % interval from the order
statistics. A run in which kymo lost a record is no result: the program stops with exit code 1.
"""

import argparse
import json
import math
import os
import shutil
import statistics
import subprocess
import sys
import tempfile

HERE = os.path.dirname(os.path.abspath(__file__))


def build(directory, target, progress):
    progress(f"building {os.path.basename(directory)}")
    environment = dict(os.environ, CARGO_TARGET_DIR=target)
    subprocess.run(
        ["cargo", "build", "--release", "--locked", "--quiet"],
        cwd=directory, env=environment, check=True,
    )
    return os.path.join(target, "release")


def median_interval(values):
    """Median and a distribution-free 95 % interval (binomial order statistics)."""
    ordered = sorted(values)
    count = len(ordered)
    reach = max(0, math.floor(count / 2 - 0.98 * math.sqrt(count)))
    return statistics.median(ordered), ordered[reach], ordered[count - 1 - reach]


def run_measured(command, environment=None, stdout=subprocess.PIPE):
    """Runs to the end; returns stdout and the CPU seconds of the process and all it waited for."""
    process = subprocess.Popen(command, stdout=stdout, env=environment, text=True)
    output = process.stdout.read()
    _, status, usage = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    process.stdout.close()
    if process.returncode != 0:
        sys.exit(f"bench/tokio: {' '.join(command)} ended with {process.returncode}")
    return output, usage.ru_utime + usage.ru_stime


class Bench:
    def __init__(self, kymo, plain, dial9, rounds, progress):
        self.kymo, self.plain, self.dial9 = kymo, plain, dial9
        self.rounds, self.progress = rounds, progress
        self.scratch = tempfile.mkdtemp(prefix="kymo-bench-")
        self.traces = 0
        self.events = 0
        self.stored = 0

    def variant(self, name, program):
        """Command and environment of one variant, with a fresh trace directory."""
        directory = os.path.join(self.scratch, f"{name}-{self.traces}")
        self.traces += 1
        os.makedirs(directory)
        if name == "plain":
            return [os.path.join(self.plain, program)], None, directory
        if name == "dial9":
            environment = dict(os.environ, DIAL9_BENCH_DIR=directory)
            return [os.path.join(self.dial9, program)], environment, directory
        program = os.path.join(self.plain, program)
        command = [self.kymo, "run", "--quiet", "-o", directory, "--", program]
        return command, None, directory

    def check_trace(self, directory):
        """Losses of a kymo trace must be zero; also adds up events and bytes on disk."""
        command = [self.kymo, "info", "--json", directory]
        output = subprocess.run(command, check=True, capture_output=True)
        info = json.loads(output.stdout)
        lost = info["lost_records"]
        if lost:
            sys.exit(f"bench/tokio: kymo lost {lost} records: this run is no result")
        for base, _, files in os.walk(directory):
            self.stored += sum(os.path.getsize(os.path.join(base, f)) for f in files if ".trc" in f)
        self.events += sum(entry["count"] for entry in info["types"])

    def finish(self, name, directory):
        if name == "kymo":
            self.check_trace(directory)
        shutil.rmtree(directory)

    def yield_loop(self, polls):
        figures = {"plain": [], "kymo": [], "dial9": []}
        for index in range(self.rounds):
            for name in rotated(list(figures), index):
                command, environment, directory = self.variant(name, "yield-loop")
                output, _ = run_measured(command + [str(polls)], environment)
                figures[name].append(float(output.split()[0]))
                self.finish(name, directory)
            self.progress(f"yield loop, round {index + 1} of {self.rounds}")
        return figures

    def echo_once(self, name, connections, requests):
        command, environment, directory = self.variant(name, "echo")
        command = command + [str(connections)]
        server = subprocess.Popen(command, stdout=subprocess.PIPE, env=environment, text=True)
        port = server.stdout.readline().strip()
        load, _ = run_measured(
            [os.path.join(self.plain, "echo-load"), port, str(connections), str(requests)]
        )
        server.stdout.read()
        _, status, usage = os.wait4(server.pid, 0)
        server.returncode = os.waitstatus_to_exitcode(status)
        server.stdout.close()
        if server.returncode != 0:
            sys.exit(f"bench/tokio: {name} echo server ended with {server.returncode}")
        result = json.loads(load)
        result["cpu_ns"] = (usage.ru_utime + usage.ru_stime) * 1e9 / result["requests"]
        self.events = self.stored = 0
        self.finish(name, directory)
        result["bytes"] = self.stored / result["requests"]
        result["bytes_per_event"] = self.stored / self.events if self.events else 0
        return result

    def echo(self, connections, requests):
        figures = {"plain": [], "kymo": [], "dial9": []}
        for index in range(self.rounds):
            for name in rotated(list(figures), index):
                figures[name].append(self.echo_once(name, connections, requests))
            self.progress(f"echo, round {index + 1} of {self.rounds}")
        return figures


def rotated(names, index):
    cut = index % len(names)
    return names[cut:] + names[:cut]


def row(name, values, unit, target, peer=None, better="lower"):
    middle, low, high = median_interval(values)
    return {
        "name": name,
        "value": round(middle, 3),
        "unit": unit,
        "target": target,
        "better": better,
        "peer": peer,
        "spread": [round(low, 3), round(high, 3)],
        "rounds": len(values),
    }


def differences(figures, name, key=lambda value: value):
    return [key(own) - key(plain) for own, plain in zip(figures[name], figures["plain"])]


def rows_of(yields, echoes):
    poll = row("yield loop: dial9 adds per poll", differences(yields, "dial9"), "ns", None)
    rows = [
        row("yield loop: untouched, per poll", yields["plain"], "ns", None),
        poll,
        row("yield loop: kymo run adds per poll", differences(yields, "kymo"), "ns", None,
            poll["value"]),
    ]
    rows.append(
        {
            "name": "yield loop: kymo's share of what dial9 adds",
            "value": round(rows[2]["value"] / poll["value"], 3),
            "unit": "ratio",
            "target": 0.25,
            "better": "lower",
            "peer": 1.0,
            "spread": [],
        }
    )
    cpu = lambda result: result["cpu_ns"]
    rate = lambda result: result["requests"] / result["seconds"]
    peer = row("echo: dial9 adds per request, server CPU", differences(echoes, "dial9", cpu), "ns",
               None)
    own = row("echo: kymo run adds per request, CPU of all its processes",
              differences(echoes, "kymo", cpu), "ns", 250, peer["value"])
    plain = [cpu(result) for result in echoes["plain"]]
    rows += [row("echo: untouched, server CPU per request", plain, "ns", None), peer, own]
    rows.append(
        {
            "name": "echo: kymo's share of what dial9 adds",
            "value": round(own["value"] / peer["value"], 3) if peer["value"] else None,
            "unit": "ratio",
            "target": 0.333,
            "better": "lower",
            "peer": 1.0,
            "spread": [],
        }
    )
    for name in ("kymo", "dial9"):
        share = [
            100 * (rate(own) / rate(plain) - 1) for own, plain in zip(echoes[name], echoes["plain"])
        ]
        rows.append(row(f"echo: throughput under {name}", share, "%", None, better="higher"))
    for key, target, unit in (("bytes", 9, "B/request"), ("bytes_per_event", 3.0, "B/event")):
        peer_bytes = None
        stored = [result[key] for result in echoes["kymo"]]
        rows.append(row(f"echo: zstd on disk, {unit}", stored, unit, target, peer_bytes))
    return rows


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--kymo", required=True, help="the kymo program")
    parser.add_argument("--build-dir", required=True, help="where cargo may build")
    parser.add_argument("--rounds", type=int, default=15)
    parser.add_argument("--polls", type=int, default=3_000_000)
    parser.add_argument("--requests", type=int, default=200_000)
    parser.add_argument("--connections", type=int, default=50)
    parser.add_argument("--json", action="store_true", help="one JSON line a row")
    arguments = parser.parse_args()

    def progress(text):
        print(f"bench/tokio: {text}", file=sys.stderr, flush=True)

    plain = build(os.path.join(HERE, "plain"), os.path.join(arguments.build_dir, "plain"), progress)
    dial9 = build(os.path.join(HERE, "dial9"), os.path.join(arguments.build_dir, "dial9"), progress)
    bench = Bench(os.path.abspath(arguments.kymo), plain, dial9, arguments.rounds, progress)
    try:
        yields = bench.yield_loop(arguments.polls)
        echoes = bench.echo(arguments.connections, arguments.requests)
    finally:
        shutil.rmtree(bench.scratch, ignore_errors=True)
    for entry in rows_of(yields, echoes):
        if arguments.json:
            print(json.dumps(entry))
        else:
            low, high = (entry["spread"] + [None, None])[:2]
            print(f"{entry['name']:<62} {entry['value']:>10} {entry['unit']:<9} [{low} .. {high}]"
                  f" target {entry['target']}")


if __name__ == "__main__":
    main()
