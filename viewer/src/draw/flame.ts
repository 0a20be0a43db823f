// SPDX-License-Identifier: Apache-2.0 OR MIT
// A flame graph on a 2D canvas, root on top.
import { amount, matches, type Flame, type FlameNode } from "../model/flame";
import { shortName } from "../model/names";
import { percent } from "../model/time";
import type { Theme } from "../model/view";
import { palette } from "./palette";

export const FLAME_ROW = 19;
const NARROWEST = 0.5;
const NARROWEST_TEXT = 26;

export interface FlameBox {
  node: FlameNode;
  x: number;
  y: number;
  wide: number;
}

/** What is wide enough to see, from the zoomed node's ancestors down. */
export function layFlame(zoomed: FlameNode, wide: number): FlameBox[] {
  const out: FlameBox[] = [];
  const above: FlameNode[] = [];
  for (let at = zoomed.parent; at; at = at.parent) above.unshift(at);
  for (const node of above) out.push({ node, x: 0, y: node.depth * FLAME_ROW, wide });
  const scale = wide / Math.max(1, zoomed.value);
  const put = (node: FlameNode, x: number): void => {
    const size = node.value * scale;
    if (size < NARROWEST) return;
    out.push({ node, x, y: node.depth * FLAME_ROW, wide: size });
    let at = x;
    for (const child of node.children) {
      put(child, at);
      at += child.value * scale;
    }
  };
  put(zoomed, 0);
  return out;
}

function hash(name: string): number {
  let out = 0;
  for (let at = 0; at < name.length; at++) out = (Math.imul(out, 31) + name.charCodeAt(at)) | 0;
  return out >>> 0;
}

/** By more or less of the whole than in the other range; else by what the code is. */
function colourOf(flame: Flame, node: FlameNode, theme: Theme): string {
  const isLight = theme === "light";
  if (flame.baseSum > 0) {
    const more = node.value / Math.max(1, flame.sum) - node.base / flame.baseSum;
    const strong = Math.min(1, Math.abs(more) * 8);
    const rest = isLight ? 92 - 40 * strong : 30 + 24 * strong;
    return `hsl(${more > 0 ? 18 : 212} ${Math.round(20 + 60 * strong)}% ${Math.round(rest)}%)`;
  }
  const shade = (hash(node.name) % 12) - 6;
  if (!node.fn) return isLight ? "#cfd7df" : "#3b4652";
  if (node.name.startsWith("[")) return isLight ? "#e7c27d" : "#7a5b16";
  if (node.fn.is_own) return `hsl(${28 + shade} ${isLight ? "85% 68%" : "70% 42%"})`;
  return `hsl(${205 + shade} ${isLight ? "38% 80%" : "26% 34%"})`;
}

export function drawFlame(
  canvas: HTMLCanvasElement,
  flame: Flame,
  boxes: readonly FlameBox[],
  options: { find: string; current: FlameNode | null; theme: Theme; ratio: number },
): void {
  const context = canvas.getContext("2d", { alpha: false });
  if (!context) return;
  const colours = palette(options.theme);
  const wide = canvas.clientWidth;
  const high = canvas.clientHeight;
  canvas.width = Math.round(wide * options.ratio);
  canvas.height = Math.round(high * options.ratio);
  context.setTransform(options.ratio, 0, 0, options.ratio, 0, 0);
  context.fillStyle = colours.background;
  context.fillRect(0, 0, wide, high);
  context.font = "12px system-ui, sans-serif";
  for (const { node, x, y, wide: size } of boxes) {
    const isFound = matches(node.name, options.find);
    context.globalAlpha = options.find && !isFound ? 0.45 : 1;
    context.fillStyle = isFound ? "#cc79a7" : colourOf(flame, node, options.theme);
    context.fillRect(x, y, Math.max(NARROWEST, size - (size > 3 ? 1 : 0)), FLAME_ROW - 1);
    if (size < NARROWEST_TEXT) continue;
    context.fillStyle = isFound ? "#0b0d10" : colours.text;
    context.save();
    context.beginPath();
    context.rect(x, y, size - 3, FLAME_ROW);
    context.clip();
    context.fillText(shortName(node.name), x + 4, y + 13);
    context.restore();
  }
  context.globalAlpha = 1;
  const chosen = boxes.find((box) => box.node === options.current);
  if (!chosen) return;
  context.strokeStyle = colours.text;
  context.lineWidth = 2;
  context.strokeRect(
    chosen.x + 1,
    chosen.y + 1,
    Math.max(2, chosen.wide - 2),
    FLAME_ROW - 3,
  );
}

export function flameWords(flame: Flame, node: FlameNode): string {
  const share = node.value / Math.max(1, flame.sum);
  const parts = [
    node.name,
    `${amount(node.value, flame.unit)}, ${percent(share)}`,
    ...(node.self ? [`itself ${amount(node.self, flame.unit)}`] : []),
  ];
  if (flame.baseSum > 0) {
    const all = amount(flame.baseSum, flame.unit);
    parts.push(`before ${percent(node.base / flame.baseSum)} of ${all}`);
  }
  if (node.fn?.file) parts.push(`${node.fn.file}${node.fn.line ? `:${node.fn.line}` : ""}`);
  return parts.join(" · ");
}
