#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0 OR MIT
"""Programs that are hard on a sampler of their stacks, on each source of samples.

    sampling.py [--build DIR] [--only TEXT]

DIR is a build of this tree without sanitizers. Output is TAP; a case whose tools are missing here
is skipped with its reason.
"""
import json
import os
import pathlib
import platform
import subprocess
import sys
import time

from run import Place, Skip, can_mount, check, ended_well, equal, main

SOURCES = {"perf": "perf_event", "timers": "timers"}
RATE_HZ = 997
TOLD_BY = 20
NOBODY = 65534
CASES = []


def case(function):
    CASES.append(function)
    return function


def on_each_source(function):
    for source in SOURCES:
        def run(place, source=source):
            function(place, source)
        run.__name__ = f"{function.__name__}_{source}"
        run.__doc__ = f"{source}: {function.__doc__}"
        CASES.append(run)
    return function


def report(place):
    reply = subprocess.run([place.kymo, "report", "--json", place.traces], check=True,
                          capture_output=True, text=True)
    return json.loads(reply.stdout)["tables"]["profile"]


def stolen_ms():
    """What other machines on this one's CPUs took so far (`steal` of proc_stat(5))."""
    ticks = int(pathlib.Path("/proc/stat").read_text().split()[8])
    return ticks * 1000 / os.sysconf("SC_CLK_TCK")


def sampled(place, source, *words, **more):
    """Runs the program under that source. Returns (what it says, the report's profile), in which
    stolen_ms is what may be the program's time, with one sample in each piece of it at most."""
    program = place.build / "test/reliability/reliability_sampled"
    before_ms = stolen_ms()
    done = place.run(program, *words, options=["--sampler", source, "--sample", str(RATE_HZ)],
                     **more)
    ended_well(done)
    metadata = place.info()["metadata"]
    if metadata["sampling.cpu"] == "none" and source == "perf":
        raise Skip(f"refused here: {metadata['sampling.cpu.refused']}")
    equal(metadata["sampling.cpu"], SOURCES[source], "what samples")
    return json.loads(done.stdout), {**report(place), "stolen_ms": stolen_ms() - before_ms}


def whole(place):
    """Share of stacks that reach the thread's first function, once there are tables."""
    done = subprocess.run([place.kymo, "events", "--type", "CpuSampleEvent", "--format", "jsonl",
                           place.traces], check=True, capture_output=True, text=True)
    rows = sorted(map(json.loads, done.stdout.splitlines()), key=lambda row: row["timestamp_ns"])
    ends = "".join("-" if row["fields"]["truncated"] else "+" for row in rows)
    # When that is depends on what else the machine has to do; a few are whole without tables, so
    # it shows by many in a row.
    late = ends[ends.find("+" * TOLD_BY):]
    check("+" * TOLD_BY in ends and len(late) > max(50, len(ends) / 2), f"tables too late: {ends}")
    return late.count("+") / len(late)


def functions(profile):
    return {row["function"]: row["total"] / profile["cpu"]["samples"]
            for row in profile["cpu"]["functions"]}


def burnt(profile, least_ms):
    cpu_ms = profile["cpu"]["cpu_ns"] / 1e6
    stolen = min(profile["stolen_ms"], least_ms * 0.4)
    check(least_ms * 0.9 - stolen < cpu_ms < least_ms * 1.5,
          f"{cpu_ms} ms sampled of {least_ms}, {stolen} ms stolen from this machine")


# ---- where a signal must not wait for a lock ----


@on_each_source
def in_the_heap(place, source):
    """two threads in malloc and free: no thread hangs, stacks are whole"""
    _, profile = sampled(place, source, "heap", "800")
    burnt(profile, 1600)
    check(functions(profile).get("use_heap", 0) > 0.9, str(profile["cpu"]["functions"][:5]))
    check(whole(place) >= 0.99, f"{whole(place):.2%} of the stacks are whole")


@on_each_source
def in_the_vdso(place, source):
    """two threads that read the clock: stacks through the vDSO are whole"""
    _, profile = sampled(place, source, "clock", "800")
    burnt(profile, 1600)
    check(functions(profile).get("use_clock", 0) > 0.9, str(profile["cpu"]["functions"][:5]))
    check(whole(place) >= 0.99, f"{whole(place):.2%} of the stacks are whole")


@on_each_source
def in_the_loader(place, source):
    """one thread opens and closes the library that another one runs: no hang, no crash"""
    said, profile = sampled(place, source, "loader",
                            place.build / "test/reliability/reliability_burn_first.so", "600")
    check(said["runs"] > 100, str(said))
    check(profile["cpu"]["cpu_ns"] > 550e6, str(profile["cpu"]["cpu_ns"]))


@on_each_source
def code_that_takes_turns(place, source):
    """two libraries one after the other at one address: each under its own name"""
    folder = place.build / "test/reliability"
    said, profile = sampled(place, source, "swap", folder / "reliability_burn_first.so",
                            folder / "reliability_burn_second.so", "4", "2000")
    if not said["same"]:
        raise Skip("the loader put them at different addresses")
    shares = functions(profile)
    total = said["first_ns"] + said["second_ns"]
    for name in ("first", "second"):
        share, truth = shares.get(f"burn_in_the_{name}", 0), said[f"{name}_ns"] / total
        # That one is gone is noticed within a second, of two of CPU time.
        check(abs(share - truth) < 0.25, f"{name}: {share:.0%} of the samples, truth {truth:.0%}")


@on_each_source
def computing_while_cancelled(place, source):
    """threads that are cancelled while they compute: none ends before it comes to ask"""
    said, _ = sampled(place, source, "cancel", "600")
    equal(said["whole"], 2, "threads that computed to the end")


@on_each_source
def blocked_signals(place, source):
    """threads that block all signals: sampled by perf_event, else it is said that they are not"""
    _, profile = sampled(place, source, "blocked", "400")
    if source == "perf":
        burnt(profile, 800)
        return
    equal(place.info()["metadata"].get("sampling.cpu.threads_refused"), "2", "threads refused")


@on_each_source
def made_at_run_time(place, source):
    """code made at run time that calls its like: whole stacks, and names as long as they are its"""
    if platform.machine() != "x86_64":
        raise Skip("its code is for x86-64")
    said, profile = sampled(place, source, "jit", "800")
    perf_map = pathlib.Path(f"/tmp/perf-{said['pid']}.map")
    try:
        for name in ("jit 1 of test", "run_jit"):
            check(functions(profile).get(name, 0) > 0.8, str(profile["cpu"]["functions"][:9]))
        check(whole(place) >= 0.99, f"{whole(place):.2%} of the stacks are whole")
        # Of one who had the number before, or has it now.
        for other in (-3600, 3600):
            os.utime(perf_map, (time.time() + other, time.time() + other))
            check(not any(name.startswith("jit ") for name in functions(report(place))),
                  f"a map that was written {other} s from here")
    finally:
        perf_map.unlink()


# ---- stacks that end ----


@on_each_source
def overflow(place, source):
    """stacks that overflow while they are sampled: the program's own handler catches each"""
    said, profile = sampled(place, source, "overflow", "150")
    equal(said["overflows"], 150, "overflows that were caught")
    check(functions(profile).get("overflow", 0) > 0.5, str(profile["cpu"]["functions"][:5]))


@on_each_source
def small_stacks(place, source):
    """the smallest stacks and signal stacks that are usual: room for a sample"""
    said, profile = sampled(place, source, "small", "200")
    equal(said["threads"], 8, "threads")
    burnt(profile, 1600)
    check(whole(place) >= 0.99, f"{whole(place):.2%} of the stacks are whole")


@on_each_source
def bare_assembly(place, source):
    """assembly without unwind data: under its name, and stacks continue after it"""
    _, profile = sampled(place, source, "bare", "800")
    shares = functions(profile)
    check(shares.get("reliability_bare", 0) > 0.8, str(profile["cpu"]["functions"][:5]))
    # By the frame pointer, which knows nothing of who called it.
    beyond = shares.get("in_two", 0) + shares.get("clone3", 0)
    check(beyond > 0.8, str(profile["cpu"]["functions"][:12]))


@case
def taken_signal(place):
    """a program that sets SIGPROF's action while timers sample it: no tick of them meets it"""
    done = place.run(place.program("takes_signal"), "300",
                     options=["--sampler", "timers", "--sample", str(RATE_HZ)])
    ended_well(done)
    equal(json.loads(done.stdout), {"calls": 0}, "what its handler saw")
    metadata = place.info()["metadata"]
    check("timers: Device or resource busy" in metadata.get("sampling.cpu.refused", ""),
          str(metadata))
    check(len(place.events("CpuSampleEvent")) > 20, "samples from before")


# ---- what is not allowed ----


@on_each_source
def undumpable(place, source):
    """a process that makes itself undumpable: sampled on, also by another user than root"""
    _, profile = sampled(place, source, "undumpable", "400")
    burnt(profile, 800)
    if os.geteuid() != 0:
        return
    os.chmod(place.dir, 0o777)
    for name in ("rings", "traces"):
        subprocess.run(["rm", "-rf", place.dir / name], check=True)
    around = ["setpriv", f"--reuid={NOBODY}", f"--regid={NOBODY}", "--clear-groups"]
    program = place.build / "test/reliability/reliability_sampled"
    done = place.run(program, "undumpable", "400", around=around,
                     options=["--sampler", source, "--sample", str(RATE_HZ)])
    if done.returncode == 125 or "Permission denied" in done.stderr:
        raise Skip(f"another user may not run it where it lies: {done.stderr.strip()}")
    ended_well(done)
    equal(json.loads(done.stdout), {"turns": 0}, "output")
    check(place.counts()["PollStartEvent"] >= 100, "polls")


@on_each_source
def without_proc(place, source):
    """no /proc for the program: it ends as ever and is recorded"""
    program = place.build / "test/reliability/reliability_sampled"
    line = "umount -l /proc && exec \"$@\""
    done = place.run(*can_mount(), "sh", "-c", line, "sh", program, "burn", "400",
                     options=["--sampler", source, "--sample", str(RATE_HZ)])
    if "umount" in done.stderr:
        raise Skip(done.stderr.strip())
    ended_well(done)
    equal(json.loads(done.stdout), {"turns": 0}, "output")
    check(place.counts()["PollStartEvent"] >= 100, "polls")


@on_each_source
def without_any_proc(place, source):
    """no /proc for kymo either: the program ends as ever"""
    program = place.build / "test/reliability/reliability_sampled"
    around = [*can_mount(), "sh", "-c", "umount -l /proc && exec \"$@\"", "sh"]
    done = place.run(program, "burn", "400", around=around,
                     options=["--sampler", source, "--sample", str(RATE_HZ)])
    if "umount" in done.stderr:
        raise Skip(done.stderr.strip())
    if done.returncode == 125:
        check("/proc" in done.stderr, done.stderr)
        return
    ended_well(done)
    equal(json.loads(done.stdout), {"turns": 0}, "output")


@on_each_source
def five_hundred_threads(place, source):
    """500 threads at once, three times: sampled beside the one that computes, which is whole"""
    host = place.build / "test/cli/run_host"
    # Without --switches off perf_event may sample so many threads in windows, where a handful of
    # samples would have to stand for all of it.
    done = place.run(host, "10", "crowd=500", "crowd=500", "crowd=500", "burn=400",
                     options=["--sampler", source, "--switches", "off"])
    ended_well(done)
    weights = sum(event["weight_ns"] for event in place.events("CpuSampleEvent"))
    # Of the two that compute a period each may be cut off, 10 ms; threads of a millisecond have a
    # tenth of a sample each at most.
    check(350e6 < weights < 4e9, f"{weights / 1e6:.0f} ms")


if __name__ == "__main__":
    sys.exit(main(CASES, __doc__))
