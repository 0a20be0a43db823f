// SPDX-License-Identifier: Apache-2.0 OR MIT
// Which rows there are, from top to bottom, and what each shows. Heights in CSS pixels.
import {
  ALIVE,
  Layer,
  pointsLayer,
  PointsKind,
  READY,
  SAMPLES,
  type Wanted,
} from "../engine/protocol";
import type { LaneInfo, PointsLane, TraceInfo } from "../model/trace";
import { tailName } from "../model/names";
import { count, duration } from "../model/time";

export type RowKind =
  | "head"
  | "task"
  | "worker"
  | "blocking"
  | "spans"
  | "alive"
  | "ready"
  | "cpu"
  | "memory"
  | "events"
  | "chart";

export interface Row {
  kind: RowKind;
  lane: number;
  label: string;
  detail: string;
  title: string;
  tid: number;
  top: number;
  height: number;
  wanted: Wanted[];
  /** Of a chart. */
  unit?: string;
  /** How much its number grows in a second. */
  isRate?: boolean;
}

export const LABEL_WIDTH = 168;
const HEIGHTS: Record<RowKind, number> = {
  head: 22,
  task: 38,
  worker: 42,
  blocking: 24,
  spans: 18,
  alive: 40,
  ready: 40,
  cpu: 40,
  memory: 40,
  events: 22,
  chart: 40,
};

function workerRow(lane: LaneInfo, index: number): Omit<Row, "top" | "height"> {
  const wanted: Wanted[] = [
    { lane: index, layer: Layer.main },
    { lane: index, layer: Layer.delay },
  ];
  if (lane.parks) wanted.push({ lane: index, layer: Layer.park });
  if (lane.has_run_delay) wanted.push({ lane: index, layer: Layer.runDelay });
  if (lane.off_cpu) wanted.push({ lane: index, layer: Layer.offCpu });
  if (lane.cpu_samples) wanted.push({ lane: index, layer: SAMPLES });
  const name = lane.is_thread
    ? `thread ${lane.tid ?? 0}`
    : `worker ${lane.index ?? lane.worker ?? index}`;
  const thread = lane.thread
    ? `${lane.thread}, thread ${lane.tid ?? 0}`
    : `thread ${lane.tid ?? 0}`;
  return {
    kind: "worker",
    lane: index,
    label: name,
    tid: lane.tid ?? 0,
    wanted,
    detail: `${count(lane.rows)} polls`,
    title: `${name} (${thread}): ${count(lane.rows)} polls, ${count(lane.parks ?? 0)} parks`,
  };
}

function runtimeOf(lane: LaneInfo): string {
  if (!lane.is_worker || lane.is_thread) return "threads that are no workers";
  return lane.runtime_name
    ? `runtime ${lane.runtime_name}`
    : lane.runtime !== null && lane.runtime !== undefined
      ? `runtime ${lane.runtime}`
      : "workers";
}

function head(label: string, detail: string): Omit<Row, "top" | "height"> {
  return { kind: "head", lane: -1, label, detail, title: label, tid: 0, wanted: [] };
}

function plain(
  kind: RowKind,
  lane: number,
  label: string,
  detail: string,
  wanted: Wanted[],
): Omit<Row, "top" | "height"> {
  return { kind, lane, label, detail, title: `${label}: ${detail}`, tid: 0, wanted };
}

const CHARTS_MAX = 40;

/** "TYPE.FIELD" of a numeric field, "NAME." of a counter; what the URL has of a chart. */
export function chartKey(type: string | null | undefined, field: string | null): string {
  return `${type ?? ""}.${field ?? ""}`;
}

/** By chartKey(). */
export interface ChosenCharts {
  chosen(option: "charts" | "rates"): ReadonlySet<string>;
}

function eventRows(
  points: readonly PointsLane[],
  chosen: ChosenCharts,
): Omit<Row, "top" | "height">[] {
  const [charts, rates] = [chosen.chosen("charts"), chosen.chosen("rates")];
  const out: Omit<Row, "top" | "height">[] = [];
  for (const lane of points) {
    if (lane.kind === "queue") continue;
    const kind = PointsKind[lane.kind];
    const name = lane.kind === "notes" ? "notes" : (lane.name ?? "unnamed");
    const own = [{ lane: lane.index, layer: pointsLayer(kind) }];
    const isCounter = lane.kind === "counter";
    const isRate = isCounter && rates.has(chartKey(lane.name, null));
    out.push({
      ...plain(isCounter ? "chart" : "events", lane.index, name, count(lane.count), own),
      isRate,
    });
    lane.fields?.forEach((field, at) => {
      const chart = chartKey(lane.name, field.name);
      if (!field.is_number || !charts.has(chart)) return;
      const wanted = [{ lane: lane.index, layer: pointsLayer(PointsKind.field, at) }];
      const row = plain("chart", lane.index, field.name ?? "unnamed", name, wanted);
      out.push({ ...row, unit: field.unit ?? "", isRate: rates.has(chart) });
    });
  }
  return out.slice(0, CHARTS_MAX);
}

/** Depths as they were recorded, of runtimes and of workers. */
function queueRows(points: readonly PointsLane[]): Omit<Row, "top" | "height">[] {
  return points
    .filter((lane) => lane.kind === "queue")
    .slice(0, CHARTS_MAX)
    .map((lane) => {
      const isOfWorker = lane.worker !== null && lane.worker !== undefined;
      const label = isOfWorker ? `queue of worker ${lane.worker}` : "queue of all";
      return plain("chart", lane.index, label, lane.name ?? `${count(lane.count)} samples`, [
        { lane: lane.index, layer: pointsLayer(PointsKind.queue) },
      ]);
    });
}

/** task: name of the chosen one; "": none. */
export function layRows(
  trace: TraceInfo,
  task: string,
  folded: ReadonlySet<string>,
  points: readonly PointsLane[],
  chosen: ChosenCharts,
): Row[] {
  const out: Omit<Row, "top" | "height">[] = [];
  const put = (group: string, detail: string, rows: Omit<Row, "top" | "height">[]): void => {
    if (!rows.length) return;
    out.push(head(group, detail));
    if (!folded.has(group)) out.push(...rows);
  };
  const taskLane = trace.lanes.length - 1;
  if (task) {
    out.push(
      plain("task", taskLane, task, "polls, and when ready", [
        { lane: taskLane, layer: Layer.main },
        { lane: taskLane, layer: Layer.delay },
      ]),
    );
  }
  const groups = new Map<string, Omit<Row, "top" | "height">[]>();
  trace.lanes.forEach((lane, index) => {
    if (lane.kind !== "worker" || (!lane.rows && !lane.parks && !lane.cpu_samples)) return;
    const key = runtimeOf(lane);
    groups.set(key, [...(groups.get(key) ?? []), workerRow(lane, index)]);
  });
  for (const [name, rows] of groups) put(name, `${rows.length}`, rows);
  put("tasks", "", [
    plain("alive", -1, "tasks alive", "", [{ lane: 0, layer: ALIVE }]),
    plain("ready", -1, "ready tasks", "derived from wakes", [{ lane: 0, layer: READY }]),
  ]);
  put("queues", "recorded", queueRows(points));
  const spans = trace.lanes.flatMap((lane, index) =>
    lane.kind === "spans"
      ? [
          plain(
            "spans",
            index,
            tailName(lane.name),
            `${count(lane.rows)} · ${duration(lane.total_ns ?? 0)}`,
            [{ lane: index, layer: Layer.main }],
          ),
        ]
      : [],
  );
  put(
    "spans",
    trace.span_names_more
      ? `${spans.length} of ${spans.length + trace.span_names_more} names`
      : `${spans.length}`,
    spans,
  );
  put("events and counters", "", eventRows(points, chosen));
  const blocking = trace.lanes.flatMap((lane, index) =>
    lane.kind === "blocking"
      ? [
          plain("blocking", index, "blocking pool", `${count(lane.rows)} runs`, [
            { lane: index, layer: Layer.main },
          ]),
        ]
      : [],
  );
  put("blocking pool", "", blocking);
  const readings: Omit<Row, "top" | "height">[] = [];
  if (trace.readings.filter((one) => one.cpu_ns !== null).length > 1)
    readings.push(plain("cpu", -1, "CPU", "cores used by the process", []));
  if (trace.readings.some((one) => one.rss !== null))
    readings.push(plain("memory", -1, "memory", "resident", []));
  put("process", "", readings);
  let top = 0;
  return out.map((row) => {
    const placed = { ...row, top, height: HEIGHTS[row.kind] };
    top += placed.height;
    return placed;
  });
}

/** Those that reach into a range, from the top of all rows. */
export function rowsWithin(rows: readonly Row[], range: { from: number; to: number }): Row[] {
  return rows.filter((row) => row.top < range.to && row.top + row.height > range.from);
}

export function wantedOf(rows: readonly Row[]): Wanted[] {
  return rows.flatMap((row) => row.wanted);
}
