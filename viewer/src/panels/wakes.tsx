// SPDX-License-Identifier: Apache-2.0 OR MIT
// Who wakes whom, by spawn place: as a graph of the most frequent, and as a table of all.
import type { Store } from "../app/store";
import { placeColour } from "../draw/palette";
import { shortName } from "../model/names";
import { count, duration } from "../model/time";
import type { WakeEdge } from "../model/trace";
import { ALL_TIME } from "../model/view";
import { useAnswer } from "./answer";

const DRAWN = 14;
const REST_MS = 200; // while the view moves
const ROW = 26;
const WIDE = 560;
const SIDE = 200;
const LETTERS = 27; // on a side

function wakerName(edge: WakeEdge): string {
  return edge.is_task ? shortName(edge.waker) : "driver, timers, threads";
}

/** As much of a name as there is room for. */
function fitting(name: string): string {
  return name.length > LETTERS ? `${name.slice(0, LETTERS - 1)}…` : name;
}

/** Each name once, in the order of the edges. */
function unique(names: string[]): string[] {
  return [...new Set(names)];
}

function Graph({ edges }: { edges: WakeEdge[] }) {
  const drawn = edges.slice(0, DRAWN);
  const wakers = unique(drawn.map(wakerName));
  const woken = unique(drawn.map((one) => shortName(one.woken)));
  const most = Math.max(1, ...drawn.map((one) => one.wakes));
  const y = (at: number): number => at * ROW + 18;
  const high = Math.max(wakers.length, woken.length) * ROW + 12;
  return (
    <div class="scroll">
      <svg
        viewBox={`0 0 ${WIDE} ${high}`}
        role="img"
        aria-label="The most frequent wakes; the table says the same"
      >
        {drawn.map((edge, at) => {
          const from = y(wakers.indexOf(wakerName(edge)));
          const to = y(woken.indexOf(shortName(edge.woken)));
          const middle = WIDE / 2;
          return (
            <path
              key={at}
              d={`M${SIDE} ${from}C${middle} ${from} ${middle} ${to} ${WIDE - SIDE} ${to}`}
              fill="none"
              stroke={placeColour(wakers.indexOf(wakerName(edge)))}
              stroke-opacity="0.8"
              stroke-width={1 + (9 * edge.wakes) / most}
            >
              <title>{`${wakerName(edge)} → ${shortName(edge.woken)}: ${count(edge.wakes)}`}</title>
            </path>
          );
        })}
        {wakers.map((name, at) => (
          <text key={name} x={SIDE - 8} y={y(at) + 4} text-anchor="end">
            <title>{name}</title>
            {fitting(name)}
          </text>
        ))}
        {woken.map((name, at) => (
          <text key={name} x={WIDE - SIDE + 8} y={y(at) + 4}>
            <title>{name}</title>
            {fitting(name)}
          </text>
        ))}
      </svg>
    </div>
  );
}

function Table({ store, edges }: { store: Store; edges: WakeEdge[] }) {
  const go = async (edge: WakeEdge): Promise<void> => {
    const ready = edge.max_ready_ns ?? 0;
    await store.selectPollAt(edge.max_task ?? -1, ready + edge.max_ns);
    store.show(ready, ready + edge.max_ns);
    store.changed();
  };
  return (
    <div class="scroll">
      <table class="list" aria-label="Wakes between spawn places">
        <thead>
          <tr>
            <th>wakes</th>
            <th title="how many made a task ready whose delay is known">delays</th>
            <th>p50</th>
            <th>p99</th>
            <th>longest</th>
            <th class="left">from</th>
            <th class="left">to</th>
          </tr>
        </thead>
        <tbody>
          {edges.map((edge, at) => (
            <tr key={at}>
              <td>{count(edge.wakes)}</td>
              <td>{count(edge.delays)}</td>
              <td>{edge.delays ? duration(edge.p50_ns) : ""}</td>
              <td>{edge.delays ? duration(edge.p99_ns) : ""}</td>
              <td>
                {edge.delays > 0 && (
                  <button class="link" onClick={() => void go(edge)}>
                    {duration(edge.max_ns)}
                  </button>
                )}
              </td>
              <td class="left" title={edge.waker ?? ""}>
                {wakerName(edge)}
              </td>
              <td class="left" title={edge.woken ?? ""}>
                {shortName(edge.woken)}
              </td>
            </tr>
          ))}
        </tbody>
      </table>
    </div>
  );
}

export function WakesPanel({ store }: { store: Store }) {
  const isView = store.option("wakes-in") === "view";
  const { from, to } = isView ? store.view : ALL_TIME;
  const got = useAnswer<WakeEdge[]>(
    store,
    { op: "wakeGraph", from, to },
    { rest: isView ? REST_MS : 0, none: [] },
  );
  const edges = got.answer ?? [];
  const all = edges.reduce((sum, edge) => sum + edge.wakes, 0);
  const isNow = !got.isAsked;
  store.shown = isNow && edges;
  return (
    <section class="wakes" aria-label="Wake-up graph" data-asked={!isNow}>
      <div class="controls">
        <label>
          wakes in{" "}
          <select
            value={isView ? "view" : ""}
            onChange={(event) => store.setOption("wakes-in", event.currentTarget.value)}
          >
            <option value="">the whole trace</option>
            <option value="view">what is in view</option>
          </select>
        </label>
        <span>
          <b>{count(all)}</b> wakes; a delay is from the wake to the poll
        </span>
      </div>
      {isNow && !all && <p class="faint pad">No wake is recorded here.</p>}
      {all > 0 && (
        <div class="split">
          <Table store={store} edges={edges} />
          <Graph edges={edges} />
        </div>
      )}
    </section>
  );
}
