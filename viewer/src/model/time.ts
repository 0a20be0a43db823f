// SPDX-License-Identifier: Apache-2.0 OR MIT
// Times and durations as text, and back.

const UNITS: readonly [number, string][] = [
  [1e9, "s"],
  [1e6, "ms"],
  [1e3, "µs"],
  [1, "ns"],
];

/** "32.3 ms": three digits that count. */
export function duration(ns: number): string {
  const size = Math.abs(ns);
  if (size >= 120e9) return `${(ns / 60e9).toFixed(1)} min`;
  const [unit, word] = UNITS.find(([least]) => size >= least) ?? [1, "ns"];
  const value = ns / unit;
  const digits =
    unit === 1 ? 0 : Math.max(0, 2 - Math.floor(Math.log10(Math.max(1, Math.abs(value)))));
  return `${value.toFixed(digits)} ${word}`;
}

/** "1,234,567.8", at most three decimals. Not by toLocaleString(): what that looks up first takes
 * as long as reading half a million events. */
export function count(number: number): string {
  const [whole = "", rest] = String(Math.round(number * 1000) / 1000).split(".");
  return whole.replace(/\B(?=(\d{3})+$)/g, ",") + (rest ? `.${rest}` : "");
}

export function bytes(number: number): string {
  const units: readonly [number, string][] = [
    [2 ** 30, "GiB"],
    [2 ** 20, "MiB"],
    [2 ** 10, "KiB"],
  ];
  const found = units.find(([least]) => number >= least);
  return found ? `${(number / found[0]).toFixed(1)} ${found[1]}` : `${number} B`;
}

export function percent(share: number): string {
  return `${(share * 100).toFixed(share < 0.0995 ? 1 : 0)} %`;
}

/** As many decimals of a second as a step needs. */
function decimals(stepNs: number): number {
  return Math.min(9, Math.max(0, Math.ceil(9 - Math.log10(Math.max(1, stepNs)) - 1e-9)));
}

export interface Clock {
  isUtc: boolean;
  /** CLOCK_REALTIME of the beginning; 0: not known. */
  startUnixNs: bigint;
}

/** A moment with as many digits as `stepNs` needs. */
export function moment(ns: number, clock: Clock, stepNs: number): string {
  const digits = decimals(stepNs);
  if (!clock.isUtc || clock.startUnixNs === 0n) return `${(ns / 1e9).toFixed(digits)} s`;
  const all = clock.startUnixNs + BigInt(Math.round(ns));
  const date = new Date(Number(all / 1000000n)).toISOString().slice(11, 19);
  const rest = (all % 1000000000n).toString().padStart(9, "0").slice(0, digits);
  return digits ? `${date}.${rest}` : date;
}

export function date(clock: Clock): string {
  if (clock.startUnixNs === 0n) return "";
  const text = new Date(Number(clock.startUnixNs / 1000000n)).toISOString();
  return `${text.slice(0, 19).replace("T", " ")} UTC`;
}

/** "3.81s", "3.81", "810ms", "+2s", "12:03:44.5" -> nanoseconds from the beginning. */
export function parseMoment(text: string, clock: Clock): number | null {
  const wall = /^(\d{1,2}):(\d{2}):(\d{2}(?:\.\d+)?)$/.exec(text.trim());
  if (wall && clock.startUnixNs !== 0n) {
    const day = 86400e9;
    const start = Number(clock.startUnixNs % BigInt(day));
    const at = (Number(wall[1]) * 3600 + Number(wall[2]) * 60 + Number(wall[3])) * 1e9;
    return (at - start + day) % day;
  }
  const match = /^\+?(\d+(?:\.\d+)?)\s*(s|ms|us|µs|ns|min)?$/.exec(text.trim());
  if (!match) return null;
  const unit: Record<string, number> = {
    min: 60e9,
    s: 1e9,
    ms: 1e6,
    us: 1e3,
    µs: 1e3,
    ns: 1,
  };
  return Number(match[1]) * (unit[match[2] ?? "s"] ?? 1e9);
}

/** Distance of ticks that are at least so many nanoseconds apart. */
export function tickStep(leastNs: number): number {
  const power = 10 ** Math.floor(Math.log10(Math.max(1, leastNs)));
  for (const factor of [1, 2, 5, 10]) if (factor * power >= leastNs) return factor * power;
  return 10 * power;
}
