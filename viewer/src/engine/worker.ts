// SPDX-License-Identifier: Apache-2.0 OR MIT
// The worker: the engine in WebAssembly, what it is asked and what it answers.
import {
  ALIVE,
  POINTS,
  READY,
  SAMPLES,
  type Counts,
  type FromWorker,
  type Points,
  type Question,
  type Served,
  type Steps,
  type Strip,
  type ToWorker,
  type Wanted,
} from "./protocol";
import { unpack } from "./packed";
import { servedReader, type Reader } from "./served";
import { call, importOf, WINDOW_BYTES, Windows } from "./windows";

interface Exports {
  memory: WebAssembly.Memory;
  kymo_text(): number;
  kymo_result(): number;
  kymo_result_bytes(): number;
  kymo_warm(events: number): number;
  kymo_open(bytes: number, nameBytes: number): number;
  kymo_lanes(): number;
  kymo_findings(): number;
  kymo_period(from: number, to: number): number;
  kymo_facts(lane: number, layer: number, row: number): number;
  kymo_why(lane: number, row: number): number;
  kymo_find_poll(task: number, time: number): number;
  kymo_task(task: number, from: number, to: number, limit: number): number;
  kymo_choose_task(task: number): number;
  kymo_search(bytes: number): number;
  kymo_flame(kind: number, from: number, to: number, name: number, isLive: number): number;
  kymo_chain(task: number, from: number, to: number, limit: number): number;
  kymo_wake_graph(from: number, to: number): number;
  kymo_span_names(from: number, to: number): number;
  kymo_span_name(
    name: number,
    from: number,
    to: number,
    pieces: number,
    key: number,
    value: number,
  ): number;
  kymo_span_tree(span: number): number;
  kymo_span(span: number): number;
  kymo_find_span(time: number, idBytes: number): number;
  kymo_points_list(): number;
  kymo_points_facts(kind: number, index: number, row: number): number;
  kymo_points_within(
    kind: number,
    index: number,
    from: number,
    to: number,
    limit: number,
  ): number;
  kymo_strip(lane: number, layer: number, from: number, to: number, pixels: number): number;
  kymo_sample_counts(lane: number, from: number, to: number, pixels: number): number;
  kymo_points(
    kind: number,
    index: number,
    field: number,
    from: number,
    to: number,
    pixels: number,
  ): number;
  kymo_series(kind: number, from: number, to: number, pixels: number): number;
}

// What TypeScript's library for pages lacks of workers.
declare class FileReaderSync {
  readAsArrayBuffer(blob: Blob): ArrayBuffer;
}
const scope = self as unknown as {
  postMessage(message: FromWorker, transfer?: Transferable[]): void;
  onmessage: ((event: MessageEvent<ToWorker>) => void) | null;
};

const PROGRESS_BYTES = 4 << 20;
const TEXT_BYTES = 65536;
// A file that is chosen meanwhile waits for no more than one of them.
const WARM_EVENTS = 50000;
const WARM_TIMES = 8;

let engine: Exports;
let compiling: Promise<void> | null = null;
/** For a file. */
let isAsked = false;
/** Of the file that is being read. */
let windows: Windows | null = null;

function fileReader(file: Blob): Reader {
  const reader = new FileReaderSync();
  return {
    size: file.size,
    read: (from, end) => reader.readAsArrayBuffer(file.slice(from, end)),
  };
}

function say(message: FromWorker, transfer?: Transferable[]): void {
  scope.postMessage(message, transfer ?? []);
}

function putText(text: string): number {
  const bytes = new TextEncoder().encode(text).subarray(0, TEXT_BYTES);
  new Uint8Array(engine.memory.buffer, engine.kymo_text() >>> 0, bytes.length).set(bytes);
  return bytes.length;
}

function result(): string {
  return new TextDecoder().decode(
    new Uint8Array(engine.memory.buffer, engine.kymo_result() >>> 0, engine.kymo_result_bytes()),
  );
}

// The browser's own inflate; what it makes lies with the browser, not in this worker's memory.
async function unzip(file: { stream(): ReadableStream; size: number }): Promise<Blob> {
  let done = 0;
  let said = 0;
  const counted = file.stream().pipeThrough(
    new TransformStream<Uint8Array, Uint8Array>({
      transform(chunk, controller) {
        done += chunk.length;
        if (done - said >= WINDOW_BYTES) {
          said = done;
          say({
            kind: "progress",
            doing: "Unpacking",
            done,
            all: file.size,
          });
        }
        controller.enqueue(chunk);
      },
    }),
  );
  const inflated = counted.pipeThrough(
    new DecompressionStream("gzip") as unknown as TransformStream<Uint8Array, Uint8Array>,
  );
  const parts: BlobPart[] = [];
  const reader = inflated.getReader();
  try {
    for (;;) {
      const { value, done: isDone } = await reader.read();
      if (isDone) break;
      parts.push(value as BlobPart);
    }
  } catch {
    // A torn member: what came before its end is the trace, and the engine names the tear.
  }
  return new Blob(parts);
}

/** Unpacked, for the page as well, which reads windows of it. */
async function unzipped(file: Parameters<typeof unzip>[0]): Promise<Reader> {
  const blob = await unzip(file);
  say({ kind: "unpacked", file: blob });
  return fileReader(blob);
}

async function isGzip(file: Blob): Promise<boolean> {
  const bytes = new Uint8Array(await file.slice(0, 2).arrayBuffer());
  return bytes[0] === 0x1f && bytes[1] === 0x8b;
}

function goneOf(name: string): string {
  return `${name} cannot be read any more: it was removed or replaced, or who gave it has ended.`;
}

function sentenceOf(code: number, name: string): string {
  const text = result();
  if (text) return text.endsWith(".") ? text : `${text}.`;
  if (code === -12) return `${name} needs more memory than a page has; open it with kymo report.`;
  if (code === -5) return goneOf(name);
  return `${name} cannot be opened (error ${code}).`;
}

/** What the engine reads by windows; null: it could not be had, said why. */
async function readerOf(given: Blob | Served, name: string): Promise<Reader | null> {
  if (given instanceof Blob)
    return (await isGzip(given)) ? unzipped(given) : fileReader(given);
  const served = servedReader(given);
  try {
    const first = new Uint8Array(served.read(0, Math.min(2, given.size)));
    if (first[0] !== 0x1f || first[1] !== 0x8b) return served;
    const whole = await fetch(given.url, { headers: { Range: `bytes=0-${given.size - 1}` } });
    if (!whole.body || whole.status !== 206) throw new Error(whole.statusText);
    const body = whole.body;
    return await unzipped({ stream: () => body, size: given.size });
  } catch {
    say({ kind: "failed", sentence: goneOf(name) });
    return null;
  }
}

/** Says how far reading has come, now and then. */
function progressOf(all: number): (done: number) => void {
  let said = -PROGRESS_BYTES;
  return (done) => {
    if (Math.abs(done - said) < PROGRESS_BYTES) return;
    said = done;
    say({ kind: "progress", doing: "Reading", done, all });
  };
}

/** begun, read: since the worker began. */
function steps(begun: number, read: number, windows: Windows): Steps {
  const from = performance.timeOrigin;
  const loaded = from + performance.now();
  return { begun: from + begun, read: from + read, loaded, waited: windows.waited };
}

/** Until there is a file: what the browser does better once it has run for a while is run. */
function warm(times: number): void {
  if (isAsked || !times) return;
  engine.kymo_warm(WARM_EVENTS);
  setTimeout(() => warm(times - 1));
}

/** Before there is a file. */
async function compile(packed: string): Promise<void> {
  const read = importOf((offset, out, capacity) =>
    windows ? windows.read(offset, out, capacity) : -5,
  );
  const made = await WebAssembly.instantiate(await unpack(packed), { host: { read } });
  engine = made.instance.exports as unknown as Exports;
  setTimeout(() => warm(WARM_TIMES));
}

async function open(given: Blob | Served, name: string): Promise<void> {
  const begun = performance.now();
  if (given.size === 0) {
    say({ kind: "failed", sentence: `${name} is empty.` });
    return;
  }
  const file = await readerOf(given, name);
  if (!file) return;
  await compiling;
  const ask = (from: number, end: number): void => say({ kind: "want", from, end });
  const memory = (): ArrayBuffer => engine.memory.buffer;
  const reading = (windows = new Windows(file, ask, memory, progressOf(file.size)));
  const since = performance.now();
  const code = await call(engine.kymo_open, file.size, putText(name));
  windows = null;
  if (code < 0) {
    say({ kind: "failed", sentence: sentenceOf(code, name) });
    return;
  }
  const lanes = engine.kymo_lanes() < 0 ? "" : result();
  const points = engine.kymo_points_list() < 0 ? "" : result();
  if (!lanes || !points) {
    say({ kind: "failed", sentence: sentenceOf(-12, name) });
    return;
  }
  say({
    kind: "opened",
    lanes,
    points,
    memory: engine.memory.buffer.byteLength,
    steps: steps(begun, since, reading),
  });
  // While the page lays out its rows, what they ask for in any case is made.
  for (const kind of [0, 1]) engine.kymo_series(kind, 0, 1, 1);
}

function strip(wanted: Wanted, from: number, to: number, pixels: number): Strip | null {
  const at = engine.kymo_strip(wanted.lane, wanted.layer, from, to, pixels) >>> 0;
  if (!at) return null;
  const buffer = engine.memory.buffer.slice(at, at + pixels * 30);
  return {
    ...wanted,
    from,
    to,
    pixels,
    start: new Float64Array(buffer, 0, pixels),
    length: new Float64Array(buffer, 8 * pixels, pixels),
    row: new Uint32Array(buffer, 16 * pixels, pixels),
    name: new Uint32Array(buffer, 20 * pixels, pixels),
    task: new Uint32Array(buffer, 24 * pixels, pixels),
    flags: new Uint8Array(buffer, 28 * pixels, pixels),
    share: new Uint8Array(buffer, 29 * pixels, pixels),
  };
}

function counts(wanted: Wanted, from: number, to: number, pixels: number): Counts | null {
  const at =
    (wanted.layer === SAMPLES
      ? engine.kymo_sample_counts(wanted.lane, from, to, pixels)
      : engine.kymo_series(wanted.layer === ALIVE ? 0 : 1, from, to, pixels)) >>> 0;
  if (!at) return null;
  return {
    ...wanted,
    from,
    to,
    pixels,
    values: new Uint32Array(engine.memory.buffer.slice(at, at + 4 * pixels)),
  };
}

function points(wanted: Wanted, from: number, to: number, pixels: number): Points | null {
  const kind = (wanted.layer - POINTS) & 15;
  const field = (wanted.layer - POINTS) >> 4;
  const at = engine.kymo_points(kind, wanted.lane, field, from, to, pixels) >>> 0;
  if (!at) return null;
  const buffer = engine.memory.buffer.slice(at, at + pixels * 32);
  return {
    ...wanted,
    from,
    to,
    pixels,
    low: new Float64Array(buffer, 0, pixels),
    high: new Float64Array(buffer, 8 * pixels, pixels),
    last: new Float64Array(buffer, 16 * pixels, pixels),
    count: new Uint32Array(buffer, 24 * pixels, pixels),
    row: new Uint32Array(buffer, 28 * pixels, pixels),
  };
}

function view(id: number, question: Question & { op: "view" }): void {
  const { from, to, pixels } = question;
  const strips: Strip[] = [];
  const numbers: Counts[] = [];
  const values: Points[] = [];
  for (const wanted of question.wanted) {
    if (wanted.layer >= POINTS) {
      const one = points(wanted, from, to, pixels);
      if (one) values.push(one);
    } else if (wanted.layer === SAMPLES || wanted.layer === ALIVE || wanted.layer === READY) {
      const one = counts(wanted, from, to, pixels);
      if (one) numbers.push(one);
    } else {
      const one = strip(wanted, from, to, pixels);
      if (one) strips.push(one);
    }
  }
  const answer = { from, to, pixels, strips, counts: numbers, points: values };
  say({ kind: "view", id, answer }, [
    ...values.map((one) => one.low.buffer),
    ...strips.map((one) => one.start.buffer),
    ...numbers.map((one) => one.values.buffer),
  ]);
}

function ask(question: Exclude<Question, { op: "view" }>): number {
  switch (question.op) {
    case "findings":
      return engine.kymo_findings();
    case "period":
      return engine.kymo_period(question.from, question.to);
    case "facts":
      return engine.kymo_facts(question.lane, question.layer, question.row);
    case "why":
      return engine.kymo_why(question.lane, question.row);
    case "find":
      return engine.kymo_find_poll(question.task, question.time);
    case "task":
      return engine.kymo_task(question.task, question.from, question.to, question.limit);
    case "chooseTask":
      return engine.kymo_choose_task(question.task);
    case "search":
      return engine.kymo_search(putText(question.text));
    case "flame": {
      const { stacks, from, to, name, isLive } = question;
      return engine.kymo_flame(stacks, from, to, name, Number(isLive));
    }
    case "chain":
      return engine.kymo_chain(question.task, question.from, question.to, question.limit);
    case "wakeGraph":
      return engine.kymo_wake_graph(question.from, question.to);
    case "spanNames":
      return engine.kymo_span_names(question.from, question.to);
    case "spanName": {
      const { name, from, to, pieces, key, value } = question;
      return engine.kymo_span_name(name, from, to, pieces, key, value);
    }
    case "spanTree":
      return engine.kymo_span_tree(question.span);
    case "span":
      return engine.kymo_span(question.span);
    case "findSpan":
      return engine.kymo_find_span(question.time, putText(question.id));
    case "pointsList":
      return engine.kymo_points_list();
    case "pointsFacts":
      return engine.kymo_points_facts(question.kind, question.index, question.row);
    case "pointsWithin":
      return engine.kymo_points_within(
        question.kind,
        question.index,
        question.from,
        question.to,
        question.limit,
      );
  }
}

scope.onmessage = (event) => {
  const message = event.data;
  if (message.kind === "engine") {
    compiling = compile(message.packed);
    compiling.catch(() => {}); // said once there is a file
    return;
  }
  if (message.kind === "window") {
    windows?.arrived(message.from, message.bytes);
    return;
  }
  if (message.kind === "open") {
    isAsked = true;
    open(message.file, message.name).catch((error: unknown) => {
      say({
        kind: "failed",
        sentence:
          error instanceof RangeError
            ? `${message.name} needs more memory than this browser gives a page.`
            : `${message.name} cannot be opened: ${String(error)}.`,
      });
    });
    return;
  }
  if (message.question.op === "view") {
    view(message.id, message.question);
    return;
  }
  const code = ask(message.question);
  if (code < 0) say({ kind: "refused", id: message.id, code });
  else say({ kind: "answer", id: message.id, json: result() });
};
