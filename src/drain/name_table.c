/* SPDX-License-Identifier: Apache-2.0 OR MIT */
#include <drain/name_table.h>

#include <base/alloc.h>
#include <errno.h>
#include <kymo/base.h>
#include <stdio.h>
#include <string.h>

char *ky_name_copy_text(const uint8_t *bytes, size_t count)
{
	char *text = ky_alloc(count + 1);

	if (text && count)
		memcpy(text, bytes, count);
	return text;
}

void ky_name_release(struct ky_name_table *names)
{
	for (uint32_t i = 0; i < names->count; i++)
		ky_free(names->list[i].text);
	for (uint32_t i = 0; i < names->string_count; i++)
		ky_free(names->strings[i].text);
	for (uint32_t i = 0; i < names->schema_count; i++)
		ky_free(names->schemas[i].text.text);
	ky_free(names->schemas);
	ky_free(names->list);
	ky_free(names->strings);
}

/* ---- modules ---- */

struct ky_name_module *ky_module_add(struct ky_module_table *modules)
{
	struct ky_name_module *list = ky_realloc(modules->list,
						 (modules->count + 1) * sizeof(*list));

	if (!list)
		return NULL;
	modules->list = list;
	memset(&list[modules->count], 0, sizeof(*list));
	return &list[modules->count];
}

void ky_module_release(struct ky_module_table *modules)
{
	for (uint32_t i = 0; i < modules->count; i++)
		ky_free(modules->list[i].path);
	ky_free(modules->list);
}

/* ---- pairs of the metadata ---- */

int ky_pair_set(struct ky_pair_list *pairs, const char *key, size_t key_bytes, const char *value,
		size_t value_bytes)
{
	char *key_copy, *value_copy;
	uint32_t i;

	if (!key_bytes || key_bytes > 255 || value_bytes > KY_STRING_BYTES_MAX)
		return KYMO_E_LIMIT;
	value_copy = ky_name_copy_text((const uint8_t *)value, value_bytes);
	if (!value_copy)
		return -ENOMEM;
	for (i = 0; i < pairs->count; i++) {
		if (strlen(pairs->list[i].key) == key_bytes &&
		    memcmp(pairs->list[i].key, key, key_bytes) == 0) {
			ky_free(pairs->list[i].value);
			pairs->list[i].value = value_copy;
			return 0;
		}
	}
	key_copy = i < KY_METADATA_MAX ? ky_name_copy_text((const uint8_t *)key, key_bytes) : NULL;
	if (!key_copy) {
		ky_free(value_copy);
		return i < KY_METADATA_MAX ? -ENOMEM : KYMO_E_LIMIT;
	}
	pairs->list[i] = (struct ky_metadata_pair){key_copy, value_copy};
	pairs->count++;
	return 0;
}

void ky_pair_release(struct ky_pair_list *pairs)
{
	for (uint32_t i = 0; i < pairs->count; i++) {
		ky_free(pairs->list[i].key);
		ky_free(pairs->list[i].value);
	}
}

/* ---- texts ---- */

/* module+0xoffset of an address, by the newest mapping that has it. */
static size_t write_place(const struct ky_module_table *modules, uint64_t address, char *out,
			  size_t capacity)
{
	for (uint32_t i = modules->count; i-- > 0;) {
		const struct ky_name_module *module = &modules->list[i];
		const char *file = strrchr(module->path, '/');
		int count;

		if (address < module->entry.start || address >= module->entry.end)
			continue;
		count = snprintf(out, capacity, "%s+0x%llx", file ? file + 1 : module->path,
				 (unsigned long long)(address - module->entry.load_bias));
		return count > 0 ? ((size_t)count < capacity ? (size_t)count : capacity - 1) : 0;
	}
	return 0;
}

static void resolve(const struct ky_name_table *names, struct ky_name_entry *name)
{
	char out[KY_NAME_TEXT_MAX];
	size_t count = 0;
	char *text;

	name->is_resolved = true;
	if (names->name)
		count = names->name(names->name_ctx, &name->entry, out, sizeof(out) - 1);
	if (count > sizeof(out) - 1)
		count = sizeof(out) - 1;
	if (!count && !name->text_bytes && name->entry.code_address)
		count = write_place(names->modules, name->entry.code_address, out, sizeof(out));
	if (!count)
		return;
	text = ky_name_copy_text((const uint8_t *)out, count);
	if (!text)
		return; /* the text of the directory stays */
	ky_free(name->text);
	name->text = text;
	name->text_bytes = (uint32_t)count;
}

uint32_t ky_name_pool_first(struct ky_name_table *names, struct ky_open_chunk *chunk, uint32_t id)
{
	struct ky_name_entry *name;

	if (id >= names->count || !names->list[id].is_defined)
		return ky_trc_enc_string(&chunk->enc, 0, "", 0);
	name = &names->list[id];
	if (!name->is_resolved)
		resolve(names, name);
	name->pool_id = ky_trc_enc_string(&chunk->enc, 0, name->text, name->text_bytes);
	name->pool_serial = chunk->serial;
	return name->pool_id;
}

const char *ky_name_text(struct ky_name_table *names, uint32_t id)
{
	struct ky_name_entry *name;

	if (id >= names->count || !names->list[id].is_defined)
		return "";
	name = &names->list[id];
	if (!name->is_resolved)
		resolve(names, name);
	return name->text ? name->text : "";
}

uint32_t ky_string_pool(const struct ky_name_table *names, struct ky_open_chunk *chunk, uint64_t id)
{
	if (id >= names->string_count || !names->strings[id].text)
		return ky_trc_enc_string(&chunk->enc, 0, "", 0);
	return ky_trc_enc_string(&chunk->enc, 0, names->strings[id].text,
				 names->strings[id].text_bytes);
}
