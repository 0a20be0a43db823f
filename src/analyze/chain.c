/* SPDX-License-Identifier: Apache-2.0 OR MIT */
#include <analyze/chain.h>

#include <analyze/chain_groups.h>
#include <analyze/findings/pool_runs.h>
#include <analyze/task_rows.h>
#include <base/alloc.h>
#include <base/earlier.h>
#include <errno.h>
#include <read/spawns.h>

struct chain_making {
	struct ky_task_chain *chain;
	const struct ky_trace *trace;
	struct ky_wake_namer namer;
	struct ky_task_rows rows;
	struct ky_pool_runs runs;
	struct ky_poll_homes homes;
	struct ky_notified notified;
	struct ky_delay delay; /* the last one that was split */
	bool failed;
};

/* A stretch of a task's time, explained from its end to its begin. */
struct stretch {
	uint64_t from_ns, to_ns;
	uint32_t task, depth;
};

static bool append(struct chain_making *making, const struct ky_link *link)
{
	struct ky_task_chain *chain = making->chain;

	making->failed = ky_grow(&chain->links, &chain->link_capacity, chain->link_count + 1,
				 sizeof(*chain->links)) != 0;
	if (!making->failed)
		chain->links[chain->link_count++] = *link;
	return !making->failed;
}

/* Returns false where there is no room. */
static bool put(struct chain_making *making, const struct ky_link *link)
{
	struct ky_task_chain *chain = making->chain;

	if (making->failed || chain->is_cut || link->from_ns >= link->to_ns)
		return !making->failed && !chain->is_cut;
	chain->is_cut = chain->link_count == KY_LINKS_MAX - 1; /* the last one is for the rest */
	return !chain->is_cut && append(making, link);
}

static struct ky_link link_of(const struct stretch *at, uint8_t kind, uint64_t from_ns,
			      uint64_t to_ns)
{
	return (struct ky_link){.from_ns = ky_later(from_ns, at->from_ns),
				.to_ns = to_ns,
				.task = at->task,
				.waker = KY_NONE,
				.worker = KY_NONE,
				.kind = kind,
				.depth = (uint8_t)at->depth};
}

static void explain(struct chain_making *making, struct stretch at);

/* Before its first poll that is known: back to its spawn, and from there what spawned it. True:
 * goes on with that one, which at is about now, from *ns back. */
static bool explain_begin(struct chain_making *making, struct stretch *at, uint64_t *ns)
{
	const struct ky_spawn *spawn = ky_trace_spawn(making->trace, at->task);
	const struct ky_task *task = &making->trace->tasks[at->task];
	struct ky_link link;
	uint64_t spawned_ns = 0;

	if (task->flags & KY_TASK_SPAWN_SEEN)
		spawned_ns = task->first_ns;
	else if (spawn && !(task->flags & KY_TASK_LIVE_AT_START))
		spawned_ns = spawn->to_ns;
	/* A spawn after that contradicts itself: each step goes back in time, so it ends. */
	if (spawned_ns && spawned_ns < *ns) {
		link = link_of(at, KY_LINK_READY, spawned_ns, *ns);
		if (!put(making, &link) || spawned_ns <= at->from_ns)
			return false;
		*ns = spawned_ns;
		if (task->parent != KY_NONE && task->parent != at->task) {
			at->task = task->parent;
			return true;
		}
	}
	link = link_of(at, KY_LINK_UNKNOWN, at->from_ns, *ns);
	put(making, &link);
	return false;
}

/* It waited for a closure, which ran, and stood in line before that. */
static void explain_run(struct chain_making *making, const struct stretch *at, uint64_t from_ns,
			uint64_t to_ns, const struct ky_blocking_run *run)
{
	const struct ky_spawn *spawn = ky_trace_spawn(making->trace, run->task);
	struct stretch of_run = {ky_later(from_ns, at->from_ns), to_ns, run->task, at->depth + 1};
	uint64_t submitted_ns = spawn && spawn->to_ns < run->start_ns ? spawn->to_ns :
									run->start_ns;
	struct ky_link link = link_of(&of_run, KY_LINK_RUN, run->start_ns, to_ns);
	uint32_t parent = making->trace->tasks[run->task].parent;

	link.start_ns = run->start_ns;
	link.tid = run->tid;
	put(making, &link);
	if (run->start_ns <= of_run.from_ns)
		return;
	link = link_of(&of_run, KY_LINK_LINE, submitted_ns, run->start_ns);
	if (!put(making, &link) || submitted_ns <= of_run.from_ns)
		return;
	if (parent != KY_NONE && parent != at->task) {
		explain(making,
			(struct stretch){of_run.from_ns, submitted_ns, parent, at->depth + 1});
		return;
	}
	link = link_of(&of_run, KY_LINK_UNKNOWN, of_run.from_ns, submitted_ns);
	put(making, &link);
}

/* From the end of its poll before to the wake. */
static void explain_wait(struct chain_making *making, const struct stretch *at, uint64_t from_ns,
			 uint64_t to_ns)
{
	const struct ky_blocking_run *run = NULL;
	struct ky_wake wake = making->delay.wake;
	bool is_known = making->delay.is_wake_known;
	uint32_t waker = is_known ? wake.waker : KY_NONE;
	struct ky_link link = link_of(at, is_known ? KY_LINK_WAIT : KY_LINK_UNKNOWN, from_ns,
				      to_ns);
	struct ky_poll poll;

	from_ns = link.from_ns;
	if (is_known && wake.tid)
		run = ky_pool_runs_at(&making->runs, wake.tid, to_ns);
	if (at->depth < KY_CHAIN_DEPTH_MAX) {
		if (run) {
			explain_run(making, at, from_ns, to_ns, run);
			return;
		}
		if (waker != KY_NONE && waker != at->task &&
		    ky_task_rows_before(&making->rows, waker, to_ns, &poll)) {
			explain(making, (struct stretch){from_ns, to_ns, waker, at->depth + 1});
			return;
		}
	}
	if (is_known) {
		link.cause = ky_wake_namer_cause(&making->namer, &wake);
		link.waker = waker != at->task ? waker : KY_NONE;
		link.tid = wake.tid;
	}
	put(making, &link);
}

/* What made it ready for this poll, and why that came when it did. Returns the end of its poll
 * before, where that lies in the stretch; else its begin. Of its first one: of its spawn, and at is
 * about what spawned it. */
static uint64_t explain_ready(struct chain_making *making, struct stretch *at,
			      const struct ky_poll *poll)
{
	const struct ky_split split = {making->trace, &making->homes, &making->notified};
	struct ky_poll before;
	bool has_before = ky_task_rows_before(&making->rows, at->task, poll->start_ns, &before);
	uint64_t end_ns = has_before ? before.start_ns + before.duration_ns : 0, ready_ns;
	struct ky_link link;

	if (!has_before && making->trace->tasks[at->task].first_ns >= at->from_ns) {
		end_ns = poll->start_ns;
		return explain_begin(making, at, &end_ns) ? end_ns : at->from_ns;
	}
	end_ns = ky_later(end_ns, at->from_ns);
	if (end_ns >= poll->start_ns)
		return poll->start_ns; /* polls that overlap: its end is not proven */
	if (poll->delay_state) {
		link = link_of(at, KY_LINK_UNKNOWN, end_ns, poll->start_ns);
		put(making, &link);
		return end_ns;
	}
	making->failed |= !ky_delay_split(&making->delay, &split, poll);
	if (making->failed)
		return at->from_ns;
	ready_ns = ky_later(making->delay.ready_ns, end_ns);
	link = link_of(at, KY_LINK_READY, ready_ns, poll->start_ns);
	link.start_ns = making->delay.ready_ns;
	if (put(making, &link) && making->delay.ready_ns >= link.from_ns)
		making->failed |= ky_chain_groups_ready(making->chain, at->task, &making->delay);
	if (ready_ns > end_ns)
		explain_wait(making, at, end_ns, ready_ns);
	return end_ns;
}

static void explain(struct chain_making *making, struct stretch at)
{
	uint64_t ns = at.to_ns;
	struct ky_poll poll;
	struct ky_link link;

	while (ns > at.from_ns && !making->failed && !making->chain->is_cut) {
		uint64_t end_ns;

		if (!ky_task_rows_before(&making->rows, at.task, ns, &poll)) {
			if (!explain_begin(making, &at, &ns))
				return;
			continue;
		}
		end_ns = poll.start_ns + poll.duration_ns;
		if (end_ns < ns) { /* not polled since: it waits still, or is over */
			link = link_of(&at, KY_LINK_UNKNOWN, end_ns, ns);
			put(making, &link);
			ns = ky_later(end_ns, at.from_ns);
			if (ns == at.from_ns)
				return;
		}
		link = link_of(&at, KY_LINK_POLL, poll.start_ns, ns);
		link.start_ns = poll.start_ns;
		link.worker = poll.worker;
		if (!put(making, &link))
			return;
		making->failed |= ky_chain_groups_poll(making->chain, &link, &poll);
		if (poll.start_ns <= at.from_ns)
			return;
		ns = explain_ready(making, &at, &poll);
	}
}

static void reverse(struct ky_task_chain *chain)
{
	for (uint32_t i = 0; i < chain->link_count / 2; i++) {
		struct ky_link link = chain->links[i];

		chain->links[i] = chain->links[chain->link_count - 1 - i];
		chain->links[chain->link_count - 1 - i] = link;
	}
}

/* What there was no room for comes first, as one. */
static void put_rest(struct chain_making *making, uint32_t task)
{
	struct ky_task_chain *chain = making->chain;
	uint64_t to_ns = chain->link_count ? chain->links[chain->link_count - 1].from_ns :
					     chain->to_ns;
	struct stretch at = {chain->from_ns, to_ns, task, 0};
	struct ky_link link = link_of(&at, KY_LINK_UNKNOWN, chain->from_ns, to_ns);

	if (link.from_ns < link.to_ns)
		append(making, &link);
}

static void make(struct chain_making *making, uint32_t task)
{
	struct ky_task_chain *chain = making->chain;
	const struct ky_spawn *spawn = ky_trace_spawn(making->trace, task);
	struct ky_poll last;

	if (!chain->from_ns) {
		chain->from_ns = making->trace->tasks[task].first_ns;
		if (spawn && spawn->to_ns < chain->from_ns &&
		    !(making->trace->tasks[task].flags & KY_TASK_LIVE_AT_START))
			chain->from_ns = spawn->to_ns;
	}
	making->failed = ky_task_rows_make(&making->rows, making->trace, chain->from_ns,
					   chain->to_ns ? chain->to_ns : UINT64_MAX) ||
			 ky_pool_runs_make(&making->runs, making->trace, 0) ||
			 ky_poll_homes_make(&making->homes, making->trace) ||
			 ky_notified_make(&making->notified, making->trace);
	if (making->failed)
		return;
	if (chain->to_ns > making->trace->last_ns)
		chain->to_ns = making->trace->last_ns;
	if (!chain->to_ns)
		chain->to_ns = ky_task_rows_before(&making->rows, task, UINT64_MAX, &last) ?
				       last.start_ns + last.duration_ns :
				       chain->from_ns;
	if (chain->to_ns <= chain->from_ns)
		return;
	explain(making, (struct stretch){chain->from_ns, chain->to_ns, task, 0});
	if (!making->failed)
		put_rest(making, task);
	reverse(chain);
	if (!making->failed)
		making->failed = ky_chain_groups_finish(chain);
}

int ky_chain_make(struct ky_task_chain **out, const struct ky_trace *trace, uint32_t task,
		  uint64_t from_ns, uint64_t to_ns, const struct ky_code_stacks *code)
{
	struct chain_making making = {.trace = trace};

	*out = NULL;
	making.chain = ky_alloc(sizeof(*making.chain));
	if (!making.chain)
		return -ENOMEM;
	*making.chain = (struct ky_task_chain){
		.trace = trace, .from_ns = from_ns, .to_ns = to_ns, .task = task};
	making.failed = ky_wake_namer_make(&making.namer, trace, code) != 0;
	if (!making.failed)
		make(&making, task);
	ky_wake_namer_release(&making.namer);
	ky_task_rows_release(&making.rows);
	ky_pool_runs_release(&making.runs);
	ky_poll_homes_release(&making.homes);
	ky_notified_release(&making.notified);
	ky_delay_release(&making.delay);
	if (making.failed) {
		ky_chain_free(making.chain);
		return -ENOMEM;
	}
	*out = making.chain;
	return 0;
}

void ky_chain_free(struct ky_task_chain *chain)
{
	if (!chain)
		return;
	ky_free(chain->links);
	ky_free(chain->groups);
	ky_free(chain->group_slots);
	ky_free(chain);
}

const char *ky_link_kind_key(uint32_t kind)
{
	static const char *const keys[KY_LINK_KINDS] = {"poll", "ready",   "closure",
							"line", "waiting", "unknown"};

	return keys[kind < KY_LINK_KINDS ? kind : KY_LINK_UNKNOWN];
}
