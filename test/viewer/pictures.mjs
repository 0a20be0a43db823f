// SPDX-License-Identifier: Apache-2.0 OR MIT
// pictures.mjs PAGE.html FOLDER - the two pictures of the README, of a page that `kymo html` wrote
// of the demo: what blocked its workers, and where its CPU time went.
import { join } from "node:path";
import { pathToFileURL } from "node:url";
import { newPage, settled, state, stop } from "./browser.mjs";

const [file, folder] = process.argv.slice(2);
if (!folder) {
  console.error("usage: pictures.mjs PAGE.html FOLDER");
  process.exit(2);
}
const page = await newPage({
  url: pathToFileURL(file).href,
  width: 1280,
  height: 860,
  colorScheme: "dark",
});
await settled(page);
const take = (name) => page.screenshot({ path: join(folder, name) });
await page.locator(".statement").filter({ hasText: "were blocked in" }).first().click();
await page.waitForFunction(() => window.kymo.state().why && window.kymo.state().isExact);
await take("viewer-finding.png");
await page.keyboard.press("0");
await page.keyboard.press("3");
await page.waitForFunction(() => window.kymo.state().panel?.sum > 0);
const { panel } = await state(page);
console.log(`${panel.rows.length} functions in the flame graph`);
await take("viewer-flame.png");
await stop();
