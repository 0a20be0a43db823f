// SPDX-License-Identifier: Apache-2.0 OR MIT
// The program's own events: their types, and which of their numbers have a lane; one event.
import type { Store } from "../app/store";
import { chartKey } from "../layout/rows";
import type { EventFacts, PointsLane } from "../model/trace";
import { count, moment } from "../model/time";
import { Facts } from "./details";

type Field = NonNullable<EventFacts["fields"]>[number];

function real(bits: string): number {
  const view = new DataView(new ArrayBuffer(8));
  view.setBigUint64(0, BigInt(bits));
  return view.getFloat64(0);
}

function fieldWords(field: Field): string {
  const value = field.bits !== undefined ? real(field.bits) : field.value;
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

function Charts({ store, lane }: { store: Store; lane: PointsLane }) {
  const charts = store.charts;
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
            {words}{" "}
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

export function EventsPanel({ store }: { store: Store }) {
  const types = store.pointsLanes.filter((one) => one.kind === "events");
  const others = store.pointsLanes.filter((one) => one.kind !== "events");
  const words = { events: "event", counter: "counter", notes: "notes", queue: "queue depth" };
  store.shown = store.pointsLanes;
  if (!store.pointsLanes.length)
    return (
      <p class="faint pad">
        The program recorded no events, counters or notes of its own, and no queue depths.
      </p>
    );
  return (
    <section class="events" aria-label="Events">
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
            {[...types, ...others].map((lane) => (
              <tr key={`${lane.kind}:${lane.index}`}>
                <td class="left">{words[lane.kind]}</td>
                <td class="left">
                  {lane.kind === "queue" && lane.worker !== null
                    ? `worker ${lane.worker ?? "?"}`
                    : (lane.name ?? "")}
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
    </section>
  );
}
