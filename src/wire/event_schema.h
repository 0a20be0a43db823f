/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* event_schema.h - a type of event of the application, as the ring's directory has it.
 *
 * Layout:  the name, NUL; then for each field its type (one byte, enum ky_type), its name, NUL, its
 *          unit, NUL. Nothing else, so what does not end in a NUL is corrupt.
 * Threads: any.
 */
#ifndef KY_WIRE_EVENT_SCHEMA_H
#define KY_WIRE_EVENT_SCHEMA_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#define KY_SCHEMA_BYTES_MAX 8192u
#define KY_SCHEMA_NAME_BYTES_MAX 127u
#define KY_SCHEMA_UNIT_BYTES_MAX 31u
#define KY_SCHEMAS_MAX 4096u

/* In the place of a type's id: numbers of a runtime. What follows is the string of its name, and
 * the numbers of struct kymo_runtime_metrics in their order. */
#define KY_SCHEMA_RUNTIME_METRICS 0xffffffffu
#define KY_RUNTIME_METRICS_COUNT 16u

struct ky_event_field {
	const char *name, *unit;
	uint8_t type;
};

/* The text at *at, which moves after its NUL; NULL: there is none. */
static inline const char *ky_schema_text(const uint8_t **at, const uint8_t *end)
{
	const char *text = (const char *)*at;
	const uint8_t *nul = *at < end ? (const uint8_t *)memchr(*at, 0, (size_t)(end - *at)) :
					 NULL;

	if (!nul)
		return NULL;
	*at = nul + 1;
	return text;
}

/* The next field; false: there is none. What remains then, is corrupt. */
static inline bool ky_schema_field(const uint8_t **at, const uint8_t *end,
				   struct ky_event_field *out)
{
	const uint8_t *next = *at + 1;

	if (*at == end)
		return false;
	out->type = **at;
	out->name = ky_schema_text(&next, end);
	out->unit = out->name ? ky_schema_text(&next, end) : NULL;
	if (!out->unit)
		return false;
	*at = next;
	return true;
}

#endif
