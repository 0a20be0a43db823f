# SPDX-License-Identifier: Apache-2.0 OR MIT
"""What it costs to know where tasks wait: clones of wakers, and what each poll pays."""
import json
import subprocess

from .programs import Broken
from .rows import row

CLONE_NS_MAX = 40


def attempt(context):
    done = subprocess.run([context.program("places")], text=True, capture_output=True)
    if done.returncode != 0:
        raise Broken(f"bench_places: {done.stderr.strip() or done.returncode}")
    return json.loads(done.stdout)


def rows(context):
    context.progress("places: clones of wakers")
    found = [attempt(context) for _ in range(min(context.rounds, 9))]

    def more(kind):
        return [e[f"clone_{kind}_ns"] - e["clone_bare_ns"] for e in found]

    return [
        row("place: a clone more, places off", more("off"), "ns"),
        row("place: a clone more, its chain recognized", more("first"), "ns", CLONE_NS_MAX),
        row("place: the same again in a poll", more("again"), "ns", CLONE_NS_MAX),
        row("place: a poll more, of a task in the table", [e["poll_after_ns"] - e["poll_before_ns"]
                                                       for e in found], "ns"),
    ]
