/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* What a retention policy is and has counted, as events. */
#include <drain/drain_state.h>

#include <string.h>
#include <wire/kind_list.h>

#define NO_NAME(gate, name)
#define KIND_NAME(gate, name) [KY_RETAIN_##gate] = (name),

/* clang-format off */
static const char *const kind_names[KY_RETAIN_COUNT] = {
	KY_KIND_LIST(NO_NAME, KIND_NAME, KIND_NAME)
};
/* clang-format on */

static const char *const table_names[KY_RETAIN_TABLES] = {
	[KY_RETAIN_POLLS] = "poll", [KY_RETAIN_DELAYS] = "delay", [KY_RETAIN_RUNS] = "blocking",
	[KY_RETAIN_PARKS] = "park", [KY_RETAIN_TURNS] = "driver", [KY_RETAIN_MARKS] = "mark",
	[KY_RETAIN_SPANS] = "span",
};

#define TEXT_BYTES_MAX 4096u /* of the names of one event, with their frames */

/* ---- policy ---- */

static void write_rule(struct ky_drain *drain, int kind, uint64_t ns)
{
	const struct ky_retain_rule *rule = &drain->retain.policy.rules[kind];
	struct ky_trc_enc *enc = &drain->enc;
	uint32_t pool;

	ky_drain_ready(drain, ns);
	pool = ky_drain_text_pool(drain, kind_names[kind]);
	ky_trc_enc_event(enc, KY_EV_RETENTION, ns);
	ky_trc_enc_u32(enc, pool);
	ky_trc_enc_varint(enc, rule->threshold_ns);
	ky_trc_enc_varint(enc, rule->throttle);
}

void ky_retain_write_policy(struct ky_drain *drain, uint64_t ns)
{
	for (int kind = 0; kind < KY_RETAIN_COUNT; kind++) {
		const struct ky_retain_rule *rule = &drain->retain.policy.rules[kind];

		if (rule->threshold_ns || rule->throttle)
			write_rule(drain, kind, ns);
	}
}

void ky_retain_write_change(struct ky_drain *drain, const struct ky_retain_policy *before,
			    uint64_t ns)
{
	for (int kind = 0; kind < KY_RETAIN_COUNT; kind++) {
		const struct ky_retain_rule *rule = &drain->retain.policy.rules[kind];

		if (rule->threshold_ns != before->rules[kind].threshold_ns ||
		    rule->throttle != before->rules[kind].throttle)
			write_rule(drain, kind, ns);
	}
}

/* ---- single events ---- */

void ky_retain_write_wake(struct ky_drain *drain, const struct ky_held_wake *held, uint64_t ns)
{
	struct ky_trc_enc *enc = &drain->enc;

	ky_drain_ready(drain, ns);
	ky_trc_enc_event(enc, KY_EV_LATE_WAKE, ns);
	ky_trc_enc_varint(enc, held->woken_ns);
	ky_trc_enc_varint(enc, held->waker);
	ky_trc_enc_varint(enc, held->woken);
	ky_trc_enc_u8(enc, held->worker_id);
	ky_trc_enc_u8(enc, held->origin);
}

void ky_retain_write_delay(struct ky_drain *drain, uint32_t worker, uint32_t nested_tid,
			   uint64_t ready_ns, uint64_t ns)
{
	struct ky_trc_enc *enc = &drain->enc;

	ky_drain_ready(drain, ns);
	ky_trc_enc_event(enc, KY_EV_POLL_DELAY, ns);
	ky_trc_enc_varint(enc, ky_worker_id(worker));
	ky_trc_enc_u32(enc, nested_tid);
	ky_trc_enc_varint(enc, ready_ns);
}

/* ---- counts ---- */

/* Pairs of numbers: empty buckets before this one, count. */
static void put_buckets(struct ky_buf *out, const struct ky_counted *counted)
{
	uint32_t next = 0;

	ky_buf_clear(out);
	for (uint32_t row = 0; row < KY_BUCKET_ROWS; row++) {
		for (uint32_t i = 0; counted->rows[row] && i < KY_BUCKETS_PER_ROW; i++) {
			uint32_t bucket = row * KY_BUCKETS_PER_ROW + i;
			uint8_t *at;

			if (!counted->rows[row][i])
				continue;
			if (ky_buf_reserve(out, 2 * KY_VARINT_BYTES_MAX) != 0)
				return; /* it says fewer buckets than values */
			at = ky_varint_put(out->bytes + out->used, bucket - next);
			at = ky_varint_put(at, counted->rows[row][i]);
			out->used = (size_t)(at - out->bytes);
			next = bucket + 1;
		}
	}
}

static void forget(struct ky_counted *counted)
{
	for (uint32_t row = 0; row < KY_BUCKET_ROWS; row++) {
		if (counted->rows[row])
			memset(counted->rows[row], 0, KY_BUCKETS_PER_ROW * sizeof(uint64_t));
	}
	counted->count = counted->sum = counted->min = counted->max = 0;
}

static void write_histogram(struct ky_drain *drain, uint32_t table, uint32_t name,
			    struct ky_counted *counted, uint64_t ns)
{
	struct ky_retain *retain = &drain->retain;
	struct ky_trc_enc *enc = &drain->enc;
	uint32_t kind_pool, name_pool, unit_pool;

	put_buckets(&retain->scratch, counted);
	ky_drain_ready_for(drain, ns, 1, (uint32_t)retain->scratch.used + TEXT_BYTES_MAX);
	kind_pool = ky_drain_text_pool(drain, table_names[table]);
	name_pool = ky_drain_name_pool(drain, name);
	unit_pool = ky_drain_text_pool(drain, "ns");
	ky_trc_enc_event(enc, KY_EV_HISTOGRAM, ns);
	ky_trc_enc_u32(enc, kind_pool);
	ky_trc_enc_u32(enc, name_pool);
	ky_trc_enc_u32(enc, unit_pool);
	ky_trc_enc_varint(enc, retain->from_ns);
	ky_trc_enc_varint(enc, counted->count);
	ky_trc_enc_varint(enc, counted->sum);
	ky_trc_enc_varint(enc, counted->min);
	ky_trc_enc_varint(enc, counted->max);
	ky_trc_enc_bytes(enc, retain->scratch.bytes, retain->scratch.used);
	forget(counted);
}

static void write_worker(struct ky_drain *drain, uint32_t slot, uint64_t ns)
{
	struct ky_worker_sums *sums = &drain->retain.workers[slot];
	struct ky_trc_enc *enc = &drain->enc;
	uint64_t parked_since_ns = sums->parked_since_ns;

	if (!sums->poll_count && !sums->nested_count && !sums->wake_count && !sums->park_count)
		return;
	ky_drain_ready(drain, ns);
	ky_trc_enc_event(enc, KY_EV_WORKER_SUMS, ns);
	ky_trc_enc_varint(enc, slot ? ky_worker_id(slot - 1) : KY_WORKER_UNKNOWN);
	ky_trc_enc_varint(enc, sums->first_ns);
	ky_trc_enc_varint(enc, sums->last_ns);
	ky_trc_enc_varint(enc, sums->poll_count);
	ky_trc_enc_varint(enc, sums->busy_ns);
	ky_trc_enc_varint(enc, sums->poll_max_ns);
	ky_trc_enc_varint(enc, sums->nested_count);
	ky_trc_enc_varint(enc, sums->wake_count);
	ky_trc_enc_varint(enc, sums->park_count);
	ky_trc_enc_varint(enc, sums->parked_ns);
	memset(sums, 0, sizeof(*sums));
	sums->parked_since_ns = parked_since_ns;
}

void ky_retain_tell(struct ky_drain *drain, uint64_t ns, bool is_end)
{
	struct ky_retain *retain = &drain->retain;

	if (is_end)
		ky_retain_settle_all(drain, ns);
	if (is_end && retain->holds_spans && !drain->is_cut)
		ky_drain_write_open_spans(drain, ns, true);
	if (retain->has_counts) {
		for (uint32_t table = 0; table < KY_RETAIN_TABLES; table++) {
			struct ky_counted_table *counted = &retain->tables[table];

			for (uint32_t name = 0; name < counted->capacity; name++) {
				if (counted->by_name[name] && counted->by_name[name]->count)
					write_histogram(drain, table, name, counted->by_name[name],
							ns);
			}
		}
		for (uint32_t slot = 0; slot < retain->worker_capacity; slot++)
			write_worker(drain, slot, ns);
	}
	drain->records_told += retain->records_pending;
	retain->records_pending = 0;
	retain->has_counts = false;
	retain->from_ns = ns;
	retain->told_ns = drain->now_ns;
}

void ky_retain_step(struct ky_drain *drain)
{
	struct ky_retain *retain = &drain->retain;

	if (!retain->from_ns)
		retain->from_ns = drain->merged_ns;
	if (!retain->told_ns)
		retain->told_ns = drain->now_ns;
	if (retain->has_counts && drain->now_ns - retain->told_ns >= KY_RETAIN_TELL_NS)
		ky_retain_tell(drain, drain->merged_ns, false);
}
