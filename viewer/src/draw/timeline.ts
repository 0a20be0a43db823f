// SPDX-License-Identifier: Apache-2.0 OR MIT
// The lanes on a 2D canvas: each layer is a strip of pixels; text only where there is room for it.
import {
  ALIVE,
  Layer,
  NONE,
  POINTS,
  READY,
  SAMPLES,
  type Counts,
  type Points,
  type Strip,
  type Wanted,
} from "../engine/protocol";
import { LABEL_WIDTH, type Row } from "../layout/rows";
import { shortName } from "../model/names";
import { count, duration, moment, tickStep, type Clock } from "../model/time";
import type { Note } from "../model/marks";
import type { Loss, Reading } from "../model/trace";
import type { Colouring, Theme } from "../model/view";
import { colourOf } from "./colouring";
import { drawLosses, lossAt, type Place } from "./losses";
import { drawPoints, ratesOf, valueWords } from "./points";
import { DURATIONS, packed, palette, type Palette } from "./palette";

export const AXIS_HEIGHT = 26;
const NARROWEST_TEXT = 46;
const TICK_LEAST = 90;
const NEAR_PIXELS = 4;
const SMALL = "11px system-ui, sans-serif";
const READING_WIDTH = 3; // of one alone, which is no area

export interface Mark {
  from: number;
  to: number;
  lane: number;
}

/** From a wake to the poll that it led to. */
export interface Arrow {
  from: { lane: number; time: number };
  to: { lane: number; time: number };
}

export interface Scene {
  rows: readonly Row[];
  from: number;
  to: number;
  durationNs: number;
  scroll: number;
  strips: ReadonlyMap<string, Strip>;
  counts: ReadonlyMap<string, Counts>;
  points: ReadonlyMap<string, Points>;
  losses: readonly Loss[];
  readings: readonly Reading[];
  names: ReadonlyMap<number, string>;
  ranks: ReadonlyMap<number, number>;
  /** Of the shown finding: name of the culprit's tasks, ranges. */
  culprit: number;
  evidence: readonly Mark[];
  selected: {
    lane: number;
    isEvent: boolean;
    start: number;
    length: number;
    ready: number | null;
  } | null;
  task: number;
  arrow: Arrow | null;
  notes: readonly Note[];
  range: { from: number; to: number } | null;
  cursor: number | null;
  colouring: Colouring;
  theme: Theme;
  clock: Clock;
}

export function key(lane: number, layer: number): string {
  return `${lane}:${layer}`;
}

export interface Hit {
  kind: "poll" | "span" | "run" | "event";
  lane: number;
  layer: number;
  row: number;
  start_ns: number;
  duration_ns: number;
  task: number;
  name: string;
}

export class Timeline {
  private context: CanvasRenderingContext2D;
  private width = 1;
  private height = 1;
  private ratio = 1;
  /** By height: rows of few heights take turns. */
  private images = new Map<number, ImageData>();

  /** Of the strips drawn last: nearly all have one range. */
  private known = { key: "", places: new Int32Array(0) };

  constructor(private canvas: HTMLCanvasElement) {
    const context = canvas.getContext("2d", { alpha: false, willReadFrequently: true });
    if (!context) throw new Error("this browser has no 2D canvas");
    this.context = context;
  }

  /** Sizes of the element in CSS pixels; touches the canvas only where they changed. */
  resize(width: number, height: number, ratio: number): void {
    if (width === this.width && height === this.height && ratio === this.ratio) return;
    this.width = width;
    this.height = height;
    this.ratio = ratio;
    this.canvas.width = Math.round(width * ratio);
    this.canvas.height = Math.round(height * ratio);
    this.images.clear();
  }

  get pixels(): number {
    return Math.max(1, Math.round((this.width - LABEL_WIDTH) * this.ratio));
  }

  timeAt(scene: Pick<Scene, "from" | "to">, x: number): number {
    return scene.from + ((x - LABEL_WIDTH) / (this.width - LABEL_WIDTH)) * (scene.to - scene.from);
  }

  private xOf(scene: Scene, time: number): number {
    return (
      LABEL_WIDTH + ((time - scene.from) / (scene.to - scene.from)) * (this.width - LABEL_WIDTH)
    );
  }

  rowAt(scene: Scene, y: number): Row | null {
    const at = y - AXIS_HEIGHT + scene.scroll;
    if (y < AXIS_HEIGHT) return null;
    return scene.rows.find((row) => at >= row.top && at < row.top + row.height) ?? null;
  }

  /** What a click at these CSS pixels selects. */
  hit(scene: Scene, x: number, y: number): Hit | null {
    const row = this.rowAt(scene, y);
    if (!row || row.lane < 0 || x < LABEL_WIDTH) return null;
    if (row.kind === "events" || row.kind === "chart") return this.hitPoint(scene, row, x);
    const inside = y - AXIS_HEIGHT + scene.scroll - row.top;
    const layer = row.kind === "worker" && inside >= 30 && inside < 35 ? Layer.delay : Layer.main;
    const strip = scene.strips.get(key(row.lane, layer));
    if (!strip) return null;
    const pixel = Math.min(
      this.pixels - 1,
      Math.max(0, Math.floor((x - LABEL_WIDTH) * this.ratio)),
    );
    const at = this.indexOf(scene, strip, pixel);
    if (at < 0) return null;
    const found = strip.row[at] ?? NONE;
    if (found === NONE || (layer === Layer.delay && !strip.length[at])) return null;
    const name = strip.name[at] ?? NONE;
    return {
      kind: row.kind === "spans" ? "span" : row.kind === "blocking" ? "run" : "poll",
      lane: row.lane,
      layer,
      row: found,
      start_ns: strip.start[at] ?? 0,
      duration_ns: strip.length[at] ?? 0,
      task: strip.task[at] ?? NONE,
      name: scene.names.get(name) ?? (row.kind === "spans" ? row.label : ""),
    };
  }

  private pointsOf(scene: Scene, row: Row, wanted: Wanted): Points | undefined {
    const points = scene.points.get(key(wanted.lane, wanted.layer));
    return points && row.isRate ? ratesOf(points) : points;
  }

  /** The event or value that is nearest, within some pixels. */
  private hitPoint(scene: Scene, row: Row, x: number): Hit | null {
    const [wanted] = row.wanted;
    const points = wanted && this.pointsOf(scene, row, wanted);
    if (!points || !wanted) return null;
    const pixel = Math.floor((x - LABEL_WIDTH) * this.ratio);
    const reach = Math.round(NEAR_PIXELS * this.ratio);
    for (let apart = 0; apart <= reach; apart++)
      for (const at of [pixel - apart, pixel + apart]) {
        const place = at >= 0 && at < this.pixels ? this.indexOf(scene, points, at) : -1;
        const found = place < 0 ? NONE : (points.row[place] ?? NONE);
        if (found === NONE) continue;
        const { lane, layer } = wanted;
        const start = points.from + (place / points.pixels) * (points.to - points.from);
        const what = row.kind === "chart" ? valueWords(row, points.high[place] ?? 0) : "";
        return {
          ...{ kind: "event", lane, layer, row: found, start_ns: start, duration_ns: 0 },
          ...{ task: NONE, name: what ? `${row.label} ${what}` : row.label },
        };
      }
    return null;
  }

  /** The strip's element for a pixel of the view; -1: the strip does not reach it. */
  private indexOf(scene: Scene, strip: Strip | Counts | Points, pixel: number): number {
    if (strip.from === scene.from && strip.to === scene.to && strip.pixels === this.pixels)
      return pixel;
    const time = scene.from + ((pixel + 0.5) / this.pixels) * (scene.to - scene.from);
    const at = Math.floor(((time - strip.from) / (strip.to - strip.from)) * strip.pixels);
    return at >= 0 && at < strip.pixels ? at : -1;
  }

  /** The same of all pixels. */
  private places(scene: Scene, strip: Strip | Counts | Points): Int32Array {
    const key = [scene.from, scene.to, this.pixels, strip.from, strip.to, strip.pixels].join();
    if (this.known.key === key) return this.known.places;
    const places = new Int32Array(this.pixels);
    for (let x = 0; x < this.pixels; x++) places[x] = this.indexOf(scene, strip, x);
    this.known = { key, places };
    return places;
  }

  draw(scene: Scene): void {
    const context = this.context;
    const colours = palette(scene.theme);
    context.setTransform(this.ratio, 0, 0, this.ratio, 0, 0);
    context.fillStyle = colours.background;
    context.fillRect(0, 0, this.width, this.height);
    for (const row of scene.rows) {
      const y = AXIS_HEIGHT + row.top - scene.scroll;
      if (y + row.height <= AXIS_HEIGHT || y >= this.height) continue;
      this.row(scene, row, y, colours);
    }
    this.outside(scene, colours);
    this.marks(scene, colours);
    this.axis(scene, colours);
  }

  /** Before and after this trace, where another one beside it has something. */
  private outside(scene: Scene, colours: Palette): void {
    const { context } = this;
    const inside = (x: number): number => Math.min(this.width, Math.max(LABEL_WIDTH, x));
    const end = inside(this.xOf(scene, scene.durationNs));
    const begin: [number, number] = [LABEL_WIDTH, inside(this.xOf(scene, 0))];
    for (const [from, to] of [begin, [end, this.width] as const]) {
      if (to - from < 1) continue;
      context.fillStyle = colours.head;
      context.fillRect(from, AXIS_HEIGHT, to - from, this.height - AXIS_HEIGHT);
      const font = "12px system-ui, sans-serif";
      this.text("not recorded", from + 8, AXIS_HEIGHT + 16, colours.faint, font, to - from - 16);
    }
  }

  private row(scene: Scene, row: Row, y: number, colours: Palette): void {
    const context = this.context;
    if (row.kind === "head") {
      context.fillStyle = colours.head;
      context.fillRect(0, y, this.width, row.height);
      this.text(row.label, 8, y + 15, colours.text, "600 12px system-ui, sans-serif", this.width);
      if (row.detail) {
        const wide = context.measureText(row.label).width;
        this.text(
          row.detail,
          18 + wide,
          y + 15,
          colours.faint,
          "12px system-ui, sans-serif",
          this.width,
        );
      }
      return;
    }
    if (row.kind === "events" || row.kind === "chart") this.points(scene, row, y, colours);
    else if (row.wanted.some((one) => one.layer < SAMPLES)) this.strips(scene, row, y, colours);
    else this.series(scene, row, y, colours);
    context.fillStyle = colours.background;
    context.fillRect(0, y, LABEL_WIDTH, row.height);
    const middle = row.height < 30 ? y + row.height / 2 + 4 : y + 16;
    this.text(row.label, 16, middle, colours.text, "12px system-ui, sans-serif", LABEL_WIDTH - 22);
    if (row.height >= 30)
      this.text(
        row.detail,
        16,
        y + 31,
        colours.faint,
        "11px system-ui, sans-serif",
        LABEL_WIDTH - 22,
      );
    context.fillStyle = colours.line;
    context.fillRect(0, y + row.height - 1, this.width, 1);
  }

  private text(
    text: string,
    x: number,
    y: number,
    colour: string,
    font: string,
    room: number,
  ): void {
    const context = this.context;
    context.font = font;
    context.fillStyle = colour;
    let shown = text;
    if (context.measureText(shown).width > room) {
      while (shown.length > 1 && context.measureText(`${shown}…`).width > room)
        shown = shown.slice(0, -1);
      shown = `${shown.replace(/…$/, "")}…`;
    }
    context.fillText(shown, x, y);
  }

  /* ---- strips ---- */

  private area(rows: number): ImageData {
    let image = this.images.get(rows);
    if (!image) this.images.set(rows, (image = new ImageData(this.pixels, rows)));
    return image;
  }

  private strips(scene: Scene, row: Row, y: number, colours: Palette): void {
    const tall = Math.round(row.height * this.ratio);
    const wide = this.pixels;
    const image = this.area(tall);
    const out = new Uint32Array(image.data.buffer);
    out.fill(packed(colours.lane));
    const main = scene.strips.get(key(row.lane, Layer.main));
    const isTall = row.kind === "worker" || row.kind === "task";
    const top = Math.round((row.kind === "worker" ? 6 : 3) * this.ratio);
    const bottom = Math.round((isTall ? 29 : row.height - 3) * this.ratio);
    const column = (x: number, from: number, to: number, colour: number): void => {
      for (let at = from * wide + x, end = to * wide; at < end; at += wide) out[at] = colour;
    };
    if (row.kind === "task") this.ready(scene, row, column, colours);
    if (row.kind === "worker") this.parked(scene, row, column, top, bottom, colours);
    if (main) {
      const colour = colourOf(scene, row, main);
      const places = this.places(scene, main);
      for (let x = 0; x < wide; x++) {
        const at = places[x] ?? -1;
        if (at < 0 || main.row[at] === NONE) continue;
        const share = isTall ? 0.25 + (0.75 * (main.share[at] ?? 0)) / 255 : 1;
        const high = Math.max(Math.round(3 * this.ratio), Math.round((bottom - top) * share));
        column(x, bottom - high, bottom, colour(at));
      }
    }
    if (row.kind === "worker") this.below(scene, row, column, colours);
    this.context.putImageData(
      image,
      Math.round(LABEL_WIDTH * this.ratio),
      Math.round(y * this.ratio),
    );
    if (main) this.labels(scene, row, main, y, top / this.ratio, bottom / this.ratio, colours);
  }

  /** Where the worker was parked the lane is as dark as the page. */
  private parked(
    scene: Scene,
    row: Row,
    column: (x: number, from: number, to: number, colour: number) => void,
    top: number,
    bottom: number,
    colours: Palette,
  ): void {
    const parks = scene.strips.get(key(row.lane, Layer.park));
    if (!parks) return;
    const busy = packed(colours.busyLine);
    const places = this.places(scene, parks);
    for (let x = 0; x < this.pixels; x++) {
      const at = places[x] ?? -1;
      if (at < 0) continue;
      const awake = 255 - (parks.share[at] ?? 0);
      if (awake > 0)
        column(x, bottom - Math.max(1, Math.round(((bottom - top) * awake) / 255)), bottom, busy);
    }
  }

  /** Of a task: from ready to poll. */
  private ready(
    scene: Scene,
    row: Row,
    column: (x: number, from: number, to: number, colour: number) => void,
    colours: Palette,
  ): void {
    const delays = scene.strips.get(key(row.lane, Layer.delay));
    if (!delays) return;
    const from = Math.round(20 * this.ratio);
    const to = Math.round(29 * this.ratio);
    const places = this.places(scene, delays);
    for (let x = 0; x < this.pixels; x++) {
      const at = places[x] ?? -1;
      if (at >= 0 && delays.row[at] !== NONE && (delays.length[at] ?? 0) > 0)
        column(x, from, to, packed(colours.delay));
    }
  }

  private below(
    scene: Scene,
    row: Row,
    column: (x: number, from: number, to: number, colour: number) => void,
    colours: Palette,
  ): void {
    const line = (layer: number, least: number, from: number, to: number, colour: string): void => {
      const strip = scene.strips.get(key(row.lane, layer));
      if (!strip) return;
      const places = this.places(scene, strip);
      for (let x = 0; x < this.pixels; x++) {
        const at = places[x] ?? -1;
        if (at >= 0 && strip.row[at] !== NONE && (strip.length[at] ?? 0) >= least)
          column(
            x,
            Math.round(from * this.ratio),
            Math.round(to * this.ratio),
            packed(colour),
          );
      }
    };
    // A delay below 1 ms is drawn thin: the same bound as that of `kymo why`.
    line(Layer.delay, 1e5, 33, 34, colours.delay);
    line(Layer.delay, 1e6, 31, 34, colours.delay);
    line(Layer.offCpu, 1, 35, 38, colours.offCpu);
    line(Layer.runDelay, 1e5, 38, 41, colours.runDelay);
    const samples = scene.counts.get(key(row.lane, SAMPLES));
    if (!samples) return;
    const places = this.places(scene, samples);
    for (let x = 0; x < this.pixels; x++) {
      const at = places[x] ?? -1;
      if (at >= 0 && samples.values[at])
        column(x, Math.round(this.ratio), Math.round(4 * this.ratio), packed(colours.sample));
    }
  }

  /** Names inside what is wide enough. */
  private labels(
    scene: Scene,
    row: Row,
    strip: Strip,
    y: number,
    top: number,
    bottom: number,
    colours: Palette,
  ): void {
    if (scene.to - scene.from <= 0 || strip.from !== scene.from || strip.to !== scene.to) return;
    let begin = 0;
    for (let x = 1; x <= strip.pixels; x++) {
      if (x < strip.pixels && strip.row[x] === strip.row[begin]) continue;
      const wide = (x - begin) / this.ratio;
      if (strip.row[begin] !== NONE && wide >= NARROWEST_TEXT) {
        const known = scene.names.get(strip.name[begin] ?? NONE);
        const name = shortName(known) === "unnamed" ? row.label : shortName(known);
        const took = duration(strip.length[begin] ?? 0);
        this.context.font = SMALL;
        const hasRoom = this.context.measureText(`${name} ${took}`).width <= wide - 8;
        const words = hasRoom ? `${name} ${took}` : `${took} ${name}`; // how long is not cut off
        const high = row.kind === "worker" || row.kind === "task" ? 16 : row.height / 2 - top + 4;
        this.context.save();
        this.context.beginPath();
        this.context.rect(LABEL_WIDTH + begin / this.ratio, y + top, wide - 3, bottom - top);
        this.context.clip();
        this.text(
          words,
          LABEL_WIDTH + begin / this.ratio + 4,
          y + top + high,
          colours.onColour,
          SMALL,
          wide - 8,
        );
        this.context.restore();
      }
      begin = x;
    }
  }

  /* ---- numbers over time ---- */

  private points(scene: Scene, row: Row, y: number, colours: Palette): void {
    const [wanted] = row.wanted;
    const points = wanted && this.pointsOf(scene, row, wanted);
    this.context.fillStyle = colours.lane;
    this.context.fillRect(LABEL_WIDTH, y, this.width - LABEL_WIDTH, row.height);
    if (!points) return;
    const most = drawPoints(this.context, points, {
      ...{ left: LABEL_WIDTH, y, height: row.height, pixels: this.pixels, ratio: this.ratio },
      ...{ isChart: row.kind === "chart", colours },
      indexOf: (x) => this.indexOf(scene, points, x),
    });
    if (row.kind !== "chart") return;
    this.caption(`most in view: ${valueWords(row, most)}`, y, colours);
  }

  private series(scene: Scene, row: Row, y: number, colours: Palette): void {
    const context = this.context;
    const points: [number, number][] = [];
    let format = (value: number): string => count(Math.round(value));
    if (row.kind === "alive" || row.kind === "ready") {
      const counts = scene.counts.get(key(0, row.kind === "alive" ? ALIVE : READY));
      if (counts)
        for (let x = 0; x < this.pixels; x++) {
          const at = this.indexOf(scene, counts, x);
          if (at >= 0) points.push([LABEL_WIDTH + x / this.ratio, (counts.values[at] ?? 0) / 1000]);
        }
      if (row.kind === "ready") format = (value) => value.toFixed(value < 10 ? 1 : 0);
    } else {
      points.push(...this.readings(scene, row));
      format =
        row.kind === "cpu"
          ? (value) => `${value.toFixed(2)} cores`
          : (value) => `${(value / 2 ** 20).toFixed(1)} MiB`;
    }
    context.fillStyle = colours.lane;
    context.fillRect(LABEL_WIDTH, y, this.width - LABEL_WIDTH, row.height);
    const most = points.reduce((max, [, value]) => Math.max(max, value), 0);
    const base = y + row.height - 2;
    const high = row.height - 6;
    context.fillStyle = row.kind === "ready" ? colours.delay : colours.accent;
    context.globalAlpha = 0.55;
    context.beginPath();
    let last = base;
    points.forEach(([x, value], at) => {
      const to = base - (most > 0 ? (value / most) * high : 0);
      if (!at) context.moveTo(x, base);
      if (at && row.kind !== "memory") context.lineTo(x, last);
      context.lineTo(x, to);
      last = to;
    });
    if (points.length) {
      const end = points[points.length - 1]?.[0] ?? LABEL_WIDTH;
      const right = row.kind === "cpu" || row.kind === "memory" ? end : this.width;
      context.lineTo(right, last);
      context.lineTo(right, base);
      context.fill();
      if (points.length === 1) context.fillRect(right, last, READING_WIDTH, base - last);
    }
    context.globalAlpha = 1;
    this.caption(points.length ? `most in view: ${format(most)}` : "nothing in view", y, colours);
  }

  /** Words over a chart, which may be behind them. */
  private caption(words: string, y: number, colours: Palette): void {
    const context = this.context;
    context.font = "11px system-ui, sans-serif";
    context.fillStyle = colours.lane;
    context.globalAlpha = 0.8;
    context.fillRect(LABEL_WIDTH + 2, y + 2, context.measureText(words).width + 8, 15);
    context.globalAlpha = 1;
    this.text(words, LABEL_WIDTH + 6, y + 13, colours.text, "11px system-ui, sans-serif", 240);
  }

  private readings(scene: Scene, row: Row): [number, number][] {
    const out: [number, number][] = [];
    let before: Reading | null = null;
    for (const reading of scene.readings) {
      if (row.kind === "memory") {
        if (reading.rss !== null) out.push([this.xOf(scene, reading.time_ns), reading.rss]);
        continue;
      }
      if (reading.cpu_ns === null) continue;
      if (before && before.cpu_ns !== null && reading.time_ns > before.time_ns) {
        const spent = Math.max(0, reading.cpu_ns - before.cpu_ns);
        const cores = spent / (reading.time_ns - before.time_ns);
        out.push(
          [this.xOf(scene, before.time_ns), cores],
          [this.xOf(scene, reading.time_ns), cores],
        );
      }
      before = reading;
    }
    return out.map(([x, value]): [number, number] => [
      Math.min(Math.max(x, LABEL_WIDTH), this.width),
      value,
    ]);
  }

  /* ---- marks over the lanes ---- */

  private marks(scene: Scene, colours: Palette): void {
    const context = this.context;
    context.save();
    context.beginPath();
    context.rect(LABEL_WIDTH, AXIS_HEIGHT, this.width - LABEL_WIDTH, this.height - AXIS_HEIGHT);
    context.clip();
    for (const row of scene.rows) {
      const y = AXIS_HEIGHT + row.top - scene.scroll;
      if (row.kind !== "worker" || y >= this.height || y + row.height < AXIS_HEIGHT) continue;
      const high = row.height - 1;
      drawLosses(context, this.place(scene), row.tid, scene.losses, { y, high }, colours.loss);
      if (scene.task !== NONE) this.taskMarks(scene, row, y, colours);
      for (const mark of scene.evidence)
        if (mark.lane === row.lane)
          this.box(scene, mark.from, mark.to, y + 3, 29, colours.text, [4, 3]);
    }
    if (scene.selected) this.selection(scene, scene.selected, colours);
    if (scene.arrow) this.arrow(scene, scene.arrow, colours);
    if (scene.range) {
      const x = this.xOf(scene, scene.range.from);
      const wide = this.xOf(scene, scene.range.to) - x;
      context.globalAlpha = 0.16;
      context.fillStyle = colours.accent;
      context.fillRect(x, AXIS_HEIGHT, wide, this.height);
      context.globalAlpha = 1;
      context.fillStyle = colours.accent;
      context.fillRect(x, AXIS_HEIGHT, 1, this.height);
      context.fillRect(x + wide, AXIS_HEIGHT, 1, this.height);
    }
    if (scene.cursor !== null) {
      context.fillStyle = colours.faint;
      context.globalAlpha = 0.7;
      context.fillRect(this.xOf(scene, scene.cursor), AXIS_HEIGHT, 1, this.height);
      context.globalAlpha = 1;
    }
    context.restore();
  }

  /** What is lost at these CSS pixels. */
  lossAt(scene: Scene, x: number, y: number): Loss | null {
    const row = this.rowAt(scene, y);
    return row?.kind === "worker" ? lossAt(this.place(scene), row.tid, scene.losses, x) : null;
  }

  private place(scene: Scene): Place {
    return { ...scene, left: LABEL_WIDTH, right: this.width };
  }

  /** Under each pixel whose worst poll is of the chosen task. */
  private taskMarks(scene: Scene, row: Row, y: number, colours: Palette): void {
    const strip = scene.strips.get(key(row.lane, Layer.main));
    if (!strip) return;
    this.context.fillStyle = colours.text;
    const places = this.places(scene, strip);
    for (let x = 0; x < this.pixels; x++) {
      const at = places[x] ?? -1;
      if (at >= 0 && strip.task[at] === scene.task && strip.row[at] !== NONE)
        this.context.fillRect(LABEL_WIDTH + x / this.ratio, y + 29, 1 / this.ratio, 2);
    }
  }

  private box(
    scene: Scene,
    from: number,
    to: number,
    y: number,
    high: number,
    colour: string,
    dash: number[],
  ): void {
    const context = this.context;
    const x = this.xOf(scene, from);
    context.strokeStyle = colour;
    context.lineWidth = 2;
    context.setLineDash(dash);
    context.strokeRect(x - 1, y, Math.max(3, this.xOf(scene, to) - x + 2), high);
    context.setLineDash([]);
  }

  private rowOf(scene: Scene, lane: number): Row | undefined {
    const isPolls = (row: Row): boolean => (row.wanted[0]?.layer ?? POINTS) < SAMPLES;
    return scene.rows.find((one) => one.lane === lane && isPolls(one) && one.kind !== "task");
  }

  /** Where a lane's polls are drawn; null: it has no row. */
  private middleOf(scene: Scene, lane: number): number | null {
    const row = this.rowOf(scene, lane);
    return row ? AXIS_HEIGHT + row.top - scene.scroll + Math.min(17, row.height / 2) : null;
  }

  private arrow(scene: Scene, arrow: Arrow, colours: Palette): void {
    const context = this.context;
    const fromY = this.middleOf(scene, arrow.from.lane);
    const toY = this.middleOf(scene, arrow.to.lane);
    if (fromY === null || toY === null) return;
    const fromX = this.xOf(scene, arrow.from.time);
    const toX = this.xOf(scene, arrow.to.time);
    const bend = Math.max(14, Math.min(80, (toX - fromX) / 2));
    const lift = fromY === toY ? -14 : 0;
    context.strokeStyle = context.fillStyle = colours.delay;
    context.lineWidth = 2;
    context.beginPath();
    context.arc(fromX, fromY, 3.5, 0, 7);
    context.fill();
    context.beginPath();
    context.moveTo(fromX, fromY);
    context.bezierCurveTo(fromX + bend, fromY + lift, toX - bend, toY + lift, toX - 5, toY);
    context.stroke();
    context.beginPath();
    context.moveTo(toX, toY);
    context.lineTo(toX - 8, toY - 5);
    context.lineTo(toX - 8, toY + 5);
    context.fill();
  }

  private selection(
    scene: Scene,
    selected: NonNullable<Scene["selected"]>,
    colours: Palette,
  ): void {
    if (selected.isEvent) {
      this.context.fillStyle = colours.accent;
      this.context.fillRect(this.xOf(scene, selected.start), AXIS_HEIGHT, 1.5, this.height);
      return;
    }
    const row = this.rowOf(scene, selected.lane);
    if (!row) return;
    const y = AXIS_HEIGHT + row.top - scene.scroll;
    const isTall = row.kind === "worker";
    if (selected.ready !== null && isTall) {
      const x = Math.max(LABEL_WIDTH, this.xOf(scene, selected.ready));
      this.context.fillStyle = colours.delay;
      this.context.fillRect(x, y + 31, Math.max(2, this.xOf(scene, selected.start) - x), 4);
      this.context.fillRect(x, y + 27, 2, 8);
    }
    this.box(
      scene,
      selected.start,
      selected.start + selected.length,
      y + (isTall ? 4 : 1),
      isTall ? 27 : row.height - 3,
      colours.accent,
      [],
    );
  }

  /* ---- axis ---- */

  /** A flag on the axis and a line through the lanes. */
  private note(scene: Scene, note: Note, colours: Palette): void {
    const context = this.context;
    const x = this.xOf(scene, note.time);
    if (x < LABEL_WIDTH || x > this.width) return;
    context.fillStyle = colours.runDelay;
    context.globalAlpha = 0.8;
    context.fillRect(x, AXIS_HEIGHT, 1, this.height);
    context.globalAlpha = 1;
    const words = note.text || "note";
    context.font = "600 11px system-ui, sans-serif";
    const wide = Math.min(180, context.measureText(words).width + 8);
    context.fillRect(x, 2, wide, 15);
    this.text(words, x + 4, 13, colours.onColour, "600 11px system-ui, sans-serif", wide - 6);
  }

  private axis(scene: Scene, colours: Palette): void {
    const context = this.context;
    const wide = this.width - LABEL_WIDTH;
    const step = tickStep(((scene.to - scene.from) / Math.max(1, wide)) * TICK_LEAST);
    context.fillStyle = colours.head;
    context.fillRect(0, 0, this.width, AXIS_HEIGHT);
    const anchored = step < 1e5 && scene.from >= step * 100;
    const anchor = anchored ? Math.floor(scene.from / (step * 10)) * step * 10 : 0;
    const begin = Math.ceil(scene.from / step) * step;
    for (let time = begin; time <= scene.to; time += step) {
      const x = this.xOf(scene, time);
      const words = anchored
        ? `+${duration(Math.round(time - anchor))}`
        : moment(time, scene.clock, step);
      context.fillStyle = colours.line;
      context.fillRect(x, 0, 1, AXIS_HEIGHT);
      if (x + 60 < this.width)
        this.text(words, x + 4, 17, colours.faint, "11px system-ui, sans-serif", TICK_LEAST);
    }
    for (const note of scene.notes) this.note(scene, note, colours);
    context.fillStyle = colours.head;
    context.fillRect(0, 0, LABEL_WIDTH, AXIS_HEIGHT);
    const left = anchored
      ? moment(anchor, scene.clock, step * 10)
      : `${duration(scene.to - scene.from)} in view`;
    this.text(left, 8, 17, colours.text, "600 11px system-ui, sans-serif", LABEL_WIDTH - 12);
    context.fillStyle = colours.line;
    context.fillRect(0, AXIS_HEIGHT - 1, this.width, 1);
    context.fillRect(LABEL_WIDTH - 1, 0, 1, this.height);
  }
}

export function legend(colouring: Colouring, theme: Theme): { colour: string; words: string }[] {
  if (colouring !== "duration") return [];
  return DURATIONS.map((one) => ({
    colour: theme === "light" ? one.light : one.dark,
    words: one.words,
  }));
}
