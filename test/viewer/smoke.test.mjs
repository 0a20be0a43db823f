// SPDX-License-Identifier: Apache-2.0 OR MIT
// The shortest way through the page: open a trace, read a finding, zoom, select a poll.
import assert from "node:assert/strict";
import { spawnSync } from "node:child_process";
import { after, test } from "node:test";
import { data, drawn, KYMO, newPage, open, state, stop } from "./browser.mjs";

after(stop);

test("a trace opens, a finding leads to its poll, zooming keeps it", async () => {
  const path = data("dial9-2026-05-demo.bin.gz");
  const report = JSON.parse(
    spawnSync(KYMO, ["report", "--json", path], { maxBuffer: 1 << 28 }).stdout.toString(),
  );
  const page = await newPage();
  assert.equal(await open(page, path), "ready");
  assert.equal((await state(page)).durationNs, report.trace.duration_ns);

  const shown = await page.locator(".statement .text").allTextContents();
  assert.deepEqual(
    shown,
    report.findings.map((one) => one.statement),
  );

  await page.locator(".statement").first().click();
  await page.waitForFunction(() => window.kymo.state().selection !== null);
  await drawn(page);
  const { selection, canvas, rows, from, to } = await state(page);
  assert.equal(selection.duration_ns, report.findings[0].impact.worst_ns);

  const row = rows.find((one) => one.kind === "worker" && one.lane === selection.lane);
  const middle = selection.start_ns + selection.duration_ns / 2;
  const share = (middle - from) / (to - from);
  const x = canvas.x + canvas.labels + share * (canvas.width - canvas.labels);
  const y = canvas.y + canvas.axis + row.top + 20;
  const hit = await page.evaluate(([a, b]) => window.kymo.hit(a, b), [x, y]);
  assert.equal(hit.start_ns, selection.start_ns);

  await page.keyboard.press("0");
  await drawn(page);
  const whole = await state(page);
  assert.deepEqual([whole.from, whole.to], [0, report.trace.duration_ns]);
  assert.deepEqual(page.troubles, []);
});
