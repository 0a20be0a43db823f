// SPDX-License-Identifier: Apache-2.0 OR MIT
// Several traces on one clock: what one shows, the others show of the same time.
import type { Served } from "../engine/protocol";
import type { Range } from "../model/view";
import type { Store } from "./store";

export const TRACES_MAX = 4;

/** How far the wall clock of one trace began after the other's, in ns. Null: one has none. */
function behind(one: Store, first: Store): number | null {
  const { startUnixNs } = one.clock;
  if (startUnixNs === 0n || first.clock.startUnixNs === 0n) return null;
  return Number(startUnixNs - first.clock.startUnixNs);
}

export class Beside {
  readonly stores: Store[];
  /** Whose findings and panels are shown. */
  active: Store;
  /** Of each, when it began after the first one. */
  private offsets: number[] = [0];
  private isMoving = false;

  constructor(private host: Store) {
    this.stores = [host];
    this.active = host;
    host.beside = this;
  }

  /** The trace with its lanes beside those of the others. */
  open(file: Blob | Served, name: string): void {
    const guest = this.host.guest();
    guest.beside = this;
    this.stores.push(guest);
    this.offsets.push(0);
    this.host.changed();
    guest.open(file, name);
  }

  close(guest: Store): void {
    const at = this.stores.indexOf(guest);
    if (at < 1) return;
    guest.cancel();
    this.stores.splice(at, 1);
    this.offsets.splice(at, 1);
    this.active = this.host;
    // What was compared with it is compared with nothing.
    for (const key of ["flame-base", "compare-with"] as const)
      if (this.host.option(key).startsWith("beside")) this.host.setOption(key, "");
    if (this.stores.length === 1) {
      this.host.beside = null;
      this.host.bounds = null;
      this.host.fit();
    }
    this.link();
    this.host.changed();
  }

  /** Ends all but the first. */
  end(): void {
    for (const guest of this.stores.slice(1)) guest.cancel();
    this.host.beside = null;
    this.host.bounds = null;
  }

  activate(store: Store): void {
    if (this.active === store) return;
    this.active = store;
    this.host.changed();
  }

  get isSideBySide(): boolean {
    return this.host.option("beside") === "side";
  }

  turn(): void {
    this.host.setOption("beside", this.isSideBySide ? "" : "side");
  }

  /** All traces have a wall clock, and all of them together are not much longer than one. */
  get canShareClock(): boolean {
    const opened = this.stores.filter((one) => one.trace);
    const ranges = opened.map((one) => {
      const from = behind(one, this.host);
      return from === null ? null : { from, to: from + one.durationNs };
    });
    if (ranges.some((one) => one === null)) return false;
    const all = ranges as Range[];
    const from = Math.min(...all.map((one) => one.from));
    // A time before the machine's own beginning has no number in its trace.
    return opened.every((one, at) => (all[at]?.from ?? 0) - from <= one.startMonoNs);
  }

  /** Each from its beginning, not by the wall clock. */
  get isFromBeginnings(): boolean {
    const wanted = this.host.option("clocks");
    if (!this.canShareClock || wanted === "begin") return true;
    return wanted !== "utc" && !this.doOverlap;
  }

  private get doOverlap(): boolean {
    return this.stores.every((one) => {
      const from = behind(one, this.host) ?? 0;
      return !one.trace || (from < this.host.durationNs && from + one.durationNs > 0);
    });
  }

  setClocks(isFromBeginnings: boolean): void {
    this.host.setOption("clocks", isFromBeginnings ? "begin" : "utc");
    this.link();
    this.host.fit();
  }

  /** Anew where each lies, once a trace was opened or is gone. */
  link(): void {
    const { view, limits } = this.host;
    const isWhole = view.from <= limits.from && view.to >= limits.to;
    const isFromBeginnings = this.isFromBeginnings;
    this.offsets = this.stores.map((one) =>
      isFromBeginnings || !one.trace ? 0 : (behind(one, this.host) ?? 0),
    );
    const opened = this.stores.flatMap((one, at) => {
      const from = this.offsets[at] ?? 0;
      return one.trace ? [{ from, to: from + one.durationNs }] : [];
    });
    if (this.stores.length < 2 || !opened.length) return;
    const from = Math.min(...opened.map((one) => one.from));
    const to = Math.max(...opened.map((one) => one.to));
    this.stores.forEach((one, at) => {
      const offset = this.offsets[at] ?? 0;
      one.bounds = { from: from - offset, to: to - offset };
    });
    if (isWhole) this.host.fit();
    this.follow(this.host);
  }

  /** A range of one trace as another has it. */
  rangeOf(range: Range, from: Store, to: Store): Range {
    const offset =
      (this.offsets[this.stores.indexOf(from)] ?? 0) - (this.offsets[this.stores.indexOf(to)] ?? 0);
    return { from: range.from + offset, to: range.to + offset };
  }

  /** All the others to where this one is. */
  follow(store: Store): void {
    if (this.isMoving) return;
    this.isMoving = true;
    for (const other of this.stores) {
      if (other === store || !other.trace) continue;
      const { from, to } = this.rangeOf(store.view, store, other);
      other.moveTo(from, to);
      other.cursor = null;
    }
    this.isMoving = false;
  }
}

/** What tells a trace from those beside it. */
export function nameOf(store: Store): string {
  const { trace } = store;
  if (!trace) return store.fileName;
  const names = store.all.map((one) => one.trace?.service ?? "");
  const service = trace.service ?? "";
  const isOwn = service && names.filter((one) => one === service).length === 1;
  const pids = store.all.map((one) => one.trace?.pid ?? "");
  if (isOwn) return service;
  if (service && trace.pid && pids.filter((one) => one === trace.pid).length === 1)
    return `${service} ${trace.pid}`;
  return [service, store.fileName].filter(Boolean).join(", ");
}

/** The trace that "besideN" names. */
export function besideOf(store: Store, option: string): Store | null {
  const match = /^beside(\d)$/.exec(option);
  const found = match ? store.all[Number(match[1])] : undefined;
  return found && found !== store && found.trace ? found : null;
}
