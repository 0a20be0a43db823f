// SPDX-License-Identifier: Apache-2.0 OR MIT
// What is missing, hatched over the lane that it is missing from.
import { isLossOf } from "../model/losses";
import type { Loss } from "../model/trace";

const LEAST = 2; // pixels of CSS
const REACH = 1;
const APART = 6; // lines

/** Which time lies between which CSS pixels. */
export interface Place {
  from: number;
  to: number;
  left: number;
  right: number;
}

/** Null: it is not in view, or of another thread. */
function edgesOf(place: Place, tid: number, loss: Loss): [number, number] | null {
  const { from, to, left, right } = place;
  if (!isLossOf(loss, tid) || loss.to_ns < from || loss.from_ns > to) return null;
  const xOf = (time: number): number => left + ((time - from) / (to - from)) * (right - left);
  const begin = Math.max(left, xOf(loss.from_ns));
  return [begin, Math.min(right, Math.max(begin + LEAST, xOf(loss.to_ns)))];
}

/** The first one at this pixel of a thread's lane. */
export function lossAt(
  place: Place,
  tid: number,
  losses: readonly Loss[],
  x: number,
): Loss | null {
  const isAt = (loss: Loss): boolean => {
    const edges = edgesOf(place, tid, loss);
    return edges !== null && x >= edges[0] - REACH && x <= edges[1] + REACH;
  };
  return x < place.left ? null : (losses.find(isAt) ?? null);
}

function hatch(
  context: CanvasRenderingContext2D,
  [from, to]: [number, number],
  { y, high }: { y: number; high: number },
  colour: string,
): void {
  context.save();
  context.beginPath();
  context.rect(from, y, to - from, high);
  context.clip();
  context.globalAlpha = 0.18;
  context.fillStyle = colour;
  context.fillRect(from, y, to - from, high);
  context.globalAlpha = 0.9;
  context.strokeStyle = colour;
  context.lineWidth = 1;
  context.beginPath();
  for (let at = from - high; at < to; at += APART) {
    context.moveTo(at, y + high);
    context.lineTo(at + high, y);
  }
  context.stroke();
  context.restore();
}

/** losses: by begin. Each pixel once, however many lie in it. */
export function drawLosses(
  context: CanvasRenderingContext2D,
  place: Place,
  tid: number,
  losses: readonly Loss[],
  lane: { y: number; high: number },
  colour: string,
): void {
  let done = place.left;
  for (const loss of losses) {
    const edges = edgesOf(place, tid, loss);
    if (!edges) continue;
    const from = Math.max(edges[0], done);
    if (edges[1] > from) hatch(context, [from, edges[1]], lane, colour);
    done = Math.max(done, edges[1]);
  }
}
