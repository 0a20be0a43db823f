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

/** The strip without what is in view and what was found: that changes while one moves. */
interface Kept {
  strips: readonly Strip[];
  theme: Theme;
  picture: OffscreenCanvas;
}
const kept = new WeakMap<HTMLCanvasElement, Kept>();

function makePicture(scene: OverviewScene, ratio: number, width: number, height: number): Kept {
  const picture = new OffscreenCanvas(width, height);
  const context = picture.getContext("2d", { alpha: false });
  if (!context) throw new Error("this browser has no 2D canvas");
  const [wide, high] = [width / ratio, height / ratio];
  context.setTransform(ratio, 0, 0, ratio, 0, 0);
  context.fillStyle = palette(scene.theme).lane;
  context.fillRect(0, 0, wide, high);
  const pixels = scene.strips[0]?.pixels ?? 0;
  for (let x = 0; x < width && pixels; x++) {
    let worst = 0;
    let share = 0;
    const end = Math.ceil(((x + 1) * pixels) / width);
    for (const strip of scene.strips)
      for (let at = Math.floor((x * pixels) / width); at < end; at++) {
        if (strip.row[at] === NONE) continue;
        worst = Math.max(worst, strip.length[at] ?? 0);
        share = Math.max(share, strip.share[at] ?? 0);
      }
    if (!share) continue;
    // A decade of the length is a fifth of the height: 1 µs to 100 ms.
    const tall =
      Math.min(1, Math.max(0.12, (Math.log10(Math.max(1, worst)) - 3) / 5)) * (high - 10);
    context.fillStyle = durationColour(worst, scene.theme);
    context.fillRect(x / ratio, high - tall - 1, 1 / ratio, tall);
  }
  return { strips: scene.strips, theme: scene.theme, picture };
}

export function drawOverview(canvas: HTMLCanvasElement, scene: OverviewScene, ratio: number): void {
  const context = canvas.getContext("2d", { alpha: false });
  const wide = canvas.clientWidth;
  const high = canvas.clientHeight;
  const [width, height] = [Math.round(wide * ratio), Math.round(high * ratio)];
  if (!context || !width || !height) return;
  if (canvas.width !== width || canvas.height !== height) {
    canvas.width = width;
    canvas.height = height;
  }
  const colours = palette(scene.theme);
  let one = kept.get(canvas);
  const isSame = one?.strips === scene.strips && one.theme === scene.theme;
  if (!one || !isSame || one.picture.width !== width || one.picture.height !== height)
    kept.set(canvas, (one = makePicture(scene, ratio, width, height)));
  context.setTransform(1, 0, 0, 1, 0, 0);
  context.drawImage(one.picture, 0, 0);
  context.setTransform(ratio, 0, 0, ratio, 0, 0);
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
