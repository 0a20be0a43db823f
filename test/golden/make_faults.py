#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0 OR MIT
"""Records the golden traces of the fault corpus anew: test/golden/faults/NAME.trc.zst, and beside
it NAME.json, what the program said of itself.

    make_faults.py [--build DIR] [--seed N] [NAME...]

Takes the first seed whose run is a clear case (a fault with enough harm, or a healthy one) and
whose trace is small enough: as a stream, or where there is too much, the last events by the flight
recorder. The names of code are written into the trace, and paths of this machine are made neutral,
byte for byte as long as they were.
"""
import argparse
import json
import pathlib
import re
import subprocess
import sys
import tempfile

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent / "corpus"))
import corpus  # noqa: E402

BYTES_MAX = 150_000
TRIES_MAX = 12
WAYS = ((), *(("--mode=flight", f"--ring-bytes={size}") for size in ("1M", "256K", "128K")))
# The first send, or each time-out, is their evidence: a dump of the last events lacks it.
WHOLE = {"queue_growth", "healthy_queue", "hidden_wake"}
SECONDS = {"task_leak": 2, "deadlock": 2, "futurelock": 2, "lost_wake": 2,
           "lost_first": 2, "accept_inline": 5}


def as_long(text, old):
    """text, cut or filled to the length of old."""
    return (text + b"_" * len(old))[:len(old)]


def neutral(raw):
    """Paths of this machine, replaced by others of the same length."""
    path = rb"/[\w./+-]*?"
    raw = re.sub(path + rb"(?=/\.cargo/registry/)", lambda m: as_long(b"/home", m[0]), raw)
    raw = re.sub(rb"(?<=/registry/src/)[^/]+", lambda m: as_long(b"crates", m[0]), raw)
    for tail in (rb"(?=/examples/faults/)", rb"(?=/build/)", rb"(?=/adapters/tokio/)"):
        raw = re.sub(path + tail, lambda m: as_long(b"/src/kymo", m[0]), raw)
    for line in pathlib.Path("/proc/self/cgroup").read_text().splitlines():
        group = line.split(":", 2)[2].encode()
        if len(group) > 1:
            raw = raw.replace(group, as_long(b"/service", group))
    return raw


def run_kymo(kymo, *words):
    subprocess.run([str(kymo), *map(str, words)], check=True, stdout=subprocess.DEVNULL,
                   stderr=subprocess.DEVNULL)


def pack(kymo, folder):
    """The run's traces as one small file, or None where there is none."""
    found = sorted(folder.rglob("*.trc.zst"))
    if not found:
        return None
    plain, named, packed = (folder / name for name in ("plain.trc", "named.trc", "small.trc.zst"))
    run_kymo(kymo, "convert", "--compress=none", "-o", plain, *found)
    run_kymo(kymo, "symbolize", "-o", named, plain)
    named.write_bytes(neutral(named.read_bytes()))
    run_kymo(kymo, "convert", "--recompress", "--compress=zstd:19", "-o", packed, named)
    return packed.read_bytes()


def is_clear(statement, is_healthy):
    """Not one that the machine made, as far as the program can tell."""
    victims = max(statement[who]["excess_ns"] for who in ("own", "others"))
    if is_healthy:
        return statement["others"]["share_ppm"] < 100_000
    return statement["verdict"] == "fault" and (
        statement["fault"] == "neighbours" or statement["run_delay_ns"] < victims
        or statement["grown"] or statement["burden_ppm"])


def make(kymo, program, first_seed, out):
    is_healthy = program.name.startswith("healthy_")
    arguments = ("--seconds", str(SECONDS.get(
        program.name, corpus.SECONDS_MIN.get(program.name, 1))))
    for seed in range(first_seed, first_seed + TRIES_MAX):
        for way in WAYS[:1] if program.name in WHOLE else WAYS:
            with tempfile.TemporaryDirectory(prefix="kymo-golden-") as name:
                folder = pathlib.Path(name)
                said = corpus.record(kymo, program, folder, "--seed", str(seed), *arguments,
                                     options=way)
                packed = pack(kymo, folder) if is_clear(said, is_healthy) else None
            if packed is None:
                break
            if len(packed) <= BYTES_MAX:
                (out / f"{program.name}.trc.zst").write_bytes(packed)
                (out / f"{program.name}.json").write_text(json.dumps(said, indent=1) + "\n")
                print(f"{program.name}: seed {seed}, {len(packed):,} bytes {' '.join(way)}",
                      flush=True)
                return True
    print(f"{program.name}: no clear run of at most {BYTES_MAX:,} bytes", flush=True)
    return False


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n", maxsplit=1)[0])
    parser.add_argument("--build", type=pathlib.Path, default=corpus.ROOT / "build")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("names", nargs="*", help="of programs; none: all")
    options = parser.parse_args()
    build, out = options.build.resolve(), HERE / "faults"
    programs = corpus.build(build / "corpus")
    out.mkdir(exist_ok=True)
    names = options.names or sum(corpus.programs(), [])
    made = [make(build / "kymo", programs / name, options.seed, out) for name in names]
    return 0 if all(made) else 1


if __name__ == "__main__":
    sys.exit(main())
