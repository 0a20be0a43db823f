// SPDX-License-Identifier: Apache-2.0 OR MIT
// What the selected poll or span depended on, backward in time: each link leads to its poll.
import { useEffect, useState } from "preact/hooks";
import type { Store } from "../app/store";
import { shortName, taskWords } from "../model/names";
import { count, duration, moment, percent } from "../model/time";
import type { Chain, ChainGroup, ChainLink } from "../model/trace";

const BACK: readonly [string, number][] = [
  ["1 ms", 1e6],
  ["10 ms", 1e7],
  ["100 ms", 1e8],
  ["1 s", 1e9],
  ["all of its life", 4e18],
];
const BACK_FIRST = 1e8;
const LINKS_SHOWN = 1000;
const KINDS: Record<string, string> = {
  poll: "polled",
  ready: "ready, not polled yet",
  closure: "a closure ran on the blocking pool",
  line: "a closure stood in line for the blocking pool",
  waiting: "waited",
  unknown: "not known",
};
const CAUSES: Record<string, string> = {
  io: "for I/O",
  timer: "for a timer",
  deferred: "after it yielded",
  driver: "for I/O or a timer",
  signal: "for a signal",
  join: "for a task or closure to end",
  code: "for code to wake it",
  self: "for itself",
};

/** What a link or a group of them says. */
export function words(one: ChainLink | ChainGroup): string {
  const what = KINDS[one.kind] ?? one.kind;
  if (one.kind !== "waiting") return what;
  const cause = CAUSES[one.cause ?? ""] ?? "for what is not known";
  const by = one.function ? `: ${shortName(one.function)}` : "";
  return `${what} ${cause}${by}${one.thread ? ` (thread ${one.thread})` : ""}`;
}

function rangeOfSelection(
  store: Store,
  back: number,
): { task: number; from: number; to: number } {
  const { poll, span } = store.selection ?? {};
  if (poll) {
    const to = poll.start_ns + poll.duration_ns;
    const from = Math.max(poll.task.first_ns, poll.start_ns - back, -4e18);
    return { task: poll.task.index, from, to };
  }
  if (span?.task)
    return { task: span.task.index, from: span.start_ns, to: span.start_ns + span.duration_ns };
  return { task: -1, from: 0, to: 0 };
}

async function follow(store: Store, link: ChainLink): Promise<void> {
  const from = link.from_ns - store.startMonoNs;
  const to = link.to_ns - store.startMonoNs;
  if (link.kind === "poll" || link.kind === "ready")
    await store.selectPollAt(link.task, link.kind === "poll" ? from : to);
  else store.cursor = from;
  store.show(from, to);
  store.changed();
}

function Groups({ chain }: { chain: Chain }) {
  const all = Math.max(1, chain.to_ns - chain.from_ns);
  return (
    <div class="scroll">
      <table class="list" aria-label="Parts of the chain">
        <thead>
          <tr>
            <th>time</th>
            <th>share</th>
            <th>times</th>
            <th>longest</th>
            <th class="left">what</th>
          </tr>
        </thead>
        <tbody>
          {chain.groups.map((group, at) => (
            <tr key={at}>
              <td>{duration(group.ns)}</td>
              <td>{percent(group.ns / all)}</td>
              <td>{count(group.count)}</td>
              <td>{duration(group.longest_ns)}</td>
              <td class="left">
                <b>{shortName(group.site)}</b> {words(group)}
                {group.culprit ? ` behind ${shortName(group.culprit)}` : ""}
              </td>
            </tr>
          ))}
        </tbody>
      </table>
    </div>
  );
}

function Links({ store, chain }: { store: Store; chain: Chain }) {
  const links = chain.links.slice(-LINKS_SHOWN).reverse();
  return (
    <div class="scroll">
      <ol class="links" aria-label="Links of the chain, the latest first">
        {links.map((link, at) => (
          <li key={at} style={{ paddingLeft: `${link.depth * 16}px` }}>
            <button class="link" onClick={() => void follow(store, link)}>
              {moment(link.from_ns - store.startMonoNs, store.clock, 1000)}
            </button>{" "}
            <b>{duration(link.to_ns - link.from_ns)}</b> {taskWords(link.task)} (
            {shortName(link.site)}) {words(link)}
            {link.worker !== undefined ? `, worker ${link.worker}` : ""}
            {link.waker !== undefined ? `, woken by ${taskWords(link.waker)}` : ""}
          </li>
        ))}
      </ol>
      {chain.link_count > links.length && (
        <p class="faint">{count(chain.link_count - links.length)} earlier links are not listed.</p>
      )}
    </div>
  );
}

export function ChainPanel({ store }: { store: Store }) {
  const [back, setBack] = useState(BACK_FIRST);
  const [chain, setChain] = useState<Chain | null>(null);
  const { task, from, to } = rangeOfSelection(store, back);
  const key = `${task}:${from}:${to}`;
  const [known, setKnown] = useState("");
  useEffect(() => {
    let isOld = false;
    if (task >= 0 && to > from)
      void store.ask({ op: "chain", task, from, to, limit: 0 }).then((answer) => {
        if (isOld) return;
        setChain(answer as Chain | null);
        setKnown(key);
      });
    return () => (isOld = true);
  }, [key]);
  if (task < 0)
    return (
      <p class="faint pad">
        Select a poll or a span: what its task's time depended on, back over the tasks that woke
        it, is listed here.
      </p>
    );
  const isNow = known === key;
  store.shown = isNow && chain;
  return (
    <section class="wakes" aria-label="Causal chain" data-asked={!isNow}>
      <div class="controls">
        <span>
          What {chain ? taskWords(chain.task) : "it"} depended on in <b>{duration(to - from)}</b>
          {store.selection?.span
            ? ` of span ${store.selection.span.name ?? ""}`
            : " to the end of this poll"}
          {chain?.is_cut ? "; the first part is not followed" : ""}
        </span>
        {store.selection?.poll && (
          <label>
            before it{" "}
            <select
              value={back}
              onChange={(event) => setBack(Number(event.currentTarget.value))}
            >
              {BACK.map(([text, ns]) => (
                <option key={text} value={ns}>
                  {text}
                </option>
              ))}
            </select>
          </label>
        )}
      </div>
      {chain && isNow && (
        <div class="split">
          <Links store={store} chain={chain} />
          <Groups chain={chain} />
        </div>
      )}
    </section>
  );
}
