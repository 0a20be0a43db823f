// SPDX-License-Identifier: Apache-2.0 OR MIT
// The whole trace as one strip: the worst poll of all lanes by pixel, and where findings are.
import { NONE, type Strip } from "../engine/protocol";
import type { Theme } from "../model/view";
import { durationColour, palette } from "./palette";

export interface OverviewScene {
  strips: readonly Strip[];
  durationNs: number;
  from: number;
  to: number;
  findings: readonly { time: number; isChosen: boolean; isAlarm: boolean }[];
  theme: Theme;
}

export function drawOverview(canvas: HTMLCanvasElement, scene: OverviewScene, ratio: number): void {
  const context = canvas.getContext("2d", { alpha: false });
  if (!context) return;
  const wide = canvas.clientWidth;
  const high = canvas.clientHeight;
  if (canvas.width !== Math.round(wide * ratio) || canvas.height !== Math.round(high * ratio)) {
    canvas.width = Math.round(wide * ratio);
    canvas.height = Math.round(high * ratio);
  }
  const colours = palette(scene.theme);
  context.setTransform(ratio, 0, 0, ratio, 0, 0);
  context.fillStyle = colours.lane;
  context.fillRect(0, 0, wide, high);
  const pixels = scene.strips[0]?.pixels ?? 0;
  for (let at = 0; at < pixels; at++) {
    let worst = 0;
    let share = 0;
    for (const strip of scene.strips) {
      if (strip.row[at] === NONE) continue;
      worst = Math.max(worst, strip.length[at] ?? 0);
      share = Math.max(share, strip.share[at] ?? 0);
    }
    if (!share) continue;
    // A decade of the length is a fifth of the height: 1 µs to 100 ms.
    const tall =
      Math.min(1, Math.max(0.12, (Math.log10(Math.max(1, worst)) - 3) / 5)) * (high - 10);
    context.fillStyle = durationColour(worst, scene.theme);
    context.fillRect((at * wide) / pixels, high - tall - 1, Math.ceil(wide / pixels), tall);
  }
  for (const finding of scene.findings) {
    const x = (finding.time / scene.durationNs) * wide;
    context.fillStyle = finding.isChosen
      ? colours.accent
      : finding.isAlarm
        ? colours.text
        : colours.faint;
    context.beginPath();
    context.moveTo(x - 5, 0);
    context.lineTo(x + 5, 0);
    context.lineTo(x, 8);
    context.fill();
  }
  const left = (scene.from / scene.durationNs) * wide;
  const right = (scene.to / scene.durationNs) * wide;
  context.fillStyle = colours.background;
  context.globalAlpha = 0.62;
  context.fillRect(0, 0, left, high);
  context.fillRect(right, 0, wide - right, high);
  context.globalAlpha = 1;
  context.strokeStyle = colours.accent;
  context.lineWidth = 1.5;
  context.strokeRect(
    Math.min(left, wide - 4) + 0.75,
    0.75,
    Math.max(3, right - left - 1.5),
    high - 1.5,
  );
}
