# SPDX-License-Identifier: Apache-2.0 OR MIT
"""What static tracepoints cost: detached, beside the same program without any; and where bpftrace
counts."""
import json
import os
import shutil
import statistics
import subprocess
import time

from .emit import TITLES, instructions
from .programs import Broken, run
from .rows import differences, row

ROUNDS = 101
COUNTED_ROUNDS = 11
DETACHED_NS_MAX = 0.5
COUNTED_NS_MAX = 450
WAIT_S = 30


def turns(program, name, rounds=ROUNDS, of=min):
    """ns of a turn: the least of a run, which other load can only raise."""
    output, _, _ = run([program, "--json", str(rounds), name])
    return of(json.loads(output)["ns"])


def detached_rows(context, program, without):
    result = []
    for name in ("pair", "wake"):
        own, other, again = [], [], []
        for index in range(context.rounds):
            context.progress(f"usdt: {TITLES[name]}, {index + 1} of {context.rounds}")
            own.append(turns(program, name))
            other.append(turns(without, name))
            again.append(turns(program, name))
        result += [
            row(f"{TITLES[name]}: a probe, detached", differences(own, other), "ns",
                DETACHED_NS_MAX),
            row(f"{TITLES[name]}: A/A control", differences(own, again), "ns"),
        ]
    return result


class Counting:
    """bpftrace counts the hits of one probe of a program."""

    def __init__(self, program, probe):
        script = f'BEGIN {{ printf("attached\\n"); }} usdt:{program}:{probe} {{ @ = count(); }}'
        self.process = subprocess.Popen(["bpftrace", "-e", script], stdout=subprocess.PIPE,
                                        stderr=subprocess.STDOUT, text=True)

    def __enter__(self):
        end = time.monotonic() + WAIT_S
        while "attached" not in (line := self.process.stdout.readline()):
            if not line or time.monotonic() > end:
                raise Broken("bpftrace does not attach")
        return self

    def __exit__(self, *_):
        self.process.terminate()
        self.process.communicate(timeout=WAIT_S)


def counted_rows(context, program):
    if os.geteuid() != 0 or not shutil.which("bpftrace"):
        context.progress("usdt: bpftrace may not trace here: rows left out")
        return []
    added = []
    for index in range(min(context.rounds, 9)):
        context.progress(f"usdt: counted by bpftrace, {index + 1}")
        bare = turns(program, "pair", COUNTED_ROUNDS, statistics.median)
        with Counting(program, "tokio:task__poll__start"):
            added.append(turns(program, "pair", COUNTED_ROUNDS, statistics.median) - bare)
    return [row("a poll whose start bpftrace counts, less one detached", added, "ns",
                COUNTED_NS_MAX)]


def rows(context):
    program = context.program("usdt")
    without = context.program("usdt", "usdt_without")
    result = detached_rows(context, program, without) + counted_rows(context, program)
    context.progress("usdt: instructions, under callgrind")
    for name in ("pair", "wake"):
        more = instructions(program, name) - instructions(without, name)
        result.append(row(f"{TITLES[name]}: instructions of a probe, detached", more,
                          "instructions"))
    return result
