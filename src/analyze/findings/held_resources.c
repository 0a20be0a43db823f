/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* Tasks that wait for permits, room in a channel or a lock of tokio::sync, and who has them: the
 * one that releases it last, which is what wakes them. */
#include <analyze/findings/find.h>

#include <analyze/findings/driven_kinds.h>
#include <analyze/findings/pool_users.h>
#include <analyze/findings/say.h>
#include <analyze/findings/stuck_locks.h>
#include <base/alloc.h>
#include <base/earlier.h>
#include <base/text.h>

static const struct sync_words {
	uint8_t id;
	const char *resource, *waited, *action;
} words[KY_SYNC_WHATS] = {
	[KY_SYNC_CHANNEL] = {KY_FINDING_CHANNEL_FULL, "bounded channel",
			     "for room in a full channel, which its receiver made late",
			     "Make the receiver faster (more receivers, batches with recv_many(), "
			     "less work in its loop), or send less: a longer channel only delays "
			     "it."},
	[KY_SYNC_MUTEX] = {KY_FINDING_ASYNC_LOCK_HELD, "tokio::sync::Mutex",
			   "for a tokio::sync::Mutex that was held for long",
			   "Do not hold the guard across an await of something slow; copy what is "
			   "needed, or split what the lock protects."},
	[KY_SYNC_RWLOCK] = {KY_FINDING_ASYNC_LOCK_HELD, "tokio::sync::RwLock",
			    "for a tokio::sync::RwLock that was held for long",
			    "Do not hold the guard across an await of something slow; copy what is "
			    "needed, or split what the lock protects."},
	[KY_SYNC_LOCK] = {KY_FINDING_ASYNC_LOCK_HELD, "lock of tokio::sync",
			  "for a lock of tokio::sync that was held for long",
			  "Do not hold the guard across an await of something slow; copy what is "
			  "needed, or split what the lock protects."},
	[KY_SYNC_OTHER_LOCK] = {KY_FINDING_ASYNC_LOCK_HELD, "asynchronous lock",
				"for an asynchronous lock that was held for long",
				"Do not hold the guard across an await of something slow; copy "
				"what is needed, or split what the lock protects."},
	[KY_SYNC_POOL] = {KY_FINDING_BLOCKING_POOL_EXHAUSTED, "blocking pool",
			  "for a thread of the blocking pool, while all of them ran closures",
			  "Give long or endless work threads of its own, bound what is submitted "
			  "(a semaphore before spawn_blocking()), or raise max_blocking_threads."},
	[KY_SYNC_NOTIFY] = {KY_FINDING_SEMAPHORE_EXHAUSTED, "a pool or lock of the program",
			    "until another task that shares it woke them, as for a pool that the "
			    "program made of a Notify",
			    "Give back sooner what the others wait for, or have more of it; with a "
			    "tokio::sync::Semaphore the order is fair and nothing is lost."},
	[KY_SYNC_SEMAPHORE] = {KY_FINDING_SEMAPHORE_EXHAUSTED, "semaphore",
			       "for a permit of a semaphore that had none left",
			       "Keep the permit for less time (drop it before what needs it no "
			       "more), or give the slow user a semaphore of its own; more permits "
			       "help only what the semaphore does not protect."},
};

/* Waits for one thing. Of the pool the holders are many (pool_users.h): where none has most of it,
 * who stands in line stands for them. */
struct held_waits {
	uint64_t ns, count;
	uint64_t heavy_count, heavy_ns; /* of those from KY_FIND_WORST_NS_MIN on */
	uint64_t wakes;                 /* of tasks of the kinds that waited, by whatever */
	uint64_t in_poll_ns;            /* of them: mostly within one poll of who released it */
	const struct ky_sync_wait *longest;
	uint64_t *holder_ns;          /* by kind; the last one: threads */
	uint32_t pool_threads, stack; /* stack: of the release that ended the longest */
};

static uint64_t length(const struct ky_sync_wait *wait)
{
	return wait->to_ns - wait->from_ns;
}

/* Was it within one poll of who released it for most of that wait? */
static bool is_held_in_poll(const struct ky_trace *trace, const struct ky_sync_wait *wait,
			    const struct ky_sync_wait *blamed)
{
	struct ky_poll poll;

	if (blamed->waker == KY_NONE || wait->what == KY_SYNC_POOL)
		return false;
	for (uint32_t worker = 0; worker < trace->worker_count; worker++) {
		uint64_t row = ky_column_find(&trace->workers[worker].polls, blamed->to_ns + 1);

		if (!row)
			continue;
		ky_trace_poll(trace, worker, row - 1, &poll);
		if (poll.task != blamed->waker || poll.start_ns > blamed->to_ns ||
		    poll.start_ns + poll.duration_ns < blamed->to_ns)
			continue;
		return (blamed->to_ns - ky_later(poll.start_ns, wait->from_ns)) * 2 >= length(wait);
	}
	return false;
}

static void add(struct held_waits *held, const struct ky_facts *facts,
		const struct ky_sync_waits *waits, const struct ky_sync_wait *wait)
{
	uint32_t holder = wait->what == KY_SYNC_POOL ? wait->task : waits->list[wait->blamed].waker;
	const struct ky_kind_facts *kind = holder != KY_NONE ?
						   ky_facts_kind(facts,
								 facts->trace->tasks[holder].name) :
						   NULL;

	held->holder_ns[kind ? kind - facts->kinds : facts->kind_count] += length(wait);
	held->ns += length(wait);
	held->heavy_count += length(wait) >= KY_FIND_WORST_NS_MIN;
	held->heavy_ns += length(wait) >= KY_FIND_WORST_NS_MIN ? length(wait) : 0;
	if (is_held_in_poll(facts->trace, wait, &waits->list[wait->blamed]))
		held->in_poll_ns += length(wait);
	held->count++;
	if (!held->longest || length(wait) > length(held->longest)) {
		held->longest = wait;
		held->stack = waits->list[wait->blamed].stack;
	}
}

static void say(struct ky_finding *found, const struct held_waits *held,
		const struct sync_words *say, const struct ky_facts *facts, uint32_t holder_ppm,
		bool is_user)
{
	struct ky_buf *out = &found->statement;

	ky_text(out, "Tasks waited ");
	ky_text(out, say->waited);
	ky_text(out, ", up to ");
	ky_say_ns(out, found->worst_ns);
	ky_text(out, ": ");
	ky_say_many(out, held->count, "wait, ", "waits, ");
	ky_say_ns(out, held->ns);
	ky_text(out, ". ");
	ky_say_ppm(out, holder_ppm);
	ky_text(out, is_user ? " of the time of its threads went to closures of " :
		     held->longest->what == KY_SYNC_POOL ? " of it were waits of " :
							   " of it ended when ");
	ky_say_kind(out, facts->trace, found->culprit.task);
	ky_text(out, held->longest->what == KY_SYNC_POOL ? "." : " released it.");
	if (held->longest->what == KY_SYNC_POOL && held->pool_threads) {
		ky_text(out, " Most threads of the pool that ran while closures stood in line: ");
		ky_text_u64(out, held->pool_threads);
		ky_text(out, ".");
	}
	ky_say_many(&found->impact, held->count, "wait of tasks such as ",
		    "waits of tasks such as ");
	ky_say_kind(&found->impact, facts->trace, facts->trace->tasks[held->longest->task].name);
	ky_text(&found->impact, " took ");
	ky_say_ppm(&found->impact, found->score_ppm);
	ky_text(&found->impact, " of the time that tasks ran, stood in line or waited for others.");
	ky_text(&found->action, say->action);
}

/* What made the polls of the holder long: the worst finding of them. */
static struct ky_finding *polls_of(const struct ky_findings *findings, uint32_t task)
{
	static const uint8_t ids[] = {KY_FINDING_BLOCKING_CALL,    KY_FINDING_CPU_HEAVY_POLL,
				      KY_FINDING_LOG_WRITING,      KY_FINDING_HUGE_DROP,
				      KY_FINDING_ALLOCATION_BURST, KY_FINDING_PAGE_FAULT_STORM};
	struct ky_finding *worst = NULL, *one;

	for (size_t i = 0; i < sizeof(ids); i++) {
		one = ky_findings_of_task(findings, ids[i], task);
		if (one && (!worst || one->score_ppm > worst->score_ppm))
			worst = one;
	}
	return worst;
}

/* A lock that is held within a poll is held for as long as that poll lasts: what makes the poll
 * long is the cause of the waits, too. */
static void blame_polls(struct ky_finding *polls, const struct held_waits *held, uint32_t share_ppm)
{
	ky_finding_judge(polls, polls->score_ppm > share_ppm ? polls->score_ppm : share_ppm,
			 ky_later(polls->worst_ns, length(held->longest)));
	polls->victims += held->count;
	polls->delay_ns += held->ns;
	ky_text(&polls->impact, " They held an asynchronous lock or permit, for which ");
	ky_say_many(&polls->impact, held->count, "wait", "waits");
	ky_text(&polls->impact, " of others took ");
	ky_say_ns(&polls->impact, held->ns);
	ky_text(&polls->impact, ".");
}

/* A few waits that people cannot see: after one in 200 wakes of such tasks at most. */
static bool are_rare(const struct held_waits *held)
{
	return ky_share_ppm(held->heavy_count, held->wakes) < KY_FIND_EXAMINED_PPM &&
	       length(held->longest) < KY_FIND_CRITICAL_NS;
}

/* Shorter waits, and few, are what a neighbour that keeps its time slice can make; but a line for a
 * pool has closures in its threads. */
static void settle(struct ky_findings *findings, struct ky_finding *found,
		   const struct held_waits *held, uint64_t account_ns)
{
	bool is_short = ky_share_ppm(held->heavy_ns, account_ns) < KY_FIND_SHARE_PPM_MIN;
	uint8_t what = held->longest->what;

	if (what == KY_SYNC_POOL)
		return;
	if (held->in_poll_ns * 2 >= held->ns &&
	    (found->id == KY_FINDING_ASYNC_LOCK_HELD || what == KY_SYNC_SEMAPHORE)) {
		struct ky_finding *polls = found->culprit.task != KY_NONE ?
						   polls_of(findings, found->culprit.task) :
						   NULL;

		if (polls && !is_short && held->heavy_count >= KY_FIND_SAMPLES_MIN)
			blame_polls(polls, held, found->score_ppm);
		is_short = true;
	}
	if (is_short || are_rare(held))
		found->severity = KY_SEVERITY_INFO;
	ky_findings_doubt_few(findings, found, held->heavy_count, length(held->longest), false);
}

static void report(struct ky_findings *findings, const struct held_waits *held,
		   const struct sync_words *said, uint64_t all_ns)
{
	const struct ky_facts *facts = &findings->facts;
	struct ky_finding *found, *same;
	uint32_t most = 0, share_ppm, user_ppm = 0;
	uint32_t user = said->id == KY_FINDING_BLOCKING_POOL_EXHAUSTED ?
				ky_pool_user(facts, facts->trace->tasks[held->longest->task].name,
					     &user_ppm) :
				KY_NONE;

	for (uint32_t i = 1; i <= facts->kind_count; i++)
		if (held->holder_ns[i] > held->holder_ns[most])
			most = i;
	/* Its future got the lock and kept it: what the others waited until it was dropped is its
	 * harm. */
	same = most < facts->kind_count && said->id == KY_FINDING_ASYNC_LOCK_HELD ?
		       ky_findings_of_task(findings, KY_FINDING_FUTURELOCK,
					   facts->kinds[most].name) :
		       NULL;
	if (same) {
		same->victims += held->count;
		same->delay_ns += held->ns;
		ky_finding_judge(same,
				 ky_share_ppm(same->delay_ns,
					      all_ns + facts->poll_ns + facts->ready_ns),
				 ky_later(same->worst_ns, length(held->longest)));
		return;
	}
	found = ky_findings_add(findings, said->id);
	if (!found)
		return;
	found->culprit.kind = most < facts->kind_count ? "task" : "thread";
	found->culprit.task = most < facts->kind_count ? facts->kinds[most].name : KY_NONE;
	share_ppm = ky_share_ppm(held->holder_ns[most], held->ns);
	if (user != KY_NONE) {
		found->culprit.kind = "task";
		found->culprit.task = user;
		share_ppm = user_ppm;
	}
	found->culprit.code = ky_code_own_line(&facts->profile->code, held->stack);
	if (found->culprit.code && !ky_code_is_own(found->culprit.code))
		found->culprit.code = NULL;
	found->culprit.resource = said->resource;
	found->confidence = held->longest->what == KY_SYNC_NOTIFY ? KY_CONFIDENCE_LIKELY :
								    KY_CONFIDENCE_PROVEN;
	found->victims = held->count;
	found->delay_ns = held->ns;
	ky_finding_judge(found, ky_share_ppm(held->ns, all_ns + facts->poll_ns + facts->ready_ns),
			 length(held->longest));
	settle(findings, found, held, all_ns + facts->poll_ns + facts->ready_ns);
	say(found, held, said, facts, share_ppm, user != KY_NONE);
	ky_finding_evidence(
		found, &(struct ky_evidence){.kind = "wait",
					     .from_ns = held->longest->from_ns,
					     .to_ns = held->longest->to_ns,
					     .task = facts->trace->tasks[held->longest->task].id,
					     .stack = held->stack,
					     .event = "WakeEvent"});
}

/* Did it wait for a lock while the keeper's future had one? */
static bool is_behind(const struct ky_sync_wait *wait, const struct ky_stuck_lock *keeper)
{
	uint64_t from_ns = ky_later(wait->from_ns, keeper->from_ns);

	return ky_sync_is_tokios_lock(wait->what) &&
	       ky_earlier(wait->to_ns, keeper->to_ns) >= from_ns + KY_FIND_STUCK_NS_MIN;
}

/* Who fills a channel as fast as it can, and has nobody to answer, waits for room by design: what
 * waits for its messages is not late. */
static bool drop_sources(struct ky_sync_waits *waits, const struct ky_facts *facts)
{
	bool *driven = NULL, has_rooms = false;
	const struct ky_kind_facts *kind;

	for (uint32_t i = 0; i < waits->count; i++)
		has_rooms |= waits->list[i].what == KY_SYNC_CHANNEL;
	if (!has_rooms)
		return true;
	if (ky_driven_kinds_make(&driven, facts))
		return false;
	for (uint32_t i = 0; i < waits->count; i++) {
		struct ky_sync_wait *one = &waits->list[i];

		kind = one->what == KY_SYNC_CHANNEL ?
			       ky_facts_kind(facts, facts->trace->tasks[one->task].name) :
			       NULL;
		if (!kind || driven[kind - facts->kinds])
			continue;
		waits->ns -= length(one);
		one->what = KY_SYNC_NONE; /* it stays what others are blamed by */
	}
	ky_free(driven);
	return true;
}

/* For one sort of thing. */
static void find_waits(struct ky_findings *findings, const struct ky_sync_waits *waits,
		       uint8_t what, uint64_t all_ns)
{
	const struct ky_facts *facts = &findings->facts;
	size_t room = facts->kind_count + (size_t)1;
	struct held_waits held = {.pool_threads = waits->pool_threads};
	bool *seen = ky_alloc(room * sizeof(*seen));

	held.holder_ns = ky_alloc(room * sizeof(*held.holder_ns));
	findings->failed |= !seen || !held.holder_ns;
	for (uint32_t i = 0; seen && held.holder_ns && i < waits->count; i++) {
		const struct ky_sync_wait *one = &waits->list[i];
		const struct ky_kind_facts *kind;

		if (one->what != what)
			continue;
		add(&held, facts, waits, one);
		kind = ky_facts_kind(facts, facts->trace->tasks[one->task].name);
		if (!kind || seen[kind - facts->kinds])
			continue;
		seen[kind - facts->kinds] = true;
		held.wakes += kind->wake_count;
	}
	if (held.count && !findings->failed)
		report(findings, &held, &words[what], all_ns);
	ky_free(held.holder_ns);
	ky_free(seen);
}

void ky_find_held_resources(struct ky_findings *findings)
{
	const struct ky_facts *facts = &findings->facts;
	uint64_t longest_ns[KY_SYNC_WHATS] = {0};
	struct ky_stuck_locks stuck;
	struct ky_sync_waits waits;

	if (ky_sync_waits_make(&waits, facts)) {
		findings->failed = true;
		return;
	}
	if (ky_stuck_locks_make(&stuck, facts)) {
		ky_sync_waits_release(&waits);
		findings->failed = true;
		return;
	}
	for (uint32_t i = 0; i < waits.count; i++) {
		uint8_t what = ky_sync_is_tokios_lock(waits.list[i].what) ? KY_SYNC_MUTEX :
									    waits.list[i].what;

		longest_ns[what] = ky_later(longest_ns[what], length(&waits.list[i]));
	}
	for (uint32_t i = 0; stuck.keeper.task != KY_NONE && i < waits.count; i++)
		if (longest_ns[KY_SYNC_MUTEX] && is_behind(&waits.list[i], &stuck.keeper))
			stuck.has_victims = true;
	ky_find_stuck_locks(findings, &stuck, longest_ns, waits.ns + stuck.ns);
	if (!drop_sources(&waits, facts))
		findings->failed = true;
	for (uint32_t what = KY_SYNC_NONE + 1; what < KY_SYNC_WHATS; what++)
		find_waits(findings, &waits, (uint8_t)what, waits.ns + stuck.ns);
	ky_stuck_locks_release(&stuck);
	ky_sync_waits_release(&waits);
}
