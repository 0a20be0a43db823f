// SPDX-License-Identifier: Apache-2.0 OR MIT
// What lies over the page: help, search, go to a time.
import type { ComponentChildren } from "preact";
import { useEffect, useRef, useState } from "preact/hooks";
import type { Store } from "../app/store";
import { goTo, goToFound, search } from "../app/walk";
import type { Found, TraceInfo } from "../model/trace";
import { lossWords } from "../model/losses";
import { shortFile, shortName } from "../model/names";
import { count, duration } from "../model/time";

const KEYS: readonly [string, string][] = [
  ["n, p", "next, previous finding"],
  ["Enter", "select the longest poll in view"],
  [".  ,", "next, previous poll of the same worker"],
  ["]  [", "next, previous poll of the same task"],
  ["t", "show the life of the selected task over all workers"],
  ["f", "show what is selected; again: the whole trace"],
  ["w, s or ↑, ↓", "zoom in, out"],
  ["a, d or ←, →", "move in time"],
  ["Page Up, Page Down", "scroll the lanes"],
  ["0", "the whole trace"],
  ["z", "undo the last zoom"],
  ["/", "search: task number, spawn place, span, function"],
  ["g", "go to a time"],
  ["r", "measure what is in view, for panels; again: no more"],
  ["c", "colours: duration, spawn place, finding"],
  ["u", "times: from the beginning, or UTC"],
  [
    "1 … 9",
    "panels: selected, life of a task, flame graph, chain, wakes, spans, events, notes, compare",
  ],
  ["b", "open another trace beside this one, on the same clock"],
  ["m", "a note at what is selected"],
  ["y", "copy the link of this view"],
  ["i, j", "save the lanes as a picture, the view as JSON"],
  ["Esc", "close, clear the selection, then the finding"],
];
const MOUSE: readonly [string, string][] = [
  ["wheel", "zoom at the pointer; where there are more lanes than room: scroll them"],
  ["Ctrl + wheel", "zoom at the pointer"],
  ["Shift + wheel", "move in time"],
  ["drag", "move in time"],
  ["Shift + drag, or drag on the time axis", "measure a range; Enter zooms to it"],
  ["Alt + drag", "zoom to a range"],
  ["double click", "the whole trace"],
  ["drag on the overview", "choose what is shown"],
];
const LANES: readonly [string, string, string][] = [
  ["poll", "a poll: the taller, the more of that time the worker was in polls", "swatch-poll"],
  ["awake", "the worker was awake and in no poll; parked where the lane is empty", "swatch-busy"],
  [
    "delay",
    "a poll that came late: thin from 0.1 ms, thick from 1 ms from ready to poll",
    "swatch-delay",
  ],
  ["off CPU", "off the CPU inside a poll", "swatch-off"],
  ["run delay", "the worker's thread waited for a CPU after its park", "swatch-run"],
  ["sample", "a CPU sample was taken", "swatch-sample"],
  ["loss", "records are missing here", "swatch-loss"],
];

function Overlay({
  label,
  close,
  children,
}: {
  label: string;
  close: () => void;
  children: ComponentChildren;
}) {
  const box = useRef<HTMLDivElement>(null);
  useEffect(() => {
    const before = document.activeElement as HTMLElement | null;
    box.current?.querySelector<HTMLElement>("input, button")?.focus({ preventScroll: true });
    return () => before?.focus();
  }, []);
  return (
    <div
      class="overlay"
      onClick={(event) => {
        if (event.target === event.currentTarget) close();
      }}
    >
      <div
        class="box"
        role="dialog"
        aria-modal="true"
        aria-label={label}
        ref={box}
        onKeyDown={(event) => {
          if (event.key === "Escape") {
            event.stopPropagation();
            close();
          }
        }}
      >
        {children}
      </div>
    </div>
  );
}

function Table({ rows }: { rows: readonly [string, string][] }) {
  return (
    <table>
      <tbody>
        {rows.map(([keys, words]) => (
          <tr key={keys}>
            <th>
              <kbd>{keys}</kbd>
            </th>
            <td>{words}</td>
          </tr>
        ))}
      </tbody>
    </table>
  );
}

export function Help({ store }: { store: Store }) {
  const close = (): void => {
    store.isHelpOpen = false;
    store.changed();
  };
  return (
    <Overlay label="Help" close={close}>
      <div class="help">
        <div>
          <h2>Keys</h2>
          <Table rows={KEYS} />
        </div>
        <div>
          <h2>Mouse</h2>
          <Table rows={MOUSE} />
          <h2>In a lane</h2>
          <table>
            <tbody>
              {LANES.map(([name, words, swatch]) => (
                <tr key={name}>
                  <th>
                    <i class={`swatch ${swatch}`} /> {name}
                  </th>
                  <td>{words}</td>
                </tr>
              ))}
            </tbody>
          </table>
        </div>
      </div>
      <button onClick={close}>
        Close <kbd>Esc</kbd>
      </button>
    </Overlay>
  );
}

function foundWords(one: Found): { what: string; text: string; detail: string } {
  switch (one.kind) {
    case "task":
      return {
        what: "task",
        text: `${one.id} ${shortName(one.text)}`,
        detail: `${count(one.polls)} polls, longest ${duration(one.poll_max_ns)}`,
      };
    case "kind":
      return {
        what: "spawn place",
        text: one.text,
        detail: `longest poll ${duration(one.poll_max_ns)}`,
      };
    case "spans":
      return {
        what: "span",
        text: one.text,
        detail: `${count(one.count)} spans`,
      };
    case "function":
      return {
        what: "function",
        text: one.text,
        detail:
          (one.file ? `${shortFile(one.file)}${one.line ? `:${one.line}` : ""}, ` : "") +
          `${one.samples === 1 ? "one sample" : `${count(one.samples)} samples`} in polls`,
      };
  }
}

export function Search({ store }: { store: Store }) {
  const [text, setText] = useState("");
  const [at, setAt] = useState(0);
  const close = (): void => {
    store.isSearchOpen = false;
    store.changed();
  };
  const found = text ? store.found : [];
  const choose = (one: Found | undefined): void => {
    if (one) void goToFound(store, one);
  };
  return (
    <Overlay label="Search" close={close}>
      <input
        type="search"
        placeholder="task number, spawn place, span or function"
        aria-label="search for"
        value={text}
        onInput={(event) => {
          setText(event.currentTarget.value);
          setAt(0);
          void search(store, event.currentTarget.value);
        }}
        onKeyDown={(event) => {
          if (event.key === "ArrowDown") setAt(Math.min(at + 1, found.length - 1));
          else if (event.key === "ArrowUp") setAt(Math.max(at - 1, 0));
          else if (event.key === "Enter") choose(found[at]);
          else return;
          event.preventDefault();
        }}
      />
      <ul class="found" role="listbox" aria-label="found">
        {found.map((one, index) => {
          const words = foundWords(one);
          return (
            <li
              key={index}
              role="option"
              aria-selected={index === at}
              class={index === at ? "chosen" : ""}
            >
              <button onClick={() => choose(one)}>
                <span class="badge">{words.what}</span> {words.text}{" "}
                <span class="faint">{words.detail}</span>
              </button>
            </li>
          );
        })}
        {text && !found.length && <li class="faint pad">Nothing in this trace is called that.</li>}
      </ul>
    </Overlay>
  );
}

const WARNINGS_MAX = 20;

/** Sentences about what the trace lacks. */
export function warningsOf(trace: TraceInfo): string[] {
  const losses = trace.losses.map((one) => `${lossWords(one)}.`);
  return [
    ...trace.notices.map((one) => one.text),
    ...losses.slice(0, WARNINGS_MAX),
    ...(losses.length > WARNINGS_MAX
      ? [`${count(losses.length - WARNINGS_MAX)} more losses are drawn in the lanes.`]
      : []),
    ...(trace.has_processes
      ? ["Rows of several processes are shown as one; open one process at a time."]
      : []),
  ];
}

export function Warnings({ store, trace }: { store: Store; trace: TraceInfo }) {
  const close = (): void => {
    store.isWarningOpen = false;
    store.changed();
  };
  return (
    <Overlay label="What this trace lacks" close={close}>
      <h2>What this trace lacks</h2>
      <ul>
        {warningsOf(trace).map((text, at) => (
          <li key={at}>{text}</li>
        ))}
      </ul>
      <button onClick={close}>
        Close <kbd>Esc</kbd>
      </button>
    </Overlay>
  );
}

export function GoTo({ store }: { store: Store }) {
  const [wrong, setWrong] = useState("");
  const close = (): void => {
    store.isGoOpen = false;
    store.changed();
  };
  return (
    <Overlay label="Go to a time" close={close}>
      <form
        onSubmit={(event) => {
          event.preventDefault();
          const text = event.currentTarget.querySelector("input")?.value ?? "";
          if (goTo(store, text)) close();
          else
            setWrong(
              `'${text}' is no time of this trace: it goes from 0 s to ` +
                `${duration(store.durationNs)}.`,
            );
        }}
      >
        <input
          type="text"
          placeholder={
            store.clock.startUnixNs !== 0n ? "3.81s, 810ms or 12:03:44.5 (UTC)" : "3.81s or 810ms"
          }
          aria-label="time"
        />
        <button type="submit">Go</button>
        {wrong && (
          <p class="wrong" role="alert">
            {wrong}
          </p>
        )}
      </form>
    </Overlay>
  );
}
