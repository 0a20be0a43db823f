// SPDX-License-Identifier: Apache-2.0 OR MIT
// Which part of time a panel is of, and what it is compared with: another part, or another trace.
import { besideOf, nameOf } from "../app/beside";
import type { Store } from "../app/store";
import { moment } from "../model/time";
import { rangeOf, type Option, type Range } from "../model/view";

export function rangeWords(store: Store, range: Range | null): string {
  if (!range) return "the whole trace";
  return `${moment(range.from, store.clock, 1e6)} to ${moment(range.to, store.clock, 1e6)}`;
}

/** Null: the whole trace. */
export function chosenRange(store: Store, option: Option): Range | null {
  const where = store.option(option);
  return where === "view" ? { from: store.view.from, to: store.view.to } : rangeOf(where);
}

/** A trace, and a part of it; null: all of it. */
export interface Against {
  store: Store;
  range: Range | null;
}

/** What is compared with: the same time of another trace, or another time of this one. */
export function againstOf(store: Store, option: Option, range: Range | null): Against | null {
  const value = store.option(option);
  const other = besideOf(store, value);
  if (other) {
    const same = range && store.beside ? store.beside.rangeOf(range, store, other) : null;
    return { store: other, range: same };
  }
  const of = rangeOf(value);
  return of && { store, range: of };
}

export function againstWords(store: Store, against: Against): string {
  return against.store === store
    ? rangeWords(store, against.range)
    : nameOf(against.store);
}

const text = ({ from, to }: Range): string => `${Math.round(from)}-${Math.round(to)}`;

export function RangeChoice({ store, option }: { store: Store; option: Option }) {
  const where = store.option(option);
  return (
    <label>
      in{" "}
      <select
        value={where === "" || where === "view" ? where : "range"}
        onChange={(event) => {
          const value = event.currentTarget.value;
          store.setOption(option, value === "range" ? text(store.range ?? store.view) : value);
        }}
      >
        <option value="">the whole trace</option>
        <option value="view">what is in view</option>
        <option value="range">{store.range ? "the measured range" : "this very range"}</option>
      </select>
    </label>
  );
}

export function AgainstChoice({
  store,
  option,
  range,
}: {
  store: Store;
  option: Option;
  range: Range | null;
}) {
  const against = againstOf(store, option, range);
  if (against)
    return (
      <button onClick={() => store.setOption(option, "")}>
        against {againstWords(store, against)} ✕
      </button>
    );
  return (
    <>
      {store.all.map((other, at) =>
        other === store || !other.trace ? null : (
          <button key={other.id} onClick={() => store.setOption(option, `beside${at}`)}>
            compare with {nameOf(other)}
          </button>
        ),
      )}
      <button
        onClick={() => {
          const all = { from: 0, to: store.durationNs };
          store.setOption(option, text(range ?? store.range ?? all));
        }}
        title="then choose another part of time: red is more of it than in this one, blue is less"
      >
        compare with this
      </button>
    </>
  );
}
