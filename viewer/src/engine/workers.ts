// SPDX-License-Identifier: Apache-2.0 OR MIT
// Workers with the engine in them. One is there before there is a file, so that opening one waits
// neither for a worker to start nor for the engine to be compiled.
import type { ToWorker } from "./protocol";

export class Workers {
  private spare: Worker | null = null;

  /** engine: as the page carries it. */
  constructor(
    private source: string,
    private engine: string,
  ) {}

  /** Starts one, unless one waits already. */
  prepare(): void {
    this.spare ??= this.start();
  }

  /** One that nobody else has. */
  take(): Worker {
    const worker = this.spare ?? this.start();
    this.spare = null;
    return worker;
  }

  private start(): Worker {
    const url = URL.createObjectURL(new Blob([this.source], { type: "text/javascript" }));
    const worker = new Worker(url);
    URL.revokeObjectURL(url);
    const message: ToWorker = { kind: "engine", packed: this.engine };
    worker.postMessage(message);
    return worker;
  }
}
