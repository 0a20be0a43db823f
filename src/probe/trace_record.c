/* SPDX-License-Identifier: Apache-2.0 OR MIT */
#include <probe/trace_record.h>

#include <string.h>

#define WORDS_MIN 5u /* header, who, when, where, frames */
/* Marks in a call chain are the last 4,095 values. */
#define CHAIN_MARK ((uint64_t)-4095)
/* Bits of common_flags: a device's interrupt, or what it left to do. */
#define IN_INTERRUPT 0x18u
/* Of prev_state. No such bit: it would go on; a further one says that it was preempted. */
#define STATES 0xffu
#define STATE_ENDED 0x30u

bool ky_trace_record_read(struct ky_trace_record *out, const uint64_t *words)
{
	const struct perf_event_header *header = (const void *)words;
	uint64_t count, left = header->size / 8u;
	uint32_t raw_bytes;

	memset(out, 0, sizeof(*out));
	if (header->type != PERF_RECORD_SAMPLE || left < WORDS_MIN)
		return false;
	out->pid = (uint32_t)words[1];
	out->tid = (uint32_t)(words[1] >> 32);
	out->ns = words[2];
	count = words[4];
	left -= WORDS_MIN;
	if (count >= left) /* a word is behind them, at least */
		return false;
	out->raw = (const uint8_t *)(words + WORDS_MIN + count) + sizeof(raw_bytes);
	memcpy(&raw_bytes, words + WORDS_MIN + count, sizeof(raw_bytes));
	if (raw_bytes > (left - count) * 8 - sizeof(raw_bytes))
		return false;
	out->raw_bytes = raw_bytes;
	out->has_chain = count != 0;
	if (!count || words[WORDS_MIN] != (uint64_t)PERF_CONTEXT_KERNEL)
		return true;
	out->chain = words + WORDS_MIN + 1;
	while (out->chain_count < count - 1 && out->chain[out->chain_count] < CHAIN_MARK)
		out->chain_count++;
	return true;
}

static uint32_t word_at(const struct ky_trace_record *record, uint32_t offset)
{
	uint32_t word;

	memcpy(&word, record->raw + offset, sizeof(word));
	return word;
}

/* The tracepoint's number is the first thing in a record of it. */
static bool is_of(const struct ky_trace_record *record, uint32_t id, uint32_t bytes)
{
	uint16_t type;

	if (record->raw_bytes < bytes || record->raw_bytes < sizeof(type))
		return false;
	memcpy(&type, record->raw, sizeof(type));
	return type == id;
}

bool ky_trace_record_wake(const struct ky_trace_record *record, const struct ky_wake_format *format,
			  struct ky_perf_switch *out)
{
	if (!is_of(record, format->id, format->bytes))
		return false;
	memset(out, 0, sizeof(*out));
	out->kind = KY_SWITCH_WOKEN;
	out->ns = record->ns;
	out->tid = word_at(record, format->pid_at);
	/* Who was interrupted has nothing to do with it. */
	out->is_by_interrupt = record->raw[format->flags_at] & IN_INTERRUPT;
	out->by_pid = out->is_by_interrupt ? 0 : record->pid;
	out->by_tid = out->is_by_interrupt ? 0 : record->tid;
	return out->tid != 0;
}

bool ky_trace_record_switch(const struct ky_trace_record *record,
			    const struct ky_switch_format *format, struct ky_perf_switch *out,
			    uint32_t *next_tid)
{
	uint32_t state;

	if (!is_of(record, format->id, format->bytes))
		return false;
	memset(out, 0, sizeof(*out));
	state = word_at(record, format->state_at) & STATES;
	out->kind = state ? KY_SWITCH_OUT : KY_SWITCH_PREEMPTED;
	out->ns = record->ns;
	out->pid = record->pid;
	out->tid = state & STATE_ENDED ? 0 : word_at(record, format->prev_at);
	*next_tid = word_at(record, format->next_at);
	return true;
}
