# SPDX-License-Identifier: Apache-2.0 OR MIT
"""What recording adds to a request, counted in instructions: the answer on a noisy machine.

An echo server and its clients in one process, on one worker, make the same polls, wakes and parks
in every run. Callgrind counts what the worker's thread executes between the first request and the
last, after as many to warm up: neither start nor end, nor any thread or process that writes.
"""
import re
import shutil

from .cost_rows import BEFORE, DEFAULT, EVENTS, FLIGHT, OFFCPU, PLACES, PLAIN, RECORDED, SHUT, STEPS
from .programs import ROOT, Broken, check_trace, run
from .rows import make_row

REQUESTS = 8_000
POLLS_A_REQUEST = 2  # a client's and its server's
LEAST = {SHUT: {}, **dict.fromkeys((EVENTS, PLACES, OFFCPU, DEFAULT),
                                   {"PollStartEvent": POLLS_A_REQUEST * REQUESTS})}


def ways(context):
    """Name -> (kymo, options of `kymo run`), None for the program alone."""
    def preset(name):
        return ("--switches", "off", "--profile", ROOT / "bench" / "tokio" / f"{name}.toml")

    # perf is off in all: whose sample interrupts what is no instruction of ours.
    found = {PLAIN: None, SHUT: preset("shut"), EVENTS: preset("events"),
             PLACES: preset("places"), OFFCPU: preset("offcpu"),
             DEFAULT: ("--sample", "off", "--switches", "off"),
             FLIGHT: ("--sample", "off", "--switches", "off", "--mode", "flight")}
    found = {name: options and (context.kymo, options) for name, options in found.items()}
    if context.against:
        found |= {before: (context.against / "kymo", found[name][1])
                  for name, before in BEFORE.items()}
    return found


def collected(path):
    found = re.search(r"^(?:summary|totals): (\d+)", path.read_text(), re.M)
    if not found:
        raise Broken("callgrind wrote no sum")
    return int(found.group(1))


def per_request(context, program, way=None, environment=None, least=None):
    """Instructions of the worker."""
    with context.directory() as folder:
        command = ["valgrind", "--tool=callgrind", "--collect-atstart=no",
                   f"--log-file={folder}/log",
                   f"--callgrind-out-file={folder}/out",
                   program, REQUESTS]
        if way:
            kymo, options = way
            (folder / "rings").mkdir(mode=0o700)
            command = [kymo, "run", "-q", *options, "--ring-dir", folder / "rings",
                       "-o", folder / "traces", "--", *command]
        if environment:
            environment = {name: str(folder / value) for name, value in environment.items()}
        run(command, environment)
        if least:
            check_trace(context.kymo, folder / "traces", least)
        return collected(folder / "out") / REQUESTS


def rows_of(counts, peer):
    """counts: instructions a request by variant. peer: dial9's, less the same program untouched."""
    def row(title, value, **more):
        return make_row(f"a request, host: {title}", value, "instructions", **more)

    result = [row("untouched", counts[PLAIN]),
              row("A/A control, untouched twice", counts["again"] - counts[PLAIN])]
    for name in (SHUT, EVENTS, PLACES, OFFCPU, DEFAULT, FLIGHT):
        result.append(row({**STEPS, **RECORDED}[name], counts[name] - counts[PLAIN],
                          peer=peer if name in (EVENTS, DEFAULT) else None))
    result += [row(f"{RECORDED[name]}, this build less the other", counts[name] - counts[before])
               for name, before in BEFORE.items() if before in counts]
    return result


def rows(context):
    if not shutil.which("valgrind"):
        raise Broken("valgrind is missing, so no instruction was counted; run tools/setup.sh test")
    plain = context.crate("tokio/plain") / "echo-inside"
    dial9 = context.crate("tokio/dial9") / "echo-inside"
    counts = {}
    for name, way in ways(context).items():
        context.progress(f"instructions: {name}")
        counts[name] = per_request(context, plain, way=way, least=LEAST.get(name))
    counts["again"] = per_request(context, plain)
    context.progress("instructions: dial9")
    peer = per_request(context, dial9, environment={"DIAL9_BENCH_DIR": "dial9"})
    return rows_of(counts, peer - counts[PLAIN])
