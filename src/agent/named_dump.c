/* SPDX-License-Identifier: Apache-2.0 OR MIT */
#include <agent/named_dump.h>

#include <base/file_name.h>
#include <errno.h>
#include <ship/trace_file.h>
#include <stdio.h>
#include <string.h>
#include <symbol/debug_symbols.h>
#include <symbol/ring_names.h>

struct naming {
	const struct ky_open_ring *ring;
	struct ky_ring_names *names;
};

static int open_names(void *ctx)
{
	struct naming *naming = ctx;
	const struct ky_open_ring *ring = naming->ring;
	int err = ky_ring_names_open(&naming->names, ring->image, ring->image_bytes,
				     ky_debug_symbols_add);

	if (!err && ring->pid != 0)
		ky_ring_names_process(naming->names, ring->pid);
	return err;
}

int ky_dump_write_named(struct ky_dump_job *job, const struct ky_open_ring *ring)
{
	struct naming naming = {.ring = ring};
	int err = ky_ring_guarded(ring, open_names, &naming);

	job->is_file_trouble = false;
	if (!err) {
		job->guarded = ring;
		job->needs_records = true;
		job->cut.image = ring->image;
		job->cut.image_bytes = ring->image_bytes;
		job->cut.name = ky_ring_names_text;
		job->cut.name_ctx = naming.names;
		err = ky_dump_write(job);
	}
	ky_ring_names_close(naming.names);
	return err;
}

void ky_dump_name(char *out, size_t out_bytes, const char *directory, const char *service,
		  uint32_t pid, uint64_t unix_ns, const struct ky_compressor_factory *compressor)
{
	bool needs_slash = directory[0] != '\0' && directory[strlen(directory) - 1] != '/';
	char name[65], utc[KY_DUMP_UTC_BYTES];

	(void)snprintf(name, sizeof(name), "%.*s", (int)sizeof(name) - 1,
		       service[0] != '\0' ? service : "unnamed");
	ky_file_name_clean(name);
	ky_dump_utc(utc, unix_ns, false);
	(void)snprintf(out, out_bytes, "%s%s%s-%u-%s.trc%s", directory, needs_slash ? "/" : "",
		       name, pid, utc, compressor->suffix);
}

int ky_dump_choose_compressor(const char *path, bool has_compressor,
			      struct ky_compressor_factory *compressor)
{
	const char *suffix = ky_trace_file_suffix(path);

	if (suffix == NULL)
		return -EINVAL;
	if (has_compressor)
		return strcmp(suffix, compressor->suffix) == 0 ? 0 : -EINVAL;
	return ky_compressor_choose(compressor, ky_compressor_kind(suffix), 1);
}
