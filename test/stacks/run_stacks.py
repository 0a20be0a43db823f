#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0 OR MIT
"""How many stacks reach the first function of their thread, in programs as they are shipped?

    run_stacks.py [--build DIR] [--target DIR] [--only-c]

Each program runs with stack_probe, which signals its threads thousands of times and walks them.
Output is TAP; the numbers stand in comments.
"""
import os
import pathlib
import platform
import shutil
import subprocess
import sys
import tempfile

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent / "tokio"))
from matrix import Tap, build, options_of  # noqa: E402

PROFILES = ("release", "abort", "debug", "fat")
SAMPLES_MIN = 5000
SHARE_MIN = 0.99


def sample(probe, program, rounds):
    """Runs it once. Returns (what was counted, where walks ended early)."""
    with tempfile.TemporaryDirectory(prefix="kymo-stacks-") as folder:
        out, lost = pathlib.Path(folder) / "out", pathlib.Path(folder) / "lost"
        environment = dict(os.environ, LD_PRELOAD=str(probe), STACK_PROBE_OUT=str(out),
                           STACK_PROBE_LOST=str(lost))
        done = subprocess.run([str(program), str(rounds)], env=environment, text=True,
                              capture_output=True, timeout=600, check=False)
        if done.returncode != 0:
            raise RuntimeError(f"{program}: exit status {done.returncode}\n{done.stderr}")
        words = out.read_text().split()
        places = lost.read_text().splitlines() if lost.exists() else []
        return dict(zip(words[::2], map(int, words[1::2]))), places


def check(tap, probe, program, name, rounds):
    sums, places = {}, []
    while sums.get("samples", 0) < SAMPLES_MIN:
        counted, ended = sample(probe, program, rounds)
        for key, value in counted.items():
            sums[key] = sums.get(key, 0) + value
        places += ended
        rounds *= 2
    share = sums["first"] / sums["samples"]
    print(f"# {name}: {share:.2%} of {sums['samples']} stacks reached the first function, "
          f"{sums['frames'] / sums['samples']:.1f} frames each; "
          + ", ".join(f"{key} {sums[key]}" for key in ("unknown", "unreadable", "full", "guessed")))
    detail = "\n".join(places[:20])
    tap.check(share >= SHARE_MIN, f"{name}: stacks reach the top", detail)


def main():
    options = options_of(__doc__, ("--only-c", {"action": "store_true"}))
    folder = options.build
    probe = folder / "test" / "stacks" / "stack_probe.so"
    if not probe.exists() or platform.machine() not in ("x86_64", "aarch64"):
        print("1..0 # SKIP no probe in this build")
        return 0
    tap = Tap()
    check(tap, probe, folder / "test" / "stacks" / "stack_loads", "C in libc", 20)
    if options.only_c:
        return tap.end()
    if shutil.which("cargo") is None:
        print("ok # SKIP no cargo here")
        return tap.end()
    for profile in PROFILES:
        made = build(options.target, "newest", "stable", profile, "pie", programs=["stacks"])
        check(tap, probe, made / "stacks", f"Rust, {profile}", 60)
    return tap.end()


if __name__ == "__main__":
    sys.exit(main())
