/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* What a retention policy is and has counted, as events. */
#include <drain/convert_stage.h>

#include <drain/task_ready.h>
#include <drain/wake_stack.h>
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

bool ky_retain_next_rule(struct ky_convert *convert, const struct ky_retain_policy *before,
			 struct ky_list_at *at)
{
	for (; at->entry < KY_RETAIN_COUNT; at->entry++) {
		const struct ky_retain_rule *rule = &convert->retain.policy.rules[at->entry];
		const struct ky_retain_rule none = {0},
					    *old = before ? &before->rules[at->entry] : &none;

		if (rule->threshold_ns != old->threshold_ns || rule->throttle != old->throttle)
			return true;
	}
	return false;
}

void ky_retain_write_rule(struct ky_convert *convert, struct ky_list_at *at, uint64_t ns)
{
	const struct ky_retain_rule *rule = &convert->retain.policy.rules[at->entry];
	struct ky_trc_enc *enc = &convert->chunk.enc;
	uint32_t pool = ky_chunk_text(&convert->chunk, kind_names[at->entry++]);

	ky_trc_enc_event(enc, KY_EV_RETENTION, ns);
	ky_trc_enc_u32(enc, pool);
	ky_trc_enc_varint(enc, rule->threshold_ns);
	ky_trc_enc_varint(enc, rule->throttle);
}

/* ---- single events ---- */

void ky_retain_write_wake(struct ky_convert *convert, const struct ky_held_wake *held, uint64_t ns)
{
	struct ky_trc_enc *enc = &convert->chunk.enc;
	uint32_t stack = convert->chunk.is_muted ? 0 : ky_wake_stack_write(convert, held->stack);

	ky_trc_enc_event(enc, KY_EV_LATE_WAKE, ns);
	ky_trc_enc_varint(enc, held->woken_ns);
	ky_trc_enc_varint(enc, held->waker);
	ky_trc_enc_varint(enc, held->woken);
	ky_trc_enc_u8(enc, held->worker_id);
	ky_trc_enc_u8(enc, held->origin);
	ky_trc_enc_u32(enc, stack);
	ky_trc_enc_varint(enc, held->tid);
}

void ky_retain_write_delay(struct ky_convert *convert, uint32_t worker, uint32_t nested_tid,
			   uint64_t ready_ns, uint64_t ns)
{
	struct ky_trc_enc *enc = &convert->chunk.enc;

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

bool ky_retain_next_count(struct ky_convert *convert, struct ky_list_at *at, uint32_t *bytes)
{
	struct ky_retain *retain = &convert->retain;

	for (; at->entry < KY_RETAIN_TABLES; at->entry++, at->part = 0) {
		const struct ky_counted_table *table = &retain->tables[at->entry];

		for (; at->part < table->capacity; at->part++) {
			if (!table->by_name[at->part] || !table->by_name[at->part]->count)
				continue;
			put_buckets(&retain->scratch, table->by_name[at->part]);
			*bytes = (uint32_t)retain->scratch.used + TEXT_BYTES_MAX;
			return true;
		}
	}
	return false;
}

void ky_retain_count(struct ky_convert *convert, struct ky_list_at *at, uint64_t ns)
{
	struct ky_retain *retain = &convert->retain;
	struct ky_counted *counted = retain->tables[at->entry].by_name[at->part];
	struct ky_trc_enc *enc = &convert->chunk.enc;
	uint32_t kind_pool, name_pool, unit_pool;

	kind_pool = ky_chunk_text(&convert->chunk, table_names[at->entry]);
	name_pool = ky_name_pool(&convert->common->names, &convert->chunk, at->part);
	unit_pool = ky_chunk_text(&convert->chunk, "ns");
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
	at->part++;
}

bool ky_retain_next_worker(struct ky_convert *convert, struct ky_list_at *at)
{
	const struct ky_retain *retain = &convert->retain;

	for (; at->entry < retain->worker_capacity; at->entry++) {
		const struct ky_worker_sums *sums = &retain->workers[at->entry];

		if (sums->poll_count || sums->nested_count || sums->wake_count || sums->park_count)
			return true;
	}
	return false;
}

void ky_retain_worker(struct ky_convert *convert, struct ky_list_at *at, uint64_t ns)
{
	struct ky_worker_sums *sums = &convert->retain.workers[at->entry];
	struct ky_trc_enc *enc = &convert->chunk.enc;
	uint64_t parked_since_ns = sums->parked_since_ns;

	ky_trc_enc_event(enc, KY_EV_WORKER_SUMS, ns);
	ky_trc_enc_varint(enc, at->entry ? ky_worker_id(at->entry - 1) : KY_WORKER_UNKNOWN);
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
	at->entry++;
}

void ky_retain_is_reported(struct ky_convert *convert, uint64_t ns)
{
	struct ky_retain *retain = &convert->retain;

	convert->chunk.records_reported += retain->records_pending;
	retain->records_pending = 0;
	retain->has_counts = false;
	retain->from_ns = ns;
	retain->reported_ns = convert->common->now_ns;
}

bool ky_retain_is_due(struct ky_convert *convert)
{
	struct ky_retain *retain = &convert->retain;

	if (!retain->from_ns)
		retain->from_ns = convert->merged_ns;
	if (!retain->reported_ns)
		retain->reported_ns = convert->common->now_ns;
	return retain->has_counts &&
	       convert->common->now_ns - retain->reported_ns >= KY_RETAIN_REPORT_NS;
}

bool ky_retain_has_counts(const struct ky_convert *convert)
{
	return convert->retain.has_counts;
}

bool ky_retain_holds_spans(const struct ky_convert *convert)
{
	return convert->retain.holds_spans;
}
