// SPDX-License-Identifier: Apache-2.0 OR MIT
// From one poll to the next, and from words to what they mean.
import type { Hit } from "../draw/timeline";
import { Layer } from "../engine/protocol";
import { chosenOf } from "../model/choice";
import { parseMoment } from "../model/time";
import type { Found, PollFacts } from "../model/trace";
import { clampRange, type Colouring } from "../model/view";
import { chooseFinding } from "./evidence";
import type { Store } from "./store";

/** The poll before or after it, on its worker or of its task. */
export async function step(store: Store, by: 1 | -1, ofTask: boolean): Promise<void> {
  const selection = store.selection;
  if (!selection?.poll) {
    await store.selectWorstInView();
    return;
  }
  if (!ofTask) {
    await store.select({
      kind: "poll",
      lane: selection.lane,
      layer: Layer.main,
      row: selection.row + by,
    });
  } else {
    await store.showTask(selection.poll.task.index, selection.poll.task.id);
    const strip = await taskNeighbour(store, selection.poll.start_ns, by);
    if (strip) await store.select(strip);
  }
  const poll = store.selection?.poll;
  if (
    poll &&
    (poll.start_ns + poll.duration_ns < store.view.from || poll.start_ns > store.view.to)
  ) {
    const span = store.view.to - store.view.from;
    store.setRange(poll.start_ns - span / 2, poll.start_ns + span / 2);
  }
}

async function taskNeighbour(
  store: Store,
  start: number,
  by: 1 | -1,
): Promise<Pick<Hit, "kind" | "lane" | "layer" | "row"> | null> {
  const lane = (store.trace?.lanes.length ?? 1) - 1;
  const rows = store.trace?.lanes[lane]?.rows ?? 0;
  let low = 0;
  let high = rows;
  while (low < high) {
    const middle = (low + high) >> 1;
    const poll = (await store.ask({
      op: "facts",
      lane,
      layer: Layer.main,
      row: middle,
    })) as PollFacts | null;
    if (!poll) return null;
    if (poll.start_ns < start) low = middle + 1;
    else high = middle;
  }
  const row = low + by;
  return row >= 0 && row < rows ? { kind: "poll", lane, layer: Layer.main, row } : null;
}

export async function search(store: Store, text: string): Promise<void> {
  store.found = text.trim()
    ? (((await store.ask({ op: "search", text: text.trim() })) as Found[] | null) ?? [])
    : [];
  store.changed();
}

export async function goToFound(store: Store, one: Found): Promise<void> {
  store.isSearchOpen = false;
  if (one.kind === "task" || one.kind === "kind") {
    const id = one.kind === "task" ? one.id : -1;
    await store.showTask(one.task, id);
    const lane = (store.trace?.lanes.length ?? 1) - 1;
    await store.select({ kind: "poll", lane, layer: Layer.main, row: 0 });
    const poll = store.selection?.poll;
    if (poll) {
      store.view.task = poll.task.id;
      store.lay();
      store.fit();
    }
  } else if (one.kind === "function") {
    const poll = await store.selectPollAt(one.task_id ?? -1, one.poll_start_ns);
    if (poll) store.show(poll.start_ns, poll.start_ns + poll.duration_ns);
  } else {
    const row = store.rows.find((each) => each.lane === one.lane);
    if (row) store.scroll = Math.max(0, row.top - 60);
  }
  store.changed();
}

/** Zooms to what is chosen; once it is shown so, back to all. */
export function showSelection(store: Store): void {
  const one = chosenOf(store.selection);
  if (!one) store.fit();
  else {
    const from = store.selection?.poll?.ready_ns ?? one.start_ns;
    const to = one.start_ns + one.duration_ns;
    const room = Math.max((to - from) * 1.5, 20000);
    const [begin, end] = clampRange(from - room, to + room, store.limits, store.pixels);
    if (begin === store.view.from && end === store.view.to) store.fit();
    else store.setRange(begin, end);
  }
}

/** A moment as text. False: it is none of this trace. */
export function goTo(store: Store, text: string): boolean {
  const at = parseMoment(text, store.clock);
  if (at === null || at < 0 || at > store.durationNs) return false;
  const span = Math.min(store.view.to - store.view.from, store.durationNs / 20);
  store.setRange(at - span / 2, at + span / 2);
  store.cursor = at;
  store.changed();
  return true;
}

/** What is in view as the measured range; once it is that, none. */
export function measureView(store: Store): void {
  const { from, to } = store.view;
  const isSame = store.range?.from === from && store.range.to === to;
  store.range = isSame ? null : { from, to };
  store.saveHash();
  store.changed();
}

/** First what is selected, then what the finding marks. */
export function clear(store: Store): void {
  if (store.selection || store.range || store.cursor !== null) {
    store.clearSelection();
    return;
  }
  store.dropFinding();
  store.saveHash();
  store.changed();
}

export function nextColouring(store: Store): void {
  const all: Colouring[] = ["duration", "place", "finding"];
  store.setColouring(all[(all.indexOf(store.view.colouring) + 1) % all.length] ?? "duration");
}

export async function stepFinding(store: Store, by: 1 | -1): Promise<void> {
  const all = store.report?.findings.length ?? 0;
  if (all)
    await chooseFinding(
      store,
      (store.findingIndex + by + all + (store.findingIndex < 0 && by < 0 ? 1 : 0)) % all,
    );
}
