// SPDX-License-Identifier: Apache-2.0 OR MIT
// viewer_parse.js SCRIPTS TRACE - opens one trace with dial9's published parser and analysis (from
// the folder SCRIPTS of the crate dial9-viewer) and prints what they made of it as one JSON object.
"use strict";
const fs = require("fs");
const path = require("path");

const [scripts, file] = process.argv.slice(2);
const { parseTrace, EVENT_TYPES } = require(path.resolve(scripts, "trace_parser.js"));
const { buildWorkerSpans, computeSchedulingDelays } = require(
    path.resolve(scripts, "trace_analysis.js"),
);

function count(items, key) {
    const counts = {};
    for (const item of items) counts[key(item)] = (counts[key(item)] || 0) + 1;
    return counts;
}

// Starts that find the worker's last poll still open, and ends that find none.
function pollDisorder(events) {
    const open = new Map();
    const disorder = { overlaps: 0, strayEnds: 0, leftOpen: 0 };
    for (const event of events) {
        if (event.eventType === EVENT_TYPES.PollStart) {
            if (open.get(event.workerId)) disorder.overlaps++;
            open.set(event.workerId, true);
        } else if (event.eventType === EVENT_TYPES.PollEnd) {
            if (!open.get(event.workerId)) disorder.strayEnds++;
            open.set(event.workerId, false);
        }
    }
    for (const isOpen of open.values()) disorder.leftOpen += isOpen ? 1 : 0;
    return disorder;
}

async function main() {
    const trace = await parseTrace(fs.readFileSync(file));
    const names = new Map(Object.entries(EVENT_TYPES).map(([name, number]) => [number, name]));
    const scheduler = trace.events.filter((event) => event.eventType !== EVENT_TYPES.WakeEvent);
    const workers = [...new Set(scheduler.map((event) => event.workerId))]
        .filter((worker) => worker !== undefined)
        .sort((a, b) => a - b);
    const last = trace.events.reduce((max, event) => Math.max(max, event.timestamp), -Infinity);
    const spans = buildWorkerSpans(trace.events, workers, last, trace.blockInPlaceGaps);
    const delays = computeSchedulingDelays(spans.workerSpans, workers, spans.wakesByTask);
    const perWorker = {};
    for (const worker of workers) {
        const { polls, parks } = spans.workerSpans[worker];
        const longest = polls.reduce((max, poll) => Math.max(max, poll.end - poll.start), 0);
        perWorker[worker] = { polls: polls.length, parks: parks.length, longestNs: longest };
    }
    const longest = workers
        .flatMap((worker) => spans.workerSpans[worker].polls)
        .sort((a, b) => b.end - b.start - (a.end - a.start))
        .slice(0, 10)
        .map((poll) => ({ ns: poll.end - poll.start, spawnLoc: poll.spawnLoc }));
    const summary = {
        version: trace.version,
        truncated: trace.truncated,
        incompleteFiles: trace.incompleteFiles,
        sealedFiles: trace.sealedFiles,
        events: count(trace.events, (event) => names.get(event.eventType) ?? "unknown"),
        custom: count(trace.customEvents ?? [], (event) => event.name),
        spawns: trace.taskSpawnTimes.size,
        ends: trace.taskTerminateTimes.size,
        metadata: Object.fromEntries(trace.segmentMetadata),
        disorder: pollDisorder(trace.events),
        blockInPlaceGaps: trace.blockInPlaceGaps.length,
        schedulingDelays: delays.length,
        worstSchedulingDelayNs: delays.reduce((max, row) => Math.max(max, row.delay), 0),
        perWorker,
        longest,
    };
    process.stdout.write(JSON.stringify(summary) + "\n");
}

main().catch((error) => {
    process.stderr.write(`${error.stack}\n`);
    process.exit(1);
});
