// SPDX-License-Identifier: Apache-2.0 OR MIT
// The page in a real browser: opened from disk, as a user does, with its own policy in force.
import { readFileSync } from "node:fs";
import { createRequire } from "node:module";
import { dirname, join, resolve } from "node:path";
import { fileURLToPath, pathToFileURL } from "node:url";

export const root = join(dirname(fileURLToPath(import.meta.url)), "..", "..");
export const data = (name) => join(root, "test", "data", name);
export const VIEWER = resolve(process.env.KYMO_VIEWER ?? join(root, "build/viewer/viewer.html"));
export const KYMO = resolve(process.env.KYMO ?? join(root, "build/kymo"));

const require = createRequire(join(root, "viewer", "package.json"));
const { chromium } = require("playwright-core");
const SETTLE_MS = 60000;

let browser;

export async function start() {
  browser ??= await chromium.launch({
    executablePath: process.env.KYMO_BROWSER ?? "/usr/bin/chromium",
    args: process.getuid() === 0 ? ["--no-sandbox"] : [],
  });
  return browser;
}

export async function stop() {
  await browser?.close();
  browser = undefined;
}

/** An empty page; what goes wrong in it is in page.troubles. */
export async function newPage({ url, width = 1280, height = 720, ...rest } = {}) {
  await start();
  const page = await browser.newPage({ viewport: { width, height }, ...rest });
  page.setDefaultTimeout(SETTLE_MS);
  page.troubles = [];
  page.on("pageerror", (error) => page.troubles.push(String(error.stack ?? error)));
  page.on("console", (message) => {
    if (message.type() === "error") page.troubles.push(message.text());
  });
  await page.goto(url ?? pathToFileURL(VIEWER).href);
  return page;
}

/** file: a path, or { name, buffer }. Returns the state it ends in. */
export async function open(page, file) {
  const chooser = page.waitForEvent("filechooser");
  await page.getByRole("button", { name: /^Open/ }).last().click();
  const given = typeof file === "string" ? file : { mimeType: "application/octet-stream", ...file };
  await (await chooser).setFiles(given);
  return settled(page);
}

export async function settled(page) {
  await page.waitForFunction(() => {
    const phase = document.documentElement.dataset.state;
    return phase === "ready" || phase === "failed";
  });
  const phase = await page.evaluate(() => document.documentElement.dataset.state);
  if (phase === "ready") await drawn(page);
  return phase;
}

/** Until every strip is of the view, and drawn. */
export async function drawn(page) {
  await page.waitForFunction(() => window.kymo.state().isExact);
  await page.evaluate(() => new Promise((done) => requestAnimationFrame(() => done())));
}

/** Keeps what a visitor has at the very moment at which the page says that all lanes are drawn:
 * window.picture. longest: what clicks on each pixel of each lane of a worker in view select. */
export async function watchPicture(page) {
  await page.evaluate(() => {
    const mark = performance.mark.bind(performance);
    performance.mark = (name, options) => {
      const { isExact, phase, canvas, rows } = window.kymo.state();
      if (name === "kymo-first-picture") {
        let longest = 0;
        for (const row of rows.filter((one) => one.kind === "worker"))
          for (let x = canvas.labels + 0.5; x < canvas.width; x++) {
            const y = canvas.axis + row.top + 15;
            const hit = y < canvas.height ? window.kymo.hit(canvas.x + x, canvas.y + y) : null;
            longest = Math.max(longest, hit?.duration_ns ?? 0);
          }
        window.picture = { isExact, phase, longest };
      }
      return mark(name, options);
    };
  });
}

/** Memory of the renderers, in MiB, the largest first: resident; of that what no file is behind;
 * and resident with each shared page by its share. */
export async function renderersMib() {
  const cdp = await (await start()).newBrowserCDPSession();
  const { processInfo } = await cdp.send("SystemInfo.getProcessInfo");
  const mib = (text, key) =>
    Math.round(Number(new RegExp(`^${key}:\\s+(\\d+) kB`, "m").exec(text)?.[1] ?? 0) / 1024);
  return processInfo
    .filter((one) => one.type === "renderer")
    .map(({ id }) => {
      const text = readFileSync(`/proc/${id}/smaps_rollup`, "utf8");
      return { rss: mib(text, "Rss"), anonymous: mib(text, "Anonymous"), pss: mib(text, "Pss") };
    })
    .sort((a, b) => b.rss - a.rss);
}

/** Resident memory of the largest renderer. */
export const rendererMib = async () => (await renderersMib())[0].rss;

export const state = (page) => page.evaluate(() => window.kymo.state());
