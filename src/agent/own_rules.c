/* SPDX-License-Identifier: Apache-2.0 OR MIT */
#include <base/gnu.h>

#include <agent/own_rules.h>

#include <agent/own_error.h>
#include <base/now.h>
#include <errno.h>
#include <pthread.h>
#include <record/emit/emit_engine.h>
#include <record/sample/stack_walk.h>
#include <string.h>

#define RETRY_NS UINT64_C(1000000000)

static struct {
	pthread_mutex_t lock;
	struct ky_rule rules[KY_RULES_MAX];
	size_t count;
	uint32_t version; /* atomic */
} set = {.lock = PTHREAD_MUTEX_INITIALIZER};

void ky_own_rules_init(struct ky_own_rules *own)
{
	pthread_mutex_lock(&set.lock);
	set.count = 0;
	__atomic_store_n(&set.version, 0, __ATOMIC_RELEASE);
	pthread_mutex_unlock(&set.lock);
	memset(own, 0, sizeof(*own));
}

void ky_own_rules_reopen(struct ky_own_rules *own)
{
	static const pthread_mutex_t fresh = PTHREAD_MUTEX_INITIALIZER;

	memcpy(&set.lock, &fresh, sizeof(fresh));
	memset(own, 0, sizeof(*own));
}

int ky_own_rules_add(const char *text, char *errbuf, size_t errbuf_bytes)
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

static bool may_read(void)
{
	return !ky_engine_is_under_filter();
}

/* Firings of rules on polls have the stack of what hangs. */
static void want_stacks(const struct ky_own_rules *own)
{
	for (size_t i = 0; i < own->count; i++)
		if (own->list[i].kind == KY_RULE_POLL || own->list[i].kind == KY_RULE_STALL)
			ky_stack_want();
}

static int take_rules(struct ky_own_rules *own, const struct ky_ring *ring, struct ky_agent *agent)
{
	const struct ky_rules_options options = {
		.image = ring->base,
		.image_bytes = ring->mapped_bytes,
		.access = {.base = ring->base},
		.may_read = may_read,
		.dumps = agent->dumps,
		.event = ky_own_error_on_event,
		.event_ctx = &own->last_error,
	};
	int err = agent->rules ? 0 : ky_rules_open(&agent->rules, &options);

	pthread_mutex_lock(&set.lock);
	own->version = set.version;
	own->count = set.count;
	memcpy(own->list, set.rules, sizeof(own->list));
	pthread_mutex_unlock(&set.lock);
	if (!err)
		err = ky_rules_set(agent->rules, own->list, own->count);
	if (!err)
		want_stacks(own);
	return err;
}

void ky_own_rules_count(struct ky_own_rules *own, const struct ky_rules *rules)
{
	struct ky_watchdog_stats stats;

	if (!rules)
		return;
	ky_rules_stats(rules, &stats);
	__atomic_store_n(&own->fired, stats.fired, __ATOMIC_RELAXED);
	__atomic_store_n(&own->suppressed, stats.suppressed, __ATOMIC_RELAXED);
}

uint64_t ky_own_rules_follow(struct ky_own_rules *own, const struct ky_ring *ring,
			     struct ky_agent *agent)
{
	int err;

	if (own->version == __atomic_load_n(&set.version, __ATOMIC_ACQUIRE))
		return UINT64_MAX;
	err = take_rules(own, ring, agent);
	if (!err)
		return UINT64_MAX;
	ky_own_error_note(&own->last_error, err);
	own->version = 0; /* out of memory: the next second may have some */
	return ky_now_ns(CLOCK_MONOTONIC) + RETRY_NS;
}
