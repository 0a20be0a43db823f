// SPDX-License-Identifier: Apache-2.0 OR MIT
// A page without its trace: what `kymo report` says of it, beside its findings.
import type { Store } from "../app/store";
import { shortName } from "../model/names";
import { count, duration, percent } from "../model/time";
import type { Period, Quantiles } from "../model/trace";

const ROWS_SHOWN = 200;

function Row({ words, of }: { words: string; of: Quantiles }) {
  return (
    <tr>
      <td class="left">{words}</td>
      <td>{count(of.count)}</td>
      <td>{duration(of.p50_ns)}</td>
      <td>{duration(of.p99_ns)}</td>
      <td>{duration(of.max_ns)}</td>
    </tr>
  );
}

function Heads({ words }: { words: readonly string[] }) {
  return (
    <thead>
      <tr>
        {words.map((one, at) => (
          <th key={one} class={at ? "" : "left"}>
            {one}
          </th>
        ))}
      </tr>
    </thead>
  );
}

export function Summary({ store, tables }: { store: Store; tables: Period }) {
  const all = Math.max(
    1,
    tables.tasks.reduce((sum, one) => sum + one.busy_ns, 0),
  );
  return (
    <main class="summary" aria-label="Summary">
      <p>
        <b>{store.fileName}</b>, {duration(tables.to_ns - tables.from_ns)}: the trace is too large
        for this page, which has what <code>kymo report</code> says of it. Open the file itself to
        see polls over time.
      </p>
      <table class="list">
        <Heads words={["in all", "count", "p50", "p99", "longest"]} />
        <tbody>
          <Row words="polls" of={tables.polls} />
          <Row words="delays from ready to poll" of={tables.delays} />
          {tables.blocking.count > 0 && <Row words="blocking runs" of={tables.blocking} />}
        </tbody>
      </table>
      <table class="list">
        <Heads words={["spawn place", "tasks", "polls", "time", "share", "longest poll"]} />
        <tbody>
          {tables.tasks.slice(0, ROWS_SHOWN).map((one) => (
            <tr key={one.name ?? ""}>
              <td class="left" title={one.name ?? "unnamed"}>
                {shortName(one.name)}
              </td>
              <td>{count(one.tasks)}</td>
              <td>{count(one.polls)}</td>
              <td>{duration(one.busy_ns)}</td>
              <td>{percent(one.busy_ns / all)}</td>
              <td>{duration(one.poll_max_ns)}</td>
            </tr>
          ))}
        </tbody>
      </table>
      {(tables.spans?.length ?? 0) > 0 && (
        <table class="list">
          <Heads words={["span", "count", "p50", "p99", "longest"]} />
          <tbody>
            {tables.spans?.slice(0, ROWS_SHOWN).map((one) => (
              <Row key={one.name ?? ""} words={one.name ?? "unnamed"} of={one.lengths} />
            ))}
          </tbody>
        </table>
      )}
    </main>
  );
}
