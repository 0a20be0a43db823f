// SPDX-License-Identifier: Apache-2.0 OR MIT
// Which colour an element of a strip has: by length, by spawn place, by what a finding is about.
import { NONE, type Strip } from "../engine/protocol";
import type { Row } from "../layout/rows";
import { durationColour, DURATIONS, OTHER, packed, placeColour } from "./palette";
import type { Scene } from "./timeline";

const LONG_NS = 1e9;

/** As pixels have it; what all elements have in common is looked up once. */
export function colourOf(scene: Scene, row: Row, strip: Strip): (at: number) => number {
  // How long a span takes is no fault by itself.
  if (row.kind === "spans" || row.kind === "blocking") {
    const colour = packed(placeColour(row.kind === "spans" ? row.lane % 8 : 0));
    return () => colour;
  }
  const nameOf = (at: number): number => strip.name[at] ?? NONE;
  if (scene.colouring === "place")
    return (at) => packed(placeColour(scene.ranks.get(nameOf(at)) ?? 99));
  if (scene.colouring === "finding") {
    const hot = packed(durationColour(LONG_NS, scene.theme));
    const other = packed(OTHER);
    const isEvidence = (at: number): boolean => {
      const begin = strip.start[at] ?? 0;
      const end = begin + (strip.length[at] ?? 0);
      return scene.evidence.some((mark) => begin <= mark.to && end >= mark.from);
    };
    const isMeant = (at: number): boolean =>
      scene.culprit >= 0 ? nameOf(at) === scene.culprit : isEvidence(at);
    return (at) => (isMeant(at) ? hot : other);
  }
  const colours = DURATIONS.map((one) => packed(scene.theme === "light" ? one.light : one.dark));
  return (at) => {
    const length = strip.length[at] ?? 0;
    return colours[DURATIONS.findIndex((one) => length < one.below)] ?? 0;
  };
}
