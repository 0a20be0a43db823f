#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0 OR MIT
"""Witness matrix: does the preload record exactly what Tokio programs say about themselves?

    matrix.py [--gate | --diagonal] [--only TEXT] [--preload FILE] [--ring-counts FILE]
              [--target DIR]

Builds the witness programs over {oldest, newest Tokio} x {stable, tokio_unstable} x {debug,
release, thin, fat} x {PIE, static relocation}, runs each under LD_PRELOAD, and compares the ring's
counts with the witness' own; then the same of a stripped twin. --diagonal: each value once instead
of the product; --gate: the first two of these. Output is TAP.
"""
import argparse
import functools
import glob
import itertools
import json
import os
import pathlib
import shutil
import signal
import subprocess
import sys
import tempfile

HERE = pathlib.Path(__file__).resolve().parent
TOKIOS = ["newest", "v1_38"]
FLAVOURS = ["stable", "unstable"]
PROFILES = ["debug", "release", "thin", "fat"]
RELOCATIONS = ["pie", "static"]
DIAGONAL = [
    ("newest", "stable", "release", "pie"),
    ("v1_38", "unstable", "debug", "pie"),
    ("newest", "unstable", "fat", "static"),
    ("v1_38", "stable", "thin", "pie"),
]
PROGRAMS = ["yield_loop", "echo", "zoo", "exits"]
EXITS = {
    "return": 0,
    "exit": 3,
    "_exit": 4,
    "abort": -signal.SIGABRT,
    "SIGTERM": -signal.SIGTERM,
    "SIGKILL": -signal.SIGKILL,
}
SESSION = "77"


class Tap:
    """Prints one line per check, the plan last."""

    def __init__(self):
        self.count = 0
        self.failed = 0

    def check(self, is_good, name, detail=""):
        self.count += 1
        self.failed += not is_good
        print(f"{'ok' if is_good else 'not ok'} {self.count} - {name}", flush=True)
        if not is_good and detail:
            print("# " + detail.replace("\n", "\n# "), flush=True)

    def end(self):
        print(f"1..{self.count}")
        return 1 if self.failed else 0


def rust_flags(flavour, relocation):
    flags = []
    if flavour == "unstable":
        flags += ["--cfg", "tokio_unstable"]
    if relocation == "static":
        flags += ["-C", "relocation-model=static"]
    return flags


@functools.lru_cache(maxsize=None)
def host():
    lines = subprocess.run(["rustc", "-vV"], capture_output=True, text=True, check=True).stdout
    return next(line[6:] for line in lines.splitlines() if line.startswith("host: "))


def options_of(doc, *own):
    """--build and --target, resolved, for a script that asks `build` for programs; own: more
    options as (name, keywords)."""
    parser = argparse.ArgumentParser(description=doc.split("\n", 1)[0])
    parser.add_argument("--build", type=pathlib.Path, default=HERE.parent.parent / "build")
    parser.add_argument("--target", type=pathlib.Path)
    for name, keywords in own:
        parser.add_argument(name, **keywords)
    options = parser.parse_args()
    options.build = options.build.resolve()
    options.target = (options.target or options.build / "witness").resolve()
    return options


def build(target_root, tokio, flavour, profile, relocation, *, programs, has_lines=False):
    """Returns the folder of these programs. One target folder per set of flags: cargo keeps each.
    The others are not linked: with LTO each takes as long as all of Tokio. has_lines: the programs
    have debug information of their own code."""
    target = target_root / f"{tokio}-{flavour}-{relocation}"
    environment = dict(os.environ, CARGO_TARGET_DIR=str(target))
    environment["CARGO_ENCODED_RUSTFLAGS"] = "\x1f".join(rust_flags(flavour, relocation))
    # With a target named, the flags are the programs' alone and not the build scripts' too.
    command = ["cargo", "build", "--locked", "--quiet", "--target", host()]
    command += ["--profile", "dev" if profile == "debug" else profile]
    command += [word for program in programs for word in ("--bin", program)]
    if has_lines:
        command += ["--config", f'profile.{profile}.package.witness.debug="limited"']
    done = subprocess.run(
        command, cwd=HERE / tokio, env=environment, capture_output=True, text=True, check=False
    )
    if done.returncode != 0:
        raise RuntimeError(f"cargo build failed in test/tokio/{tokio}:\n{done.stderr}")
    return target / host() / profile


class Recorded:
    def __init__(self, status, witness, counts, leftovers):
        self.status = status
        self.witness = witness
        self.counts = counts
        self.leftovers = leftovers


def record(options, program, *arguments):
    """Runs one program under the preload and returns its statement and what its ring holds."""
    with tempfile.TemporaryDirectory(prefix="kymo-matrix-") as folder:
        status = pathlib.Path(folder) / "status"
        status.mkdir()
        rings = pathlib.Path(folder) / "rings"
        rings.mkdir(mode=0o700)
        environment = dict(
            os.environ,
            LD_PRELOAD=str(options.preload),
            KYMO_SESSION=SESSION,
            KYMO_RING_DIR=str(rings),
            KYMO_STATUS_DIR=str(status),
            KYMO_STATUS_PARENT=str(os.getpid()),
        )
        done = subprocess.run(
            [str(program), *arguments],
            env=environment,
            capture_output=True,
            text=True,
            timeout=120,
            check=False,
        )
        witness = [line for line in done.stdout.splitlines() if line.startswith("{")]
        files = glob.glob(str(rings / "*"))
        counts = None
        if len(files) == 1:
            dump = subprocess.run(
                [str(options.ring_counts), files[0]], capture_output=True, text=True, check=False
            )
            counts = json.loads(dump.stdout) if dump.returncode == 0 else {"error": dump.stderr}
        lines = [path.read_text() for path in status.glob("*.status")]
        statement = json.loads(witness[-1]) if witness else None
        return Recorded(done.returncode, statement, counts, (lines, done.stderr))


def compare(tap, name, run):
    """The rules that hold for every witness."""
    counts, witness = run.counts, run.witness
    detail = f"witness {witness}\nring {counts}\nstatus and errors {run.leftovers}"
    if not counts or "error" in counts or not witness:
        tap.check(False, f"{name}: one whole ring, one statement", detail)
        return
    tap.check(counts["dropped"] == 0, f"{name}: nothing dropped", detail)
    ends = counts["ready"] + counts["task_end"]
    # The program may die between the end of a task and the record of it: then its poll is open.
    missing = witness["dropped"] - ends
    tap.check(
        0 <= missing <= counts["open_polls"], f"{name}: every end is recorded once", detail
    )
    tap.check(
        counts["poll_begin"] == counts["poll_end"] + counts["open_polls"],
        f"{name}: every poll begins and ends",
        detail,
    )
    # A cancelled task is polled by Tokio one last time, but its future is not.
    polls = counts["poll_begin"] - counts["cancelled"]
    tap.check(polls == witness["polls"], f"{name}: polls of counted futures", detail)
    if "worker_polls" in witness:
        tap.check(
            counts["poll_begin"] - witness["local_polls"] == witness["worker_polls"],
            f"{name}: polls = sum of worker_poll_count",
            detail,
        )
    tap.check(
        counts["blocking_begin"] == counts["blocking_end"] == witness["blocking"],
        f"{name}: blocking runs",
        detail,
    )
    tap.check(
        counts["wake"] + counts["self_wakes"] >= witness["self_wakes"], f"{name}: wakes", detail
    )
    tap.check(
        counts["worker_begin"] >= 1 and counts["park"] - counts["unpark"] in range(0, 4),
        f"{name}: workers and parks",
        detail,
    )
    if "worker_parks" in witness:
        # Tokio counts a park before it knows whether it will wait at all.
        tap.check(
            counts["park"] <= witness["worker_parks"] + witness["workers"],
            f"{name}: no more parks than worker_park_count",
            detail,
        )
    if witness.get("workers") == 1:
        # One that was notified just before returns at once. A worker that finds several tasks
        # notifies itself so; its next park follows no poll and is a noop. Else only the thread of
        # block_on() notifies it: once a task that it spawns, and at the end. A park with deferred
        # wakers is a turn of the driver.
        at_once = witness["worker_noops"] + witness["tasks"] + 1 + counts["driver_turn"]
        tap.check(
            counts["park"] >= witness["worker_parks"] - at_once,
            f"{name}: parks = worker_park_count but for those notified before",
            detail,
        )


def check_build(tap, options, folder, label):
    """Returns the status of the last one: what was found in it."""
    runs = [
        ("yield_loop", "200", "2"),
        ("echo", "4", "50", "2"),
        ("echo", "4", "50", "1"),
        ("zoo",),
    ]
    for name, *arguments in runs:
        run = record(options, folder / name, *arguments)
        title = " ".join([label, name, *arguments])
        tap.check(run.status == 0, f"{title}: exits as always", str(run.leftovers))
        compare(tap, title, run)
    exact = record(options, folder / "exits", "return")
    if exact.counts and exact.witness and "error" not in exact.counts:
        recorded = exact.counts["wake"] + exact.counts["self_wakes"]
        tap.check(
            recorded == exact.witness["self_wakes"],
            f"{label}: self-wakes, recorded or derived, are exact",
            f"{exact.witness}\n{exact.counts}",
        )
    return parse_status(run)


def parse_status(run):
    """{"tables": 21, ...} of "ok tables=21 ...", with the roles that the ring holds."""
    line = run.leftovers[0][0] if run.leftovers[0] else ""
    status = {key: int(value) for key, value in (
        word.split("=") for word in line.split() if "=" in word)}
    counts = run.counts or {}
    # Not how many workers began: block_in_place() hands its worker over, and where it is back
    # before the new thread runs, that one finds nothing to do. A worker taken for a blocking run,
    # or the other way about, changes these two.
    status["roles"] = [counts.get(key) for key in ("blocking_begin", "task_end")]
    return status


def check_stripped(tap, options, folder, label, whole):
    """A twin without symbols has the same tables, and its ring the same counts."""
    strip = shutil.which("strip")
    if strip is None:
        tap.check(True, f"{label} stripped # SKIP no strip here")
        return
    for what in ["--strip-all", "--discard-all"]:  # the second leaves the global symbols
        with tempfile.TemporaryDirectory(prefix="kymo-matrix-") as scratch:
            for name in PROGRAMS:
                subprocess.run(
                    [strip, what, "-o", f"{scratch}/{name}", str(folder / name)], check=True
                )
            found = check_build(tap, options, pathlib.Path(scratch), f"{label} {what}")
        tap.check(
            found == dict(whole, shaped=whole["tables"]),
            f"{label} {what}: every table by its shape, the same roles",
            f"with symbols {whole}\nwithout {found}",
        )


def check_exits(tap, options, folder, label):
    for way, status in EXITS.items():
        run = record(options, folder / "exits", way)
        detail = f"{run.status} {run.leftovers}"
        tap.check(run.status == status, f"{label} {way}: same status", detail)
        compare(tap, f"{label} {way}", run)


def check_quiet(tap, options):
    """A process without Tokio."""
    run = record(options, "/bin/true")
    tap.check(
        run.status == 0 and run.counts is None and run.leftovers == (["no-tokio\n"], ""),
        "without Tokio: nothing is printed or created",
        str(run.leftovers),
    )
    run = record(options, "/bin/sh", "-c", "/bin/true; /bin/true")
    tap.check(
        len(run.leftovers[0]) == 1,
        "children: only the direct child has a status",
        str(run.leftovers),
    )


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    build_folder = HERE.parent.parent / "build"
    parser.add_argument(
        "--preload", type=pathlib.Path, default=build_folder / "adapters/tokio/libkymo-preload.so"
    )
    parser.add_argument(
        "--ring-counts", type=pathlib.Path, default=build_folder / "test/unit/tokio/ring_counts"
    )
    parser.add_argument("--target", type=pathlib.Path, default=build_folder / "witness")
    parser.add_argument("--gate", action="store_true")
    parser.add_argument("--diagonal", action="store_true")
    parser.add_argument("--only", default="", help="builds whose name contains this")
    options = parser.parse_args()
    options.preload = options.preload.resolve()
    if shutil.which("cargo") is None:
        print("1..0 # SKIP no cargo here")
        return 0
    tap = Tap()
    builds = list(itertools.product(TOKIOS, FLAVOURS, PROFILES, RELOCATIONS))
    if options.gate or options.diagonal:
        builds = DIAGONAL[:2] if options.gate else DIAGONAL
    is_first = True
    for axes in builds:
        label = " ".join(axes)
        if options.only not in label:
            continue
        folder = build(options.target.resolve(), *axes,
                       programs=PROGRAMS)
        whole = check_build(tap, options, folder, label)
        if is_first:
            check_quiet(tap, options)
        check_stripped(tap, options, folder, label, whole)
        if is_first or not options.diagonal:
            check_exits(tap, options, folder, label)
        is_first = False
    return tap.end()


if __name__ == "__main__":
    sys.exit(main())
