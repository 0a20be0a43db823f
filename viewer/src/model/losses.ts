// SPDX-License-Identifier: Apache-2.0 OR MIT
// What is not in the trace: whose it was, and in words.
import { count } from "./time";
import type { Loss } from "./trace";

/** Losses of no one thread are everyone's; so are all, of a lane whose thread is not known. */
export function isLossOf(loss: Loss, tid: number): boolean {
  return !loss.tid || !tid || loss.tid === tid;
}

export function lostWords(records: number): string {
  return records === 1 ? "one record lost" : `${count(records)} records lost`;
}

/** where: "here", or nothing. */
export function lossWords(loss: Loss, where = ""): string {
  const what = loss.records ? lostWords(loss.records) : "nothing recorded";
  return `${what}${where && ` ${where}`}: ${loss.cause}`;
}
