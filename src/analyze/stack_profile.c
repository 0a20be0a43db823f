/* SPDX-License-Identifier: Apache-2.0 OR MIT */
#include <analyze/profile_cpu.h>
#include <base/alloc.h>
#include <errno.h>
#include <string.h>

bool ky_stack_profile_has(const struct ky_stack_profile *profile, const struct ky_stack_row *row)
{
	return row->time_ns >= profile->from_ns && row->time_ns < profile->to_ns;
}

bool ky_stack_profile_is_withheld(const struct ky_stack_profile *profile, enum ky_stack_kind kind)
{
	return profile->lost[kind] > profile->counts[kind];
}

static void count_rows(struct ky_stack_profile *profile, const struct ky_trace *trace)
{
	uint32_t i;

	profile->is_by_time = true;
	for (i = 0; i < trace->samples.row_count; i++) {
		const struct ky_stack_row *row = &trace->samples.rows[i];

		if (!ky_stack_profile_has(profile, row))
			continue;
		profile->counts[row->kind]++;
		if (row->kind == KY_STACK_CPU && !row->value)
			profile->is_by_time = false;
	}
	for (i = 0; i < KY_STACK_KINDS; i++)
		profile->lost[i] = trace->samples.lost[i];
}

static int fill(struct ky_stack_profile *profile, const struct ky_trace *trace,
		const struct ky_report *report, struct ky_symbol_table *symbols)
{
	int result = symbols ? 0 : ky_symbol_table_open(&profile->no_names, 0);

	if (result == 0)
		result = ky_code_stacks_make(&profile->code, trace,
					     symbols ? symbols : profile->no_names);
	if (result == 0)
		result = ky_stack_profile_cpu(profile, trace);
	if (result == 0)
		result = ky_stack_profile_waits(profile, trace);
	if (result == 0)
		ky_stack_profile_worst(profile, trace, report);
	return result;
}

int ky_stack_profile_make(struct ky_stack_profile **out, const struct ky_trace *trace,
			  const struct ky_report *report, struct ky_symbol_table *symbols,
			  const struct ky_stack_profile_options *options)
{
	struct ky_stack_profile *profile = ky_alloc(sizeof(*profile));
	int result;

	*out = NULL;
	if (!profile)
		return -ENOMEM;
	profile->from_ns = options ? options->from_ns : 0;
	profile->to_ns = options && options->to_ns ? options->to_ns : UINT64_MAX;
	profile->shutdown_ns = report ? report->shutdown_ns : 0;
	profile->long_poll_ns = options && options->long_poll_ns ? options->long_poll_ns :
								   KY_STACK_PROFILE_LONG_NS;
	count_rows(profile, trace);
	ky_cpu_cover_find(&profile->cover, trace, profile->from_ns, profile->to_ns);
	profile->unseen_count = ky_unseen_find(profile->unseen, trace);
	result = fill(profile, trace, report, symbols);
	if (result < 0) {
		ky_stack_profile_free(profile);
		return result;
	}
	*out = profile;
	return 0;
}

void ky_stack_profile_free(struct ky_stack_profile *profile)
{
	uint32_t i;

	if (!profile)
		return;
	for (i = 0; i < profile->kind_count; i++)
		ky_free(profile->kinds[i].functions);
	ky_free(profile->kinds);
	ky_free(profile->cpu.functions);
	ky_free(profile->long_polls.functions);
	ky_free(profile->waits);
	ky_free(profile->places);
	ky_free(profile->waiting_kinds);
	ky_free(profile->heap);
	ky_code_stacks_release(&profile->code);
	ky_symbol_table_close(profile->no_names);
	ky_free(profile);
}

const char *ky_off_cpu_reason(uint8_t reason)
{
	static const char *const texts[] = {"off CPU", "blocked in a system call", "futex",
					    "page fault", "preempted"};

	return texts[reason < sizeof(texts) / sizeof(texts[0]) ? reason : 0];
}

const char *ky_off_cpu_why(char *cell, uint8_t reason, uint32_t syscall, const char *call)
{
	static const char numbered[] = "system call ";
	char digits[12];
	const char *text = ky_off_cpu_reason(reason);
	size_t used, at = sizeof(digits);

	if (reason == KY_WAIT_CALL && syscall == KY_NO_SYSCALL)
		text = "a wait";
	else if (reason == KY_WAIT_CALL)
		text = call ? call : numbered;
	used = strlen(text);
	if (used > KY_OFF_CPU_WHY_BYTES - sizeof(digits))
		used = KY_OFF_CPU_WHY_BYTES - sizeof(digits);
	memcpy(cell, text, used);
	digits[--at] = '\0';
	for (uint32_t number = syscall; text == numbered && at; number /= 10) {
		digits[--at] = (char)('0' + number % 10);
		if (number < 10)
			break;
	}
	memcpy(cell + used, digits + at, sizeof(digits) - at);
	return cell;
}
