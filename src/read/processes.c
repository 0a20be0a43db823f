/* SPDX-License-Identifier: Apache-2.0 OR MIT */
#include <read/processes.h>

#include <base/buf.h>
#include <base/text.h>
#include <string.h>

/* Wall clocks are set by seconds; machines and boots differ by more. */
#define CLOCKS_DIFFER_NS UINT64_C(60000000000)
#define BOOT_SHOWN_BYTES 8u

static void take(char *out, size_t out_bytes, const void *text, size_t text_bytes)
{
	size_t bytes = text_bytes < out_bytes - 1 ? text_bytes : out_bytes - 1;

	memset(out, 0, out_bytes);
	if (bytes)
		memcpy(out, text, bytes);
}

static bool is_key(const struct ky_slice *text, const char *key)
{
	return text->count == strlen(key) && memcmp(text->bytes, key, text->count) == 0;
}

bool ky_process_key_read(struct ky_process_key *out, struct ky_trc_dec *dec,
			 const struct ky_frame *frame)
{
	const struct ky_value *entries = ky_frame_field(frame, KY_F_SEGMENT_METADATA_entries);
	struct ky_value key, value;
	struct ky_trc_walk walk;

	memset(out, 0, sizeof(*out));
	if (!entries || entries->type != KY_TYPE_STRING_MAP)
		return false;
	ky_trc_walk_begin(&walk, entries);
	while (ky_trc_walk_next(dec, &walk, &key, &value) == 1) {
		const struct ky_slice *text = &value.text;

		if (is_key(&key.text, "boot_id"))
			take(out->boot, sizeof(out->boot), text->bytes, text->count);
		else if (is_key(&key.text, "pid"))
			take(out->pid, sizeof(out->pid), text->bytes, text->count);
		else if (is_key(&key.text, "process.start_time_ticks"))
			take(out->start, sizeof(out->start), text->bytes, text->count);
	}
	return out->pid[0] != '\0';
}

static void say_process(struct ky_buf *text, const char *name, const struct ky_process_key *key)
{
	size_t boot_bytes = strlen(key->boot);

	ky_text(text, name);
	ky_text(text, " is of process ");
	ky_text(text, key->pid);
	ky_text(text, " (boot ");
	(void)ky_buf_append(text, key->boot,
			    boot_bytes < BOOT_SHOWN_BYTES ? boot_bytes : BOOT_SHOWN_BYTES);
	ky_text(text, ")");
}

static const char *finish(struct ky_processes *processes, struct ky_buf *text)
{
	ky_text(text, "; their tasks, workers and threads have the same numbers: read one process "
		      "at a time");
	ky_text_copy(processes->text, sizeof(processes->text), text);
	ky_buf_release(text);
	processes->is_reported = true;
	return processes->text;
}

static const char *on_metadata(struct ky_processes *processes, struct ky_trc_dec *dec,
			       const struct ky_frame *frame, const char *name)
{
	struct ky_process_key now;
	struct ky_buf text;

	if (!ky_process_key_read(&now, dec, frame))
		return NULL;
	if (!processes->has_first) {
		processes->has_first = true;
		processes->first = now;
		take(processes->first_name, sizeof(processes->first_name), name, strlen(name));
		return NULL;
	}
	if (memcmp(&now, &processes->first, sizeof(now)) == 0)
		return NULL;
	ky_buf_init(&text, 0);
	say_process(&text, name, &now);
	ky_text(&text, ", but ");
	say_process(&text, processes->first_name, &processes->first);
	return finish(processes, &text);
}

static const char *on_clock(struct ky_processes *processes, const struct ky_frame *frame,
			    uint32_t file, const char *name)
{
	const struct ky_value *value = ky_frame_field(frame, KY_F_CLOCK_SYNC_realtime_ns);
	uint64_t offset_ns, apart_ns;
	struct ky_buf text;

	if (!value || !frame->schema->has_timestamp)
		return NULL;
	offset_ns = value->as.number - frame->timestamp_ns;
	if (!processes->has_clock) {
		processes->has_clock = true;
		processes->clock_offset_ns = offset_ns;
		processes->clock_file = file;
		take(processes->clock_name, sizeof(processes->clock_name), name, strlen(name));
		return NULL;
	}
	apart_ns = offset_ns - processes->clock_offset_ns;
	if (apart_ns > UINT64_MAX / 2)
		apart_ns = 0 - apart_ns;
	if (file == processes->clock_file || apart_ns < CLOCKS_DIFFER_NS || processes->has_first)
		return NULL;
	ky_buf_init(&text, 0);
	ky_text(&text, name);
	ky_text(&text, ": its clock and that of ");
	ky_text(&text, processes->clock_name);
	ky_text(&text, " are ");
	ky_text_u64(&text, apart_ns / 1000000000);
	ky_text(&text, " s apart, so they are of different machines or boots");
	return finish(processes, &text);
}

const char *ky_processes_event(struct ky_processes *processes, struct ky_trc_dec *dec,
			       const struct ky_frame *frame, uint32_t file, const char *name)
{
	if (processes->is_reported)
		return NULL;
	if (frame->schema->event == KY_EV_SEGMENT_METADATA)
		return on_metadata(processes, dec, frame, name);
	if (frame->schema->event == KY_EV_CLOCK_SYNC)
		return on_clock(processes, frame, file, name);
	return NULL;
}
