// SPDX-License-Identifier: Apache-2.0 OR MIT
// A recording as its indexes say it is: a row for each worker, how much of each piece of time it
// was in polls, in the colour of the longest of them; below, events a second and losses.
import type { MapPoll, TraceMap } from "../model/map";
import type { Range, Theme } from "../model/view";
import { durationColour, palette } from "./palette";

export const MAP_LABEL = 96;
const EVENTS_HIGH = 18;
const ROWS_MAX = 16;

export interface MapScene {
  map: TraceMap;
  view: Range;
  part: Range | null;
  lanes: Range;
  brush: Range | null;
  theme: Theme;
}

interface Size {
  wide: number;
  high: number;
}

function rowHigh(scene: MapScene, size: Size): number {
  const rows = Math.max(1, Math.min(ROWS_MAX, scene.map.workers.length));
  return (size.high - EVENTS_HIGH) / rows;
}

export function mapTime(scene: Pick<MapScene, "view">, wide: number, x: number): number {
  const share = Math.min(1, Math.max(0, (x - MAP_LABEL) / Math.max(1, wide - MAP_LABEL)));
  return scene.view.from + share * (scene.view.to - scene.view.from);
}

function xOf(scene: MapScene, wide: number, time: number): number {
  const share = (time - scene.view.from) / (scene.view.to - scene.view.from);
  return MAP_LABEL + share * (wide - MAP_LABEL);
}

/** The longest poll under the pointer. */
export function hitMap(scene: MapScene, size: Size, x: number, y: number): MapPoll | null {
  const lane = scene.map.workers[Math.floor(y / rowHigh(scene, size))];
  if (!lane || x < MAP_LABEL || y > size.high - EVENTS_HIGH) return null;
  const { map } = scene;
  const time = mapTime(scene, size.wide, x);
  const piece = Math.floor(((time - map.from_ns) / (map.to_ns - map.from_ns)) * map.pieces);
  for (let at = 0; at < lane.longest.length; at += 4)
    if (lane.longest[at] === piece)
      return {
        worker: lane.id,
        start: lane.longest[at + 1] ?? 0,
        length: lane.longest[at + 2] ?? 0,
        task: lane.longest[at + 3] ?? 0,
      };
  return null;
}

export function drawMap(canvas: HTMLCanvasElement, scene: MapScene, ratio: number): void {
  const context = canvas.getContext("2d", { alpha: false });
  if (!context) return;
  const size = { wide: canvas.clientWidth, high: canvas.clientHeight };
  const { wide, high } = size;
  if (canvas.width !== Math.round(wide * ratio) || canvas.height !== Math.round(high * ratio)) {
    canvas.width = Math.round(wide * ratio);
    canvas.height = Math.round(high * ratio);
  }
  const colours = palette(scene.theme);
  const { map } = scene;
  const piece = (map.to_ns - map.from_ns) / map.pieces;
  const left = (at: number): number => xOf(scene, wide, map.from_ns + at * piece);
  const column = Math.max(1, left(1) - left(0));
  context.setTransform(ratio, 0, 0, ratio, 0, 0);
  context.fillStyle = colours.lane;
  context.fillRect(0, 0, wide, high);
  const row = rowHigh(scene, size);
  map.workers.slice(0, ROWS_MAX).forEach((lane, index) => {
    const bottom = (index + 1) * row - 1;
    const longest = new Float64Array(map.pieces);
    for (let at = 0; at < lane.longest.length; at += 4)
      longest[lane.longest[at] ?? 0] = lane.longest[at + 2] ?? 0;
    for (let at = 0; at < map.pieces; at++) {
      const busy = (lane.busy[at] ?? 0) / 1000;
      if (!busy && !longest[at]) continue;
      const tall = Math.max(2, busy * (row - 3));
      context.fillStyle = durationColour(longest[at] || 0, scene.theme);
      context.fillRect(left(at), bottom - tall, Math.ceil(column), tall);
    }
    context.fillStyle = colours.line;
    context.fillRect(0, bottom, wide, 1);
  });
  const most = Math.max(1, ...map.events);
  for (let at = 0; at < map.pieces; at++) {
    const tall = ((map.events[at] ?? 0) / most) * (EVENTS_HIGH - 3);
    context.fillStyle = map.lost[at] ? colours.loss : colours.sample;
    if (map.events[at] || map.lost[at])
      context.fillRect(left(at), high - Math.max(1, tall), Math.ceil(column), Math.max(1, tall));
  }
  context.fillStyle = colours.background;
  context.fillRect(0, 0, MAP_LABEL, high);
  context.font = "11px system-ui, sans-serif";
  context.fillStyle = colours.faint;
  map.workers.slice(0, ROWS_MAX).forEach((lane, index) => {
    if (row >= 11) context.fillText(`worker ${lane.id}`, 8, (index + 1) * row - row / 2 + 4);
  });
  context.fillText("events", 8, high - 4);
  for (const [range, colour] of [
    [scene.part, colours.accent],
    [scene.brush, colours.text],
  ] as const) {
    if (!range) continue;
    const from = Math.max(MAP_LABEL, xOf(scene, wide, range.from));
    const to = Math.min(wide, xOf(scene, wide, range.to));
    if (to < MAP_LABEL || from > wide) continue;
    context.strokeStyle = colour;
    context.lineWidth = 2;
    context.strokeRect(from, 1, Math.max(3, to - from), high - 2);
  }
}
