// SPDX-License-Identifier: Apache-2.0 OR MIT
// Names in every script, and names that are HTML: each is shown as it is, in every panel, and none
// becomes part of the page.
import assert from "node:assert/strict";
import { after, before, test } from "node:test";
import { newPage, open, state, stop } from "./browser.mjs";
import { Made } from "./made.mjs";

const SCRIPTS = [
  "кириллица::задача",
  "ελληνικά::εργασία",
  "עברית::משימה",
  "عربي::مهمة",
  "हिन्दी::कार्य",
  "ไทย::งาน",
  "中文::任务",
  "日本語::タスク",
  "한국어::작업",
  "ქართული::დავალება",
  "emoji::👩‍👩‍👧🏳️‍🌈",
  "z͑ͫa̴ͪl͜go::t̶a̛s͡k",
  "rtl::\u202Egpj.exe",
  "zero::wi\u200bdth",
];
const HTML = [
  "<img src=x onerror=window.hacked=1>",
  "</script><script>window.hacked=1</script>",
  "<svg onload=window.hacked=1>",
  "\"'><iframe srcdoc='<script>parent.hacked=1</script>'>",
  "<style>*{display:none}</style>",
  "<!--",
  "javascript:window.hacked=1",
  "${window.hacked=1}{{constructor.constructor('window.hacked=1')()}}",
  "&lt;b&gt;&#60;i&#62;",
];
const NAMES = [...SCRIPTS, ...HTML];
const START_NS = 1e9;
const [PANELS, SPAN_NS] = ["123456789", 3e5];
let page;

/** Each name as kind of task, span, field, value, event, counter, note, thread, runtime and
 *  service. */
function made() {
  const out = new Made();
  const at = (name, step) => START_NS + NAMES.indexOf(name) * 1e6 + step;
  out.event("SegmentMetadataEvent", START_NS, [
    "entries",
    "map",
    [
      ["service.name", HTML[0]],
      ["service", HTML[0]],
      ["host", HTML[1]],
      [HTML[2], HTML[3]],
    ],
  ]);
  NAMES.forEach((name, index) => {
    const task = ["dial9.tokio.task_id", "varint", index + 1];
    const span = ["span_id", "varint", index + 1];
    out.event(
      "ThreadEvent",
      at(name, 1),
      ["tid", "u32", 100 + index],
      ["name", "string", name],
      ["start_ns", "varint", START_NS],
      ["exited", "u8", 0],
    );
    out.event(
      "RuntimeEvent",
      at(name, 2),
      ["runtime_id", "varint", index],
      ["name", "string", name],
      ["kind", "u8", 1],
      ["copy", "u8", 0],
    );
    out.event(
      "WorkerEvent",
      at(name, 3),
      ["worker_id", "varint", index],
      ["runtime_id", "varint", index],
      ["tid", "u32", 100 + index],
    );
    out.event("PollStartEvent", at(name, 10), ["worker_id", "varint", index], [
      "task_id",
      "varint",
      index + 1,
    ], ["spawn_loc", "string", name]);
    out.event(`SpanEnter:${name}:svc:1`, at(name, 20), task, span, [name, "string", name]);
    out.event(name, at(name, 30), [name, "string", name], ["number", "varint", index]);
    out.event("CounterEvent", at(name, 40), ["name", "string", name], ["value", "i64", index]);
    out.event("AnnotationEvent", at(name, 50), ["tid", "u32", 0], ["label", "string", name]);
    out.event(`SpanExit:${name}:svc:1`, at(name, SPAN_NS), task, span);
    out.event("PollEndEvent", at(name, index ? 4e5 : 9e8), ["worker_id", "varint", index]);
  });
  return out.bytes;
}

before(async () => {
  page = await newPage({ width: 1600, height: 1000 });
  assert.equal(await open(page, { name: `${HTML[0]}.trc`, buffer: made() }), "ready");
});
after(async () => {
  assert.deepEqual(page.troubles, []);
  await stop();
});

async function isClean() {
  assert.equal(await page.evaluate(() => window.hacked), undefined);
  assert.equal(await page.locator("img, svg, iframe, i[b], :not(head) > style").count(), 0);
  assert.equal(await page.evaluate(() => document.querySelectorAll("body script").length), 2);
}

test("each name is found by it, and shown as it is", async () => {
  for (const name of NAMES) {
    await page.keyboard.press("/");
    await page.getByRole("searchbox").fill(name);
    await page.waitForFunction(
      (wanted) =>
        [...document.querySelectorAll(".found")].some((one) => one.textContent.includes(wanted)),
      name,
    );
    await page.keyboard.press("Escape");
  }
  await isClean();
});

test("in every panel, with the task of every name", async () => {
  for (const name of NAMES) {
    const task = NAMES.indexOf(name) + 1;
    await page.evaluate((id) => (location.hash = `task=${id}`), task);
    await page.waitForFunction((id) => window.kymo.state().task === id, task);
    await page.waitForFunction(() => document.querySelector(".details")?.textContent);
    await isClean();
  }
  await page.keyboard.press("Enter");
  await page.waitForFunction(() => window.kymo.state().selection);
  for (const panel of PANELS) {
    await page.keyboard.press(panel);
    await page.waitForFunction(() => window.kymo.state().isExact);
    await isClean();
  }
});

test("rows are named by runtimes, spans, events and counters", async () => {
  const labels = (await state(page)).rows.map((one) => one.label);
  for (const name of NAMES) assert.ok(labels.includes(`runtime ${name}`), name);
  await isClean();
});
