// SPDX-License-Identifier: Apache-2.0 OR MIT
// What leaves the page and comes back: dial9's addresses, notes, pictures, JSON, a page with the
// trace; several files as one.
import assert from "node:assert/strict";
import { mkdtempSync, readFileSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { after, before, test } from "node:test";
import { pathToFileURL } from "node:url";
import { data, newPage, open, root, settled, state, stop, VIEWER } from "./browser.mjs";

const DEMO = data("dial9-0.5.7-demo.bin.gz");
const START = 9704164337;
let folder;

before(() => (folder = mkdtempSync(join(tmpdir(), "kymo-share-"))));
after(async () => {
  await stop();
  rmSync(folder, { recursive: true });
});

async function saved(page, act) {
  const download = page.waitForEvent("download");
  await act();
  const path = join(folder, (await download).suggestedFilename());
  await (await download).saveAs(path);
  return path;
}

async function opened(search) {
  const page = await newPage({ url: `${pathToFileURL(VIEWER).href}?${search}` });
  assert.equal(await open(page, DEMO), "ready");
  return page;
}

test("dial9's parameters: time, task and poll", async () => {
  const [from, to] = [START + 3000000000, START + 3500000000];
  const page = await opened(`trace=x.bin&start=${from}&end=${to}&task=103&unheard=of`);
  await page.waitForFunction(() => window.kymo.state().taskIndex < 4294967295);
  let now = await state(page);
  assert.deepEqual([now.from, now.to, now.task], [3000000000, 3500000000, 103]);
  await page.keyboard.press("Enter");
  await page.waitForFunction(() => window.kymo.state().selection?.task);
  const poll = (await state(page)).selection;
  await page.close();
  const other = await opened(`poll=${START + poll.start_ns}:${poll.task.id}&tz=UTC`);
  await other.waitForFunction((id) => window.kymo.state().selection?.id === id, poll.id);
  now = await state(other);
  assert.equal(now.isUtc, true);
  await other.close();
});

test("dial9's parameters: region and analysis, spans, charts, the worst poll", async () => {
  const region = `${START + 1000000000}-${START + 2000000000}`;
  let page = await opened(`region=${region}&analysis=cpu`);
  await page.waitForFunction(() => window.kymo.state().panel?.sum >= 0);
  const { options } = await state(page);
  assert.equal(options["flame-in"], "1000000000-2000000000");
  assert.equal(options.flame, "cpu");
  await page.close();
  page = await opened("span-names=metrics_service%3A%3Addb%3A%3Aquery_metric");
  await page.waitForFunction(() => window.kymo.state().panel?.count > 0);
  await page.close();
  page = await opened("field-chart=1,metrique:RequestMetrics,Latency,gauge&issue=long-poll");
  await page.waitForFunction(() => window.kymo.state().selection !== null);
  const now = await state(page);
  assert.ok(now.rows.some((row) => row.kind === "chart" && row.label === "Latency"));
  assert.ok(now.selection.duration_ns > 3e7);
  await page.close();
  page = await opened("field-chart=1,metrique:RequestMetrics,Latency,counter");
  assert.ok((await state(page)).rows.some((row) => row.label === "Latency" && row.isRate));
  await page.close();
});

test("notes are in the link, on the page that is saved, and in its address", async () => {
  const page = await newPage();
  assert.equal(await open(page, DEMO), "ready");
  await page.keyboard.press("Enter");
  await page.waitForFunction(() => window.kymo.state().selection !== null);
  await page.keyboard.press("m");
  const text = 'here, <b>it</b> "hangs"!';
  await page.getByRole("textbox", { name: "note" }).fill(text);
  const { selection } = await state(page);
  const path = await saved(page, () =>
    page.getByRole("button", { name: "Save page with trace and notes" }).click(),
  );
  assert.deepEqual(page.troubles, []);
  await page.close();
  const copy = await newPage({ url: pathToFileURL(path).href });
  assert.equal(await settled(copy), "ready");
  await copy.waitForFunction((id) => window.kymo.state().selection?.id === id, selection.id);
  assert.equal(await copy.getByRole("textbox", { name: "note" }).inputValue(), text);
  await copy.getByRole("button", { name: "delete the note" }).click();
  assert.equal(await copy.getByRole("textbox", { name: "note" }).count(), 0);
  assert.deepEqual(copy.troubles, []);
  await copy.close();
});

test("a picture and JSON of the view", async () => {
  const page = await newPage();
  assert.equal(await open(page, DEMO), "ready");
  await page.keyboard.press("Enter");
  await page.waitForFunction(() => window.kymo.state().why);
  const picture = readFileSync(await saved(page, () => page.keyboard.press("i")));
  assert.equal(picture.subarray(1, 4).toString(), "PNG");
  const { canvas, selection, why } = await state(page);
  const size = [picture.readUInt32BE(16), picture.readUInt32BE(20)];
  assert.deepEqual(size, [Math.round(canvas.width), Math.round(canvas.height)]);
  const json = JSON.parse(readFileSync(await saved(page, () => page.keyboard.press("j")), "utf8"));
  assert.deepEqual(json.selected, selection);
  assert.deepEqual(json.why, why.worst[0]);
  assert.equal(json.trace.start_mono_ns, String(START));
  await page.close();
});

test("several files are one trace, and what does not fit gets one sentence", async () => {
  const golden = (name) => join(root, "test", "golden", "traces", `${name}.trc`);
  const page = await newPage();
  const choose = async (files) => {
    const chooser = page.waitForEvent("filechooser");
    await page.getByRole("button", { name: /^Open/ }).last().click();
    await (await chooser).setFiles(files);
    return settled(page);
  };
  assert.equal(await choose([golden("CounterEvent"), golden("AnnotationEvent")]), "ready");
  const kinds = await page.evaluate(async () =>
    (await window.kymo.ask({ op: "pointsList" })).map((one) => one.kind),
  );
  assert.deepEqual([...new Set(kinds)].sort(), ["counter", "notes"]);
  const mixed = [golden("CounterEvent"), join(root, "test/golden/faults/lock_held.trc.zst")];
  await choose(mixed);
  await page.locator(".toast").getByText(/Some of these files are packed by zstd/).waitFor();
  assert.equal((await state(page)).phase, "ready");
  await page.reload();
  assert.equal(await choose(mixed), "failed");
  const words = await page.getByRole("alert").textContent();
  assert.match(words, /Some of these files are packed by zstd and some are not/);
  await page.close();
});
