// SPDX-License-Identifier: Apache-2.0 OR MIT
// Of which rows strips are had: those in view and a screen above and below them, however many lanes
// a trace has.
import type { Counts, Points, Strip, Wanted } from "../engine/protocol";
import { key } from "../draw/timeline";
import type { Row } from "../layout/rows";
import type { Range } from "../model/view";

/** From the top of all rows, in CSS pixels. */
export function windowOf(scroll: number, high: number): Range {
  return { from: scroll - high, to: scroll + 2 * high };
}

/** Was all asked for that is in view now? */
export function isCovered(
  rows: readonly Row[],
  asked: Range,
  scroll: number,
  high: number,
): boolean {
  const last = rows[rows.length - 1];
  const end = last ? last.top + last.height : 0;
  return asked.from <= Math.max(0, scroll) && asked.to >= Math.min(end, scroll + high);
}

interface Drawn {
  view: Range;
  pixels: number;
  strips: ReadonlyMap<string, Strip>;
  counts: ReadonlyMap<string, Counts>;
  points: ReadonlyMap<string, Points>;
}

/** Is each of them there, of this very view? */
export function isSharp(wanted: readonly Wanted[], drawn: Drawn): boolean {
  const { view, pixels } = drawn;
  return wanted.every((one) => {
    const at = key(one.lane, one.layer);
    const data = drawn.strips.get(at) ?? drawn.counts.get(at) ?? drawn.points.get(at);
    return data?.from === view.from && data.to === view.to && data.pixels === pixels;
  });
}
