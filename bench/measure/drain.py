# SPDX-License-Identifier: Apache-2.0 OR MIT
"""What draining, encoding and compressing one event costs, beside what emitting it costs."""
import json
import subprocess

from .programs import Broken, Lost, again_when_lost
from .rows import median_interval, row

LOADS = {"two workers: ": "two workers", "": "four threads at random"}
NAMES = {"plain": "drain + encode", "zstd": "drain + encode + zstd 1",
         "stroke": "drain + encode, full ring at once", "raw_bytes": "drain bytes raw",
         "zstd_bytes": "drain bytes zstd 1"}


# Of the first load only, per record of the ring.
RETAINED = "two workers: drain + zstd 1 under a policy of 1 ms"
RETAINED_BYTES = "two workers: bytes zstd 1 under a policy of 1 ms"
RETAINED_NAMES = (RETAINED, RETAINED_BYTES)


# What bench_cut prints: its name, ours, unit, has a target.
CUT_ROWS = [
    ("cut: CPU", "dump of a full 64 MiB ring under load, CPU", "ms", True),
    ("cut: CPU of the worst round", "the same, the worst of its rounds", "ms", True),
    ("cut: CPU of copying", "of it, copying", "ms", False),
    ("cut: sub-buffers lost, all rounds", "held at the start, not in the dump", "8 KiB", True),
    ("cut: records lost, all rounds", "records told as lost in those dumps", "", True),
    ("watch", "observing without writing, per event", "ns", False),
]


def attempt(context, program="drain"):
    done = subprocess.run([context.program(program), "--json"], text=True, capture_output=True)
    if done.returncode != 0:
        text = done.stderr.strip() or f"bench_{program} ended with {done.returncode}"
        raise (Lost if "lost" in text else Broken)(f"{program}: {text}")
    return {entry["name"]: entry for entry in map(json.loads, done.stdout.splitlines())}


def cut_rows(found):
    missing = {name for name, _, _, _ in CUT_ROWS} - found.keys()
    if missing:
        raise Broken(f"bench_cut printed no {', '.join(sorted(missing))}")
    return [row(title, found[name]["value"], unit, found[name]["target"] if has_target else None)
            for name, title, unit, has_target in CUT_ROWS]


def figure(entry, title, unit, target=None, hot=(0, 0, 0), peer=None):
    """A row of one figure of bench_drain, with the interval of what the host pays added."""
    middle, reach = entry["value"], entry["spread"]
    value, low, high = (base + part for base, part in
                        zip(hot, (middle, middle - reach, middle + reach)))
    return {**row(title, value, unit, target, peer),
            "spread": [round(low, 2), round(high, 2)] if reach else None}


def rows_of(found, hot, peer):
    """found: what bench_drain printed, by name; hot, peer: ns of emitting, where measured."""
    wanted = {prefix + name for prefix in LOADS for name in NAMES.values()}
    missing = (wanted | set(RETAINED_NAMES)) - found.keys()
    if missing:
        raise Broken(f"bench_drain printed no {', '.join(sorted(missing))}")
    result = []
    for prefix, load in LOADS.items():
        entry = {key: found[prefix + name] for key, name in NAMES.items()}
        has_target = bool(prefix)  # the other load is the worst case, not a service's
        if hot:
            result += [
                figure(entry["plain"], f"{load}: emit + drain + encode, per event", "ns",
                       30 if has_target else None, hot, peer),
                figure(entry["zstd"], f"{load}: the same + zstd 1, per event", "ns",
                       60 if has_target else None, hot, peer),
            ]
        result += [
            figure(entry["plain"], f"{load}: drain + encode alone", "ns"),
            figure(entry["stroke"], f"{load}: the same, 32 MiB at a stroke", "ns"),
            figure(entry["zstd_bytes"], f"{load}: bytes per event with zstd 1", "B"),
        ]
    return result + [
        figure(found[RETAINED], "two workers: drain, histograms below 1 ms, zstd 1, per record",
               "ns"),
        figure(found[RETAINED_BYTES], "two workers: bytes per record with histograms below 1 ms",
               "B"),
    ]


def rows(context):
    context.progress("drain and encode")
    found = again_when_lost(lambda: attempt(context))
    hot = context.figures.get("hot_ns")
    context.progress("cut a full ring under load")
    return rows_of(found, median_interval(hot) if hot else None,
                   context.figures.get("dial9_encode_ns")) + cut_rows(attempt(context, "cut"))
