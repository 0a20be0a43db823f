/* SPDX-License-Identifier: Apache-2.0 OR MIT */
#include <base/gnu.h>

#include <probe/perf_record.h>

#include <string.h>

#define SWOLLEN_BYTES (4 * KY_PERF_SWITCH_BYTES)

#if defined(__x86_64__)
/* Numbers of asm/perf_regs.h. */
enum {
	REG_SECOND = 1, /* rbx */
	REG_FP = 6,
	REG_SP = 7,
	REG_PC = 8
};
#else
/* aarch64; elsewhere nothing is sampled, because the test of it fails. */
enum {
	REG_FP = 29,
	REG_SECOND = 30, /* the link register */
	REG_SP = 31,
	REG_PC = 32
};
#endif

uint64_t ky_perf_record_registers(void)
{
	return UINT64_C(1) << REG_PC | UINT64_C(1) << REG_SP | UINT64_C(1) << REG_FP |
	       UINT64_C(1) << REG_SECOND;
}

/* The words of a record, never beyond its end. */
struct record_words {
	const uint64_t *at, *end;
};

static uint64_t next_word(struct record_words *words)
{
	return words->at < words->end ? *words->at++ : 0;
}

static const uint64_t *take_words(struct record_words *words, uint64_t count)
{
	const uint64_t *at = words->at;

	if (count > (uint64_t)(words->end - words->at)) {
		words->at = words->end; /* nor is there anything after them */
		return NULL;
	}
	words->at += count;
	return at;
}

/* The kernel's frames after the mark that says what follows. */
static void read_chain(struct record_words *words, struct ky_perf_sample *out)
{
	uint64_t count = next_word(words);
	const uint64_t *chain = take_words(words, count);

	if (!chain)
		return;
	/* Marks are the last 4,095 values: PERF_CONTEXT_KERNEL. */
	if (count && chain[0] >= (uint64_t)-4095) {
		chain++;
		count--;
	}
	out->kernel = chain;
	out->kernel_count = (uint32_t)count;
}

static void read_registers(struct record_words *words, struct ky_perf_sample *out)
{
	const uint64_t *value;

	if (next_word(words) == PERF_SAMPLE_REGS_ABI_NONE)
		return;
	value = take_words(words, 4);
	if (!value)
		return;
	out->has_registers = true;
	/* In the order of their numbers. */
#if defined(__x86_64__)
	out->second = value[0];
	out->fp = value[1];
	out->sp = value[2];
#else
	out->fp = value[0];
	out->second = value[1];
	out->sp = value[2];
#endif
	out->pc = value[3];
}

static void read_stack(struct record_words *words, struct ky_perf_sample *out)
{
	uint64_t bytes = next_word(words), filled;
	const uint64_t *stack = take_words(words, bytes / 8);

	if (!bytes || !stack)
		return;
	filled = next_word(words);
	out->stack = (const uint8_t *)stack;
	out->stack_bytes = (uint32_t)(filled < bytes ? filled : bytes);
}

void ky_perf_record_sample(const struct perf_event_header *record, struct ky_perf_sample *out)
{
	const uint64_t *at = (const void *)record;
	struct record_words words = {at + 1, at + record->size / 8};
	uint64_t word;

	memset(out, 0, sizeof(*out));
	word = next_word(&words);
	out->pid = (uint32_t)word;
	out->tid = (uint32_t)(word >> 32);
	out->ns = next_word(&words);
	out->cpu = (uint32_t)next_word(&words);
	out->period_ns = next_word(&words);
	read_chain(&words, out);
	read_registers(&words, out);
	read_stack(&words, out);
}

bool ky_perf_record_switch(const struct perf_event_header *record, struct ky_perf_switch *out)
{
	const uint64_t *words = (const void *)record;

	if (record->size < KY_PERF_SWITCH_BYTES)
		return false;
	memset(out, 0, sizeof(*out));
	out->pid = (uint32_t)words[1];
	out->tid = (uint32_t)(words[1] >> 32);
	out->ns = words[2];
	out->is_swollen = record->size > SWOLLEN_BYTES;
	if (record->type == PERF_RECORD_SAMPLE)
		out->kind = KY_SWITCH_FAULT;
	else if (!(record->misc & PERF_RECORD_MISC_SWITCH_OUT))
		out->kind = KY_SWITCH_IN;
	else if (record->misc & PERF_RECORD_MISC_SWITCH_OUT_PREEMPT)
		out->kind = KY_SWITCH_PREEMPTED;
	else
		out->kind = KY_SWITCH_OUT;
	return record->type == PERF_RECORD_SAMPLE || record->type == PERF_RECORD_SWITCH;
}
