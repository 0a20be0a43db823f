// SPDX-License-Identifier: Apache-2.0 OR MIT
// Two parts of time, or two traces, in numbers: those of `kymo report`.
import type { ComponentChildren } from "preact";
import { useEffect, useState } from "preact/hooks";
import type { Store } from "../app/store";
import { compare, type Change, type Compared } from "../model/compare";
import { shortName } from "../model/names";
import { count, duration, percent } from "../model/time";
import type { Period } from "../model/trace";
import type { Range } from "../model/view";
import {
  AgainstChoice,
  againstOf,
  againstWords,
  chosenRange,
  RangeChoice,
  rangeWords,
  type Against,
} from "./ranges";

const ROWS_SHOWN = 100;

const shown: Record<Change["unit"], (value: number) => string> = {
  ns: duration,
  share: percent,
  rate: (value) => `${value < 100 ? value.toFixed(1) : count(Math.round(value))}/s`,
  count: (value) => count(Math.round(value)),
};

/** "×1.8", or what was not there before; nothing: too little to name. */
function changeWords(one: Change): string {
  if (one.before === null || one.now === null) return "";
  if (one.before === one.now) return "=";
  if (one.before === 0) return "new";
  if (one.now === 0) return "gone";
  const times = one.now / one.before;
  return `×${times >= 10 ? times.toFixed(0) : times.toFixed(2)}`;
}

function Cells({ one }: { one: Change }) {
  const of = (value: number | null): string => (value === null ? "–" : shown[one.unit](value));
  const isMore = one.before !== null && one.now !== null && one.now > one.before * 1.05;
  const isLess = one.before !== null && one.now !== null && one.now < one.before / 1.05;
  return (
    <>
      <td>{of(one.before)}</td>
      <td>{of(one.now)}</td>
      <td class={isMore ? "more" : isLess ? "less" : "faint"}>{changeWords(one)}</td>
    </>
  );
}

function Rows({
  label,
  heads,
  rows,
}: {
  label: string;
  heads: readonly string[];
  rows: readonly { name: ComponentChildren; title: string; cells: readonly Change[] }[];
}) {
  return (
    <table class="list compare" aria-label={label}>
      <thead>
        <tr>
          <th class="left">{label}</th>
          {heads.map((words) => (
            <th key={words} colSpan={3}>
              {words}
            </th>
          ))}
        </tr>
      </thead>
      <tbody>
        {rows.slice(0, ROWS_SHOWN).map((row) => (
          <tr key={row.title}>
            <td class="left" title={row.title}>
              {row.name}
            </td>
            {row.cells.map((one, at) => (
              <Cells key={at} one={one} />
            ))}
          </tr>
        ))}
      </tbody>
    </table>
  );
}

function useCompared(
  store: Store,
  range: Range | null,
  against: Against | null,
): { compared: Compared | null; isAsked: boolean } {
  const [got, setGot] = useState<{ key: string; compared: Compared | null }>();
  const key = JSON.stringify([store.id, range, against?.store.id, against?.range]);
  useEffect(() => {
    let isOld = false;
    const ask = async (trace: Store, of: Range | null): Promise<Period | null> => {
      const { from, to } = of ?? { from: 0, to: trace.durationNs + 1 };
      return (await trace.ask({ op: "period", from, to })) as Period | null;
    };
    void (async () => {
      if (!against) return;
      const now = await ask(store, range);
      const before = await ask(against.store, against.range);
      if (!isOld) setGot({ key, compared: now && before && compare(before, now) });
    })();
    return () => (isOld = true);
  }, [key]);
  const isNow = got?.key === key;
  return { compared: isNow && against ? got.compared : null, isAsked: !isNow && against !== null };
}

export function ComparePanel({ store }: { store: Store }) {
  const range = chosenRange(store, "compare-in");
  const against = againstOf(store, "compare-with", range);
  const { compared, isAsked } = useCompared(store, range, against);
  store.shown = compared;
  return (
    <section class="comparing" aria-label="Compare" data-asked={isAsked}>
      <div class="controls">
        <RangeChoice store={store} option="compare-in" />
        <AgainstChoice store={store} option="compare-with" range={range} />
        {against && (
          <button
            onClick={() => {
              store.setOption("flame-in", store.option("compare-in"));
              store.setOption("flame-base", store.option("compare-with"));
              store.setPanel("flame");
            }}
          >
            the same as a flame graph
          </button>
        )}
      </div>
      {!against && (
        <p class="faint pad">
          Compare two parts of time: measure the usual part (Shift + drag), press “compare with
          this”, then measure the other. Or open another trace beside this one (<kbd>b</kbd>).
        </p>
      )}
      {isAsked && <p class="faint pad">Counting both …</p>}
      {against && !isAsked && !compared && (
        <p class="faint pad">The two have no time in common: choose another part.</p>
      )}
      {compared && against && (
        <>
          <p class="sum" role="status">
            Before: <b>{againstWords(store, against)}</b>, {duration(compared.beforeNs)}. Now:{" "}
            <b>{rangeWords(store, range)}</b>, {duration(compared.nowNs)}. One run against another
            may differ by chance; <code>kymo diff</code> says what is more than that.
          </p>
          <div class="scroll">
            <Rows
              label="in all"
              heads={["before, now, change"]}
              rows={compared.sums.map((one) => ({
                name: one.words,
                title: one.words,
                cells: [one.change],
              }))}
            />
            <Rows
              label="spawn place"
              heads={["polls", "of the time of a worker", "longest poll", "mean delay"]}
              rows={compared.places.map((one) => ({
                name: shortName(one.name),
                title: one.name ?? "unnamed",
                cells: [one.polls, one.busy, one.longest, one.delay],
              }))}
            />
            {compared.spans.length > 0 && (
              <Rows
                label="span"
                heads={["spans", "p50", "p99"]}
                rows={compared.spans.map((one) => ({
                  name: one.name ?? "unnamed",
                  title: one.name ?? "unnamed",
                  cells: [one.rate, one.p50, one.p99],
                }))}
              />
            )}
          </div>
        </>
      )}
    </section>
  );
}
