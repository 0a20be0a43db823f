// SPDX-License-Identifier: Apache-2.0 OR MIT
// What is not in the trace is drawn where it is missing, and on no other lane; words say how much
// and why.
import assert from "node:assert/strict";
import { after, before, test } from "node:test";
import { drawn, newPage, open, state, stop } from "./browser.mjs";
import { Made } from "./made.mjs";

const START_NS = 1e9;
const END_NS = 1e8; // of the trace, from its beginning
const THREADS = [201, 202];
const LOSS = { tid: THREADS[1], records: 1234, from: 4e7, to: 5e7, cause: "overwritten" };
const OF_ALL = { tid: 0, records: 0, from: 8e7, to: 8e7, cause: "horizon" };
let page;

/** Two workers that poll all the time, each on a thread of its own. */
function made() {
  const out = new Made();
  THREADS.forEach((tid, worker) =>
    out.event(
      "WorkerEvent",
      START_NS,
      ["worker_id", "varint", worker],
      ["runtime_id", "varint", 0],
      ["tid", "u32", tid],
    ),
  );
  for (let at = 0; at < END_NS; at += 1e6)
    for (const worker of [0, 1]) out.poll(START_NS + at, 5e5, worker, 1 + worker, "svc::task");
  for (const { tid, records, from, to, cause } of [LOSS, OF_ALL])
    out.event(
      "LossEvent",
      START_NS + END_NS,
      ["tid", "u32", tid],
      ["record_count", "varint", records],
      ["exact", "u8", 1],
      ["from_ns", "varint", START_NS + from],
      ["to_ns", "varint", START_NS + to],
      ["cause", "string", cause],
    );
  return out.bytes;
}

before(async () => {
  page = await newPage({ colorScheme: "dark" });
  assert.equal(await open(page, { name: "losses.trc", buffer: made() }), "ready");
});
after(stop);

/** Columns of a worker's lane in which the colour of losses is, as [first, last] runs. */
async function hatched(lane) {
  const { canvas, rows } = await state(page);
  const row = rows.find((one) => one.kind === "worker" && one.lane === lane);
  const columns = await page.evaluate(
    ([left, top, wide, high]) => {
      const context = document.querySelector(".lanes canvas").getContext("2d");
      const { data } = context.getImageData(left, top, wide, high);
      const isLoss = (at) => data[at] > 90 && data[at] > 1.6 * data[at + 1];
      const found = [];
      for (let x = 0; x < wide; x++)
        for (let y = 0; y < high; y++) {
          const at = 4 * (y * wide + x);
          if (!isLoss(at) || data[at + 2] > 60) continue;
          found.push(x);
          break;
        }
      return found;
    },
    [canvas.labels, canvas.axis + row.top, canvas.width - canvas.labels, row.height],
  );
  const runs = [];
  for (const x of columns) {
    const last = runs[runs.length - 1];
    if (last && x - last[1] <= 6) last[1] = x;
    else runs.push([x, x]);
  }
  return runs;
}

async function placeOf(time, lane) {
  const { canvas, rows, from, to } = await state(page);
  const row = rows.find((one) => one.kind === "worker" && one.lane === lane);
  const x = canvas.labels + ((time - from) / (to - from)) * (canvas.width - canvas.labels);
  return { x: canvas.x + x, y: canvas.y + canvas.axis + row.top + 15, inside: x - canvas.labels };
}

function isNear(found, expected) {
  assert.ok(Math.abs(found - expected) <= 3, `${found}, not ${expected}`);
}

test("a thread's loss is on its lane alone, one of all threads on every lane", async () => {
  const wide = {
    from: (await placeOf(LOSS.from, 1)).inside,
    to: (await placeOf(LOSS.to, 1)).inside,
  };
  const all = (await placeOf(OF_ALL.from, 1)).inside;
  const [own, everyone] = await hatched(1);
  isNear(own[0], wide.from);
  isNear(own[1], wide.to);
  isNear(everyone[0], all);
  const other = await hatched(0);
  assert.equal(other.length, 1);
  isNear(other[0][0], all);
});

test("words say how many records, and why", async () => {
  const lost = page.locator(".top .lost");
  assert.equal(await lost.first().textContent(), "1,234 records lost");
  assert.match(await lost.first().getAttribute("title"), /1,234 records lost: overwritten/);
  assert.match(await page.locator(".legend").textContent(), /records lost/);
  const tip = page.locator(".lanes .tip");
  const middle = await placeOf((LOSS.from + LOSS.to) / 2, 1);
  await page.mouse.move(middle.x, middle.y);
  assert.match(await tip.textContent(), /1,234 records lost here: overwritten$/);
  const all = await placeOf(OF_ALL.from, 0);
  await page.mouse.move(all.x, all.y);
  assert.match(await tip.textContent(), /nothing recorded here: horizon$/);
  const beside = await placeOf((LOSS.from + LOSS.to) / 2, 0);
  await page.mouse.move(beside.x, beside.y);
  assert.doesNotMatch(await tip.textContent(), /lost|nothing/);
});

test("a loss stays visible however far one zooms out, and fills what lies inside it", async () => {
  await page.evaluate(() => (location.hash = "from=42000000&to=44000000"));
  await page.waitForFunction(() => window.kymo.state().from === 42000000);
  await drawn(page);
  const { canvas } = await state(page);
  const [[first, last]] = await hatched(1);
  isNear(first, 0);
  isNear(last, canvas.width - canvas.labels);
  assert.deepEqual(await hatched(0), []);
  assert.deepEqual(page.troubles, []);
});
