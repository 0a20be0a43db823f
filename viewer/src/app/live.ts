// SPDX-License-Identifier: Apache-2.0 OR MIT
// A process that runs: the page reads a newer copy of its ring again and again, as long as its end
// is in view and nothing of the copy is being looked at.
import type { Engine } from "../engine/client";
import { NONE, type Opened, type Served, type ViewAnswer } from "../engine/protocol";
import { findServed } from "../engine/served";
import { layRows, rowsWithin, wantedOf } from "../layout/rows";
import type { PointsLane, Report, TraceInfo } from "../model/trace";
import type { Range } from "../model/view";
import type { Store } from "./store";

const REST_MS = 1000;

/** A trace that was read beside the one that is shown, with all that its first picture needs. */
export interface Copy {
  engine: Engine;
  file: Blob | Served;
  name: string;
  trace: TraceInfo;
  report: Report;
  pointsLanes: PointsLane[];
  answer: ViewAnswer;
}

/** The end of the trace is in view, and nothing is chosen or open that belongs to this copy. */
function isAtEnd(store: Store): boolean {
  return (
    store.phase === "ready" &&
    store.view.to >= store.durationNs &&
    !store.selection &&
    !store.range &&
    !store.view.finding &&
    !store.option("panel") &&
    store.taskIndex === NONE &&
    !store.isSearchOpen &&
    !store.isGoOpen
  );
}

/** Its end, as much of it as is shown now. */
function endOf(store: Store, trace: TraceInfo): Range {
  const { from, to } = store.view;
  const isWhole = from === 0 && to >= store.durationNs;
  return {
    from: isWhole ? 0 : Math.max(0, trace.duration_ns - (to - from)),
    to: trace.duration_ns,
  };
}

/** With what is to be shown of it. Null: it cannot be read. */
export async function readCopy(
  store: Store,
  file: Blob | Served,
  name: string,
  rangeOf: (trace: TraceInfo) => Range,
): Promise<Copy | null> {
  let engine: Engine | null = null;
  const opened = await new Promise<Opened | null>((done) => {
    engine = store.engineBeside(file, name, done, () => done(null));
  });
  const next = engine as Engine | null;
  const report = opened ? await next?.ask<Report>({ op: "findings" }) : null;
  if (!next || !opened || !report) {
    next?.close();
    return null;
  }
  const trace = JSON.parse(opened.lanes) as TraceInfo;
  const pointsLanes = JSON.parse(opened.points) as PointsLane[];
  const rows = layRows(trace, "", store.folded, pointsLanes, store);
  const { from, to } = rangeOf(trace);
  const answer = await next.strips({
    from,
    to,
    pixels: store.pixels,
    wanted: wantedOf(rowsWithin(rows, store.rowsAsked)),
  });
  return { engine: next, file, name, trace, report, pointsLanes, answer };
}

export class Live {
  isOn = true;
  /** Why no newer copy comes any more. */
  sentence = "";

  constructor(
    private store: Store,
    private url: string,
  ) {
    this.waitFor(REST_MS);
  }

  /** What is shown stays as it is until it is followed again. */
  get isHeld(): boolean {
    return !isAtEnd(this.store);
  }

  /** Lets go of what was chosen, and moves to the end, at the same zoom. */
  follow(): void {
    const { store } = this;
    const span = Math.min(store.view.to - store.view.from, store.durationNs);

    this.isOn = true;
    store.dropFinding();
    if (store.taskIndex !== NONE) store.hideTask();
    store.setPanel("");
    store.setRange(store.durationNs - span, store.durationNs);
    store.clearSelection();
  }

  pause(): void {
    this.isOn = false;
    this.store.changed();
  }

  private waitFor(ms: number): void {
    window.setTimeout(() => void this.step(), ms);
  }

  /** The copy takes the place of what is shown, unless that is being looked at by then. */
  private async renew(): Promise<void> {
    const { file, name } = await findServed(this.url);
    const copy = await readCopy(this.store, file, name, (trace) => endOf(this.store, trace));

    if (!copy) return;
    if (this.isHeld || this.store.live !== this) {
      copy.engine.close();
      return;
    }
    this.store.dropFinding();
    this.store.adopt(copy);
  }

  /** A copy that takes long to read is no reason to do nothing else. */
  private async step(): Promise<void> {
    if (this.store.live !== this) return; // another trace was opened
    const began = performance.now();
    if (this.isOn && !this.isHeld && !document.hidden) {
      try {
        await this.renew();
      } catch (error) {
        this.sentence = (error as Error).message;
        this.pause();
        return;
      }
    }
    this.waitFor(Math.max(REST_MS, 2 * (performance.now() - began)));
  }
}
