// SPDX-License-Identifier: Apache-2.0 OR MIT
// What leaves the page: links, files.
import type { Store } from "./store";

const TOLD_MS = 4000;
const KEPT_MS = 60000;

function tell(store: Store, text: string): void {
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
