# SPDX-License-Identifier: Apache-2.0 OR MIT
"""What a look at a process's resources costs, once a second."""
import json
import subprocess

from .programs import Broken
from .rows import row

LOOK_US_MAX = 500  # 0.05 % of a core
LOADS = {
    "100 descriptors, 2 listeners, 8 threads": [],
    "10,000 descriptors, 100 listeners": ["--fds", "10000", "--listeners", "100"],
    "2,000 connections": ["--connections", "2000"],
}


def attempt(context, arguments):
    done = subprocess.run([context.program("resources"), *arguments], text=True,
                          capture_output=True)
    if done.returncode != 0:
        raise Broken(f"bench_resources: {done.stderr.strip() or done.returncode}")
    return json.loads(done.stdout)


def rows_of(name, found):
    """found: what bench_resources printed in each round."""
    return [row(f"resources: a look from outside, {name}", [one["look_us"] for one in found],
                "us", LOOK_US_MAX),
            row(f"resources: the first look, {name}", [one["first_us"] for one in found], "us",
                None)]


def rows(context):
    result = []
    for name, arguments in LOADS.items():
        context.progress(f"resources: {name}")
        found = [attempt(context, arguments) for _ in range(context.rounds)]
        result += rows_of(name, found)
        if not arguments:
            result.append(row("resources: a look at the own process",
                              [one["own_us"] for one in found], "us", LOOK_US_MAX))
    return result
