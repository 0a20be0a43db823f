# SPDX-License-Identifier: Apache-2.0 OR MIT
"""What it costs to sample allocations at 512 KiB."""
import json
import subprocess

from .programs import Broken
from .rows import row

LOOP_PERCENT_MAX = 1


def attempt(context):
    done = subprocess.run([context.program("alloc")], text=True, capture_output=True)
    if done.returncode != 0:
        raise Broken(f"bench_alloc: {done.stderr.strip() or done.returncode}")
    return json.loads(done.stdout)


def rows(context):
    context.progress("allocations: calls, a loop, samples")
    found = [attempt(context) for _ in range(min(context.rounds, 9))]
    return [
        row("allocation: malloc and free more, gate shut", [e["bare_off_ns"] for e in found],
            "ns"),
        row("allocation: malloc and free more, one in 512 KiB", [e["bare_on_ns"] for e in found],
            "ns"),
        row("allocation: malloc and free more, a jump and nothing else",
            [e["bare_floor_ns"] for e in found], "ns"),
        row("allocation: one told with its stack, and its end", [e["reported_ns"] for e in found],
            "ns"),
        row("allocation: a loop that does little else", [e["loop_ns"] for e in found], "ns"),
        row("allocation: that loop more, one in 512 KiB", [e["loop_on_percent"] for e in found],
            "%", LOOP_PERCENT_MAX),
        row("allocation: the same, a jump and nothing else",
            [e["loop_floor_percent"] for e in found], "%"),
        row("allocation: that loop more than with the jump",
            [e["loop_on_percent"] - e["loop_floor_percent"] for e in found], "%"),
    ]
