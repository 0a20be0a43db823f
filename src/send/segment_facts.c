/* SPDX-License-Identifier: Apache-2.0 OR MIT */
#include <send/segment_facts.h>

#include <base/alloc.h>
#include <base/hash.h>
#include <errno.h>
#include <ship/inflate.h>
#include <ship/retention.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <wire/chunk.h>
#include <wire/trc_dec.h>

#define FRAMES_MAX 4096u /* clock and metadata stand among the first of a segment */

static void take_pair(const struct ky_value *key, const struct ky_value *value, const char *wanted,
		      char *out, size_t out_bytes)
{
	size_t count = value->text.count < out_bytes - 1 ? value->text.count : out_bytes - 1;

	if (key->text.count != strlen(wanted) ||
	    memcmp(key->text.bytes, wanted, key->text.count) != 0)
		return;
	memcpy(out, value->text.bytes, count);
	out[count] = '\0';
}

static void take_pairs(struct ky_segment_facts *facts, struct ky_trc_dec *dec,
		       const struct ky_value *entries)
{
	struct ky_value key, value;
	struct ky_trc_walk walk;

	if (!entries)
		return;
	ky_trc_walk_begin(&walk, entries);
	while (ky_trc_walk_next(dec, &walk, &key, &value) > 0) {
		take_pair(&key, &value, "host", facts->host, sizeof(facts->host));
		take_pair(&key, &value, "boot_id", facts->boot_id, 9);
		take_pair(&key, &value, "process.start_time_ticks", facts->start_ticks,
			  sizeof(facts->start_ticks));
		take_pair(&key, &value, "service", facts->own_service, sizeof(facts->own_service));
		take_pair(&key, &value, "pid", facts->pid, sizeof(facts->pid));
	}
}

static bool take_frame(struct ky_segment_facts *facts, struct ky_trc_dec *dec,
		       const struct ky_frame *frame)
{
	if (frame->kind != KY_FRAME_EVENT)
		return false;
	if (frame->schema->event == KY_EV_CLOCK_SYNC && !facts->segment.start_unix_ns)
		facts->segment.start_unix_ns = ky_frame_number(frame, KY_F_CLOCK_SYNC_realtime_ns,
							       0);
	if (frame->schema->event == KY_EV_SEGMENT_METADATA)
		take_pairs(facts, dec, ky_frame_field(frame, KY_F_SEGMENT_METADATA_entries));
	return facts->segment.start_unix_ns && facts->host[0];
}

static void read_content(struct ky_segment_facts *facts, const uint8_t *bytes, size_t count)
{
	struct ky_trc_dec *dec = NULL;
	struct ky_frame frame;
	size_t at = 0;

	if (ky_trc_dec_open(&dec, NULL))
		return;
	for (uint32_t i = 0; i < FRAMES_MAX; i++) {
		int64_t used = ky_trc_dec_next(dec, bytes + at, count - at, &frame);

		if (used <= 0 || take_frame(facts, dec, &frame))
			break;
		at += (size_t)used;
	}
	ky_trc_dec_close(dec);
}

static void unpack_first(struct ky_segment_facts *facts, const char *path)
{
	uint8_t *bytes = ky_alloc(KY_CHUNK_BYTES_MAX);
	struct ky_byte_source source;
	size_t used = 0;
	int64_t got = 1;

	if (bytes && ky_inflate_open(&source, path, NULL, NULL, 0) == 0) {
		while (used < KY_CHUNK_BYTES_MAX && got > 0) {
			got = source.read(source.ctx, bytes + used, KY_CHUNK_BYTES_MAX - used);
			used += got > 0 ? (size_t)got : 0;
		}
		source.close(source.ctx);
		read_content(facts, bytes, used);
	}
	ky_free(bytes);
}

/* What a run's directory says of a stream, a dump says itself. */
static void take_dump(struct ky_segment_facts *facts, const struct ky_dump_name *name)
{
	struct kymo_segment *segment = &facts->segment;

	snprintf(facts->service, sizeof(facts->service), "%s", name->service);
	snprintf(facts->boot, sizeof(facts->boot), "%s-%u-%s",
		 facts->boot_id[0] ? facts->boot_id : "unknown", name->pid, facts->start_ticks);
	ky_dump_id_make(facts->dump_id, name, facts->boot);
	segment->number = ky_dump_name_number(name);
	segment->pid = name->pid;
}

/* Of a dump that has a name of its user's. */
static void name_dump(struct ky_dump_name *out, const struct ky_segment_facts *facts,
		      const char *name)
{
	*out = (struct ky_dump_name){
		.unix_ns = facts->segment.start_unix_ns / 1000000000u * 1000000000u,
		.pid = (uint32_t)strtoul(facts->pid, NULL, 10),
		.n = (uint32_t)ky_hash_bytes(KY_HASH_START, name, strlen(name))};
	snprintf(out->service, sizeof(out->service), "%s",
		 facts->own_service[0] ? facts->own_service : "unnamed");
}

int ky_segment_facts_read(struct ky_segment_facts *facts, const char *path, const char *service,
			  const char *run, const char *name, int fd)
{
	struct kymo_segment *segment = &facts->segment;
	const char *slash = strrchr(path, '/');
	struct ky_dump_name dump;
	struct stat about;
	bool is_active;

	*facts = (struct ky_segment_facts){.segment.size = sizeof(*segment)};
	if (fstat(fd, &about) != 0)
		return -errno;
	snprintf(facts->service, sizeof(facts->service), "%s", service);
	snprintf(facts->run, sizeof(facts->run), "%s", run);
	snprintf(facts->directory, sizeof(facts->directory), "%.*s",
		 slash ? (int)(slash - path) : 1, slash ? path : ".");
	snprintf(facts->name, sizeof(facts->name), "%s", name);
	snprintf(facts->boot, sizeof(facts->boot), "%s", ky_retention_run_process(facts->run));
	if (!ky_retention_is_segment_name(name, &segment->number, &is_active))
		segment->number = 0;
	segment->fd = fd;
	segment->path = path;
	segment->service = facts->service;
	segment->run = facts->run;
	segment->name = facts->name;
	segment->boot = facts->boot;
	segment->host = facts->host;
	segment->directory = facts->directory;
	segment->origin = "";
	segment->pid = strchr(facts->boot, '-') ?
			       (uint32_t)strtoul(strchr(facts->boot, '-') + 1, NULL, 10) :
			       0;
	segment->byte_count = (uint64_t)about.st_size;
	segment->end_unix_ns = (uint64_t)about.st_mtim.tv_sec * 1000000000u +
			       (uint64_t)about.st_mtim.tv_nsec;
	segment->dump_id = facts->dump_id;
	unpack_first(facts, path);
	if (!segment->start_unix_ns)
		segment->start_unix_ns = segment->end_unix_ns;
	if (ky_dump_name_parse(&dump, name)) {
		take_dump(facts, &dump);
	} else if (!service[0]) {
		name_dump(&dump, facts, name);
		take_dump(facts, &dump);
	}
	return 0;
}
