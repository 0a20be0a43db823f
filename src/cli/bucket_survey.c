/* SPDX-License-Identifier: Apache-2.0 OR MIT */
#include <cli/bucket_survey.h>

#include <base/alloc.h>
#include <base/json_write.h>
#include <base/out_text.h>
#include <bucket/bucket_lanes.h>
#include <bucket/map_sum.h>
#include <bucket/object_fetch.h>
#include <cli/cli.h>
#include <cli/progress.h>
#include <inttypes.h>
#include <errno.h>
#include <kymo/base.h>
#include <send/dump_name.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#define INDEXES_MAX 8192u /* requests; of more the names alone are told */

/* Of one object, or the sum of a run's. */
struct sum {
	struct ky_map_sum map; /* without an index its times are those of names; 0: not known */
	uint64_t bytes;
	uint32_t segments, unindexed, dumps;
	char pid[KY_MAP_TEXT_BYTES], end[KY_MAP_TEXT_BYTES];
	char service[KY_MAP_TEXT_BYTES], host[KY_MAP_TEXT_BYTES];
};

struct survey {
	const struct ky_object_list *list;
	const struct ky_bucket_query *query;
	struct sum *sums; /* by object */
	uint64_t fetched_bytes;
	bool has_indexes, has_pid;
	char pid[24];
};

/* ---- one object ---- */

static void begin_sum(struct sum *sum, const struct ky_bucket_object *object)
{
	const struct ky_object_key *facts = &object->facts;
	const char *dash = strchr(facts->run, '-');

	bool is_dump = facts->number >= KY_DUMP_NUMBERS_FROM;

	*sum = (struct sum){.bytes = object->bytes, .segments = !is_dump, .dumps = is_dump};
	memcpy(sum->service, facts->service, sizeof(facts->service));
	memcpy(sum->host, facts->host, sizeof(facts->host));
	if (facts->form == KY_OBJECT_KYMO && dash)
		memcpy(sum->pid, dash + 1, strcspn(dash + 1, "-"));
}

static int read_one(void *ctx, struct ky_s3_client *client, uint32_t index, char *why)
{
	struct survey *survey = ctx;
	const struct ky_bucket_object *object = &survey->list->objects[index];
	struct ky_segment_map map = {.chunks = NULL};
	struct sum *sum = &survey->sums[index];
	uint64_t fetched_bytes = 0;
	int err = ky_object_map(&map, client, object, &fetched_bytes, why);

	__atomic_fetch_add(&survey->fetched_bytes, fetched_bytes, __ATOMIC_RELAXED);
	if (err == KYMO_E_UNSUPPORTED || err == -ESTALE || (!err && !map.unix_ns)) {
		sum->unindexed = 1;
		sum->map.start_ns = object->facts.start_unix_ns;
		sum->map.end_ns = object->facts.end_unix_ns;
	} else if (!err) {
		ky_map_sum_add(&sum->map, &map, survey->query->from_unix_ns,
			       survey->query->to_unix_ns);
		/* The name in the key is what --service takes. */
		if (!sum->service[0])
			memcpy(sum->service, map.service, sizeof(sum->service));
		if (!sum->host[0])
			memcpy(sum->host, map.host, sizeof(sum->host));
		if (map.pid[0])
			memcpy(sum->pid, map.pid, sizeof(sum->pid));
		memcpy(sum->end, map.end, sizeof(sum->end));
	}
	ky_segment_map_release(&map);
	/* One that is gone by now has its name still. */
	return err == KYMO_E_UNSUPPORTED || err == -ESTALE ? 0 : err;
}

/* ---- runs ---- */

static void add(struct sum *all, const struct sum *one)
{
	all->bytes += one->bytes;
	all->dumps += one->dumps;
	if (all->segments && one->dumps) /* its events are those of segments, once more */
		return;
	ky_map_sum_join(&all->map, &one->map);
	all->segments += one->segments;
	all->unindexed += one->unindexed;
	if (one->end[0])
		memcpy(all->end, one->end, sizeof(all->end));
}

/* The run that begins at *at, which moves behind it. False: what an index says lies outside the
 * time. */
static bool next_run(const struct survey *survey, uint32_t *at, struct sum *out,
		     const struct ky_bucket_object **first)
{
	const struct ky_bucket_object *objects = survey->list->objects;
	uint32_t i = *at;

	*first = &objects[i];
	*out = survey->sums[i++];
	for (; i < survey->list->count && ky_object_is_of_run(*first, &objects[i]); i++)
		add(out, &survey->sums[i]);
	*at = i;
	if (survey->has_pid && strcmp(out->pid, survey->pid) != 0)
		return false;
	return !survey->has_indexes || out->unindexed || out->map.start_ns;
}

/* ---- as text ---- */

static void count_cell(struct ky_table *table, const struct survey *survey, const struct sum *run,
		       uint64_t count)
{
	if (!survey->has_indexes || run->unindexed == run->segments)
		ky_table_cell(table, "-");
	else
		ky_table_count(table, count);
}

static void row(struct ky_table *table, const struct survey *survey, const struct sum *run,
		const struct ky_bucket_object *first)
{
	char cell[KY_OUT_CELL_BYTES];

	ky_table_cell(table, run->service[0]                      ? run->service :
			     first->facts.form == KY_OBJECT_PLAIN ? first->key :
								    "-");
	ky_table_cell(table, run->host[0] ? run->host : "-");
	ky_table_cell(table, run->pid[0] ? run->pid : "-");
	ky_table_cell(table, run->map.start_ns ? ky_out_utc(cell, run->map.start_ns) : "-");
	ky_table_cell(table, run->map.end_ns > run->map.start_ns && run->map.start_ns ?
				     ky_out_duration(cell, run->map.end_ns - run->map.start_ns) :
				     "-");
	if (run->dumps)
		ky_table_format(table, "%u + %u dump%s", run->segments, run->dumps,
				run->dumps == 1 ? "" : "s");
	else
		ky_table_count(table, run->segments);
	ky_table_cell(table, ky_out_bytes(cell, run->bytes));
	count_cell(table, survey, run, run->map.events);
	count_cell(table, survey, run, run->map.lost);
	ky_table_cell(table,
		      run->map.longest_ns ? ky_out_duration(cell, run->map.longest_ns) : "-");
	if (run->map.longest_ns)
		ky_table_format(table, "%s, worker %u, task %" PRIu64,
				ky_out_utc(cell, run->map.longest_start_ns),
				run->map.longest_worker, run->map.longest_task);
	else
		ky_table_format(table, "%s", run->end);
}

static void print_text(struct ky_buf *out, const struct survey *survey, const char *name)
{
	char bytes[KY_OUT_CELL_BYTES], fetched[KY_OUT_CELL_BYTES];
	const struct ky_bucket_object *first;
	struct ky_table table;
	uint32_t unindexed = 0;
	struct sum run;

	ky_table_begin(&table, "lllllrrrrrl",
		       "Service|Host|Pid|From (UTC)|Lasted|Segments|Size|Events|Lost|Longest "
		       "poll|");
	for (uint32_t at = 0; at < survey->list->count;) {
		if (!next_run(survey, &at, &run, &first))
			continue;
		row(&table, survey, &run, first);
		unindexed += run.unindexed;
	}
	ky_table_end(&table, out, 0, ky_out_is_coloured(STDOUT_FILENO));
	ky_out_text(out, "\n");
	ky_out_safe(out, name, strlen(name));
	ky_out_format(out, ": %u segment%s, %s; %s of it read\n", survey->list->count,
		      survey->list->count == 1 ? "" : "s", ky_out_bytes(bytes, survey->list->bytes),
		      ky_out_bytes(fetched, survey->fetched_bytes));
	if (unindexed)
		ky_out_format(out, "%u of them %s no index: `kymo report` reads %s whole\n",
			      unindexed, unindexed == 1 ? "has" : "have",
			      unindexed == 1 ? "it" : "them");
}

/* ---- as JSON ---- */

static void time_json(struct ky_buf *out, const char *key, uint64_t unix_ns)
{
	if (unix_ns)
		ky_json_number(out, key, unix_ns);
	else
		ky_json_null(out, key);
}

static void run_json(struct ky_buf *out, const struct survey *survey, const struct sum *run,
		     const struct ky_bucket_object *first)
{
	static const char *const forms[] = {
		[KY_OBJECT_PLAIN] = "none", [KY_OBJECT_DIAL9] = "dial9", [KY_OBJECT_KYMO] = "kymo"};
	bool is_counted = survey->has_indexes && run->unindexed < run->segments;

	ky_json_open(out, NULL, "{");
	ky_json_text(out, "layout", forms[first->facts.form]);
	ky_json_text_or_null(out, "service", run->service[0] ? run->service : NULL);
	ky_json_text_or_null(out, "host", run->host[0] ? run->host : NULL);
	ky_json_text_or_null(out, "run", first->facts.run[0] ? first->facts.run : NULL);
	ky_json_text_or_null(out, "pid", run->pid[0] ? run->pid : NULL);
	ky_json_text(out, "first_key", first->key);
	time_json(out, "start_unix_ns", run->map.start_ns);
	time_json(out, "end_unix_ns", run->map.end_ns);
	ky_json_number(out, "segments", run->segments);
	ky_json_number(out, "segments_without_index", run->unindexed);
	ky_json_number(out, "dumps", run->dumps);
	ky_json_number(out, "bytes", run->bytes);
	if (is_counted) {
		ky_json_number(out, "events", run->map.events);
		ky_json_number(out, "polls", run->map.polls);
		ky_json_number(out, "busy_ns", run->map.busy_ns);
		ky_json_number(out, "lost", run->map.lost);
	}
	if (run->map.longest_ns) {
		ky_json_open(out, "longest_poll", "{");
		ky_json_number(out, "start_unix_ns", run->map.longest_start_ns);
		ky_json_number(out, "duration_ns", run->map.longest_ns);
		ky_json_number(out, "worker_id", run->map.longest_worker);
		ky_json_number(out, "task_id", run->map.longest_task);
		ky_json_close(out, "}");
	}
	ky_json_text_or_null(out, "process_end", run->end[0] ? run->end : NULL);
	ky_json_close(out, "}");
}

static void print_json(struct ky_buf *out, const struct survey *survey)
{
	const struct ky_bucket_object *first;
	struct sum run;

	ky_json_open(out, NULL, "{");
	ky_json_text(out, "bucket", survey->query->place.bucket);
	ky_json_text(out, "prefix", survey->query->place.prefix);
	ky_json_number(out, "segments", survey->list->count);
	ky_json_number(out, "bytes", survey->list->bytes);
	ky_json_number(out, "bytes_read", survey->fetched_bytes);
	ky_json_number(out, "listings", survey->list->page_count);
	ky_json_flag(out, "is_cut", survey->list->is_cut);
	ky_json_open(out, "runs", "[");
	for (uint32_t at = 0; at < survey->list->count;)
		if (next_run(survey, &at, &run, &first))
			run_json(out, survey, &run, first);
	ky_json_close(out, "]");
	ky_json_close(out, "}");
	ky_out_text(out, "\n");
}

/* ---- all ---- */

static void show(void *ctx)
{
	(void)ctx;
	ky_progress_count(0, 0);
}

static int read_indexes(struct survey *survey, const char *name)
{
	const struct ky_bucket_work work = {.bucket = survey->query->place.bucket,
					    .count = survey->list->count,
					    .one = read_one,
					    .progress = show,
					    .ctx = survey};
	char why[KY_BUCKET_WHY_BYTES] = "";

	for (uint32_t i = 0; i < survey->list->count; i++) {
		begin_sum(&survey->sums[i], &survey->list->objects[i]);
		survey->sums[i].map.start_ns = 0;
	}
	survey->has_indexes = survey->list->count <= INDEXES_MAX;
	if (!survey->has_indexes) {
		ky_cli_notice("%s: the indexes of %u segments are too many to read; choose with "
			      "--service, --host, --from and --to",
			      name, survey->list->count);
		for (uint32_t i = 0; i < survey->list->count; i++) {
			survey->sums[i].map.start_ns = survey->list->objects[i].facts.start_unix_ns;
			survey->sums[i].map.end_ns = survey->list->objects[i].facts.end_unix_ns;
		}
		return KY_EXIT_OK;
	}
	ky_progress_step("reading indexes");
	if (!ky_bucket_lanes_run(&work, why))
		return KY_EXIT_OK;
	ky_cli_error("%s: %s", name, why);
	return KY_EXIT_TROUBLE;
}

static int print(const struct survey *survey, const char *name, bool is_json)
{
	struct ky_buf out;
	int result;

	ky_buf_init(&out, 0);
	if (is_json)
		print_json(&out, survey);
	else
		print_text(&out, survey, name);
	ky_progress_result();
	result = ky_cli_print(&out);
	ky_buf_release(&out);
	return result ? KY_EXIT_TROUBLE : KY_EXIT_OK;
}

int ky_bucket_survey(const struct ky_input *input, const struct ky_time_range *range, bool is_json)
{
	struct ky_object_list list = {.objects = NULL};
	struct ky_bucket_query query;
	struct survey survey = {.list = &list, .query = &query};
	const char *name = input->arguments[0];
	int code = ky_bucket_query_make(&query, input, range);

	survey.has_pid = input->has_pid;
	(void)snprintf(survey.pid, sizeof(survey.pid), "%" PRIu64, input->pid);
	ky_progress_open();
	if (!code)
		code = ky_bucket_query_list(&list, &query, name);
	if (!code)
		survey.sums = ky_alloc(list.count * sizeof(*survey.sums));
	if (!code && !survey.sums) {
		ky_cli_error("out of memory");
		code = KY_EXIT_TROUBLE;
	}
	if (!code)
		code = read_indexes(&survey, name);
	if (!code)
		code = print(&survey, name, is_json);
	ky_progress_close();
	ky_free(survey.sums);
	ky_object_list_release(&list);
	return code;
}
