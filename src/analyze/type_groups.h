/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* type_groups.h - the event types of a trace as people list them: one row a name whatever its
 * schemas, names that share a prefix before ':' (SpanEnter:...) together, the most frequent first.
 */
#ifndef KY_ANALYZE_TYPE_GROUPS_H
#define KY_ANALYZE_TYPE_GROUPS_H

#include <read/trace.h>

struct ky_type_row {
	const char *name;      /* of the trace */
	uint32_t prefix_bytes; /* before ':'; 0: no prefix */
	uint32_t schema_count;
	uint64_t count;
	uint64_t group_count; /* events of all names with this prefix */
	uint32_t group_names; /* names with this prefix */
};

struct ky_type_rows {
	struct ky_type_row *rows;
	uint32_t count;
};

int ky_type_rows_make(struct ky_type_rows *out, const struct ky_trace *trace); /* 0, -ENOMEM */
void ky_type_rows_release(struct ky_type_rows *rows);

#endif
