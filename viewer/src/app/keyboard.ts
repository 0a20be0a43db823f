// SPDX-License-Identifier: Apache-2.0 OR MIT
// Keys of the page. None of them counts while text is being typed.
import { addNote } from "../panels/notes";
import { chooseBeside } from "../panels/top";
import { copyLink, saveJson, savePicture } from "./share";
import type { Store } from "./store";
import { clear, measureView, nextColouring, showSelection, step, stepFinding } from "./walk";

const ZOOM = 0.7;
const PAN = 0.15;
const SCROLL = 160;

function isTyping(target: EventTarget | null): boolean {
  return (
    (target instanceof HTMLInputElement && target.type !== "checkbox") ||
    target instanceof HTMLTextAreaElement ||
    target instanceof HTMLSelectElement
  );
}

function isOnButton(target: EventTarget | null): boolean {
  return target instanceof HTMLButtonElement;
}

function enter(store: Store): void {
  if (store.range) {
    const { from, to } = store.range;
    store.range = null;
    store.setRange(from, to);
    store.changed();
  } else {
    void store.selectWorstInView();
  }
}

function escape(store: Store): void {
  const host = store.all[0] ?? store;
  if (host.isHelpOpen || host.isWarningOpen || store.isSearchOpen || store.isGoOpen) {
    for (const one of store.all) one.isSearchOpen = one.isGoOpen = false;
    host.isHelpOpen = host.isWarningOpen = false;
    store.changed();
  } else if (store.phase === "loading" && !store.trace) {
    store.cancel();
  } else {
    clear(store);
  }
}

function open(store: Store, which: "isHelpOpen" | "isSearchOpen" | "isGoOpen"): void {
  store[which] = true;
  store.changed();
}

/** By KeyboardEvent.key. */
const KEYS: Record<string, (store: Store) => void> = {
  w: (store) => store.zoom(ZOOM, store.cursor),
  s: (store) => store.zoom(1 / ZOOM, store.cursor),
  ArrowUp: (store) => store.zoom(ZOOM, null),
  ArrowDown: (store) => store.zoom(1 / ZOOM, null),
  a: (store) => store.pan(-PAN),
  d: (store) => store.pan(PAN),
  ArrowLeft: (store) => store.pan(-PAN),
  ArrowRight: (store) => store.pan(PAN),
  PageUp: (store) => {
    store.scroll -= SCROLL;
    store.redraw();
  },
  PageDown: (store) => {
    store.scroll += SCROLL;
    store.redraw();
  },
  "0": (store) => store.fit(),
  f: (store) => showSelection(store),
  n: (store) => void stepFinding(store, 1),
  p: (store) => void stepFinding(store, -1),
  ".": (store) => void step(store, 1, false),
  ",": (store) => void step(store, -1, false),
  "]": (store) => void step(store, 1, true),
  "[": (store) => void step(store, -1, true),
  t: (store) => {
    const task = store.selection?.poll?.task ?? store.selection?.span?.task;
    if (task) void store.showTask(task.index, task.id);
  },
  r: measureView,
  z: (store) => store.undoRange(),
  c: (store) => nextColouring(store),
  u: (store) => store.setUtc(!store.view.isUtc),
  y: (store) => void copyLink(store),
  Enter: enter,
  "1": (store) => store.setPanel(""),
  "2": (store) => store.setPanel("life"),
  "3": (store) => store.setPanel("flame"),
  "4": (store) => store.setPanel("chain"),
  "5": (store) => store.setPanel("wakes"),
  "6": (store) => store.setPanel("spans"),
  "7": (store) => store.setPanel("events"),
  "8": (store) => store.setPanel("notes"),
  "9": (store) => store.setPanel("compare"),
  b: (store) => chooseBeside(store),
  m: addNote,
  i: savePicture,
  j: saveJson,
};

export function listen(host: Store): void {
  window.addEventListener("keydown", (event) => {
    const store = host.beside?.active ?? host;
    if (event.key === "Escape") {
      escape(store);
      return;
    }
    if (isTyping(event.target) || event.ctrlKey || event.metaKey || event.altKey) return;
    if (event.key === "Enter" && isOnButton(event.target)) return;
    const isBoxed = host.isHelpOpen || host.isWarningOpen;
    if (event.key === "?") open(host, "isHelpOpen");
    else if (event.key === "/" && store.trace) open(store, "isSearchOpen");
    else if (event.key === "g" && store.trace) open(store, "isGoOpen");
    else if (store.trace && !isBoxed && KEYS[event.key]) KEYS[event.key]?.(store);
    else return;
    event.preventDefault();
  });
}
