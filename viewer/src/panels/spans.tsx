// SPDX-License-Identifier: Apache-2.0 OR MIT
// Spans: all names; of one name how long they took over time, by field, where their time went, what
// the slow ones have that the typical ones have not; one request as a waterfall over tasks.
import { useEffect, useRef, useState } from "preact/hooks";
import type { Store } from "../app/store";
import { drawHeat, type HeatScene } from "../draw/heat";
import { NONE } from "../engine/protocol";
import { shortName } from "../model/names";
import { count, duration, moment, percent } from "../model/time";
import type { SpanName, SpanRow, SpanSplit, SpanTree, SpansOfName, TailRow } from "../model/trace";
import { ALL_TIME, type Range } from "../model/view";
import { useAnswer } from "./answer";
import { words as chainWords } from "./chain";

const PIECES = 120;
const SPLIT: readonly [keyof SpanSplit, string, string][] = [
  ["cpu", "on CPU", "part-run"],
  ["off_cpu", "off CPU in polls", "part-blocked"],
  ["polled", "polled, on or off CPU", "part-behind"],
  ["ready", "ready, not polled", "part-delay"],
  ["waiting", "waiting", "part-idle"],
  ["client", "for the client", "part-lifo"],
  ["unknown", "not known", "part-unknown"],
];
const PART_WORDS = Object.fromEntries(SPLIT.map(([key, text]) => [key, text]));
const TAIL_SHOWN = 12;

function Split({ split }: { split: SpanSplit }) {
  const all = Math.max(1, SPLIT.reduce((sum, [key]) => sum + split[key], 0));
  const parts = SPLIT.filter(([key]) => split[key] > 0);
  return (
    <div
      class="bar thin"
      role="img"
      aria-label={parts.map(([key, text]) => `${percent(split[key] / all)} ${text}`).join(", ")}
    >
      {parts.map(([key, text, look]) => (
        <span
          key={key}
          class={look}
          style={{ width: `${(split[key] / all) * 100}%` }}
          title={`${text}: ${duration(split[key])}, ${percent(split[key] / all)}`}
        />
      ))}
    </div>
  );
}

function SplitLegend() {
  return (
    <span class="split-legend">
      {SPLIT.map(([key, text, look]) => (
        <span key={key}>
          <i class={look} /> {text}
        </span>
      ))}
    </span>
  );
}

function Names({ store, names }: { store: Store; names: SpanName[] }) {
  return (
    <div class="scroll">
      <table class="list" aria-label="Names of spans">
        <thead>
          <tr>
            <th class="left">span</th>
            <th>count</th>
            <th>open</th>
            <th>in all</th>
            <th>p50</th>
            <th>p90</th>
            <th>p99</th>
            <th>longest</th>
            <th class="left">where the time went</th>
          </tr>
        </thead>
        <tbody>
          {names.map((one) => (
            <tr key={one.index}>
              <td class="left">
                <button
                  class="link"
                  onClick={() => store.setOption("span-name", one.name ?? "unnamed")}
                >
                  {one.name ?? "unnamed"}
                </button>
              </td>
              <td>{count(one.count)}</td>
              <td>{one.open || ""}</td>
              <td>{duration(one.total_ns)}</td>
              <td>{duration(one.p50_ns)}</td>
              <td>{duration(one.p90_ns)}</td>
              <td>{duration(one.p99_ns)}</td>
              <td>{duration(one.max_ns)}</td>
              <td class="left wide">
                <Split split={one.split} />
              </td>
            </tr>
          ))}
        </tbody>
      </table>
    </div>
  );
}

/** Counts by time and duration; drag to choose a part of the time. */
function Heat({ store, scene }: { store: Store; scene: HeatScene }) {
  const canvas = useRef<HTMLCanvasElement>(null);
  const [words, setWords] = useState("");
  useEffect(() => {
    const element = canvas.current;
    if (!element) return;
    const draw = (): void => drawHeat(element, scene, store.view.theme);
    const observer = new ResizeObserver(draw);
    observer.observe(element);
    return () => observer.disconnect();
  });
  const pieceAt = (event: PointerEvent | MouseEvent): number => {
    const box = canvas.current?.getBoundingClientRect() ?? new DOMRect();
    return Math.floor(((event.clientX - box.left) / Math.max(1, box.width)) * scene.pieces);
  };
  const width = (scene.to - scene.from) / scene.pieces;
  const describe = (event: PointerEvent): void => {
    const piece = scene.list.find((one) => one.piece === pieceAt(event));
    const at = moment(scene.from + pieceAt(event) * width, store.clock, width);
    setWords(
      piece
        ? `${at}: ${count(piece.count)} spans, p50 ${duration(piece.p50_ns)}, ` +
            `p90 ${duration(piece.p90_ns)}, p99 ${duration(piece.p99_ns)}, ` +
            `longest ${duration(piece.max_ns)}`
        : `${at}: none`,
    );
  };
  return (
    <div>
      <canvas
        class="heat"
        ref={canvas}
        role="img"
        aria-label="How long the spans took over time"
        onPointerMove={describe}
        onClick={(event) => {
          const from = scene.from + pieceAt(event) * width;
          store.setRange(from, from + width);
        }}
      />
      <p class="faint">{words || "darker: more spans; the line is p99. Click: show that time."}</p>
    </div>
  );
}

function tailWords(row: TailRow): string {
  const mean = (ns: number | undefined): string => duration(ns ?? 0);
  const part = row.kind === "part" ? (PART_WORDS[row.what ?? ""] ?? row.what ?? "") : "";
  if (row.slow_ns !== undefined && (row.kind === "part" || !row.slow_ppm))
    return `${part || shortName(row.what)}: ${mean(row.slow_ns)} against ${mean(row.typical_ns)}`;
  const what =
    row.kind === "concurrency"
      ? `${row.at_least} and more others open`
      : row.kind === "field"
        ? `${row.what} = ${row.value ?? ""}`
        : row.kind === "parent"
          ? `in ${row.value ?? "no span"}`
          : row.kind === "site"
            ? `task of ${shortName(row.value)}`
            : `${row.kind === "cpu" ? "ran" : "was off CPU"} in ${shortName(row.what)}`;
  return `${what}: ${percent((row.slow_ppm ?? 0) / 1e6)} of the slow ones, ${percent(
    (row.typical_ppm ?? 0) / 1e6,
  )} of the typical`;
}

function Tail({ rows }: { rows: TailRow[] }) {
  if (!rows.length)
    return <p class="faint">Too few spans to set the slow ones against the typical ones.</p>;
  const [first] = rows;
  const sorted = rows.filter((row) => row.explains_ppm || (row.p_ppb ?? 1e9) < 5e7);
  return (
    <div>
      <h3>
        The {count(first?.slow_spans ?? 0)} slowest against {count(first?.typical_spans ?? 0)}{" "}
        typical ones
      </h3>
      <ul class="tail">
        {sorted.slice(0, TAIL_SHOWN).map((row, at) => (
          <li key={at}>
            {row.explains_ppm ? <b>{percent(row.explains_ppm / 1e6)} </b> : ""}
            {tailWords(row)}
          </li>
        ))}
      </ul>
    </div>
  );
}

function Facets({ store, of }: { store: Store; of: SpansOfName }) {
  if (!of.facets.length) return <p class="faint">These spans have no fields.</p>;
  return (
    <table class="list" aria-label="By field">
      <tbody>
        {of.facets.flatMap((facet) => [
          <tr key={facet.key}>
            <th class="left" colSpan={2}>
              {facet.key} <span class="faint">{count(facet.values)} values</span>
            </th>
            <th>count</th>
            <th>p50</th>
            <th>p99</th>
          </tr>,
          ...facet.most.map((one) => (
            <tr key={`${facet.key}=${one.value_index}`}>
              <td class="left" colSpan={2}>
                <button
                  class="link"
                  onClick={() => store.setOption("span-field", `${facet.key}=${one.value}`)}
                >
                  {one.value}
                </button>
              </td>
              <td>{count(one.count)}</td>
              <td>{duration(one.p50_ns)}</td>
              <td>{duration(one.p99_ns)}</td>
            </tr>
          )),
        ])}
      </tbody>
    </table>
  );
}

function Longest({ store, list, open }: {
  store: Store;
  list: SpanRow[];
  open: (span: number) => void;
}) {
  return (
    <table class="list" aria-label="The longest">
      <thead>
        <tr>
          <th class="left">the longest, at</th>
          <th>took</th>
          <th>task</th>
          <th class="left">where the time went</th>
        </tr>
      </thead>
      <tbody>
        {list.map((one) => (
          <tr key={one.span}>
            <td class="left">
              <button class="link" onClick={() => open(one.span)}>
                {moment(one.start_ns, store.clock, 1000)}
              </button>
            </td>
            <td>{duration(one.duration_ns)}</td>
            <td>{one.task ?? ""}</td>
            <td class="left wide">
              <Split split={one.split} />
            </td>
          </tr>
        ))}
      </tbody>
    </table>
  );
}

/** One request: its spans, and what its task's time depended on, on one axis. */
function Waterfall({ store, tree }: { store: Store; tree: SpanTree }) {
  const [root] = tree.spans;
  if (!root) return null;
  const at = (ns: number): string => `${((ns - root.start_ns) / root.duration_ns) * 100}%`;
  const share = (ns: number): string => `${Math.max(0.15, (ns / root.duration_ns) * 100)}%`;
  const links = (tree.chain?.links ?? []).map((link) => ({
    ...link,
    start: link.from_ns - store.startMonoNs,
    ns: link.to_ns - link.from_ns,
  }));
  const look: Record<string, string> = {
    poll: "part-run",
    ready: "part-delay",
    closure: "part-behind",
    line: "part-runnable",
    waiting: "part-idle",
  };
  const tasks = [...new Set(links.map((link) => link.task))];
  return (
    <section class="waterfall" aria-label="Waterfall of the request">
      <h3>
        {root.name}, {duration(root.duration_ns)}: {count(tree.span_count)} spans over{" "}
        {count(new Set(tree.spans.map((one) => one.task)).size)} tasks
      </h3>
      {tree.spans.map((one) => (
        <div key={one.span} class="fall">
          <button
            class="link"
            style={{ paddingLeft: `${one.depth * 12}px` }}
            onClick={() => void store.selectSpan(one.span, true)}
            title={`task ${one.task ?? "?"}`}
          >
            {shortName(one.name)}
          </button>
          <span class="track">
            <span
              class="part-span"
              style={{ left: at(one.start_ns), width: share(one.duration_ns) }}
              title={`${one.name}: ${duration(one.duration_ns)}, task ${one.task ?? "?"}`}
            />
          </span>
          <span>{duration(one.duration_ns)}</span>
        </div>
      ))}
      {tasks.map((task) => (
        <div key={task} class="fall">
          <span class="faint">
            task {task} {shortName(links.find((link) => link.task === task)?.site)}
          </span>
          <span class="track">
            {links
              .filter((link) => link.task === task)
              .map((link, index) => (
                <span
                  key={index}
                  class={look[link.kind] ?? "part-unknown"}
                  style={{ left: at(link.start), width: share(link.ns) }}
                  title={`${duration(link.ns)} ${chainWords(link)}`}
                />
              ))}
          </span>
          <span />
        </div>
      ))}
    </section>
  );
}

function One({ store, name, range }: { store: Store; name: SpanName; range: Range }) {
  const field = store.option("span-field");
  const [span, setSpan] = useState(-1);
  const tree = useAnswer<SpanTree>(store, span >= 0 ? { op: "spanTree", span } : null);
  const all = useAnswer<SpansOfName>(store, {
    ...{ op: "spanName" as const, name: name.index, from: range.from, to: range.to },
    ...{ pieces: PIECES, key: NONE, value: NONE },
  });
  const chosen = all.answer?.facets.flatMap((facet) =>
    facet.most
      .filter((one) => field === `${facet.key}=${one.value}`)
      .map((one) => ({ key: facet.key_index, value: one.value_index })),
  )[0];
  const some = useAnswer<SpansOfName>(
    store,
    chosen
      ? {
          ...{ op: "spanName" as const, name: name.index, from: range.from, to: range.to },
          ...{ pieces: PIECES, ...chosen },
        }
      : null,
  );
  const of = (chosen && some.answer) || all.answer;
  const isAsked = all.isAsked || some.isAsked || tree.isAsked;
  store.shown = !isAsked && of && { ...of, tree: tree.answer };
  return (
    <div class="one" data-asked={isAsked}>
      <div class="controls">
        <button onClick={() => store.setOption("span-name", "")}>‹ all names</button>
        <b>{name.name ?? "unnamed"}</b>
        {of && (
          <span>
            {count(of.count)} spans, p50 {duration(name.p50_ns)}, p90{" "}
            {duration(name.p90_ns)}, p99 {duration(name.p99_ns)}
          </span>
        )}
        {field && (
          <button onClick={() => store.setOption("span-field", "")}>only {field} ✕</button>
        )}
        <SplitLegend />
      </div>
      {of && (
        <div class="split">
          <div class="scroll">
            <Heat
              store={store}
              scene={{ list: of.pieces, pieces: PIECES, from: range.from, to: range.to }}
            />
            <Split split={of.split} />
            {tree.answer && <Waterfall store={store} tree={tree.answer} />}
            <Longest
              store={store}
              list={of.longest}
              open={(at) => {
                setSpan(at);
                void store.selectSpan(at, true);
              }}
            />
          </div>
          <div class="scroll">
            <Tail rows={of.tail} />
            <Facets store={store} of={of} />
          </div>
        </div>
      )}
    </div>
  );
}

export function SpansPanel({ store }: { store: Store }) {
  const isView = store.option("span-in") === "view";
  const end = store.durationNs + 1;
  const range = isView ? { from: store.view.from, to: store.view.to } : { from: 0, to: end };
  const names = useAnswer<SpanName[]>(store, {
    op: "spanNames",
    ...(isView ? range : ALL_TIME),
  });
  const wanted = store.option("span-name");
  const name = names.answer?.find((one) => (one.name ?? "unnamed") === wanted);
  if (!name) store.shown = !names.isAsked && names.answer;
  return (
    <section class="spans" aria-label="Spans" data-asked={names.isAsked}>
      <div class="controls">
        <label>
          spans that begin in{" "}
          <select
            value={isView ? "view" : ""}
            onChange={(event) => store.setOption("span-in", event.currentTarget.value)}
          >
            <option value="">the whole trace</option>
            <option value="view">what is in view</option>
          </select>
        </label>
        {!name && !!names.answer?.length && <SplitLegend />}
      </div>
      {names.answer && !names.answer.length && (
        <p class="faint pad">
          No span is recorded here. Requests become spans by <code>kymo run --conn</code>; spans
          of the crate tracing by <code>kymo::tracing_layer()</code> in the program.
        </p>
      )}
      {!name && !!names.answer?.length && <Names store={store} names={names.answer} />}
      {name && <One key={name.index} store={store} name={name} range={range} />}
    </section>
  );
}
