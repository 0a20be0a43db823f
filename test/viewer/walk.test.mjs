// SPDX-License-Identifier: Apache-2.0 OR MIT
// What stopped somebody who had never seen the page: each was mended once, and stays so.
import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { after, test } from "node:test";
import { gunzipSync } from "node:zlib";
import { data, drawn, newPage, open, state, stop } from "./browser.mjs";

const OLDER = data("dial9-2026-05-demo.bin.gz");
const DEMO = data("dial9-0.5.7-demo.bin.gz");
const HEADER_BYTES = 5;

after(stop);

test("a trace without a record opens, and says that nothing is known", async () => {
  const page = await newPage();
  const buffer = gunzipSync(readFileSync(OLDER)).subarray(0, HEADER_BYTES);
  assert.equal(await open(page, { name: "torn.trc", buffer }), "ready");
  const words = await page.locator(".findings").textContent();
  assert.match(words, /No poll is in the trace/);
  assert.doesNotMatch(words, /No cause|longest poll/);
  assert.deepEqual(page.troubles, []);
  await page.close();
});

test("an engine that stops after the trace is shown is not passed over in silence", async () => {
  const page = await newPage();
  assert.equal(await open(page, OLDER), "ready");
  await page.evaluate(
    () => void window.kymo.strips({ from: 0, to: 1, pixels: 1, wanted: null }),
  );
  assert.match(await page.getByRole("alert").textContent(), /^The engine stopped: .*\.$/);
  assert.equal(await page.evaluate(() => document.documentElement.dataset.state), "failed");
  page.troubles.length = 0; // the one that was made
  assert.equal(await open(page, OLDER), "ready");
  assert.equal(await page.getByRole("alert").count(), 0);
  assert.deepEqual(page.troubles, []);
  await page.close();
});

test("another file does not get the times and tasks of the one before", async () => {
  const page = await newPage();
  assert.equal(await open(page, OLDER), "ready");
  await page.keyboard.press("n");
  await page.waitForFunction(() => location.hash.includes("sel=") && window.kymo.state().why);
  await page.keyboard.press("3");
  assert.equal(await open(page, DEMO), "ready");
  const { from, to, durationNs, selected, finding } = await state(page);
  assert.deepEqual([from, to, selected, finding], [0, durationNs, "", ""]);
  assert.equal(await page.evaluate(() => location.hash), "");
  await page.close();
});

test("what a torn trace lacks is said by a click or a key", async () => {
  const page = await newPage();
  const buffer = gunzipSync(readFileSync(OLDER)).subarray(0, 1000000);
  assert.equal(await open(page, { name: "torn.trc", buffer }), "ready");
  const button = page.getByRole("button", { name: "one notice" });
  await button.focus();
  await page.keyboard.press("Enter");
  const box = page.getByRole("dialog", { name: "What this trace lacks" });
  assert.match(await box.textContent(), /ends in the middle of a record/);
  await page.keyboard.press("Escape");
  await box.waitFor({ state: "hidden" });
  await page.close();
});

test("r measures the view; Escape leaves first the selection, then the finding", async () => {
  const page = await newPage();
  assert.equal(await open(page, OLDER), "ready");
  await page.keyboard.press("n");
  await page.waitForFunction(() => window.kymo.state().why !== null);
  await drawn(page);
  const { from, to } = await state(page);
  await page.keyboard.press("r");
  await page.waitForFunction((range) => location.hash.includes(range), `range=${from}-${to}`);
  await page.keyboard.press("Escape");
  const first = await state(page);
  assert.equal(first.selection, null);
  assert.notEqual(first.finding, "");
  await page.keyboard.press("Escape");
  assert.equal((await state(page)).finding, "");
  await page.locator(".finding.chosen").waitFor({ state: "hidden" });
  await page.close();
});

test("help begins at its top where it is higher than the page", async () => {
  const page = await newPage({ width: 1024, height: 500 });
  await page.keyboard.press("?");
  const box = page.getByRole("dialog", { name: "Help" });
  const [top, more] = await box.evaluate((one) => [
    one.scrollTop,
    one.scrollHeight - one.clientHeight,
  ]);
  assert.ok(more > 0);
  assert.equal(top, 0);
  await page.close();
});

test("functions of a type are named by it", async () => {
  const page = await newPage();
  assert.equal(await open(page, DEMO), "ready");
  await page.keyboard.press("3");
  await page.waitForFunction(() => window.kymo.state().panel?.rows.length > 0);
  const names = await page.locator("[aria-label=Functions] .link").allTextContents();
  assert.ok(names.length > 10);
  assert.deepEqual(
    names.filter((name) => name.startsWith("<")),
    [],
  );
  await page.close();
});
