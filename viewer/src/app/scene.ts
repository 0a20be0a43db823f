// SPDX-License-Identifier: Apache-2.0 OR MIT
// What the canvas draws, of the state of the page.
import type { Scene } from "../draw/timeline";
import { chosenOf } from "../model/choice";
import { notesOf } from "../model/marks";
import type { Store } from "./store";

/** From the wake that made the selected poll's task ready to that poll. */
function arrowOf(store: Store): Scene["arrow"] {
  const { poll, why } = store.selection ?? {};
  const wake = why?.worst[0]?.woken_by;
  if (!poll || !wake || wake.worker === null) return null;
  const lane = store.trace?.lanes.findIndex(
    (one) => one.kind === "worker" && one.worker === wake.worker,
  );
  if (lane === undefined || lane < 0) return null;
  return {
    from: { lane, time: wake.time_ns - store.startMonoNs },
    to: { lane: poll.lane, time: poll.start_ns },
  };
}

export function sceneOf(store: Store): Scene | null {
  if (!store.trace) return null;
  const one = chosenOf(store.selection);
  return {
    rows: store.rows,
    from: store.view.from,
    to: store.view.to,
    durationNs: store.durationNs,
    scroll: store.scroll,
    strips: store.strips,
    counts: store.counts,
    points: store.points,
    losses: store.trace.losses,
    readings: store.trace.readings,
    names: store.names,
    ranks: store.ranks,
    culprit: store.culprit,
    evidence: store.evidence,
    task: store.taskIndex,
    arrow: arrowOf(store),
    notes: notesOf(store.option("marks")),
    selected:
      one && store.selection
        ? {
            lane: store.selection.lane,
            isEvent: store.selection.event !== null,
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
