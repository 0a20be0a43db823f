// SPDX-License-Identifier: Apache-2.0 OR MIT
// Events as ticks, the taller the more; values from the smallest to the largest of a pixel.
import type { Points } from "../engine/protocol";
import type { Row } from "../layout/rows";
import { count, duration } from "../model/time";
import type { Palette } from "./palette";

export function valueWords(row: Row, value: number): string {
  const text = Number.isInteger(value) ? count(value) : value.toPrecision(4);
  const words = row.unit === "ns" ? duration(value) : row.unit ? `${text} ${row.unit}` : text;
  return row.isRate ? `${words} a second` : words;
}

/** How much the last value of each pixel has grown since that of the one before which has any, a
 * second; a value from before the view has no time. */
export function ratesOf(points: Points): Points {
  const rate = new Float64Array(points.pixels).fill(NaN);
  const second = ((points.to - points.from) / points.pixels) / 1e9;
  let before = -1;
  for (let at = 0; at < points.pixels; at++) {
    if (!points.count[at]) continue;
    const grown = (points.last[at] ?? NaN) - (points.last[before] ?? NaN);
    if (before >= 0) rate.fill(grown / ((at - before) * second), before + 1, at + 1);
    before = at;
  }
  return { ...points, low: rate, high: rate, last: rate };
}

export interface PointsPlace {
  left: number;
  y: number;
  height: number;
  pixels: number;
  ratio: number;
  isChart: boolean;
  colours: Palette;
  indexOf(x: number): number;
}

/** Returns the largest value in view. */
export function drawPoints(
  context: CanvasRenderingContext2D,
  points: Points,
  place: PointsPlace,
): number {
  const base = place.y + place.height - 3;
  const high = place.height - 6;
  const thin = 1 / place.ratio;
  let least = 0;
  let most = 0;
  for (let at = 0; at < points.pixels; at++) {
    least = Math.min(least, points.low[at] || 0);
    most = Math.max(most, points.high[at] || 0);
  }
  const yOf = (value: number): number =>
    base - ((value - least) / Math.max(1e-12, most - least)) * high;
  context.fillStyle = place.isChart ? place.colours.accent : place.colours.text;
  let before = NaN;
  for (let x = 0; x < place.pixels; x++) {
    const at = place.indexOf(x);
    if (at < 0) continue;
    const left = place.left + x / place.ratio;
    const times = points.count[at] ?? 0;
    if (!place.isChart) {
      const tall = Math.min(high, 6 + 3 * Math.log2(Math.max(1, times)));
      if (times) context.fillRect(left, base - tall, thin, tall);
      continue;
    }
    const low = Math.min(points.low[at] ?? NaN, Number.isNaN(before) ? Infinity : before);
    const top = Math.max(points.high[at] ?? NaN, Number.isNaN(before) ? -Infinity : before);
    before = points.last[at] ?? NaN;
    if (Number.isNaN(top)) continue;
    context.globalAlpha = 0.3;
    context.fillRect(left, yOf(top), thin, yOf(Math.max(0, least)) - yOf(top));
    context.globalAlpha = 1;
    context.fillRect(left, yOf(top) - 1, thin, Math.max(1.5, yOf(low) - yOf(top)));
  }
  return most;
}
