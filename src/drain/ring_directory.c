/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* Names, strings, threads, runtimes, modules and metadata from the append-only area of the
 * ring file. Each entry is copied before it is read: the area is shared memory. */
#include <drain/copy_stage.h>

#include <base/alloc.h>
#include <base/utf8.h>
#include <errno.h>
#include <kymo/base.h>
#include <kymo/recorder.h>
#include <stdio.h>
#include <string.h>
#include <wire/event_schema.h>

#define ENTRY_BYTES_MAX (64u << 10) /* no writer makes larger ones; larger ones are skipped */
#define MODULES_MAX 16384u

/* Grows an array so that `index` fits. Ids count up from 1 in the writer, so one that is
 * larger than the entries the area can hold is a lie. Returns 0, -ENOMEM, KYMO_E_CORRUPT. */
static int grow(const struct ky_copy *copy, void **array, uint32_t *count, uint64_t index,
		size_t size)
{
	uint64_t limit = copy->common->ring.directory_bytes / sizeof(struct ky_entry) + 64;

	if (index > limit)
		return KYMO_E_CORRUPT;
	return ky_grow(array, count, (uint32_t)index + 1, size);
}

static int read_string(struct ky_copy *copy, const struct ky_entry *entry, const uint8_t *payload)
{
	int err = grow(copy, (void **)&copy->common->names.strings,
		       &copy->common->names.string_count, entry->id,
		       sizeof(*copy->common->names.strings));
	struct ky_string *string;

	if (err)
		return err;
	string = &copy->common->names.strings[entry->id];
	if (string->text)
		return 0;
	string->text = ky_name_copy_text(payload, entry->payload_bytes);
	string->text_bytes = entry->payload_bytes;
	return string->text ? 0 : -ENOMEM;
}

static int read_name(struct ky_copy *copy, const struct ky_entry *entry, const uint8_t *payload)
{
	struct ky_name_entry *name;
	int err;

	if (entry->payload_bytes < sizeof(struct ky_entry_name))
		return KYMO_E_CORRUPT;
	err = grow(copy, (void **)&copy->common->names.list, &copy->common->names.count, entry->id,
		   sizeof(*copy->common->names.list));
	if (err)
		return err;
	name = &copy->common->names.list[entry->id];
	if (name->is_defined)
		return 0;
	memcpy(&name->entry, payload, sizeof(name->entry));
	if (name->entry.text_bytes > entry->payload_bytes - sizeof(name->entry))
		return KYMO_E_CORRUPT;
	name->entry.copy &= 31u;
	name->text = ky_name_copy_text(payload + sizeof(name->entry), name->entry.text_bytes);
	name->text_bytes = name->entry.text_bytes;
	if (!name->text)
		return -ENOMEM;
	name->is_defined = true;
	return 0;
}

static int read_thread(struct ky_copy *copy, const struct ky_entry *entry, const uint8_t *payload)
{
	struct ky_entry_thread about;
	struct ky_dthread *thread;
	size_t name_bytes = entry->payload_bytes - sizeof(about);
	int err;

	if (entry->payload_bytes < sizeof(about))
		return KYMO_E_CORRUPT;
	memcpy(&about, payload, sizeof(about));
	err = ky_thread_table_take(&copy->common->threads, entry->id, about.tid, &thread);
	if (err)
		return err;
	if (name_bytes >= sizeof(thread->name))
		name_bytes = sizeof(thread->name) - 1;
	memcpy(thread->name, payload + sizeof(about), name_bytes);
	thread->name[name_bytes] = 0;
	thread->start_ticks = about.start_ticks;
	return 0;
}

static int read_exit(struct ky_copy *copy, const struct ky_entry *entry, const uint8_t *payload)
{
	struct ky_dthread *thread;

	if (entry->payload_bytes < 8)
		return KYMO_E_CORRUPT;
	thread = ky_thread_table_find(&copy->common->threads, entry->id);
	if (!thread || thread->exit_step)
		return 0;
	memcpy(&thread->exit_ticks, payload, 8);
	/* Its last records may have come after this step's reading: they are read in the next
	 * one. */
	thread->exit_step = copy->common->step;
	return 0;
}

static int read_module(struct ky_copy *copy, const struct ky_entry *entry, const uint8_t *payload)
{
	struct ky_entry_module about;
	struct ky_name_module *module;
	size_t rest = entry->payload_bytes - sizeof(about);

	if (entry->payload_bytes < sizeof(about))
		return KYMO_E_CORRUPT;
	memcpy(&about, payload, sizeof(about));
	if (about.build_id_bytes > 32 || about.build_id_bytes > rest ||
	    about.path_bytes > rest - about.build_id_bytes ||
	    copy->common->modules.count >= MODULES_MAX)
		return KYMO_E_CORRUPT;
	if (about.path_bytes > 4096)
		about.path_bytes = 4096;
	module = ky_module_add(&copy->common->modules);
	if (!module)
		return -ENOMEM;
	module->id = entry->id;
	module->entry = about;
	memcpy(module->build_id, payload + sizeof(about), about.build_id_bytes);
	module->path = ky_name_copy_text(payload + sizeof(about) + about.build_id_bytes,
					 about.path_bytes);
	if (!module->path)
		return -ENOMEM;
	copy->common->modules.count++;
	return 0;
}

static int read_module_gone(struct ky_copy *copy, const struct ky_entry *entry,
			    const uint8_t *payload)
{
	if (entry->payload_bytes < 8)
		return KYMO_E_CORRUPT;
	for (uint32_t i = copy->common->modules.count; i-- > 0;) {
		struct ky_name_module *module = &copy->common->modules.list[i];

		if (module->id != entry->id || module->gone_ticks)
			continue;
		memcpy(&module->gone_ticks, payload, 8);
		module->is_announced = false;
		break;
	}
	return 0;
}

static int read_runtime(struct ky_copy *copy, const struct ky_entry *entry, const uint8_t *payload)
{
	struct ky_entry_runtime about;
	struct ky_runtime *runtime;
	uint32_t index;
	char *name;

	if (entry->payload_bytes < sizeof(about))
		return KYMO_E_CORRUPT;
	memcpy(&about, payload, sizeof(about));
	index = ky_runtime_take(&copy->common->runtimes, about.runtime);
	if (index == KY_NONE32)
		return 0;
	name = ky_name_copy_text(payload + sizeof(about), entry->payload_bytes - sizeof(about));
	if (!name)
		return -ENOMEM;
	runtime = &copy->common->runtimes.list[index];
	ky_free(runtime->name);
	runtime->name = name;
	runtime->kind = about.kind <= KYMO_RUNTIME_LOCAL_SET ? about.kind : 0;
	runtime->copy = about.copy & 31u;
	runtime->is_described = true;
	runtime->is_announced = false;
	return 0;
}

static int read_metadata(struct ky_copy *copy, const struct ky_entry *entry, const uint8_t *payload)
{
	uint32_t key_bytes;
	int err;

	if (entry->payload_bytes < 4)
		return KYMO_E_CORRUPT;
	memcpy(&key_bytes, payload, 4);
	if (key_bytes > entry->payload_bytes - 4)
		return KYMO_E_CORRUPT;
	err = ky_pair_set(&copy->common->pairs, (const char *)payload + 4, key_bytes,
			  (const char *)payload + 4 + key_bytes,
			  entry->payload_bytes - 4 - key_bytes);
	return err == -ENOMEM ? err : 0;
}

static int read_schema(struct ky_copy *copy, const struct ky_entry *entry, const uint8_t *payload)
{
	struct ky_name_table *names = &copy->common->names;
	struct ky_string *text;
	int err;

	if (entry->id >= KY_SCHEMAS_MAX || entry->payload_bytes > KY_SCHEMA_BYTES_MAX)
		return 0; /* events of it are counted as lost */
	err = grow(copy, (void **)&names->schemas, &names->schema_count, entry->id,
		   sizeof(*names->schemas));
	if (err)
		return err;
	text = &names->schemas[entry->id].text;
	if (text->text)
		return 0;
	text->text = ky_name_copy_text(payload, entry->payload_bytes);
	text->text_bytes = entry->payload_bytes;
	return text->text ? 0 : -ENOMEM;
}

static int read_entry(struct ky_copy *copy, const struct ky_entry *entry, const uint8_t *payload)
{
	switch (entry->kind) {
	case KY_ENTRY_STRING:
		return read_string(copy, entry, payload);
	case KY_ENTRY_THREAD:
		return read_thread(copy, entry, payload);
	case KY_ENTRY_NAME:
		return read_name(copy, entry, payload);
	case KY_ENTRY_MODULE:
		return read_module(copy, entry, payload);
	case KY_ENTRY_MODULE_GONE:
		return read_module_gone(copy, entry, payload);
	case KY_ENTRY_RUNTIME:
		return read_runtime(copy, entry, payload);
	case KY_ENTRY_METADATA:
		return read_metadata(copy, entry, payload);
	case KY_ENTRY_THREAD_EXIT:
		return read_exit(copy, entry, payload);
	case KY_ENTRY_SCHEMA:
		return read_schema(copy, entry, payload);
	default:
		return 0; /* from a newer recorder */
	}
}

int ky_copy_directory(struct ky_copy *copy)
{
	const struct ky_ring_view *ring = &copy->common->ring;
	/* Pairs with the release store after a finished entry. */
	uint64_t used = atomic_load_explicit(&ring->header->directory_used, memory_order_acquire);
	uint8_t *payload = (uint8_t *)copy->words;
	int err = 0;

	if (used > ring->directory_bytes)
		used = ring->directory_bytes;
	while (!copy->common->is_directory_corrupt &&
	       copy->common->directory_at + sizeof(struct ky_entry) <= used) {
		const uint8_t *at = ring->image + ring->directory_offset +
				    copy->common->directory_at;
		uint64_t left = used - copy->common->directory_at - sizeof(struct ky_entry), padded;
		struct ky_entry entry;
		uint8_t *large = NULL;

		memcpy(&entry, at, sizeof(entry));
		padded = ((uint64_t)entry.payload_bytes + 7) & ~UINT64_C(7);
		if (padded > left) {
			copy->common->is_directory_corrupt = true;
			break;
		}
		copy->common->directory_at += sizeof(entry) + padded;
		if (entry.payload_bytes > ENTRY_BYTES_MAX)
			continue;
		if (entry.payload_bytes > sizeof(copy->words)) {
			payload = large = ky_alloc(entry.payload_bytes);
			if (!large)
				return -ENOMEM;
		}
		memcpy(payload, at + sizeof(entry), entry.payload_bytes);
		err = read_entry(copy, &entry, payload);
		ky_free(large);
		payload = (uint8_t *)copy->words;
		if (err == -ENOMEM)
			return err;
	}
	return 0;
}
