// SPDX-License-Identifier: Apache-2.0 OR MIT
// measure.mjs FILE - opens a trace in the page and prints one JSON object: times to the first
// picture and to the findings; frames while zooming and while moving, how far apart they are and
// what one costs the page's own thread; memory of the renderer.
// Measured times decide no test: this is for people, on a machine that does nothing else.
import { newPage, open, renderersMib, state, stop } from "./browser.mjs";

const STEPS = 120;
const LOOKING_MS = 2000; // for a file, as a person does before choosing one
const [file] = process.argv.slice(2);
if (!file) {
  console.error("usage: measure.mjs FILE");
  process.exit(2);
}

/** Of intervals between frames, in ms. */
function quantiles(list) {
  const sorted = [...list].sort((a, b) => a - b);
  const at = (share) => Number(sorted[Math.floor((sorted.length - 1) * share)].toFixed(1));
  return { frames: sorted.length, p50: at(0.5), p95: at(0.95), max: at(1) };
}

/** What the page's own thread has spent so far, in ms of CPU or nearly so. */
async function spent(page) {
  const { metrics } = await page.cdp.send("Performance.getMetrics");
  const of = (name) => 1000 * metrics.find((one) => one.name === name).value;
  return { task: of("TaskDuration"), script: of("ScriptDuration") };
}

/** Turns the wheel in each frame, so that no frame counts in which nothing happened. */
async function frames(page, at, isMove) {
  const before = await spent(page);
  const intervals = await page.evaluate(
    ([x, y, steps, isShift]) =>
      new Promise((done) => {
        const canvas = document.querySelector(".lanes canvas");
        const list = [];
        let last = 0;
        const next = (now) => {
          if (last) list.push(now - last);
          last = now;
          if (list.length === steps) return done(list);
          const deltaY = (list.length % 60 < 30 ? -1 : 1) * (isShift ? 20 : 120);
          const how = { deltaY, clientX: x, clientY: y, shiftKey: isShift, cancelable: true };
          canvas.dispatchEvent(new WheelEvent("wheel", how));
          requestAnimationFrame(next);
        };
        requestAnimationFrame(next);
      }),
    [at.x, at.y, STEPS, isMove],
  );
  const after = await spent(page);
  const each = (name) => Number(((after[name] - before[name]) / STEPS).toFixed(2));
  return { ...quantiles(intervals), task_ms: each("task"), script_ms: each("script") };
}

// An empty page, in the same browser: what of the memory is not the trace's.
const blank = await newPage({ url: "about:blank", width: 1920, height: 1080 });
const [empty] = await renderersMib();
await blank.close();
const page = await newPage({ width: 1920, height: 1080 });
page.cdp = await page.context().newCDPSession(page);
await page.cdp.send("Performance.enable");
await page.waitForTimeout(LOOKING_MS);
const phase = await open(page, file);
const marks = await page.evaluate(() =>
  Object.fromEntries(performance.getEntriesByType("mark").map((one) => [one.name, one.startTime])),
);
const waited = await page.evaluate(
  () => performance.getEntriesByName("kymo-read")[0].detail.waited,
);
/** Of the way to the first picture. */
const steps = Object.fromEntries(
  ["worker", "read", "loaded", "first-picture"].map((name, index, names) => [
    name,
    Math.round(marks[`kymo-${name}`] - marks[`kymo-${names[index - 1] ?? "open"}`]),
  ]),
);
const [opened] = await renderersMib();
const { canvas } = await state(page);
const x = canvas.x + canvas.labels + 600;
const y = canvas.y + 100;
const zoom = await frames(page, { x, y }, false);
await page.evaluate(() => (location.hash = "from=100000000&to=500000000"));
await page.waitForFunction(() => window.kymo.state().isExact);
const move = await frames(page, { x, y }, true);
console.log(
  JSON.stringify({
    phase,
    first_picture_ms: Math.round(marks["kymo-first-picture"] - marks["kymo-open"]),
    steps_ms: { ...steps, waited: Math.round(waited) },
    ready_ms: Math.round(marks["kymo-ready"] - marks["kymo-open"]),
    zoom_ms: zoom,
    move_ms: move,
    renderer_mib: { empty, opened, moved: (await renderersMib())[0] },
  }),
);
await stop();
