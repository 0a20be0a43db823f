// SPDX-License-Identifier: Apache-2.0 OR MIT
// Several files of one recording as one: parts of a trace that follow each other.
import { tell } from "./share";
import type { Store } from "./store";

const ZSTD = [0x28, 0xb5, 0x2f, 0xfd];
const GZIP = [0x1f, 0x8b];

async function begins(file: Blob, magic: readonly number[]): Promise<boolean> {
  const bytes = new Uint8Array(await file.slice(0, magic.length).arrayBuffer());
  return magic.every((one, at) => bytes[at] === one);
}

async function unzipped(file: Blob): Promise<Blob> {
  const stream = file
    .stream()
    .pipeThrough(
      new DecompressionStream("gzip") as unknown as TransformStream<
        Uint8Array<ArrayBuffer>,
        Uint8Array<ArrayBuffer>
      >,
    );
  return new Response(stream).blob();
}

/** What is open stays open. */
function refuse(store: Store, sentence: string): void {
  if (store.trace) tell(store, sentence);
  else store.fail(sentence);
}

/** In the order of their names. */
export async function openFiles(store: Store, given: Iterable<File>): Promise<void> {
  const files = [...given].sort((a, b) => (a.name < b.name ? -1 : 1));
  const [first] = files;
  if (!first) return;
  store.live = null;
  if (files.length === 1) {
    await store.open(first, first.name);
    return;
  }
  try {
    const parts = await Promise.all(
      files.map(async (file) => ((await begins(file, GZIP)) ? unzipped(file) : file)),
    );
    const isPacked = await Promise.all(parts.map((part) => begins(part, ZSTD)));
    if (isPacked.includes(true) && isPacked.includes(false)) {
      refuse(store, "Some of these files are packed by zstd and some are not: open one by one.");
      return;
    }
    await store.open(new Blob(parts), `${first.name} and ${files.length - 1} more`);
  } catch {
    refuse(store, "One of these files cannot be unpacked: open one by one to see which.");
  }
}
