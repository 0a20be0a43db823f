// SPDX-License-Identifier: Apache-2.0 OR MIT
// The JSON that the engine writes: src/lanes/*_json.c, poll_facts.c, docs/findings.schema.json.

export interface LaneInfo {
  kind: "worker" | "blocking" | "spans" | "task";
  rows: number;
  worker?: number;
  runtime?: number | null;
  runtime_name?: string | null;
  index?: number | null;
  tid?: number;
  thread?: string | null;
  is_worker?: boolean;
  is_thread?: boolean;
  is_shared?: boolean;
  has_run_delay?: boolean;
  parks?: number;
  off_cpu?: number;
  cpu_samples?: number;
  name?: string | null;
  total_ns?: number;
}

export interface Loss {
  from_ns: number;
  to_ns: number;
  records: number;
  tid: number;
  cause: string;
}

export interface Reading {
  time_ns: number;
  cpu_ns: number | null;
  rss: number | null;
}

export interface TraceInfo {
  pid: string | null;
  service: string | null;
  duration_ns: number;
  start_mono_ns: string;
  start_unix_ns: string;
  events: number;
  polls: number;
  tasks: number;
  raw_bytes: number;
  spans: number;
  has_processes: boolean;
  lanes: LaneInfo[];
  span_names_more: number;
  names: { name: number; text: string }[];
  loss_count: number;
  lost_records: number;
  losses: Loss[];
  readings: Reading[];
  notices: { text: string }[];
  part_words: Record<string, string>;
}

export interface Evidence {
  kind: string;
  from_ns: number;
  to_ns: number;
  thread: number | null;
  task: number | null;
  event: string | null;
  stack: number | null;
}

export interface Finding {
  id: string;
  key: string;
  severity: "info" | "warning" | "critical";
  score: number;
  confidence: "proven" | "likely" | "possible";
  statement: string;
  culprit: {
    kind: string;
    task: string | null;
    function: string | null;
    site: string | null;
    thread: string | null;
    resource: string | null;
  };
  impact: {
    victims: number;
    delay_ns: number;
    share: number;
    worst_ns: number;
    statement: string;
  };
  evidence: Evidence[];
  missing: { capability: string; effect: string }[];
  action: string;
  doc: string;
}

export interface Report {
  findings: Finding[];
  tables: {
    polls?: { count: number };
    tasks?: { name: string | null }[];
  };
}

export interface Quantiles {
  count: number;
  total_ns: number;
  p50_ns: number;
  p90_ns: number;
  p99_ns: number;
  max_ns: number;
}

/** Tables of `kymo report --json`, of a part of time. */
export interface Period {
  from_ns: number;
  to_ns: number;
  workers: {
    span_ns: number;
    busy_ns: number;
    parked_ns: number;
    unknown_ns: number;
    wakes: number;
  }[];
  polls: Quantiles;
  delays: Quantiles;
  blocking: Quantiles;
  tasks: {
    name: string | null;
    tasks: number;
    polls: number;
    busy_ns: number;
    poll_max_ns: number;
    delays: number;
    delay_ns: number;
    delay_max_ns: number;
  }[];
  spans?: { name: string | null; lengths: Quantiles; counted: number }[];
}

export interface Frame {
  name: string;
  file?: string;
  line?: number;
  is_own: boolean;
}

export interface Sample {
  kind: "cpu" | "off_cpu" | "switch" | "alloc";
  time_ns: number;
  value: number;
  frames?: Frame[];
}

export interface TaskFacts {
  index: number;
  id: number;
  name: string | null;
  is_root: boolean;
  is_spawn_seen: boolean;
  first_ns: number;
  end_ns?: number;
  polls: number;
  busy_ns: number;
  poll_max_ns: number;
  delay_ns: number;
  wakes: number;
  parent?: number;
  parent_name?: string | null;
}

export interface PollFacts {
  id: string;
  lane: number;
  row: number;
  worker: number;
  name: string | null;
  start_ns: number;
  duration_ns: number;
  notes: string[];
  task: TaskFacts;
  delay_ns: number | null;
  delay_unknown: string;
  ready_ns?: number;
  cost?: Record<string, number>;
  parts: { part: string; words: string; ns: number }[];
  samples: Sample[];
  cpu_samples: number;
  off_cpu_times: number;
  allocations: number;
}

export interface SpanFacts {
  id: string;
  name: string | null;
  start_ns: number;
  duration_ns: number;
  active_ns: number;
  enters: number;
  is_open: boolean;
  task?: TaskFacts;
  parent?: string | null;
  fields: { key: string; value: string }[];
}

/** src/lanes/points.c */
export interface PointsLane {
  kind: "events" | "counter" | "notes" | "queue";
  index: number;
  name?: string | null;
  worker?: number | null;
  count: number;
  left_out?: number;
  fields?: { name: string | null; unit: string | null; is_number: boolean }[];
}

export interface EventFacts {
  id: string;
  name: string | null;
  start_ns: number;
  duration_ns: number;
  value?: number;
  fields?: {
    key: string;
    unit: string | null;
    value?: string | number | boolean | null;
    /** Of a real number. */
    bits?: string;
  }[];
}

/** Of a lane of points, within a time: how many, and the first of them. */
export interface PointsWithin {
  count: number;
  points: (Omit<EventFacts, "id" | "duration_ns"> & { row: number })[];
}

export interface RunFacts {
  id: string;
  name: string | null;
  tid: number;
  start_ns: number;
  duration_ns: number;
  wait_ns: number | null;
  is_open: boolean;
  task?: TaskFacts;
  waiter?: number;
  waiter_name?: string | null;
}

export interface DelayPart {
  part: string;
  ns: number;
  worker: number | null;
  poll?: { task: number; name: string | null; start_ns: number; duration_ns: number };
}

export interface ChainLink {
  from_ns: number;
  to_ns: number;
  kind: string;
  depth: number;
  task: number;
  site: string | null;
  worker?: number;
  waker?: number;
  thread?: number;
  cause?: string;
  function?: string;
}

export interface ChainGroup {
  kind: string;
  site: string | null;
  ns: number;
  count: number;
  longest_ns: number;
  part?: string;
  culprit?: string | null;
  cause?: string;
  function?: string;
  thread?: number;
}

/** Of src/analyze/chain_json.c: times as CLOCK_MONOTONIC has them. */
export interface Chain {
  task: number;
  site: string | null;
  from_ns: number;
  to_ns: number;
  is_cut: boolean;
  groups: ChainGroup[];
  link_count: number;
  links: ChainLink[];
}

export interface WakeEdge {
  is_task: boolean;
  waker: string | null;
  woken: string | null;
  wakes: number;
  delays: number;
  delay_ns: number;
  p50_ns: number;
  p99_ns: number;
  max_ns: number;
  max_task?: number;
  max_ready_ns?: number;
}

export interface SpanSplit {
  cpu: number;
  off_cpu: number;
  polled: number;
  ready: number;
  waiting: number;
  client: number;
  unknown: number;
}

export interface SpanName {
  index: number;
  name: string | null;
  count: number;
  counted: number;
  open: number;
  total_ns: number;
  p50_ns: number;
  p90_ns: number;
  p99_ns: number;
  max_ns: number;
  split: SpanSplit;
}

export interface SpanRow {
  span: number;
  start_ns: number;
  duration_ns: number;
  task?: number;
  split: SpanSplit;
}

interface SpanCounts {
  count: number;
  p50_ns: number;
  p90_ns: number;
  p99_ns: number;
  max_ns: number;
}

/** bins: a duration's place and how many, one after the other. */
export interface SpanPiece extends SpanCounts {
  piece: number;
  bins: number[];
}

export interface TailRow {
  kind: string;
  what?: string;
  value?: string | null;
  at_least?: number;
  slow_spans: number;
  typical_spans: number;
  slow_ns?: number;
  typical_ns?: number;
  explains_ppm?: number;
  slow_ppm?: number;
  typical_ppm?: number;
  p_ppb?: number;
}

/** src/lanes/span_json.c */
export interface SpansOfName {
  name: string | null;
  count: number;
  split: SpanSplit;
  pieces: SpanPiece[];
  facets: {
    key_index: number;
    key: string;
    spans: number;
    values: number;
    most: (SpanCounts & { value_index: number; value: string })[];
  }[];
  tail: TailRow[];
  longest: SpanRow[];
}

export interface SpanTree {
  spans: (SpanRow & { name: string | null; depth: number; active_ns: number; is_open: boolean })[];
  span_count: number;
  chain?: Chain;
}

export interface WhyAnswer {
  worst: {
    woken_by?: {
      time_ns: number;
      worker: number | null;
      task?: number;
      name?: string | null;
      thread?: number;
      /** A key of `kymo view wakes`; not known: absent. */
      cause?: string;
      function?: string;
      /** Of I/O: what became ready. */
      descriptor?: number;
    };
    task: number;
    ready_ns: number;
    delay_ns: number;
    parts: Record<string, number>;
    timeline: DelayPart[];
    idle_peer_ns: number | null;
  }[];
}

export interface LifeEvent {
  time_ns: number;
  kind: string;
  duration_ns?: number | null;
  delay_ns?: number | null;
  worker?: number;
  waker?: number | null;
  waker_site?: string | null;
  cause?: string;
  function?: string | null;
  file?: string;
  line?: number;
}

export interface TaskLife {
  task: number;
  site: string | null;
  event_count: number;
  first_ns: number;
  events: LifeEvent[];
}

export type Found =
  | {
      kind: "task";
      task: number;
      id: number;
      text: string;
      polls: number;
      poll_max_ns: number;
    }
  | { kind: "kind"; name: number; text: string; task: number; poll_max_ns: number }
  | { kind: "spans"; lane: number; text: string; count: number }
  | {
      kind: "function";
      text: string;
      file: string;
      line: number;
      samples: number;
      poll_start_ns: number;
      task_id: number | null;
    };
