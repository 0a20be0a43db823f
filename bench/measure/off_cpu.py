# SPDX-License-Identifier: Apache-2.0 OR MIT
"""What it costs to know what polls waited for, and what the kernel counted."""
import json
import subprocess

from .programs import Broken, said
from .rows import row

# A service of 20,000 parks a second: two calls that may block inside the polls of each, four
# workers that tell as many intervals as they may, and a look at each of them a second.
PARKS_HZ = 20_000
CALLS_PER_PARK = 2
WORKERS = 4
TOLD_HZ_MAX = 200
SHARE_MAX = 0.5


def attempt(context):
    done = subprocess.run([context.program("off_cpu")], text=True, capture_output=True)
    if done.returncode != 0:
        raise Broken(f"bench_off_cpu: {done.stderr.strip() or done.returncode}")
    return json.loads(done.stdout)


def share(found):
    """Per cent of a core."""
    ns = (PARKS_HZ * CALLS_PER_PARK * max(found["inside_ns"], 0) +
          WORKERS * (TOLD_HZ_MAX * found["reported_ns"] + found["check_ns"]))
    return ns / 1e7


def switch_rows(found):
    """What perf_event takes of a thread each time that it parks: a switch away and one back."""
    def more(kind, base):
        return [e[f"{kind}_ns"] - e[f"{base}_ns"] for e in found]

    return [
        row("a park: sampled at 99 Hz, more", more("sampled", "alone"), "ns"),
        row("a park: between windows of switches, more", more("shut", "sampled"), "ns"),
        row("a park: in a window, more", more("open", "shut"), "ns"),
        row("a switch record: read", [e["read_ns"] for e in found], "ns"),
        row("20,000 parks a second: the kernel's part of sampling",
            [PARKS_HZ * each / 1e7 for each in more("sampled", "alone")], "% of a core"),
        row("20,000 parks a second: its part of switches, between windows",
            [PARKS_HZ * each / 1e7 for each in more("shut", "sampled")], "% of a core"),
    ]


def measure_switches(context):
    context.progress("off-CPU: parks while perf_event looks")
    found = [said([context.program("off_cpu", "switches")])
             for _ in range(min(context.rounds, 9))]
    if None in found:
        context.progress("perf_event yields nothing here: rows left out")
        return []
    return switch_rows(found)


def rows(context):
    context.progress("off-CPU: calls, intervals and looks")
    found = [attempt(context) for _ in range(min(context.rounds, 9))]
    return [
        row("off-CPU: a call outside polls", [e["outside_ns"] for e in found], "ns"),
        row("off-CPU: a short call inside a poll", [e["inside_ns"] for e in found], "ns"),
        row("off-CPU: an interval told with 30 frames", [e["reported_ns"] for e in found], "ns"),
        row("off-CPU: a look at a worker's counters", [e["check_ns"] for e in found], "ns"),
        row("off-CPU: all of it, 20,000 parks a second", [share(e) for e in found], "% of a core",
            SHARE_MAX),
    ] + measure_switches(context)
