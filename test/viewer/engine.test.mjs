// SPDX-License-Identifier: Apache-2.0 OR MIT
// The engine of the viewer without the page: what it finds is, byte for byte, what the native one
// finds; windows of a file, packed or not, are all that it asks for.
//
// Environment: KYMO_ENGINE (module), KYMO_CANONICAL (native program), KYMO (build/kymo),
// KYMO_VIEWER (the page), all set by tools/viewer.sh.
import assert from "node:assert/strict";
import { spawnSync } from "node:child_process";
import { readFileSync } from "node:fs";
import { dirname, join } from "node:path";
import { test } from "node:test";
import { fileURLToPath } from "node:url";
import { gunzipSync, gzipSync } from "node:zlib";

const data = join(dirname(fileURLToPath(import.meta.url)), "..", "data");
const golden = join(data, "..", "golden", "faults");
const program = new WebAssembly.Module(readFileSync(process.env.KYMO_ENGINE));
const WINDOW_BYTES = 1 << 20;

function load(bytes) {
  const asked = [];
  const engine = new WebAssembly.Instance(program, {
    host: {
      read(offset, out, capacity) {
        asked.push(capacity);
        const part = bytes.subarray(offset, offset + capacity);
        new Uint8Array(engine.memory.buffer, out >>> 0, part.length).set(part);
        return part.length;
      },
    },
  }).exports;
  return { engine, asked };
}

function text(engine, words) {
  const bytes = Buffer.from(words);
  new Uint8Array(engine.memory.buffer, engine.kymo_text() >>> 0, bytes.length).set(bytes);
  return bytes.length;
}

function result(engine) {
  return Buffer.from(engine.memory.buffer, engine.kymo_result() >>> 0, engine.kymo_result_bytes());
}

function open(bytes) {
  const { engine, asked } = load(bytes);
  const code = engine.kymo_open(bytes.length, text(engine, "trace"));
  return { engine, asked, code };
}

function native(bytes) {
  const run = spawnSync(process.env.KYMO_CANONICAL, { input: bytes, maxBuffer: 1 << 28 });
  assert.equal(run.status, 0);
  return run.stdout;
}

const raw = (name) => gunzipSync(readFileSync(join(data, name)));

test("the page weighs at most 350 KB, compressed", () => {
  const page = readFileSync(process.env.KYMO_VIEWER);
  assert.ok(gzipSync(page, { level: 9 }).length <= 350000);
});

test("the module imports windows of a file and nothing else", () => {
  assert.deepEqual(WebAssembly.Module.imports(program), [
    { module: "host", name: "read", kind: "function" },
  ]);
});

for (const name of ["dial9-0.5.7-demo.bin.gz", "dial9-2026-05-demo.bin.gz"]) {
  test(`${name}: the same bytes as natively, by windows of 1 MiB at most`, () => {
    const bytes = raw(name);
    const { engine, asked, code } = open(bytes);
    assert.equal(code, 0);
    assert.equal(engine.kymo_canonical(), 0);
    assert.ok(result(engine).equals(native(bytes)), "native and wasm differ");
    assert.ok(asked.length > 0 && asked.every((one) => one <= WINDOW_BYTES));
  });
}

test("warming reads a trace of its own, and what is open stays as it is", () => {
  const bytes = raw("dial9-2026-05-demo.bin.gz");
  const { engine } = load(bytes);
  // Half of the events of polls, and a wake for every second poll.
  const polls = engine.kymo_warm(10000);
  assert.ok(polls > 3500 && polls < 4500, `${polls} polls`);
  assert.equal(engine.kymo_open(bytes.length, text(engine, "trace")), 0);
  assert.equal(engine.kymo_warm(10000), polls);
  const memory = engine.memory.buffer.byteLength;
  for (let times = 0; times < 5; times++) assert.equal(engine.kymo_warm(10000), polls);
  assert.equal(engine.memory.buffer.byteLength, memory);
  assert.equal(engine.kymo_canonical(), 0);
  assert.ok(result(engine).equals(native(bytes)));
});

test("a trace packed by zstd gives the findings that kymo report prints", () => {
  for (const name of ["alloc_burst", "channel_full"]) {
    const path = join(golden, `${name}.trc.zst`);
    const { engine, code } = open(readFileSync(path));
    assert.equal(code, 0);
    assert.equal(engine.kymo_findings(), 0);
    const found = JSON.parse(result(engine).toString());
    const report = spawnSync(process.env.KYMO, ["report", "--json", path], {
      maxBuffer: 1 << 28,
    });
    assert.equal(report.status, 0, report.stderr.toString());
    const expected = JSON.parse(report.stdout.toString());
    assert.ok(found.findings.length > 0);
    assert.deepEqual(found.findings, expected.findings);
    assert.deepEqual(found.tables.polls, expected.tables.polls);
  }
});

test("a packed trace that is cut anywhere opens as far as it goes, or says why not", () => {
  const whole = readFileSync(join(golden, "alloc_burst.trc.zst"));
  for (const cut of [3, 4, 100, 5000, whole.length - 1]) {
    const { engine, code } = open(whole.subarray(0, cut));
    if (code < 0) {
      assert.match(result(engine).toString(), /^trace: byte \d+: /);
      continue;
    }
    assert.equal(engine.kymo_lanes(), 0);
    assert.equal(JSON.parse(result(engine).toString()).notices.length, 1);
  }
});

test("what is no trace gets a sentence, and every question an answer", () => {
  const { engine, code } = open(Buffer.from("GIF89a"));
  assert.equal(code, -4102);
  assert.match(result(engine).toString(), /trace: byte 0: this is not a trace/);
  for (const call of [
    () => engine.kymo_lanes(),
    () => engine.kymo_findings(),
    () => engine.kymo_facts(0, 0, 0),
    () => engine.kymo_why(0, 0),
    () => engine.kymo_find_poll(1, 0),
    () => engine.kymo_task(0, 0, 1, 10),
    () => engine.kymo_choose_task(0),
    () => engine.kymo_search(0),
    () => engine.kymo_flame(0, 0, 1, -1, 0),
    () => engine.kymo_chain(0, 0, 1, 10),
    () => engine.kymo_wake_graph(0, 1),
    () => engine.kymo_span_names(0, 1),
    () => engine.kymo_span_name(0, 0, 1, 10, 0xffffffff, 0xffffffff),
    () => engine.kymo_span_tree(0),
    () => engine.kymo_span(0),
    () => engine.kymo_find_span(0, 0),
    () => engine.kymo_points_list(),
    () => engine.kymo_points_facts(0, 0, 0),
    () => engine.kymo_points_within(0, 0, 0, 1, 10),
  ])
    assert.equal(call(), -4101);
  assert.equal(engine.kymo_strip(0, 0, 0, 100, 10), 0);
  assert.equal(engine.kymo_series(0, 0, 100, 10), 0);
  assert.equal(engine.kymo_sample_counts(0, 0, 100, 10), 0);
});

test("questions beyond the trace are refused", () => {
  const { engine } = open(raw("dial9-2026-05-demo.bin.gz"));
  for (const [lane, layer, row] of [
    [9999, 0, 0],
    [0, 9, 0],
    [0, 0, 4e9],
    [0, 2, 0],
  ])
    assert.equal(engine.kymo_facts(lane, layer, row), -4101);
  assert.equal(engine.kymo_findings(), 0);
  for (const call of [
    () => engine.kymo_flame(9, 0, 1, -1, 0),
    () => engine.kymo_chain(4e9, 0, 1, 10),
    () => engine.kymo_span_name(0, 0, 1, 0, 0xffffffff, 0xffffffff),
    () => engine.kymo_span_name(0, 1, 1, 10, 0xffffffff, 0xffffffff),
    () => engine.kymo_span_tree(4e9),
    () => engine.kymo_span(4e9),
    () => engine.kymo_find_span(1, text(engine, "no number")),
    () => engine.kymo_points_facts(0, 0, 4e9),
    () => engine.kymo_points_facts(99, 0, 0),
    () => engine.kymo_points_within(99, 0, 0, 1, 10),
    () => engine.kymo_points_within(0, 4e9, 0, 1, 10),
    () => engine.kymo_points_within(1, 0, 0, 1, 10),
  ])
    assert.equal(call(), -4101);
  assert.equal(engine.kymo_points(0, 4e9, 0, 0, 100, 10), 0);
  assert.equal(engine.kymo_points(99, 0, 0, 0, 100, 10), 0);
  assert.equal(engine.kymo_strip(0, 0, 100, 100, 10), 0);
  assert.equal(engine.kymo_strip(0, 0, 0, NaN, 10), 0);
  assert.equal(engine.kymo_strip(0, 0, 0, 100, 1e6), 0);
  assert.equal(engine.kymo_strip(9999, 0, 0, 100, 10), 0);
});

test("a strip names the poll whose facts it then gives", () => {
  const { engine } = open(raw("dial9-0.5.7-demo.bin.gz"));
  const pixels = 100;
  const at = engine.kymo_strip(0, 0, 0, 4.2e9, pixels) >>> 0;
  const buffer = engine.memory.buffer.slice(at, at + 30 * pixels);
  const start = new Float64Array(buffer, 0, pixels);
  const length = new Float64Array(buffer, 8 * pixels, pixels);
  const row = new Uint32Array(buffer, 16 * pixels, pixels);
  for (let i = 0; i < pixels; i++) {
    if (row[i] === 0xffffffff) continue;
    assert.equal(engine.kymo_facts(0, 0, row[i]), 0);
    const facts = JSON.parse(result(engine).toString());
    assert.equal(facts.start_ns, start[i]);
    assert.equal(facts.duration_ns, length[i]);
  }
});
