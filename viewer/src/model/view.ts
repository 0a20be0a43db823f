// SPDX-License-Identifier: Apache-2.0 OR MIT
// The view as one value, and as the part of a URL after '#'. Keys never change their meaning.

export type Colouring = "duration" | "place" | "finding";
export type Theme = "dark" | "light";

export interface Range {
  from: number;
  to: number;
}

/** Before and after all that a trace has. */
export const ALL_TIME: Range = { from: -4e18, to: 4e18 };

/** "FROM-TO" */
export function rangeOf(text: string): Range | null {
  const match = /^(\d+)-(\d+)$/.exec(text);
  const from = Number(match?.[1]);
  const to = Number(match?.[2]);
  return match && to > from ? { from, to } : null;
}

// What panels keep in the URL, each under its own key.
export const OPTIONS = [
  "panel",
  "flame",
  "flame-in",
  "flame-task",
  "flame-find",
  "flame-up",
  "flame-of",
  "flame-base",
  "span-name",
  "span-in",
  "span-field",
  "wakes-in",
  "charts",
  "rates",
  "events-of",
  "events-in",
  "range",
  "marks",
  "compare-in",
  "compare-with",
  "beside",
  "clocks",
] as const;
export type Option = (typeof OPTIONS)[number];

export interface ViewState {
  from: number;
  to: number;
  /** poll:LANE-WORKER:TIME of the trace, as in the URL; "" nothing. */
  selected: string;
  /** Task id; -1: none. */
  task: number;
  finding: string;
  colouring: Colouring;
  theme: Theme;
  isUtc: boolean;
  options: Partial<Record<Option, string>>;
}

export function toHash(view: ViewState, durationNs: number): string {
  const out = new URLSearchParams();
  if (view.from !== 0 || view.to !== durationNs) {
    out.set("from", String(Math.round(view.from)));
    out.set("to", String(Math.round(view.to)));
  }
  if (view.selected) out.set("sel", view.selected);
  if (view.task >= 0) out.set("task", String(view.task));
  if (view.finding) out.set("finding", view.finding);
  if (view.colouring !== "duration") out.set("colour", view.colouring);
  if (view.isUtc) out.set("clock", "utc");
  if (view.theme === "light") out.set("theme", "light");
  for (const key of OPTIONS) {
    const value = view.options[key];
    if (value) out.set(key, value);
  }
  return out.toString();
}

function number(text: string | null): number | null {
  if (text === null || text === "") return null;
  const value = Number(text);
  return Number.isFinite(value) ? value : null;
}

export function fromHash(hash: string, durationNs: number, theme: Theme): ViewState {
  const given = new URLSearchParams(hash.replace(/^#/, ""));
  const from = number(given.get("from"));
  const to = number(given.get("to"));
  const colour = given.get("colour");
  const hasRange = from !== null && to !== null && to > from;
  const wanted = given.get("theme");
  return {
    from: hasRange ? from : 0,
    to: hasRange ? to : durationNs,
    selected: given.get("sel") ?? "",
    task: number(given.get("task")) ?? -1,
    finding: given.get("finding") ?? "",
    colouring: colour === "place" || colour === "finding" ? colour : "duration",
    theme: wanted === "light" || wanted === "dark" ? wanted : theme,
    isUtc: given.get("clock") === "utc",
    options: Object.fromEntries(
      OPTIONS.flatMap((key) => (given.get(key) ? [[key, given.get(key)]] : [])),
    ),
  };
}

/** A range inside of what there is, no shorter than a nanosecond a pixel. */
export function clampRange(
  from: number,
  to: number,
  limits: Range,
  pixels: number,
): [number, number] {
  const least = Math.max(pixels, 100);
  let span = Math.min(Math.max(to - from, least), Math.max(limits.to - limits.from, least));
  let begin = from + (to - from - span) / 2;
  span = Math.round(span);
  const last = Math.max(limits.from, limits.to - span);
  begin = Math.round(Math.min(Math.max(begin, limits.from), last));
  return [begin, begin + span];
}
