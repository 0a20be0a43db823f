// SPDX-License-Identifier: Apache-2.0 OR MIT
// The file as the engine reads it: windows of at most 1 MiB, one after the other. Where the browser
// can let WebAssembly wait for a promise, the page reads the next ones while one is decoded.
import type { Reader } from "./served";

export const WINDOW_BYTES = 1 << 20;
const AHEAD = 3;
const FAILED = -5; // EIO

/** Of WebAssembly, what TypeScript's library lacks: JavaScript Promise Integration. */
interface Suspending {
  Suspending?: new (read: unknown) => WebAssembly.ImportValue;
  promising?: <T extends unknown[]>(call: (...given: T) => number) => (...given: T) => unknown;
}
const { Suspending, promising } = WebAssembly as unknown as Suspending;
export const canWait = Suspending !== undefined && promising !== undefined;

/** Of the engine, what is called when it wants bytes. */
export function importOf(
  read: (offset: number, out: number, capacity: number) => number | Promise<number>,
): WebAssembly.ImportValue {
  return Suspending && canWait ? new Suspending(read) : (read as WebAssembly.ImportValue);
}

/** Calls what may want bytes. */
export async function call<T extends unknown[]>(
  called: (...given: T) => number,
  ...given: T
): Promise<number> {
  return (await (promising && canWait ? promising(called)(...given) : called(...given))) as number;
}

/** A window that the page was asked for. */
interface Coming {
  bytes: Promise<ArrayBuffer>;
  done(bytes: ArrayBuffer): void;
  failed(error: Error): void;
}

function coming(): Coming {
  const out = {} as Coming;
  out.bytes = new Promise((done, failed) => Object.assign(out, { done, failed }));
  out.bytes.catch(() => {}); // said when it is wanted
  return out;
}

export class Windows {
  /** Spent waiting for bytes, in ms. */
  waited = 0;
  private window = new Uint8Array(0);
  private at = 0;
  private coming = new Map<number, Coming>();

  constructor(
    private file: Reader,
    private ask: (from: number, end: number) => void,
    private memory: () => ArrayBuffer,
    private progress: (done: number) => void,
  ) {}

  /** Into the engine's memory. Returns how many bytes, or a promise of it; negative: none. */
  read(offset: number, out: number, capacity: number): number | Promise<number> {
    if (offset >= this.at && offset < this.at + this.window.length)
      return this.give(offset, out, capacity);
    return canWait ? this.later(offset, out, capacity) : this.now(offset, out, capacity);
  }

  private give(offset: number, out: number, capacity: number): number {
    const from = offset - this.at;
    const part = this.window.subarray(from, from + capacity);
    new Uint8Array(this.memory(), out >>> 0, part.length).set(part);
    return part.length;
  }

  private take(offset: number, bytes: ArrayBuffer): void {
    // What was read is let go of at once, not when the browser next looks for what nobody needs.
    (this.window.buffer as { transfer?: (bytes: number) => ArrayBuffer }).transfer?.(0);
    this.window = new Uint8Array(bytes);
    this.at = offset;
    this.progress(offset);
  }

  private endOf(offset: number): number {
    return Math.min(offset + WINDOW_BYTES, this.file.size);
  }

  private now(offset: number, out: number, capacity: number): number {
    const since = performance.now();
    try {
      this.take(offset, this.file.read(offset, this.endOf(offset)));
    } catch {
      return FAILED;
    }
    this.waited += performance.now() - since;
    return this.give(offset, out, capacity);
  }

  /** What was asked for, or null. */
  arrived(from: number, bytes: ArrayBuffer | null): void {
    const one = this.coming.get(from);
    if (bytes) one?.done(bytes);
    else one?.failed(new Error("it cannot be read"));
  }

  private wanted(from: number): Coming {
    const known = this.coming.get(from);
    if (known) return known;
    this.ask(from, this.endOf(from));
    return coming();
  }

  private async later(offset: number, out: number, capacity: number): Promise<number> {
    const since = performance.now();
    const first = this.wanted(offset);
    const next = new Map([[offset, first]]);
    for (let at = this.endOf(offset); next.size <= AHEAD && at < this.file.size; ) {
      next.set(at, this.wanted(at));
      at = this.endOf(at);
    }
    this.coming = next;
    try {
      this.take(offset, await first.bytes);
    } catch {
      return FAILED;
    }
    this.coming.delete(offset);
    this.waited += performance.now() - since;
    return this.give(offset, out, capacity);
  }
}
