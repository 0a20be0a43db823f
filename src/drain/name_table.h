/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* name_table.h - what the ring's directory said of names, strings and modules, as texts and as pool
 * ids of the open chunk; for src/drain.
 *
 * Threads:     owner.
 */
#ifndef KY_DRAIN_NAME_TABLE_H
#define KY_DRAIN_NAME_TABLE_H

#include <drain/drain.h>
#include <drain/open_chunk.h>

#define KY_METADATA_MAX 128u
#define KY_NAME_TEXT_MAX 2048u

struct ky_name_entry {
	struct ky_entry_name entry;
	char *text;
	uint32_t text_bytes;
	uint32_t pool_id; /* in the stream `pool_serial` */
	uint64_t pool_serial;
	bool is_defined;
	bool is_resolved;
};

struct ky_string {
	char *text;
	uint32_t text_bytes;
};

/* A type of event of the application (event_schema.h). */
struct ky_custom_schema {
	struct ky_string text;
	uint64_t chunk_serial; /* of the stream that has it */
};

struct ky_name_module {
	uint32_t id;
	struct ky_entry_module entry;
	uint8_t build_id[32];
	char *path;
	uint64_t gone_ticks; /* 0: still there */
	bool is_announced;
};

struct ky_metadata_pair {
	char *key;
	char *value;
};

struct ky_module_table {
	struct ky_name_module *list;
	uint32_t count;
};

struct ky_pair_list {
	struct ky_metadata_pair list[KY_METADATA_MAX];
	uint32_t count;
};

struct ky_name_table {
	struct ky_name_entry *list;
	uint32_t count;
	struct ky_string *strings;
	uint32_t string_count;
	struct ky_custom_schema *schemas;
	uint32_t schema_count;
	ky_name_fn name; /* NULL: texts of the directory only */
	void *name_ctx;
	const struct ky_module_table *modules;
};

/* NULL: no memory. */
char *ky_name_copy_text(const uint8_t *bytes, size_t count);

void ky_name_release(struct ky_name_table *names);
void ky_module_release(struct ky_module_table *modules);
/* A new entry of zeros at the end. NULL: no memory. */
struct ky_name_module *ky_module_add(struct ky_module_table *modules);

/* Returns 0, -ENOMEM, KYMO_E_LIMIT. */
int ky_pair_set(struct ky_pair_list *pairs, const char *key, size_t key_bytes, const char *value,
		size_t value_bytes);
void ky_pair_release(struct ky_pair_list *pairs);

/* Pool id of a name's text in the open chunk. */
uint32_t ky_name_pool_first(struct ky_name_table *names, struct ky_open_chunk *chunk, uint32_t id);
static inline uint32_t ky_name_pool(struct ky_name_table *names, struct ky_open_chunk *chunk,
				    uint32_t id)
{
	if (__builtin_expect(id < names->count && names->list[id].pool_serial == chunk->serial, 1))
		return names->list[id].pool_id;
	return ky_name_pool_first(names, chunk, id);
}
uint32_t ky_string_pool(const struct ky_name_table *names, struct ky_open_chunk *chunk,
			uint64_t id);
/* Text of a name, as far as it is known; never NULL. */
const char *ky_name_text(struct ky_name_table *names, uint32_t id);

#endif
