// SPDX-License-Identifier: Apache-2.0 OR MIT
// What the indexes of a recording say, as src/serve/trace_map.c writes it. Times are nanoseconds
// from the beginning of the map.

export interface MapLane {
  id: number;
  polls: number;
  /** Time in polls by piece, in thousandths. */
  busy: number[];
  /** Piece, start, length and task of its longest poll, one after the other. */
  longest: number[];
}

export interface TraceMap {
  service: string | null;
  host: string | null;
  pid: string | null;
  start_mono_ns: string;
  start_unix_ns: string;
  duration_ns: number;
  segments: { id: string; bytes: number; chunks: number; from_ns: number; to_ns: number }[];
  from_ns: number;
  to_ns: number;
  pieces: number;
  event_count: number;
  lost_count: number;
  chunk_count: number;
  workers_left_out: number;
  events: number[];
  lost: number[];
  chunks: number[];
  workers: MapLane[];
}

export interface MapPoll {
  worker: number;
  start: number;
  length: number;
  task: number;
}

/** Of all that are in view. */
export function worstOfMap(map: TraceMap): MapPoll | null {
  let worst: MapPoll | null = null;
  for (const lane of map.workers)
    for (let at = 0; at + 3 < lane.longest.length; at += 4) {
      const length = lane.longest[at + 2] ?? 0;
      if (length > (worst?.length ?? 0))
        worst = {
          worker: lane.id,
          start: lane.longest[at + 1] ?? 0,
          length,
          task: lane.longest[at + 3] ?? 0,
        };
    }
  return worst;
}

/** How many chunks begin in this time, about. */
export function chunksIn(map: TraceMap, from: number, to: number): number {
  const wide = (map.to_ns - map.from_ns) / map.pieces;
  let sum = 0;
  map.chunks.forEach((chunks, at) => {
    const begin = map.from_ns + at * wide;
    const share = (Math.min(to, begin + wide) - Math.max(from, begin)) / wide;
    if (share > 0) sum += chunks * Math.min(1, share);
  });
  return sum;
}

/** The longest time around a moment with no more chunks. */
export function around(map: TraceMap, time: number, chunks: number): { from: number; to: number } {
  let low = 1;
  let high = Math.max(2, map.to_ns - map.from_ns);
  for (let step = 0; step < 40; step++) {
    const half = (low + high) / 2;
    if (chunksIn(map, time - half, time + half) <= chunks) low = half;
    else high = half;
  }
  return {
    from: Math.max(0, Math.round(time - low)),
    to: Math.min(map.duration_ns, Math.round(time + low)),
  };
}
