# SPDX-License-Identifier: Apache-2.0 OR MIT
"""What a watchdog takes of one core while it watches 64 workers that are busy."""
import json
import subprocess

from .programs import Broken
from .rows import row

PERCENT_MAX = 0.1
LATENCY_MS_MAX = 100
STUCK = 60
LOADS = {
    "poll and stall, 20 looks a second": ["poll>50ms; stall>1s"],
    "every rule that needs no events": [],
    "the same, all workers parked": ["--parked"],
}


def attempt(context, arguments):
    done = subprocess.run([context.program("watch"), *arguments], text=True, capture_output=True)
    if done.returncode != 0:
        raise Broken(f"bench_watch: {done.stderr.strip() or done.returncode}")
    return json.loads(done.stdout)


def rows_of(name, found):
    """found: what bench_watch printed in each round."""
    shares = [entry["percent"] for entry in found]
    looks = [entry["looks_a_second"] for entry in found]
    return [row(f"watchdog: share of one core, {name}", shares, "%", PERCENT_MAX),
            row(f"watchdog: looks a second, {name}", looks, "1/s", 20)]


def stuck_rows(found):
    """How long behind its threshold a rule fires for a poll that stays open; every one counts."""
    if len(found["fired_ms"]) != found["stuck"]:
        raise Broken(f"bench_watch: {len(found['fired_ms'])} of {found['stuck']} stuck polls "
                     "were noticed")
    name = "watchdog: stuck poll, trigger behind its threshold"
    return [row(name, found["fired_ms"], "ms", LATENCY_MS_MAX),
            row(f"{name}, the longest of {found['stuck']}", max(found["fired_ms"]), "ms",
                LATENCY_MS_MAX)]


def rows(context):
    result = []
    for name, arguments in LOADS.items():
        context.progress(f"watchdog: {name}")
        found = [attempt(context, arguments) for _ in range(min(context.rounds, 5))]
        result += rows_of(name, found)
    context.progress("watchdog: polls that stay open")
    return result + stuck_rows(attempt(context, ["--stuck", str(STUCK)]))
