/* SPDX-License-Identifier: Apache-2.0 OR MIT */
#include <base/gnu.h>

#include <agent/own_rules.h>

#include <base/alloc.h>
#include <base/now.h>
#include <errno.h>
#include <pthread.h>
#include <agent/dumps.h>
#include <record/emit/emit_engine.h>
#include <record/sample/stack_walk.h>
#include <string.h>

#define OBSERVER_MEMORY_BYTES (4u << 20)
#define RETRY_NS UINT64_C(1000000000)

static struct {
	pthread_mutex_t lock;
	struct ky_rule rules[KY_RULES_MAX];
	size_t count;
	uint32_t version; /* atomic */
} set = {.lock = PTHREAD_MUTEX_INITIALIZER};

void ky_lookout_open(struct ky_lookout *lookout)
{
	pthread_mutex_lock(&set.lock);
	set.count = 0;
	__atomic_store_n(&set.version, 0, __ATOMIC_RELEASE);
	pthread_mutex_unlock(&set.lock);
	memset(lookout, 0, sizeof(*lookout));
}

void ky_lookout_reopen(struct ky_lookout *lookout)
{
	static const pthread_mutex_t fresh = PTHREAD_MUTEX_INITIALIZER;

	memcpy(&set.lock, &fresh, sizeof(fresh));
	memset(lookout, 0, sizeof(*lookout));
}

int ky_lookout_add(const char *text, char *errbuf, size_t errbuf_bytes)
{
	size_t count;
	int err;

	pthread_mutex_lock(&set.lock);
	count = set.count;
	err = ky_rules_parse(set.rules, &count, text, errbuf, errbuf_bytes);
	if (!err && count != set.count) {
		set.count = count;
		__atomic_store_n(&set.version, set.version + 1, __ATOMIC_RELEASE);
	}
	pthread_mutex_unlock(&set.lock);
	return err;
}

static void note_error(struct ky_lookout *lookout, int err)
{
	int32_t none = 0;

	if (err < 0)
		__atomic_compare_exchange_n(&lookout->last_error, &none, err, false,
					    __ATOMIC_RELAXED, __ATOMIC_RELAXED);
}

static void count_undumped(struct ky_lookout *lookout, uint64_t fired_ns, uint64_t suppressed_count)
{
	lookout->undumped_count++;
	lookout->untold_count += suppressed_count;
	if (lookout->watchdog)
		ky_watchdog_failed(lookout->watchdog, fired_ns);
}

static void fire(void *ctx, const struct ky_firing *firing)
{
	struct ky_dump_request *request;
	struct ky_lookout *lookout = ctx;
	int err = ky_dump_request_firing(&request, firing);

	if (err) {
		note_error(lookout, err);
		count_undumped(lookout, firing->monotonic_ns, firing->suppressed_count);
		return;
	}
	/* The stream tells it, too, at its own time. */
	for (size_t i = 0; lookout->stream && i < request->note_count; i++)
		note_error(lookout, ky_drain_stuck(lookout->stream, &request->notes[i]));
	if (lookout->stream)
		note_error(lookout, ky_drain_trigger(lookout->stream, &request->trigger));
	err = ky_dump_queue_put(request);
	if (err) {
		ky_free(request);
		count_undumped(lookout, firing->monotonic_ns, firing->suppressed_count);
	}
	note_error(lookout, err);
}

static bool may_read(void)
{
	return !ky_engine_is_under_filter();
}

/* Their firings tell the stack of what hangs. */
static bool has_poll_rule(const struct ky_lookout *lookout)
{
	for (size_t i = 0; i < lookout->rule_count; i++)
		if (lookout->rules[i].kind == KY_RULE_POLL ||
		    lookout->rules[i].kind == KY_RULE_STALL)
			return true;
	return false;
}

static int open_watchdog(struct ky_lookout *lookout, const struct ky_ring *ring)
{
	uint64_t unusable = 0;
	struct ky_watchdog_options options = {
		.image = ring->base,
		.image_bytes = ring->mapped_bytes,
		.rules = lookout->rules,
		.has_sums = true, /* observe(), or the stream */
		.fire = fire,
		.fire_ctx = lookout,
		.may_read = may_read,
		.unusable_rules = &unusable,
	};
	int err;

	pthread_mutex_lock(&set.lock);
	lookout->version = set.version;
	lookout->rule_count = set.count;
	memcpy(lookout->rules, set.rules, sizeof(lookout->rules));
	pthread_mutex_unlock(&set.lock);
	options.rule_count = lookout->rule_count;
	err = ky_watchdog_open(&lookout->watchdog, &options);
	if (!err && has_poll_rule(lookout))
		ky_stack_want();
	/* The others are watched; that some cannot be shows in the status. */
	if (!err && unusable)
		note_error(lookout, -ENOTSUP);
	return err;
}

/* Rules were added: those that were there go on, with the dumps they have made. */
static int renew_watchdog(struct ky_lookout *lookout, const struct ky_ring *ring)
{
	struct ky_watchdog *before = lookout->watchdog;
	int err = open_watchdog(lookout, ring);

	if (err) {
		lookout->watchdog = before;
		return err;
	}
	if (before)
		ky_watchdog_follow(lookout->watchdog, before);
	ky_watchdog_close(before);
	return 0;
}

/* In the ring, from where every trace takes it. */
static void tell_ring(const struct ky_lookout *lookout, struct ky_ring_watched *watched,
		      const struct ky_watchdog_stats *stats)
{
	const struct {
		_Atomic uint64_t *word;
		uint64_t value;
	} words[] = {
		{&watched->fired, lookout->fired},
		{&watched->held_back, lookout->suppressed},
		{&watched->untold, stats->waiting + lookout->untold_count},
		{&watched->untold_over_budget, stats->over_budget},
		{&watched->undumped, lookout->undumped_count},
	};

	for (size_t i = 0; i < sizeof(words) / sizeof(words[0]); i++)
		atomic_store_explicit(words[i].word, words[i].value, memory_order_relaxed);
}

/* ring: NULL, it is not ours any more. */
static void update_status(struct ky_lookout *lookout, const struct ky_ring *ring)
{
	struct ky_watchdog_stats stats;

	ky_watchdog_stats(lookout->watchdog, &stats);
	__atomic_store_n(&lookout->fired, lookout->fired_before + stats.fired, __ATOMIC_RELAXED);
	__atomic_store_n(&lookout->suppressed, lookout->suppressed_before + stats.suppressed,
			 __ATOMIC_RELAXED);
	if (ring && ring->side)
		tell_ring(lookout, &ring->side->watched, &stats);
}

static bool needs_events(const struct ky_lookout *lookout)
{
	for (size_t i = 0; i < lookout->rule_count; i++)
		if (ky_rule_needs_events(&lookout->rules[i]))
			return true;
	return false;
}

static void close_observer(struct ky_lookout *lookout)
{
	ky_drain_close(lookout->observer);
	lookout->observer = NULL;
}

/* In flight mode, where a rule needs events. */
static struct ky_drain *observe(struct ky_lookout *lookout, const struct ky_ring *ring)
{
	struct ky_drain_options options = {
		.image = ring->base,
		.image_bytes = ring->mapped_bytes,
		.memory_bytes_max = OBSERVER_MEMORY_BYTES,
		.source = "C API",
	};

	if (!needs_events(lookout)) {
		close_observer(lookout);
		return NULL;
	}
	if (!lookout->observer)
		note_error(lookout, ky_drain_open(&lookout->observer, &options));
	if (lookout->observer)
		note_error(lookout, ky_drain_step(lookout->observer, 0));
	return lookout->observer;
}

uint64_t ky_lookout_step(struct ky_lookout *lookout, const struct ky_ring *ring,
			 struct ky_drain *stream)
{
	struct ky_event_sums sums;
	struct ky_drain *events;
	uint64_t pause_ns, now_ns;

	if (lookout->version != __atomic_load_n(&set.version, __ATOMIC_ACQUIRE)) {
		int err = renew_watchdog(lookout, ring);

		note_error(lookout, err);
		if (err) { /* out of memory: the next second may have some */
			lookout->version = 0;
			return ky_now_ns(CLOCK_MONOTONIC) + RETRY_NS;
		}
	}
	if (!lookout->watchdog)
		return UINT64_MAX;
	lookout->stream = stream;
	if (stream)
		close_observer(lookout);
	events = stream ? stream : observe(lookout, ring);
	if (events)
		ky_drain_watch(events, &sums);
	pause_ns = ky_watchdog_step(lookout->watchdog, events ? &sums : NULL);
	update_status(lookout, ring);
	now_ns = ky_now_ns(CLOCK_MONOTONIC);
	return pause_ns < UINT64_MAX - now_ns ? now_ns + pause_ns : UINT64_MAX;
}

void ky_lookout_before(void *ctx, struct ky_dump_request *request)
{
	struct ky_lookout *lookout = ctx;

	if (lookout->watchdog)
		request->note_count += ky_watchdog_notes(lookout->watchdog,
							 request->notes + request->note_count,
							 KY_DUMP_NOTES_MAX - request->note_count);
}

void ky_lookout_after(void *ctx, const struct ky_dump_request *request, int err)
{
	struct ky_lookout *lookout = ctx;

	if (err)
		count_undumped(lookout, request->trigger.monotonic_ns,
			       request->trigger.suppressed_count);
	else if (lookout->watchdog)
		ky_watchdog_spent(lookout->watchdog, request->result.bytes_written);
}

void ky_lookout_close(struct ky_lookout *lookout)
{
	if (lookout->watchdog)
		update_status(lookout, NULL);
	lookout->fired_before = lookout->fired;
	lookout->suppressed_before = lookout->suppressed;
	ky_watchdog_close(lookout->watchdog);
	lookout->watchdog = NULL;
	close_observer(lookout);
}
