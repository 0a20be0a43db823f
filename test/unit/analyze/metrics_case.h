/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* metrics_case.h - what tests of metrics and lints write into a trace. */
#ifndef KY_TEST_METRICS_CASE_H
#define KY_TEST_METRICS_CASE_H

#include "../read/read_case.h"
#include <analyze/console_lints.h>

static inline void case_spawn(struct read_case *c, uint64_t ns, uint64_t task)
{
	uint32_t name = case_text(c, "svc::task");

	ky_trc_enc_event(&c->enc, KY_EV_TASK_SPAWN, ns);
	ky_trc_enc_varint(&c->enc, task);
	ky_trc_enc_u32(&c->enc, name);
	ky_trc_enc_u8(&c->enc, 1);
	ky_trc_enc_opt_varint(&c->enc, false, 0);
	ky_trc_enc_opt_varint(&c->enc, false, 0);
}

static inline void case_over(struct read_case *c, uint64_t ns, uint64_t task, bool is_cancelled)
{
	ky_trc_enc_event(&c->enc, KY_EV_TASK_TERMINATE, ns);
	ky_trc_enc_varint(&c->enc, task);
	ky_trc_enc_u8(&c->enc, is_cancelled);
}

/* kind: 1 multi-thread, 2 current-thread. */
static inline void case_runtime(struct read_case *c, uint64_t id, uint8_t kind)
{
	uint32_t text = case_text(c, "rt");

	ky_trc_enc_event(&c->enc, KY_EV_RUNTIME, 900);
	ky_trc_enc_varint(&c->enc, id);
	ky_trc_enc_u32(&c->enc, text);
	ky_trc_enc_u8(&c->enc, kind);
	ky_trc_enc_u8(&c->enc, 0);
}

static inline void case_worker(struct read_case *c, uint64_t id, uint64_t runtime)
{
	ky_trc_enc_event(&c->enc, KY_EV_WORKER, 900);
	ky_trc_enc_varint(&c->enc, id);
	ky_trc_enc_opt_varint(&c->enc, true, runtime);
	ky_trc_enc_opt_varint(&c->enc, true, id);
	ky_trc_enc_u32(&c->enc, (uint32_t)(100 + id));
	ky_trc_enc_u8(&c->enc, 1);
	ky_trc_enc_u8(&c->enc, 0);
	ky_trc_enc_varint(&c->enc, 7 + id);
	ky_trc_enc_opt_varint(&c->enc, false, 0);
	ky_trc_enc_opt_varint(&c->enc, false, 0);
}

/* With an origin as WakeEventEvent has it. */
static inline void case_wake_by(struct read_case *c, uint64_t ns, uint64_t task, uint32_t worker,
				uint8_t origin)
{
	uint32_t stack = ky_trc_enc_stack(&c->enc, NULL, 0);

	ky_trc_enc_event(&c->enc, KY_EV_WAKE, ns);
	ky_trc_enc_varint(&c->enc, 0);
	ky_trc_enc_varint(&c->enc, task);
	ky_trc_enc_u8(&c->enc, (uint8_t)worker);
	ky_trc_enc_u8(&c->enc, origin);
	ky_trc_enc_u32(&c->enc, stack);
	ky_trc_enc_varint(&c->enc, 0);
}

/* The rows of one kind and one runtime. */
struct metrics {
	struct ky_tokio_sums sums;
	struct ky_metric_rows tasks, runtimes, lints;
};

static inline void metrics_make(struct metrics *metrics, struct read_case *c)
{
	case_open(c);
	assert_int_equal(ky_tokio_sums_make(&metrics->sums, c->trace), 0);
	assert_int_equal(ky_task_metrics(&metrics->tasks, c->trace, &metrics->sums), 0);
	assert_int_equal(ky_runtime_metrics(&metrics->runtimes, c->trace, &metrics->sums), 0);
	assert_int_equal(ky_console_lints(&metrics->lints, &metrics->sums), 0);
}

static inline void metrics_release(struct metrics *metrics, struct read_case *c)
{
	ky_metric_rows_release(&metrics->tasks);
	ky_metric_rows_release(&metrics->runtimes);
	ky_metric_rows_release(&metrics->lints);
	ky_tokio_sums_release(&metrics->sums);
	case_finish(c);
}

static inline const struct ky_metric_row *metric_of(const struct ky_metric_rows *rows,
						    const char *name)
{
	for (uint32_t i = 0; i < rows->count; i++)
		if (strcmp(rows->rows[i].name, name) == 0)
			return &rows->rows[i];
	fail_msg("no row %s", name);
	return NULL;
}

static inline void is_exactly(const struct ky_metric_rows *rows, const char *name, uint64_t value)
{
	const struct ky_metric_row *row = metric_of(rows, name);

	if (row->state != KY_METRIC_EXACT || row->value != value || row->value_max != value)
		fail_msg("%s is %s, %llu to %llu, not %llu", name, ky_metric_state(row->state),
			 (unsigned long long)row->value, (unsigned long long)row->value_max,
			 (unsigned long long)value);
}

static inline void is_between(const struct ky_metric_rows *rows, const char *name, uint64_t least,
			      uint64_t most)
{
	const struct ky_metric_row *row = metric_of(rows, name);

	if (row->state != KY_METRIC_BOUNDED || row->value != least || row->value_max != most)
		fail_msg("%s is %s, %llu to %llu, not %llu to %llu", name,
			 ky_metric_state(row->state), (unsigned long long)row->value,
			 (unsigned long long)row->value_max, (unsigned long long)least,
			 (unsigned long long)most);
	assert_non_null(row->why);
}

static inline void is_missing(const struct ky_metric_rows *rows, const char *name)
{
	const struct ky_metric_row *row = metric_of(rows, name);

	assert_int_equal(row->state, KY_METRIC_NOT_RECORDED);
	assert_non_null(row->why);
}

#endif
