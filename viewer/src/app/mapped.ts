// SPDX-License-Identifier: Apache-2.0 OR MIT
// A recording that is too large to be read whole: the first picture is of the indexes of its
// segments, and chunks are decoded when no more than 64 lie in view.
import { around, chunksIn, worstOfMap, type TraceMap } from "../model/map";
import { fromHash, type Range } from "../model/view";
import { readCopy } from "./live";
import type { Store } from "./store";

const CHUNKS_MAX = 64; // of kymo serve
/** Chunks are counted by where they begin, so some more may touch a time. */
const CHUNKS_ASKED = 48;
const REST_MS = 250;
/** Of kymo serve, where a segment can only be read whole. */
const NO_INDEX = 422;
const GONE = "kymo serve does not answer any more; start it again and use its new address.";

export class Mapped {
  /** Of all; of the part that is shown. */
  whole: TraceMap | null = null;
  shown: TraceMap | null = null;
  /** What is decoded, in the map's time. */
  part: Range | null = null;
  view: Range = { from: 0, to: 1 };
  sentence = "";
  isReading = false;
  pieces = 1200;

  private timer = 0;
  private isAsking = false;
  private wanted: Range | null = null;
  private status = 0;

  constructor(
    private store: Store,
    private base: string,
    private ids: string,
  ) {}

  /** The first picture; then the chunks around the longest poll, or of the address. False: there
   * is no index of all of it. Throws the sentence of another trouble. */
  async start(): Promise<boolean> {
    performance.mark("kymo-open");
    const map = await this.ask(null);
    if (!map && this.status !== NO_INDEX) throw new Error(this.sentence);
    if (!map) return false;
    this.whole = this.shown = map;
    this.view = { from: 0, to: map.duration_ns };
    this.store.mapped = this;
    this.store.changed();
    requestAnimationFrame(() => performance.mark("kymo-map"));
    const linked = fromHash(location.hash, map.duration_ns, "dark");
    const isLinked = /[#&]from=/.test(location.hash);
    const worst = worstOfMap(map);
    const time = worst ? worst.start + worst.length / 2 : 0;
    await this.read(isLinked ? linked : around(map, time, CHUNKS_ASKED));
    if (!isLinked && worst) await this.choose(worst.start);
    this.store.subscribe(() => this.watch());
    return true;
  }

  /** Where the lanes' time began, in the map's. */
  private get offset(): number {
    const start = this.store.trace?.start_mono_ns;
    return start ? Number(BigInt(start) - BigInt(this.whole?.start_mono_ns ?? "0")) : 0;
  }

  /** What the lanes show, in the map's time. */
  get lanesView(): Range {
    const { from, to } = this.store.view;
    return { from: from + this.offset, to: to + this.offset };
  }

  private async ask(range: Range | null): Promise<TraceMap | null> {
    const times = range ? `&from=${Math.round(range.from)}&to=${Math.round(range.to)}` : "";
    const address = `${this.base}api/map/${this.ids}?pieces=${this.pieces}${times}`;
    const answer = await fetch(address).catch(() => null);
    this.status = answer?.status ?? 0;
    if (answer?.ok) return (await answer.json()) as TraceMap;
    this.sentence = answer
      ? (await answer.text()).trim()
      : GONE;
    this.store.changed();
    return null;
  }

  /** Another part of the map, with its own pieces. */
  zoom(range: Range): void {
    const all = this.whole?.duration_ns ?? 1;
    const span = Math.min(Math.max(range.to - range.from, this.pieces), all);
    const from = Math.min(Math.max(0, (range.from + range.to - span) / 2), all - span);
    this.view = { from, to: from + span };
    this.store.redraw();
    void this.refine();
  }

  private async refine(): Promise<void> {
    this.wanted = this.view;
    if (this.isAsking) return;
    this.isAsking = true;
    while (this.wanted) {
      const range: Range = this.wanted;
      this.wanted = null;
      const map = await this.ask(range);
      if (map) this.shown = map;
      this.store.redraw();
    }
    this.isAsking = false;
  }

  /** Decodes what can be decoded around this moment; selects the poll that is there. */
  async goTo(time: number, poll: number | null): Promise<void> {
    if (!this.shown) return;
    await this.read(around(this.shown, time, CHUNKS_ASKED));
    if (poll !== null) await this.choose(poll);
  }

  private async choose(start: number): Promise<void> {
    const poll = await this.store.selectPollAt(-1, start - this.offset);
    if (poll) this.store.show(poll.start_ns, poll.start_ns + poll.duration_ns);
  }

  /** A range of the map: decoded, or the sentence says why not. */
  async choosePart(range: Range): Promise<void> {
    const chunks = this.shown ? chunksIn(this.shown, range.from, range.to) : 0;
    if (chunks > CHUNKS_MAX) {
      this.zoom(range);
      return;
    }
    await this.read(range);
  }

  /** Chunks that come into view are decoded. */
  private watch(): void {
    clearTimeout(this.timer);
    this.timer = window.setTimeout(() => {
      const { store, part, whole } = this;
      if (!part || !whole || this.isReading || store.phase !== "ready") return;
      const view = this.lanesView;
      const from = Math.max(0, view.from);
      const to = Math.min(whole.duration_ns, view.to);
      const isInside = from >= part.from && to <= part.to;
      if (isInside || chunksIn(whole, from, to) > CHUNKS_MAX - 8) return;
      void this.read({ from, to });
    }, REST_MS);
  }

  private async read(range: Range): Promise<void> {
    const { store } = this;
    const from = Math.max(0, Math.round(range.from));
    const to = Math.max(from + 1, Math.round(range.to));
    this.isReading = true;
    this.sentence = "";
    store.changed();
    const answer = await fetch(`${this.base}part/${this.ids}?from=${from}&to=${to}`).catch(
      () => null,
    );
    if (answer?.ok) {
      const file = await answer.blob();
      const name = this.whole?.service ?? "part";
      this.part = { from, to };
      if (store.trace) await this.adopt(file, name, { from, to });
      else await this.openFirst(file, name, { from, to });
    } else {
      this.sentence = answer ? (await answer.text()).trim() : GONE;
    }
    this.isReading = false;
    store.changed();
  }

  private async openFirst(file: Blob, name: string, range: Range): Promise<void> {
    const { store } = this;
    store.open(file, name);
    store.mapped = this;
    await new Promise<void>((done) => {
      const stop = store.subscribe(() => {
        if (store.phase === "loading") return;
        stop();
        done();
      });
    });
    if (!/[#&]from=/.test(location.hash))
      store.setRange(range.from - this.offset, range.to - this.offset, false);
  }

  /** In the place of what is shown; the view and what is selected stay. */
  private async adopt(file: Blob, name: string, range: Range): Promise<void> {
    const { store } = this;
    const before = this.lanesView;
    const isKept = before.from < range.to && before.to > range.from;
    const { offset } = this;
    const copy = await readCopy(store, file, name, () =>
      isKept ? store.view : { from: range.from - offset, to: range.to - offset },
    );
    if (!copy) {
      this.sentence = "This part cannot be read.";
      return;
    }
    const { selected } = store.view;
    store.dropFinding();
    store.clearSelection();
    store.adopt(copy);
    if (selected) await store.selectById(selected);
  }
}
