// SPDX-License-Identifier: Apache-2.0 OR MIT
// What the page and its worker say to each other. Times are nanoseconds from the beginning of the
// trace, as in docs/findings.schema.json.

export const NONE = 0xffffffff;

// As enum ky_lane_layer of src/lanes/lanes.h.
export const Layer = { main: 0, delay: 1, park: 2, runDelay: 3, offCpu: 4 } as const;
// What is drawn beside layers of lanes.
export const SAMPLES = 100;
export const ALIVE = 101;
export const READY = 102;
// Values recorded at moments: + enum ky_points_kind + 16 * the field; lane: its index.
export const POINTS = 200;
export const PointsKind = { events: 0, field: 1, counter: 2, notes: 3, queue: 4 } as const;

export function pointsLayer(kind: number, field = 0): number {
  return POINTS + kind + 16 * field;
}

export interface Range {
  from: number;
  to: number;
}

export interface Wanted {
  lane: number;
  layer: number;
}

/** One layer in pixels; element i is what pixel i shows. */
export interface Strip extends Wanted, Range {
  pixels: number;
  start: Float64Array;
  length: Float64Array;
  row: Uint32Array;
  name: Uint32Array;
  task: Uint32Array;
  flags: Uint8Array;
  share: Uint8Array;
}

/** Numbers by pixel: CPU samples; tasks in thousandths. */
export interface Counts extends Wanted, Range {
  pixels: number;
  values: Uint32Array;
}

/** Values by pixel: how many, the smallest, the largest, the last; row of the first. */
export interface Points extends Wanted, Range {
  pixels: number;
  low: Float64Array;
  high: Float64Array;
  last: Float64Array;
  count: Uint32Array;
  row: Uint32Array;
}

export interface ViewAnswer extends Range {
  pixels: number;
  strips: Strip[];
  counts: Counts[];
  points: Points[];
}

export type Question =
  | { op: "view"; from: number; to: number; pixels: number; wanted: Wanted[] }
  | { op: "findings" }
  | { op: "period"; from: number; to: number }
  | { op: "facts"; lane: number; layer: number; row: number }
  | { op: "why"; lane: number; row: number }
  | { op: "find"; task: number; time: number }
  | { op: "task"; task: number; from: number; to: number; limit: number }
  | { op: "chooseTask"; task: number }
  | { op: "search"; text: string }
  /** stacks: enum ky_stack_kind; name: of a kind of task, -1: all. */
  | { op: "flame"; stacks: number; from: number; to: number; name: number; isLive: boolean }
  | { op: "chain"; task: number; from: number; to: number; limit: number }
  | { op: "wakeGraph"; from: number; to: number }
  | { op: "spanNames"; from: number; to: number }
  | {
      op: "spanName";
      name: number;
      from: number;
      to: number;
      pieces: number;
      key: number;
      value: number;
    }
  | { op: "spanTree"; span: number }
  | { op: "span"; span: number }
  | { op: "findSpan"; time: number; id: string }
  | { op: "pointsList" }
  | { op: "pointsFacts"; kind: number; index: number; row: number }
  | {
      op: "pointsWithin";
      kind: number;
      index: number;
      from: number;
      to: number;
      limit: number;
    };

/** A file of `kymo serve`, read by ranges; revision: as its ETag says. */
export interface Served {
  url: string;
  size: number;
  revision: string;
}

/** Of opening, for measurement: moments in ms since the epoch, and what was waited for bytes. */
export interface Steps {
  begun: number;
  read: number;
  loaded: number;
  waited: number;
}

export type ToWorker =
  /** packed: the engine, as packed.ts has it. */
  | { kind: "engine"; packed: string }
  | { kind: "open"; file: Blob | Served; name: string }
  /** bytes: of the file, from there on; null: they cannot be had. */
  | { kind: "window"; from: number; bytes: ArrayBuffer | null }
  | { kind: "ask"; id: number; question: Question };

/** lanes, points: JSON of what there is to draw. */
export interface Opened {
  kind: "opened";
  lanes: string;
  points: string;
  memory: number;
  steps: Steps;
}

export type FromWorker =
  | { kind: "progress"; doing: string; done: number; all: number }
  /** What is read in place of the file. */
  | { kind: "unpacked"; file: Blob }
  | { kind: "want"; from: number; end: number }
  | Opened
  | { kind: "failed"; sentence: string }
  | { kind: "answer"; id: number; json: string }
  | { kind: "view"; id: number; answer: ViewAnswer }
  | { kind: "refused"; id: number; code: number };
