// SPDX-License-Identifier: Apache-2.0 OR MIT
// Flame graphs: of a kind of samples, of a part of time, of a kind of task; found, turned round,
// from one function on, against another part of time. A table says the same.
import { useEffect, useRef, useState } from "preact/hooks";
import { save } from "../app/share";
import type { Store } from "../app/store";
import { drawFlame, FLAME_ROW, flameWords, layFlame } from "../draw/flame";
import {
  amount,
  folded,
  foundValue,
  makeFlame,
  type Flame,
  type FlameAnswer,
  type FlameNode,
} from "../model/flame";
import { shortFile, shortName } from "../model/names";
import { count, percent } from "../model/time";
import { ALL_TIME, type Range } from "../model/view";
import {
  AgainstChoice,
  againstOf,
  chosenRange,
  RangeChoice,
  rangeWords,
  type Against,
} from "./ranges";

const KINDS: Record<string, { kind: number; isLive?: boolean; words: string; note: string }> = {
  cpu: { kind: 0, words: "on CPU", note: "what ran" },
  "off-cpu": { kind: 1, words: "off CPU", note: "time in which threads were blocked or not run" },
  waiting: { kind: 2, words: "waiting", note: "time that tasks waited at their await points" },
  heap: { kind: 3, words: "allocated", note: "bytes allocated" },
  live: { kind: 3, isLive: true, words: "not freed", note: "bytes allocated and not freed" },
};
const HINT =
  "Click a function to zoom in; arrow keys walk, Enter zooms, Backspace goes back, " +
  "i looks from a function on.";
const ROWS_SHOWN = 200;
const TRUNK_SHARE = 0.9;

/** Answers for the range and the one compared with. */
function useAnswers(
  store: Store,
  kind: string,
  range: Range | null,
  base: Against | null,
  task: string,
): { now: FlameAnswer | null; before: FlameAnswer | null; isAsked: boolean } {
  const [got, setGot] = useState<{ key: string; now: FlameAnswer; before: FlameAnswer | null }>();
  const key = JSON.stringify([store.id, kind, range, base?.store.id, base?.range, task]);
  useEffect(() => {
    let isOld = false;
    const ask = async (trace: Store, of: Range | null): Promise<FlameAnswer | null> => {
      const { kind: number, isLive } = KINDS[kind] ?? { kind: 0 };
      const { from, to } = of ?? ALL_TIME;
      const name = task ? ([...trace.names].find(([, text]) => text === task)?.[0] ?? -1) : -1;
      const answer = await trace.ask({
        op: "flame",
        stacks: number,
        from,
        to,
        name,
        isLive: Boolean(isLive),
      });
      return answer as FlameAnswer | null;
    };
    void (async () => {
      const now = await ask(store, range);
      const before = base ? await ask(base.store, base.range) : null;
      if (!isOld && now) setGot({ key, now, before });
    })();
    return () => (isOld = true);
  }, [key, store.report, base?.store.report]);
  const isNow = got?.key === key;
  return { now: got?.now ?? null, before: got?.before ?? null, isAsked: !isNow };
}

function Graph({ store, flame, find }: { store: Store; flame: Flame; find: string }) {
  const canvas = useRef<HTMLCanvasElement>(null);
  const [zoomed, setZoomed] = useState<FlameNode>(flame.root);
  const [current, setCurrent] = useState<FlameNode | null>(null);
  const [wide, setWide] = useState(0);
  const [words, setWords] = useState("");
  useEffect(() => {
    setZoomed(flame.root);
    setCurrent(null);
    // What all samples have in common is above.
    let trunk = flame.root;
    while ((trunk.children[0]?.value ?? 0) > trunk.value * TRUNK_SHARE)
      trunk = trunk.children[0] ?? trunk;
    canvas.current?.parentElement?.scrollTo({ top: (trunk.depth - 2) * FLAME_ROW });
  }, [flame]);
  useEffect(() => {
    const element = canvas.current;
    if (!element) return;
    const observer = new ResizeObserver(() => setWide(element.clientWidth));
    observer.observe(element);
    return () => observer.disconnect();
  }, []);
  const boxes = layFlame(zoomed, wide || 1);
  useEffect(() => {
    if (canvas.current && wide)
      drawFlame(canvas.current, flame, boxes, {
        find,
        current,
        theme: store.view.theme,
        ratio: window.devicePixelRatio || 1,
      });
  });
  const at = (event: PointerEvent | MouseEvent): FlameNode | null => {
    const box = canvas.current?.getBoundingClientRect() ?? new DOMRect();
    const x = event.clientX - box.left;
    const y = event.clientY - box.top;
    const hit = boxes.find(
      (one) => y >= one.y && y < one.y + FLAME_ROW && x >= one.x && x < one.x + one.wide,
    );
    return hit?.node ?? null;
  };
  const choose = (node: FlameNode | null | undefined): void => {
    if (!node) return;
    setCurrent(node);
    setWords(flameWords(flame, node));
  };
  const key = (event: KeyboardEvent): void => {
    const from = current ?? zoomed;
    const peers = from.parent?.children ?? [from];
    const place = peers.indexOf(from);
    const to: Record<string, () => void> = {
      ArrowUp: () => choose(from.parent),
      ArrowDown: () => choose(from.children[0]),
      ArrowLeft: () => choose(peers[place - 1]),
      ArrowRight: () => choose(peers[place + 1]),
      Enter: () => setZoomed(from),
      Backspace: () => setZoomed(zoomed.parent ?? zoomed),
      Home: () => setZoomed(flame.root),
      i: () => from.fn && store.setOption("flame-of", from.name),
    };
    const act = to[event.key];
    if (!act) return;
    act();
    event.preventDefault();
    event.stopPropagation();
  };
  return (
    <div class="flame">
      <p class="words" role="status">
        {words || HINT}
      </p>
      <canvas
        ref={canvas}
        tabIndex={0}
        role="application"
        aria-label="Flame graph; the table beside it says the same"
        style={{ height: `${(flame.depth + 1) * FLAME_ROW}px` }}
        onPointerMove={(event) => {
          const node = at(event);
          if (node) setWords(flameWords(flame, node));
        }}
        onClick={(event) => {
          const node = at(event);
          if (!node) return;
          choose(node);
          setZoomed(node);
        }}
        onKeyDown={key}
      />
    </div>
  );
}

function Table({ store, flame, find }: { store: Store; flame: Flame; find: string }) {
  const all = Math.max(1, flame.rows.reduce((sum, row) => sum + row.self, 0));
  const baseAll = Math.max(1, flame.rows.reduce((sum, row) => sum + row.baseSelf, 0));
  const isDiff = flame.baseSum > 0;
  const rows = find
    ? flame.rows.filter((row) => row.fn.name.toLowerCase().includes(find.toLowerCase()))
    : flame.rows;
  const change = (now: number, before: number): string => {
    const points = (now / all - before / baseAll) * 100;
    return `${points >= 0 ? "+" : "−"}${Math.abs(points).toFixed(1)}`;
  };
  return (
    <div class="scroll">
      <table class="list" aria-label="Functions">
        <thead>
          <tr>
            <th>itself</th>
            <th>share</th>
            <th>with callees</th>
            {isDiff && <th title="percentage points of itself">change</th>}
            <th class="left">function</th>
          </tr>
        </thead>
        <tbody>
          {rows.slice(0, ROWS_SHOWN).map((row) => (
            <tr key={row.fn.name} class={row.fn.is_own ? "own" : ""}>
              <td>{amount(row.self, flame.unit)}</td>
              <td>{percent(row.self / all)}</td>
              <td>{amount(row.total, flame.unit)}</td>
              {isDiff && <td>{change(row.self, row.baseSelf)}</td>}
              <td class="left" title={row.fn.name}>
                <button class="link" onClick={() => store.setOption("flame-of", row.fn.name)}>
                  {shortName(row.fn.name)}
                </button>
                {row.fn.file && (
                  <span class="faint">
                    {shortFile(row.fn.file)}
                    {row.fn.line ? `:${row.fn.line}` : ""}
                  </span>
                )}
              </td>
            </tr>
          ))}
        </tbody>
      </table>
      {rows.length > ROWS_SHOWN && (
        <p class="faint">{count(rows.length - ROWS_SHOWN)} more: search for them.</p>
      )}
    </div>
  );
}

function Controls({ store, range }: { store: Store; range: Range | null }) {
  const kind = store.option("flame") || "cpu";
  const kinds = [...store.ranks.keys()];
  const of = store.option("flame-of");
  const isUp = store.option("flame-up") === "1";
  return (
    <div class="controls">
      <label>
        samples{" "}
        <select
          value={kind}
          onChange={(event) => store.setOption("flame", event.currentTarget.value)}
        >
          {Object.entries(KINDS).map(([value, one]) => (
            <option key={value} value={value}>
              {one.words}
            </option>
          ))}
        </select>
      </label>
      <RangeChoice store={store} option="flame-in" />
      <label>
        of{" "}
        <select
          value={store.option("flame-task")}
          onChange={(event) => store.setOption("flame-task", event.currentTarget.value)}
        >
          <option value="">all tasks</option>
          {kinds.map((name) => {
            const text = store.names.get(name) ?? "";
            return (
              <option key={name} value={text}>
                {shortName(text)}
              </option>
            );
          })}
        </select>
      </label>
      <input
        type="search"
        placeholder="find a function"
        aria-label="find a function"
        value={store.option("flame-find")}
        onInput={(event) => store.setOption("flame-find", event.currentTarget.value)}
      />
      <button
        aria-pressed={isUp}
        onClick={() => store.setOption("flame-up", isUp ? "" : "1")}
        title="from the function that ran to its callers, or from the root to callees"
      >
        {isUp ? "callers" : "callees"}
      </button>
      {of && (
        <button onClick={() => store.setOption("flame-of", "")}>
          {isUp ? "callers" : "callees"} of {shortName(of)} ✕
        </button>
      )}
      <AgainstChoice store={store} option="flame-base" range={range} />
    </div>
  );
}

export function FlamePanel({ store }: { store: Store }) {
  const kind = store.option("flame") || "cpu";
  const range = chosenRange(store, "flame-in");
  const task = store.option("flame-task");
  const base = againstOf(store, "flame-base", range);
  const { now, before, isAsked } = useAnswers(store, kind, range, base, task);
  const find = store.option("flame-find");
  const isUp = store.option("flame-up") === "1";
  const of = store.option("flame-of");
  const made = useRef<{ key: unknown[]; flame: Flame } | null>(null);
  const key = [now, before, isUp, of];
  if (now && !made.current?.key.every((one, at) => one === key[at]))
    made.current = { key, flame: makeFlame(now, before, isUp, of) };
  const flame = now ? (made.current?.flame ?? null) : null;
  store.shown = flame && {
    ...{ sum: flame.sum, baseSum: flame.baseSum },
    rows: flame.rows.map((row) => ({ name: row.fn.name, self: row.self, total: row.total })),
    children: flame.root.children.map(({ name, value, self }) => ({ name, value, self })),
  };
  const found = flame && find ? foundValue(flame.root, find) : 0;
  return (
    <section class="flames" aria-label="Flame graph" data-asked={isAsked}>
      <Controls store={store} range={range} />
      {!flame && <p class="faint pad">Adding up the samples …</p>}
      {flame && now && (
        <p class="sum" role="status">
          <b>{amount(flame.sum, flame.unit)}</b> in {count(now.samples)} samples:{" "}
          {KINDS[kind]?.note}, {rangeWords(store, range)}
          {find && (
            <span class="found-share">
              {" "}
              · {amount(found, flame.unit)}, {percent(found / Math.max(1, flame.sum))} with “{find}”
            </span>
          )}{" "}
          <button class="link" onClick={() => save(store, "folded.txt", folded(now))}>
            save as folded stacks
          </button>
        </p>
      )}
      {flame && now && !now.samples && (
        <p class="faint pad">
          No sample of this kind{" "}
          {range || task ? "is in this part of the trace" : "was taken"}.
        </p>
      )}
      {flame && now && now.samples > 0 && (
        <div class="split">
          <Graph store={store} flame={flame} find={find} />
          <Table store={store} flame={flame} find={find} />
        </div>
      )}
    </section>
  );
}
