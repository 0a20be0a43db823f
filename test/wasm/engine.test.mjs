// SPDX-License-Identifier: Apache-2.0 OR MIT
// The engine as WebAssembly finds, byte for byte, what the native one finds.
//
// Environment: KYMO_WASM (module), KYMO_CANONICAL (native program), both set by tools/wasm.sh.
import assert from "node:assert/strict";
import { spawnSync } from "node:child_process";
import { readFileSync } from "node:fs";
import { dirname, join } from "node:path";
import { test } from "node:test";
import { fileURLToPath } from "node:url";
import { gunzipSync } from "node:zlib";

const data = join(dirname(fileURLToPath(import.meta.url)), "..", "data");
const program = readFileSync(process.env.KYMO_WASM);

function trace(name) {
	return gunzipSync(readFileSync(join(data, name)));
}

function result(engine) {
	const at = engine.kymo_wasm_result();
	return Buffer.from(engine.memory.buffer, at, engine.kymo_wasm_result_bytes());
}

function open(engine, bytes) {
	const at = engine.kymo_wasm_alloc(bytes.length);
	assert.notEqual(at, 0);
	new Uint8Array(engine.memory.buffer, at, bytes.length).set(bytes);
	const code = engine.kymo_wasm_open(at, bytes.length);
	engine.kymo_wasm_free(at);
	return code;
}

async function load() {
	const { instance } = await WebAssembly.instantiate(program, {});
	return instance.exports;
}

function native(bytes) {
	const run = spawnSync(process.env.KYMO_CANONICAL, { input: bytes, maxBuffer: 1 << 28 });
	assert.equal(run.status, 0);
	return run.stdout;
}

function compare(engine, bytes) {
	assert.equal(open(engine, bytes), 0);
	assert.equal(engine.kymo_wasm_canonical(), 0);
	const found = result(engine);
	const expected = native(bytes);
	assert.ok(expected.length > 500);
	assert.ok(found.equals(expected), "native and wasm differ");
	return JSON.parse(found.toString());
}

test("the module imports nothing", () => {
	assert.deepEqual(WebAssembly.Module.imports(new WebAssembly.Module(program)), []);
});

test("dial9 0.5.7's trace: the same bytes as natively", async () => {
	const { info, report } = compare(await load(), trace("dial9-0.5.7-demo.bin.gz"));
	assert.equal(info.events, 572815);
	assert.equal(info.back_steps, 16231);
	assert.equal(info.polls, 99717);
	assert.equal(report.tables.polls.count, 99717);
	assert.equal(report.tables.worst_polls.length, 10);
});

test("dial9's trace of May 2026: the same bytes as natively", async () => {
	const { info } = compare(await load(), trace("dial9-2026-05-demo.bin.gz"));
	assert.equal(info.events, 210639);
	assert.equal(info.delays_measured + info.delays_no_wake, info.polls);
});

test("torn and damaged traces: the same notices as natively", async () => {
	const engine = await load();
	const whole = trace("dial9-2026-05-demo.bin.gz");
	for (const cut of [5, 1000, 77777, 1000001, whole.length - 1]) {
		const { info } = compare(engine, whole.subarray(0, cut));
		assert.ok(info.notices.length <= 1);
	}
	const damaged = Buffer.from(whole);
	for (let at = 50000; at < damaged.length; at += 400000) damaged[at] ^= 0xff;
	compare(engine, damaged);
});

test("what is no trace gets a sentence", async () => {
	const engine = await load();
	assert.equal(open(engine, Buffer.from("GIF89a")), -4102);
	assert.match(result(engine).toString(), /trace: byte 0: this is not a trace/);
	assert.equal(engine.kymo_wasm_canonical(), -4101);
});

test("memory is reused from trace to trace", async () => {
	const engine = await load();
	const bytes = trace("dial9-2026-05-demo.bin.gz");
	assert.equal(open(engine, bytes), 0);
	assert.equal(open(engine, bytes), 0);
	const before = engine.memory.buffer.byteLength;
	for (let i = 0; i < 5; i++) assert.equal(open(engine, bytes), 0);
	assert.equal(engine.memory.buffer.byteLength, before);
});
