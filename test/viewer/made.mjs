// SPDX-License-Identifier: Apache-2.0 OR MIT
// Small traces made event by event, without any code of src: docs/format.md says how they are
// written.

const TAGS = { i64: 1, string: 4, bytes: 5, varint: 9, map: 10, u8: 11, u32: 13 };
export const WORKER = "worker_id";

function number(value, bytes) {
  const out = Buffer.alloc(bytes);
  out.writeUIntLE(value, 0, Math.min(bytes, 6));
  return out;
}

function varint(value) {
  const out = [];
  let left = BigInt(value);
  for (; left >= 128n; left >>= 7n) out.push(Number(left & 127n) | 128);
  return Buffer.from([...out, Number(left)]);
}

function text(value) {
  const bytes = Buffer.from(value);
  return Buffer.concat([number(bytes.length, 4), bytes]);
}

function encode(kind, value) {
  if (kind === "varint") return varint(value);
  if (kind === "u8") return number(value, 1);
  if (kind === "u32") return number(value, 4);
  if (kind === "i64") return number(value, 8);
  if (kind === "map") return Buffer.concat([number(value.length, 4), ...value.flat().map(text)]);
  return text(value);
}

export class Made {
  parts = [Buffer.from("TRC\0\x01", "latin1")];
  ids = new Map();

  schema(name, fields) {
    const key = JSON.stringify([name, fields.map(([field, kind]) => [field, kind])]);
    if (this.ids.has(key)) return this.ids.get(key);
    const id = this.ids.size + 1;
    const short = (value) => {
      const bytes = Buffer.from(value);
      return Buffer.concat([number(bytes.length, 2), bytes]);
    };
    this.ids.set(key, id);
    this.parts.push(Buffer.from([1]), number(id, 2), short(name), Buffer.from([1]));
    this.parts.push(number(fields.length, 2));
    for (const [field, kind] of fields) this.parts.push(short(field), Buffer.from([TAGS[kind]]));
    return id;
  }

  /** fields: [name, kind, value]; at: ns. */
  event(name, at, ...fields) {
    const id = this.schema(name, fields);
    this.parts.push(Buffer.from([5]), number(at, 8), Buffer.from([2]), number(id, 2));
    this.parts.push(Buffer.alloc(3), ...fields.map(([, kind, value]) => encode(kind, value)));
    return this;
  }

  poll(at, length, worker, task, kind) {
    const id = [WORKER, "varint", worker];
    const place = ["spawn_loc", "string", kind];
    this.event("PollStartEvent", at, id, ["task_id", "varint", task], place);
    return this.event("PollEndEvent", at + length, id);
  }

  get bytes() {
    return Buffer.concat(this.parts);
  }
}
