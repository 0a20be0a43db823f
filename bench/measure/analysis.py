# SPDX-License-Identifier: Apache-2.0 OR MIT
"""What an answer costs: report, why, and a query over ten million events, of two traces."""
import json

from .programs import Broken, run
from .rows import row

EVENTS = 10_000_000
ROUNDS_MAX = 5
PLACES = "SELECT site, count(*) FROM polls GROUP BY site"
# (what, arguments before the file, seconds asked, MB asked) of each trace
ASKED = {
    "yield loop": [("report", ["report", "--json"], 1.5, 600),
                   ("why --worst 100", ["why", "--worst", "100"], None, None),
                   ("query: polls by spawn place", ["query", PLACES], 3, None)],
    "service mix": [("report", ["report", "--json"], 2.5, 800),
                    ("why --worst 100", ["why", "--worst", "100"], None, None)],
}
LOADED_S = 1  # asked of why, beyond loading


def events_of(context, trace):
    output, seconds, _ = run([str(context.kymo), "info", "--json", trace])
    events = json.loads(output)["events"]
    if events < EVENTS:
        raise Broken(f"{trace} has {events} of {EVENTS} events")
    return seconds


def of_trace(context, name, trace):
    cpu, peak, loading = {}, {}, []
    for index in range(min(context.rounds, ROUNDS_MAX)):
        context.progress(f"{name}, round {index + 1}")
        loading.append(events_of(context, trace))
        for what, words, _, _ in ASKED[name]:
            _, seconds, peak_bytes = run([str(context.kymo), *words, trace])
            cpu.setdefault(what, []).append(seconds)
            peak.setdefault(what, []).append(peak_bytes / 1e6)
    yield row(f"{name}, 10 M events: info (loading)", loading, "s CPU")
    for what, _, seconds, megabytes in ASKED[name]:
        yield row(f"{name}, 10 M events: {what}", cpu[what], "s CPU", seconds)
        if megabytes:
            yield row(f"{name}, 10 M events: {what}, peak memory", peak[what], "MB", megabytes)
    whys = [why - load for why, load in zip(cpu["why --worst 100"], loading)]
    yield row(f"{name}, 10 M events: why --worst 100 after loading", whys, "s CPU", LOADED_S)


def rows(context):
    made = []
    for name, area, words in (("yield loop", "read", ["--write"]), ("service mix", "mix", [])):
        trace = context.scratch / "analysis.trc"
        context.progress(f"making the trace of the {name}")
        run([context.program("read", area), *words, trace, str(EVENTS)])
        made += of_trace(context, name, trace)
        trace.unlink()
    return made
