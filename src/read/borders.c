/* SPDX-License-Identifier: Apache-2.0 OR MIT */
#include <read/borders.h>

#include <read/sort.h>
#include <string.h>

#define KEYS_MAX 256u          /* a search per segment; the rest counts as mixed */
#define MIXED (UINT32_MAX - 1) /* KY_NONE: the file does not say */

static uint32_t find_key(const struct ky_trace_private *private, const struct ky_process_key *key)
{
	uint32_t i = 0;

	while (i < private->process_count && memcmp(&private->processes[i], key, sizeof(*key)) != 0)
		i++;
	return i;
}

bool ky_borders_note(struct ky_load *load, const struct ky_frame *metadata)
{
	struct ky_trace_private *private = load->trace->private;
	uint32_t *process = &load->trace->files[load->file].process;
	struct ky_process_key key;
	uint32_t at;

	if (!ky_process_key_read(&key, load->reader->dec, metadata))
		return true;
	at = find_key(private, &key);
	if (at == KEYS_MAX) {
		at = MIXED;
	} else if (at == private->process_count) {
		if (!ky_pages_array(&load->trace->pages, &private->processes,
				    &private->process_capacity, at + 1, sizeof(key)))
			return false;
		private->processes[private->process_count++] = key;
	}
	*process = *process == KY_NONE || *process == at ? at : MIXED;
	return true;
}

static bool is_file_before(const void *a, const void *b, const void *ctx)
{
	const struct ky_trace *trace = ctx;
	uint32_t left = *(const uint32_t *)a, right = *(const uint32_t *)b;

	if (trace->files[left].first_ns != trace->files[right].first_ns)
		return trace->files[left].first_ns < trace->files[right].first_ns;
	return left < right;
}

/* from_ns never steps back. to_ns of one that is no longer than a moment lies right before it. */
static void add_border(struct ky_trace_private *private, uint64_t from_ns, uint64_t to_ns)
{
	struct ky_interval *last = private->borders + private->border_count - 1;

	if (private->border_count > 0 && from_ns <= last->to_ns) {
		if (to_ns > last->to_ns)
			last->to_ns = to_ns;
		return;
	}
	private->borders[private->border_count++] = (struct ky_interval){from_ns, to_ns};
}

/* files: in the order of their first stamp. */
static void find_borders(struct ky_trace *trace, const uint32_t *files, uint32_t count)
{
	struct ky_trace_private *private = trace->private;
	const struct ky_trace_input *last = NULL; /* that reaches furthest */

	for (uint32_t i = 0; i < count; i++) {
		const struct ky_trace_input *file = &trace->files[files[i]];
		uint64_t from_ns = file->first_ns, to_ns = from_ns - 1;

		if (file->process == MIXED)
			to_ns = file->last_ns;
		else if (last && last->last_ns >= from_ns)
			to_ns = last->last_ns < file->last_ns ? last->last_ns : file->last_ns;
		if (file->process >= MIXED || (last && last->process != file->process))
			add_border(private, from_ns, to_ns);
		if (!last || file->last_ns > last->last_ns)
			last = file;
	}
}

int ky_borders_make(struct ky_trace *trace)
{
	struct ky_trace_private *private = trace->private;
	size_t bytes = (size_t)trace->file_count * sizeof(uint32_t);
	uint32_t *files, count = 0;

	if (!trace->has_processes)
		return 0;
	files = ky_pages_alloc(&trace->pages, bytes);
	if (!files || !ky_pages_array(&trace->pages, &private->borders, &private->border_capacity,
				      trace->file_count, sizeof(*private->borders))) {
		ky_pages_free(&trace->pages, files, bytes);
		return trace->pages.failed;
	}
	for (uint32_t i = 0; i < trace->file_count; i++)
		if (trace->files[i].first_ns != 0)
			files[count++] = i;
	ky_sort(files, count, sizeof(*files), is_file_before, trace);
	find_borders(trace, files, count);
	ky_pages_free(&trace->pages, files, bytes);
	return 0;
}

bool ky_borders_cross(const struct ky_trace *trace, uint64_t from_ns, uint64_t to_ns)
{
	const struct ky_trace_private *private = trace->private;
	uint32_t low = 0, high = private->border_count;

	while (low < high) {
		uint32_t middle = low + (high - low) / 2;

		if (private->borders[middle].to_ns < from_ns)
			low = middle + 1;
		else
			high = middle;
	}
	return low < private->border_count && private->borders[low].from_ns <= to_ns;
}
