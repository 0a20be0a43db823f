/* SPDX-License-Identifier: Apache-2.0 OR MIT */
#include <record/emit/directory.h>

#include <base/alloc.h>
#include <base/hash.h>
#include <errno.h>
#include <string.h>

#define TABLE_MASK (KY_DIRECTORY_BUCKETS - 1)
#define PROBES_MAX 256u

_Static_assert((KY_DIRECTORY_BUCKETS & TABLE_MASK) == 0, "masked, not divided");
_Static_assert(KY_ENTRY_SCHEMA < 16, "ids[] has a place for every kind");

static size_t padded(size_t bytes)
{
	return (bytes + 7) & ~(size_t)7;
}

/* Bytes up to the character that would not fit whole. */
size_t ky_directory_kept(const char *text, size_t text_bytes)
{
	size_t cut = KY_STRING_BYTES_MAX;

	if (text_bytes <= KY_STRING_BYTES_MAX)
		return text_bytes;
	while (cut > KY_STRING_BYTES_MAX - 4 && ((uint8_t)text[cut] & 0xc0) == 0x80)
		cut--;
	return cut;
}

int ky_directory_init(struct ky_directory *directory, size_t capacity)
{
	memset(directory, 0, sizeof(*directory));
	directory->capacity = capacity;
	directory->bytes = ky_alloc(capacity);
	directory->table = ky_alloc(KY_DIRECTORY_BUCKETS * sizeof(*directory->table));
	if (directory->bytes && directory->table)
		return 0;
	ky_directory_release(directory);
	return -ENOMEM;
}

void ky_directory_release(struct ky_directory *directory)
{
	ky_free(directory->bytes);
	ky_free(directory->table);
	memset(directory, 0, sizeof(*directory));
}

static void count_overflow(struct ky_directory *directory, uint64_t count)
{
	if (directory->ring)
		atomic_fetch_add_explicit(&directory->ring->header->directory_overflow_count, count,
					  memory_order_relaxed);
	else
		directory->overflow_count += count;
}

/* Copies one finished entry after the last one of the file. */
static bool publish(struct ky_directory *directory, const uint8_t *entry, size_t bytes)
{
	struct ky_ring *ring = directory->ring;

	if (bytes > ring->directory_bytes - directory->file_used ||
	    !ky_ring_populate_directory(ring, directory->file_used + bytes)) {
		count_overflow(directory, 1);
		return false;
	}
	memcpy(ring->directory + directory->file_used, entry, bytes);
	directory->file_used += bytes;
	/* Pairs with the acquire of the directory's readers. */
	atomic_store_explicit(&ring->header->directory_used, directory->file_used,
			      memory_order_release);
	return true;
}

static size_t entry_bytes(const uint8_t *at)
{
	struct ky_entry entry;

	memcpy(&entry, at, sizeof(entry));
	return sizeof(entry) + padded(entry.payload_bytes);
}

void ky_directory_attach(struct ky_directory *directory, struct ky_ring *ring)
{
	directory->ring = ring;
	directory->file_used = 0;
	directory->thread_bytes = 0;
	count_overflow(directory, directory->overflow_count);
	for (size_t at = 0; at < directory->used; at += entry_bytes(directory->bytes + at))
		publish(directory, directory->bytes + at, entry_bytes(directory->bytes + at));
}

void ky_directory_detach(struct ky_directory *directory)
{
	directory->ring = NULL;
}

/* Writes the entry at `out` (large enough); the id is the item's, or the next of its kind. */
static size_t build(struct ky_directory *directory, const struct ky_directory_item *item,
		    uint8_t *out)
{
	size_t text_bytes = ky_directory_kept(item->text, item->text_bytes);
	struct ky_entry entry = {
		.kind = (uint16_t)item->kind,
		.flags = text_bytes < item->text_bytes,
		.payload_bytes = (uint32_t)(item->fixed_bytes + text_bytes),
		.id = item->id ? item->id : directory->ids[item->kind] + 1,
		.hash = ky_hash_bytes(KY_HASH_START, item->text, item->text_bytes),
	};

	memcpy(out, &entry, sizeof(entry));
	if (item->fixed_bytes)
		memcpy(out + sizeof(entry), item->fixed, item->fixed_bytes);
	if (text_bytes)
		memcpy(out + sizeof(entry) + item->fixed_bytes, item->text, text_bytes);
	memset(out + sizeof(entry) + entry.payload_bytes, 0,
	       padded(entry.payload_bytes) - entry.payload_bytes);
	return sizeof(entry) + padded(entry.payload_bytes);
}

static size_t bytes_needed(const struct ky_directory_item *item)
{
	return sizeof(struct ky_entry) +
	       padded(item->fixed_bytes + ky_directory_kept(item->text, item->text_bytes));
}

uint32_t ky_directory_append(struct ky_directory *directory, const struct ky_directory_item *item)
{
	uint8_t *at = directory->bytes + directory->used;
	struct ky_entry entry;
	size_t bytes;

	if (bytes_needed(item) > directory->capacity - directory->used) {
		count_overflow(directory, 1);
		return 0;
	}
	bytes = build(directory, item, at);
	memcpy(&entry, at, sizeof(entry));
	if (directory->ring && !publish(directory, at, bytes))
		return 0;
	directory->used += bytes;
	if (!item->id)
		directory->ids[item->kind] = entry.id;
	return entry.id;
}

static bool is_equal(const uint8_t *at, const struct ky_directory_item *item, uint64_t text_hash)
{
	size_t text_bytes = ky_directory_kept(item->text, item->text_bytes);
	struct ky_entry entry;

	memcpy(&entry, at, sizeof(entry));
	at += sizeof(entry);
	return entry.kind == (uint16_t)item->kind && entry.hash == text_hash &&
	       entry.payload_bytes == item->fixed_bytes + text_bytes &&
	       (entry.flags & 1u) == (text_bytes < item->text_bytes) &&
	       (!item->fixed_bytes || memcmp(at, item->fixed, item->fixed_bytes) == 0) &&
	       (!text_bytes || memcmp(at + item->fixed_bytes, item->text, text_bytes) == 0);
}

uint32_t ky_directory_intern(struct ky_directory *directory, const struct ky_directory_item *item)
{
	uint64_t text_hash = ky_hash_bytes(KY_HASH_START, item->text, item->text_bytes);
	uint64_t key = ky_hash_bytes(text_hash ^ (uint64_t)item->kind << 56, item->fixed,
				     item->fixed_bytes);
	struct ky_directory_cell *cell = NULL;
	struct ky_entry entry;
	size_t offset;
	uint32_t id;

	for (uint32_t i = 0; i < PROBES_MAX; i++) {
		cell = &directory->table[(key + i) & TABLE_MASK];
		if (!cell->offset)
			break;
		if (cell->hash != (uint32_t)(key >> 32) ||
		    !is_equal(directory->bytes + cell->offset - 1, item, text_hash))
			continue;
		memcpy(&entry, directory->bytes + cell->offset - 1, sizeof(entry));
		return entry.id;
	}
	offset = directory->used;
	/* a hopeless neighbourhood: refuse rather than search the whole table */
	if (cell->offset) {
		count_overflow(directory, 1);
		return 0;
	}
	id = ky_directory_append(directory, item);
	if (id) {
		cell->hash = (uint32_t)(key >> 32);
		cell->offset = (uint32_t)offset + 1;
	}
	return id;
}

bool ky_directory_thread(struct ky_directory *directory, const struct ky_directory_item *item)
{
	uint8_t bytes[sizeof(struct ky_entry) + 128];
	size_t count = bytes_needed(item);

	if (count > sizeof(bytes) || !directory->ring)
		return false;
	if (directory->thread_bytes + count > directory->ring->directory_bytes / 2) {
		count_overflow(directory, 1);
		return false;
	}
	build(directory, item, bytes);
	if (!publish(directory, bytes, count))
		return false;
	directory->thread_bytes += count;
	return true;
}
