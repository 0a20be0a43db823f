// SPDX-License-Identifier: Apache-2.0 OR MIT
// Two traces on one clock, and two parts of time against each other, in numbers of kymo report.
import assert from "node:assert/strict";
import { spawnSync } from "node:child_process";
import { join } from "node:path";
import { after, before, test } from "node:test";
import { data, KYMO, newPage, open, root, stop } from "./browser.mjs";

const golden = (name) => join(root, "test", "golden", "faults", `${name}.trc.zst`);
const FIRST = golden("cpu_poll");
const OTHER = golden("lock_held");
const DEMO = data("dial9-0.5.7-demo.bin.gz");
let page;

function kymo(...words) {
  const run = spawnSync(KYMO, words, { maxBuffer: 1 << 28 });
  assert.equal(run.status, 0, run.stderr.toString());
  return run.stdout.toString();
}
const report = (path, ...words) => JSON.parse(kymo("report", "--json", ...words, path));

async function openBeside(page, path) {
  const count = (await page.evaluate(() => window.kymo.all())).length;
  const chooser = page.waitForEvent("filechooser");
  await page.keyboard.press("b");
  await (await chooser).setFiles(path);
  await exact(page, count + 1);
}

/** Until so many traces are shown, each as it is in view. */
async function exact(page, count) {
  await page.waitForFunction((wanted) => {
    const all = window.kymo.all();
    return all.length === wanted && all.every((one) => one?.phase === "ready" && one.isExact);
  }, count);
}
const all = (page) => page.evaluate(() => window.kymo.all());
const asked = (page) =>
  page.waitForFunction(() => !document.querySelector('[data-asked="true"]'));

before(async () => {
  page = await newPage({ width: 1440, height: 900 });
  assert.equal(await open(page, FIRST), "ready");
  await openBeside(page, OTHER);
});
after(async () => {
  assert.deepEqual(page.troubles, []);
  await stop();
});

test("each has its own lanes and findings, those it has alone", async () => {
  const [one, two] = await all(page);
  const [first, other] = [report(FIRST), report(OTHER)];
  assert.equal(one.durationNs, first.trace.duration_ns);
  assert.equal(two.durationNs, other.trace.duration_ns);
  const shown = () => page.locator(".statement .text").allTextContents();
  assert.deepEqual(
    await shown(),
    first.findings.map((each) => each.statement),
  );
  await page.locator(".pane-head button[aria-pressed=false]").click();
  assert.deepEqual(
    await shown(),
    other.findings.map((each) => each.statement),
  );
});

test("a finding of the second one leads to its poll, at the same time of the first", async () => {
  const worst = report(OTHER).findings[0];
  await page.locator(".statement").first().click();
  await page.waitForFunction(() => window.kymo.all()[1].selection !== null);
  await exact(page, 2);
  const [one, two] = await all(page);
  assert.equal(two.finding, worst.key);
  assert.deepEqual([one.from, one.to], [two.from, two.to]);
  assert.equal(one.selection, null);
  await page.keyboard.press("0");
  await exact(page, 2);
  const [whole] = await all(page);
  assert.deepEqual([whole.from, whole.to], [0, Math.max(one.durationNs, two.durationNs)]);
});

test("on one wall clock each lies where it was recorded", async () => {
  await page.getByRole("button", { name: "each from its beginning" }).click();
  await exact(page, 2);
  const [one, two] = await all(page);
  const start = (path) => BigInt(report(path).trace.start_unix_ns);
  const later = Number(start(OTHER) - start(FIRST));
  assert.equal(one.from - two.from, later);
  assert.deepEqual([one.from, one.to], [0, later + two.durationNs]);
  await page.getByRole("button", { name: "one wall clock" }).click();
  await exact(page, 2);
  const [again] = await all(page);
  assert.equal(again.from, 0);
});

test("compare: the figures of both are those of kymo report", async () => {
  await page.locator(".pane-head button").first().click();
  await page.keyboard.press("9");
  await page.getByRole("button", { name: /^compare with .*lock_held/ }).click();
  await asked(page);
  const [{ panel }] = await all(page);
  const [now, before] = [report(FIRST).tables, report(OTHER).tables];
  const rows = Object.fromEntries(panel.sums.map((one) => [one.words, one.change]));
  assert.equal(rows["poll, p99"].now, now.polls.p99_ns);
  assert.equal(rows["poll, p99"].before, before.polls.p99_ns);
  assert.equal(rows["delay, longest"].now, now.delays.max_ns);
  assert.equal(rows["delay, longest"].before, before.delays.max_ns);
  for (const task of now.tasks.filter((one) => one.polls)) {
    const place = panel.places.find((one) => one.name === task.name);
    assert.equal(place.longest.now, task.poll_max_ns);
    assert.ok(Math.abs(place.polls.now * panel.nowNs - task.polls * 1e9) < 1000);
  }
});

test("the difference flame graph has the stacks of both", async () => {
  await page.getByRole("button", { name: "the same as a flame graph" }).click();
  await page.getByLabel("samples").selectOption("off-cpu");
  await asked(page);
  const sum = (path) =>
    kymo("export", "--format=folded", "--kind=off-cpu", path)
      .trim()
      .split("\n")
      .reduce((all, line) => all + Number(line.slice(line.lastIndexOf(" ") + 1)), 0);
  const [{ panel }] = await all(page);
  assert.deepEqual([panel.sum, panel.baseSum], [sum(FIRST), sum(OTHER)]);
});

test("a trace that is closed leaves the other alone", async () => {
  await page.getByRole("button", { name: /^close / }).click();
  await exact(page, 1);
  const [one] = await all(page);
  assert.deepEqual([one.from, one.to], [0, one.durationNs]);
  // The address follows a moment later.
  await page.waitForFunction(() => !location.hash.includes("beside1"));
});

test("two parts of one trace are compared by kymo report's --from and --to", async () => {
  const other = await newPage();
  assert.equal(await open(other, DEMO), "ready");
  await other.evaluate(
    () =>
      (location.hash =
        "panel=compare&compare-in=3000000000-3500000000&compare-with=1000000000-2000000000"),
  );
  await other.waitForFunction(() => window.kymo.state().panel?.sums);
  const { panel } = await other.evaluate(() => window.kymo.state());
  const now = report(DEMO, "--from", "3s", "--to", "3.5s").tables;
  const before = report(DEMO, "--from", "1s", "--to", "2s").tables;
  const rows = Object.fromEntries(panel.sums.map((one) => [one.words, one.change]));
  assert.deepEqual([panel.nowNs, panel.beforeNs], [5e8, 1e9]);
  assert.equal(rows["polls"].now, now.polls.count * 2);
  assert.equal(rows["polls"].before, before.polls.count);
  assert.equal(rows["delay, p99"].now, now.delays.p99_ns);
  assert.equal(rows["delay, p99"].before, before.delays.p99_ns);
  assert.deepEqual(other.troubles, []);
  await other.close();
});
