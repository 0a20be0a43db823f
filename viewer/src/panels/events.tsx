// SPDX-License-Identifier: Apache-2.0 OR MIT
// The program's own events: their types, and which of their numbers have a lane; one event.
import type { Store } from "../app/store";
import { PointsKind, pointsLayer } from "../engine/protocol";
import { chartKey } from "../layout/rows";
import { count, moment } from "../model/time";
import type { EventFacts, PointsLane, PointsWithin } from "../model/trace";
import { ALL_TIME } from "../model/view";
import { useAnswer } from "./answer";
import { Facts } from "./details";

const LISTED = 200; // events
const REST_MS = 200; // while the view moves
const NONE_WITHIN: PointsWithin = { count: 0, points: [] };
const DIGITS = 6; // in the list; what is selected has all

type Field = NonNullable<EventFacts["fields"]>[number];

function real(bits: string): number {
  const view = new DataView(new ArrayBuffer(8));
  view.setBigUint64(0, BigInt(bits));
  return view.getFloat64(0);
}

/** digits: of a real number; 0: all that it has. */
function fieldWords(field: Field, digits = 0): string {
  const whole = field.bits !== undefined ? real(field.bits) : field.value;
  const isLong = digits > 0 && field.bits !== undefined;
  const value = isLong ? Number((whole as number).toPrecision(digits)) : whole;
  if (value === null || value === undefined) return "it is there";
  return `${String(value)}${field.unit ? ` ${field.unit}` : ""}`;
}

export function EventFactsOf({ store, event }: { store: Store; event: EventFacts }) {
  return (
    <div class="columns">
      <section aria-label="The event">
        <h3>{event.name ?? "unnamed"}</h3>
        <Facts
          rows={[
            ["at", moment(event.start_ns, store.clock, 1000)],
            ...(event.value !== undefined
              ? [["value", count(event.value)] as [string, string]]
              : []),
          ]}
        />
      </section>
      {event.fields && (
        <section aria-label="Its fields">
          <h3>Fields</h3>
          <Facts rows={event.fields.map((one) => [one.key, <code>{fieldWords(one)}</code>])} />
        </section>
      )}
    </div>
  );
}

function RateChoice({ store, chart }: { store: Store; chart: string }) {
  return (
    <button
      class="small"
      aria-pressed={store.chosen("rates").has(chart)}
      onClick={() => store.toggleChart(chart, "rates")}
      title="how much it grows in a second, in place of how much it is"
    >
      rate
    </button>
  );
}

function Charts({ store, lane }: { store: Store; lane: PointsLane }) {
  const charts = store.chosen("charts");
  if (lane.kind === "counter")
    return <RateChoice store={store} chart={chartKey(lane.name, null)} />;
  return (
    <>
      {(lane.fields ?? []).map((field) => {
        const key = chartKey(lane.name, field.name);
        const words = `${field.name ?? "unnamed"}${field.unit ? ` (${field.unit})` : ""}`;
        return field.is_number ? (
          <label key={key}>
            <input
              type="checkbox"
              checked={charts.has(key)}
              onChange={() => store.toggleChart(key)}
            />{" "}
            {words} {charts.has(key) && <RateChoice store={store} chart={key} />}
          </label>
        ) : (
          <span key={key} class="faint">
            {words}{" "}
          </span>
        );
      })}
    </>
  );
}

/** What a lane is called in the address. */
const laneKey = (lane: PointsLane): string => `${lane.kind}:${lane.index}`;

/** A column for each field that one of them has. */
function EventList({ store, lane, got }: { store: Store; lane: PointsLane; got: PointsWithin }) {
  const kind = PointsKind[lane.kind];
  const keys = [...new Set(got.points.flatMap((one) => one.fields?.map((of) => of.key) ?? []))];
  const hasValue = got.points.some((one) => one.value !== undefined);
  const go = async (row: number, at: number): Promise<void> => {
    await store.selectEvent(lane.index, pointsLayer(kind), row);
    if (at < store.view.from || at > store.view.to) store.show(at, at);
  };
  return (
    <div class="scroll">
      <table class="list" aria-label="Events within it">
        <thead>
          <tr>
            <th class="left">at</th>
            {lane.kind === "notes" && <th class="left">note</th>}
            {hasValue && <th>value</th>}
            {keys.map((of) => (
              <th key={of} class="left">
                {of}
              </th>
            ))}
          </tr>
        </thead>
        <tbody>
          {got.points.map((one) => (
            <tr key={one.row}>
              <td class="left">
                <button class="link" onClick={() => void go(one.row, one.start_ns)}>
                  {moment(one.start_ns, store.clock, 1000)}
                </button>
              </td>
              {lane.kind === "notes" && <td class="left">{one.name ?? ""}</td>}
              {hasValue && <td>{one.value === undefined ? "" : count(one.value)}</td>}
              {keys.map((of) => {
                const field = one.fields?.find((other) => other.key === of);
                return (
                  <td key={of} class="left">
                    {field ? fieldWords(field, DIGITS) : ""}
                  </td>
                );
              })}
            </tr>
          ))}
        </tbody>
      </table>
    </div>
  );
}

/** The events of one lane, each with its fields: those in view, or all. */
function EventsWithin({ store, lane }: { store: Store; lane: PointsLane }) {
  const isAll = store.option("events-in") === "all";
  const { from, to } = isAll ? ALL_TIME : store.view;
  const got = useAnswer<PointsWithin>(
    store,
    {
      op: "pointsWithin",
      kind: PointsKind[lane.kind],
      ...{ index: lane.index, from, to, limit: LISTED },
    },
    { rest: isAll ? 0 : REST_MS, none: NONE_WITHIN },
  );
  const answer = got.isAsked ? null : got.answer;
  store.shown = { lanes: store.pointsLanes, within: answer };
  return (
    <section class="within" aria-label="What is listed" data-asked={got.isAsked}>
      <div class="controls">
        <label>
          events in{" "}
          <select
            value={isAll ? "all" : ""}
            onChange={(event) => store.setOption("events-in", event.currentTarget.value)}
          >
            <option value="">what is in view</option>
            <option value="all">the whole trace</option>
          </select>
        </label>
        {answer && (
          <span>
            <b>{count(answer.count)}</b> of {nameOf(lane)}
            {answer.count > answer.points.length
              ? `; the first ${count(answer.points.length)} are listed`
              : ""}
          </span>
        )}
      </div>
      {answer && answer.count > 0 && <EventList store={store} lane={lane} got={answer} />}
      {answer && !answer.count && <p class="faint pad">None is in this time.</p>}
    </section>
  );
}

function nameOf(lane: PointsLane): string {
  if (lane.kind === "notes") return "notes";
  return lane.kind === "queue" && lane.worker !== null
    ? `worker ${lane.worker ?? "?"}`
    : (lane.name ?? "");
}

export function EventsPanel({ store }: { store: Store }) {
  const types = store.pointsLanes.filter((one) => one.kind === "events");
  const others = store.pointsLanes.filter((one) => one.kind !== "events");
  const words = { events: "event", counter: "counter", notes: "notes", queue: "queue depth" };
  const lanes = [...types, ...others];
  const listed = lanes.find((one) => laneKey(one) === store.option("events-of")) ?? lanes[0];
  store.shown ??= { lanes, within: null };
  if (!listed)
    return (
      <p class="faint pad">
        The program recorded no events, counters or notes of its own, and no queue depths.
      </p>
    );
  return (
    <section class="events" aria-label="Events">
      <div class="split">
        <div class="scroll">
          <table class="list" aria-label="Events and counters">
            <thead>
              <tr>
                <th class="left">what</th>
                <th class="left">name</th>
                <th>count</th>
                <th class="left">fields; a ticked one has a lane</th>
              </tr>
            </thead>
            <tbody>
              {lanes.map((lane) => (
                <tr key={laneKey(lane)} class={lane === listed ? "chosen" : ""}>
                  <td class="left">{words[lane.kind]}</td>
                  <td class="left">
                    <button
                      class="link"
                      aria-pressed={lane === listed}
                      onClick={() => store.setOption("events-of", laneKey(lane))}
                      title="list them"
                    >
                      {nameOf(lane) || "unnamed"}
                    </button>
                  </td>
                  <td>
                    {count(lane.count)}
                    {lane.left_out ? ` (${count(lane.left_out)} left out)` : ""}
                  </td>
                  <td class="left">
                    <Charts store={store} lane={lane} />
                  </td>
                </tr>
              ))}
            </tbody>
          </table>
        </div>
        <EventsWithin store={store} lane={listed} />
      </div>
    </section>
  );
}
