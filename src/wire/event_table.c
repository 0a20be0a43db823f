/* SPDX-License-Identifier: Apache-2.0 OR MIT */
#include <wire/trc.h>

#include <string.h>

#define KYMO 0
#define DIAL9 1
#define R 0
#define W 1

/* events.def, three times: the fields of each event, then the table of events. */
#define KY_EVENT(id, name, origin, doc) static const struct ky_field_desc fields_##id[] = {
#define KY_FIELD(id, member, name, type, use, unit, kind, doc)                                     \
	{name, (uint8_t)KY_TYPE_##type, use, unit, kind, doc},
#define KY_EVENT_END(id)                                                                           \
	}                                                                                          \
	;
#include <wire/events.def>
#undef KY_EVENT
#undef KY_FIELD
#undef KY_EVENT_END

const struct ky_event_desc ky_event_table[KY_EV_COUNT] = {
#define KY_EVENT(id, name, origin, doc)                                                            \
	[KY_EV_##id] = {name, origin, KY_F_##id##_COUNT, fields_##id, doc},
#define KY_FIELD(id, member, name, type, use, unit, kind, doc)
#define KY_EVENT_END(id)
#include <wire/events.def>
#undef KY_EVENT
#undef KY_FIELD
#undef KY_EVENT_END
};

uint32_t ky_event_find(const char *name, size_t name_bytes)
{
	for (uint32_t i = 0; i < KY_EV_COUNT; i++) {
		const char *known = ky_event_table[i].name;

		if (strlen(known) == name_bytes && memcmp(known, name, name_bytes) == 0)
			return i;
	}
	return KY_EV_UNKNOWN;
}
