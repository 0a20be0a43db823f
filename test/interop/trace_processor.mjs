// SPDX-License-Identifier: Apache-2.0 OR MIT
// Answers SQL over a trace by Perfetto's own engine, which the page of ui.perfetto.dev runs as
// wasm in a worker; here its script runs in a context that looks like one.
//
// usage: node trace_processor.mjs ENGINE_DIRECTORY TRACE < JSON array of SQL > array of answers
//
// An answer is {columns, rows} or {error}.
import fs from "node:fs";
import path from "node:path";
import vm from "node:vm";

const [directory, tracePath] = process.argv.slice(2);
const queries = JSON.parse(fs.readFileSync(0, "utf8"));

// Field numbers of trace_processor.proto.
const RPC = { msg: 1, seq: 1, request: 2, fatal: 5, invalid: 4, append: 101, query: 103,
  appendResult: 201, queryResult: 203 };
const METHOD = { append: 1, finish: 2, query: 3 };
const RESULT = { names: 1, error: 2, batch: 3 };
const BATCH = { cells: 1, numbers: 2, reals: 3, texts: 5 };
const CELL = { null: 1, number: 2, real: 3, text: 4 };

function varint(number) {
  const out = [];
  let rest = BigInt(number);
  while (rest > 127n) {
    out.push(Number(rest & 127n) | 128);
    rest >>= 7n;
  }
  out.push(Number(rest));
  return Buffer.from(out);
}
const bytesField = (field, bytes) =>
  Buffer.concat([varint((field << 3) | 2), varint(bytes.length), bytes]);
const numberField = (field, number) => Buffer.concat([varint(field << 3), varint(number)]);

class Reader {
  constructor(bytes) {
    this.bytes = bytes;
    this.at = 0;
  }
  get more() {
    return this.at < this.bytes.length;
  }
  varint() {
    let value = 0n;
    for (let shift = 0n; ; shift += 7n) {
      const byte = this.bytes[this.at++];
      value |= BigInt(byte & 127) << shift;
      if (byte < 128)
        return BigInt.asIntN(64, value);
    }
  }
  take(count) {
    this.at += count;
    return this.bytes.subarray(this.at - count, this.at);
  }
  field() {
    const key = Number(this.varint());
    const value = (key & 7) === 0 ? this.varint() :
      (key & 7) === 1 ? this.take(8) : (key & 7) === 5 ? this.take(4) :
      this.take(Number(this.varint()));
    return [key >> 3, value];
  }
}

function* fields(bytes) {
  for (const reader = new Reader(bytes); reader.more;)
    yield reader.field();
}

function readBatch(bytes, columns, rows) {
  let cells = [], numbers = [], reals = [], texts = [];
  for (const [field, value] of fields(bytes)) {
    if (field === BATCH.cells) {
      cells = [...value];
    } else if (field === BATCH.numbers) {
      for (const reader = new Reader(value); reader.more;)
        numbers.push(Number(reader.varint()));
    } else if (field === BATCH.reals) {
      for (let at = 0; at < value.length; at += 8)
        reals.push(value.readDoubleLE(at));
    } else if (field === BATCH.texts) {
      texts = value.toString("utf8").split("\0");
    }
  }
  let row = [];
  for (const cell of cells) {
    row.push(cell === CELL.number ? numbers.shift() : cell === CELL.real ? reals.shift() :
      cell === CELL.text ? texts.shift() : null);
    if (row.length === columns.length) {
      rows.push(row);
      row = [];
    }
  }
}

function readReplies(replies) {
  const answers = [];
  let open = null;
  for (const [, message] of fields(Buffer.concat(replies)))
    for (const [field, value] of fields(message)) {
      if (field === RPC.fatal || field === RPC.invalid)
        throw new Error(`the engine refuses: ${value}`);
      if (field === RPC.appendResult)
        for (const [inner, text] of fields(value))
          if (inner === 2 && text.length)
            throw new Error(`the trace is refused: ${text}`);
      if (field !== RPC.queryResult)
        continue;
      open = open ?? { columns: [], rows: [] };
      let isLast = false;
      for (const [inner, part] of fields(value)) {
        if (inner === RESULT.names)
          open.columns.push(part.toString("utf8"));
        else if (inner === RESULT.error && part.length)
          open.error = part.toString("utf8");
        else if (inner === RESULT.batch) {
          readBatch(part, open.columns, open.rows);
          for (const [last, flag] of fields(part))
            isLast ||= last === 6 && flag !== 0n;
        }
      }
      if (isLast || open.error) {
        answers.push(open);
        open = null;
      }
    }
  return answers;
}

class FileRequest {
  open(method, url) {
    this.name = path.basename(url);
  }
  send() {
    const bytes = fs.readFileSync(path.join(directory, this.name));
    this.response = bytes.buffer.slice(bytes.byteOffset, bytes.byteOffset + bytes.length);
    this.status = 200;
    this.onload?.();
  }
}

const self = { location: { href: "http://engine/engine_bundle.js" } };
const context = vm.createContext({ TypeError, Error, self, WorkerGlobalScope: function () {},
  importScripts() {}, location: self.location, XMLHttpRequest: FileRequest, WebAssembly,
  console: { log() {}, warn() {}, error() {} }, TextDecoder, TextEncoder, setTimeout, clearTimeout,
  performance, crypto: globalThis.crypto, URL, Uint8Array, Promise,
  fetch: () => Promise.reject(new Error("no network")) });
context.globalThis = context;
const script = fs.readFileSync(path.join(directory, "engine_bundle.js"), "utf8");
// What it gets is of this context's Uint8Array, not of its own.
vm.runInContext(script.replace(/[oe]\.data instanceof Uint8Array/g, "true"), context);

async function until(isTrue) {
  for (let i = 0; i < 3000 && !isTrue(); i++)
    await new Promise((resolve) => setTimeout(resolve, 10));
  if (!isTrue())
    throw new Error("the engine does not start");
}
const replies = [], port = { postMessage: (bytes) => replies.push(Buffer.from(bytes)) };
await until(() => self.onmessage);
self.onmessage({ data: port });
await until(() => port.onmessage);
let serial = 0;
const send = (method, extra) => port.onmessage({ data: new Uint8Array(bytesField(RPC.msg,
  Buffer.concat([numberField(RPC.seq, serial++), numberField(RPC.request, method), extra]))) });
const trace = fs.readFileSync(tracePath), none = Buffer.alloc(0), PART = 16 << 20;
for (let at = 0; at < trace.length; at += PART)
  send(METHOD.append, bytesField(RPC.append, trace.subarray(at, at + PART)));
send(METHOD.finish, none);
for (const sql of queries)
  send(METHOD.query, bytesField(RPC.query, bytesField(1, Buffer.from(sql))));
await until(() => true);
process.stdout.write(JSON.stringify(readReplies(replies)), () => process.exit(0));
