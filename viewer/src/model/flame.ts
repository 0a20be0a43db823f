// SPDX-License-Identifier: Apache-2.0 OR MIT
// Lines of samples as a tree: what `kymo export --format folded` prints, joined where lines begin
// alike. Root first, or leaf first; from one function on; beside those of another range.
import { bytes, count, duration } from "./time";

export interface FlameFunction {
  name: string;
  file?: string;
  line?: number;
  is_own: boolean;
}

/** src/lanes/flame_json.h */
export interface FlameAnswer {
  unit: "ns" | "bytes" | "samples";
  samples: number;
  sum: number;
  lines: number[][];
  functions: FlameFunction[];
}

export interface FlameNode {
  name: string;
  fn: FlameFunction | null;
  value: number;
  self: number;
  /** The same of the other range. */
  base: number;
  depth: number;
  parent: FlameNode | null;
  children: FlameNode[];
}

export interface FlameRow {
  fn: FlameFunction;
  self: number;
  total: number;
  baseSelf: number;
  baseTotal: number;
}

export interface Flame {
  root: FlameNode;
  rows: FlameRow[];
  sum: number;
  baseSum: number;
  unit: FlameAnswer["unit"];
  depth: number;
}

export function amount(value: number, unit: FlameAnswer["unit"]): string {
  if (unit === "ns") return duration(value);
  if (unit === "bytes") return bytes(value);
  return `${count(value)} ${value === 1 ? "sample" : "samples"}`;
}

function node(name: string, fn: FlameFunction | null, parent: FlameNode | null): FlameNode {
  const depth = parent ? parent.depth + 1 : 0;
  return { name, fn, value: 0, self: 0, base: 0, depth, parent, children: [] };
}

/** The line's functions in the order of the tree; null: `of` is not in it. */
function pathOf(
  answer: FlameAnswer,
  line: readonly number[],
  isUp: boolean,
  of: string,
): number[] | null {
  let path = line.slice(1);
  if (of) {
    const named = (one: number): boolean => answer.functions[one]?.name === of;
    const at = isUp
      ? path.reduce((last, one, place) => (named(one) ? place : last), -1)
      : path.findIndex(named);
    if (at < 0) return null;
    path = isUp ? path.slice(0, at + 1) : path.slice(at);
  }
  return isUp ? path.reverse() : path;
}

class Builder {
  root = node("all", null, null);
  private kids = new Map<FlameNode, Map<string, FlameNode>>();
  private rows = new Map<string, FlameRow>();
  depth = 0;

  add(answer: FlameAnswer, isBase: boolean, isUp: boolean, of: string): number {
    let sum = 0;
    for (const line of answer.lines) {
      const value = line[0] ?? 0;
      this.count(answer, line, value, isBase);
      const path = pathOf(answer, line, isUp, of);
      if (!path) continue;
      sum += value;
      let at = this.root;
      this.put(at, value, isBase);
      for (const one of path) {
        const fn = answer.functions[one];
        if (fn) at = this.child(at, fn);
        this.put(at, value, isBase);
      }
      if (!isBase) at.self += value;
      this.depth = Math.max(this.depth, at.depth);
    }
    return sum;
  }

  private put(at: FlameNode, value: number, isBase: boolean): void {
    if (isBase) at.base += value;
    else at.value += value;
  }

  private child(at: FlameNode, fn: FlameFunction): FlameNode {
    let kids = this.kids.get(at);
    if (!kids) this.kids.set(at, (kids = new Map()));
    let found = kids.get(fn.name);
    if (!found) {
      found = node(fn.name, fn, at);
      kids.set(fn.name, found);
      at.children.push(found);
    }
    return found;
  }

  private count(
    answer: FlameAnswer,
    line: readonly number[],
    value: number,
    isBase: boolean,
  ): void {
    const seen = new Set<string>();
    for (let at = 1; at < line.length; at++) {
      const fn = answer.functions[line[at] ?? 0];
      if (!fn) continue;
      let row = this.rows.get(fn.name);
      if (!row)
        this.rows.set(fn.name, (row = { fn, self: 0, total: 0, baseSelf: 0, baseTotal: 0 }));
      const isLeaf = at === line.length - 1;
      if (!seen.has(fn.name)) row[isBase ? "baseTotal" : "total"] += value;
      if (isLeaf) row[isBase ? "baseSelf" : "self"] += value;
      seen.add(fn.name);
    }
  }

  sorted(): FlameRow[] {
    const weight = (row: FlameRow): number => Math.max(row.self, row.baseSelf);
    return [...this.rows.values()].sort((a, b) => weight(b) - weight(a) || b.total - a.total);
  }
}

export function makeFlame(
  answer: FlameAnswer,
  base: FlameAnswer | null,
  isUp: boolean,
  of: string,
): Flame {
  const builder = new Builder();
  const sum = builder.add(answer, false, isUp, of);
  const baseSum = base ? builder.add(base, true, isUp, of) : 0;
  const order = (at: FlameNode): void => {
    at.children.sort((a, b) => b.value - a.value || b.base - a.base);
    at.children.forEach(order);
  };
  order(builder.root);
  const { root, depth } = builder;
  return { root, rows: builder.sorted(), sum, baseSum, unit: answer.unit, depth };
}

export function matches(name: string, text: string): boolean {
  return text !== "" && name.toLowerCase().includes(text.toLowerCase());
}

/** How much has a function that the text is in; each sample counts once. */
export function foundValue(root: FlameNode, text: string): number {
  if (matches(root.name, text)) return root.value;
  return root.children.reduce((sum, child) => sum + foundValue(child, text), 0);
}

/** As `kymo export --format folded` writes them. */
export function folded(answer: FlameAnswer): string {
  return answer.lines
    .map((line) => {
      const names = line
        .slice(1)
        .map((one) => (answer.functions[one]?.name ?? "").replaceAll(";", ":"));
      return `${names.join(";")} ${line[0]}\n`;
    })
    .join("");
}
