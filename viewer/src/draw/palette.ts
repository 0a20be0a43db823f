// SPDX-License-Identifier: Apache-2.0 OR MIT
// Colours: Okabe and Ito's set, which people with any colour vision tell apart; in both themes the
// long ones are also the tall ones, so colour never stands alone.
import type { Theme } from "../model/view";

export interface Palette {
  background: string;
  lane: string;
  head: string;
  line: string;
  text: string;
  faint: string;
  accent: string;
  parked: string;
  busyLine: string;
  delay: string;
  offCpu: string;
  runDelay: string;
  sample: string;
  loss: string;
  onColour: string;
}

const DARK: Palette = {
  background: "#14181d",
  lane: "#1a1f26",
  head: "#20262e",
  line: "#2d353f",
  text: "#e6eaee",
  faint: "#8f9baa",
  accent: "#7cc4ff",
  parked: "#14181d",
  busyLine: "#3b4652",
  delay: "#cc79a7",
  offCpu: "#f0e442",
  runDelay: "#e69f00",
  sample: "#9fb0c3",
  loss: "#d55e00",
  onColour: "#0b0d10",
};
const LIGHT: Palette = {
  background: "#ffffff",
  lane: "#f4f6f8",
  head: "#e9edf1",
  line: "#d3dae1",
  text: "#14202c",
  faint: "#566474",
  accent: "#005fa3",
  parked: "#ffffff",
  busyLine: "#cfd7df",
  delay: "#a8457f",
  offCpu: "#7a6f00",
  runDelay: "#a86f00",
  sample: "#51606f",
  loss: "#c04a00",
  onColour: "#ffffff",
};

export function palette(theme: Theme): Palette {
  return theme === "light" ? LIGHT : DARK;
}

/** From short to long. Bounds in ns, names for the legend. */
export const DURATIONS: readonly { below: number; words: string; dark: string; light: string }[] = [
  { below: 1e4, words: "< 10 µs", dark: "#4a6785", light: "#a9bfd4" },
  { below: 1e5, words: "10–100 µs", dark: "#3f8fc4", light: "#6fa8d6" },
  { below: 1e6, words: "0.1–1 ms", dark: "#2bb58a", light: "#00916a" },
  { below: 1e7, words: "1–10 ms", dark: "#f0b429", light: "#d98c00" },
  { below: Infinity, words: "> 10 ms", dark: "#ff6a3d", light: "#c8401a" },
];

const PLACES = [
  "#56b4e9",
  "#e69f00",
  "#009e73",
  "#cc79a7",
  "#0072b2",
  "#d55e00",
  "#b8a900",
  "#8c7ae6",
];
export const OTHER = "#7a8794";

export function placeColour(rank: number): string {
  return PLACES[rank] ?? OTHER;
}

export function durationColour(ns: number, theme: Theme): string {
  for (const step of DURATIONS)
    if (ns < step.below) return theme === "light" ? step.light : step.dark;
  return "#ff6a3d";
}

/** As the canvas's pixels want it: little-endian ABGR. */
export function abgr(hex: string): number {
  const value = parseInt(hex.slice(1), 16);
  return (0xff000000 | ((value & 0xff) << 16) | (value & 0xff00) | (value >> 16)) >>> 0;
}

const known = new Map<string, number>();

/** The same, of few colours again and again. */
export function packed(hex: string): number {
  let value = known.get(hex);
  if (value === undefined) known.set(hex, (value = abgr(hex)));
  return value;
}
