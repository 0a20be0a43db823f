// SPDX-License-Identifier: Apache-2.0 OR MIT
// The page's end of the worker: one trace, questions and their answers.
import type {
  FromWorker,
  Opened,
  Question,
  Served,
  ToWorker,
  ViewAnswer,
  Wanted,
} from "./protocol";

import { bytesOf } from "./served";

export interface Listener {
  progress(doing: string, done: number, all: number): void;
  opened(message: Opened): void;
  failed(sentence: string): void;
  view(answer: ViewAnswer): void;
}

interface ViewQuestion {
  from: number;
  to: number;
  pixels: number;
  wanted: Wanted[];
}

export class Engine {
  private waiting = new Map<number, (json: string | null) => void>();
  private drawing = new Map<number, (answer: ViewAnswer) => void>();
  private nextId = 1;
  private asked: ViewQuestion | null = null;
  private next: ViewQuestion | null = null;

  /** worker: one of workers.ts, for this alone. */
  constructor(
    private worker: Worker,
    private file: Blob | Served,
    name: string,
    private listener: Listener,
  ) {
    this.worker.onmessage = (event: MessageEvent<FromWorker>) => this.take(event.data);
    this.worker.onerror = (event) =>
      listener.failed(`The engine stopped: ${event.message || "out of memory"}.`);
    this.say({ kind: "open", file, name });
  }

  /** Ends the worker and all it holds. */
  close(): void {
    this.worker.terminate();
    for (const done of this.waiting.values()) done(null);
    this.waiting.clear();
  }

  /** The parsed answer; null: there is none. */
  async ask<T>(question: Exclude<Question, { op: "view" }>): Promise<T | null> {
    const id = this.nextId++;
    const json = await new Promise<string | null>((done) => {
      this.waiting.set(id, done);
      this.say({ kind: "ask", id, question });
    });
    return json ? (JSON.parse(json) as T) : null;
  }

  /** Of views only the newest waits while one is being made. */
  askView(question: ViewQuestion): void {
    if (this.asked) {
      this.next = question;
      return;
    }
    this.asked = question;
    this.say({ kind: "ask", id: 0, question: { op: "view", ...question } });
  }

  /** Strips beside those of the view. */
  strips(question: ViewQuestion): Promise<ViewAnswer> {
    const id = this.nextId++;
    return new Promise((done) => {
      this.drawing.set(id, done);
      this.say({ kind: "ask", id, question: { op: "view", ...question } });
    });
  }

  get isDrawn(): boolean {
    return !this.asked && !this.next;
  }

  private say(message: ToWorker, transfer: Transferable[] = []): void {
    this.worker.postMessage(message, transfer);
  }

  /** Bytes come while the worker decodes others: in it they would come only while it does not. */
  private async give(from: number, end: number): Promise<void> {
    const bytes = await bytesOf(this.file, from, end).catch(() => null);
    this.say({ kind: "window", from, bytes }, bytes ? [bytes] : []);
  }

  private take(message: FromWorker): void {
    switch (message.kind) {
      case "progress":
        this.listener.progress(message.doing, message.done, message.all);
        break;
      case "unpacked":
        this.file = message.file;
        break;
      case "want":
        void this.give(message.from, message.end);
        break;
      case "opened":
        this.listener.opened(message);
        break;
      case "failed":
        this.listener.failed(message.sentence);
        break;
      case "view": {
        const draw = this.drawing.get(message.id);
        if (draw) {
          this.drawing.delete(message.id);
          draw(message.answer);
          break;
        }
        const next = this.next;
        this.asked = this.next = null;
        if (next) this.askView(next);
        this.listener.view(message.answer);
        break;
      }
      case "answer":
      case "refused":
        this.waiting.get(message.id)?.(message.kind === "answer" ? message.json : null);
        this.waiting.delete(message.id);
        break;
    }
  }
}
