# SPDX-License-Identifier: Apache-2.0 OR MIT
"""The rows of the area "cost": from the figures of its turns to costs with their controls."""
from .paired import BLOCK, Control, column, control_rows, estimate, paired, settled
from .rows import make_row

PLAIN, PLAIN_AGAIN = "untouched", "untouched again"
SHUT, EVENTS, PLACES, OFFCPU, SAMPLES = "shut", "events", "places", "offcpu", "samples"
DEFAULT, DEFAULT_AGAIN, FLIGHT = "default", "default again", "flight"
PRESET = "preset profile"
DIAL9, DIAL9_GZIP = "dial9", "dial9+gzip"
BEFORE = {EVENTS: "events before", DEFAULT: "default before", FLIGHT: "flight before"}
STEPS = {SHUT: "patched, gates shut", EVENTS: "events alone", PLACES: "+ await points",
         OFFCPU: "+ off-CPU times", SAMPLES: "+ samples at 99 Hz", DEFAULT: "default (+ switches)",
         FLIGHT: "flight mode, default", PRESET: "kymo run --profile profile"}
PEERS = {DIAL9: "dial9 without gzip", DIAL9_GZIP: "dial9 with gzip"}
RECORDED = {EVENTS: STEPS[EVENTS], DEFAULT: "default", FLIGHT: STEPS[FLIGHT],
            PRESET: STEPS[PRESET]}

LIMIT_NS = 15  # how far an A/A interval may reach from zero: a request, a park
LIMIT_IDLE = 0.015  # per cent of a core: 15 ns at 10,000 requests a second
LIMIT_START_MS = 1
WHOLE = 300_000  # requests of a short whole run

# What the cost issues ask for.
SERVER_MAX, PARK_MAX = {DEFAULT: 70, FLIGHT: 50}, {DEFAULT: 300}
ALL_MAX = {DEFAULT: 150, FLIGHT: 70}
IDLE_MAX, WAKES_MAX, EMPTY_MAX, WHOLE_MAX = 0.1, {FLIGHT: 1}, 8, 250


class Family:
    """Rows of one kind of figure, which share the A/A control.

    cost: variant -> Estimate of what it adds. again: the same of the second default less the first.
    """

    def __init__(self, title, unit, limit, costs, controls, faults):
        self.title, self.costs, self.faults = title, costs, faults
        self.control = Control(controls, limit, unit)

    def fault(self, *variants):
        return next((f"{name}: {self.faults[name]}" for name in variants if name in self.faults),
                    None)

    def row(self, variant, title, target=None, peer=DIAL9):
        return settled(f"{self.title}: {title}", self.costs[variant], self.control, target,
                       self.costs.get(peer), self.fault(variant, peer))

    def rows(self, titles, targets, peer=DIAL9):
        rows = control_rows(self.title, self.control)
        rows += [self.row(name, title, targets.get(name), peer)
                 for name, title in titles.items() if name in self.costs]
        rows += [self.row(name, title, peer=None)
                 for name, title in PEERS.items() if name in self.costs]
        return rows + [
            settled(f"{self.title}: {RECORDED[name]}, this build less the other",
                    self.costs[name] - self.costs[before], self.control,
                    fault=self.fault(name, before))
            for name, before in BEFORE.items() if name in self.costs and before in self.costs]


def against(sets, seed, names, block=1):
    """variant -> Estimate of what it takes more than the base; of those that were measured, or of
    all where a phase was left out, so that its rows say so."""
    there = ({name for turns in sets for turn in turns for name in turn} or
             {*STEPS, *PEERS})
    return {name: estimate(paired(sets, name, PLAIN), f"{seed}/{name}", block)
            for name in names if name in there}


def both_controls(sets, seed, block=1):
    return {"untouched": estimate(paired(sets, PLAIN_AGAIN, PLAIN), f"{seed}/A", block),
            "default": estimate(paired(sets, DEFAULT_AGAIN, DEFAULT), f"{seed}/B", block)}


def recorder_figures(long, idle):
    """Recorder ns a request of each long load, less what the recorder takes without any request
    in the same time."""
    result = []
    for turns, idle_turns in zip(long, idle, strict=True):
        result.append([
            {name: (ns - seconds * mean_of(idle_turns, name, 1)) / requests
             for name, (ns, requests, seconds) in turn.items()} for turn in turns])
    return result


def mean_of(turns, name, which):
    return sum(turn[name][which] for turn in turns) / len(turns)


def idle_figures(idle):
    """Per cent of a core, all processes."""
    return [[{name: sum(pair) / 1e7 for name, pair in turn.items()} for turn in turns]
            for turns in idle]


def whole_figures(whole, idle):
    """CPU ns a request of all processes, less what they took in the seconds without a load."""
    flat = [turn for turns in idle for turn in turns]
    return [[{name: (ns - seconds * (mean_of(flat, name, 0) + mean_of(flat, name, 1))) / WHOLE
              for name, (ns, seconds) in turn.items()} for turn in turns] for turns in whole]


def request_families(bench, seed):
    """Server, recorder, all: per request of long steady service."""
    shown = (*STEPS, *PEERS, *BEFORE.values())
    faults = {**bench.cold, **bench.faults}
    server = Family("a request, server", "ns", LIMIT_NS,
                    against(bench.short, seed, shown, BLOCK),
                    both_controls(bench.short, seed, BLOCK), faults)
    recorder = recorder_figures(bench.long, bench.idle)
    costs = {name: estimate(column(recorder, name), f"{seed}/recorder/{name}")
             for name in (*RECORDED, *PEERS, *BEFORE.values())
             if any(name in turn for turns in recorder for turn in turns)}
    default_again = estimate(paired(recorder, DEFAULT_AGAIN, DEFAULT), f"{seed}/recorder/B")
    recorders = Family("a request, recorder", "ns", LIMIT_NS, costs, {"default": default_again},
                       bench.faults)
    controls = {"untouched": server.control.estimates["untouched"],
                "default": server.control.estimates["default"] + default_again}
    whole = Family("a request, all", "ns", LIMIT_NS,
                   {name: server.costs[name] + costs[name] for name in costs}, controls, faults)
    return (server.rows(STEPS, SERVER_MAX) + recorders.rows(RECORDED, {}) +
            whole.rows(RECORDED, ALL_MAX))


def rows_of(bench):
    seed = bench.context.seed
    shown = (*STEPS, *PEERS, *BEFORE.values())

    def family(title, unit, limit, sets, faults, block=1):
        return Family(title, unit, limit, against(sets, f"{seed}/{title}", shown, block),
                      both_controls(sets, f"{seed}/{title}", block), faults)

    untouched = estimate(column(bench.short, PLAIN), f"{seed}/plain", BLOCK)
    park = estimate(column(bench.parks, PLAIN), f"{seed}/plain park", BLOCK)
    rows = [make_row("a request, server: untouched", untouched.value, "ns",
                     spread=untouched.interval(), rounds=untouched.turns),
            make_row("a park and a request, server: untouched", park.value, "ns",
                     spread=park.interval(), rounds=park.turns)]
    rows += request_families(bench, seed)
    rows += family("a park and a request, server", "ns", LIMIT_NS, bench.parks,
                   {**bench.cold, **bench.faults}, BLOCK).rows(STEPS, PARK_MAX)
    rows += family("start and end, all", "ms", LIMIT_START_MS, bench.empty, {}).rows(
        {SHUT: STEPS[SHUT], **RECORDED}, {DEFAULT: EMPTY_MAX})
    rows += family(f"a whole run of {WHOLE:,} requests, all, a request", "ns", LIMIT_NS,
                   whole_figures(bench.whole, bench.idle), bench.whole_faults).rows(
        {name: RECORDED[name] for name in (EVENTS, DEFAULT)}, {DEFAULT: WHOLE_MAX})
    rows += family("idle, all", "% of a core", LIMIT_IDLE, idle_figures(bench.idle),
                   bench.faults).rows(RECORDED, dict.fromkeys((DEFAULT, FLIGHT), IDLE_MAX))
    peer = sum(found[DIAL9] for found in bench.wakes) / len(bench.wakes)
    rows += [make_row(f"idle, wake-ups of all threads: {RECORDED[name]}",
                      sum(found[name] for found in bench.wakes) / len(bench.wakes), "1/s",
                      target=WAKES_MAX.get(name), peer=peer, rounds=len(bench.wakes))
             for name in (DEFAULT, FLIGHT)]
    return rows
