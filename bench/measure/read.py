# SPDX-License-Identifier: Apache-2.0 OR MIT
"""Decoding and pairing ten million events, beside the decoder of dial9's crate alone."""
import json

from .programs import Broken, run
from .rows import row

EVENTS = 10_000_000
ROUNDS_MAX = 7


def rows(context):
    peer = context.crate("read/peer") / "kymo-bench-read-peer"
    program, trace = context.program("read"), context.scratch / "read.trc"
    context.progress("making a trace of 10 M events")
    run([program, "--write", trace, str(EVENTS)])
    cpu, peak = {"kymo": [], "dial9": []}, {"kymo": [], "dial9": []}
    for index in range(min(context.rounds, ROUNDS_MAX)):
        context.progress(f"reading it, round {index + 1}")
        for name in ("kymo", "dial9") if index % 2 else ("dial9", "kymo"):
            command = [program, trace] if name == "kymo" else [peer, "decode", trace]
            output, seconds, peak_bytes = run(command)
            events = json.loads(output)["events"]
            if events < EVENTS:
                raise Broken(f"{name} read {events} of {EVENTS} events")
            cpu[name].append(seconds)
            peak[name].append(peak_bytes / 1e6)
    trace.unlink()
    middle = {name: row("", cpu[name], "")["value"] for name in cpu}
    return [
        row("decode + pair 10 M events (dial9: decode alone)", cpu["kymo"], "s CPU", 0.6,
            middle["dial9"]),
        row("decode + pair 10 M events: peak memory", peak["kymo"], "MB", 400,
            row("", peak["dial9"], "")["value"]),
    ]
