/* SPDX-License-Identifier: Apache-2.0 OR MIT */
#include "../../lib/cmocka_all.h"
#include "../../lib/prng.h"

#include <bucket/byte_spans.h>
#include <string.h>

#define BYTES 96u

/* Beside a row of flags, one a byte. */
static void spans__are_the_bytes_that_were_added(void **state)
{
	struct test_prng prng = {18};

	(void)state;
	for (uint32_t round = 0; round < 200; round++) {
		struct ky_byte_spans spans = {.all = NULL};
		bool is_there[BYTES] = {false};

		for (uint32_t step = 0; step < 40; step++) {
			uint64_t from = test_below(&prng, BYTES);
			uint64_t to = from + test_below(&prng, (uint32_t)(BYTES - from) + 1);
			struct ky_byte_span gap;
			uint64_t first = from, end, bytes = 0;

			while (first < to && is_there[first])
				first++;
			for (end = first; end < to && !is_there[end];)
				end++;
			assert_int_equal(ky_byte_spans_gap(&spans, from, to, &gap), first < to);
			if (first < to) {
				assert_int_equal(gap.from, first);
				assert_int_equal(gap.to, end);
			}
			if (step % 3 == 0) /* as who fetches does it */
				to = first < to ? end : to;
			assert_int_equal(ky_byte_spans_add(&spans, from, to), 0);
			memset(is_there + from, true, to - from);
			for (uint32_t i = 0; i < BYTES; i++)
				bytes += is_there[i];
			assert_int_equal(spans.bytes, bytes);
			for (uint32_t i = 1; i < spans.count; i++)
				assert_true(spans.all[i - 1].to < spans.all[i].from);
		}
		ky_byte_spans_release(&spans);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(spans__are_the_bytes_that_were_added),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
