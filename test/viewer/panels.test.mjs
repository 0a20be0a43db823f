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

test("wakes: counts between spawn places are those of kymo view wake_graph", async () => {
  const rows = JSON.parse(kymo("view", "wake_graph", "--json", "-n", "0", DEMO)).rows;
  const expected = new Map();
  for (const row of rows) {
    const key = `${row.waker_site ?? ""} > ${row.site ?? ""}`;
    expected.set(key, (expected.get(key) ?? 0) + row.wakes);
  }
  await hash("panel=wakes");
  const edges = await page.evaluate(() => window.kymo.state().panel);
  const found = new Map();
  for (const edge of edges) {
    const key = `${edge.waker ?? ""} > ${edge.woken ?? ""}`;
    found.set(key, (found.get(key) ?? 0) + edge.wakes);
  }
  assert.deepEqual(found, expected);
  assert.ok(edges.some((edge) => edge.delays > 100 && edge.p50_ns < edge.p99_ns));
  const longest = edges.find((edge) => edge.delays > 100);
  await page.locator(".wakes .list button").first().click();
  await page.waitForFunction(
    (ns) => window.kymo.state().selection?.delay_ns === ns,
    longest.max_ns,
  );
});

test("chain: a poll's links are those of kymo task --chain, and lead to polls", async () => {
  await hash("panel=");
  await page.evaluate(() => (location.hash = "from=3196000000&to=3206000000"));
  await page.waitForFunction(() => window.kymo.state().isExact);
  await page.keyboard.press("Escape"); // what another test selected
  await page.waitForFunction(() => !window.kymo.state().why);
  await page.keyboard.press("Enter");
  await page.waitForFunction(() => window.kymo.state().why);
  const { selection, arrow, why } = await state(page);
  const start = 9704164337;
  assert.equal(arrow.from.time, why.worst[0].woken_by.time_ns - start);
  assert.equal(arrow.to.time, selection.start_ns);
  assert.ok(Math.abs(arrow.from.time - selection.ready_ns) < 2000);
  await page.keyboard.press("4");
  await page.waitForFunction(() => window.kymo.state().panel?.links);
  const shown = await page.evaluate(() => window.kymo.state().panel);
  const range = ["--from", `${shown.from_ns - start}ns`, "--to", `${shown.to_ns - start}ns`];
  const words = ["task", String(selection.task.id), "--chain", "--json", "-n", "0", ...range, DEMO];
  const chain = JSON.parse(kymo(...words));
  assert.deepEqual(shown.groups, chain.groups);
  assert.deepEqual(shown.links, chain.links);
  const other = shown.links.findLast((one) => one.depth > 0 && one.kind === "poll");
  const link = page.locator(".links li").filter({ hasText: `task ${other.task} ` }).first();
  await link.getByRole("button").click();
  await page.waitForFunction(
    (task) => window.kymo.state().selection?.task.id === task,
    other.task,
  );
});

test("spans: counts, percentiles and time are those of kymo report", async () => {
  const expected = JSON.parse(kymo("report", "--json", DEMO)).tables.spans;
  await hash("panel=spans");
  const names = await page.evaluate(() => window.kymo.state().panel);
  const found = names.slice(0, expected.length).map((one) => ({
    name: one.name,
    lengths: [one.count, one.total_ns, one.p50_ns, one.p90_ns, one.p99_ns, one.max_ns],
    parts: Object.values(one.split),
  }));
  assert.deepEqual(
    found,
    expected.map((one) => ({
      name: one.name,
      lengths: ["count", "total_ns", "p50_ns", "p90_ns", "p99_ns", "max_ns"].map(
        (key) => one.lengths[key],
      ),
      parts: ["cpu", "off_cpu", "polled", "ready", "waiting", "client", "unknown"].map(
        (key) => one[`${key}_ns`],
      ),
    })),
  );
});

test("spans: of one name over time, by field, slow against typical, a waterfall", async () => {
  const name = "metrics_service::ddb::query_metric";
  await hash(`panel=spans&span-name=${encodeURIComponent(name)}`);
  await page.waitForFunction(() => window.kymo.state().panel?.pieces);
  const shown = await page.evaluate(() => window.kymo.state().panel);
  const rows = JSON.parse(kymo("view", "spans", "--json", "-n0", `--where=name = '${name}'`, DEMO));
  const spans = rows.rows.filter((one) => !one.is_open);
  assert.equal(shown.count, spans.length);
  assert.equal(
    shown.pieces.reduce((sum, one) => sum + one.count, 0),
    spans.length,
  );
  for (const piece of shown.pieces)
    assert.equal(
      piece.bins.reduce((sum, one, at) => sum + (at % 2 ? one : 0), 0),
      piece.count,
    );
  const longest = Math.max(...spans.map((one) => one.duration_ns));
  assert.equal(shown.longest[0].duration_ns, longest);
  assert.equal(Math.max(...shown.pieces.map((one) => one.max_ns)), longest);
  const tail = JSON.parse(
    kymo("view", "span_tail", "--json", "-n0", `--where=span = '${name}'`, DEMO),
  ).rows;
  assert.equal(shown.tail.length, tail.length);
  const share = (list, kind) =>
    list.filter((one) => one.kind === kind).map((one) => one.explains_ppm ?? one.slow_ppm);
  for (const kind of ["part", "field", "concurrency"])
    assert.deepEqual(share(shown.tail, kind).sort(), share(tail, kind).sort());
  await page.getByRole("table", { name: "The longest" }).getByRole("button").first().click();
  await page.waitForFunction(() => window.kymo.state().panel?.tree?.spans.length > 0);
  const { panel, selection } = await state(page);
  assert.equal(selection.duration_ns, longest);
  const root = panel.tree.spans[0];
  assert.ok(panel.tree.spans.every((one) => one.start_ns >= root.start_ns && one.depth >= 0));
  const { links } = panel.tree.chain;
  const total = links.reduce((sum, one) => sum + one.to_ns - one.from_ns, 0);
  assert.equal(total, root.duration_ns);
  await page.getByRole("region", { name: "Waterfall of the request" }).waitFor();
  const address = (await state(page)).selected;
  await page.keyboard.press("Escape");
  await hash(`panel=spans&sel=${address}`);
  await page.waitForFunction((id) => window.kymo.state().selection?.id === id, address);
});

test("spans: a field narrows what is shown", async () => {
  await hash("panel=spans");
  const names = await page.evaluate(() => window.kymo.state().panel);
  for (const one of names) {
    await hash(`panel=spans&span-name=${encodeURIComponent(one.name)}`);
    await page.waitForFunction((name) => window.kymo.state().panel?.name === name, one.name);
    const all = await page.evaluate(() => window.kymo.state().panel);
    const facet = all.facets.find((each) => each.most.length > 1);
    if (!facet) continue;
    const [first] = facet.most;
    const field = encodeURIComponent(`${facet.key}=${first.value}`);
    await hash(`panel=spans&span-name=${encodeURIComponent(one.name)}&span-field=${field}`);
    await page.waitForFunction((n) => window.kymo.state().panel?.count === n, first.count);
    assert.ok(first.count < all.count);
    return;
  }
  assert.fail("no field in the demo");
});

const rowsOf = (sql) => JSON.parse(kymo("query", "--json", sql, DEMO)).rows;

/** What the lane of points shows of the whole trace in one pixel. */
function pointsOf(lane, layer) {
  return page.evaluate(
    (wanted) => window.kymo.strips({ from: 0, to: 5e9, pixels: 1, wanted: [wanted] }),
    { lane, layer },
  );
}

test("events: types, charts of fields and queues are those of the command line", async () => {
  await hash("panel=events&charts=metrique%3ARequestMetrics.Latency");
  await page.waitForFunction(() => window.kymo.state().panel?.within);
  const { panel, rows } = await state(page);
  const events = panel.lanes.filter((one) => one.kind === "events");
  assert.deepEqual(
    Object.fromEntries(events.map((one) => [one.name, one.count])),
    Object.fromEntries(rowsOf("SELECT * FROM custom").map((one) => [one.event, one.events])),
  );
  const chart = rows.find((one) => one.kind === "chart" && one.label === "Latency");
  const [latency] = (await pointsOf(chart.lane, chart.layer)).points;
  const [expected] = rowsOf(
    "SELECT min(value) AS low, max(value) AS high, count(*) AS n FROM custom_values " +
      "WHERE field = 'Latency'",
  );
  assert.deepEqual(
    [latency.count[0], latency.low[0], latency.high[0]],
    [expected.n, expected.low, expected.high],
  );
  const queue = rows.find((one) => one.label === "queue of worker 0");
  const [depth] = (await pointsOf(queue.lane, queue.layer)).points;
  const [most] = rowsOf("SELECT max(tasks) AS tasks FROM queue_samples WHERE worker = 0");
  assert.equal(depth.high[0], most.tasks);
});

test("events: those in view are listed with their fields", async () => {
  const start = 9704164337n;
  const name = "metrique:RequestMetrics";
  const rows = rowsOf(
    "SELECT time_ns AS at FROM custom_values WHERE field = 'dial9.thread_id' AND " +
      `event = '${name}' ORDER BY time_ns`,
  ).map((one) => Number(BigInt(one.at) - start));
  const [from, to] = [rows[20], rows[60]];
  await hash(`panel=events&from=${from}&to=${to}`);
  await page.waitForFunction(() => window.kymo.state().panel?.within);
  await page.getByRole("button", { name, exact: true }).click();
  await page.waitForFunction(
    (of) => window.kymo.state().panel?.within?.points[0]?.name === of,
    name,
  );
  const inView = rows.filter((at) => at >= from && at <= to);
  let { within } = (await state(page)).panel;
  assert.equal(within.count, inView.length);
  assert.deepEqual(within.points.map((one) => one.start_ns), inView.slice(0, 200));
  const table = page.getByRole("table", { name: "Events within it" });
  assert.match(await table.locator("thead").textContent(), /Latency/);
  assert.equal(await table.locator("tbody tr").count(), Math.min(200, inView.length));
  // A click selects it; the address keeps what is listed.
  await table.getByRole("button").nth(1).click();
  await page.waitForFunction((at) => window.kymo.state().selection?.start_ns === at, inView[1]);
  await page.waitForFunction(() => location.hash.includes("events-of="));
  await page.getByRole("combobox", { name: "events in" }).selectOption("all");
  await page.waitForFunction((n) => window.kymo.state().panel?.within?.count === n, rows.length);
  ({ within } = (await state(page)).panel);
  assert.equal(within.points.length, Math.min(200, rows.length));
});

test("events: a chart as a rate grows by what its values grow", async () => {
  await hash("panel=events&charts=metrique%3ARequestMetrics.Latency");
  await page.waitForFunction(() => window.kymo.state().panel?.within);
  await page.getByRole("button", { name: "rate" }).first().click();
  await page.waitForFunction(() =>
    window.kymo.state().rows.some((one) => one.kind === "chart" && one.isRate),
  );
  await page.waitForFunction(() => location.hash.includes("rates="));
  // Of rows that are not in view nothing is asked.
  const { canvas } = await state(page);
  await page.mouse.move(canvas.x + canvas.labels + 100, canvas.y + canvas.axis + 30);
  await page.mouse.wheel(0, 5000);
  await page.waitForFunction(() => {
    const { canvas, rows, isExact } = window.kymo.state();
    return isExact && rows.find((one) => one.isRate).top < canvas.height - canvas.axis - 20;
  });
  const now = await state(page);
  const row = now.rows.find((one) => one.isRate);
  const [all] = await page
    .evaluate((wanted) => window.kymo.strips(wanted), {
      ...{ from: now.from, to: now.to, pixels: now.pixels },
      wanted: [{ lane: row.lane, layer: row.layer }],
    })
    .then((answer) => answer.points);
  const withAny = Object.values(all.count).flatMap((n, at) => (n ? [at] : []));
  const [before, at] = withAny.slice(4);
  const seconds = ((at - before) * (now.to - now.from)) / now.pixels / 1e9;
  // Its values come with the next answer of the engine.
  const hit = await page
    .waitForFunction(([a, b]) => window.kymo.hit(a, b), [
      now.canvas.x + now.canvas.labels + at + 0.5,
      now.canvas.y + now.canvas.axis + row.top + 15,
    ])
    .then((found) => found.jsonValue());
  const words = ((all.last[at] - all.last[before]) / seconds).toPrecision(4);
  assert.ok(hit.name.includes(`${words} ms a second`), `${hit.name}, not ${words}`);
  await page.getByRole("button", { name: "rate" }).first().click();
  await page.waitForFunction(
    () => !window.kymo.state().rows.some((one) => one.kind === "chart" && one.isRate),
  );
});

test("events: a click on one shows its fields, and its address brings it back", async () => {
  await hash("from=0&to=4201868002");
  const before = await state(page);
  const row = before.rows.find((one) => one.label === "metrique:RequestMetrics");
  const [all] = (await pointsOf(row.lane, row.layer)).points;
  const id = `event:${row.layer}:${row.lane}:${all.row[0]}`;
  await page.evaluate((text) => (location.hash = `sel=${text}`), id);
  await page.waitForFunction((of) => window.kymo.state().selection?.id === of, id);
  const { selection } = await state(page);
  const [first] = rowsOf(
    "SELECT min(time_ns) AS at FROM custom_values WHERE event = 'metrique:RequestMetrics'",
  );
  assert.equal(selection.start_ns, Number(BigInt(first.at) - 9704164337n));
  const text = await page.getByRole("region", { name: "Its fields" }).textContent();
  assert.match(text, /Latency.*ms/);
});

test("a panel of what is in view asks the engine once the view rests", async () => {
  await hash("panel=flame&flame-in=view&from=0&to=4201868002");
  const { canvas } = await state(page);
  const asked = await page.evaluate(
    async ([clientX, clientY]) => {
      const { postMessage } = Worker.prototype;
      const element = document.querySelector(".lanes canvas");
      window.asked = 0;
      Worker.prototype.postMessage = function (message, ...rest) {
        if (message.question?.op === "flame") window.asked++;
        return postMessage.call(this, message, ...rest);
      };
      for (let step = 0; step < 40; step++) {
        const how = { deltaY: -20, clientX, clientY, ctrlKey: true, cancelable: true };
        element.dispatchEvent(new WheelEvent("wheel", how));
        // What is drawn anew is drawn at once; a timer has no time to end.
        for (let turn = 0; turn < 20; turn++) await null;
      }
      return window.asked;
    },
    [canvas.x + canvas.labels + 300, canvas.y + 100],
  );
  assert.equal(asked, 0);
  await page.waitForFunction(() => window.asked === 1);
  await page.waitForFunction(() => !document.querySelector('[data-asked="true"]'));
  await page.evaluate(() => new Promise((done) => requestAnimationFrame(() => done())));
  assert.equal(await page.evaluate(() => window.asked), 1);
});
