/* SPDX-License-Identifier: Apache-2.0 OR MIT */
#include <probe/trace_record.h>

#include <string.h>

#define WORDS_MIN 4u /* header, who, when, where */
/* Bits of common_flags: a device's interrupt, or what it left to do. */
#define IN_INTERRUPT 0x18u

/* The tracepoint's own bytes. NULL: there are none. */
static const uint8_t *find_raw(const uint64_t *words, uint32_t *bytes)
{
	const struct perf_event_header *header = (const void *)words;
	uint64_t count = header->size / 8u;

	if (header->type != PERF_RECORD_SAMPLE || count <= WORDS_MIN)
		return NULL;
	memcpy(bytes, words + WORDS_MIN, sizeof(*bytes));
	if (*bytes > (count - WORDS_MIN) * 8 - sizeof(*bytes))
		return NULL;
	return (const uint8_t *)(words + WORDS_MIN) + sizeof(*bytes);
}

bool ky_trace_record_wake(const uint64_t *words, const struct ky_wake_format *format,
			  struct ky_perf_switch *out)
{
	uint32_t bytes = 0;
	const uint8_t *raw = find_raw(words, &bytes);
	uint16_t type;

	memset(out, 0, sizeof(*out));
	if (!raw || bytes < format->bytes || bytes < sizeof(type))
		return false;
	/* The tracepoint's number is the first thing in a record of it. */
	memcpy(&type, raw, sizeof(type));
	if (type != format->id)
		return false;
	out->kind = KY_SWITCH_WOKEN;
	out->ns = words[2];
	memcpy(&out->tid, raw + format->pid_at, sizeof(out->tid));
	/* Who was interrupted has nothing to do with it. */
	out->is_by_interrupt = raw[format->flags_at] & IN_INTERRUPT;
	out->by_pid = out->is_by_interrupt ? 0 : (uint32_t)words[1];
	out->by_tid = out->is_by_interrupt ? 0 : (uint32_t)(words[1] >> 32);
	return out->tid != 0;
}
