/* SPDX-License-Identifier: Apache-2.0 OR MIT */
#include "../../lib/cmocka_all.h"

#include <string.h>
#include <wire/trc.h>

static void event_table__every_event_is_found_by_its_name(void **state)
{
	(void)state;
	for (uint32_t i = 0; i < KY_EV_COUNT; i++) {
		const char *name = ky_event_table[i].name;

		assert_int_equal(ky_event_find(name, strlen(name)), i);
		assert_int_equal(ky_event_find(name, strlen(name) - 1), KY_EV_UNKNOWN);
	}
	assert_int_equal(ky_event_find("", 0), KY_EV_UNKNOWN);
	assert_int_equal(ky_event_find("SpanEnter:x", 11), KY_EV_UNKNOWN);
}

static void event_table__is_complete_and_free_of_contradictions(void **state)
{
	(void)state;
	for (uint32_t i = 0; i < KY_EV_COUNT; i++) {
		const struct ky_event_desc *event = &ky_event_table[i];

		assert_true(event->field_count > 0 && event->field_count <= KY_TRC_FIELDS_MAX);
		assert_true(strlen(event->doc) > 0);
		for (uint32_t f = 0; f < event->field_count; f++) {
			const struct ky_field_desc *field = &event->fields[f];
			uint8_t type = field->type & 0x7f;

			assert_true(type >= KY_TYPE_I64 && type <= KY_TYPE_MAP);
			assert_true(strlen(field->doc) > 0);
			assert_true(!field->kind[0] || !strcmp(field->kind, "gauge") ||
				    !strcmp(field->kind, "counter"));
			assert_true(!field->unit[0] || !strcmp(field->unit, "ns") ||
				    !strcmp(field->unit, "bytes"));
			for (uint32_t other = 0; other < f; other++)
				assert_string_not_equal(event->fields[other].name, field->name);
		}
	}
}

static void event_table__peer_events_begin_with_the_peers_fields(void **state)
{
	const struct ky_event_desc *start = &ky_event_table[KY_EV_POLL_START];
	const struct ky_event_desc *wake = &ky_event_table[KY_EV_WAKE];

	(void)state;
	assert_int_equal(start->is_dial9, 1);
	assert_string_equal(start->fields[0].name, "worker_id");
	assert_string_equal(start->fields[1].name, "local_queue");
	assert_string_equal(start->fields[2].name, "task_id");
	assert_string_equal(start->fields[3].name, "spawn_loc");
	assert_string_equal(wake->name, "WakeEventEvent");
	assert_int_equal(wake->fields[KY_F_WAKE_target_worker].type, KY_TYPE_U8);
	assert_int_equal(ky_event_table[KY_EV_LOSS].is_dial9, 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(event_table__every_event_is_found_by_its_name),
		cmocka_unit_test(event_table__is_complete_and_free_of_contradictions),
		cmocka_unit_test(event_table__peer_events_begin_with_the_peers_fields),
	};

	return cmocka_run_group_tests_name("event_table", tests, NULL, NULL);
}
