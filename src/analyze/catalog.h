/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* catalog.h - what events a trace holds, found in one pass over its bytes: shapes (name and
 * fields), annotations, counts, the start, the readings of the wall clock. Commands that print or
 * rewrite events take this pass first, because filters, CSV columns and annotations need the whole
 * trace.
 *
 * Memory:  bounded: at most KY_SHAPES_MAX shapes, 1 MiB of annotations a shape.
 * Threads: owner.
 */
#ifndef KY_ANALYZE_CATALOG_H
#define KY_ANALYZE_CATALOG_H

#include <analyze/json_keys.h>
#include <base/buf.h>
#include <base/byte_source.h>
#include <analyze/unsealed.h>
#include <read/processes.h>
#include <stdbool.h>
#include <wire/trc_dec.h>

#define KY_SHAPES_MAX 65536u
#define KY_ANNOTATION_BYTES_MAX (1u << 20)

struct ky_shape {
	uint64_t hash;
	uint64_t count;
	uint32_t next;  /* of the same hash chain; UINT32_MAX: none */
	uint32_t event; /* KY_EV_ */
	uint16_t field_count;
	bool has_timestamp;
	const char *name; /* NUL-terminated copy */
	size_t name_bytes;
	const char *body; /* per field: type byte, u16 length, name */
	size_t body_bytes;
	/* per entry: u16 field, u16 key length, key, u32 value length, value */
	struct ky_buf annotations;
	uint32_t annotation_count;
	/* Of the fields where two of one name would be the same key; count is 0 where not. */
	struct ky_json_keys keys;
};

#define KY_SHAPE_CHAINS 1024u
#define KY_SHAPE_CACHE 1024u

struct ky_shape_cache {
	uint32_t source, serial;
	uint32_t shape_plus_1; /* 0: empty */
};

struct ky_catalog {
	struct ky_shape *shapes;
	uint32_t count, capacity;
	uint32_t *chains;             /* KY_SHAPE_CHAINS */
	struct ky_shape_cache *cache; /* KY_SHAPE_CACHE */
	uint64_t event_count;
	uint64_t first_ns; /* of polls, parks and wakes; of any event when there are none */
	uint64_t last_ns;
	uint64_t any_first_ns, any_last_ns;
	bool has_run;
	struct ky_unsealed unsealed;
	struct ky_processes processes;                /* is_reported: text is a notice */
	uint64_t sync_monotonic_ns, sync_realtime_ns; /* first reading; 0 0: none */
};

int ky_catalog_init(struct ky_catalog *catalog); /* 0, -ENOMEM */
void ky_catalog_release(struct ky_catalog *catalog);

/* Reads all sources once (they need seek afterwards to be read again). Returns 0, -ENOMEM,
 * KYMO_E_LIMIT, or a source's error before its first byte. Damage is passed over: the pass that
 * prints says it. */
int ky_catalog_read(struct ky_catalog *catalog, struct ky_byte_source *sources, size_t count);

/* Shape of a schema met in source number `source`; KY_SHAPES_MAX when there is none. Adds nothing.
 */
uint32_t ky_catalog_find(struct ky_catalog *catalog, uint32_t source,
			 const struct ky_schema *schema);

/* Field of a shape: type byte and name; walks `at` (start at body) on. */
const char *ky_shape_field(const char *at, uint8_t *type, const char **name, size_t *name_bytes);
/* What to call a field of an event where no two may have one name. shape: NULL: its own name. */
const char *ky_shape_key(const struct ky_shape *shape, const struct ky_schema *schema,
			 uint16_t field, size_t *bytes);

#endif
