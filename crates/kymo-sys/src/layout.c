/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* The structs of src/lib.rs are these: the same numbers stand there. */
#include <kymo/dump.h>
#include <kymo/recorder.h>
#include <kymo/runtime.h>
#include <kymo/schema.h>
#include <kymo/source.h>
#include <kymo/span.h>
#include <stddef.h>

_Static_assert(sizeof(struct kymo_recorder_options) == 200 &&
		       offsetof(struct kymo_recorder_options, errbuf) == 96 &&
		       offsetof(struct kymo_recorder_options, age_min_ns) == 144 &&
		       offsetof(struct kymo_recorder_options, switches) == 192,
	       "struct kymo_recorder_options");
_Static_assert(sizeof(struct kymo_recorder_status) == 392 &&
		       offsetof(struct kymo_recorder_status, ring_path) == 68 &&
		       offsetof(struct kymo_recorder_status, wakeups) == 384,
	       "struct kymo_recorder_status");
_Static_assert(sizeof(struct kymo_dump_options) == 120 &&
		       offsetof(struct kymo_dump_options, done) == 104,
	       "struct kymo_dump_options");
_Static_assert(sizeof(struct kymo_dump_result) == 592 &&
		       offsetof(struct kymo_dump_result, path) == 80,
	       "struct kymo_dump_result");
_Static_assert(sizeof(struct kymo_custom_field) == 24 && KYMO_CUSTOM_WORDS_MAX == 120 &&
		       KYMO_CUSTOM_STRING_BYTES_MAX == 512,
	       "struct kymo_custom_field");
_Static_assert(sizeof(struct kymo_event_source) == 48, "struct kymo_event_source");
_Static_assert(sizeof(struct kymo_runtime_metrics) == 144 &&
		       offsetof(struct kymo_runtime_metrics, busy_ns) == 136,
	       "struct kymo_runtime_metrics");
_Static_assert(sizeof(struct kymo_span) == 24 && sizeof(struct kymo_key_value) == 16,
	       "struct kymo_span, struct kymo_key_value");
