// SPDX-License-Identifier: Apache-2.0 OR MIT
// What can be chosen: the selection, the worst poll in view, the order of kinds of task.
import { Layer, NONE, type Strip } from "../engine/protocol";
import type { Hit } from "../draw/timeline";
import type { EventFacts, PollFacts, Report, RunFacts, SpanFacts, WhyAnswer } from "./trace";

export interface Selection {
  kind: Hit["kind"];
  lane: number;
  layer: number;
  row: number;
  poll: PollFacts | null;
  span: SpanFacts | null;
  run: RunFacts | null;
  event: EventFacts | null;
  why: WhyAnswer | null;
  isWhyAsked: boolean;
}

/** What is selected, before anything is known of it. */
export function selectionOf(of: Pick<Selection, "kind" | "lane" | "layer" | "row">): Selection {
  return { ...of, poll: null, span: null, run: null, event: null, why: null, isWhyAsked: false };
}

/** The longest poll of these strips; of equal ones the first. */
export function worstOf(strips: readonly Strip[]): Hit | null {
  let best: Hit | null = null;
  for (const strip of strips) {
    for (let at = 0; at < strip.pixels; at++) {
      const length = strip.length[at] ?? 0;
      if (strip.row[at] === NONE || (best && length <= best.duration_ns)) continue;
      best = {
        kind: "poll",
        lane: strip.lane,
        layer: Layer.main,
        row: strip.row[at] ?? 0,
        start_ns: strip.start[at] ?? 0,
        duration_ns: length,
        task: strip.task[at] ?? NONE,
        name: "",
      };
    }
  }
  return best;
}

/** Kinds of task by the time of their polls, for colours: most first. */
export function ranksOf(names: ReadonlyMap<number, string>, report: Report): Map<number, number> {
  const byText = new Map([...names].map(([index, text]) => [text, index]));
  const ranks = new Map<number, number>();
  for (const one of report.tables.tasks ?? []) {
    const index = byText.get(one.name ?? "");
    if (index !== undefined && !ranks.has(index)) ranks.set(index, ranks.size);
  }
  for (const index of names.keys()) if (!ranks.has(index)) ranks.set(index, ranks.size);
  return ranks;
}

/** What all that can be selected have. */
export function chosenOf(
  selection: Selection | null,
): PollFacts | SpanFacts | RunFacts | EventFacts | null {
  if (!selection) return null;
  return selection.poll ?? selection.span ?? selection.run ?? selection.event;
}
