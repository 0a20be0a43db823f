// SPDX-License-Identifier: Apache-2.0 OR MIT
// What the canvas draws, of the state of the page.
import type { Scene } from "../draw/timeline";
import type { Store } from "./store";

export function sceneOf(store: Store): Scene | null {
  if (!store.trace) return null;
  const one = store.selection?.poll ?? store.selection?.span ?? store.selection?.run ?? null;
  return {
    rows: store.rows,
    from: store.view.from,
    to: store.view.to,
    scroll: store.scroll,
    strips: store.strips,
    counts: store.counts,
    losses: store.trace.losses,
    readings: store.trace.readings,
    names: store.names,
    ranks: store.ranks,
    culprit: store.culprit,
    evidence: store.evidence,
    task: store.taskIndex,
    selected:
      one && store.selection
        ? {
            lane: store.selection.lane,
            start: one.start_ns,
            length: one.duration_ns,
            ready: store.selection.poll?.ready_ns ?? null,
          }
        : null,
    range: store.range,
    cursor: store.cursor,
    colouring: store.view.colouring,
    theme: store.view.theme,
    clock: store.clock,
  };
}
