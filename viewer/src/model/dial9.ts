// SPDX-License-Identifier: Apache-2.0 OR MIT
// dial9's documented URL parameters (its ui/URL_CONTRACT.md) as ours. Their times are absolute,
// CLOCK_MONOTONIC in nanoseconds. What has no counterpart here is ignored, as it is there.

const KINDS: Record<string, string> = { cpu: "cpu", blocking: "off-cpu", heap: "heap" };

/** The part of our address after '#'. */
export function fromDial9(search: string, startMonoNs: bigint, durationNs: number): string {
  const given = new URLSearchParams(search);
  const out = new URLSearchParams();
  const moment = (text: string | null | undefined): number | null => {
    if (!text || !/^\d+$/.test(text)) return null;
    return Math.min(Math.max(0, Number(BigInt(text) - startMonoNs)), durationNs);
  };
  const range = (from: string | null | undefined, to: string | null | undefined): string => {
    const [begin, end] = [moment(from), moment(to)];
    return begin !== null && end !== null && end > begin ? `${begin}-${end}` : "";
  };
  const set = (key: string, value: string | null | undefined): void => {
    if (value) out.set(key, value);
  };
  const seen =
    range(given.get("start"), given.get("end")) ||
    range(given.get("data-start"), given.get("data-end"));
  if (seen) {
    set("from", seen.split("-")[0]);
    set("to", seen.split("-")[1]);
  }
  const [regionFrom, regionTo] = (given.get("region") ?? "").split(/[-:,]/);
  set("range", range(regionFrom, regionTo));
  const task = given.get("task") ?? given.get("task-dump");
  if (task && /^\d+$/.test(task)) set("task", task);
  const [pollStart, pollTask] = (given.get("poll") ?? "").split(":");
  const poll = moment(pollStart);
  if (poll !== null) set("sel", `task:${pollTask ?? -1}:${poll}`);
  const span = given.get("span") ?? given.get("span-focus");
  if (span && /^\d+$/.test(span)) set("sel", `span:${span}:0`);
  if (["long-poll", "cpu-sampled"].includes(given.get("issue") ?? "")) set("sel", "worst");
  const analysis = KINDS[given.get("analysis") ?? ""];
  if (analysis) {
    set("panel", "flame");
    set("flame", analysis);
    set("flame-in", out.get("range"));
    set("flame-of", given.get("analysis-inspect"));
  } else if (given.get("task-dump")) {
    set("panel", "flame");
    set("flame", "waiting");
  } else if (given.get("inspector") === "task") {
    set("panel", "life");
  }
  const name = given.get("span-names")?.split(",")[0];
  if (name) {
    set("panel", "spans");
    set("span-name", name);
  }
  const charts = given.getAll("field-chart").flatMap((chart) => {
    const [, event, field, kind] = chart.split(",");
    const key = encodeURIComponent(`${event}.${field}`);
    return event && field ? [{ key, isRate: kind?.endsWith("counter") }] : [];
  });
  set("charts", charts.map((one) => one.key).join(","));
  set("rates", charts.flatMap((one) => (one.isRate ? [one.key] : [])).join(","));
  if (/^utc$/i.test(given.get("tz") ?? "")) set("clock", "utc");
  return out.toString();
}
