# SPDX-License-Identifier: Apache-2.0 OR MIT
"""Paired differences, their bootstrap intervals, and the rule of no result.

A turn measures every variant once, in random order, and is a pair for any two of them. A set is the
turns of one group of processes; sets start their processes anew. A cost is the mean of the paired
differences, taken in blocks of successive turns of which a tenth is cut at each end: what shows in
one load of five (a stack sample, a window of switches) counts by its share, which a median of loads
would drop; what else the machine does once a minute is cut. An A/A control measures the same
variant twice, as two processes: where its interval leaves the limit, the machine was too noisy, and
no row beside it is a figure.
"""
import dataclasses
import random
import statistics

from .rows import make_row

RESAMPLES = 1000
BLOCK = 5  # turns, of short loads
CUT = 0.1  # of the blocks, at each end
COVERAGE = 0.95
BLOCKS_LEAST = 5  # a bootstrap of fewer says nothing
NORMAL = statistics.NormalDist()


def student(quantile, freedom):
    """Quantile of Student's t, by the Cornish-Fisher expansion: within 1 % from 4 degrees on."""
    z = NORMAL.inv_cdf(quantile)
    return (z + (z**3 + z) / (4 * freedom) + (5 * z**5 + 16 * z**3 + 3 * z) / (96 * freedom**2) +
            (3 * z**7 + 19 * z**5 + 17 * z**3 - 15 * z) / (384 * freedom**3))


@dataclasses.dataclass(frozen=True)
class Estimate:
    """A mean, the means of its resamples, the turns and the blocks that it stands on."""
    value: float
    draws: tuple
    turns: int
    blocks: int

    def interval(self):
        """The expanded percentile interval: a plain one is too narrow for few turns."""
        if self.blocks < 2:
            return float("-inf"), float("inf")
        freedom = self.blocks - 1
        widened = (self.blocks / freedom) ** 0.5 * student((1 + COVERAGE) / 2, freedom)
        outside = NORMAL.cdf(-widened)
        ordered = sorted(self.draws)
        cut = int(outside * len(ordered))
        return ordered[cut], ordered[-1 - cut]

    def __add__(self, other):
        """Of two independent measurements, each with draws of its own."""
        return Estimate(self.value + other.value,
                        tuple(left + right for left, right in zip(self.draws, other.draws)),
                        min(self.turns, other.turns), min(self.blocks, other.blocks))

    def __sub__(self, other):
        return Estimate(self.value - other.value,
                        tuple(left - right for left, right in zip(self.draws, other.draws)),
                        min(self.turns, other.turns), min(self.blocks, other.blocks))


def paired(sets, variant, base):
    """Per set: what the variant took more than the base in the same turn."""
    return [[turn[variant] - turn[base] for turn in turns] for turns in sets]


def column(sets, variant):
    return [[turn[variant] for turn in turns] for turns in sets]


def blocks_of(turns, size):
    """Means of so many successive turns; the last, shorter block only where it is the only one."""
    whole = len(turns) // size * size or len(turns)
    return [statistics.fmean(turns[at:at + size]) for at in range(0, whole, size)]


def cut_mean(values):
    ordered = sorted(values)
    cut = int(CUT * len(ordered))
    return statistics.fmean(ordered[cut:len(ordered) - cut])


def estimate(sets, seed, block=1):
    """The cut mean of all blocks. Resamples draw sets first, then blocks within each drawn set."""
    count = sum(map(len, sets))
    sets = [blocks_of(turns, block) for turns in sets if turns]
    if not sets:
        return Estimate(float("nan"), (float("nan"),) * RESAMPLES, 0, 0)
    chance = random.Random(seed)

    def draw():
        return cut_mean([value for blocks in chance.choices(sets, k=len(sets))
                         for value in chance.choices(blocks, k=len(blocks))])

    values = [value for blocks in sets for value in blocks]
    return Estimate(cut_mean(values), tuple(draw() for _ in range(RESAMPLES)), count, len(values))


@dataclasses.dataclass(frozen=True)
class Control:
    """A/A estimates of one kind of figure, and how far their intervals may reach from zero."""
    estimates: dict  # which variant, and what its second process took more than its first
    limit: float
    unit: str

    def reach(self):
        """The interval that reaches farthest from zero; None: there are too few for one."""
        if min(one.blocks for one in self.estimates.values()) < BLOCKS_LEAST:
            return None
        return max((one.interval() for one in self.estimates.values()),
                   key=lambda pair: max(map(abs, pair)))

    def fault(self):
        """Why rows beside this control are no result; None: they are figures."""
        blocks = min(one.blocks for one in self.estimates.values())
        if blocks < BLOCKS_LEAST:
            return f"{blocks} blocks of turns, {BLOCKS_LEAST} are the least"
        low, high = self.reach()
        if max(abs(low), abs(high)) > self.limit:
            return (f"A/A [{low:.3g}, {high:.3g}] {self.unit} exceeds "
                    f"±{self.limit:g} {self.unit}")
        return None


def settled(name, own, control, target=None, peer=None, fault=None):
    """A row, or why it is none: then it holds no figure at all, the peer's neither.

    fault: what is wrong with the variant's own recording, None: nothing.
    """
    if not fault and own.blocks < BLOCKS_LEAST:
        fault = f"{own.blocks} blocks of turns, {BLOCKS_LEAST} are the least"
    fault = fault or control.fault()
    more = {"control": control.reach(), "control_limit": control.limit}
    if fault:
        return make_row(name, None, control.unit, target=target, rounds=own.turns, no_result=fault,
                        **more)
    return make_row(name, own.value, control.unit, target=target,
                    peer=None if peer is None else peer.value, spread=own.interval(),
                    peer_spread=None if peer is None else list(peer.interval()),
                    rounds=own.turns, **more)


def control_rows(name, control):
    """The control itself: always printed, so that a reader sees how noisy the machine was."""
    return [make_row(f"A/A control, {name}: {which} twice", own.value, control.unit,
                     spread=own.interval(), rounds=own.turns, control_limit=control.limit)
            for which, own in control.estimates.items() if own.blocks >= BLOCKS_LEAST]
