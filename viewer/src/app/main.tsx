// SPDX-License-Identifier: Apache-2.0 OR MIT
// The page: findings on the left, lanes on the right, details at the bottom.
import { render } from "preact";
import { useEffect, useState } from "preact/hooks";
import { fromBase64 } from "../engine/packed";
import { findServed } from "../engine/served";
import { Workers } from "../engine/workers";
import { Details } from "../panels/details";
import { Findings } from "../panels/findings";
import { MapStrip } from "../panels/map";
import { GoTo, Help, Search, Warnings } from "../panels/overlays";
import type { Period, Report } from "../model/trace";
import { Start } from "../panels/start";
import { Summary } from "../panels/summary";
import { Top } from "../panels/top";
import { openFiles } from "./files";
import { listen } from "./keyboard";
import { Overview, Panes } from "./lanes";
import { Live } from "./live";
import { openRecordings } from "./recordings";
import { Store } from "./store";
import "./window";

// Filled in by build.mjs.
declare const WORKER_SOURCE: string;
const WASM_ID = "kymo-wasm";
const TRACE_ID = "kymo-trace";
/** The name that `kymo serve` gives a process that runs. */
const LIVE = "live";

function App({ store }: { store: Store }) {
  const [, again] = useState(0);
  useEffect(() => {
    const stop = store.subscribe(() => again((count) => count + 1));
    again((count) => count + 1); // what changed before
    return stop;
  }, []);
  const active = store.beside?.active ?? store;
  return (
    <>
      <Top store={store} />
      {store.trace || store.mapped ? (
        <>
          {store.mapped ? (
            <MapStrip store={store} mapped={store.mapped} />
          ) : (
            <Overview key={active.id} store={active} />
          )}
          <Findings store={active} />
          <Panes store={store} />
          <Details store={active} />
        </>
      ) : store.report ? (
        <>
          <Findings store={store} />
          <Summary store={store} tables={store.report.tables as unknown as Period} />
        </>
      ) : (
        <Start store={store} />
      )}
      {store.isHelpOpen && <Help store={store} />}
      {active.isSearchOpen && <Search store={active} />}
      {active.isGoOpen && <GoTo store={active} />}
      {store.isWarningOpen && store.trace && <Warnings store={store} trace={store.trace} />}
      {store.copied && (
        <div class="toast" role="status">
          {store.copied}
        </div>
      )}
      <div class="unseen" aria-live="polite">
        {active.said}
      </div>
    </>
  );
}

function takeDrops(store: Store): void {
  document.addEventListener("dragover", (event) => event.preventDefault());
  document.addEventListener("drop", (event) => {
    event.preventDefault();
    if (event.dataTransfer) void openFiles(store, event.dataTransfer.files);
  });
}

const packed = document.getElementById(WASM_ID)?.textContent?.trim() ?? "";
const workers = new Workers(WORKER_SOURCE, packed);
const store = new Store(workers);
window.kymo = {
  hit: () => null,
  state: () => ({ phase: store.phase, sentence: store.sentence }),
  ask: (question) => store.ask(question as never),
  strips: (question) => store.askStrips(question as never),
  all: () => [],
};
listen(store);
takeDrops(store);
render(<App store={store} />, document.body.appendChild(document.createElement("div")));
const summary = document.getElementById("kymo-summary");
if (!summary) workers.prepare();
const parameters = /^https?:$/.test(location.protocol)
  ? new URLSearchParams(location.search)
  : new URLSearchParams();
const embedded = document.getElementById(TRACE_ID);
const served = parameters.get("trace");
const recordings = parameters.get("open");
if (recordings) {
  store.setPhase("loading");
  const base = new URL("./", location.href).href;
  void openRecordings(store, base, recordings, parameters.get("parts") === "1");
} else if (served) {
  const url = new URL(`trace/${encodeURIComponent(served)}`, location.href).href;
  findServed(url).then(
    ({ file, name }) => {
      if (served === LIVE) store.live = new Live(store, url);
      return store.open(file, name);
    },
    (error: Error) => store.fail(error.message),
  );
} else if (summary) {
  store.fileName = summary.dataset["name"] ?? "trace";
  store.takeReport(JSON.parse(summary.textContent ?? "{}") as Report);
  store.setPhase("ready");
  store.changed();
} else if (embedded) {
  const bytes = fromBase64(embedded.textContent?.trim() ?? "");
  const name = embedded.dataset["name"] ?? "trace";
  store.firstHash = embedded.dataset["view"] ?? "";
  embedded.remove();
  store.open(new Blob([bytes]), name);
}
