/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* Which sources have copies, of which process and part each is, and what its workers are called. */
#include <read/copies.h>

#include <base/alloc.h>
#include <errno.h>
#include <read/copies_scan.h>
#include <string.h>

/* ---- which sources ---- */

static bool is_one_part(const struct ky_copies_survey *a, const struct ky_copies_survey *b)
{
	if (a->part == KY_COPIES_DUMP || b->part == KY_COPIES_DUMP)
		return false;
	return a->part == KY_COPIES_REST || b->part == KY_COPIES_REST ||
	       memcmp(a->part_text, b->part_text, sizeof(a->part_text)) == 0;
}

/* Those of a process that comes in more than one part. Returns whether there are any. */
static bool choose(struct ky_copies_scan *scan)
{
	bool has_any = false;

	for (uint32_t i = 0; i < scan->count; i++) {
		struct ky_copies_survey *one = &scan->surveys[i];

		for (uint32_t k = 0; one->part != KY_COPIES_NONE && k < scan->count; k++) {
			struct ky_copies_survey *other = &scan->surveys[k];

			if (i == k || other->part == KY_COPIES_NONE || is_one_part(one, other) ||
			    memcmp(&one->key, &other->key, sizeof(one->key)) != 0)
				continue;
			one->is_wanted = has_any = true;
			break;
		}
	}
	return has_any;
}

/* ---- groups and workers ---- */

/* The rest of a stream continues exactly where that one ends. */
static uint32_t group_of_rest(const struct ky_copies_scan *scan,
			      const struct ky_copies_survey *rest, uint32_t source)
{
	uint64_t from = 0;

	for (uint32_t i = 0; i < scan->claim_count; i++) {
		if (scan->claims[i].source == source)
			from = scan->claims[i].from;
	}
	for (uint32_t i = 0; i < scan->claim_count; i++) {
		const struct ky_copies_survey *survey = &scan->surveys[scan->claims[i].source];

		if (survey->part == KY_COPIES_STREAM && survey->process == rest->process &&
		    scan->claims[i].to >= from && scan->claims[i].from <= from)
			return survey->group;
	}
	return UINT32_MAX;
}

static void find_groups(struct ky_copies_scan *scan)
{
	for (uint32_t i = 0; i < scan->count; i++) {
		struct ky_copies_survey *survey = &scan->surveys[i];

		survey->group = UINT32_MAX;
		for (uint32_t k = 0; k < i && survey->part == KY_COPIES_STREAM; k++) {
			if (scan->surveys[k].is_wanted &&
			    scan->surveys[k].part == KY_COPIES_STREAM &&
			    scan->surveys[k].process == survey->process &&
			    memcmp(scan->surveys[k].part_text, survey->part_text,
				   KY_COPIES_BYTES) == 0)
				survey->group = scan->surveys[k].group;
		}
		if (survey->group == UINT32_MAX && survey->part != KY_COPIES_REST)
			survey->group = scan->group_count++;
	}
	for (uint32_t i = 0; i < scan->count; i++) {
		struct ky_copies_survey *survey = &scan->surveys[i];

		if (survey->part == KY_COPIES_REST && survey->is_wanted)
			survey->group = group_of_rest(scan, survey, i);
		if (survey->group == UINT32_MAX)
			survey->group = scan->group_count++;
	}
}

static uint64_t free_id(const struct ky_copies_process *process, uint64_t wish)
{
	uint64_t highest = 0;
	bool is_free = true;

	for (uint32_t i = 0; i < process->worker_count; i++) {
		is_free &= process->workers[i].id != wish;
		if (process->workers[i].id > highest)
			highest = process->workers[i].id;
	}
	if (is_free)
		return wish;
	return highest + 1 == KY_COPIES_BLOCKING_POOL ? KY_COPIES_BLOCKING_POOL + 2 : highest + 1;
}

static bool name_worker(struct ky_copies_process *process, struct ky_worker_id *worker)
{
	struct ky_worker_id *list;

	for (uint32_t i = 0; i < process->worker_count; i++) {
		if (process->workers[i].identity == worker->identity) {
			worker->to = process->workers[i].id;
			return true;
		}
	}
	list = ky_realloc(process->workers, (process->worker_count + 1) * sizeof(*list));
	if (!list)
		return false;
	process->workers = list;
	worker->to = free_id(process, worker->id);
	list[process->worker_count++] = (struct ky_worker_id){worker->identity, worker->to, 0};
	return true;
}

/* Streams first, then dumps as they were made: the claims are in that order. */
static int name_workers(struct ky_copies_scan *scan)
{
	for (int turn = 0; turn < 2; turn++) {
		for (uint32_t i = 0; i < scan->claim_count; i++) {
			struct ky_copies_survey *survey = &scan->surveys[scan->claims[i].source];

			if ((turn == 0) != (survey->part != KY_COPIES_DUMP) || survey->is_mixed)
				continue;
			for (uint32_t k = 0; k < survey->worker_count; k++)
				if (!name_worker(&scan->copies->processes[survey->process],
						 &survey->workers[k]))
					return -ENOMEM;
		}
	}
	return 0;
}

static int find_processes(struct ky_copies_scan *scan)
{
	struct ky_copies *copies = scan->copies;

	copies->processes = ky_alloc(scan->count * sizeof(*copies->processes));
	if (!copies->processes)
		return -ENOMEM;
	for (uint32_t i = 0; i < scan->count; i++) {
		struct ky_copies_survey *survey = &scan->surveys[i];

		if (!survey->is_wanted)
			continue;
		while (survey->process < copies->process_count &&
		       memcmp(&copies->processes[survey->process].key, &survey->key,
			      sizeof(survey->key)) != 0)
			survey->process++;
		if (survey->process == copies->process_count)
			copies->processes[copies->process_count++].key = survey->key;
	}
	return 0;
}

static void settle(struct ky_copies_scan *scan)
{
	struct ky_copies *copies = scan->copies;

	for (uint32_t i = 0; i < scan->count; i++) {
		struct ky_copies_source *source = &copies->sources[i];
		struct ky_copies_survey *survey = &scan->surveys[i];

		source->copies = copies;
		source->index = i;
		if (!survey->is_wanted || survey->is_mixed)
			continue;
		source->process = &copies->processes[survey->process];
		source->group = survey->group;
		source->workers = survey->workers;
		source->worker_count = survey->worker_count;
		survey->workers = NULL;
		for (uint32_t k = 0; k < source->worker_count; k++)
			source->has_other_ids |= source->workers[k].id != source->workers[k].to;
		ky_copies_begin(source);
	}
}

static int scan_all(struct ky_copies_scan *scan, struct ky_byte_source *sources,
		    const struct ky_trc_limits *limits, uint64_t raw_bytes_max)
{
	int result = find_processes(scan);

	for (uint32_t i = 0; i < scan->count && !result; i++) {
		if (!scan->surveys[i].is_wanted)
			continue;
		result = ky_copies_read(scan, &sources[i], i, limits, raw_bytes_max);
	}
	if (result)
		return result;
	find_groups(scan);
	result = ky_copies_divide(scan);
	if (!result)
		result = name_workers(scan);
	if (!result)
		result = ky_copies_find_unrecorded(scan);
	if (!result)
		settle(scan);
	return result;
}

static int read_everything(struct ky_copies_scan *scan, struct ky_byte_source *sources,
			   const struct ky_trc_limits *limits)
{
	int result = 0;

	for (uint32_t i = 0; i < scan->count && !result; i++) {
		if (!sources[i].seek) /* it is read once */
			continue;
		result = ky_copies_survey(&scan->surveys[i], &sources[i], limits);
	}
	return result;
}

int ky_copies_open(struct ky_copies **out, struct ky_byte_source *sources, uint32_t count,
		   const struct ky_trc_limits *limits, uint64_t raw_bytes_max)
{
	struct ky_copies_scan scan = {.count = count};
	int result = -ENOMEM;

	*out = NULL;
	if (count < 2)
		return 0;
	scan.surveys = ky_alloc(count * sizeof(*scan.surveys));
	scan.copies = ky_alloc(sizeof(*scan.copies));
	if (scan.surveys && scan.copies)
		scan.copies->sources = ky_alloc(count * sizeof(*scan.copies->sources));
	if (scan.surveys && scan.copies && scan.copies->sources) {
		scan.copies->source_count = count;
		result = read_everything(&scan, sources, limits);
		if (!result && choose(&scan)) {
			result = scan_all(&scan, sources, limits, raw_bytes_max);
			if (!result) {
				*out = scan.copies;
				scan.copies = NULL;
			}
		}
	}
	for (uint32_t i = 0; scan.surveys && i < count; i++) {
		ky_free(scan.surveys[i].workers);
		ky_free(scan.surveys[i].lines);
	}
	ky_free(scan.surveys);
	ky_free(scan.claims);
	ky_copies_close(scan.copies);
	return result;
}

void ky_copies_close(struct ky_copies *copies)
{
	if (!copies)
		return;
	for (uint32_t i = 0; i < copies->source_count; i++)
		ky_free(copies->sources[i].workers);
	for (uint32_t i = 0; i < copies->process_count; i++) {
		ky_free(copies->processes[i].owned);
		ky_free(copies->processes[i].workers);
	}
	ky_free(copies->processes);
	ky_free(copies->unrecorded);
	ky_free(copies->seen);
	ky_free(copies->sources);
	ky_free(copies);
}

struct ky_copies_source *ky_copies_source(struct ky_copies *copies, uint32_t index)
{
	return copies && copies->sources[index].process ? &copies->sources[index] : NULL;
}

uint32_t ky_copies_unrecorded(const struct ky_copies *copies, const struct ky_unrecorded **out)
{
	*out = copies ? copies->unrecorded : NULL;
	return copies ? copies->unrecorded_count : 0;
}
