// SPDX-License-Identifier: Apache-2.0 OR MIT
// What the page offers to whoever measures or tests it.
import type { Hit } from "../draw/timeline";

declare global {
  interface Window {
    kymo: {
      hit(x: number, y: number): Hit | null;
      state(): Record<string, unknown>;
      ask(question: unknown): Promise<unknown>;
      strips(question: unknown): Promise<unknown>;
      /** What each trace shows. */
      all(): unknown[];
    };
  }
}
