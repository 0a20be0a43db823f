// SPDX-License-Identifier: Apache-2.0 OR MIT
// Traces that are large in one way: 10 and 30 million events, 2,000 workers, 100,000 tasks. What is
// shown is compared with kymo report; how long it took and how much memory is said, not judged.
//
// Environment: KYMO_MAKE_TRACE (build/bench/read/bench_read), beside what browser.mjs takes.
import assert from "node:assert/strict";
import { execFileSync, spawnSync } from "node:child_process";
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { after, before, test } from "node:test";
import {
  drawn,
  KYMO,
  newPage,
  open,
  rendererMib,
  root,
  state,
  stop,
  watchPicture,
} from "./browser.mjs";
import { Made } from "./made.mjs";

const MAKE = process.env.KYMO_MAKE_TRACE ?? join(root, "build/bench/read/bench_read");
const PATIENCE_MS = 900000;
const WORKERS = 2000;
const TASKS = 100000;
let folder;

before(() => (folder = mkdtempSync(join(tmpdir(), "kymo-large-"))));
after(async () => {
  await stop();
  rmSync(folder, { recursive: true });
});

function report(path) {
  const run = spawnSync(KYMO, ["report", "--json", path], { maxBuffer: 1 << 28 });
  assert.equal(run.status, 0, run.stderr.toString());
  return JSON.parse(run.stdout.toString());
}

async function opened(file) {
  const page = await newPage({ width: 1920, height: 1080 });
  page.setDefaultTimeout(PATIENCE_MS);
  await watchPicture(page);
  assert.equal(await open(page, file), "ready");
  await page.waitForFunction(() => window.picture);
  return page;
}

/** For people. */
async function say(t, page) {
  const marks = await page.evaluate(() =>
    performance.getEntriesByType("mark").map((one) => [one.name, Math.round(one.startTime)]),
  );
  t.diagnostic(JSON.stringify({ ...Object.fromEntries(marks), mib: await rendererMib() }));
}

for (const millions of [10, 30]) {
  test(`${millions} million events: the first picture has the worst poll of all`, async (t) => {
    const path = join(folder, "large.trc");
    execFileSync(MAKE, ["--write", path, String(millions * 1000000)]);
    const expected = report(path);
    const page = await opened(path);
    const { isExact, phase, longest } = await page.evaluate(() => window.picture);
    assert.deepEqual([isExact, phase], [true, "loading"]);
    assert.equal(longest, expected.tables.polls.max_ns);
    assert.deepEqual(
      await page.locator(".statement .text").allTextContents(),
      expected.findings.map((one) => one.statement),
    );
    await page.keyboard.press("Enter");
    await page.waitForFunction(() => window.kymo.state().selection);
    assert.equal((await state(page)).selection.duration_ns, expected.tables.polls.max_ns);
    await say(t, page);
    assert.deepEqual(page.troubles, []);
    await page.close();
  });
}

test("2,000 workers: any of them can be scrolled to, the worst is found", async (t) => {
  const made = new Made();
  const [worst, rounds, length] = [1777, 10, 50000];
  for (let round = 0; round < rounds; round++)
    for (let worker = 0; worker < WORKERS; worker++) {
      const isWorst = worker === worst && round === rounds - 1;
      const at = 1e9 + round * 1e6 + worker * 100;
      // Beyond the ids that stand for threads that are no workers.
      made.poll(at, isWorst ? 7e7 : length, 1000 + worker, 1 + worker, "svc::task");
    }
  const page = await opened({ name: "workers.trc", buffer: made.bytes });
  const rows = (await state(page)).rows.filter((one) => one.kind === "worker");
  assert.equal(rows.length, WORKERS);
  assert.deepEqual(
    await page.evaluate(() => [window.picture.isExact, window.picture.longest]),
    [true, length],
  );
  await page.keyboard.press("Enter");
  await page.waitForFunction(() => window.kymo.state().selection);
  assert.equal((await state(page)).selection.duration_ns, 7e7);
  const { canvas } = await state(page);
  await page.mouse.move(canvas.x + canvas.labels + 600, canvas.y + 200);
  for (const wanted of [rows[worst], rows[WORKERS - 1], rows[0]]) {
    const now = (await state(page)).rows.find((one) => one.label === wanted.label);
    await page.mouse.wheel(0, now.top - 300);
    await page.waitForFunction((label) => {
      const { isExact, rows } = window.kymo.state();
      const top = rows.find((one) => one.label === label).top;
      return isExact && top >= 0 && top < 900;
    }, wanted.label);
    const { top } = (await state(page)).rows.find((one) => one.label === wanted.label);
    const hits = await page.evaluate(
      ([x, y, end]) => {
        let most = 0;
        for (let at = x; at < end; at++)
          most = Math.max(most, window.kymo.hit(at + 0.5, y)?.duration_ns ?? 0);
        return most;
      },
      [canvas.x + canvas.labels, canvas.y + canvas.axis + top + 15, canvas.x + canvas.width],
    );
    assert.equal(hits, wanted.label === rows[worst].label ? 7e7 : length, wanted.label);
  }
  await say(t, page);
  assert.deepEqual(page.troubles, []);
  await page.close();
});

test("100,000 tasks: each can be found and followed", async (t) => {
  const made = new Made();
  for (let task = 1; task <= TASKS; task++)
    made.poll(1e9 + task * 1000, 500, task % 8, task, `svc::kind${task % 40}`);
  const page = await opened({ name: "tasks.trc", buffer: made.bytes });
  for (const task of [1, 54321, TASKS]) {
    await page.evaluate((id) => (location.hash = `task=${id}`), task);
    await page.waitForFunction(
      (id) => window.kymo.state().task === id && window.kymo.state().taskIndex < 4294967295,
      task,
    );
    await drawn(page);
    const row = (await state(page)).rows.find((one) => one.kind === "task");
    assert.equal(row.label, `task ${task}`);
  }
  await say(t, page);
  assert.deepEqual(page.troubles, []);
  await page.close();
});
