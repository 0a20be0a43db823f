// SPDX-License-Identifier: Apache-2.0 OR MIT
// Two parts of time beside each other: of each figure what it was and what it is. Numbers of things
// are by second, so that parts of different length can be compared.
import type { Period, Quantiles } from "./trace";

/** Null: there is none, since nothing was counted. */
export interface Change {
  unit: "ns" | "share" | "rate" | "count";
  before: number | null;
  now: number | null;
}

export interface PlaceChange {
  name: string | null;
  polls: Change;
  busy: Change;
  longest: Change;
  delay: Change;
}

export interface SpanChange {
  name: string | null;
  rate: Change;
  p50: Change;
  p99: Change;
}

export interface Compared {
  beforeNs: number;
  nowNs: number;
  sums: { words: string; change: Change }[];
  /** Most change of time in polls first. */
  places: PlaceChange[];
  spans: SpanChange[];
}

type Place = Period["tasks"][number];
type Spans = NonNullable<Period["spans"]>[number];

/** How long it is, as far as it was recorded. */
function lengthOf(period: Period): number {
  return Math.max(1, period.to_ns - period.from_ns);
}

function sum<T>(list: readonly T[], of: (one: T) => number): number {
  return list.reduce((all, one) => all + of(one), 0);
}

/** By name, of both. */
function pairs<T extends { name: string | null }>(
  before: readonly T[],
  now: readonly T[],
): { name: string | null; before: T | null; now: T | null }[] {
  const all = new Map<string | null, { name: string | null; before: T | null; now: T | null }>();
  for (const one of before) all.set(one.name, { name: one.name, before: one, now: null });
  for (const one of now) {
    const found = all.get(one.name);
    if (found) found.now = one;
    else all.set(one.name, { name: one.name, before: null, now: one });
  }
  return [...all.values()];
}

export function compare(before: Period, now: Period): Compared {
  const beforeNs = lengthOf(before);
  const nowNs = lengthOf(now);
  const rate = (of: (one: Period) => number): Change => ({
    unit: "rate",
    before: (of(before) / beforeNs) * 1e9,
    now: (of(now) / nowNs) * 1e9,
  });
  const length = (of: (one: Period) => Quantiles, which: keyof Quantiles): Change => {
    const value = (one: Quantiles): number | null => (one.count ? one[which] : null);
    return { unit: "ns", before: value(of(before)), now: value(of(now)) };
  };
  const share = (of: (one: Period["workers"][number]) => number): Change => {
    const value = (one: Period): number | null => {
      const known = sum(one.workers, (worker) => worker.span_ns - worker.unknown_ns);
      return known > 0 ? sum(one.workers, of) / known : null;
    };
    return { unit: "share", before: value(before), now: value(now) };
  };
  const sums = [
    { words: "polls", change: rate((one) => one.polls.count) },
    { words: "poll, p50", change: length((one) => one.polls, "p50_ns") },
    { words: "poll, p99", change: length((one) => one.polls, "p99_ns") },
    { words: "poll, longest", change: length((one) => one.polls, "max_ns") },
    { words: "delay from ready to poll, p50", change: length((one) => one.delays, "p50_ns") },
    { words: "delay, p99", change: length((one) => one.delays, "p99_ns") },
    { words: "delay, longest", change: length((one) => one.delays, "max_ns") },
    { words: "workers in polls", change: share((one) => one.busy_ns) },
    { words: "workers parked", change: share((one) => one.parked_ns) },
    { words: "blocking runs", change: rate((one) => one.blocking.count) },
    { words: "blocking run, p99", change: length((one) => one.blocking, "p99_ns") },
  ].filter(({ change }) => change.before !== null || change.now !== null);
  return {
    beforeNs,
    nowNs,
    sums: sums.filter(({ change }) => change.before || change.now),
    places: places(before.tasks, now.tasks, beforeNs, nowNs),
    spans: spans(before.spans ?? [], now.spans ?? [], beforeNs, nowNs),
  };
}

function places(
  before: readonly Place[],
  now: readonly Place[],
  beforeNs: number,
  nowNs: number,
): PlaceChange[] {
  const mean = (one: Place | null): number | null =>
    one?.delays ? one.delay_ns / one.delays : null;
  const out = pairs(before, now).map((one): PlaceChange => ({
    name: one.name,
    polls: {
      unit: "rate",
      before: ((one.before?.polls ?? 0) / beforeNs) * 1e9,
      now: ((one.now?.polls ?? 0) / nowNs) * 1e9,
    },
    busy: {
      unit: "share",
      before: (one.before?.busy_ns ?? 0) / beforeNs,
      now: (one.now?.busy_ns ?? 0) / nowNs,
    },
    longest: {
      unit: "ns",
      before: one.before?.polls ? one.before.poll_max_ns : null,
      now: one.now?.polls ? one.now.poll_max_ns : null,
    },
    delay: { unit: "ns", before: mean(one.before), now: mean(one.now) },
  }));
  const moved = ({ busy }: PlaceChange): number => Math.abs((busy.now ?? 0) - (busy.before ?? 0));
  return out
    .filter((one) => one.polls.before || one.polls.now)
    .sort((a, b) => moved(b) - moved(a));
}

function spans(
  before: readonly Spans[],
  now: readonly Spans[],
  beforeNs: number,
  nowNs: number,
): SpanChange[] {
  const at = (one: Spans | null, which: "p50_ns" | "p99_ns"): number | null =>
    one?.lengths.count ? one.lengths[which] : null;
  const all = pairs(before, now).map((one) => ({
    name: one.name,
    rate: {
      unit: "rate" as const,
      before: ((one.before?.lengths.count ?? 0) / beforeNs) * 1e9,
      now: ((one.now?.lengths.count ?? 0) / nowNs) * 1e9,
    },
    p50: { unit: "ns" as const, before: at(one.before, "p50_ns"), now: at(one.now, "p50_ns") },
    p99: { unit: "ns" as const, before: at(one.before, "p99_ns"), now: at(one.now, "p99_ns") },
    weight: (one.before?.lengths.total_ns ?? 0) + (one.now?.lengths.total_ns ?? 0),
  }));
  return all
    .sort((a, b) => b.weight - a.weight)
    .map(({ name, rate, p50, p99 }) => ({ name, rate, p50, p99 }));
}
