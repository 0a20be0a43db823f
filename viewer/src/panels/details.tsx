// SPDX-License-Identifier: Apache-2.0 OR MIT
// All facts of what is selected, in three columns: what it is, why it was late, what ran inside.
import type { ComponentChildren } from "preact";
import type { Store } from "../app/store";
import type {
  DelayPart,
  Frame,
  LifeEvent,
  PollFacts,
  RunFacts,
  Sample,
  SpanFacts,
  TaskFacts,
  WhyAnswer,
} from "../model/trace";
import { ChainPanel } from "./chain";
import { ComparePanel } from "./compare";
import { EventFactsOf, EventsPanel } from "./events";
import { FlamePanel } from "./flame";
import { NotesPanel } from "./notes";
import { SpansPanel } from "./spans";
import { WakesPanel } from "./wakes";
import { shortFile, shortName, taskWords } from "../model/names";
import { count, duration, moment, percent } from "../model/time";

const PART_COLOURS: Record<string, string> = {
  "behind_poll.on_cpu": "part-run",
  "behind_poll.blocked": "part-blocked",
  "behind_poll.runnable": "part-runnable",
  "behind_poll.unsplit": "part-behind",
  lifo: "part-lifo",
  parked_notified: "part-kernel",
  parked_unsplit: "part-kernel",
  parked_unnotified: "part-kernel",
  scheduler_runnable: "part-runnable",
  runtime: "part-runtime",
  own_on_cpu: "part-run",
  own_blocked: "part-blocked",
  own_runnable: "part-runnable",
  nested: "part-lifo",
};
const FRAMES_SHOWN = 12;
const FRAMES_FIRST = 5;
const PARTS_SHOWN = 8;

export function Facts({ rows }: { rows: [string, ComponentChildren][] }) {
  return (
    <dl>
      {rows.map(([name, value]) => (
        <div key={name}>
          <dt>{name}</dt>
          <dd>{value}</dd>
        </div>
      ))}
    </dl>
  );
}

function Bar({ parts, all }: { parts: { key: string; words: string; ns: number }[]; all: number }) {
  return (
    <div>
      <div
        class="bar"
        role="img"
        aria-label={parts.map((one) => `${duration(one.ns)} ${one.words}`).join(", ")}
      >
        {parts.map((one, at) => (
          <span
            key={at}
            class={PART_COLOURS[one.key] ?? "part-unknown"}
            style={{
              width: `${Math.max(0.5, (one.ns / Math.max(1, all)) * 100)}%`,
            }}
            title={`${duration(one.ns)}: ${one.words}`}
          />
        ))}
      </div>
      <ul class="parts">
        {parts.map((one, at) => (
          <li key={at}>
            <i class={PART_COLOURS[one.key] ?? "part-unknown"} />
            <b>{duration(one.ns)}</b>{" "}
            <span class="faint">{percent(one.ns / Math.max(1, all))}</span> {one.words}
          </li>
        ))}
      </ul>
    </div>
  );
}

function taskRows(store: Store, task: TaskFacts): [string, ComponentChildren][] {
  const rows: [string, ComponentChildren][] = [
    [
      task.is_root ? "root" : "task",
      <span>
        {task.is_root ? taskWords(task.id).replace("root ", "") : task.id}{" "}
        <button class="link" onClick={() => void store.showTask(task.index, task.id)}>
          show its life
        </button>
      </span>,
    ],
    [
      "of the task",
      `${count(task.polls)} polls, ${duration(task.busy_ns)} in them, ` +
        `longest ${duration(task.poll_max_ns)}`,
    ],
    [
      "its delays",
      `${duration(task.delay_ns)} from ready to poll in all, ${count(task.wakes)} wakes`,
    ],
    [
      "lived",
      (task.is_spawn_seen ? "spawned at " : "first seen at ") +
        moment(task.first_ns, store.clock, 1e6) +
        (task.end_ns !== undefined
          ? `, ended at ${moment(task.end_ns, store.clock, 1e6)}`
          : ", alive at the end"),
    ],
  ];
  if (task.parent !== undefined)
    rows.push(["spawned by", `${taskWords(task.parent)} (${shortName(task.parent_name)})`]);
  return rows;
}

/** Of a long stack: the leaf's first frames and the program's own; what lies between is counted. */
function shown(frames: Frame[]): (Frame | number)[] {
  const out: (Frame | number)[] = [];
  let own = 0;
  let left = 0;
  frames.forEach((frame, at) => {
    const isKept = frames.length <= FRAMES_SHOWN || at < FRAMES_FIRST || frame.is_own;
    if (!isKept || (frame.is_own && at >= FRAMES_FIRST && own++ >= FRAMES_SHOWN)) {
      left++;
      return;
    }
    if (left) out.push(left);
    left = 0;
    out.push(frame);
  });
  if (left) out.push(left);
  return out;
}

function Stack({ frames }: { frames: Frame[] }) {
  return (
    <ol class="stack">
      {shown(frames).map((frame, at) =>
        typeof frame === "number" ? (
          <li key={at} class="gap">
            … {frame === 1 ? "one more frame" : `${frame} more frames`}
          </li>
        ) : (
          <li key={at} class={frame.is_own ? "own" : ""}>
            <code>{frame.name}</code>
            {frame.file ? (
              <span class="faint">
                {" "}
                {shortFile(frame.file)}
                {frame.line ? `:${frame.line}` : ""}
              </span>
            ) : null}
          </li>
        ),
      )}
    </ol>
  );
}

/** Equal stacks once, most time first. */
function fold(samples: Sample[]): { sample: Sample; times: number; value: number }[] {
  const groups = new Map<string, { sample: Sample; times: number; value: number }>();
  for (const sample of samples) {
    const key =
      sample.kind + (sample.frames ?? []).map((one) => `${one.name}:${one.line ?? 0}`).join("|");
    const group = groups.get(key) ?? { sample, times: 0, value: 0 };
    group.times++;
    group.value += sample.value;
    groups.set(key, group);
  }
  return [...groups.values()].sort((a, b) => b.value - a.value || b.times - a.times);
}

const SAMPLE_WORDS: Record<Sample["kind"], string> = {
  cpu: "on a CPU",
  off_cpu: "off CPU",
  switch: "taken off CPU",
  alloc: "allocated",
};

function Samples({ poll }: { poll: PollFacts }) {
  const all = poll.cpu_samples + poll.off_cpu_times + poll.allocations;
  return (
    <section aria-label="What ran inside">
      <h3>What it did</h3>
      {poll.parts.length > 0 && (
        <Bar
          all={poll.duration_ns}
          parts={poll.parts.map((one) => ({
            key: one.part,
            words: one.words,
            ns: one.ns,
          }))}
        />
      )}
      {poll.cost && (
        <p class="faint">
          {[
            `${duration(poll.cost["cpu_ns"] ?? 0)} of CPU time`,
            ...(poll.cost["major_faults"] ? [`${poll.cost["major_faults"]} major faults`] : []),
            ...(poll.cost["minor_faults"]
              ? [`${count(poll.cost["minor_faults"])} minor faults`]
              : []),
            ...(poll.cost["involuntary"] ? [`preempted ${poll.cost["involuntary"]} times`] : []),
          ].join(", ")}
        </p>
      )}
      {!all && <p class="faint">No sample fell into it.</p>}
      {fold(poll.samples).map((group, at) => (
        <div key={at} class="sample">
          <p>
            <b>{SAMPLE_WORDS[group.sample.kind]}</b>:{" "}
            {group.times === 1 ? "one sample" : `${group.times} samples`}
            {group.value && group.sample.kind !== "alloc" ? `, ${duration(group.value)}` : ""}
          </p>
          {group.sample.frames && <Stack frames={group.sample.frames} />}
        </div>
      ))}
    </section>
  );
}

interface Gathered {
  key: string;
  words: string;
  ns: number;
  polls: Set<string>;
}

/** Parts of one kind, of polls by the kind of task, most time first; beyond some: the rest. */
function gather(store: Store, timeline: DelayPart[]): Gathered[] {
  const groups = new Map<string, Gathered>();
  for (const part of timeline) {
    const words = store.trace?.part_words[part.part] ?? part.part;
    const key = part.part + (part.poll?.name ?? "");
    const of = part.poll ? `${words}: ${shortName(part.poll.name)}` : words;
    const group = groups.get(key) ?? { key: part.part, words: of, ns: 0, polls: new Set() };
    group.ns += part.ns;
    if (part.poll) group.polls.add(`${part.poll.task}:${part.poll.start_ns}`);
    groups.set(key, group);
  }
  const all = [...groups.values()].sort((a, b) => b.ns - a.ns);
  const rest = all.slice(PARTS_SHOWN);
  const out = all.slice(0, PARTS_SHOWN).map((one) => {
    const polls = one.polls.size === 1 ? ", one poll" : `, ${count(one.polls.size)} polls`;
    return { ...one, words: one.polls.size ? one.words + polls : one.words };
  });
  if (rest.length) {
    const ns = rest.reduce((sum, one) => sum + one.ns, 0);
    out.push({ key: "", words: `${rest.length} smaller parts`, ns, polls: new Set() });
  }
  return out;
}

type WokenBy = NonNullable<WhyAnswer["worst"][number]["woken_by"]>;

const CAUSES: Record<string, string> = {
  io: "I/O",
  timer: "a timer",
  deferred: "its own yield",
  signal: "a signal",
  join: "the end of what it joined",
  code: "code outside of polls",
};

function causeWords(by: WokenBy): string {
  const words = CAUSES[by.cause ?? ""] ?? "the driver or a timer";
  return by.descriptor === undefined ? words : `${words} on descriptor ${by.descriptor}`;
}

function Waker({ store, by }: { store: Store; by: WokenBy }) {
  const time = by.time_ns - store.startMonoNs;
  const { task } = by;
  return (
    <p>
      Woken at {moment(time, store.clock, 1000)}
      {by.worker !== null ? ` on worker ${by.worker}` : ""} by{" "}
      {task !== undefined ? (
        <button class="link" onClick={() => void store.selectPollAt(task, time)}>
          the poll of {taskWords(task)} ({shortName(by.name)})
        </button>
      ) : by.thread ? (
        `thread ${by.thread}`
      ) : (
        causeWords(by)
      )}
      {by.function && task === undefined ? `, in ${shortName(by.function)}` : ""}.{" "}
      <kbd>4</kbd> lists what came before.
    </p>
  );
}

function Why({ store, poll }: { store: Store; poll: PollFacts }) {
  const worst = store.selection?.why?.worst[0];
  if (poll.delay_ns === null)
    return (
      <section aria-label="Why it waited">
        <h3>Why it waited</h3>
        <p class="faint">Not known: {poll.delay_unknown}.</p>
      </section>
    );
  return (
    <section aria-label="Why it waited">
      <h3>
        Why it waited <b>{duration(poll.delay_ns)}</b> from ready to poll
      </h3>
      {store.selection?.isWhyAsked && (
        <p class="faint" role="status">
          Splitting the delay …
        </p>
      )}
      {worst && <Bar all={worst.delay_ns} parts={gather(store, worst.timeline)} />}
      {worst?.woken_by && <Waker store={store} by={worst.woken_by} />}
    </section>
  );
}

function Poll({ store, poll }: { store: Store; poll: PollFacts }) {
  const lane = store.trace?.lanes[poll.lane];
  return (
    <div class="columns">
      <section aria-label="The poll">
        <h3>
          Poll of <span title={poll.name ?? ""}>{shortName(poll.name)}</span>
        </h3>
        <Facts
          rows={[
            ["took", <b>{duration(poll.duration_ns)}</b>],
            ["at", moment(poll.start_ns, store.clock, 1000)],
            [
              "on",
              `worker ${lane?.index ?? poll.worker}` +
                (lane?.thread ? `, ${lane.thread}` : "") +
                (lane?.tid ? ` (thread ${lane.tid})` : ""),
            ],
            ["name", <code>{poll.name ?? "unnamed"}</code>],
            ...poll.notes.map((note): [string, string] => ["note", note]),
            ...taskRows(store, poll.task),
          ]}
        />
      </section>
      <Why store={store} poll={poll} />
      <Samples poll={poll} />
    </div>
  );
}

function Span({ store, span }: { store: Store; span: SpanFacts }) {
  return (
    <div class="columns">
      <section>
        <h3>Span {span.name ?? "unnamed"}</h3>
        <Facts
          rows={[
            [
              "took",
              <b>
                {duration(span.duration_ns)}
                {span.is_open ? " and is open at the end" : ""}
              </b>,
            ],
            ["at", moment(span.start_ns, store.clock, 1000)],
            ["entered", `${duration(span.active_ns)} of it, ${count(span.enters)} times`],
            ...(span.parent ? [["in span", span.parent] as [string, string]] : []),
            ...(span.task ? taskRows(store, span.task) : []),
          ]}
        />
      </section>
      <section>
        <h3>Fields</h3>
        {span.fields.length ? (
          <Facts rows={span.fields.map((one) => [one.key, <code>{one.value}</code>])} />
        ) : (
          <p class="faint">It has none.</p>
        )}
      </section>
    </div>
  );
}

function Run({ store, run }: { store: Store; run: RunFacts }) {
  return (
    <div class="columns">
      <section>
        <h3>Closure on the blocking pool</h3>
        <Facts
          rows={[
            ["name", <code>{run.name ?? "unnamed"}</code>],
            [
              "took",
              <b>
                {duration(run.duration_ns)}
                {run.is_open ? " and runs at the end" : ""}
              </b>,
            ],
            ["at", moment(run.start_ns, store.clock, 1000)],
            ["in line before", run.wait_ns === null ? "not known" : duration(run.wait_ns)],
            ["on thread", String(run.tid)],
            ...(run.waiter !== undefined
              ? [
                  ["awaited by", `${taskWords(run.waiter)} (${shortName(run.waiter_name)})`] as [
                    string,
                    string,
                  ],
                ]
              : []),
          ]}
        />
      </section>
    </div>
  );
}

function wakerWords(event: LifeEvent): string {
  if (event.kind !== "wake") return event.function ? ` in ${shortName(event.function)}` : "";
  if (event.waker === null || event.waker === undefined) return ` by ${event.cause ?? "?"}`;
  return ` by ${taskWords(event.waker)} (${shortName(event.waker_site)})`;
}

function lifeWords(event: LifeEvent): string {
  const took = event.duration_ns ? ` ${duration(event.duration_ns)}` : "";
  const late = event.delay_ns ? `, ${duration(event.delay_ns)} after it was ready` : "";
  const worker = event.worker !== undefined ? `, worker ${event.worker}` : "";
  return `${event.kind}${took}${late}${wakerWords(event)}${worker}`;
}

export function Life({ store }: { store: Store }) {
  const life = store.life;
  if (!life)
    return (
      <p class="faint pad">
        Select a poll and press <kbd>t</kbd>: the life of its task over all workers.
      </p>
    );
  const start = life.first_ns - 0;
  return (
    <section class="life" aria-label="Life of the task">
      <h3>
        Life of {taskWords(life.task)}{" "}
        <span class="faint">
          {shortName(life.site)}: {count(life.event_count)} events in the range of the view
          {life.event_count > life.events.length
            ? `, the first ${life.events.length} are listed`
            : ""}
        </span>
        <button class="link" onClick={() => void store.loadLife()}>
          of what is in view now
        </button>
        <button class="link" onClick={() => store.hideTask()}>
          close
        </button>
      </h3>
      <ol>
        {life.events.map((event, at) => (
          <li key={at}>
            <span class="when">+{duration(event.time_ns - start)}</span> {lifeWords(event)}
          </li>
        ))}
      </ol>
    </section>
  );
}

/** By the digit that opens them. */
const PANELS: readonly [string, string][] = [
  ["", "Selected"],
  ["life", "Life of a task"],
  ["flame", "Flame graph"],
  ["chain", "Chain"],
  ["wakes", "Wakes"],
  ["spans", "Spans"],
  ["events", "Events"],
  ["notes", "Notes"],
  ["compare", "Compare"],
];

function Tabs({ store, panel }: { store: Store; panel: string }) {
  return (
    <div class="tabs" role="tablist" aria-label="Panels">
      {PANELS.map(([key, words], at) => (
        <button
          key={key}
          role="tab"
          aria-selected={panel === key}
          onClick={() => store.setPanel(key)}
        >
          {key === "life" && store.life ? `Life of ${taskWords(store.life.task)}` : words}{" "}
          <kbd>{at + 1}</kbd>
        </button>
      ))}
    </div>
  );
}

function Selected({ store }: { store: Store }) {
  const selection = store.selection;
  if (selection?.poll) return <Poll store={store} poll={selection.poll} />;
  if (selection?.span) return <Span store={store} span={selection.span} />;
  if (selection?.event) return <EventFactsOf store={store} event={selection.event} />;
  if (selection?.run) return <Run store={store} run={selection.run} />;
  return (
    <p class="faint pad">
      Click a poll, a span or a finding: what it is, why it waited and what ran inside it is shown
      here. <kbd>Enter</kbd> selects the longest poll in view, <kbd>?</kbd> lists the keys.
    </p>
  );
}

export function Details({ store }: { store: Store }) {
  const panel = store.option("panel");
  const isTall = !["", "life", "notes"].includes(panel);
  // Where there is nothing to say yet, the findings and the lanes have the room.
  const isShort = panel === "" && !store.selection;
  const size = isTall ? " tall" : isShort ? " short" : "";
  return (
    <section class={`details${size}`} aria-label="Details">
      <Tabs store={store} panel={panel} />
      {panel === "" && <Selected store={store} />}
      {panel === "life" && <Life store={store} />}
      {panel === "flame" && <FlamePanel store={store} />}
      {panel === "chain" && <ChainPanel store={store} />}
      {panel === "wakes" && <WakesPanel store={store} />}
      {panel === "spans" && <SpansPanel store={store} />}
      {panel === "events" && <EventsPanel store={store} />}
      {panel === "notes" && <NotesPanel store={store} />}
      {panel === "compare" && <ComparePanel store={store} />}
    </section>
  );
}
