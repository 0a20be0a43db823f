# SPDX-License-Identifier: Apache-2.0 OR MIT
"""What recording adds to a request, counted in instructions: the answer on a noisy machine.

An echo server and its clients in one process, on one worker, make the same polls, wakes and parks
in every run. Callgrind counts what the worker's thread executes between the first request and the
last, after as many to warm up: neither start nor end, nor any thread or process that writes.
"""
import pathlib
import re
import shutil
import sys

from .cost_rows import BEFORE, DEFAULT, EVENTS, FLIGHT, OFFCPU, PLACES, PLAIN, RECORDED, SHUT, STEPS
from .programs import ROOT, Broken, check_trace, run
from .rows import make_row, median_interval

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "test/lib"))
from mock_s3 import MockS3  # noqa: E402

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


def per_request(context, program, way=None, environment=None, least=None, server=None):
    """Instructions of the worker. server: a bucket's, to which the recorder sends meanwhile."""
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
        run(command, server.environment() if server else environment)
        if least:
            check_trace(context.kymo, folder / "traces", least)
        return collected(folder / "out") / REQUESTS


SEND_ROUNDS = 5
SEALING = ("--sample", "off", "--switches", "off", "--rotate-interval", "1s")


def sending_row(context, program):
    """The recorder seals a segment each second, and sends it in every other run."""
    with MockS3() as server:
        def count(*words):
            return per_request(context, program, way=(context.kymo, SEALING + words),
                               least=LEAST[DEFAULT], server=server)

        pairs = [(count("--to", "s3://bucket/bench") - count()) for _ in range(SEND_ROUNDS)]
        if not server.objects:
            raise Broken("no segment was sent while requests were counted")
    value, least, most = median_interval(pairs)
    return make_row("a request, host: sending to a bucket, less the same without", value,
                    "instructions", spread=(least, most), rounds=SEND_ROUNDS)


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
    context.progress("instructions: sending")
    return [*rows_of(counts, peer - counts[PLAIN]), sending_row(context, plain)]
