// SPDX-License-Identifier: Apache-2.0 OR MIT
// From a finding to what proves it: marked, zoomed to, selected.
import type { Finding } from "../model/trace";
import type { Store } from "./store";

const ROOM_ABOVE = 60;
const ROW_ROOM = 200;

/** Marks what the finding is about; null: there is none. */
export function markFinding(store: Store, at: number): Finding | null {
  const finding = store.report?.findings[at];
  if (!finding) return null;
  store.view.finding = finding.key;
  const byText = new Map([...store.names].map(([index, text]) => [text, index]));
  store.culprit = finding.culprit.task !== null ? (byText.get(finding.culprit.task) ?? -1) : -1;
  const lanes = store.trace?.lanes ?? [];
  store.evidence = finding.evidence.map((one) => ({
    from: one.from_ns,
    to: one.to_ns,
    lane: lanes.findIndex(
      (lane) => lane.kind === "worker" && lane.tid === one.thread && one.thread !== null,
    ),
  }));
  return finding;
}

/** Marked, zoomed to, its first evidence selected. */
export async function chooseFinding(store: Store, at: number): Promise<void> {
  const finding = markFinding(store, at);
  if (!finding) return;
  store.saveHash();
  store.changed();
  store.say(finding.statement);
  if (finding.evidence[0]) await showEvidence(store, at, 0);
}

export async function showEvidence(store: Store, at: number, which: number): Promise<void> {
  const finding = markFinding(store, at);
  const one = finding?.evidence[which];
  if (!one) return;
  // Readings are of the process or a thread: no poll is what they say.
  const isOfPoll = one.kind !== "readings";
  const poll = isOfPoll ? await store.selectPollAt(one.task ?? -1, one.from_ns) : null;
  if (!isOfPoll) store.clearSelection();
  const from = one.from_ns;
  const to = Math.max(
    one.to_ns,
    one.from_ns + (poll && one.kind === "poll" ? poll.duration_ns : 0),
  );
  if (poll && one.kind === "poll")
    store.evidence = store.evidence.map((mark, index) =>
      index === which ? { ...mark, lane: poll.lane } : mark,
    );
  store.show(from, to);
  reveal(store, poll?.lane ?? -1);
  store.changed();
}

function reveal(store: Store, lane: number): void {
  const row = store.rows.find((one) => one.lane === lane && one.kind === "worker");
  if (row && (row.top < store.scroll || row.top + row.height > store.scroll + ROW_ROOM))
    store.scroll = Math.max(0, row.top - ROOM_ABOVE);
}
