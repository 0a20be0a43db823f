/* SPDX-License-Identifier: Apache-2.0 OR MIT */
#include <ring/ring_mark.h>

#include <base/utf8.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

static int refuse(char *why, const char *text)
{
	(void)snprintf(why, KY_FOUND_WHY_BYTES, "%s", text);
	return -EINVAL;
}

int ky_mark_check(const char *text, char *why)
{
	const uint8_t *at = (const uint8_t *)text;
	size_t bytes = strlen(text), length;

	if (bytes == 0)
		return refuse(why, "a mark needs a text");
	if (bytes > KY_MARK_TEXT_BYTES) {
		(void)snprintf(why, KY_FOUND_WHY_BYTES,
			       "the text has %zu bytes; a mark holds at most %u", bytes,
			       KY_MARK_TEXT_BYTES);
		return -EINVAL;
	}
	for (; bytes > 0; at += length, bytes -= length) {
		length = ky_utf8_sequence(at, bytes);
		if (length == 0) {
			(void)snprintf(why, KY_FOUND_WHY_BYTES,
				       "the text is not UTF-8 at byte %zu (0x%02x)",
				       (size_t)(at - (const uint8_t *)text), *at);
			return -EINVAL;
		}
		if (*at < 0x20 || *at == 0x7f)
			return refuse(why, "the text of a mark is one line without control "
					   "characters");
	}
	return 0;
}

void ky_mark_put(struct ky_ring_side *side, const char *text, uint64_t monotonic_ns)
{
	uint64_t number = atomic_fetch_add_explicit(&side->mark_claim_index, 1,
						    memory_order_relaxed);
	struct ky_ring_mark *mark = &side->marks[number % KY_MARKS];
	size_t bytes = strlen(text);

	atomic_store_explicit(&mark->serial, 0, memory_order_relaxed);
	/* A reader that sees one of the new bytes sees that the old serial is gone. */
	atomic_thread_fence(memory_order_release);
	mark->monotonic_ns = monotonic_ns;
	mark->text_bytes = (uint32_t)bytes;
	mark->pid = (uint32_t)getpid();
	memcpy(mark->text, text, bytes);
	memset(mark->text + bytes, 0, sizeof(mark->text) - bytes);
	atomic_store_explicit(&mark->serial, number + 1, memory_order_release);
}

static bool read_one(const struct ky_ring_mark *mark, uint64_t number, struct ky_mark *out)
{
	uint32_t bytes;

	if (atomic_load_explicit(&mark->serial, memory_order_acquire) != number + 1)
		return false;
	bytes = *(const volatile uint32_t *)&mark->text_bytes;
	if (bytes > KY_MARK_TEXT_BYTES)
		return false;
	out->number = number;
	out->monotonic_ns = *(const volatile uint64_t *)&mark->monotonic_ns;
	out->pid = *(const volatile uint32_t *)&mark->pid;
	memcpy(out->text, mark->text, bytes);
	out->text[bytes] = '\0';
	ky_utf8_clean((uint8_t *)out->text, bytes);
	atomic_thread_fence(memory_order_acquire);
	return atomic_load_explicit(&mark->serial, memory_order_relaxed) == number + 1;
}

uint32_t ky_mark_read(const struct ky_ring_side *side, struct ky_mark *out)
{
	uint64_t claim_index = atomic_load_explicit(&side->mark_claim_index, memory_order_acquire);
	uint64_t number = claim_index > KY_MARKS ? claim_index - KY_MARKS : 0;
	uint32_t count = 0;

	for (; number < claim_index; number++)
		count += read_one(&side->marks[number % KY_MARKS], number, &out[count]);
	return count;
}
