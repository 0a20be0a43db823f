// SPDX-License-Identifier: Apache-2.0 OR MIT
// The page in a browser, its policy in force: numbers, hits, keys, links, hostile traces.
import assert from "node:assert/strict";
import { spawnSync } from "node:child_process";
import { mkdtempSync, readFileSync, rmSync, statSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { after, before, test } from "node:test";
import { pathToFileURL } from "node:url";
import { gunzipSync } from "node:zlib";
import {
  data,
  drawn,
  KYMO,
  newPage,
  open,
  settled,
  state,
  stop,
  VIEWER,
  watchPicture,
} from "./browser.mjs";

const DEMO = data("dial9-0.5.7-demo.bin.gz");
const OLDER = data("dial9-2026-05-demo.bin.gz");
const ZOOMS = 200;
const HITS_EACH = 5;
let folder;

before(() => (folder = mkdtempSync(join(tmpdir(), "kymo-viewer-"))));
after(async () => {
  await stop();
  rmSync(folder, { recursive: true });
});

function kymo(words, env = {}) {
  const run = spawnSync(KYMO, words, { maxBuffer: 1 << 28, env: { ...process.env, ...env } });
  return { status: run.status, out: run.stdout.toString(), err: run.stderr.toString() };
}

function report(path) {
  return JSON.parse(kymo(["report", "--json", path]).out);
}

/** A generator with a seed, so that a failure can be had again. */
function dice(seed) {
  let at = seed;
  return () => {
    at = (Math.imul(at, 1664525) + 1013904223) >>> 0;
    return at / 4294967296;
  };
}

function findings(page) {
  return page.locator(".statement .text").allTextContents();
}

for (const path of [DEMO, OLDER]) {
  test(`numbers on the page are those of kymo report: ${path.split("/").pop()}`, async () => {
    const expected = report(path);
    const page = await newPage();
    assert.equal(await open(page, path), "ready");
    assert.deepEqual(
      await findings(page),
      expected.findings.map((one) => one.statement),
    );
    const words = await page.locator(".top .trace").textContent();
    assert.ok(
      words.includes(`${expected.tables.polls.count.toLocaleString("en-US")} polls`),
      words,
    );
    const rows = page.locator(".statement");
    for (let at = 0; at < Math.min(3, expected.findings.length); at++) {
      await rows.nth(at).click();
      const more = await page.locator(".finding.chosen .more").textContent();
      assert.ok(more.includes(expected.findings[at].action));
      assert.ok(more.includes(expected.findings[at].impact.statement));
    }
    assert.deepEqual(page.troubles, []);
    await page.close();
  });
}

/** Of a worker, all polls as `kymo view` lists them, by begin. */
function pollsOf(path, startNs) {
  const lines = kymo([
    ..."view polls --format csv -n 0 --columns worker,start_ns,duration_ns".split(" "),
    path,
  ]).out.split("\n");
  const polls = new Map();
  for (const line of lines.slice(1)) {
    const [worker, start, duration] = line.split(",");
    if (!duration) continue;
    const list = polls.get(worker) ?? [];
    list.push({ start: Number(BigInt(start) - startNs), duration: Number(duration) });
    polls.set(worker, list);
  }
  for (const list of polls.values()) list.sort((a, b) => a.start - b.start);
  return polls;
}

/** Length of the longest poll that a pixel has, by a look at all of them. */
function longest(polls, from, to) {
  let found = null;
  for (const poll of polls) {
    if (poll.start >= to) break;
    const isInside = poll.start >= from || poll.start + poll.duration > from;
    if (isInside && (found === null || poll.duration > found)) found = poll.duration;
  }
  return found;
}

test("at any zoom a click on a pixel selects its longest poll", async () => {
  const { trace } = report(OLDER);
  const polls = pollsOf(OLDER, BigInt(trace.start_mono_ns));
  const random = dice(7);
  const page = await newPage();
  assert.equal(await open(page, OLDER), "ready");
  let compared = 0;
  for (let zoom = 0; zoom < ZOOMS; zoom++) {
    const span = Math.max(2000, trace.duration_ns * 2 ** (-20 * random()));
    const from = random() * (trace.duration_ns - span);
    await page.evaluate(
      ([a, b]) => (location.hash = `from=${Math.round(a)}&to=${Math.round(b)}`),
      [from, from + span],
    );
    await page.waitForFunction(
      (a) => window.kymo.state().from === a && window.kymo.state().isExact,
      Math.round(from),
    );
    const now = await state(page);
    const rows = now.rows.filter((one) => one.kind === "worker" && one.lane < 2);
    for (let at = 0; at < HITS_EACH; at++) {
      const row = rows[Math.floor(random() * rows.length)];
      const pixel = Math.floor(random() * now.pixels);
      const x = now.canvas.x + now.canvas.labels + pixel + 0.5;
      const y = now.canvas.y + now.canvas.axis + row.top + 15;
      const hit = await page.evaluate(([a, b]) => window.kymo.hit(a, b), [x, y]);
      // Edges as ky_view_edge() has them.
      const wide = BigInt(now.to - now.from);
      const edge = (i) => now.from + Number((wide * BigInt(i)) / BigInt(now.pixels));
      const list = polls.get(String(row.lane));
      assert.equal(hit ? hit.duration_ns : null, longest(list, edge(pixel), edge(pixel + 1)));
      compared += hit ? 1 : 0;
    }
  }
  assert.ok(compared > ZOOMS);
  assert.deepEqual(page.troubles, []);
  await page.close();
});

test("the first picture is called so when each lane is drawn from all events", async () => {
  const page = await newPage();
  await watchPicture(page);
  for (const path of [OLDER, DEMO]) {
    assert.equal(await open(page, path), "ready");
    await page.waitForFunction(() => window.picture);
    const { isExact, longest } = await page.evaluate(() => window.picture);
    assert.equal(isExact, true);
    assert.equal(longest, report(path).tables.polls.max_ns);
    await page.evaluate(() => delete window.picture);
  }
  await page.close();
});

test("the policy refuses eval, requests, foreign scripts and forms that leave", async () => {
  const page = await newPage();
  assert.equal(await open(page, OLDER), "ready");
  const refused = await page.evaluate(async () => {
    const later = (what) => new Promise((done) => setTimeout(() => done(what()), 0));
    const tries = {};
    tries.eval = await later(() => {
      try {
        return (0, eval)("1 + 1") === 2 ? "ran" : "refused";
      } catch {
        return "refused";
      }
    });
    tries.fetch = await fetch("https://example.invalid/x").then(
      () => "ran",
      () => "refused",
    );
    const script = document.createElement("script");
    script.textContent = "window.foreign = true";
    document.body.append(script);
    tries.script = window.foreign ? "ran" : "refused";
    const broken = [];
    document.addEventListener("securitypolicyviolation", (event) =>
      broken.push(event.effectiveDirective),
    );
    const form = document.createElement("form");
    form.action = "https://example.invalid/";
    document.body.append(form);
    form.submit();
    const image = document.createElement("img");
    image.src = "https://example.invalid/i.png";
    document.body.append(image);
    await new Promise((done) => setTimeout(done, 300));
    tries.form = broken.includes("form-action") ? "refused" : "ran";
    tries.image = broken.includes("img-src") ? "refused" : "ran";
    return tries;
  });
  assert.deepEqual(refused, {
    eval: "refused",
    fetch: "refused",
    script: "refused",
    form: "refused",
    image: "refused",
  });
  await page.close();
});

test("names with HTML in them are text", async () => {
  const bytes = gunzipSync(readFileSync(OLDER));
  const name = "examples/metrics-service/src/axum_traced.rs:173:32";
  const hostile = `<img src=x onerror="window.hacked=1">`.padEnd(name.length, ".");
  let at = -1;
  let changed = 0;
  while ((at = bytes.indexOf(name, at + 1)) >= 0) changed += bytes.write(hostile, at) > 0 ? 1 : 0;
  assert.ok(changed > 0);
  const page = await newPage();
  assert.equal(await open(page, { name: `<b id="bold">.trc`, buffer: bytes }), "ready");
  const texts = await findings(page);
  assert.ok(
    texts.some((text) => text.includes("<img src=x")),
    texts.join("\n"),
  );
  await page.locator(".statement").first().click();
  await page.waitForFunction(() => window.kymo.state().selection !== null);
  await page.keyboard.press("t");
  await page.waitForFunction(() => window.kymo.state().task >= 0);
  assert.equal(await page.evaluate(() => window.hacked), undefined);
  assert.equal(await page.locator("img, #bold").count(), 0);
  await page.close();
});

test("what cannot be read gets one sentence, and the page can open the next", async () => {
  const whole = readFileSync(DEMO);
  const packed = join(data(".."), "golden", "faults", "alloc_burst.trc.zst");
  const page = await newPage();
  const cases = [
    [{ name: "empty.trc", buffer: Buffer.alloc(0) }, /^empty\.trc is empty\.$/],
    [
      { name: "picture.gif", buffer: Buffer.from("GIF89a....") },
      /^picture\.gif: byte 0: this is not a trace.*\.$/,
    ],
    [{ name: "torn.gz", buffer: whole.subarray(0, 12) }, /^torn\.gz.*\.$/],
    [{ name: "torn.zst", buffer: readFileSync(packed).subarray(0, 9) }, /^torn\.zst.*\.$/],
  ];
  for (const [file, sentence] of cases) {
    assert.equal(await open(page, file), "failed");
    const shown = await page.getByRole("alert").textContent();
    assert.match(shown, sentence);
    assert.equal(shown.includes("\n"), false);
  }
  const half = gunzipSync(whole).subarray(0, 3000000);
  assert.equal(await open(page, { name: "half.trc", buffer: half }), "ready");
  assert.match(await page.locator(".lost").first().textContent(), /notice/);
  assert.equal(await open(page, { name: "half.gz", buffer: whole.subarray(0, 1000000) }), "ready");
  // What is no trace takes the place of nothing.
  const before = (await state(page)).durationNs;
  await open(page, { name: "notes.txt", buffer: Buffer.from("hello") });
  await page.getByText("notes.txt is not a trace, so what was open stays.").waitFor();
  assert.equal((await state(page)).durationNs, before);
  assert.deepEqual(page.troubles, []);
  await page.close();
});

test("the keyboard alone is enough", async () => {
  const page = await newPage();
  assert.equal(await open(page, OLDER), "ready");
  const key = async (name) => {
    await page.keyboard.press(name);
    await page.evaluate(() => new Promise((done) => requestAnimationFrame(() => done())));
    return state(page);
  };
  await key("n");
  await page.waitForFunction(() => window.kymo.state().selection !== null);
  const first = await state(page);
  assert.ok(first.finding && first.to - first.from < first.durationNs);
  const before = first.to - first.from;
  assert.ok((await key("w")).to - (await state(page)).from < before);
  assert.ok((await key("s")).to - (await state(page)).from >= before * 0.99);
  const right = await key("d");
  assert.ok(right.from > first.from);
  assert.equal((await key("0")).from, 0);
  assert.equal((await key("z")).from, right.from);
  await key(".");
  await page.waitForFunction(
    (id) => ![undefined, id].includes(window.kymo.state().selection?.id),
    first.selection.id,
  );
  await key("t");
  await page.waitForFunction(() => window.kymo.state().task >= 0);
  assert.equal((await key("c")).colouring, "place");
  assert.equal((await key("u")).isUtc, true);
  await key("?");
  assert.equal(await page.getByRole("dialog", { name: "Help" }).count(), 1);
  await key("Escape");
  assert.equal(await page.getByRole("dialog").count(), 0);
  await key("/");
  await page.keyboard.type("?main.rs");
  assert.equal(await page.getByRole("dialog", { name: "Search" }).count(), 1);
  await page.getByRole("searchbox").fill("main.rs");
  await page.waitForFunction(() => document.querySelectorAll(".found .badge").length > 0);
  await key("Enter");
  await page.waitForFunction(() => !document.querySelector("[role=dialog]"));
  await key("g");
  await page.keyboard.type("1500ms");
  await key("Enter");
  const gone = await state(page);
  assert.ok(gone.from < 1.5e9 && gone.to > 1.5e9);
  assert.equal((await key("Escape")).selection, null);
  assert.deepEqual(page.troubles, []);
  await page.close();
});

test("a link holds the whole view", async () => {
  const page = await newPage();
  assert.equal(await open(page, OLDER), "ready");
  await page.keyboard.press("n");
  await page.waitForFunction(() => window.kymo.state().why !== null);
  for (const name of ["t", "c", "u"]) await page.keyboard.press(name);
  await page.waitForFunction(() => window.kymo.state().task >= 0);
  await drawn(page);
  await page.keyboard.press("y");
  const told = await state(page);
  const hash = await page.evaluate(() => location.hash);
  const again = await newPage({ url: pathToFileURL(VIEWER).href + hash });
  assert.equal(await open(again, OLDER), "ready");
  await again.waitForFunction(() => window.kymo.state().why !== null);
  await again.waitForFunction(() => window.kymo.state().taskIndex !== 0xffffffff);
  const read = await state(again);
  const keys = ["from", "to", "selected", "task", "finding", "colouring", "theme", "isUtc"];
  for (const name of keys) assert.deepEqual(read[name], told[name], name);
  assert.equal(read.selection.id, told.selection.id);
  await page.close();
  await again.close();
});

test("the parts of a delay are those of kymo why", async () => {
  const page = await newPage();
  assert.equal(await open(page, OLDER), "ready");
  const expected = JSON.parse(kymo(["why", "--json", "--worst", "1", OLDER]).out).worst[0];
  const { trace } = report(OLDER);
  const at = expected.ready_ns + expected.delay_ns - Number(trace.start_mono_ns);
  await page.evaluate((time) => (location.hash = `sel=poll:0:${time}`), at);
  await page.waitForFunction(() => window.kymo.state().why !== null);
  const { why, selection } = await state(page);
  assert.equal(selection.delay_ns, expected.delay_ns);
  assert.deepEqual(why.worst[0].parts, expected.parts);
  assert.deepEqual(why.worst[0].timeline, expected.timeline);
  const shown = await page.getByRole("region", { name: "Why it waited" }).textContent();
  assert.match(shown, /from ready to poll/);
  await page.close();
});

test("kymo html writes one page that opens by itself", async () => {
  const path = join(folder, "report.html");
  const { status, err } = kymo(["html", OLDER, "-o", path]);
  assert.equal(status, 0, err);
  assert.equal(statSync(path).mode & 0o777, 0o600);
  assert.equal(kymo(["html", OLDER, "-o", path]).status, 1);
  const page = await newPage({ url: pathToFileURL(path).href });
  assert.equal(await settled(page), "ready");
  assert.deepEqual(
    await findings(page),
    report(OLDER).findings.map((one) => one.statement),
  );
  assert.deepEqual(page.troubles, []);
  await page.close();
  const odd = join(folder, `a"><b id=bold>&.gz`);
  writeFileSync(odd, readFileSync(OLDER));
  const made = join(folder, "odd.html");
  assert.equal(kymo(["html", odd, "-o", made]).status, 0);
  const other = await newPage({ url: pathToFileURL(made).href });
  assert.equal(await settled(other), "ready");
  assert.equal(await other.locator("#bold").count(), 0);
  await other.close();
});

test("kymo open makes the page of a trace and says where", () => {
  const { status, out } = kymo(["open", OLDER], { XDG_CACHE_HOME: folder, PATH: folder });
  assert.equal(status, 0);
  assert.match(out, /^\/.*\/kymo\/[0-9a-f]{16}\.html\n$/);
  assert.ok(statSync(out.trim()).size > 1000000);
  for (const words of [
    ["html", "nosuch.trc", "-o", "x"],
    ["open", "nosuch.trc"],
    ["html", KYMO, "-o", join(folder, "x")],
  ]) {
    const wrong = kymo(words, { XDG_CACHE_HOME: folder });
    assert.equal(wrong.status, 1);
    assert.equal(wrong.err.trim().split("\n").length, 1);
  }
});

for (const [width, height, deviceScaleFactor] of [
  [1280, 720, 1],
  [3840, 2160, 1],
  [1280, 720, 2],
]) {
  test(`nothing lies outside ${width} x ${height} at ${deviceScaleFactor}x`, async () => {
    const page = await newPage({ width, height, deviceScaleFactor });
    assert.equal(await open(page, OLDER), "ready");
    const size = await page.evaluate(() => [
      document.documentElement.scrollWidth,
      document.documentElement.scrollHeight,
    ]);
    assert.deepEqual(size, [width, height]);
    const { canvas, pixels } = await state(page);
    assert.equal(pixels, Math.round((canvas.width - canvas.labels) * deviceScaleFactor));
    assert.ok(canvas.height >= 200);
    assert.deepEqual(page.troubles, []);
    await page.close();
  });
}

test("kymo html --max-mb writes the findings and tables of a larger trace alone", async () => {
  const path = data("dial9-0.5.7-demo.bin.gz");
  const out = join(folder, "summary.html");
  const made = spawnSync(KYMO, ["html", "--max-mb", "1", "-o", out, path]);
  assert.equal(made.status, 0, made.stderr.toString());
  assert.ok(statSync(out).size < statSync(path).size);
  const page = await newPage({ url: pathToFileURL(out).href });
  await page.waitForFunction(() => document.documentElement.dataset.state === "ready");
  const report = JSON.parse(
    spawnSync(KYMO, ["report", "--json", path], { maxBuffer: 1 << 28 }).stdout.toString(),
  );
  assert.deepEqual(
    await page.locator(".statement .text").allTextContents(),
    report.findings.map((one) => one.statement),
  );
  const text = await page.locator(".summary").textContent();
  assert.ok(text.includes(report.tables.polls.count.toLocaleString("en-US")));
  await page.locator(".statement").first().click();
  await page.locator(".finding.chosen .more").waitFor();
  assert.deepEqual(page.troubles, []);
  await page.close();
});
