// SPDX-License-Identifier: Apache-2.0 OR MIT
// Spans over time: by column a piece of time, by row a duration (four to a power of two), as dark
// as there are many; over it the line of p99.
import type { SpanPiece } from "../model/trace";
import { duration } from "../model/time";
import type { Theme } from "../model/view";
import { palette } from "./palette";

export interface HeatScene {
  list: readonly SpanPiece[];
  pieces: number;
  from: number;
  to: number;
}

const BINS = 4;

/** As the engine's bin_of(): where a duration lies, in bins. */
function place(ns: number): number {
  const power = Math.floor(Math.log2(Math.max(1, ns)));
  return power * BINS + (Math.max(1, ns) / 2 ** power - 1) * BINS;
}

export function drawHeat(canvas: HTMLCanvasElement, scene: HeatScene, theme: Theme): void {
  const context = canvas.getContext("2d", { alpha: false });
  const ratio = window.devicePixelRatio || 1;
  const wide = canvas.clientWidth;
  const high = canvas.clientHeight;
  if (!context || !wide) return;
  const colours = palette(theme);
  canvas.width = Math.round(wide * ratio);
  canvas.height = Math.round(high * ratio);
  context.setTransform(ratio, 0, 0, ratio, 0, 0);
  context.fillStyle = colours.lane;
  context.fillRect(0, 0, wide, high);
  let first = Infinity;
  let last = 0;
  let most = 1;
  for (const piece of scene.list)
    for (let at = 0; at < piece.bins.length; at += 2) {
      first = Math.min(first, piece.bins[at] ?? 0);
      last = Math.max(last, piece.bins[at] ?? 0);
      most = Math.max(most, piece.bins[at + 1] ?? 0);
    }
  if (!Number.isFinite(first)) return;
  const tall = (high - 4) / (last - first + 1);
  const column = wide / scene.pieces;
  const y = (bin: number): number => high - 2 - (bin - first) * tall;
  context.fillStyle = colours.accent;
  for (const piece of scene.list)
    for (let at = 0; at < piece.bins.length; at += 2) {
      context.globalAlpha = 0.15 + 0.85 * (Math.log1p(piece.bins[at + 1] ?? 0) / Math.log1p(most));
      const bin = piece.bins[at] ?? 0;
      context.fillRect(piece.piece * column, y(bin + 1), Math.max(1, column - 0.5), tall - 0.5);
    }
  context.globalAlpha = 1;
  context.fillStyle = theme === "light" ? "#c8401a" : "#ff6a3d";
  for (const piece of scene.list)
    context.fillRect(piece.piece * column, y(place(piece.p99_ns)) - 1, column, 2);
  context.fillStyle = colours.text;
  context.font = "11px system-ui, sans-serif";
  context.fillText(duration(2 ** ((last + 1) / BINS)), 4, 12);
  context.fillText(duration(2 ** (first / BINS)), 4, high - 5);
}
