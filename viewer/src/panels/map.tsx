// SPDX-License-Identifier: Apache-2.0 OR MIT
// The strip of a recording that is read in parts: where it was busy, where polls were long, and
// which part of it is decoded.
import { useEffect, useRef, useState } from "preact/hooks";
import type { Mapped } from "../app/mapped";
import type { Store } from "../app/store";
import { drawMap, hitMap, mapTime, type MapScene } from "../draw/map";
import { bytes, count, duration, moment } from "../model/time";
import type { Range } from "../model/view";

const CLICK_PIXELS = 4;
const WHEEL_STEP = 1.0015;

function sceneOf(store: Store, mapped: Mapped, brush: Range | null): MapScene | null {
  const { shown, view, part } = mapped;
  if (!shown) return null;
  return { map: shown, view, part, lanes: mapped.lanesView, brush, theme: store.view.theme };
}

export function MapStrip({ store, mapped }: { store: Store; mapped: Mapped }) {
  const canvas = useRef<HTMLCanvasElement>(null);
  const drag = useRef<{ x: number; time: number } | null>(null);
  const brush = useRef<Range | null>(null);
  const [words, setWords] = useState("");
  const draw = (): void => {
    const scene = sceneOf(store, mapped, brush.current);
    if (canvas.current && scene) drawMap(canvas.current, scene, window.devicePixelRatio || 1);
  };
  useEffect(() => {
    const stop = store.onDraw(draw);
    const observer = new ResizeObserver(() => store.redraw());
    if (canvas.current) observer.observe(canvas.current);
    draw();
    const wheel = (event: WheelEvent): void => {
      event.preventDefault();
      const at = place(event).time;
      const by = WHEEL_STEP ** event.deltaY;
      const { from, to } = mapped.view;
      mapped.zoom({ from: at - (at - from) * by, to: at + (to - at) * by });
    };
    canvas.current?.addEventListener("wheel", wheel, { passive: false });
    return () => {
      stop();
      observer.disconnect();
      canvas.current?.removeEventListener("wheel", wheel);
    };
  }, []);
  const place = (event: MouseEvent): { x: number; y: number; time: number } => {
    const box = canvas.current?.getBoundingClientRect() ?? new DOMRect();
    const x = event.clientX - box.left;
    return { x, y: event.clientY - box.top, time: mapTime(mapped, box.width, x) };
  };
  const hit = (event: MouseEvent): ReturnType<typeof hitMap> => {
    const scene = sceneOf(store, mapped, null);
    const box = canvas.current?.getBoundingClientRect() ?? new DOMRect();
    const { x, y } = place(event);
    return scene && hitMap(scene, { wide: box.width, high: box.height }, x, y);
  };
  const move = (event: PointerEvent): void => {
    const { time, x } = place(event);
    if (drag.current && Math.abs(x - drag.current.x) >= CLICK_PIXELS) {
      const began = drag.current.time;
      brush.current = { from: Math.min(began, time), to: Math.max(began, time) };
      store.redraw();
      return;
    }
    const poll = hit(event);
    setWords(
      poll
        ? `longest poll here: ${duration(poll.length)} on worker ${poll.worker}, task ${poll.task}`
        : "",
    );
  };
  const up = (event: PointerEvent): void => {
    const chosen = brush.current;
    drag.current = brush.current = null;
    if (chosen) void mapped.choosePart(chosen);
    else {
      const poll = hit(event);
      void mapped.goTo(poll ? poll.start : place(event).time, poll?.start ?? null);
    }
    store.redraw();
  };
  const { shown, whole, part } = mapped;
  const wrong = mapped.sentence || store.sentence; // of the map; of the part that is decoded
  const clock = store.clock;
  return (
    <div class="map">
      <canvas
        ref={canvas}
        role="img"
        aria-label="The whole recording by its indexes; click a long poll to decode what is there"
        onPointerDown={(event) => {
          const { x, time } = place(event);
          drag.current = { x, time };
          canvas.current?.setPointerCapture(event.pointerId);
        }}
        onPointerMove={move}
        onPointerUp={up}
        onDblClick={() => mapped.zoom({ from: 0, to: whole?.duration_ns ?? 1 })}
      />
      <p class="map-words" role="status">
        {wrong ? (
          <span class="wrong">{wrong}</span>
        ) : mapped.isReading ? (
          "Decoding …"
        ) : words ? (
          words
        ) : (
          whole &&
          `${whole.segments.length} ${whole.segments.length === 1 ? "segment" : "segments"}, ` +
            `${bytes(whole.segments.reduce((sum, one) => sum + one.bytes, 0))}, ` +
            `${duration(whole.duration_ns)}, ${count(whole.event_count)} events by their indexes`
        )}
        <span class="grow" />
        {part && (
          <span class="faint">
            decoded: {duration(part.to - part.from)} from {moment(part.from, clock, 1e6)} · click a
            long poll, or drag · wheel zooms
          </span>
        )}
        {shown && whole && mapped.view.to - mapped.view.from < whole.duration_ns && (
          <button class="link" onClick={() => mapped.zoom({ from: 0, to: whole.duration_ns })}>
            all of it
          </button>
        )}
      </p>
    </div>
  );
}
