// SPDX-License-Identifier: Apache-2.0 OR MIT
// The canvas of the lanes, the overview above it, and what the pointer does to them.
import { useEffect, useRef } from "preact/hooks";
import { drawOverview } from "../draw/overview";
import { palette } from "../draw/palette";
import { AXIS_HEIGHT, legend, Timeline, type Hit } from "../draw/timeline";
import { LABEL_WIDTH } from "../layout/rows";
import { lossWords } from "../model/losses";
import { shortName } from "../model/names";
import { chosenOf } from "../model/choice";
import { count, duration, moment, tickStep } from "../model/time";
import { nameOf } from "./beside";
import type { Store } from "./store";

const CLICK_PIXELS = 4;
const WHEEL_STEP = 1.0015;
const LABEL =
  "Lanes of workers over time. Enter selects the longest poll in view; " +
  "a question mark lists the keys.";

function totalHeight(store: Store): number {
  const last = store.rows[store.rows.length - 1];
  return last ? last.top + last.height : 0;
}

function clampScroll(store: Store, high: number): void {
  store.scroll = Math.min(
    Math.max(0, store.scroll),
    Math.max(0, totalHeight(store) - (high - AXIS_HEIGHT)),
  );
}

function stateOf(store: Store, element: HTMLElement, pixels: number): Record<string, unknown> {
  const box = element.getBoundingClientRect();
  return {
    ...store.view,
    phase: store.phase,
    isExact: store.isExact,
    pixels,
    canvas: {
      x: box.left,
      y: box.top,
      width: box.width,
      height: box.height,
      labels: LABEL_WIDTH,
      axis: AXIS_HEIGHT,
    },
    rows: store.rows.map(({ kind, lane, label, top, height, wanted, isRate }) => ({
      kind,
      lane,
      layer: wanted[0]?.layer,
      label,
      top: top - store.scroll,
      height,
      isRate,
    })),
    selection: chosenOf(store.selection),
    why: store.selection?.why ?? null,
    durationNs: store.durationNs,
    taskIndex: store.taskIndex,
    panel: store.shown,
    arrow: store.scene()?.arrow ?? null,
  };
}

/** Draws when the store asks; sizes follow the element. */
function useTimeline(
  store: Store,
  canvas: { current: HTMLCanvasElement | null },
): { current: Timeline | null } {
  const timeline = useRef<Timeline | null>(null);
  useEffect(() => {
    const element = canvas.current;
    if (!element) return;
    const one = new Timeline(element);
    timeline.current = one;
    const draw = (): void => {
      one.resize(element.clientWidth, element.clientHeight, window.devicePixelRatio || 1);
      clampScroll(store, element.clientHeight);
      store.setCanvas(one.pixels, element.clientHeight);
      const scene = store.scene();
      if (scene) one.draw(scene);
    };
    const stop = store.onDraw(draw);
    const observer = new ResizeObserver(() => store.redraw());
    observer.observe(element);
    store.tools = {
      hit: (x, y) => {
        const box = element.getBoundingClientRect();
        const scene = store.scene();
        return scene ? one.hit(scene, x - box.left, y - box.top) : null;
      },
      state: () => stateOf(store, element, one.pixels),
    };
    if (!store.isGuest)
      window.kymo = {
        ...store.tools,
        ask: (question) => store.ask(question as Parameters<Store["ask"]>[0]),
        strips: (question) => store.askStrips(question as Parameters<Store["askStrips"]>[0]),
        all: () => store.all.map((each) => each.tools?.state() ?? null),
      };
    draw();
    return () => {
      stop();
      observer.disconnect();
    };
  }, []);
  return timeline;
}

interface Drag {
  x: number;
  y: number;
  from: number;
  to: number;
  scroll: number;
  mode: "pan" | "range" | "zoom";
  hasMoved: boolean;
}

/** Which trace it is, where there are several. */
function Head({ store }: { store: Store }) {
  const { beside } = store;
  if (!beside) return null;
  const isActive = beside.active === store;
  return (
    <div class={`pane-head${isActive ? " active" : ""}`}>
      <button
        class="link"
        aria-pressed={isActive}
        title="findings and panels are of this trace"
        onClick={() => beside.activate(store)}
      >
        {nameOf(store)}
      </button>
      <span class="faint">
        {store.trace
          ? `${duration(store.durationNs)} · ${count(store.trace.polls)} polls`
          : store.phase === "failed"
            ? store.sentence
            : `${store.progress.doing} …`}
      </span>
      <span class="grow" />
      {store.isGuest ? (
        <button aria-label={`close ${nameOf(store)}`} onClick={() => beside.close(store)}>
          ✕
        </button>
      ) : (
        <>
          <button
            disabled={!beside.canShareClock}
            title="one wall clock for all, or each from its own beginning"
            onClick={() => beside.setClocks(!beside.isFromBeginnings)}
          >
            {beside.isFromBeginnings ? "each from its beginning" : "one wall clock"}
          </button>
          <button onClick={() => beside.turn()}>
            {beside.isSideBySide ? "stack them" : "side by side"}
          </button>
        </>
      )}
    </div>
  );
}

/** The lanes of all traces. */
export function Panes({ store }: { store: Store }) {
  return (
    <div class={`panes${store.beside?.isSideBySide ? " side" : ""}`}>
      {store.all.map((one) => (
        <section
          class="pane"
          key={one.id}
          aria-label={store.beside ? `Lanes of ${nameOf(one)}` : "Lanes"}
          onPointerDown={() => one.beside?.activate(one)}
        >
          <Head store={one} />
          {one.trace && <Lanes store={one} />}
        </section>
      ))}
    </div>
  );
}

function Lanes({ store }: { store: Store }) {
  const canvas = useRef<HTMLCanvasElement>(null);
  const tip = useRef<HTMLDivElement>(null);
  const tipOf = useRef({ from: 0, to: 0 });
  const drag = useRef<Drag | null>(null);
  const timeline = useTimeline(store, canvas);

  const place = (
    event: PointerEvent | WheelEvent | MouseEvent,
  ): { x: number; y: number; time: number } => {
    const box = canvas.current?.getBoundingClientRect() ?? new DOMRect();
    const x = event.clientX - box.left;
    return {
      x,
      y: event.clientY - box.top,
      time: timeline.current?.timeAt(store.view, x) ?? 0,
    };
  };

  useEffect(
    () =>
      store.onDraw(() => {
        const { from, to } = store.view;
        const isOld = tipOf.current.from !== from || tipOf.current.to !== to;
        if (tip.current && isOld) tip.current.hidden = true; // it says what was there
      }),
    [],
  );

  const say = (words: string, x: number, y: number): void => {
    const element = tip.current;
    if (!element) return;
    element.textContent = words;
    element.hidden = false;
    const wide = canvas.current?.clientWidth ?? 0;
    element.style.left = `${Math.min(x + 12, wide - element.offsetWidth - 4)}px`;
    element.style.top = `${Math.max(0, y - 30)}px`;
    tipOf.current = { from: store.view.from, to: store.view.to };
  };

  const hover = (event: PointerEvent): void => {
    const element = tip.current;
    const scene = store.scene();
    const lanes = timeline.current;
    if (!element || !scene || !lanes) return;
    const { x, y, time } = place(event);
    const hit: Hit | null = lanes.hit(scene, x, y);
    const loss = lanes.lossAt(scene, x, y);
    if (x < LABEL_WIDTH) {
      element.hidden = true;
      return;
    }
    const step = tickStep((store.view.to - store.view.from) / 1000);
    const words = hit
      ? [
          shortName(hit.name),
          duration(hit.duration_ns) + (hit.layer === 1 ? " from ready to poll" : ""),
          `at ${moment(hit.start_ns, store.clock, 1000)}`,
        ]
      : [moment(time, store.clock, step)];
    if (loss) words.push(lossWords(loss, "here"));
    say(words.join(" · "), x, y);
  };

  const down = (event: PointerEvent): void => {
    if (event.button !== 0) return;
    const { x, y } = place(event);
    if (x < LABEL_WIDTH) {
      const scene = store.scene();
      const row = scene && timeline.current?.rowAt(scene, y);
      if (row?.kind === "head") store.fold(row.label);
      return;
    }
    const mode = event.altKey ? "zoom" : event.shiftKey || y < AXIS_HEIGHT ? "range" : "pan";
    drag.current = {
      x,
      y,
      from: store.view.from,
      to: store.view.to,
      scroll: store.scroll,
      mode,
      hasMoved: false,
    };
    canvas.current?.setPointerCapture(event.pointerId);
  };

  const move = (event: PointerEvent): void => {
    const { x, y, time } = place(event);
    const state = drag.current;
    if (!state) {
      hover(event);
      return;
    }
    if (
      !state.hasMoved &&
      Math.abs(x - state.x) < CLICK_PIXELS &&
      Math.abs(y - state.y) < CLICK_PIXELS
    )
      return;
    state.hasMoved = true;
    if (state.mode === "pan") {
      const wide = (canvas.current?.clientWidth ?? 1) - LABEL_WIDTH;
      const span = state.to - state.from;
      const { from: least, to: most } = store.limits;
      const from = Math.min(
        Math.max(least, state.from - ((x - state.x) / wide) * span),
        Math.max(least, most - span),
      );
      store.scroll = state.scroll - (y - state.y);
      store.setRange(from, from + span, false);
      store.redraw();
    } else {
      const began = timeline.current?.timeAt(store.view, state.x) ?? 0;
      store.range = { from: Math.min(began, time), to: Math.max(began, time) };
      say(duration(Math.abs(time - began)), x, y);
      store.changed();
    }
  };

  const up = (event: PointerEvent): void => {
    const state = drag.current;
    drag.current = null;
    if (!state) return;
    if (state.mode === "zoom" && store.range) {
      const { from, to } = store.range;
      store.range = null;
      store.setRange(from, to);
      store.changed();
    }
    if (state.hasMoved) return;
    const { x, y } = place(event);
    const scene = store.scene();
    const hit = scene && timeline.current?.hit(scene, x, y);
    if (hit) void store.select(hit);
    else store.clearSelection();
  };

  const wheel = (event: WheelEvent): void => {
    event.preventDefault();
    const { time } = place(event);
    const high = canvas.current?.clientHeight ?? 0;
    if (event.shiftKey || Math.abs(event.deltaX) > Math.abs(event.deltaY)) {
      store.pan((event.deltaX || event.deltaY) / 1000);
    } else if (event.ctrlKey || event.metaKey || totalHeight(store) <= high - AXIS_HEIGHT) {
      store.zoom(WHEEL_STEP ** event.deltaY, time);
    } else {
      store.scroll += event.deltaY;
      clampScroll(store, high);
      store.redraw();
    }
  };

  useEffect(() => {
    const element = canvas.current;
    element?.addEventListener("wheel", wheel, { passive: false });
    return () => element?.removeEventListener("wheel", wheel);
  }, []);

  const range = store.range;
  return (
    <div class="lanes">
      <canvas
        ref={canvas}
        tabIndex={0}
        role="application"
        aria-label={LABEL}
        onPointerDown={down}
        onPointerMove={move}
        onPointerUp={up}
        onDblClick={() => store.fit()}
        onPointerLeave={() => {
          if (tip.current) tip.current.hidden = true;
        }}
      />
      <div class="tip" ref={tip} hidden />
      {(range || store.all[store.all.length - 1] === store) && (
        <Legend store={store} range={range} />
      )}
    </div>
  );
}

function Legend({ store, range }: { store: Store; range: Store["range"] }) {
  return (
    <div class="legend">
        {range && (
          <span>
            <b>{duration(range.to - range.from)}</b> measured from{" "}
            {moment(range.from, store.clock, 1000)} <kbd>Enter</kbd> zooms to it
          </span>
        )}
        {!range &&
          legend(store.view.colouring, store.view.theme).map((one) => (
            <span key={one.words}>
              <i
                style={{
                  background: one.colour,
                }}
              />{" "}
              {one.words}
            </span>
          ))}
        {!range && store.view.colouring === "place" && <Places store={store} />}
        {!range && <Marks store={store} />}
        {!range && store.view.colouring === "finding" && (
          <span>what the chosen finding is about stands out</span>
        )}
        {!range && (store.trace?.losses.length ?? 0) > 0 && (
          <span>
            <i class="loss" /> records lost
          </span>
        )}
        <span class="grow" />
        {!store.beside && (
          <span class="faint">
            drag to move · Ctrl + wheel to zoom · <kbd>?</kbd> keys
          </span>
        )}
    </div>
  );
}

/** What else is in the lanes of workers, of what this trace has. */
function Marks({ store }: { store: Store }) {
  const colours = palette(store.view.theme);
  const lanes = store.trace?.lanes ?? [];
  const all: [boolean, string, string][] = [
    [lanes.some((one) => one.parks), colours.busyLine, "awake, in no poll"],
    [true, colours.delay, "polled late"],
    [lanes.some((one) => one.off_cpu), colours.offCpu, "off CPU in a poll"],
    [lanes.some((one) => one.has_run_delay), colours.runDelay, "waited for a CPU"],
  ];
  return (
    <>
      {all.map(
        ([isThere, background, words]) =>
          isThere && (
            <span key={words}>
              <i class="mark" style={{ background }} /> {words}
            </span>
          ),
      )}
    </>
  );
}

function Places({ store }: { store: Store }) {
  const first = [...store.ranks].filter(([, rank]) => rank < 6);
  return (
    <>
      {first.map(([name, rank]) => (
        <span key={name}>
          <i class={`place-${rank}`} /> {shortName(store.names.get(name))}
        </span>
      ))}
    </>
  );
}

export function Overview({ store }: { store: Store }) {
  const canvas = useRef<HTMLCanvasElement>(null);
  const drag = useRef<number | null>(null);
  useEffect(() => {
    const draw = (): void => {
      const element = canvas.current;
      if (!element || !store.trace) return;
      drawOverview(
        element,
        {
          strips: store.overview,
          durationNs: Math.max(1, store.durationNs),
          from: store.view.from,
          to: store.view.to,
          theme: store.view.theme,
          findings: (store.report?.findings ?? []).flatMap((one) =>
            one.evidence.slice(0, 1).map((piece) => ({
              time: piece.from_ns,
              isChosen: one.key === store.view.finding,
              isAlarm: one.severity !== "info",
            })),
          ),
        },
        window.devicePixelRatio || 1,
      );
    };
    const stop = store.onDraw(draw);
    store.redraw();
    return stop;
  }, []);
  const time = (event: PointerEvent): number => {
    const box = canvas.current?.getBoundingClientRect() ?? new DOMRect();
    return (
      Math.min(1, Math.max(0, (event.clientX - box.left) / Math.max(1, box.width))) *
      store.durationNs
    );
  };
  const brush = (event: PointerEvent): void => {
    if (drag.current === null) return;
    const at = time(event);
    if (Math.abs(at - drag.current) > store.durationNs / 500)
      store.setRange(Math.min(at, drag.current), Math.max(at, drag.current), false);
  };
  return (
    <canvas
      class="overview"
      ref={canvas}
      aria-label="The whole trace; drag to choose what is shown"
      role="img"
      onPointerDown={(event) => {
        drag.current = time(event);
        canvas.current?.setPointerCapture(event.pointerId);
      }}
      onPointerMove={brush}
      onPointerUp={(event) => {
        const at = time(event);
        if (drag.current !== null && Math.abs(at - drag.current) <= store.durationNs / 500) {
          const span = store.view.to - store.view.from;
          store.setRange(at - span / 2, at + span / 2);
        }
        drag.current = null;
      }}
    />
  );
}
