// SPDX-License-Identifier: Apache-2.0 OR MIT
// The panels in a browser: flame graphs, wakes, spans, events. Their numbers are those of the
// command line.
import assert from "node:assert/strict";
import { spawnSync } from "node:child_process";
import { readFileSync } from "node:fs";
import { join } from "node:path";
import { after, before, test } from "node:test";
import { data, KYMO, newPage, open, root, state, stop } from "./browser.mjs";

const DEMO = data("dial9-0.5.7-demo.bin.gz");
const fault = (name) => join(root, "test", "golden", "faults", `${name}.trc.zst`);
let page, demo;

before(async () => {
  page = demo = await newPage({ width: 1440, height: 900 });
  assert.equal(await open(page, DEMO), "ready");
});
after(async () => {
  assert.deepEqual(page.troubles, []);
  await stop();
});

function kymo(...words) {
  const run = spawnSync(KYMO, words, { maxBuffer: 1 << 28 });
  assert.equal(run.status, 0, run.stderr.toString());
  return run.stdout.toString();
}

const lines = (text) => text.trim().split("\n").sort();

/** What the page gives to save after a click. */
async function saved(name, page = demo) {
  const download = page.waitForEvent("download");
  await page.getByRole("button", { name }).click();
  return readFileSync(await (await download).path(), "utf8");
}

async function hash(words, page = demo) {
  await page.evaluate((text) => (location.hash = text), words);
  await page.waitForFunction(
    () => !document.querySelector('[data-asked="true"]') && window.kymo.state().isExact,
  );
}

const sumOf = (text) =>
  lines(text).reduce((sum, line) => sum + Number(line.slice(line.lastIndexOf(" ") + 1)), 0);

for (const [kind, path, ...more] of [
  ["cpu", DEMO],
  ["waiting", DEMO],
  ["off-cpu", fault("lock_held")],
  ["heap", fault("alloc_burst")],
  ["live", fault("alloc_burst"), "--live"],
]) {
  test(`flame graph: the stacks of ${kind} are those of kymo export`, async () => {
    const page = path === DEMO ? demo : await newPage();
    if (page !== demo) assert.equal(await open(page, path), "ready");
    await hash(`panel=flame&flame=${kind}`, page);
    const words = ["--format", "folded", "--kind", more.length ? "heap" : kind, ...more];
    const expected = kymo("export", ...words, path);
    assert.deepEqual(lines(await saved("save as folded stacks", page)), lines(expected));
    const graph = await page.evaluate(() => window.kymo.state().panel);
    assert.equal(graph.sum, sumOf(expected));
    if (page !== demo) await page.close();
  });
}

test("flame graph: a part of the trace, by --from and --to", async () => {
  await hash("panel=flame&flame-in=3000000000-3500000000");
  const range = ["--from", "3s", "--to", "3.5s"];
  const expected = kymo("export", "--format", "folded", ...range, DEMO);
  assert.deepEqual(lines(await saved("save as folded stacks")), lines(expected));
  const whole = kymo("export", "--format", "folded", DEMO);
  assert.ok(sumOf(expected) > 0 && sumOf(expected) < sumOf(whole));
});

test("flame graph: one kind of task, turned round, from a function on, found", async () => {
  const sites = kymo(
    ...["query", "--format", "csv"],
    "SELECT count(*) AS n, site FROM cpu GROUP BY site ORDER BY n DESC",
    DEMO,
  ).trim();
  const [, first] = sites.split("\n");
  const [, count, site] = /^(\d+),"?([^"]+)"?$/.exec(first) ?? [];
  await hash(`panel=flame&flame-task=${encodeURIComponent(site)}`);
  let graph = await page.evaluate(() => window.kymo.state().panel);
  assert.equal(graph.sum, Number(count));
  const leaf = graph.rows[0];
  await hash("panel=flame&flame-up=1");
  graph = await page.evaluate(() => window.kymo.state().panel);
  const turned = graph.children.find((one) => one.name === graph.rows[0].name);
  assert.equal(turned.value, graph.rows[0].self);
  assert.ok(leaf.self > 0);
  const name = graph.rows[0].name;
  await hash(`panel=flame&flame-up=1&flame-of=${encodeURIComponent(name)}`);
  graph = await page.evaluate(() => window.kymo.state().panel);
  assert.equal(graph.sum, graph.rows.find((one) => one.name === name).total);
  await hash(`panel=flame&flame-find=${encodeURIComponent(name)}`);
  const words = await page.locator(".found-share").textContent();
  const { total } = graph.rows.find((one) => one.name === name);
  assert.ok(words.includes(`${total} samples`), words);
});

test("flame graph: two parts of time beside each other", async () => {
  await hash("panel=flame&flame-in=3000000000-4000000000&flame-base=0-3000000000");
  const graph = await page.evaluate(() => window.kymo.state().panel);
  const of = (from, to) =>
    sumOf(kymo("export", "--format=folded", "--from", from, "--to", to, DEMO));
  assert.equal(graph.sum, of("3s", "4s"));
  assert.equal(graph.baseSum, of("0s", "3s"));
  await page.getByRole("columnheader", { name: "change" }).waitFor();
});

test("flame graph: by keyboard alone", async () => {
  await hash("panel=");
  await page.keyboard.press("3");
  await page.waitForFunction(() => window.kymo.state().panel?.sum > 0);
  assert.equal((await state(page)).options.panel, "flame");
  await page.locator(".flame canvas").focus();
  await page.keyboard.press("ArrowDown");
  const words = await page.locator(".flame .words").textContent();
  const graph = await page.evaluate(() => window.kymo.state().panel);
  assert.ok(words.startsWith(graph.children[0].name), words);
});
