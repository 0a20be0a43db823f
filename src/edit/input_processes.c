/* SPDX-License-Identifier: Apache-2.0 OR MIT */
#include <edit/input_processes.h>

#include <base/alloc.h>
#include <base/out_text.h>
#include <errno.h>
#include <inttypes.h>
#include <kymo/base.h>
#include <read/frame_reader.h>
#include <stdio.h>
#include <string.h>

#define CLOCKED_FRAMES 64u /* after a reading of the clock, which comes before the name */
#define BEGINNING_BYTES (UINT64_C(1) << 20) /* names the process in its first frames */
#define LISTED_MAX 10u
#define BOOT_SHOWN_BYTES 8u
/* As in read/processes.c: wall clocks are set by seconds; boots differ by more. */
#define CLOCKS_DIFFER_NS UINT64_C(60000000000)

static int ignore_notice(void *ctx, uint64_t offset, int code, const char *text)
{
	(void)ctx;
	(void)offset;
	(void)code;
	(void)text;
	return 0;
}

static void read_text(char *out, const struct ky_value *value)
{
	size_t bytes = value->text.count;

	if (bytes > KY_INPUT_SERVICE_BYTES - 1)
		bytes = KY_INPUT_SERVICE_BYTES - 1;
	memset(out, 0, KY_INPUT_SERVICE_BYTES);
	if (bytes)
		memcpy(out, value->text.bytes, bytes);
}

static bool is_key(const struct ky_value *key, const char *name)
{
	return key->text.count == strlen(name) && memcmp(key->text.bytes, name, strlen(name)) == 0;
}

static void read_names(struct ky_input_process *out, struct ky_trc_dec *dec,
		       const struct ky_frame *frame)
{
	const struct ky_value *entries = ky_frame_field(frame, KY_F_SEGMENT_METADATA_entries);
	struct ky_value key, value;
	struct ky_trc_walk walk;

	if (!entries || entries->type != KY_TYPE_STRING_MAP)
		return;
	ky_trc_walk_begin(&walk, entries);
	while (ky_trc_walk_next(dec, &walk, &key, &value) == 1) {
		if (is_key(&key, "service"))
			read_text(out->service, &value);
		else if (is_key(&key, "host"))
			read_text(out->host, &value);
	}
}

static void read_frame(struct ky_input_process *out, struct ky_trc_dec *dec,
		       const struct ky_frame *frame)
{
	const struct ky_value *realtime;

	if (frame->kind != KY_FRAME_EVENT)
		return;
	if (frame->schema->event == KY_EV_SEGMENT_METADATA) {
		(void)ky_process_key_read(&out->key, dec, frame);
		read_names(out, dec, frame);
	}
	realtime = frame->schema->event == KY_EV_CLOCK_SYNC && frame->schema->has_timestamp ?
			   ky_frame_field(frame, KY_F_CLOCK_SYNC_realtime_ns) :
			   NULL;
	if (realtime) {
		out->clock_offset_ns = realtime->as.number - frame->timestamp_ns;
		out->is_clocked = true;
	}
}

/* Trouble with a source is for its reader to report. Returns 0 or -ENOMEM. */
static int read_beginning(struct ky_input_process *out, struct ky_byte_source *source)
{
	struct ky_frame_reader reader;
	struct ky_hot_event hot[32];
	struct ky_frame frame;
	uint32_t clocked = 0;
	int result;

	memset(out, 0, sizeof(*out));
	if (!source->seek)
		return 0;
	result = ky_frame_reader_init(&reader, source, NULL, BEGINNING_BYTES, ignore_notice, NULL);
	if (result < 0)
		return result == -ENOMEM ? result : 0;
	do {
		while (ky_frame_reader_hot(&reader, hot, 32) > 0)
			;
		result = ky_frame_reader_next(&reader, &frame);
		if (result == 1)
			read_frame(out, reader.dec, &frame);
		clocked += out->is_clocked;
	} while (result == 1 && !out->key.pid[0] && clocked < CLOCKED_FRAMES);
	ky_frame_reader_release(&reader);
	(void)source->seek(source->ctx, 0);
	return result == -ENOMEM ? result : 0;
}

static bool is_same(const struct ky_input_process *a, const struct ky_input_process *b)
{
	uint64_t apart_ns = a->clock_offset_ns - b->clock_offset_ns;

	if (a->key.pid[0] || b->key.pid[0])
		return memcmp(&a->key, &b->key, sizeof(a->key)) == 0;
	if (apart_ns > UINT64_MAX / 2)
		apart_ns = 0 - apart_ns;
	return !a->is_clocked || !b->is_clocked || apart_ns < CLOCKS_DIFFER_NS;
}

struct grouping {
	struct ky_input_process *processes;
	size_t *of; /* by source: its process */
	size_t count, named;
};

static void add(struct grouping *grouping, size_t source, const struct ky_input_process *file)
{
	size_t at = 0;

	while (at < grouping->count && !is_same(&grouping->processes[at], file))
		at++;
	if (at == grouping->count) {
		grouping->processes[grouping->count++] = *file;
		grouping->named += file->key.pid[0] != '\0';
	}
	if (!grouping->processes[at].is_clocked && file->is_clocked) {
		grouping->processes[at].clock_offset_ns = file->clock_offset_ns;
		grouping->processes[at].is_clocked = true;
	}
	grouping->of[source] = at;
}

/* Where one process alone is named, files without a name are of it as far as anyone knows. */
static void join_unnamed(struct grouping *grouping, size_t sources)
{
	size_t named = 0;

	if (grouping->named != 1)
		return;
	while (!grouping->processes[named].key.pid[0])
		named++;
	grouping->processes[0] = grouping->processes[named];
	for (size_t i = 0; i < sources; i++)
		grouping->of[i] = 0;
	grouping->count = 1;
}

/* The sources of a process stand together, in the order in which they stood. */
static int order(struct ky_input *input, struct grouping *grouping)
{
	struct ky_byte_source *ordered = ky_alloc(input->opened_count * sizeof(*ordered));
	size_t used = 0;

	if (!ordered)
		return -ENOMEM;
	for (size_t i = 0; i < grouping->count; i++) {
		grouping->processes[i].first = used;
		for (size_t j = 0; j < input->opened_count; j++)
			if (grouping->of[j] == i)
				ordered[used++] = input->opened[j];
		grouping->processes[i].count = used - grouping->processes[i].first;
	}
	memcpy(input->opened, ordered, used * sizeof(*ordered));
	ky_free(ordered);
	ky_input_restart(input);
	return 0;
}

static int group(struct ky_input *input, struct grouping *grouping)
{
	int result = 0;

	for (size_t i = 0; i < input->opened_count && !result; i++) {
		struct ky_input_process file;

		result = read_beginning(&file, &input->opened[i]);
		if (!result)
			add(grouping, i, &file);
	}
	if (result)
		return result;
	join_unnamed(grouping, input->opened_count);
	return order(input, grouping);
}

/* Names are cut where they are kept. */
static bool has_name(const char *name, const char *wanted)
{
	return !wanted || strncmp(name, wanted, KY_INPUT_SERVICE_BYTES - 1) == 0;
}

static bool is_chosen(const struct ky_input *input, size_t process)
{
	const struct ky_input_process *one = &input->processes[process];
	char pid[24];

	(void)snprintf(pid, sizeof(pid), "%" PRIu64, input->pid);
	return (!input->has_pid || strcmp(one->key.pid, pid) == 0) &&
	       has_name(one->service, input->service) && has_name(one->host, input->host);
}

static bool has_choice(const struct ky_input *input)
{
	return input->has_pid || input->service || input->host;
}

static int fail_choice(struct ky_input *input)
{
	struct ky_buf list, wanted;
	int result;

	ky_buf_init(&list, 0);
	ky_buf_init(&wanted, 0);
	ky_input_processes_list(&list, input);
	(void)ky_buf_append(&list, "", 1);
	if (input->has_pid)
		ky_out_format(&wanted, " of process %" PRIu64, input->pid);
	if (input->service)
		ky_out_format(&wanted, " of service %s", input->service);
	if (input->host)
		ky_out_format(&wanted, " of host %s", input->host);
	(void)ky_buf_append(&wanted, "", 1);
	result = ky_input_fail(input, -ESRCH, "none of these files is%s; %s",
			       wanted.failed ? "" : (const char *)wanted.bytes,
			       list.failed ? "" : (const char *)list.bytes);
	ky_buf_release(&list);
	ky_buf_release(&wanted);
	return result;
}

static void close_sources(struct ky_byte_source *sources, size_t count)
{
	for (size_t i = 0; i < count; i++)
		sources[i].close(sources[i].ctx);
}

static int keep_chosen(struct ky_input *input)
{
	size_t kept = 0, used = 0, wanted = 0;

	for (size_t i = 0; i < input->process_count; i++)
		wanted += is_chosen(input, i);
	if (!wanted)
		return fail_choice(input);
	for (size_t i = 0; i < input->process_count; i++) {
		struct ky_input_process process = input->processes[i];

		if (!is_chosen(input, i)) {
			close_sources(input->opened + process.first, process.count);
			continue;
		}
		memmove(input->opened + used, input->opened + process.first,
			process.count * sizeof(*input->opened));
		process.first = used;
		used += process.count;
		input->processes[kept++] = process;
	}
	input->process_count = kept;
	input->opened_count = input->count = used;
	ky_input_restart(input);
	return 0;
}

int ky_input_processes_find(struct ky_input *input)
{
	struct grouping grouping = {.count = 0};
	int result = -ENOMEM;

	if (input->opened_count < 2 && !has_choice(input))
		return 0;
	grouping.processes = ky_alloc(input->opened_count * sizeof(*grouping.processes));
	grouping.of = ky_alloc(input->opened_count * sizeof(*grouping.of));
	if (grouping.processes && grouping.of)
		result = group(input, &grouping);
	ky_free(grouping.of);
	input->processes = grouping.processes;
	input->process_count = grouping.count;
	return !result && has_choice(input) ? keep_chosen(input) : result;
}

void ky_input_processes_choose(struct ky_input *input, size_t process)
{
	input->sources = input->opened + input->processes[process].first;
	input->count = input->processes[process].count;
	ky_input_restart(input);
}

static bool is_pid_shared(const struct ky_input *input, size_t process)
{
	for (size_t i = 0; i < input->process_count; i++)
		if (i != process &&
		    strcmp(input->processes[i].key.pid, input->processes[process].key.pid) == 0)
			return true;
	return false;
}

void ky_input_processes_name(struct ky_buf *out, const struct ky_input *input, size_t process)
{
	const struct ky_input_process *named = &input->processes[process];
	const struct ky_process_key *key = &named->key;
	size_t boot_bytes = strlen(key->boot);

	if (!key->pid[0]) {
		const char *file = input->opened[named->first].name;

		ky_out_text(out, "not named, of ");
		ky_out_safe(out, file, strlen(file));
		return;
	}
	ky_out_text(out, "pid ");
	ky_out_safe(out, key->pid, strlen(key->pid));
	if (named->service[0]) {
		ky_out_text(out, " of ");
		ky_out_safe(out, named->service, strlen(named->service));
	}
	if (!is_pid_shared(input, process))
		return;
	ky_out_text(out, " (boot ");
	ky_out_safe(out, key->boot, boot_bytes < BOOT_SHOWN_BYTES ? boot_bytes : BOOT_SHOWN_BYTES);
	ky_out_text(out, ", started at tick ");
	ky_out_safe(out, key->start, strlen(key->start));
	ky_out_text(out, ")");
}

void ky_input_processes_list(struct ky_buf *out, const struct ky_input *input)
{
	ky_out_format(out, "they are of %zu process%s: ", input->process_count,
		      input->process_count == 1 ? "" : "es");
	for (size_t i = 0; i < input->process_count && i < LISTED_MAX; i++) {
		ky_out_text(out, i ? ", " : "");
		ky_input_processes_name(out, input, i);
	}
	if (input->process_count > LISTED_MAX)
		ky_out_format(out, " and %zu more", input->process_count - LISTED_MAX);
}
