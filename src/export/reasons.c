/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* What the formats say of a time off CPU: why, and in which state. */
#include <analyze/share.h>
#include <analyze/stack_profile.h>
#include <base/alloc.h>
#include <errno.h>
#include <export/export.h>
#include <read/ascending.h>
#include <string.h>

/* Only a call's number says why; that of another reason is beside the point. */
static uint64_t reason_key(const struct ky_stack_row *row)
{
	return (uint64_t)row->reason << 32 |
	       (row->reason == KY_WAIT_CALL ? row->syscall : KY_NO_SYSCALL);
}

int ky_export_find_reasons(struct ky_export *export)
{
	const struct ky_samples *samples = &export->trace->samples;
	uint64_t *keys = ky_alloc((export->row_count + 1) * sizeof(*keys));
	uint32_t i, count = 0, kept = 0;

	export->reasons = keys;
	if (!keys)
		return -ENOMEM;
	for (i = 0; i < samples->row_count; i++)
		if (ky_export_has(export, &samples->rows[i]))
			keys[count++] = reason_key(&samples->rows[i]);
	ky_ascending_sort(keys, count);
	for (i = 0; i < count; i++)
		if (i == 0 || keys[i] != keys[kept - 1])
			keys[kept++] = keys[i];
	export->reason_count = kept;
	return 0;
}

static uint32_t find_reason(const struct ky_export *export, uint64_t key)
{
	uint32_t at = ky_ascending_below(export->reasons, export->reason_count, key);

	return at < export->reason_count && export->reasons[at] == key ? at : KY_NONE;
}

uint32_t ky_export_parts(const struct ky_export *export, const struct ky_stack_row *row,
			 struct ky_export_part *parts)
{
	uint64_t all = ky_export_value(export, row), values[KY_STATES] = {all};
	uint64_t samples = export->is_counted ? 1 : ky_whole(row->weight);
	uint32_t reason = KY_NONE, count = 0, largest = 0;

	if (row->kind == KY_STACK_OFF_CPU) {
		reason = find_reason(export, reason_key(row));
		values[KY_STATE_BLOCKED] = ky_whole(row->weight *
						    (double)(row->value - row->runnable_max_ns));
		if (values[KY_STATE_BLOCKED] > all)
			values[KY_STATE_BLOCKED] = all;
		values[KY_STATE_RUNNABLE] = ky_whole(row->weight * (double)row->runnable_min_ns);
		if (values[KY_STATE_RUNNABLE] > all - values[KY_STATE_BLOCKED])
			values[KY_STATE_RUNNABLE] = all - values[KY_STATE_BLOCKED];
		values[KY_STATE_EITHER] = all - values[KY_STATE_BLOCKED] -
					  values[KY_STATE_RUNNABLE];
	}
	for (uint32_t state = 0; state < KY_STATES; state++) {
		if (!values[state] && (all || state))
			continue;
		if (values[state] > parts[largest].value || !count)
			largest = count;
		parts[count++] = (struct ky_export_part){values[state], 0, reason, state};
	}
	parts[largest].count = samples;
	return count;
}

/* ---- as frames ---- */

/* After the code's functions: "(no stack)", the reasons, the states but the first. */
uint32_t ky_export_function_count(const struct ky_export *export)
{
	return export->code->function_count + 1 + export->reason_count +
	       (export->reason_count ? KY_STATES - 1 : 0);
}

uint32_t ky_export_reason_of(const struct ky_export *export, uint32_t function)
{
	uint32_t first = export->code->function_count + 1;

	return function >= first && function - first < export->reason_count ? function - first :
									      KY_NONE;
}

/* A thread that lost its CPU is ready to run: this needs no state of its own. */
static bool is_state_shown(const struct ky_export *export, const struct ky_export_part *part)
{
	return part->state != KY_STATE_EITHER &&
	       export->reasons[part->reason] >> 32 != KY_WAIT_PREEMPTED;
}

void ky_export_stack(struct ky_buf *functions, const struct ky_export *export, uint32_t stack,
		     const struct ky_export_part *part)
{
	uint32_t first = export->code->function_count, function;
	const struct ky_code_line *line;
	struct ky_code_walk walk;
	bool has_stack = false;

	ky_buf_clear(functions);
	if (part->reason != KY_NONE) {
		function = first + export->reason_count + part->state;
		if (is_state_shown(export, part))
			ky_buf_append(functions, &function, sizeof(function));
		function = first + 1 + part->reason;
		ky_buf_append(functions, &function, sizeof(function));
	}
	ky_code_walk_begin(&walk, export->code, stack);
	while ((line = ky_code_walk_next(&walk))) {
		ky_buf_append(functions, &line->function, sizeof(line->function));
		has_stack = true;
	}
	if (!has_stack)
		ky_buf_append(functions, &first, sizeof(first));
}

const char *ky_export_reason_name(char *cell, const struct ky_export *export, uint32_t reason,
				  uint8_t *kind)
{
	const char *machine = ky_trace_metadata(export->trace, "machine.architecture");
	uint32_t call = (uint32_t) export->reasons[reason];
	const char *name = NULL;

	*kind = (uint8_t)(export->reasons[reason] >> 32);
	if (export->syscall_name && call != KY_NO_SYSCALL)
		name = export->syscall_name(machine, call);
	return ky_off_cpu_why(cell, *kind, call, name);
}

const char *ky_export_state_name(uint32_t state)
{
	static const char *const names[KY_STATES] = {"blocked incl. run queue", "blocked",
						     "runnable"};

	return names[state < KY_STATES ? state : KY_STATE_EITHER];
}

const char *ky_export_function_name(char *cell, const struct ky_export *export, uint32_t function)
{
	uint32_t first = export->code->function_count;
	uint32_t reason = ky_export_reason_of(export, function);
	size_t bytes;
	uint8_t kind;

	if (function <= first) {
		memcpy(cell, "(no stack)", sizeof("(no stack)"));
		return cell;
	}
	if (reason != KY_NONE) {
		(void)ky_export_reason_name(cell + 1, export, reason, &kind);
	} else {
		const char *state = ky_export_state_name(function - first - export->reason_count);

		memcpy(cell + 1, state, strlen(state) + 1);
	}
	bytes = strlen(cell + 1);
	cell[0] = '[';
	memcpy(cell + 1 + bytes, "]", 2);
	return cell;
}
