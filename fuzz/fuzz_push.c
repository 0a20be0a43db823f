/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* Bytes as what a receiver answers, as its address and headers, and as the trace's id in a field of
 * a span.
 * Promises: a text of an answer is printable ASCII and fits; a header has a name, ": ", and no
 *           control character; no sentence has a byte of a header's value; an id is not zeros. */
#include "fuzz_target.h"

#include <export/otlp_ids.h>
#include <send/push_answer.h>
#include <send/push_target.h>
#include <string.h>

static const char *given;

static const char *variable(const char *name)
{
	return strstr(name, "HEADERS") ? given : NULL;
}

static void check_answer(const uint8_t *bytes, size_t count)
{
	char out[24];

	FUZZ_CHECK(ky_push_answer_rejected(bytes, count) <= INT64_MAX);
	ky_push_answer_text(bytes, count, out, sizeof(out));
	FUZZ_CHECK(strlen(out) < sizeof(out) && strlen(out) <= count);
	for (const char *at = out; *at; at++)
		FUZZ_CHECK(*at >= ' ' && *at <= '~');
}

static void check_headers(const struct ky_push_place *place)
{
	FUZZ_CHECK(place->header_count <= KY_PUSH_HEADERS_MAX);
	for (uint32_t i = 0; i < place->header_count; i++) {
		const char *value = strstr(place->headers[i], ": ");

		FUZZ_CHECK(value && value > place->headers[i]);
		for (const char *at = place->headers[i]; *at; at++)
			FUZZ_CHECK((unsigned char)*at >= ' ' || *at == '\t');
	}
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t count)
{
	static const uint8_t none[KY_OTLP_TRACE_BYTES];
	char *text = malloc(count + 1), why[KY_PUSH_WHY_BYTES] = "";
	struct ky_push_target target;
	struct ky_otlp_id id;

	FUZZ_CHECK(text);
	if (count)
		memcpy(text, bytes, count);
	text[count] = 0;
	check_answer(bytes, count);
	given = NULL;
	if (ky_push_target_read(&target, false, text, variable, why) != 0)
		FUZZ_CHECK(why[0]);
	ky_push_target_release(&target);
	given = text;
	if (ky_push_target_read(&target, false, "http://h", variable, why) == 0)
		check_headers(&target.places[KY_PUSH_TRACES]);
	ky_push_target_release(&target);
	if (ky_otlp_id_parse(text, &id))
		FUZZ_CHECK(memcmp(id.trace, none, sizeof(none)) != 0);
	free(text);
	return 0;
}
