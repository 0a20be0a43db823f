/* SPDX-License-Identifier: Apache-2.0 OR MIT */
#include <base/alloc.h>
#include <errno.h>
#include <kymo/base.h>
#include <read/code_map.h>
#include <read/sort.h>
#include <string.h>

#define TEXT_BYTES_MAX 4096u

void ky_code_map_init(struct ky_code_map *map)
{
	memset(map, 0, sizeof(*map));
	ky_buf_init(&map->texts, 256u << 20);
}

void ky_code_map_release(struct ky_code_map *map)
{
	ky_free(map->modules);
	ky_buf_release(&map->texts);
	memset(map, 0, sizeof(*map));
}

static const struct ky_value *field(const struct ky_schema *schema, const struct ky_value *values,
				    uint32_t number)
{
	uint8_t slot = schema->slot_of[number];

	return slot == 0xff || !values[slot].is_present ? NULL : &values[slot];
}

static uint64_t number(const struct ky_schema *schema, const struct ky_value *values,
		       uint32_t known, uint64_t absent)
{
	const struct ky_value *value = field(schema, values, known);

	return value ? value->as.number : absent;
}

const char *ky_code_module_path(const struct ky_code_map *map, const struct ky_code_module *module)
{
	return (const char *)map->texts.bytes + module->path;
}

static bool is_same(const struct ky_code_map *map, const struct ky_code_module *a,
		    const struct ky_code_module *b, const struct ky_slice *path,
		    const struct ky_slice *build_id)
{
	return a->start == b->start && a->end == b->end && a->load_bias == b->load_bias &&
	       a->from_ns == b->from_ns && a->build_id_bytes == build_id->count &&
	       (build_id->count == 0 ||
		memcmp(map->texts.bytes + a->build_id, build_id->bytes, build_id->count) == 0) &&
	       strlen(ky_code_module_path(map, a)) == path->count &&
	       (path->count == 0 ||
		memcmp(ky_code_module_path(map, a), path->bytes, path->count) == 0);
}

static struct ky_slice text_of(const struct ky_value *value)
{
	struct ky_slice slice = {.bytes = (const uint8_t *)"", .count = 0};
	const void *nul;

	if (!value || (value->type == KY_TYPE_POOLED_STRING && !value->is_resolved))
		return slice;
	slice = value->text;
	if (slice.count > TEXT_BYTES_MAX)
		slice.count = TEXT_BYTES_MAX;
	nul = slice.count ? memchr(slice.bytes, 0, slice.count) : NULL;
	if (value->type != KY_TYPE_BYTES && nul)
		slice.count = (size_t)((const uint8_t *)nul - slice.bytes);
	return slice;
}

static int add(struct ky_code_map *map, struct ky_code_module *module, const struct ky_slice *path,
	       const struct ky_slice *build_id)
{
	int result = ky_grow(&map->modules, &map->capacity, map->count + 1, sizeof(*module));

	if (result)
		return result;
	module->number = map->count;
	module->path = (uint32_t)map->texts.used;
	module->build_id = (uint32_t)(map->texts.used + path->count + 1);
	module->build_id_bytes = (uint32_t)build_id->count;
	ky_buf_append(&map->texts, path->bytes, path->count);
	ky_buf_append(&map->texts, "", 1);
	ky_buf_append(&map->texts, build_id->bytes, build_id->count);
	if (map->texts.failed == KYMO_E_LIMIT) {
		map->texts.failed = 0;
		map->refused_count++;
		return 0;
	}
	map->modules[map->count++] = *module;
	map->is_sorted = false;
	return map->texts.failed;
}

int ky_code_map_add(struct ky_code_map *map, const struct ky_schema *schema,
		    const struct ky_value *values)
{
	struct ky_slice path = text_of(field(schema, values, KY_F_PROCESS_MAP_path));
	struct ky_slice build_id = text_of(field(schema, values, KY_F_PROCESS_MAP_build_id));
	struct ky_code_module module = {
		.start = number(schema, values, KY_F_PROCESS_MAP_start, 0),
		.end = number(schema, values, KY_F_PROCESS_MAP_end, 0),
		.load_bias = number(schema, values, KY_F_PROCESS_MAP_load_bias, 0),
		.file_offset = number(schema, values, KY_F_PROCESS_MAP_file_offset, 0),
		.from_ns = number(schema, values, KY_F_PROCESS_MAP_from_ns, 0),
		.to_ns = number(schema, values, KY_F_PROCESS_MAP_to_ns, UINT64_MAX),
	};

	if (module.start >= module.end || module.end > KY_CODE_KERNEL_START) {
		map->refused_count++;
		return 0;
	}
	for (uint32_t i = 0; i < map->count; i++) {
		if (!is_same(map, &map->modules[i], &module, &path, &build_id))
			continue;
		/* A later segment knows of its end. */
		if (module.to_ns < map->modules[i].to_ns)
			map->modules[i].to_ns = module.to_ns;
		return 0;
	}
	if (map->count == KY_CODE_MODULES_MAX) {
		map->refused_count++;
		return 0;
	}
	return add(map, &module, &path, &build_id);
}

static bool is_before(const void *a, const void *b, const void *ctx)
{
	const struct ky_code_module *x = a, *y = b;

	(void)ctx;
	if (x->start != y->start)
		return x->start < y->start;
	if (x->from_ns != y->from_ns)
		return x->from_ns < y->from_ns;
	return x->number < y->number;
}

static void sort(struct ky_code_map *map)
{
	uint64_t end_max = 0;

	ky_sort(map->modules, map->count, sizeof(*map->modules), is_before, NULL);
	for (uint32_t i = 0; i < map->count; i++) {
		if (map->modules[i].end > end_max)
			end_max = map->modules[i].end;
		map->modules[i].end_max = end_max;
	}
	map->is_sorted = true;
}

/* Of two that cover an address: the one that was there at the time; of several or none such, the
 * one that came last before it; else the first that came after. */
static bool is_better(const struct ky_code_module *a, const struct ky_code_module *b,
		      uint64_t time_ns)
{
	bool a_is_there = a->from_ns <= time_ns && time_ns < a->to_ns;
	bool b_is_there = b->from_ns <= time_ns && time_ns < b->to_ns;

	if (a_is_there != b_is_there)
		return a_is_there;
	/* Between two: the next one, since its arrival is noticed late. */
	if (!a_is_there && (a->from_ns > time_ns) != (b->from_ns > time_ns))
		return a->from_ns > time_ns;
	if (!a_is_there && a->from_ns > time_ns)
		return a->from_ns < b->from_ns;
	return a->from_ns > b->from_ns;
}

static const struct ky_code_module *find(struct ky_code_map *map, uint64_t address,
					 uint64_t time_ns, bool *is_shared)
{
	const struct ky_code_module *best = NULL;
	uint32_t low = 0, high = map->count;

	if (!map->is_sorted)
		sort(map);
	while (low < high) { /* the first that starts after the address */
		uint32_t middle = low + (high - low) / 2;

		if (map->modules[middle].start <= address)
			low = middle + 1;
		else
			high = middle;
	}
	while (low-- > 0 && map->modules[low].end_max > address) {
		const struct ky_code_module *module = &map->modules[low];

		if (address >= module->end)
			continue;
		*is_shared |= best != NULL;
		if (!best || is_better(module, best, time_ns))
			best = module;
	}
	return best;
}

const struct ky_code_module *ky_code_map_find(struct ky_code_map *map, uint64_t address,
					      uint64_t time_ns, struct ky_code_place *out,
					      bool *is_shared)
{
	const struct ky_code_module *module = NULL;
	bool shared = false;

	memset(out, 0, sizeof(*out));
	out->path = "";
	out->module = UINT32_MAX;
	out->address = address;
	out->kind = address >= KY_CODE_KERNEL_START ? KY_CODE_KERNEL : KY_CODE_UNMAPPED;
	if (out->kind == KY_CODE_UNMAPPED)
		module = find(map, address, time_ns ? time_ns : UINT64_MAX - 1, &shared);
	if (is_shared)
		*is_shared = shared;
	if (!module)
		return NULL;
	out->kind = KY_CODE_MODULE;
	out->module = module->number;
	out->path = ky_code_module_path(map, module);
	out->build_id = map->texts.bytes + module->build_id;
	out->build_id_bytes = module->build_id_bytes;
	out->address = address - module->load_bias;
	out->start = module->start;
	out->end = module->end;
	return module;
}
