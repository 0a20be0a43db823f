# SPDX-License-Identifier: Apache-2.0 OR MIT
"""What a stack costs, and what the tables do that it is walked by."""
import json
import subprocess

from .programs import Broken
from .rows import row

CAPTURE_NS_MAX = 2000
FRAME_NS_MAX = 60


def attempt(context, files):
    done = subprocess.run([context.program("unwind"), *files], text=True, capture_output=True)
    if done.returncode != 0:
        raise Broken(f"bench_unwind: {done.stderr.strip() or done.returncode}")
    return json.loads(done.stdout)


def large_library():
    """The compiler's own, the largest Rust binary at hand."""
    done = subprocess.run(["rustc", "--print", "sysroot"], text=True, capture_output=True)
    if done.returncode != 0:
        return []
    found = subprocess.run(["find", done.stdout.strip() + "/lib", "-maxdepth", "1", "-name",
                            "librustc_driver*.so"], text=True, capture_output=True)
    return found.stdout.split()[:1]


def rows(context):
    context.progress("unwind: captures and tables")
    found = [attempt(context, large_library()) for _ in range(min(context.rounds, 9))]
    result = [
        row("stack: capture of 15 frames", [e["capture_15_ns"] for e in found], "ns",
            CAPTURE_NS_MAX),
        row("stack: a frame more", [e["frame_ns"] for e in found], "ns", FRAME_NS_MAX),
        row("stack: signal with an empty handler", [e["empty_signal_ns"] for e in found], "ns"),
        row("stack: the handler's 20 frames, each",
            [(e["signal_20_ns"] - e["empty_signal_ns"]) / 20 for e in found], "ns", FRAME_NS_MAX),
    ]
    if found[0]["files"]:
        megabytes = found[0]["files"][0]["code_bytes"] / 1e6
        result += [
            row(f"tables of {megabytes:.0f} MB of code: CPU time",
                [e["files"][0]["ms"] for e in found], "ms"),
            row(f"tables of {megabytes:.0f} MB of code: size",
                [e["files"][0]["bytes"] / 1e6 for e in found], "MB"),
        ]
    return result
