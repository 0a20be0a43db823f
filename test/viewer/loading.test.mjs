// SPDX-License-Identifier: Apache-2.0 OR MIT
// Between the choice of a file and its first picture: reading ends when it is told to, and the page
// is as before.
import assert from "node:assert/strict";
import { after, test } from "node:test";
import { data, newPage, open, settled, state, stop } from "./browser.mjs";

const DEMO = data("dial9-0.5.7-demo.bin.gz");
const OLDER = data("dial9-2026-05-demo.bin.gz");

after(stop);

/** When the engine first says how far it is, `act` happens, before the engine can say more.
 * window.workers: of each worker that was given a file, whether it was ended. */
async function actAtFirstProgress(page, act) {
  await page.evaluate((how) => {
    const { postMessage, terminate } = Worker.prototype;
    const seen = new Map();
    window.workers = () => [...seen.values()].map((one) => ({ ...one }));
    Worker.prototype.postMessage = function (message, ...rest) {
      if (message.kind === "open") {
        const one = { said: 0, isEnded: false };
        seen.set(this, one);
        this.addEventListener("message", ({ data: { kind } }) => {
          one.said++;
          if (one.said > 1 || kind !== "progress") return;
          if (how === "Cancel") document.querySelector("main.start button").click();
          else window.dispatchEvent(new KeyboardEvent("keydown", { key: how, bubbles: true }));
        });
      }
      return postMessage.call(this, message, ...rest);
    };
    Worker.prototype.terminate = function () {
      const one = seen.get(this);
      if (one) one.isEnded = true;
      return terminate.call(this);
    };
    window.unwatch = () => Object.assign(Worker.prototype, { postMessage, terminate });
  }, act);
}

async function choose(page, file) {
  const chooser = page.waitForEvent("filechooser");
  await page.getByRole("button", { name: /^Open/ }).last().click();
  await (await chooser).setFiles(file);
}

for (const act of ["Cancel", "Escape"])
  test(`${act} ends the worker that reads, and the next file opens`, async () => {
    const page = await newPage();
    await actAtFirstProgress(page, act);
    await choose(page, DEMO);
    await page.waitForFunction(() => window.workers()[0]?.isEnded);
    assert.equal((await state(page)).phase, "empty");
    assert.equal(await page.locator(".start .drop").count(), 1);
    assert.equal(await page.getByRole("progressbar").count(), 0);
    await page.evaluate(() => window.unwatch());
    assert.equal(await open(page, OLDER), "ready");
    const first = await page.evaluate(() => window.workers());
    assert.deepEqual(first, [{ said: 1, isEnded: true }]);
    assert.match(await page.locator(".top .trace").getAttribute("title"), /^dial9-2026-05/);
    assert.deepEqual(page.troubles, []);
    await page.close();
  });

test("a file chosen while another one is read takes its place", async () => {
  const page = await newPage();
  await page.evaluate(() => {
    const { postMessage } = Worker.prototype;
    window.opened = 0;
    Worker.prototype.postMessage = function (message, ...rest) {
      if (message.kind === "open" && window.opened++ === 0) return; // it reads for ever
      postMessage.call(this, message, ...rest);
    };
  });
  await choose(page, DEMO);
  await page.waitForFunction(() => window.opened === 1);
  assert.equal(await page.evaluate(() => document.documentElement.dataset.state), "loading");
  assert.match(await page.getByRole("status").first().textContent(), /^Reading dial9-0\.5\.7/);
  await choose(page, OLDER);
  assert.equal(await settled(page), "ready");
  assert.match(await page.locator(".top .trace").getAttribute("title"), /^dial9-2026-05/);
  assert.deepEqual(page.troubles, []);
  await page.close();
});
