// SPDX-License-Identifier: Apache-2.0 OR MIT
// What leaves the page: links, files.
import { chosenOf } from "../model/choice";
import { bytesOf } from "../engine/served";
import { notesOf } from "../model/marks";
import type { Store } from "./store";

const TOLD_MS = 4000;
const KEPT_MS = 60000;
const PAGE_BYTES_MAX = 2 ** 28; // as of kymo html

/** For a moment, over the page. */
export function tell(store: Store, text: string): void {
  store.copied = text;
  store.changed();
  window.setTimeout(() => {
    store.copied = "";
    store.changed();
  }, TOLD_MS);
}

export function address(store: Store): string {
  const hash = store.hash();
  return `${location.href.replace(/#.*/, "")}${hash ? `#${hash}` : ""}`;
}

export async function copyLink(store: Store): Promise<void> {
  const link = address(store);
  history.replaceState(null, "", link);
  const isCopied = await navigator.clipboard.writeText(link).then(
    () => true,
    () => false,
  );
  tell(store, isCopied ? "The link is copied." : link);
}

/** Gives a file to the user. */
export function save(store: Store, name: string, content: BlobPart): void {
  const link = document.createElement("a");
  link.href = URL.createObjectURL(new Blob([content]));
  link.download = `${store.fileName.replace(/\..*$/, "")}-${name}`;
  link.click();
  window.setTimeout(() => URL.revokeObjectURL(link.href), KEPT_MS);
}

/** The lanes as they are drawn. */
export function savePicture(store: Store): void {
  const canvas = document.querySelector<HTMLCanvasElement>(".lanes canvas");
  canvas?.toBlob((picture) => {
    if (picture) save(store, "lanes.png", picture);
  });
}

/** What is in view, selected and shown, as numbers; times from the beginning of the trace. */
export function saveJson(store: Store): void {
  const { from, to } = store.view;
  const finding = store.report?.findings[store.findingIndex];
  const all = {
    trace: {
      file: store.fileName,
      service: store.trace?.service,
      pid: store.trace?.pid,
      start_unix_ns: store.trace?.start_unix_ns,
      start_mono_ns: store.trace?.start_mono_ns,
    },
    address: store.hash(),
    view: { from_ns: from, to_ns: to },
    range: store.range,
    notes: notesOf(store.option("marks")),
    finding,
    selected: chosenOf(store.selection),
    why: store.selection?.why?.worst[0],
    panel: { name: store.option("panel"), shows: store.shown },
  };
  save(store, "view.json", `${JSON.stringify(all, null, 1)}\n`);
}

function base64(file: Blob): Promise<string> {
  return new Promise((done, failed) => {
    const reader = new FileReader();
    reader.onload = () => done(String(reader.result).replace(/^[^,]*,/, ""));
    reader.onerror = () => failed(new Error("it cannot be read any more"));
    reader.readAsDataURL(file);
  });
}

const escaped = (text: string): string =>
  text.replaceAll("&", "&amp;").replaceAll('"', "&quot;").replaceAll("<", "&lt;");

// A page of `kymo serve` got its policy by a header, and keeps it for such pages.
const POLICY = "meta[http-equiv], meta[name=kymo-policy]";

/** One page with the trace, this view and the notes: the parts of this one, as they were built. */
export async function savePage(store: Store): Promise<void> {
  if (!store.file) return;
  if (store.file.size > PAGE_BYTES_MAX) {
    tell(store, "The trace is larger than 256 MiB, too large for a page: share it as a file.");
    return;
  }
  const policy = document.querySelector<HTMLMetaElement>(POLICY)?.content;
  const text = (at: string): string => document.querySelector(at)?.textContent ?? "";
  const head =
    '<meta charset="utf-8">\n' +
    (policy
      ? `<meta http-equiv="Content-Security-Policy" content="${escaped(policy)}">\n`
      : "") +
    '<meta name="viewport" content="width=device-width">\n<title>kymo</title>\n' +
    `<style>${text("style")}</style>`;
  const { file } = store;
  const bytes = await bytesOf(file, 0, file.size).catch(() => null);
  if (!bytes) {
    tell(store, `${store.fileName} cannot be read any more, so it is in no page.`);
    return;
  }
  const trace = await base64(new Blob([bytes]));
  const data = `data-name="${escaped(store.fileName)}" data-view="${escaped(store.hash())}"`;
  save(
    store,
    "kymo.html",
    `<!doctype html>\n<html lang="en" data-state="empty">\n<head>\n${head}\n</head>\n<body>\n` +
      `<script type="application/wasm" id="kymo-wasm">${text("#kymo-wasm")}</script>\n` +
      `<script type="application/octet-stream" id="kymo-trace" ${data}>${trace}</script>\n` +
      `<script>${text("script:not([type])")}</script>\n</body>\n</html>\n`,
  );
}
