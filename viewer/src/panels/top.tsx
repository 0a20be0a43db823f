// SPDX-License-Identifier: Apache-2.0 OR MIT
// The line at the top: which trace this is, and what can be done with it.
import { openBeside, openFiles } from "../app/files";
import type { Live } from "../app/live";
import { copyLink } from "../app/share";
import type { Store } from "../app/store";
import { lostWords } from "../model/losses";
import { bytes, count, date, duration } from "../model/time";
import type { TraceInfo } from "../model/trace";
import type { Colouring } from "../model/view";
import { warningsOf } from "./overlays";

const COLOURINGS: Record<Colouring, string> = {
  duration: "duration",
  place: "spawn place",
  finding: "finding",
};

function choose(open: (files: FileList) => Promise<void>): void {
  const input = document.createElement("input");
  input.type = "file";
  input.multiple = true;
  // In the document until something is chosen: a browser may forget one that nobody holds.
  input.hidden = true;
  input.oncancel = () => input.remove();
  input.onchange = () => {
    input.remove();
    if (input.files) void open(input.files);
  };
  document.body.append(input);
  input.click();
}

export function chooseFile(store: Store): void {
  choose((files) => openFiles(store, files));
}

export function chooseBeside(store: Store): void {
  choose((files) => openBeside(store.all[0] ?? store, files));
}

/** Newer copies of a process that runs: they come, or the reason why not. */
function LiveButton({ live }: { live: Live }) {
  if (live.sentence) return <span class="lost">{live.sentence}</span>;
  const isFollowing = live.isOn && !live.isHeld;
  return (
    <button
      aria-pressed={isFollowing}
      onClick={() => (isFollowing ? live.pause() : live.follow())}
      title={
        isFollowing
          ? "a newer copy is read each second; choosing something or moving away holds this one"
          : "goes back to the end, and reads a newer copy each second"
      }
    >
      {isFollowing ? "● live" : "○ held"}
    </button>
  );
}

/** How long and how much comes first: what there is no room for is at the end. */
function factsOf(store: Store, trace: TraceInfo): string {
  return [
    duration(trace.duration_ns),
    `${count(trace.polls)} polls`,
    `${count(trace.tasks)} tasks`,
    ...(trace.pid ? [`pid ${trace.pid}`] : []),
    ...(store.clock.startUnixNs !== 0n ? [date(store.clock)] : []),
    `${count(trace.events)} events`,
  ].join(" · ");
}

/** What this trace lacks, in some words; the sentences by a click. */
function Warnings({ store, trace }: { store: Store; trace: TraceInfo }) {
  const all = warningsOf(trace);
  if (!all.length) return null;
  const notices = trace.notices.length;
  const words = [
    ...(trace.lost_records > 0 ? [lostWords(trace.lost_records)] : []),
    ...(notices ? [notices === 1 ? "one notice" : `${notices} notices`] : []),
    ...(trace.has_processes ? ["several processes"] : []),
  ];
  return (
    <button
      class="lost"
      title={all.join("\n")}
      onClick={() => {
        store.isWarningOpen = true;
        store.changed();
      }}
    >
      {words.join(" · ")}
    </button>
  );
}

export function Top({ store }: { store: Store }) {
  const trace = store.trace;
  const facts = trace ? factsOf(store, trace) : "";
  return (
    <header class="top">
      <h1>kymo</h1>
      <div
        class="trace"
        title={trace ? `${store.fileName}, ${bytes(trace.raw_bytes)} unpacked\n${facts}` : ""}
      >
        {trace && <b>{trace.service ?? store.fileName}</b>}
        {trace && (
          <span class="faint">{facts}</span>
        )}
      </div>
      {trace && <Warnings store={store} trace={trace} />}
      {trace && (
        <div class="tools">
          {store.live && <LiveButton live={store.live} />}
          <label>
            colour{" "}
            <select
              value={store.view.colouring}
              onChange={(event) => store.setColouring(event.currentTarget.value as Colouring)}
            >
              {Object.entries(COLOURINGS).map(([value, words]) => (
                <option key={value} value={value}>
                  {words}
                </option>
              ))}
            </select>
          </label>
          <button
            onClick={() => {
              store.isSearchOpen = true;
              store.changed();
            }}
          >
            Search <kbd>/</kbd>
          </button>
          <button
            onClick={() => {
              store.isGoOpen = true;
              store.changed();
            }}
          >
            Go to <kbd>g</kbd>
          </button>
          <button onClick={() => store.fit()} title="show the whole trace">
            Fit <kbd>0</kbd>
          </button>
          <button
            onClick={() => store.setUtc(!store.view.isUtc)}
            disabled={store.clock.startUnixNs === 0n}
            title="times from the beginning, or of the wall clock"
          >
            {store.view.isUtc ? "UTC" : "relative"} <kbd>u</kbd>
          </button>
          <button onClick={() => void copyLink(store)} title="copies the address of this view">
            Link <kbd>y</kbd>
          </button>
        </div>
      )}
      <div class="tools">
        <button
          onClick={() => store.setTheme(store.view.theme === "dark" ? "light" : "dark")}
          aria-label={`change to the ${store.view.theme === "dark" ? "light" : "dark"} theme`}
        >
          {store.view.theme === "dark" ? "Light" : "Dark"}
        </button>
        {trace && (
          <button
            onClick={() => chooseBeside(store)}
            title="another trace on the same clock, to compare with"
          >
            Beside <kbd>b</kbd>
          </button>
        )}
        <button onClick={() => chooseFile(store)}>Open file</button>
        <button
          onClick={() => {
            store.isHelpOpen = true;
            store.changed();
          }}
          aria-label="keys and help"
        >
          ?
        </button>
      </div>
    </header>
  );
}
