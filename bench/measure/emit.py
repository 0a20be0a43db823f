# SPDX-License-Identifier: Apache-2.0 OR MIT
"""What one event costs the host: ns beside a bare loop over the counter, and instructions."""
import json
import re
import shutil
import subprocess

from .programs import Broken, run
from .rows import median_interval, ratios, row

TURNS = (100_000, 300_000)
SAMPLES = 201
TITLES = {"event": "one event", "event_call": "one event, behind a call",
          "pair": "poll begin + end", "wake": "one wake"}
TIMES_COUNTER_MAX = {"event": 1.10, "event_call": 1.15, "pair": 2.2, "wake": 1.10}
INSTRUCTIONS_MAX = {"event": 40, "event_call": 50, "pair": 65, "wake": 40}
SPAN_TIMES_EVENTS_MAX = 2.2  # of two events: a begin, an end, and where the watchdog sees it


def samples(context, count=SAMPLES, only=None):
    """Row -> ns a turn, one figure a round; the rounds of all rows are interleaved."""
    command = [context.program("emit"), "--json", str(count)] + ([only] if only else [])
    output, _, _ = run(command)
    return {entry["name"]: entry["ns"] for entry in map(json.loads, output.splitlines())}


def counter_ns(context):
    """ns of one read of the counter, now: what end-to-end figures of the same round stand beside.

    The least of a few turns: a figure that other load can only raise.
    """
    return min(samples(context, 5, "ticks")["ticks"])


def collected(program, name, turns):
    done = subprocess.run(["valgrind", "--tool=callgrind", "--callgrind-out-file=/dev/null",
                           program, "--loop", name, str(turns)], text=True, capture_output=True)
    found = re.search(r"Collected\s*:\s*(\d+)", done.stderr)
    if done.returncode != 0 or not found:
        raise Broken(f"callgrind counted nothing for {name}: {done.stderr.strip()[-500:]}")
    return int(found.group(1))


def instructions(program, name):
    """Of one turn: the difference of two lengths, so that start and end do not count."""
    few, many = (collected(program, name, turns) for turns in TURNS)
    return (many - few) / (TURNS[1] - TURNS[0])


def dial9_encoder(context):
    """Row -> ns, of the encoder of dial9's crate; the recorder around it is not counted."""
    program = context.crate("read/peer") / "kymo-bench-read-peer"
    output, _, _ = run([program, "encode"])
    return json.loads(output)


def rows(context):
    context.progress("one event")
    ns = samples(context)
    peer = dial9_encoder(context)
    ticks = median_interval(ns["ticks"])[0]
    result = [row("bare read of the counter", ns["ticks"], "ns")]
    for name, title in TITLES.items():
        encoder = peer.get(name)
        result.append(row(title, ratios(ns[name], ns["ticks"]), "x counter",
                          TIMES_COUNTER_MAX[name], encoder / ticks if encoder else None))
    result.append(row("span begin + end", ratios(ns["span"], [2 * one for one in ns["event"]]),
                      "x two events", SPAN_TIMES_EVENTS_MAX))
    result.append(row("disabled event, with the loop around it", ns["disabled"], "ns", 1.0))
    context.figures["hot_ns"] = [(pair + wake) / 3 for pair, wake in zip(ns["pair"], ns["wake"])]
    context.figures["dial9_encode_ns"] = (peer["pair"] + peer["wake"]) / 3
    if not shutil.which("valgrind"):
        raise Broken("valgrind is missing, so no instruction was counted; run tools/setup.sh test")
    program = context.program("emit")
    context.progress("instructions, under callgrind")
    empty = instructions(program, "plain")
    for name, most in INSTRUCTIONS_MAX.items():
        result.append(row(f"{TITLES[name]}: instructions", instructions(program, name) - empty,
                          "instructions", most))
    return result
