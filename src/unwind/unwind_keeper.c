/* SPDX-License-Identifier: Apache-2.0 OR MIT */
#include <base/gnu.h>

#include <base/alloc.h>
#include <base/hash.h>
#include <base/now.h>
#include <errno.h>
#include <kymo/base.h>
#include <proc/proc_map.h>
#include <string.h>
#include <unistd.h>
#include <unwind/unwind_keeper.h>
#include <unwind/unwind_maps.h>
#include <unwind/unwind_object.h>

#define FILES_MAX KY_UNWIND_MODULES_MAX
#define NO_ENTRY UINT16_MAX

/* What was built, and from what: a file that comes again has its tables already. */
struct keeper_file {
	uint64_t device, inode, bytes, modified_ns;
	uint64_t code_start; /* as linked: of the mapping it was built for */
	struct ky_unwind_built built;
};

struct known {
	struct ky_unwind_mapping mapping; /* without its path */
	uint16_t entry;                   /* NO_ENTRY: refused */
	uint32_t seen;
};

struct ky_unwind_keeper {
	struct ky_unwind_target target;
	struct ky_unwind_stats stats;
	uint64_t text_hash;
	uint32_t round;
	uint64_t used_bytes;
	bool is_behind;
	uint32_t index_round;
	struct known known[KY_UNWIND_MODULES_MAX];
	uint32_t known_count;
	uint32_t generations[KY_UNWIND_MODULES_MAX]; /* of the entries */
	bool is_taken[KY_UNWIND_MODULES_MAX];
	struct keeper_file files[FILES_MAX];
	uint32_t file_count;
	struct ky_unwind_object object;
	struct ky_unwind_builder builder;
};

/* ---- what readers see ---- */

static int write_word(struct ky_unwind_keeper *keeper, uint64_t offset, uint64_t value)
{
	return keeper->target.write(keeper->target.ctx, offset, &value, sizeof(value));
}

static int write_generation(struct ky_unwind_keeper *keeper, uint32_t entry, uint32_t generation)
{
	uint64_t offset = offsetof(struct ky_unwind_head, modules) +
			  entry * sizeof(struct ky_unwind_module);

	return keeper->target.write(keeper->target.ctx, offset, &generation, sizeof(generation));
}

static int write_module(struct ky_unwind_keeper *keeper, uint32_t entry,
			const struct ky_unwind_module *module)
{
	uint64_t offset = offsetof(struct ky_unwind_head, modules) + entry * sizeof(*module);
	size_t after = offsetof(struct ky_unwind_module, wide_count);
	int err = write_generation(keeper, entry, ++keeper->generations[entry]);

	if (!err)
		err = keeper->target.write(keeper->target.ctx, offset + after,
					   (const uint8_t *)module + after,
					   sizeof(*module) - after);
	if (!err)
		err = write_generation(keeper, entry, ++keeper->generations[entry]);
	return err;
}

/* The index of all that is mapped, in the place that is not in use, then the word that says so. The
 * order of the map is that of the addresses. */
static int publish(struct ky_unwind_keeper *keeper)
{
	uint16_t index[KY_UNWIND_MODULES_MAX];
	uint32_t count = 0, round = keeper->index_round + 1;
	int err;

	for (uint32_t i = 0; i < keeper->known_count; i++) {
		uint32_t at = count;

		if (keeper->known[i].entry == NO_ENTRY)
			continue;
		index[count++] = (uint16_t)i;
		for (; at > 0 &&
		       keeper->known[index[at - 1]].mapping.start > keeper->known[i].mapping.start;
		     at--) {
			index[at] = index[at - 1];
			index[at - 1] = (uint16_t)i;
		}
	}
	for (uint32_t i = 0; i < count; i++)
		index[i] = keeper->known[index[i]].entry;
	err = keeper->target.write(keeper->target.ctx,
				   offsetof(struct ky_unwind_head, index) +
					   (round & 1) * sizeof(index),
				   index, count * sizeof(index[0]));
	if (!err)
		err = write_word(keeper, offsetof(struct ky_unwind_head, index_word),
				 (uint64_t)round << 32 | count);
	keeper->index_round = round;
	keeper->stats.module_count = count;
	return err;
}

/* ---- files ---- */

static struct keeper_file *find_file(struct ky_unwind_keeper *keeper,
				     const struct keeper_file *wanted)
{
	for (uint32_t i = 0; i < keeper->file_count; i++) {
		struct keeper_file *file = &keeper->files[i];

		if (file->device == wanted->device && file->inode == wanted->inode &&
		    file->bytes == wanted->bytes && file->modified_ns == wanted->modified_ns &&
		    file->code_start == wanted->code_start)
			return file;
	}
	return NULL;
}

/* Of the code segment that is mapped there, all of it: its mapping may be cut into several. */
static void code_range(const struct ky_unwind_object *object, uint64_t linked, uint64_t *start,
		       uint64_t *end)
{
	*start = UINT64_MAX;
	*end = 0;
	for (uint32_t i = 0; i < object->segment_count; i++) {
		const struct ky_unwind_segment *segment = &object->segments[i];

		if (!segment->is_code || linked >= segment->address + segment->memory_bytes ||
		    linked + 4096 <= segment->address)
			continue;
		*start = segment->address;
		*end = segment->address + segment->memory_bytes;
		return;
	}
}

static struct keeper_file *build(struct ky_unwind_keeper *keeper, const struct keeper_file *wanted,
				 uint64_t code_end, int *err)
{
	struct keeper_file *file;
	uint64_t began_ns = ky_now_ns(CLOCK_THREAD_CPUTIME_ID);

	if (keeper->file_count == FILES_MAX) {
		*err = KYMO_E_LIMIT;
		return NULL;
	}
	file = &keeper->files[keeper->file_count];
	*file = *wanted;
	ky_cfi_reset(&keeper->builder.machine);
	*err = ky_unwind_build(&keeper->builder, &keeper->object.source, wanted->code_start,
			       code_end, keeper->used_bytes, keeper->target.area_bytes,
			       keeper->target.write, keeper->target.ctx, &file->built);
	keeper->stats.build_ns += ky_now_ns(CLOCK_THREAD_CPUTIME_ID) - began_ns;
	if (*err == 0)
		*err = write_word(keeper, offsetof(struct ky_unwind_head, used_bytes),
				  file->built.end_offset);
	if (*err)
		return NULL;
	keeper->used_bytes = keeper->stats.used_bytes = file->built.end_offset;
	keeper->stats.row_count += file->built.row_count;
	keeper->stats.function_count += file->built.function_count;
	keeper->stats.unknown_count += file->built.unknown_count;
	keeper->stats.file_count = ++keeper->file_count;
	return file;
}

/* Opens its bytes, by the file or by the memory. fd: for the file; -1: the memory. */
static int open_object(struct ky_unwind_keeper *keeper, const struct ky_unwind_mapping *mapping,
		       int *fd, uint64_t *bias)
{
	struct ky_unwind_object *object = &keeper->object;
	int err = KYMO_E_UNSUPPORTED;

	if (*fd >= 0)
		err = ky_unwind_object_init(object, ky_unwind_read_file, fd, false, 0);
	if (err && mapping->image)
		err = ky_unwind_object_init(object, ky_unwind_read_process, &keeper->target.pid,
					    true, mapping->image);
	if (!err && !ky_unwind_object_bias(object, mapping->start, mapping->offset, bias))
		err = KYMO_E_CORRUPT;
	return err;
}

static int take_entry(struct ky_unwind_keeper *keeper, uint16_t *out)
{
	for (uint32_t i = 0; i < KY_UNWIND_MODULES_MAX; i++) {
		if (keeper->is_taken[i])
			continue;
		keeper->is_taken[i] = true;
		*out = (uint16_t)i;
		return 0;
	}
	return KYMO_E_LIMIT;
}

static int add_module(struct ky_unwind_keeper *keeper, struct known *known,
		      const struct keeper_file *file, uint64_t bias)
{
	const struct ky_unwind_built *built = &file->built;
	struct ky_unwind_module module = {.wide_count = built->wide_count,
					  .start = known->mapping.start,
					  .end = known->mapping.end,
					  .base = bias + built->base,
					  .blocks_offset = built->blocks_offset,
					  .rows_offset = built->rows_offset,
					  .wide_offset = built->wide_offset,
					  .block_count = built->block_count,
					  .row_count = built->row_count};
	int err = take_entry(keeper, &known->entry);

	return err ? err : write_module(keeper, known->entry, &module);
}

static int take_in(struct ky_unwind_keeper *keeper, struct known *known)
{
	const struct ky_unwind_mapping *mapping = &known->mapping;
	struct keeper_file wanted = {.device = mapping->device, .inode = mapping->inode};
	int fd = ky_unwind_mapping_open(keeper->target.pid, mapping), err;
	struct keeper_file *file = NULL;
	uint64_t bias, code_end;

	err = open_object(keeper, mapping, &fd, &bias);
	if (!err) {
		ky_unwind_file_times(fd, &wanted.bytes, &wanted.modified_ns);
		/* From memory: nothing says that another mapping is the same. */
		if (keeper->object.is_memory)
			wanted.modified_ns = mapping->start;
		code_range(&keeper->object, mapping->start - bias, &wanted.code_start, &code_end);
		file = find_file(keeper, &wanted);
		if (!file)
			file = build(keeper, &wanted, code_end, &err);
	}
	if (file)
		err = add_module(keeper, known, file, bias);
	if (fd >= 0)
		close(fd);
	return err;
}

/* ---- what is mapped ---- */

static struct known *find_known(struct ky_unwind_keeper *keeper,
				const struct ky_unwind_mapping *mapping)
{
	for (uint32_t i = 0; i < keeper->known_count; i++) {
		const struct ky_unwind_mapping *other = &keeper->known[i].mapping;

		if (other->start == mapping->start && other->end == mapping->end &&
		    other->inode == mapping->inode && other->device == mapping->device &&
		    other->offset == mapping->offset)
			return &keeper->known[i];
	}
	return NULL;
}

static uint32_t drop_gone(struct ky_unwind_keeper *keeper)
{
	uint32_t kept = 0, gone;

	for (uint32_t i = 0; i < keeper->known_count; i++) {
		struct known *known = &keeper->known[i];

		if (known->seen == keeper->round) {
			keeper->known[kept++] = *known;
			continue;
		}
		if (known->entry != NO_ENTRY)
			keeper->is_taken[known->entry] = false;
		else
			keeper->stats.refused_count--;
	}
	gone = keeper->known_count - kept;
	keeper->known_count = kept;
	return gone;
}

/* Marks what is there still. Returns how many are new. */
static uint32_t mark(struct ky_unwind_keeper *keeper, const char *text)
{
	struct ky_unwind_maps maps = {.at = text};
	struct ky_unwind_mapping mapping;
	struct known *known;
	uint32_t count = 0;

	while (ky_unwind_maps_next(&maps, &mapping)) {
		known = find_known(keeper, &mapping);
		if (known)
			known->seen = keeper->round;
		count += !known;
	}
	return count;
}

/* The process may wait for these: its program, which the map begins with, and one more. */
static bool is_early(const struct ky_unwind_keeper *keeper, const char *text,
		     const struct ky_unwind_mapping *mapping)
{
	struct ky_unwind_maps maps = {.at = text};
	struct ky_unwind_mapping first;
	const char *name = keeper->target.early;
	size_t bytes = name ? strlen(name) : 0;

	if (ky_unwind_maps_next(&maps, &first) && first.inode == mapping->inode &&
	    first.device == mapping->device)
		return true;
	return bytes && mapping->path_bytes > bytes &&
	       mapping->path[mapping->path_bytes - bytes - 1] == '/' &&
	       memcmp(mapping->path + mapping->path_bytes - bytes, name, bytes) == 0;
}

static uint32_t add_new(struct ky_unwind_keeper *keeper, const char *text, bool are_early)
{
	struct ky_unwind_maps maps = {.at = text};
	struct ky_unwind_mapping mapping;
	uint32_t count = 0;

	while (keeper->known_count < KY_UNWIND_MODULES_MAX &&
	       ky_unwind_maps_next(&maps, &mapping)) {
		struct known *known = &keeper->known[keeper->known_count];
		int err;

		if (find_known(keeper, &mapping) ||
		    (are_early && !is_early(keeper, text, &mapping)))
			continue;
		*known = (struct known){mapping, NO_ENTRY, keeper->round};
		err = take_in(keeper, known);
		known->mapping.path = NULL;
		keeper->known_count++;
		count++;
		if (err && known->entry != NO_ENTRY) {
			keeper->is_taken[known->entry] = false;
			known->entry = NO_ENTRY;
		}
		if (err) {
			keeper->stats.last_error = err;
			keeper->stats.refused_count++;
			continue;
		}
		/* At once: the next one may take a while. */
		(void)publish(keeper);
	}
	return count;
}

/* Those that the process may wait for; where there were some, the others come with the next
 * reading. */
static uint32_t add_early(struct ky_unwind_keeper *keeper, const char *text)
{
	uint32_t added = keeper->target.early ? add_new(keeper, text, true) : 0;

	keeper->is_behind = added != 0;
	return added ? added : add_new(keeper, text, false);
}

bool ky_unwind_keeper_is_behind(const struct ky_unwind_keeper *keeper)
{
	return keeper->is_behind;
}

int ky_unwind_keeper_scan(struct ky_unwind_keeper *keeper)
{
	uint32_t added, gone;
	uint64_t hash;
	char *text;
	int err;

	text = ky_proc_maps_read(keeper->target.pid, &err);
	if (!text)
		return err;
	hash = ky_hash_bytes(0, text, strlen(text));
	if (hash == keeper->text_hash) {
		ky_free(text);
		return 0;
	}
	keeper->round++;
	added = mark(keeper, text);
	gone = drop_gone(keeper);
	/* What has gone first: other code may lie there by now. */
	if (gone)
		(void)publish(keeper);
	if (added)
		added = add_early(keeper, text);
	if (!keeper->is_behind)
		keeper->text_hash = hash;
	ky_free(text);
	return (int)(added + gone);
}

/* ---- life ---- */

int ky_unwind_keeper_open(struct ky_unwind_keeper **out, const struct ky_unwind_target *target)
{
	static const uint8_t zeros[4096];
	struct ky_unwind_keeper *keeper;
	int err = target->area_bytes < sizeof(struct ky_unwind_head) ? KYMO_E_LIMIT : 0;

	*out = NULL;
	for (uint64_t at = 0; at < sizeof(struct ky_unwind_head) && !err; at += sizeof(zeros)) {
		uint64_t left = sizeof(struct ky_unwind_head) - at;

		err = target->write(target->ctx, at, zeros,
				    left < sizeof(zeros) ? (size_t)left : sizeof(zeros));
	}
	if (err)
		return err;
	keeper = ky_alloc(sizeof(*keeper));
	if (!keeper)
		return -ENOMEM;
	keeper->target = *target;
	keeper->used_bytes = keeper->stats.used_bytes = sizeof(struct ky_unwind_head);
	err = write_word(keeper, offsetof(struct ky_unwind_head, used_bytes), keeper->used_bytes);
	if (err) {
		ky_free(keeper);
		return err;
	}
	*out = keeper;
	return 0;
}

void ky_unwind_keeper_close(struct ky_unwind_keeper *keeper)
{
	ky_free(keeper);
}

void ky_unwind_keeper_stats(const struct ky_unwind_keeper *keeper, struct ky_unwind_stats *out)
{
	*out = keeper->stats;
}
