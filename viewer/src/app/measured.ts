// SPDX-License-Identifier: Apache-2.0 OR MIT
// Marks for whoever measures: when the page came how far.
import type { Steps } from "../engine/protocol";

/** What the way to the first picture was made of, in the worker. */
export function markSteps(steps: Steps): void {
  const at = (moment: number): number => moment - performance.timeOrigin;
  performance.mark("kymo-worker", { startTime: at(steps.begun) });
  performance.mark("kymo-read", { startTime: at(steps.read), detail: { waited: steps.waited } });
  performance.mark("kymo-loaded", { startTime: at(steps.loaded) });
}

/** All strips are there: the next frame draws them, and the one after it is shown. */
export function markPicture(): void {
  requestAnimationFrame(() =>
    requestAnimationFrame(() => performance.mark("kymo-first-picture")),
  );
}
