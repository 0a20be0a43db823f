// SPDX-License-Identifier: Apache-2.0 OR MIT
// kymo serve in a real browser: its list, and the viewer on a trace that is read by ranges.
import assert from "node:assert/strict";
import { spawn, spawnSync } from "node:child_process";
import {
  appendFileSync,
  copyFileSync,
  existsSync,
  mkdtempSync,
  readFileSync,
  rmSync,
  writeFileSync,
} from "node:fs";
import { tmpdir } from "node:os";
import { dirname, join } from "node:path";
import { createInterface } from "node:readline";
import { after, test } from "node:test";
import { gunzipSync } from "node:zlib";
import { data, drawn, KYMO, newPage, root, settled, state, stop } from "./browser.mjs";

const OLDER = data("dial9-2026-05-demo.bin.gz");
const GOLDEN = join(root, "test", "golden", "faults", "cpu_poll.trc.zst");
const folder = mkdtempSync(join(tmpdir(), "kymo-serve-page-"));
const servers = [];

after(async () => {
  await stop();
  for (const server of servers) server.kill("SIGKILL");
  rmSync(folder, { recursive: true });
});

/** Serves; returns the address that it prints, and its process. */
async function serve(...paths) {
  const server = spawn(KYMO, ["serve", ...paths], { stdio: ["ignore", "pipe", "inherit"] });
  servers.push(server);
  for await (const line of createInterface({ input: server.stdout })) return { url: line, server };
  throw new Error("kymo serve said nothing");
}

function report(path) {
  const done = spawnSync(KYMO, ["report", "--json", path], { maxBuffer: 1 << 28 });
  assert.equal(done.status, 0, done.stderr.toString());
  return JSON.parse(done.stdout.toString());
}

function findings(page) {
  return page.locator(".statement .text").allTextContents();
}

writeFileSync(join(folder, "raw.trc"), gunzipSync(readFileSync(OLDER)));
copyFileSync(OLDER, join(folder, "packed.bin.gz"));
copyFileSync(GOLDEN, join(folder, "fault.trc.zst"));
writeFileSync(join(folder, "broken.trc"), "no trace");

test("a click in the list opens each trace with the findings of kymo report", async () => {
  const { url } = await serve(folder);
  for (const name of ["raw.trc", "packed.bin.gz", "fault.trc.zst"]) {
    const page = await newPage({ url });
    await page.waitForFunction(() => document.documentElement.dataset.waiting === "0");
    await page.getByRole("link", { name }).click();
    assert.equal(await settled(page), "ready");
    const expected = report(join(folder, name)).findings.map((one) => one.statement);
    assert.deepEqual(await findings(page), expected);
    assert.ok((await page.locator(".top .trace").getAttribute("title")).startsWith(`${name}, `));
    assert.deepEqual(page.troubles, []);
    await page.close();
  }
});

test("a raw trace is read in ranges of at most 1 MiB, and zooming reads no more", async () => {
  const { url } = await serve(join(folder, "raw.trc"));
  const { traces } = await (await fetch(`${url}api/traces`)).json();
  const page = await newPage({ url: "about:blank" });
  const ranges = [];
  page.on("request", (request) => {
    if (!request.url().includes("/trace/") || request.method() !== "GET") return;
    const [, from, to] = /bytes=(\d+)-(\d+)/.exec(request.headers().range) ?? [];
    ranges.push(to - from + 1);
  });
  await page.goto(`${url}view.html?trace=${traces[0].id}`);
  assert.equal(await settled(page), "ready");
  const count = ranges.length;
  assert.ok(count > traces[0].bytes / (1 << 20), `${count} requests`);
  assert.ok(Math.max(...ranges) <= 1 << 20);
  await page.keyboard.press("n");
  await page.waitForFunction(() => window.kymo.state().selection !== null);
  await drawn(page);
  assert.ok((await state(page)).from > 0);
  assert.equal(ranges.length, count);
  assert.deepEqual(page.troubles, []);
  await page.close();
});

test("the link of a view holds the trace and the view", async () => {
  const { url } = await serve(folder);
  const page = await newPage({ url });
  await page.getByRole("link", { name: "raw.trc" }).click();
  assert.equal(await settled(page), "ready");
  await page.keyboard.press("n");
  await page.waitForFunction(() => window.kymo.state().selection !== null);
  await drawn(page);
  await page.keyboard.press("y");
  const told = await state(page);
  const address = page.url();
  const again = await newPage({ url: address });
  assert.equal(await settled(again), "ready");
  await again.waitForFunction(() => window.kymo.state().selection !== null);
  assert.equal((await state(again)).selection.id, told.selection.id);
  await again.close();
  await page.close();
});

test("what cannot be read gets one sentence in the list and in the viewer", async () => {
  const { url, server } = await serve(folder);
  const page = await newPage({ url });
  await page.waitForFunction(() => document.documentElement.dataset.waiting === "0");
  const row = page.getByRole("row", { name: /broken\.trc/ });
  assert.match(await row.textContent(), /broken\.trc: not a trace/);
  await row.getByRole("link").first().click();
  assert.equal(await settled(page), "failed");
  assert.match(await page.getByRole("alert").textContent(), /^broken\.trc.*not a trace.*\.$/);
  assert.deepEqual(page.troubles, []);
  await page.goto(`${url}view.html?trace=0123456789abcdef`);
  assert.equal(await settled(page), "failed");
  assert.match(await page.getByRole("alert").textContent(), /^kymo serve has no such trace/);
  await page.close();
  const ended = new Promise((done) => server.once("exit", done));
  server.kill("SIGTERM");
  assert.equal(await ended, 0);
});

test("reading can be cancelled", async () => {
  const { url } = await serve(folder);
  const page = await newPage({ url });
  let held;
  const isHeld = new Promise((done) => (held = done));
  await page.route(/\/trace\//, async (route) => {
    if (route.request().method() === "HEAD") return route.continue();
    held(route);
  });
  await page.getByRole("link", { name: "raw.trc" }).click();
  const route = await isHeld;
  assert.equal((await state(page)).phase, "loading");
  await page.getByRole("button", { name: /Cancel/ }).click();
  await page.waitForFunction(() => document.documentElement.dataset.state === "empty");
  await route.abort().catch(() => undefined);
  await page.unrouteAll({ behavior: "ignoreErrors" });
  await page.close();
});

test("a segment that grows is opened as far as it is, the list shows the next", async () => {
  const grows = mkdtempSync(join(folder, "grows-"));
  const whole = gunzipSync(readFileSync(OLDER));
  writeFileSync(join(grows, "000000.trc.active"), whole.subarray(0, 2000000));
  const { url } = await serve(grows);
  const page = await newPage({ url });
  await page.getByRole("link", { name: "000000.trc.active" }).click();
  assert.equal(await settled(page), "ready");
  const before = (await state(page)).durationNs;
  appendFileSync(join(grows, "000000.trc.active"), whole.subarray(2000000));
  writeFileSync(join(grows, "000001.trc"), whole);
  await page.reload();
  assert.equal(await settled(page), "ready");
  assert.ok((await state(page)).durationNs > before);
  await page.goto(url);
  assert.equal(await page.getByRole("link", { name: "000001.trc" }).count(), 1);
  await page.close();
});

test("the policy lets the page ask its own server alone", async () => {
  const { url } = await serve(folder);
  const page = await newPage({ url: `${url}view.html` });
  const tried = await page.evaluate(async (address) => {
    const foreign = await fetch("http://127.0.0.1:9/x").then(
      () => "ran",
      (error) => String(error),
    );
    const own = await fetch(`${address}api/traces`).then((answer) => answer.status);
    const broken = [];
    document.addEventListener("securitypolicyviolation", (event) =>
      broken.push(event.effectiveDirective),
    );
    await fetch("http://example.invalid/x").catch(() => undefined);
    const script = document.createElement("script");
    script.textContent = "window.foreign = true";
    document.body.append(script);
    await new Promise((done) => setTimeout(done, 100));
    return { foreign, own, broken, ran: window.foreign ?? false };
  }, url);
  assert.equal(tried.own, 200);
  assert.match(tried.foreign, /TypeError/);
  assert.ok(tried.broken.includes("connect-src"));
  assert.equal(tried.ran, false);
  await page.close();
  const frame = await newPage({ url: "about:blank" });
  await frame.setContent(`<iframe src="${url}"></iframe>`);
  await frame.waitForFunction(() => frames.length === 1);
  assert.equal(
    await frame.frames()[1].evaluate(() => document.body?.textContent?.includes("Traces") ?? false),
    false,
  );
  await frame.close();
});

test("names in files and traces are text in the list", async () => {
  const odd = mkdtempSync(join(folder, "odd-"));
  copyFileSync(GOLDEN, join(odd, `<img src=x onerror="window.hacked=1">&.trc.zst`));
  const { url } = await serve(odd);
  const page = await newPage({ url });
  const link = page.locator("td.file a");
  assert.ok((await link.textContent()).endsWith(`<img src=x onerror="window.hacked=1">&.trc.zst`));
  assert.equal(await page.locator("img").count(), 0);
  await link.click();
  assert.equal(await settled(page), "ready");
  assert.equal(await page.evaluate(() => window.hacked), undefined);
  assert.deepEqual(page.troubles, []);
  await page.close();
});

/** A program of test/cli that records polls; it goes on to its next action when `go` is called. */
async function liveHost(...polls) {
  const rings = mkdtempSync(join(folder, "rings-"));
  const gates = polls.map((_, at) => join(rings, `go${at}`));
  const actions = polls.flatMap((count, at) => [`wait=${gates[at]}`, `polls=${count}`]);
  const host = spawn(
    join(root, "build", "test", "cli", "run_host"),
    ["1000", `touch=${join(rings, "ready")}`, ...actions, `wait=${join(rings, "end")}`],
    { env: { ...process.env, KYMO_RING_DIR: rings }, stdio: "ignore" },
  );
  servers.push(host);
  while (!existsSync(join(rings, "ready"))) await new Promise((done) => setTimeout(done, 10));
  return { host, rings, go: (at) => writeFileSync(gates[at], "") };
}

/** Resolves once the line at the top says so many polls. */
const polls = (page, count) => page.getByText(` ${count} polls `).waitFor();

test("a process that runs is read anew while its end is in view, and held elsewhere", async () => {
  const { host, rings, go } = await liveHost(500, 700);
  const { url } = await serve("--live", String(host.pid), "--ring-dir", rings);
  const page = await newPage({ url });
  await page.getByRole("link", { name: /live$/ }).click();
  await settled(page);
  await polls(page, "1,000");
  go(0);
  await polls(page, "1,500");
  const button = page.getByRole("button", { name: /live|held/ });
  assert.match(await button.textContent(), /live/);
  await page.keyboard.press("ArrowUp");
  await page.waitForFunction(() => document.body.textContent.includes("○ held"));
  const held = await state(page);
  go(1);
  // What is held is not read: a copy made now has more, and the page keeps what it has.
  const served = new URL("trace/live", page.url()).href;
  assert.ok((await page.request.head(served)).ok());
  await polls(page, "1,500");
  assert.deepEqual((await state(page)).from, held.from);
  await button.click();
  await polls(page, "2,200");
  host.kill("SIGKILL");
  await page.close();
});

test("a recording in parts: the index first, then the chunks around its worst poll", async () => {
  const place = mkdtempSync(join(folder, "parts-"));
  const host = join(dirname(KYMO), "test/cli/run_host");
  // Nothing is lost, however late the recorder is: a part without a chunk would never be exact. A
  // segment ends between two chunks, and the later a recorder is the longer its chunks are.
  const sizes = ["--ring-bytes=128M", "--segment-bytes=1M"];
  const words = ["run", "-q", ...sizes, "-o", place, "--", host, "5000000"];
  const made = spawnSync(KYMO, words);
  assert.equal(made.status, 0, made.stderr.toString());
  const whole = join(place, "run_host", "latest");
  const { url } = await serve(join(place, "run_host"));
  const list = async () => (await fetch(`${url}api/traces`)).json();
  while ((await list()).waiting) await new Promise((done) => setTimeout(done, 20));
  const { traces } = await list(); // one process by its pid, which is known once they are read
  assert.ok(traces.length > 2);
  const id = traces.map((one) => one.id).join(",");
  const page = await newPage({ url: "about:blank" });
  const asked = [];
  page.on("request", (request) => asked.push(request.url().replace(/.*\/[0-9a-f]{32}/, "")));
  await page.goto(`${url}view.html?open=${id}&parts=1`);
  await page.waitForFunction(() => window.kymo.state().selection?.duration_ns);
  await drawn(page);
  const { tables, trace } = report(whole);
  const map = await (await fetch(`${url}api/map/${id}?pieces=1`)).json();
  const first = await state(page);
  const longest = Math.max(...map.workers.map((one) => one.longest[2]));
  assert.equal(first.selection.duration_ns, longest);
  assert.equal(longest, tables.polls.max_ns);
  const share = (first.from + first.to) / 2 / trace.duration_ns < 0.5 ? 0.9 : 0.1;
  assert.ok(asked.every((one) => !one.startsWith("/trace/")));
  assert.ok(await page.evaluate(() => performance.getEntriesByName("kymo-map").length === 1));

  // Another place of the strip is decoded when it is clicked, and time is the same there.
  const box = await page.locator(".map canvas").boundingBox();
  const labels = 96;
  const x = box.x + labels + share * (box.width - labels);
  await page.mouse.click(x, box.y + box.height - 4);
  const time = share * trace.duration_ns;
  await page.waitForFunction((at) => {
    const { from, to, isExact } = window.kymo.state();
    return isExact && from < at && to > at;
  }, time);
  const later = await state(page);
  const lane = later.rows.find((one) => one.kind === "worker").lane;
  const { strips } = await page.evaluate(
    ([from, to, lane]) =>
      window.kymo.strips({ from, to, pixels: 200, wanted: [{ lane, layer: 0 }] }),
    [later.from, later.to, lane],
  );
  const alone = await newPage({ url: `${url}view.html?open=${id}` });
  assert.equal(await settled(alone), "ready");
  const all = await alone.evaluate(
    ([from, to, lane]) =>
      window.kymo.strips({ from, to, pixels: 200, wanted: [{ lane, layer: 0 }] }),
    [later.from, later.to, lane],
  );
  // At the edges a poll may have begun in a chunk that was not decoded.
  assert.deepEqual(
    Object.values(strips[0].start).slice(20, 180),
    Object.values(all.strips[0].start).slice(20, 180),
  );
  assert.deepEqual([page.troubles, alone.troubles], [[], []]);
  await page.close();
  await alone.close();
});

test("processes chosen in the list are opened on one clock", async () => {
  const place = mkdtempSync(join(folder, "two-"));
  copyFileSync(GOLDEN, join(place, "one.trc.zst"));
  const other = join(root, "test", "golden", "faults", "lock_held.trc.zst");
  copyFileSync(other, join(place, "two.trc.zst"));
  const { url } = await serve(place);
  const page = await newPage({ url });
  await page.waitForFunction(() => document.documentElement.dataset.waiting === "0");
  await page.getByRole("link", { name: "choose", exact: true }).first().click();
  await page.getByRole("link", { name: "choose", exact: true }).first().click();
  await page.getByRole("link", { name: "Open the 2 chosen" }).click();
  await page.waitForFunction(() => {
    const all = window.kymo?.all() ?? [];
    return all.length === 2 && all.every((one) => one?.phase === "ready");
  });
  const all = await page.evaluate(() => window.kymo.all());
  assert.deepEqual(
    all.map((one) => one.durationNs).sort(),
    [report(GOLDEN), report(other)].map((one) => one.trace.duration_ns).sort(),
  );
  assert.deepEqual(page.troubles, []);
  await page.close();
});

test("the list lies within a narrow window, and shows the names of files", async () => {
  const { url } = await serve(folder);
  const page = await newPage({ url, width: 1024, height: 700 });
  await page.waitForFunction(() => document.documentElement.dataset.waiting === "0");
  const width = await page.evaluate(() => document.documentElement.scrollWidth);
  assert.equal(width, 1024);
  assert.ok((await page.locator("td.file").first().boundingBox()).width >= 200);
  await page.close();
});

test("a page with the trace cannot be saved once the server has ended, and says so", async () => {
  const { url, server } = await serve(folder);
  const page = await newPage({ url });
  await page.waitForFunction(() => document.documentElement.dataset.waiting === "0");
  await page.getByRole("link", { name: "fault.trc.zst" }).click();
  assert.equal(await settled(page), "ready");
  server.kill("SIGKILL");
  await new Promise((done) => server.once("exit", done));
  await page.keyboard.press("8");
  await page.getByRole("button", { name: "Save page" }).click();
  assert.match(await page.locator(".toast").textContent(), /cannot be read any more/);
  assert.deepEqual(
    page.troubles.filter((text) => !/Failed to load resource/.test(text)),
    [],
  );
  await page.close();
});
