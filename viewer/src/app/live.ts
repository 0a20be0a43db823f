// SPDX-License-Identifier: Apache-2.0 OR MIT
// A process that runs: the page reads a newer copy of its ring again and again, as long as its end
// is in view and nothing of the copy is being looked at.
import { findServed } from "../engine/served";
import type { Store } from "./store";

const REST_MS = 1000;

export class Live {
  isOn = true;
  /** Why no newer copy comes any more. */
  sentence = "";

  constructor(
    private store: Store,
    private url: string,
  ) {
    this.waitFor(REST_MS);
  }

  /** What is shown stays as it is until it is followed again. */
  get isHeld(): boolean {
    return !this.store.isAtEnd;
  }

  follow(): void {
    this.isOn = true;
    this.store.showEnd();
  }

  pause(): void {
    this.isOn = false;
    this.store.changed();
  }

  private waitFor(ms: number): void {
    window.setTimeout(() => void this.step(), ms);
  }

  /** A copy that takes long to read is no reason to do nothing else. */
  private async step(): Promise<void> {
    if (this.store.live !== this) return; // another trace was opened
    const began = performance.now();
    if (this.isOn && !this.isHeld && !document.hidden) {
      try {
        const { file, name } = await findServed(this.url);
        await this.store.renew(file, name);
      } catch (error) {
        this.sentence = (error as Error).message;
        this.pause();
        return;
      }
    }
    this.waitFor(Math.max(REST_MS, 2 * (performance.now() - began)));
  }
}
