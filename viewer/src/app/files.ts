// SPDX-License-Identifier: Apache-2.0 OR MIT
// Several files of one recording as one: parts of a trace that follow each other.
import { Beside, TRACES_MAX } from "./beside";
import { tell } from "./share";
import type { Store } from "./store";

const ZSTD = [0x28, 0xb5, 0x2f, 0xfd];
const GZIP = [0x1f, 0x8b];
const PLAIN = [0x54, 0x52, 0x43]; // "TRC"
/** Of zstd's skippable frames, which may come first, without the 16 numbers of their kinds. */
const SKIPPED = [0x2a, 0x4d, 0x18];

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

async function mayBeTrace(file: Blob): Promise<boolean> {
  const checks = [PLAIN, GZIP, ZSTD].map((magic) => begins(file, magic));
  return (await Promise.all([...checks, begins(file.slice(1), SKIPPED)])).includes(true);
}

/** What is open stays open. */
function refuse(store: Store, sentence: string): void {
  if (store.trace) tell(store, sentence);
  else store.fail(sentence);
}

/** Parts of one recording, in the order of their names. Throws a sentence. */
export async function joined(given: Iterable<File>): Promise<{ file: Blob; name: string } | null> {
  const files = [...given].sort((a, b) => (a.name < b.name ? -1 : 1));
  const [first] = files;
  if (!first) return null;
  if (files.length === 1) return { file: first, name: first.name };
  const parts = await Promise.all(
    files.map(async (file) => ((await begins(file, GZIP)) ? unzipped(file) : file)),
  ).catch(() => {
    throw new Error("One of these files cannot be unpacked: open one by one to see which.");
  });
  const isPacked = await Promise.all(parts.map((part) => begins(part, ZSTD)));
  if (isPacked.includes(true) && isPacked.includes(false))
    throw new Error(
      "Some of these files are packed by zstd and some are not: open one by one.",
    );
  return { file: new Blob(parts), name: `${first.name} and ${files.length - 1} more` };
}

export async function openFiles(store: Store, given: Iterable<File>): Promise<void> {
  try {
    const one = await joined(given);
    if (!one) return;
    // With nothing open the engine says what is wrong, and where.
    if (store.trace && !(await mayBeTrace(one.file))) {
      tell(store, `${one.name} is not a trace, so what was open stays.`);
      return;
    }
    store.live = null;
    store.open(one.file, one.name);
  } catch (error) {
    refuse(store, (error as Error).message);
  }
}

/** On the same clock as what is open. */
export async function openBeside(store: Store, given: Iterable<File>): Promise<void> {
  if (store.all.length >= TRACES_MAX) {
    tell(store, `At most ${TRACES_MAX} traces are shown beside each other: close one first.`);
    return;
  }
  try {
    const one = await joined(given);
    if (one) (store.beside ?? new Beside(store)).open(one.file, one.name);
  } catch (error) {
    tell(store, (error as Error).message);
  }
}
