/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* Names, strings, threads, runtimes, modules and metadata from the append-only area of the
 * ring file. Each entry is copied before it is looked at: the area is shared memory. */
#include <drain/drain_state.h>

#include <base/alloc.h>
#include <base/utf8.h>
#include <errno.h>
#include <kymo/base.h>
#include <kymo/recorder.h>
#include <stdio.h>
#include <string.h>

#define ENTRY_BYTES_MAX (64u << 10) /* no writer makes larger ones; larger ones are skipped */
#define MODULES_MAX 16384u

static char *copy_text(const uint8_t *bytes, size_t count)
{
	char *text = ky_alloc(count + 1);

	if (text && count)
		memcpy(text, bytes, count);
	return text;
}

/* Grows an array so that `index` fits. Ids count up from 1 in the writer, so one that is
 * larger than the entries the area can hold is a lie. Returns 0, -ENOMEM, KYMO_E_CORRUPT. */
static int grow(const struct ky_drain *drain, void **array, uint32_t *count, uint64_t index,
		size_t size)
{
	uint64_t limit = drain->ring.directory_bytes / sizeof(struct ky_entry) + 64;
	uint64_t wanted = *count ? *count : 64;
	void *grown;

	if (index < *count)
		return 0;
	if (index > limit)
		return KYMO_E_CORRUPT;
	while (wanted <= index)
		wanted *= 2;
	grown = ky_realloc(*array, wanted * size);
	if (!grown)
		return -ENOMEM;
	memset((uint8_t *)grown + *count * size, 0, (wanted - *count) * size);
	*array = grown;
	*count = (uint32_t)wanted;
	return 0;
}

static int read_string(struct ky_drain *drain, const struct ky_entry *entry, const uint8_t *payload)
{
	int err = grow(drain, (void **)&drain->strings, &drain->string_count, entry->id,
		       sizeof(*drain->strings));
	struct ky_string *string;

	if (err)
		return err;
	string = &drain->strings[entry->id];
	if (string->text)
		return 0;
	string->text = copy_text(payload, entry->payload_bytes);
	string->text_bytes = entry->payload_bytes;
	return string->text ? 0 : -ENOMEM;
}

static int read_name(struct ky_drain *drain, const struct ky_entry *entry, const uint8_t *payload)
{
	struct ky_name *name;
	int err;

	if (entry->payload_bytes < sizeof(struct ky_entry_name))
		return KYMO_E_CORRUPT;
	err = grow(drain, (void **)&drain->names, &drain->name_count, entry->id,
		   sizeof(*drain->names));
	if (err)
		return err;
	name = &drain->names[entry->id];
	if (name->is_defined)
		return 0;
	memcpy(&name->entry, payload, sizeof(name->entry));
	if (name->entry.text_bytes > entry->payload_bytes - sizeof(name->entry))
		return KYMO_E_CORRUPT;
	name->entry.copy &= 31u;
	name->text = copy_text(payload + sizeof(name->entry), name->entry.text_bytes);
	name->text_bytes = name->entry.text_bytes;
	if (!name->text)
		return -ENOMEM;
	name->is_defined = true;
	return 0;
}

static int read_thread(struct ky_drain *drain, const struct ky_entry *entry, const uint8_t *payload)
{
	struct ky_entry_thread about;
	struct ky_dthread *thread;
	size_t name_bytes = entry->payload_bytes - sizeof(about);

	if (entry->payload_bytes < sizeof(about))
		return KYMO_E_CORRUPT;
	memcpy(&about, payload, sizeof(about));
	thread = ky_drain_thread(drain, entry->id, about.tid);
	if (!thread)
		return drain->is_out_of_memory ? -ENOMEM : KYMO_E_LIMIT;
	if (name_bytes >= sizeof(thread->name))
		name_bytes = sizeof(thread->name) - 1;
	memcpy(thread->name, payload + sizeof(about), name_bytes);
	thread->name[name_bytes] = 0;
	thread->start_ticks = about.start_ticks;
	return 0;
}

static int read_exit(struct ky_drain *drain, const struct ky_entry *entry, const uint8_t *payload)
{
	struct ky_dthread *thread;

	if (entry->payload_bytes < 8)
		return KYMO_E_CORRUPT;
	thread = ky_drain_thread_find(drain, entry->id);
	if (!thread || thread->exit_step)
		return 0;
	memcpy(&thread->exit_ticks, payload, 8);
	/* Its last records may have come after this step had looked: they are read in the next
	 * one. */
	thread->exit_step = drain->step;
	return 0;
}

static int read_module(struct ky_drain *drain, const struct ky_entry *entry, const uint8_t *payload)
{
	struct ky_entry_module about;
	struct ky_module *modules, *module;
	size_t rest = entry->payload_bytes - sizeof(about);

	if (entry->payload_bytes < sizeof(about))
		return KYMO_E_CORRUPT;
	memcpy(&about, payload, sizeof(about));
	if (about.build_id_bytes > 32 || about.build_id_bytes > rest ||
	    about.path_bytes > rest - about.build_id_bytes || drain->module_count >= MODULES_MAX)
		return KYMO_E_CORRUPT;
	if (about.path_bytes > 4096)
		about.path_bytes = 4096;
	modules = ky_realloc(drain->modules, (drain->module_count + 1) * sizeof(*modules));
	if (!modules)
		return -ENOMEM;
	drain->modules = modules;
	module = &modules[drain->module_count];
	memset(module, 0, sizeof(*module));
	module->id = entry->id;
	module->entry = about;
	memcpy(module->build_id, payload + sizeof(about), about.build_id_bytes);
	module->path = copy_text(payload + sizeof(about) + about.build_id_bytes, about.path_bytes);
	if (!module->path)
		return -ENOMEM;
	drain->module_count++;
	return 0;
}

static int read_module_gone(struct ky_drain *drain, const struct ky_entry *entry,
			    const uint8_t *payload)
{
	if (entry->payload_bytes < 8)
		return KYMO_E_CORRUPT;
	for (uint32_t i = drain->module_count; i-- > 0;) {
		struct ky_module *module = &drain->modules[i];

		if (module->id != entry->id || module->gone_ticks)
			continue;
		memcpy(&module->gone_ticks, payload, 8);
		module->is_announced = false;
		break;
	}
	return 0;
}

static int read_runtime(struct ky_drain *drain, const struct ky_entry *entry,
			const uint8_t *payload)
{
	struct ky_entry_runtime about;
	struct ky_runtime *runtime;
	uint32_t index;
	char *name;

	if (entry->payload_bytes < sizeof(about))
		return KYMO_E_CORRUPT;
	memcpy(&about, payload, sizeof(about));
	index = ky_drain_runtime(drain, about.runtime);
	if (index == KY_NONE32)
		return 0;
	name = copy_text(payload + sizeof(about), entry->payload_bytes - sizeof(about));
	if (!name)
		return -ENOMEM;
	runtime = &drain->runtimes[index];
	ky_free(runtime->name);
	runtime->name = name;
	runtime->kind = about.kind <= KYMO_RUNTIME_LOCAL_SET ? about.kind : 0;
	runtime->copy = about.copy & 31u;
	runtime->is_described = true;
	runtime->is_announced = false;
	return 0;
}

int ky_drain_set_pair(struct ky_drain *drain, const char *key, size_t key_bytes, const char *value,
		      size_t value_bytes)
{
	char *key_copy, *value_copy;
	uint32_t i;

	if (!key_bytes || key_bytes > 255 || value_bytes > KY_STRING_BYTES_MAX)
		return KYMO_E_LIMIT;
	value_copy = copy_text((const uint8_t *)value, value_bytes);
	if (!value_copy)
		return -ENOMEM;
	for (i = 0; i < drain->pair_count; i++) {
		if (strlen(drain->pairs[i].key) == key_bytes &&
		    memcmp(drain->pairs[i].key, key, key_bytes) == 0) {
			ky_free(drain->pairs[i].value);
			drain->pairs[i].value = value_copy;
			return 0;
		}
	}
	key_copy = i < KY_METADATA_MAX ? copy_text((const uint8_t *)key, key_bytes) : NULL;
	if (!key_copy) {
		ky_free(value_copy);
		return i < KY_METADATA_MAX ? -ENOMEM : KYMO_E_LIMIT;
	}
	drain->pairs[i] = (struct ky_pair){key_copy, value_copy};
	drain->pair_count++;
	return 0;
}

static int read_metadata(struct ky_drain *drain, const struct ky_entry *entry,
			 const uint8_t *payload)
{
	uint32_t key_bytes;
	int err;

	if (entry->payload_bytes < 4)
		return KYMO_E_CORRUPT;
	memcpy(&key_bytes, payload, 4);
	if (key_bytes > entry->payload_bytes - 4)
		return KYMO_E_CORRUPT;
	err = ky_drain_set_pair(drain, (const char *)payload + 4, key_bytes,
				(const char *)payload + 4 + key_bytes,
				entry->payload_bytes - 4 - key_bytes);
	return err == -ENOMEM ? err : 0;
}

static int read_entry(struct ky_drain *drain, const struct ky_entry *entry, const uint8_t *payload)
{
	switch (entry->kind) {
	case KY_ENTRY_STRING:
		return read_string(drain, entry, payload);
	case KY_ENTRY_THREAD:
		return read_thread(drain, entry, payload);
	case KY_ENTRY_NAME:
		return read_name(drain, entry, payload);
	case KY_ENTRY_MODULE:
		return read_module(drain, entry, payload);
	case KY_ENTRY_MODULE_GONE:
		return read_module_gone(drain, entry, payload);
	case KY_ENTRY_RUNTIME:
		return read_runtime(drain, entry, payload);
	case KY_ENTRY_METADATA:
		return read_metadata(drain, entry, payload);
	case KY_ENTRY_THREAD_EXIT:
		return read_exit(drain, entry, payload);
	default:
		return 0; /* from a newer recorder */
	}
}

int ky_drain_read_directory(struct ky_drain *drain)
{
	const struct ky_ring_view *ring = &drain->ring;
	/* Pairs with the release store behind a finished entry. */
	uint64_t used = atomic_load_explicit(&ring->header->directory_used, memory_order_acquire);
	uint8_t *copy = (uint8_t *)drain->words;
	int err = 0;

	if (used > ring->directory_bytes)
		used = ring->directory_bytes;
	while (!drain->is_directory_corrupt &&
	       drain->directory_at + sizeof(struct ky_entry) <= used) {
		const uint8_t *at = ring->image + ring->directory_offset + drain->directory_at;
		uint64_t left = used - drain->directory_at - sizeof(struct ky_entry), padded;
		struct ky_entry entry;
		uint8_t *large = NULL;

		memcpy(&entry, at, sizeof(entry));
		padded = ((uint64_t)entry.payload_bytes + 7) & ~UINT64_C(7);
		if (padded > left) {
			drain->is_directory_corrupt = true;
			break;
		}
		drain->directory_at += sizeof(entry) + padded;
		if (entry.payload_bytes > ENTRY_BYTES_MAX)
			continue;
		if (entry.payload_bytes > sizeof(drain->words)) {
			copy = large = ky_alloc(entry.payload_bytes);
			if (!large)
				return -ENOMEM;
		}
		memcpy(copy, at + sizeof(entry), entry.payload_bytes);
		err = read_entry(drain, &entry, copy);
		ky_free(large);
		copy = (uint8_t *)drain->words;
		if (err == -ENOMEM)
			return err;
	}
	return 0;
}

void ky_drain_release_directory(struct ky_drain *drain)
{
	for (uint32_t i = 0; i < drain->name_count; i++)
		ky_free(drain->names[i].text);
	for (uint32_t i = 0; i < drain->string_count; i++)
		ky_free(drain->strings[i].text);
	for (uint32_t i = 0; i < drain->module_count; i++)
		ky_free(drain->modules[i].path);
	for (uint32_t i = 0; i < drain->pair_count; i++) {
		ky_free(drain->pairs[i].key);
		ky_free(drain->pairs[i].value);
	}
	ky_free(drain->names);
	ky_free(drain->strings);
	ky_free(drain->modules);
}

/* module+0xoffset of an address, by the newest mapping that has it. */
static size_t write_place(const struct ky_drain *drain, uint64_t address, char *out,
			  size_t capacity)
{
	for (uint32_t i = drain->module_count; i-- > 0;) {
		const struct ky_module *module = &drain->modules[i];
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

static void resolve(struct ky_drain *drain, struct ky_name *name)
{
	char out[KY_NAME_TEXT_MAX];
	size_t count = 0;
	char *text;

	name->is_resolved = true;
	if (drain->options.name)
		count = drain->options.name(drain->options.name_ctx, &name->entry, out,
					    sizeof(out) - 1);
	if (count > sizeof(out) - 1)
		count = sizeof(out) - 1;
	if (!count && !name->text_bytes && name->entry.code_address)
		count = write_place(drain, name->entry.code_address, out, sizeof(out));
	if (!count)
		return;
	text = copy_text((const uint8_t *)out, count);
	if (!text)
		return; /* the text of the directory stays */
	ky_free(name->text);
	name->text = text;
	name->text_bytes = (uint32_t)count;
}

uint32_t ky_drain_name_pool_first(struct ky_drain *drain, uint32_t id)
{
	struct ky_name *name;

	if (id >= drain->name_count || !drain->names[id].is_defined)
		return ky_trc_enc_string(&drain->enc, 0, "", 0);
	name = &drain->names[id];
	if (!name->is_resolved)
		resolve(drain, name);
	name->pool_id = ky_trc_enc_string(&drain->enc, 0, name->text, name->text_bytes);
	name->pool_serial = drain->chunk.serial;
	return name->pool_id;
}

const char *ky_drain_name_text(struct ky_drain *drain, uint32_t id)
{
	struct ky_name *name;

	if (id >= drain->name_count || !drain->names[id].is_defined)
		return "";
	name = &drain->names[id];
	if (!name->is_resolved)
		resolve(drain, name);
	return name->text ? name->text : "";
}

uint32_t ky_drain_string_pool(struct ky_drain *drain, uint64_t id)
{
	if (id >= drain->string_count || !drain->strings[id].text)
		return ky_trc_enc_string(&drain->enc, 0, "", 0);
	return ky_trc_enc_string(&drain->enc, 0, drain->strings[id].text,
				 drain->strings[id].text_bytes);
}

uint32_t ky_drain_text_pool(struct ky_drain *drain, const char *text)
{
	return ky_trc_enc_string(&drain->enc, 0, text ? text : "", text ? strlen(text) : 0);
}
