// SPDX-License-Identifier: Apache-2.0 OR MIT
// The state of the page and all that changes it. Panels read it and call its verbs; the canvas is
// drawn from it once a frame.
import { Engine } from "../engine/client";
import type { Workers } from "../engine/workers";
import { ranksOf, selectionOf, worstOf, type Selection } from "../model/choice";
import {
  Layer,
  NONE,
  POINTS,
  type Counts,
  type Opened,
  type Points,
  type Served,
  type Strip,
  type ViewAnswer,
} from "../engine/protocol";
import { key, type Hit, type Mark, type Scene } from "../draw/timeline";
import { fromDial9 } from "../model/dial9";
import type { Beside } from "./beside";
import type { Copy, Live } from "./live";
import { markFinding } from "./evidence";
import { markPicture, markSteps } from "./measured";
import type { Mapped } from "./mapped";
import { sceneOf } from "./scene";
import { isCovered, isSharp, windowOf } from "./picture";
import { layRows, rowsWithin, wantedOf, type Row } from "../layout/rows";
import { shortName } from "../model/names";
import { duration, moment, type Clock } from "../model/time";
import type {
  EventFacts,
  Found,
  PointsLane,
  PollFacts,
  Report,
  RunFacts,
  SpanFacts,
  TaskLife,
  TraceInfo,
  WhyAnswer,
} from "../model/trace";
import {
  clampRange,
  fromHash,
  rangeOf,
  toHash,
  type Colouring,
  type Option,
  type Range,
  type Theme,
  type ViewState,
} from "../model/view";

export type Phase = "empty" | "loading" | "ready" | "failed";

const OVERVIEW_PIXELS = 1200;
const UNDO_MAX = 100;
const LIFE_EVENTS = 400;
const REST_MS = 60;
/** What a trace beside another has of its own; all else is set for all of them. */
const OWN_OPTIONS: readonly Option[] = ["range", "marks", "charts", "rates"];

let stores = 0;

export class Store {
  readonly id = ++stores;
  phase: Phase = "empty";
  sentence = "";
  progress = { doing: "", done: 0, all: 0 };
  fileName = "";
  file: Blob | Served | null = null;
  /** Where newer copies of it come from; null: it is a file. */
  live: Live | null = null;
  /** The recording of which it is a part; null: it is all. */
  mapped: Mapped | null = null;
  /** The address that came with the trace. */
  firstHash = "";
  trace: TraceInfo | null = null;
  report: Report | null = null;
  view: ViewState;
  rows: Row[] = [];
  strips = new Map<string, Strip>();
  counts = new Map<string, Counts>();
  points = new Map<string, Points>();
  pointsLanes: PointsLane[] = [];
  overview: Strip[] = [];
  names = new Map<number, string>();
  ranks = new Map<number, number>();
  scroll = 0;
  /** Of the canvas, across; 0: there is none. */
  pixels = 0;
  private high = 0; // in pixels of CSS
  /** The rows whose strips were asked last: from the top of all rows. */
  rowsAsked: Range = { from: 0, to: 0 };
  selection: Selection | null = null;
  evidence: Mark[] = [];
  culprit = -1;
  range: { from: number; to: number } | null = null;
  cursor: number | null = null;
  life: TaskLife | null = null;
  taskIndex = NONE;
  found: Found[] = [];
  isHelpOpen = false;
  isSearchOpen = false;
  isGoOpen = false;
  isWarningOpen = false;
  said = "";
  copied = "";
  folded = new Set<string>();
  /** What the open panel shows, in numbers: for tests. */
  shown: unknown = null;
  /** The traces on one clock with this one; null: it is alone. */
  beside: Beside | null = null;
  /** What can be shown; null: this trace, and no more. */
  bounds: Range | null = null;
  /** Of its lanes, for tests. */
  tools: { hit(x: number, y: number): Hit | null; state(): Record<string, unknown> } | null = null;

  private engine: Engine | null = null;
  private listeners = new Set<() => void>();
  private undo: [number, number][] = [];
  private frame = 0;
  private hashTimer = 0;
  private restTimer = 0;
  private isPictureMarked = false;
  private drawers = new Set<() => void>();

  constructor(
    private workers: Workers,
    /** Whose page it is; null: its own, with the address. */
    private host: Store | null = null,
  ) {
    const light = window.matchMedia("(prefers-color-scheme: light)").matches;
    this.view = fromHash(location.hash, 1, light ? "light" : "dark");
    this.setPhase("empty");
    if (!host) window.addEventListener("hashchange", (event) => this.takeHash(event));
  }

  /* ---- who watches ---- */

  subscribe(listener: () => void): () => void {
    this.listeners.add(listener);
    return () => this.listeners.delete(listener);
  }

  onDraw(drawer: () => void): () => void {
    this.drawers.add(drawer);
    return () => this.drawers.delete(drawer);
  }

  /** Panels anew, and the canvas. */
  changed(): void {
    this.notify();
    for (const one of this.all) one.redraw();
  }

  private notify(): void {
    for (const listener of this.listeners) listener();
    this.host?.notify();
  }

  get isGuest(): boolean {
    return this.host !== null;
  }

  /** One that shows another trace on the page of this one. */
  guest(): Store {
    const guest = new Store(this.workers, this);
    guest.view = { ...this.view, selected: "", task: -1, finding: "", options: {} };
    return guest;
  }

  redraw(): void {
    if (this.frame) return;
    this.frame = requestAnimationFrame(() => {
      this.frame = 0;
      for (const drawer of this.drawers) drawer();
    });
  }

  setPhase(phase: Phase): void {
    this.phase = phase;
    if (this.host) return;
    document.documentElement.dataset["state"] = phase;
    document.documentElement.dataset["theme"] = this.view.theme;
  }

  /* ---- opening ---- */

  open(file: Blob | Served, name: string): void {
    if (!this.host) performance.mark("kymo-open");
    this.engine?.close();
    if (!this.host) this.beside?.end();
    if (this.trace && !this.host && name !== this.fileName) {
      clearTimeout(this.hashTimer); // the address is of the trace that is left
      history.replaceState(null, "", location.href.replace(/#.*/, ""));
    }
    this.reset();
    this.fileName = name;
    this.file = file;
    this.progress = { doing: "Reading", done: 0, all: file.size };
    this.setPhase("loading");
    this.changed();
    this.engine = new Engine(this.workers.take(), file, name, {
      progress: (doing, done, all) => {
        this.progress = { doing, done, all };
        this.changed();
      },
      opened: ({ lanes, points, steps }) => {
        if (!this.host) markSteps(steps);
        this.opened(JSON.parse(lanes) as TraceInfo, JSON.parse(points) as PointsLane[]);
      },
      failed: (sentence) => this.fail(sentence),
      view: (answer) => this.takeView(answer),
    });
  }

  /** An engine beside the one that is shown, for a copy that may take its place. */
  engineBeside(
    file: Blob | Served,
    name: string,
    opened: (message: Opened) => void,
    failed: () => void,
  ): Engine {
    const engine: Engine = new Engine(this.workers.take(), file, name, {
      progress: () => {},
      opened,
      failed: (sentence) => (this.engine === engine ? this.fail(sentence) : failed()),
      view: (answer) => this.takeView(answer),
    });
    return engine;
  }

  /** A newer copy of the same trace takes the place of what is shown. */
  adopt(copy: Copy): void {
    this.engine?.close();
    this.engine = copy.engine;
    this.fileName = copy.name;
    this.file = copy.file;
    this.takeTrace(copy.trace);
    this.takeReport(copy.report);
    this.pointsLanes = copy.pointsLanes;
    for (const map of [this.strips, this.counts, this.points]) map.clear();
    this.undo = [];
    this.view.from = copy.answer.from;
    this.view.to = copy.answer.to;
    this.lay();
    this.takeView(copy.answer);
    void this.askOverview();
    this.saveHash();
    this.changed();
  }

  private takeTrace(trace: TraceInfo): void {
    this.trace = trace;
    this.names = new Map(trace.names.map((one) => [one.name, one.text]));
  }

  takeReport(report: Report): void {
    this.report = report;
    this.ranks = ranksOf(this.names, report);
  }

  private reset(): void {
    this.trace = null;
    this.report = null;
    this.rows = [];
    this.strips.clear();
    this.counts.clear();
    this.points.clear();
    this.pointsLanes = [];
    this.overview = [];
    this.selection = null;
    this.life = null;
    this.taskIndex = NONE;
    this.evidence = [];
    this.culprit = -1;
    this.range = null;
    this.scroll = 0;
    this.undo = [];
    this.isPictureMarked = false;
    this.pixels = 0;
    this.sentence = "";
  }

  cancel(): void {
    this.engine?.close();
    this.engine = null;
    this.workers.prepare();
    this.reset();
    this.setPhase("empty");
    this.changed();
  }

  fail(sentence: string): void {
    this.engine?.close();
    this.engine = null;
    this.workers.prepare();
    this.reset(); // also of what is on the page: nothing would answer a click on it
    this.sentence = sentence;
    this.setPhase("failed");
    this.changed();
  }

  private opened(trace: TraceInfo, points: PointsLane[]): void {
    this.takeTrace(trace);
    this.pointsLanes = points;
    const wanted = this.view;
    const given = location.hash.length > 1 ? location.hash : this.firstHash;
    const start = BigInt(trace.start_mono_ns);
    const hash = given || fromDial9(location.search, start, trace.duration_ns);
    this.firstHash = "";
    this.view = this.host
      ? { ...wanted, from: 0, to: this.durationNs }
      : fromHash(hash, this.durationNs, wanted.theme);
    this.beside?.link();
    this.range = rangeOf(this.option("range"));
    this.lay();
    this.changed(); // the canvas comes, and asks for its pixels
  }

  /** Keys of charts: those that there are; those that are rates. */
  chosen(option: "charts" | "rates"): Set<string> {
    return new Set(this.option(option).split(",").filter(Boolean).map(decodeURIComponent));
  }

  /** Shows a numeric field of events as a lane, or no longer; or a chart as a rate. */
  toggleChart(chart: string, option: "charts" | "rates" = "charts"): void {
    const keys = this.chosen(option);
    if (!keys.delete(chart)) keys.add(chart);
    this.setOption(option, [...keys].map(encodeURIComponent).join(","));
    this.lay();
    this.askView();
  }

  private async findings(): Promise<void> {
    const report = await this.engine?.ask<Report>({ op: "findings" });
    if (!report) return;
    this.takeReport(report);
    this.setPhase("ready");
    if (!this.host) performance.mark("kymo-ready");
    this.changed();
    if (this.view.task >= 0) await this.showTaskOf(this.view.task);
    if (this.view.finding) {
      const at = report.findings.findIndex((one) => one.key === this.view.finding);
      if (at >= 0) markFinding(this, at);
    }
    if (this.view.selected) await this.selectById(this.view.selected);
  }

  /* ---- the view ---- */

  get clock(): Clock {
    return {
      isUtc: this.view.isUtc,
      startUnixNs: BigInt(this.trace?.start_unix_ns || "0"),
    };
  }

  get startMonoNs(): number {
    return Number(this.trace?.start_mono_ns ?? 0);
  }

  get durationNs(): number {
    return Math.max(1, this.trace?.duration_ns ?? 1); // an empty trace has a view, too
  }

  lay(): void {
    if (!this.trace) return;
    const name = this.taskIndex === NONE ? "" : `task ${this.view.task}`;
    this.rows = layRows(this.trace, name, this.folded, this.pointsLanes, this);
  }

  fold(group: string): void {
    if (!this.folded.delete(group)) this.folded.add(group);
    this.lay();
    this.askView();
    this.changed();
  }

  /** As the canvas is; it asks for what of the rows it does not have. */
  setCanvas(pixels: number, high: number): void {
    const isSame = pixels === this.pixels;
    this.pixels = pixels;
    this.high = high;
    if (!isSame || !isCovered(this.rows, this.rowsAsked, this.scroll, high)) this.askView();
  }

  private askView(): void {
    if (!this.engine || !this.trace || !this.pixels) return;
    this.rowsAsked = windowOf(this.scroll, this.high);
    this.engine.askView({
      from: this.view.from,
      to: this.view.to,
      pixels: this.pixels,
      wanted: wantedOf(rowsWithin(this.rows, this.rowsAsked)),
    });
    this.redraw();
  }

  private async askOverview(): Promise<void> {
    const lanes = this.trace?.lanes ?? [];
    const wanted = lanes.flatMap((lane, index) =>
      lane.kind === "worker" && lane.rows ? [{ lane: index, layer: Layer.main }] : [],
    );
    const answer = await this.engine?.strips({
      from: 0,
      to: Math.max(1, this.durationNs),
      pixels: OVERVIEW_PIXELS,
      wanted: wanted.slice(0, 256),
    });
    this.overview = answer?.strips ?? [];
    this.changed();
  }

  private takeView(answer: ViewAnswer): void {
    for (const strip of answer.strips) this.strips.set(key(strip.lane, strip.layer), strip);
    for (const counts of answer.counts) this.counts.set(key(counts.lane, counts.layer), counts);
    for (const points of answer.points) this.points.set(key(points.lane, points.layer), points);
    this.redraw();
    if (this.isPictureMarked || !this.isExact) return;
    this.isPictureMarked = true;
    if (!this.host) markPicture();
    // Not before: the worker does one thing at a time.
    void this.askOverview();
    void this.findings();
  }

  /** Both ends in ns; the range before can be had back with z. */
  setRange(from: number, to: number, canUndo = true): void {
    const [begin, end] = clampRange(from, to, this.limits, this.pixels);
    if (begin === this.view.from && end === this.view.to) return;
    if (canUndo) {
      this.undo.push([this.view.from, this.view.to]);
      if (this.undo.length > UNDO_MAX) this.undo.shift();
    }
    this.moveTo(begin, end);
    this.beside?.follow(this);
    this.saveHash();
    // Panels ask the engine, which has lanes to draw while the view moves.
    clearTimeout(this.restTimer);
    this.restTimer = window.setTimeout(() => this.notify(), REST_MS);
  }

  /** As another trace on the same clock moves. */
  moveTo(from: number, to: number): void {
    this.view.from = from;
    this.view.to = to;
    this.askView();
  }

  /** All that can be shown. */
  get limits(): Range {
    return this.bounds ?? { from: 0, to: this.durationNs };
  }

  undoRange(): void {
    const before = this.undo.pop();
    if (before) this.setRange(before[0], before[1], false);
  }

  zoom(factor: number, at: number | null, canUndo = false): void {
    const middle = at ?? (this.view.from + this.view.to) / 2;
    this.setRange(
      middle - (middle - this.view.from) * factor,
      middle + (this.view.to - middle) * factor,
      canUndo,
    );
  }

  pan(share: number): void {
    const span = this.view.to - this.view.from;
    const { from: least, to: most } = this.limits;
    const from = Math.min(
      Math.max(least, this.view.from + span * share),
      Math.max(least, most - span),
    );
    this.setRange(from, from + span, false);
  }

  fit(): void {
    this.setRange(this.limits.from, this.limits.to);
  }

  /** A range with room on both sides. */
  show(from: number, to: number): void {
    const room = Math.max((to - from) * 1.5, 20000);
    this.setRange(from - room, to + room);
  }

  setColouring(colouring: Colouring): void {
    for (const one of this.all) one.view.colouring = colouring;
    this.saveHash();
    this.changed();
  }

  /** This trace and those beside it, the first one first. */
  get all(): readonly Store[] {
    return this.beside?.stores ?? [this];
  }

  setTheme(theme: Theme): void {
    for (const one of this.all) one.view.theme = theme;
    document.documentElement.dataset["theme"] = theme;
    this.saveHash();
    this.changed();
  }

  setUtc(isUtc: boolean): void {
    for (const one of this.all) one.view.isUtc = isUtc && one.clock.startUnixNs !== 0n;
    this.saveHash();
    this.changed();
  }

  /* ---- panels ---- */

  option(key: Option): string {
    if (this.host && !OWN_OPTIONS.includes(key)) return this.host.option(key);
    return this.view.options[key] ?? "";
  }

  setOption(key: Option, value: string): void {
    if (this.host && !OWN_OPTIONS.includes(key)) this.host.view.options[key] = value;
    else this.view.options[key] = value;
    this.saveHash();
    this.changed();
  }

  setPanel(panel: string): void {
    this.shown = null;
    this.setOption("panel", panel);
  }

  /* ---- the URL ---- */

  hash(): string {
    const { range } = this;
    this.view.options.range = range ? `${Math.round(range.from)}-${Math.round(range.to)}` : "";
    return toHash(this.view, this.durationNs);
  }

  saveHash(): void {
    if (this.host) {
      this.host.saveHash();
      return;
    }
    clearTimeout(this.hashTimer);
    this.hashTimer = window.setTimeout(() => {
      const hash = this.hash();
      history.replaceState(null, "", hash ? `#${hash}` : location.href.replace(/#.*/, ""));
    }, 200);
  }

  /** The event says what was set, even where the address has been written anew meanwhile. */
  private takeHash(event: HashChangeEvent): void {
    const { hash } = new URL(event.newURL);
    if (!this.trace || hash.replace(/^#/, "") === this.hash()) return;
    const wanted = fromHash(hash, this.durationNs, this.view.theme);
    this.view = { ...wanted, from: this.view.from, to: this.view.to };
    document.documentElement.dataset["theme"] = wanted.theme;
    this.setRange(wanted.from, wanted.to);
    this.range = rangeOf(this.option("range"));
    this.lay();
    this.askView();
    void this.showTaskOf(wanted.task);
    if (wanted.selected) void this.selectById(wanted.selected);
    this.saveHash();
    this.changed();
  }

  /* ---- selecting ---- */

  async select(hit: Pick<Hit, "kind" | "lane" | "layer" | "row">): Promise<void> {
    if (!this.engine || !this.trace) return;
    if (hit.kind === "event") {
      await this.selectEvent(hit.lane, hit.layer, hit.row);
      return;
    }
    const selection = selectionOf(hit);
    this.selection = selection;
    if (this.option("panel") === "life") this.setOption("panel", "");
    const facts = await this.engine.ask<unknown>({
      op: "facts",
      lane: hit.lane,
      layer: hit.layer,
      row: hit.row,
    });
    if (this.selection !== selection) return;
    if (!facts) {
      this.selection = null;
    } else if (hit.kind === "poll") {
      await this.take(selection, facts as PollFacts);
      return;
    } else if (hit.kind === "span") {
      selection.span = facts as SpanFacts;
      this.say(`span ${selection.span.name ?? ""}, ${duration(selection.span.duration_ns)}`);
    } else {
      selection.run = facts as RunFacts;
      this.say(`blocking run ${selection.run.name ?? ""}, ${duration(selection.run.duration_ns)}`);
    }
    this.view.selected = (selection.span ?? selection.run)?.id ?? "";
    this.saveHash();
    this.changed();
  }

  private async take(selection: Selection, poll: PollFacts): Promise<void> {
    selection.kind = "poll";
    selection.poll = poll;
    selection.lane = poll.lane;
    selection.row = poll.row;
    selection.layer = Layer.main;
    this.view.selected = `poll:${poll.worker}:${poll.start_ns}`;
    this.saveHash();
    this.say(
      `poll of ${shortName(poll.name)}, task ${poll.task.id}, ${duration(poll.duration_ns)} ` +
        `at ${moment(poll.start_ns, this.clock, 1000)}`,
    );
    this.changed();
    if (poll.delay_ns === null) return;
    selection.isWhyAsked = true;
    const why = await this.engine?.ask<WhyAnswer>({
      op: "why",
      lane: poll.lane,
      row: poll.row,
    });
    selection.isWhyAsked = false;
    selection.why = why ?? null;
    if (this.selection === selection) this.changed();
  }

  /** By task and time; task -1: any. */
  async selectPollAt(task: number, time: number): Promise<PollFacts | null> {
    const poll = await this.engine?.ask<PollFacts>({ op: "find", task, time });
    if (!poll) return null;
    const selection = selectionOf({
      kind: "poll",
      lane: poll.lane,
      layer: Layer.main,
      row: poll.row,
    });
    this.selection = selection;
    void this.take(selection, poll);
    return poll;
  }

  async selectById(id: string): Promise<void> {
    const [kind, of, time] = id.split(":");
    if (id === "worst") await this.selectWorstInView();
    if (kind === "task" && time) await this.selectPollAt(Number(of), Number(time));
    if (kind === "poll" && time) await this.selectPollAt(-1, Number(time));
    const numbers = id.split(":").slice(1).map(Number);
    if (kind === "event") await this.selectEvent(numbers[1] ?? 0, numbers[0] ?? 0, numbers[2] ?? 0);
    if (kind !== "span" || !of || !time) return;
    const at = Number(time) - this.startMonoNs;
    this.takeSpan(await this.ask({ op: "findSpan", time: at, id: of }));
  }

  async selectEvent(lane: number, layer: number, row: number): Promise<void> {
    const kind = (layer - POINTS) & 15;
    const answer = await this.ask({ op: "pointsFacts", kind, index: lane, row });
    if (!answer) return;
    const id = `event:${layer}:${lane}:${row}`;
    const selection = selectionOf({ kind: "event", lane, layer, row });
    selection.event = { ...(answer as EventFacts), id, duration_ns: 0 };
    this.selection = selection;
    this.view.selected = id;
    this.say(`event ${selection.event.name ?? ""}`);
    this.saveHash();
    this.changed();
  }

  /** By its index in the trace. */
  async selectSpan(index: number, isShown: boolean): Promise<void> {
    const span = this.takeSpan(await this.ask({ op: "span", span: index }));
    if (span && isShown) this.show(span.start_ns, span.start_ns + span.duration_ns);
  }

  private takeSpan(answer: unknown): SpanFacts | null {
    const span = answer as SpanFacts | null;
    if (!span) return null;
    const lanes = this.trace?.lanes ?? [];
    const lane = lanes.findIndex((one) => one.kind === "spans" && one.name === span.name);
    this.selection = selectionOf({ kind: "span", lane, layer: Layer.main, row: NONE });
    this.selection.span = span;
    this.view.selected = span.id;
    this.say(`span ${span.name ?? ""}, ${duration(span.duration_ns)}`);
    this.saveHash();
    this.changed();
    return span;
  }

  clearSelection(): void {
    this.selection = null;
    this.range = null;
    this.cursor = null;
    this.view.selected = "";
    this.saveHash();
    this.changed();
  }

  async selectWorstInView(): Promise<void> {
    const workers = this.rows.filter((row) => row.kind === "worker");
    const { from, to } = this.view;
    const wanted = workers.map((row) => ({ lane: row.lane, layer: Layer.main }));
    const answer = await this.engine?.strips({ from, to, pixels: 1, wanted });
    const best = worstOf(answer?.strips ?? []);
    if (best) await this.select(best);
  }

  /* ---- findings ---- */

  get findingIndex(): number {
    return this.report?.findings.findIndex((one) => one.key === this.view.finding) ?? -1;
  }

  dropFinding(): void {
    this.view.finding = "";
    this.evidence = [];
    this.culprit = -1;
  }

  /* ---- tasks ---- */

  async showTask(index: number, id: number): Promise<void> {
    if (!this.engine || !this.trace || this.taskIndex === index) return;
    this.view.task = id;
    this.taskIndex = index;
    const chosen = await this.engine.ask<{ polls: number }>({
      op: "chooseTask",
      task: index,
    });
    const lane = this.trace.lanes[this.trace.lanes.length - 1];
    const facts = await this.engine.ask<TaskLife>({
      op: "task",
      task: index,
      from: this.view.from,
      to: this.view.to,
      limit: LIFE_EVENTS,
    });
    this.life = facts;
    this.setOption("panel", "life");
    if (lane) lane.rows = chosen?.polls ?? 0;
    this.lay();
    this.scroll = 0;
    this.askView();
    this.saveHash();
    this.changed();
  }

  private async showTaskOf(id: number): Promise<void> {
    if (id < 0) return;
    const found = await this.engine?.ask<Found[]>({ op: "search", text: String(id) });
    const task = found?.find((one) => one.kind === "task");
    if (task?.kind === "task") await this.showTask(task.task, task.id);
  }

  async loadLife(): Promise<void> {
    if (this.taskIndex === NONE) return;
    this.life =
      (await this.engine?.ask<TaskLife>({
        op: "task",
        task: this.taskIndex,
        from: this.view.from,
        to: this.view.to,
        limit: LIFE_EVENTS,
      })) ?? null;
    this.changed();
  }

  hideTask(): void {
    this.taskIndex = NONE;
    this.view.task = -1;
    this.life = null;
    this.lay();
    this.askView();
    this.saveHash();
    this.changed();
  }

  readonly say = (text: string): string => (this.said = text);

  /* ---- for the canvas, for tests ---- */

  readonly scene = (): Scene | null => sceneOf(this);

  /** Every strip that is seen is of this very view. */
  get isExact(): boolean {
    if (!this.engine?.isDrawn) return false;
    const rows = rowsWithin(this.rows, { from: this.scroll, to: this.scroll + this.high });
    return this.pixels > 0 && isSharp(wantedOf(rows), this);
  }

  askStrips(question: Parameters<Engine["strips"]>[0]): Promise<unknown> {
    return this.engine?.strips(question) ?? Promise.resolve(null);
  }

  ask(question: Parameters<Engine["ask"]>[0]): Promise<unknown> {
    return this.engine?.ask(question) ?? Promise.resolve(null);
  }
}
