# SPDX-License-Identifier: Apache-2.0 OR MIT
"""What recording costs an echo server, exactly enough to see 15 ns a request.

All variants are alive at once; short loads go round among them in random order, and the CPU clocks
of their processes are read before and after each. See the section "cost" of bench/README.md.
"""
import contextlib
import random
import time

from . import cost_rows
from .cost_rows import (BEFORE, DEFAULT, DEFAULT_AGAIN, DIAL9, DIAL9_GZIP, EVENTS, FLIGHT, OFFCPU,
                        PLACES, PLAIN, PLAIN_AGAIN, PRESET, RECORDED, SAMPLES, SHUT, WHOLE)
from .echo import CONNECTIONS, SLICE, Server, Variant, pinned
from .programs import ROOT, Broken, check_trace, run, stored_bytes

SETS = 2
ROUNDS_FULL = 15  # rounds of a full measurement; fewer shorten everything
# Requests of a load, turns a round, and the seconds after which a phase begins no other turn.
ALL_S = 540  # of all phases: the area ends in ten minutes
WARM_UP, WARM_UP_S = 60_000, 20  # requests a round: the rings have come round after 15 of them
SHORT, SHORT_TURNS, SHORT_S = 3_000, 24, 60
PARKS, PARK_TURNS, PARK_S = 500, 40, 55
LONG, LONG_TURNS, LONG_S = 12_000, 5, 70  # requests a round, turns in all
SETTLE_S, SETTLE_GZIP_S = 1.3, 2.6  # until a recorder has written what a load made
IDLE_TURNS, IDLE_TURN_S = 10, 1.0
EMPTY_TURNS, EMPTY_S = 3, 40
WHOLE_S = 80
WHOLE_ROUNDS_LEAST = 5
EVENTS_LEAST = ("PollStartEvent", "PollEndEvent", "WakeEventEvent")
MORE_LEAST = {PLACES: {"AwaitPlaceEvent": 1}, SAMPLES: {"CpuSampleEvent": 1},
              FLIGHT: {"CpuSampleEvent": 1}, PRESET: {"HistogramEvent": 1},
              **dict.fromkeys((DEFAULT, DEFAULT_AGAIN, BEFORE[DEFAULT]),
                              {"AwaitPlaceEvent": 1, "CpuSampleEvent": 1})}
BYTES_LEAST = {DIAL9: 10, DIAL9_GZIP: 4}  # a request; it takes some 33 and 12


def variants(context):
    """All of them, by name, in no particular order."""
    def preset(name):
        return ("--switches", "off", "--profile", ROOT / "bench" / "tokio" / f"{name}.toml")

    ways = {SHUT: preset("shut"), EVENTS: preset("events"), PLACES: preset("places"),
            OFFCPU: preset("offcpu"), SAMPLES: ("--switches", "off"), DEFAULT: (),
            DEFAULT_AGAIN: (), FLIGHT: ("--mode", "flight"), PRESET: ("--profile", "profile")}
    found = [Variant(PLAIN), Variant(PLAIN_AGAIN), Variant(DIAL9, dial9=True),
             Variant(DIAL9_GZIP, dial9=True,
                     environment=(("DIAL9_BENCH_GZIP", "1"), ("DIAL9_BENCH_ROTATE_S", "1")))]
    found += [Variant(name, options, context.kymo) for name, options in ways.items()]
    if context.against:
        found += [Variant(before, ways[name], context.against / "kymo")
                  for name, before in BEFORE.items()]
    return {variant.name: variant for variant in found}


def turns(count, deadline):
    """Turn numbers, until so many are made or the time has come; the first always."""
    for index in range(count):
        if index and time.monotonic() > deadline:
            return
        yield index


class Bench:
    """What one run of the area measured."""

    def __init__(self, context):
        self.context = context
        self.rounds = context.rounds
        self.chance = random.Random(context.seed)
        self.end_at = None  # of the whole area, once it runs
        self.variants = variants(context)
        self.crates = {"plain": context.crate("tokio/plain"),
                       "dial9": context.crate("tokio/dial9")}
        self.recorded = [name for name in self.variants
                         if name in (*RECORDED, DEFAULT_AGAIN, DIAL9, DIAL9_GZIP,
                                     *BEFORE.values())]
        self.short, self.parks, self.long, self.idle = [], [], [], []  # a list of turns per set
        self.wakes = []
        self.empty, self.whole = [[]], [[]]
        # variant -> what is wrong with its recording, with its warm-up, with its whole runs
        self.faults, self.cold, self.whole_faults = {}, {}, {}

    def order(self, names):
        return self.chance.sample(list(names), len(list(names)))

    def deadline(self, seconds):
        """That many seconds from now, no later than what all have together."""
        return min(time.monotonic() + seconds, self.end_at)

    def serve(self, stack, name):
        directory = stack.enter_context(self.context.directory())
        return Server(self.variants[name], self.crates, directory, stack)

    def check(self, server):
        """A recorder that recorded nothing costs nothing."""
        name, directory = server.variant.name, server.directory
        served = server.served
        if name in BYTES_LEAST:
            if stored_bytes(directory, ".bin") < BYTES_LEAST[name] * served:
                raise Broken(f"{name} recorded too little of {served} requests")
        elif server.variant.kymo:
            # Rings of flight mode keep the last part. A request that comes early enough is served
            # by the poll before: nine of ten is what says that all were recorded.
            least = (0 if name == SHUT else
                     min(served, 100_000) if "flight" in name else served) * 9 // 10
            events = {} if name == PRESET else dict.fromkeys(EVENTS_LEAST, least)
            _, _, counts = check_trace(server.variant.kymo, directory,
                                       {**events, **MORE_LEAST.get(name, {})})
            # The recorder shuts them right after the start.
            if name == SHUT and counts.get("PollStartEvent", 0) > served // 10:
                raise Broken("the gates were not shut")

    def end(self, servers, faults):
        """Ends all; what finish() says of each. A recording that is not whole spoils the rows of
        its variant, not those of others."""
        result = {}
        for name in self.order(servers):
            result[name] = servers[name].finish()
            try:
                self.check(servers[name])
            except Broken as broken:
                faults[name] = str(broken)
        return result

    def load_short(self, servers, requests, connections, count, seconds):
        return [{name: servers[name].timed(requests, connections)
                 for name in self.order(servers)} for _ in turns(count, self.deadline(seconds))]

    def load_long(self, servers):
        """Long loads, for the recorders: (CPU ns, requests, seconds) of each, from its start until
        it has written everything. The next load begins meanwhile: it runs beside that."""
        requests = LONG * min(self.rounds, ROUNDS_FULL)
        deadline = self.deadline(LONG_S)

        def settled_after(name, served, before, began, ended):
            wait = SETTLE_GZIP_S if name == DIAL9_GZIP else SETTLE_S
            time.sleep(max(0.0, ended + wait - time.monotonic()))
            return servers[name].clocks()[1] - before, served, time.monotonic() - began

        result = []
        for _ in turns(LONG_TURNS, deadline):
            turn, last = {}, None
            for name in self.order(self.recorded):
                before, began = servers[name].clocks()[1], time.monotonic()
                served = servers[name].load_until(requests, deadline)
                ended = time.monotonic()
                if last:
                    turn[last[0]] = settled_after(*last)
                last = name, served, before, began, ended
            turn[last[0]] = settled_after(*last)
            result.append(turn)
        return result

    def stay_idle(self, servers):
        """Per turn and variant: CPU ns a second of (server, recorder); wake-ups of the whole."""
        before_wakes = {name: server.wakes() for name, server in servers.items()}
        began = time.monotonic()
        result = []
        for _ in range(IDLE_TURNS):
            before = {name: (time.monotonic(), server.clocks())
                      for name, server in servers.items()}
            time.sleep(IDLE_TURN_S)
            turn = {}
            for name, server in servers.items():
                start, clocks = before[name]
                passed = time.monotonic() - start
                turn[name] = tuple((now - then) / passed
                                   for now, then in zip(server.clocks(), clocks))
            result.append(turn)
        passed = time.monotonic() - began
        self.wakes.append({name: (server.wakes() - before_wakes[name]) / passed
                           for name, server in servers.items()})
        return result

    def warm_up(self, servers):
        """Rings come round before requests are measured. Long loads did most of that for some."""
        deadline = self.deadline(WARM_UP_S)
        wanted = WARM_UP * min(self.rounds, ROUNDS_FULL)
        for name in self.order(servers):
            server = servers[name]
            if server.variant.kymo and name != SHUT and server.served < wanted:
                server.load_until(wanted - server.served, deadline)
                if server.served < wanted:
                    self.cold[name] = (f"{server.served:,} of {wanted:,} requests to warm up: "
                                       "the machine is too busy")
            else:
                server.load(SLICE)

    def one_set(self, index):
        say, share = self.context.progress, -(-self.rounds // SETS)
        with contextlib.ExitStack() as stack:
            say(f"cost, set {index + 1} of {SETS}: start, recorders")
            servers = {name: self.serve(stack, name) for name in self.order(self.variants)}
            self.long.append(self.load_long(servers))
            say(f"cost, set {index + 1} of {SETS}: warm-up")
            self.warm_up(servers)
            say(f"cost, set {index + 1} of {SETS}: requests")
            self.short.append(self.load_short(servers, SHORT, CONNECTIONS, SHORT_TURNS * share,
                                              SHORT_S))
            say(f"cost, set {index + 1} of {SETS}: parks")
            self.parks.append(self.load_short(servers, PARKS, 1, PARK_TURNS * share, PARK_S))
            say(f"cost, set {index + 1} of {SETS}: idle")
            self.idle.append(self.stay_idle(servers))
            self.end(servers, self.faults)

    def run_empty(self):
        """A program that does nothing, from its start to its end: CPU ms of all processes."""
        names = [name for name in self.variants if name not in (PLACES, OFFCPU, SAMPLES)]
        for _ in turns(EMPTY_TURNS * self.rounds, self.deadline(EMPTY_S)):
            turn = {}
            for name in self.order(names):
                with self.context.directory() as directory:
                    _, cpu_s, _ = run(*Server.command(self.variants[name], self.crates, directory,
                                                      0))
                turn[name] = cpu_s * 1e3
            self.empty[0].append(turn)

    def run_whole(self):
        """Runs of 300,000 requests, all alive at once, in slices: (CPU ns of all processes, idle
        seconds), start and end included."""
        if self.rounds < WHOLE_ROUNDS_LEAST:
            return
        names = [name for name in self.variants
                 if name in (PLAIN, PLAIN_AGAIN, DEFAULT, DEFAULT_AGAIN, EVENTS, DIAL9, DIAL9_GZIP,
                             BEFORE[DEFAULT])]
        deadline = self.deadline(WHOLE_S)
        for _ in turns(-(-self.rounds * 2 // 5), deadline):
            with contextlib.ExitStack() as stack:
                servers = {name: self.serve(stack, name) for name in self.order(names)}
                for _ in turns(WHOLE // SLICE, deadline):
                    for name in self.order(servers):
                        servers[name].load(SLICE)
                turn = self.end(servers, self.whole_faults)
                if all(server.served >= WHOLE for server in servers.values()):
                    self.whole[0].append(turn)

    def run(self):
        self.end_at = time.monotonic() + ALL_S
        with pinned():
            self.context.progress(f"cost: seed {self.context.seed}")
            for index in range(SETS):
                self.one_set(index)
            self.context.progress("cost: programs that do nothing")
            self.run_empty()
            self.context.progress(f"cost: runs of {WHOLE:,} requests")
            self.run_whole()
        return self


def rows(context):
    return cost_rows.rows_of(Bench(context).run())
