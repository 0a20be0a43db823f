// SPDX-License-Identifier: Apache-2.0 OR MIT
// The findings, worst first: what happened, whom it hurt, what to do.
import { chooseFinding, showEvidence } from "../app/evidence";
import type { Store } from "../app/store";
import { showSelection } from "../app/walk";
import type { Finding } from "../model/trace";
import { shortFile } from "../model/names";
import { duration, moment, percent } from "../model/time";

const SEVERITY: Record<Finding["severity"], string> = {
  critical: "critical",
  warning: "warning",
  info: "info",
};

function Evidence({ store, at, finding }: { store: Store; at: number; finding: Finding }) {
  return (
    <p class="evidence">
      <span>Evidence: </span>
      {finding.evidence.map((one, which) => (
        <button
          class="link"
          key={which}
          disabled={!store.trace}
          onClick={(event) => {
            event.stopPropagation();
            void showEvidence(store, at, which);
          }}
        >
          {one.kind} at {moment(one.from_ns, store.clock, 1e6)}
          {one.to_ns > one.from_ns ? `, ${duration(one.to_ns - one.from_ns)}` : ""}
        </button>
      ))}
    </p>
  );
}

function One({ store, at, finding }: { store: Store; at: number; finding: Finding }) {
  const isChosen = store.view.finding === finding.key;
  return (
    <li class={`finding ${SEVERITY[finding.severity]} ${isChosen ? "chosen" : ""}`}>
      <button
        class="statement"
        aria-expanded={isChosen}
        onClick={() => void chooseFinding(store, at)}
      >
        <span class="badge">{finding.severity}</span>
        {finding.score > 0 && (
          <span class="score" title="the share of all delay that it explains">
            {percent(finding.score)}
          </span>
        )}
        <span class="text">{finding.statement}</span>
        {!isChosen && finding.severity !== "info" && finding.culprit.site && (
          <code class="place" title={finding.culprit.site}>
            {shortFile(finding.culprit.site)}
          </code>
        )}
      </button>
      {isChosen && (
        <div class="more">
          {finding.culprit.function && (
            <p>
              <b>Where.</b> <code>{finding.culprit.function}</code>
              {finding.culprit.site ? (
                <span>
                  {" "}
                  at <code title={finding.culprit.site}>{shortFile(finding.culprit.site)}</code>
                </span>
              ) : null}
            </p>
          )}
          {finding.impact.statement && (
            <p>
              <b>Whom it hurt.</b> {finding.impact.statement}
            </p>
          )}
          <p>
            <b>What to do.</b> {finding.action}
          </p>
          {finding.missing.map((one) => (
            <p key={one.capability} class="faint">
              Missing: {one.capability}: {one.effect}
            </p>
          ))}
          <Evidence store={store} at={at} finding={finding} />
          <p class="faint">
            {finding.confidence}; read more: {finding.doc}
          </p>
        </div>
      )}
    </li>
  );
}

export function Findings({ store }: { store: Store }) {
  const findings = store.report?.findings ?? null;
  if (!findings)
    return (
      <section class="findings" aria-label="Findings">
        <h2>Findings</h2>
        <p class="faint pad" role="status">
          {store.phase === "failed" ? "There is nothing to look at." : "Finding what was slow …"}
        </p>
      </section>
    );
  const alarms = findings.filter((one) => one.severity !== "info").length;
  return (
    <section class="findings" aria-label="Findings">
      <h2>
        Findings{" "}
        <span class="faint">
          {alarms ? `${alarms} to act on, worst first` : findings.length ? "nothing to act on" : ""}
        </span>
      </h2>
      {!alarms && (
        <p class="healthy">
          {store.trace?.polls === 0
            ? "No poll is in the trace: nothing can be said about its tasks."
            : "No cause of delay is large enough to act on."}
          {findings.length ? " What follows is for information." : ""}{" "}
          {store.trace && store.trace.polls > 0 && (
            <button
              class="link"
              onClick={() => void store.selectWorstInView().then(() => showSelection(store))}
            >
              Show the longest poll
            </button>
          )}
        </p>
      )}
      <ol>
        {findings.map((finding, at) => (
          <One key={finding.key} store={store} at={at} finding={finding} />
        ))}
      </ol>
    </section>
  );
}
