// SPDX-License-Identifier: Apache-2.0 OR MIT
// build.mjs ENGINE.wasm OUTPUT.html - the viewer as one file: scripts, style and engine inline, and
// a Content-Security-Policy with the hashes of just these.
import { createHash } from "node:crypto";
import { readFileSync, writeFileSync } from "node:fs";
import { dirname, join } from "node:path";
import { fileURLToPath } from "node:url";
import { gzipSync } from "node:zlib";
import { build } from "esbuild";

const here = dirname(fileURLToPath(import.meta.url));
const [engine, output] = process.argv.slice(2);
if (!engine || !output) {
  console.error("usage: build.mjs ENGINE.wasm OUTPUT.html");
  process.exit(2);
}

async function bundle(entry, define) {
  const made = await build({
    absWorkingDir: here,
    entryPoints: [entry],
    bundle: true,
    minify: true,
    write: false,
    define,
    format: "iife",
    target: "es2022",
    jsx: "automatic",
    jsxImportSource: "preact",
    legalComments: "none",
    charset: "utf8",
    logLevel: "warning",
  });
  return made.outputFiles[0].text;
}

async function style() {
  const made = await build({
    absWorkingDir: here,
    entryPoints: ["src/app/style.css"],
    bundle: true,
    minify: true,
    write: false,
    logLevel: "warning",
  });
  return made.outputFiles[0].text.trim();
}

const hash = (text) => `'sha256-${createHash("sha256").update(text).digest("base64")}'`;
const worker = await bundle("src/engine/worker.ts");
// A string of the page's script may hold no end of a script, nor the beginning of a comment.
const script = (await bundle("src/app/main.tsx", { WORKER_SOURCE: JSON.stringify(worker) }))
  .replaceAll("</script", "<\\/script")
  .replaceAll("<!--", "<\\!--")
  .trim();
const css = await style();
const wasm = gzipSync(readFileSync(engine), { level: 9 }).toString("base64");
const policy = [
  "default-src 'none'",
  `script-src ${hash(script)} 'wasm-unsafe-eval'`,
  `style-src ${hash(css)}`,
  "worker-src blob:",
  "base-uri 'none'",
  "form-action 'none'",
].join("; ");

writeFileSync(
  output,
  `<!doctype html>
<html lang="en" data-state="empty">
<head>
<meta charset="utf-8">
<meta http-equiv="Content-Security-Policy" content="${policy}">
<meta name="viewport" content="width=device-width">
<title>kymo</title>
<style>${css}</style>
</head>
<body>
<script type="application/wasm" id="kymo-wasm">${wasm}</script>
<!--kymo-trace-->
<script>${script}</script>
</body>
</html>
`,
);
const bytes = readFileSync(output);
console.log(
  `viewer.html: ${bytes.length} bytes, ${gzipSync(bytes, { level: 9 }).length} compressed`,
);
