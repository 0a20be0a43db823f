// SPDX-License-Identifier: Apache-2.0 OR MIT
// What `kymo serve` gives out of one or several processes: each a row of segments, read whole where
// that fits, else by its indexes and in parts; the others beside the first, on one clock.
import type { Served } from "../engine/protocol";
import { findServed } from "../engine/served";
import { Beside, TRACES_MAX } from "./beside";
import { joined } from "./files";
import { Mapped } from "./mapped";
import type { Store } from "./store";

const WHOLE_EVENTS_MAX = 12e6;
const WHOLE_BYTES_MAX = 2 ** 28;
/** Of what kymo serve has to fetch from a bucket first. */
const FAR_BYTES_MAX = 2 ** 23;
const IDS = /^[0-9a-f]{16}(,[0-9a-f]{16})*$/;

interface Listed {
  id: string;
  bytes: number;
  is_far: boolean;
  events: number | null;
  service: string | null;
  host: string | null;
  pid: string | null;
}

/** By process, in the order in which they were named. */
async function recordingsOf(base: string, ids: readonly string[]): Promise<Listed[][]> {
  const answer = await fetch(`${base}api/traces`, { cache: "no-store" });
  if (!answer.ok) throw new Error("kymo serve has no list of traces any more.");
  const { traces } = (await answer.json()) as { traces: Listed[] };
  const byId = new Map(traces.map((one) => [one.id, one]));
  const groups = new Map<string, Listed[]>();
  for (const id of ids) {
    const one = byId.get(id);
    if (!one)
      throw new Error(
        "kymo serve has one of these traces no more: go back to its list and reload it.",
      );
    const key = one.pid ? JSON.stringify([one.service, one.host, one.pid]) : id;
    groups.set(key, [...(groups.get(key) ?? []), one]);
  }
  return [...groups.values()];
}

/** All of its segments, read now; one that stands alone, by ranges. */
async function whole(
  base: string,
  parts: readonly Listed[],
): Promise<{ file: Blob | Served; name: string }> {
  const files: File[] = [];
  const [alone, ...more] = parts;
  if (alone && !more.length) return findServed(`${base}trace/${alone.id}`);
  for (const [at, { id }] of parts.entries()) {
    const { file, name } = await findServed(`${base}trace/${id}`);
    const answer = await fetch(file.url);
    if (!answer.ok) throw new Error(`${name} cannot be read any more.`);
    // Segments of one process are in the order of time; two directories may use one name.
    files.push(new File([await answer.blob()], `${String(at).padStart(6, "0")} ${name}`));
  }
  const one = await joined(files);
  if (!one) throw new Error("Nothing was chosen.");
  return { file: one.file, name: one.name.replace(/^\d{6} /, "") };
}

function isSmall(parts: readonly Listed[]): boolean {
  const events = parts.reduce((sum, one) => sum + (one.events ?? Infinity), 0);
  const bytes = parts.reduce((sum, one) => sum + one.bytes, 0);
  if (parts.some((one) => one.is_far) && bytes > FAR_BYTES_MAX) return false;
  return bytes < WHOLE_BYTES_MAX && (events <= WHOLE_EVENTS_MAX || bytes < WHOLE_BYTES_MAX / 32);
}

/** Of a bucket the list has counts by the index alone. */
function hasNoIndex(parts: readonly Listed[]): boolean {
  return parts.some((one) => one.is_far && one.events === 0);
}

/** isInParts: by the index, however small it is. */
export async function openRecordings(
  store: Store,
  base: string,
  given: string,
  isInParts: boolean,
): Promise<void> {
  try {
    if (!IDS.test(given)) throw new Error("The address names no trace: use a link of the list.");
    const [first, ...others] = await recordingsOf(base, given.split(","));
    if (!first) return;
    const ids = first.map((one) => one.id).join(",");
    const isWhole = hasNoIndex(first) || (!isInParts && isSmall(first));
    if (isWhole || !(await new Mapped(store, base, ids).start())) {
      const { file, name } = await whole(base, first);
      if (store.phase !== "loading") return; // cancelled meanwhile
      store.open(file, name);
    }
    await new Promise<void>((done) => {
      const look = (): void => {
        if (store.phase === "loading") return;
        stop();
        done();
      };
      const stop = store.subscribe(look);
      look();
    });
    if (store.phase !== "ready") return;
    for (const parts of others.slice(0, TRACES_MAX - 1)) {
      const { file, name } = await whole(base, parts);
      (store.beside ?? new Beside(store)).open(file, name);
    }
  } catch (error) {
    store.fail((error as Error).message);
  }
}
