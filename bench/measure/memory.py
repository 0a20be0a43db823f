# SPDX-License-Identifier: Apache-2.0 OR MIT
"""Memory of the host beyond its ring: resident bytes of a recorded process less an untouched one.

Resident bytes of every mapping but the ring's, the most of all samples of a run. The recorder's own
process is not the host's.
"""
import os
import pathlib
import re
import time

from .programs import Broken, Running, again_when_lost, check_trace
from .rows import differences, row

MIB = 1 << 20
ROUNDS_MAX = 5
POLLS = 500_000
IDLE_S = 0.7
LINKED_S_MAX = 60
LINKED_POLLS = 4 * 1000 * 200


def resident(smaps):
    """Bytes (beyond the ring, of the ring) in the text of /proc/PID/smaps."""
    beyond = ring = 0
    is_ring = False
    for line in smaps.splitlines():
        if re.match(r"[0-9a-f]+-[0-9a-f]+ ", line):
            path = line.split(maxsplit=5)[5:]
            is_ring = bool(path) and re.match(r"/dev/shm/kymo|/memfd:kymo", path[0]) is not None
        elif line.startswith("Rss:"):
            size = int(line.split()[1]) * 1024
            beyond, ring = (beyond, ring + size) if is_ring else (beyond + size, ring)
    return beyond, ring


def host_of(process, program):
    """The process that runs `program`: itself, or a child of `kymo run`."""
    for _ in range(500):
        children = pathlib.Path(f"/proc/{process}/task/{process}/children").read_text().split()
        for candidate in [str(process), *children]:
            try:
                if os.path.samefile(f"/proc/{candidate}/exe", program):
                    return candidate
            except OSError:
                continue
        time.sleep(0.002)
    raise Broken(f"{program} was not started")


def most(running, program, is_over):
    """The largest figures seen until is_over() or the end of the process."""
    host = host_of(running.process.pid, program)
    beyond = ring = 0
    while not is_over():
        try:
            now = resident(pathlib.Path(f"/proc/{host}/smaps").read_text())
        except OSError:  # it has ended
            break
        if not now[0]:
            break
        beyond, ring = max(beyond, now[0]), max(ring, now[1])
        time.sleep(0.002)
    return beyond, ring


def tokio_once(context, program, arguments, is_recorded, seconds, least):
    end = time.monotonic() + seconds
    with context.directory() as directory:
        command = [program, *arguments]
        if is_recorded:
            command = [context.kymo, "run", "--quiet", "-o", directory, "--", *command]
        with Running(command) as running:
            beyond, ring = most(running, program, lambda: time.monotonic() > end)
            running.finish()
        if is_recorded:
            check_trace(context.kymo, directory, least)
            if not ring:
                raise Broken(f"no ring was seen in {program}")
        return beyond / MIB


def linked_once(context, is_recorded):
    program = context.program("memory")
    with context.directory() as directory:
        with Running([program, *([directory] if is_recorded else [])]) as running:
            end = time.monotonic() + LINKED_S_MAX
            output = running.process.stdout.fileno()
            os.set_blocking(output, False)

            def has_said_done():
                try:
                    return bool(os.read(output, 16)) or time.monotonic() > end
                except BlockingIOError:
                    return False

            beyond, ring = most(running, program, has_said_done)
            os.set_blocking(output, True)
            running.finish()
        if is_recorded:
            check_trace(context.kymo, directory, {"PollStartEvent": LINKED_POLLS})
            if not ring:
                raise Broken("no ring was seen in bench_memory")
        return beyond / MIB


def rows(context):
    programs = context.crate("tokio/plain")
    idle, busy = programs / "idle", programs / "yield-loop"
    cases = {
        "idle Tokio program under kymo run": (2.0, lambda is_recorded: tokio_once(
            context, idle, [], is_recorded, IDLE_S, {"PollStartEvent": 100})),
        "yield loop under kymo run": (2.0, lambda is_recorded: tokio_once(
            context, busy, [str(POLLS)], is_recorded, LINKED_S_MAX, {"PollStartEvent": POLLS})),
        "C program with the library linked": (8.0, lambda is_recorded: linked_once(
            context, is_recorded)),
    }
    result = []
    for title, (most_mib, once) in cases.items():
        context.progress(f"memory: {title}")
        seen = {False: [], True: []}
        for index in range(min(context.rounds, ROUNDS_MAX)):
            for is_recorded in (bool(index % 2), not index % 2):
                seen[is_recorded].append(again_when_lost(lambda: once(is_recorded)))
        result.append(row(f"memory beyond the ring: {title}", differences(seen[True], seen[False]),
                          "MiB", most_mib))
    return result
