/* SPDX-License-Identifier: Apache-2.0 OR MIT */
#include <cli/bucket_input.h>

#include <base/alloc.h>
#include <base/now.h>
#include <base/out_text.h>
#include <bucket/bucket_lanes.h>
#include <bucket/object_fetch.h>
#include <cli/cli.h>
#include <cli/progress.h>
#include <errno.h>
#include <kymo/base.h>
#include <ship/container.h>
#include <ship/unnamed_file.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

#define SCHEME "s3://"
#define FILES_BESIDE 64u /* descriptors for all else */
#define PATH_BYTES 32u

bool ky_bucket_is_path(const char *path)
{
	return strncmp(path, SCHEME, sizeof(SCHEME) - 1) == 0;
}

bool ky_bucket_is_input(const struct ky_input *input)
{
	for (size_t i = 0; i < input->argument_count; i++)
		if (ky_bucket_is_path(input->arguments[i]))
			return true;
	return false;
}

/* ---- what is asked for ---- */

int ky_bucket_range_check(const struct ky_input *input, const struct ky_time_range *range)
{
	if (ky_bucket_is_input(input) || (!range->from.kind && !range->to.kind && !range->last_ns))
		return KY_EXIT_OK;
	ky_cli_error(
		"--from, --to and --last choose here what is read of a bucket, and '%s' is none;"
		" `kymo report` and `kymo events` take them of files, too",
		input->argument_count ? input->arguments[0] : "-");
	return KY_EXIT_USAGE;
}

/* In Unix time; a bucket has no start that a time could be relative to. */
static int read_moment(const char *name, const struct ky_moment *moment, uint64_t *out)
{
	if (moment->kind == KY_MOMENT_NONE)
		return KY_EXIT_OK;
	if (moment->kind != KY_MOMENT_WALL) {
		ky_cli_error("--%s of a bucket is a time in UTC, such as 2026-05-18T12:30:00",
			     name);
		return KY_EXIT_USAGE;
	}
	*out = moment->ns;
	return KY_EXIT_OK;
}

static int read_range(struct ky_bucket_query *query, const struct ky_time_range *range)
{
	uint64_t now_ns = ky_now_ns(CLOCK_REALTIME);
	int code;

	if (!range)
		return KY_EXIT_OK;
	code = read_moment("from", &range->from, &query->from_unix_ns);
	if (!code)
		code = read_moment("to", &range->to, &query->to_unix_ns);
	if (range->last_ns)
		query->from_unix_ns = now_ns > range->last_ns ? now_ns - range->last_ns : 1;
	if (!code && !query->to_unix_ns && query->from_unix_ns > now_ns) {
		ky_cli_error("--from lies in the future");
		return KY_EXIT_USAGE;
	}
	/* A bound on both sides lets the listing begin at the right day; clocks differ. */
	if (query->from_unix_ns && !query->to_unix_ns)
		query->to_unix_ns = now_ns + UINT64_C(3600000000000);
	if (!code && query->to_unix_ns && query->to_unix_ns <= query->from_unix_ns) {
		ky_cli_error("--to lies at or before --from");
		return KY_EXIT_USAGE;
	}
	return code;
}

int ky_bucket_query_make(struct ky_bucket_query *query, const struct ky_input *input,
			 const struct ky_time_range *range)
{
	char why[KY_HTTP_ERROR_BYTES];

	*query = (struct ky_bucket_query){.service = input->service, .host = input->host};
	if (input->argument_count != 1) {
		ky_cli_error(
			"a bucket stands alone: name one s3://BUCKET/PREFIX and nothing beside");
		return KY_EXIT_USAGE;
	}
	if (ky_s3_place_parse(&query->place, input->arguments[0], why)) {
		ky_cli_error("%s: %s", input->arguments[0], why);
		return KY_EXIT_USAGE;
	}
	return read_range(query, range);
}

static void say_none(const struct ky_bucket_query *query, const char *name)
{
	char from[KY_OUT_CELL_BYTES], to[KY_OUT_CELL_BYTES];
	struct ky_buf text;

	ky_buf_init(&text, 0);
	if (query->service)
		ky_out_format(&text, " of service %s", query->service);
	if (query->host)
		ky_out_format(&text, " of host %s", query->host);
	if (query->from_unix_ns)
		ky_out_format(&text, " after %s UTC", ky_out_utc(from, query->from_unix_ns));
	if (query->to_unix_ns && query->to_unix_ns < ky_now_ns(CLOCK_REALTIME))
		ky_out_format(&text, " before %s UTC", ky_out_utc(to, query->to_unix_ns));
	(void)ky_buf_append(&text, "", 1);
	ky_cli_error("%s: no trace%s is there%s", name, text.failed ? "" : (const char *)text.bytes,
		     text.used > 1 ? "; `kymo info` without these options says what is" : "");
	ky_buf_release(&text);
}

int ky_bucket_query_list(struct ky_object_list *list, const struct ky_bucket_query *query,
			 const char *name)
{
	char why[KY_BUCKET_WHY_BYTES] = "";
	struct ky_s3_client *client = ky_alloc(sizeof(*client));
	int err = client ? ky_bucket_connect(client, query->place.bucket, why) : -ENOMEM;

	ky_progress_step("listing");
	if (!err)
		err = ky_object_list_read(list, client, query, why);
	if (client)
		ky_s3_client_close(client);
	ky_free(client);
	if (err) {
		ky_cli_error("%s: %s", name, why[0] ? why : kymo_error_text(err));
		return KY_EXIT_TROUBLE;
	}
	if (list->odd_count)
		ky_cli_notice("%s: %llu names are no keys of S3 and left out", name,
			      (unsigned long long)list->odd_count);
	if (list->is_cut && !list->count) {
		ky_cli_error(
			"%s: so many other names stand there that no trace was found; name the "
			"prefix that kymo sends to",
			name);
		return KY_EXIT_TROUBLE;
	}
	if (list->is_cut)
		ky_cli_notice("%s: holds more traces than the %u of this list; choose with "
			      "--service, --host, --from and --to",
			      name, list->count);
	if (list->count)
		return KY_EXIT_OK;
	say_none(query, name);
	return KY_EXIT_TROUBLE;
}

/* ---- bringing them here ---- */

struct brought {
	int *fds;
	char (*paths)[PATH_BYTES];
	char **arguments;
	char **names; /* s3://BUCKET/KEY */
	uint32_t count;
};

struct bringing {
	const struct ky_input *input;
	const struct ky_object_list *list;
	struct ky_fetch_range range;
	struct brought *brought;
	struct ky_fetched *fetched; /* by object */
	uint64_t done_bytes;        /* atomic */
};

static void release(void *ctx)
{
	struct brought *brought = ctx;

	for (uint32_t i = 0; i < brought->count; i++) {
		if (brought->fds && brought->fds[i] >= 0)
			(void)close(brought->fds[i]);
		if (brought->names)
			ky_free(brought->names[i]);
	}
	ky_free(brought->fds);
	ky_free(brought->paths);
	ky_free(brought->arguments);
	ky_free(brought->names);
	ky_free(brought);
}

/* Not so the empty one, which its reader speaks of. */
static bool is_trace(int fd)
{
	uint8_t bytes[KY_CONTAINER_MAGIC_BYTES];
	ssize_t count = pread(fd, bytes, sizeof(bytes), 0);

	return count <= 0 || ky_container_of(bytes, (size_t)count) != KY_CONTAINER_NONE;
}

static int fetch_one(void *ctx, struct ky_s3_client *client, uint32_t index, char *why)
{
	struct bringing *bringing = ctx;
	const struct ky_bucket_object *object = &bringing->list->objects[index];
	struct ky_fetched *fetched = &bringing->fetched[index];
	char reason[KY_BUCKET_WHY_BYTES];
	int fd = ky_unnamed_file_temporary(), err = fd < 0 ? fd : 0;

	if (err)
		(void)snprintf(reason, sizeof(reason),
			       "no temporary file can be made where TMPDIR says: %s",
			       kymo_error_text(err));
	else
		err = ky_object_fetch(fetched, client, object, &bringing->range, fd, reason);
	bringing->brought->fds[index] = fd;
	/* Lifecycle rules delete while we read: what is left is still worth reading. */
	if (err == -ESTALE || (!err && !fetched->is_outside && !is_trace(fd))) {
		fetched->is_outside = fetched->is_left_out = true;
		err = 0;
	}
	__atomic_fetch_add(&bringing->done_bytes, fetched->fetched_bytes, __ATOMIC_RELAXED);
	if (err)
		(void)snprintf(why, KY_BUCKET_WHY_BYTES, "%.200s: %.300s", object->key, reason);
	return err;
}

static void show(void *ctx)
{
	const struct bringing *bringing = ctx;

	ky_progress_count(__atomic_load_n(&bringing->done_bytes, __ATOMIC_RELAXED),
			  bringing->range.from_unix_ns ? 0 : bringing->list->bytes);
}

/* Each trace is a file that stays open. */
static bool raise_files(uint32_t count)
{
	struct rlimit limit;

	if (getrlimit(RLIMIT_NOFILE, &limit) != 0)
		return true;
	if (limit.rlim_cur < count + FILES_BESIDE) {
		limit.rlim_cur = limit.rlim_max;
		(void)setrlimit(RLIMIT_NOFILE, &limit);
	}
	return limit.rlim_cur >= count + FILES_BESIDE;
}

static int check_amount(const struct ky_input *input, const struct ky_object_list *list)
{
	uint64_t most = input->fetch_bytes_max ? input->fetch_bytes_max : KY_BUCKET_FETCH_BYTES_MAX;
	char bytes[KY_OUT_CELL_BYTES], bound[KY_OUT_CELL_BYTES];

	if (list->bytes > most) {
		ky_cli_error("%s: %u traces of %s, more than --max-fetch allows (%s); choose with "
			     "--service, --host, --from and --to",
			     input->arguments[0], list->count, ky_out_bytes(bytes, list->bytes),
			     ky_out_bytes(bound, most));
		return KY_EXIT_TROUBLE;
	}
	if (!raise_files(list->count)) {
		ky_cli_error("%s: %u traces, more than files may be open (ulimit -n); choose with "
			     "--service, --host, --from and --to",
			     input->arguments[0], list->count);
		return KY_EXIT_TROUBLE;
	}
	return KY_EXIT_OK;
}

static struct brought *make_brought(struct ky_object_list *list)
{
	struct brought *brought = ky_alloc(sizeof(*brought));

	if (!brought)
		return NULL;
	brought->fds = ky_alloc(list->count * sizeof(*brought->fds));
	brought->paths = ky_alloc(list->count * sizeof(*brought->paths));
	brought->arguments = ky_alloc(list->count * sizeof(*brought->arguments));
	brought->names = ky_alloc(list->count * sizeof(*brought->names));
	if (!brought->fds || !brought->paths || !brought->arguments || !brought->names) {
		release(brought);
		return NULL;
	}
	brought->count = list->count;
	memset(brought->fds, 0xff, list->count * sizeof(*brought->fds));
	return brought;
}

static char *make_name(const char *bucket, const char *key)
{
	size_t bytes = sizeof(SCHEME) + strlen(bucket) + 1 + strlen(key);
	char *name = ky_alloc(bytes);

	if (name)
		(void)snprintf(name, bytes, SCHEME "%s/%s", bucket, key);
	return name;
}

static uint32_t left_out_count(const struct bringing *bringing)
{
	uint32_t count = 0;

	for (uint32_t i = 0; i < bringing->list->count; i++)
		count += bringing->fetched[i].is_left_out;
	return count;
}

static void say_left_out(const struct bringing *bringing)
{
	uint32_t count = left_out_count(bringing), first = 0;

	while (count && !bringing->fetched[first].is_left_out)
		first++;
	if (count)
		ky_cli_notice("%u object%s no trace, deleted meanwhile or archived, and left out; "
			      "the first is %s",
			      count, count == 1 ? " is" : "s are",
			      bringing->list->objects[first].key);
}

/* What was fetched becomes the arguments; what lies outside the time is none. */
static int take(struct ky_input *input, const struct bringing *bringing,
		const struct ky_bucket_query *query)
{
	struct brought *brought = bringing->brought;
	size_t used = 0;

	for (uint32_t i = 0; i < brought->count; i++) {
		if (bringing->fetched[i].is_outside)
			continue;
		(void)snprintf(brought->paths[i], PATH_BYTES, "/proc/self/fd/%d", brought->fds[i]);
		brought->arguments[used] = brought->paths[i];
		brought->names[used] = make_name(query->place.bucket,
						 bringing->list->objects[i].key);
		if (!brought->names[used++]) {
			ky_cli_error("out of memory");
			return KY_EXIT_TROUBLE;
		}
	}
	say_left_out(bringing);
	if (!used && left_out_count(bringing)) {
		ky_cli_error("%s: none of these traces can be read", input->arguments[0]);
		return KY_EXIT_TROUBLE;
	}
	if (!used) {
		say_none(query, input->arguments[0]);
		return KY_EXIT_TROUBLE;
	}
	input->arguments = brought->arguments;
	input->argument_count = used;
	input->service = input->host = NULL; /* they were chosen by their keys */
	input->shown_names = (const char *const *)brought->names;
	return KY_EXIT_OK;
}

static void say_amount(const struct bringing *bringing, const char *name)
{
	char fetched[KY_OUT_CELL_BYTES], all[KY_OUT_CELL_BYTES];
	uint32_t whole = 0, used = 0;

	for (uint32_t i = 0; i < bringing->list->count; i++) {
		used += !bringing->fetched[i].is_outside;
		whole += !bringing->fetched[i].chunk_total && !bringing->fetched[i].is_outside;
	}
	if (bringing->range.from_unix_ns || bringing->range.to_unix_ns)
		ky_cli_notice("%s: read %s of %s, of %u trace%s", name,
			      ky_out_bytes(fetched, bringing->done_bytes),
			      ky_out_bytes(all, bringing->list->bytes), used, used == 1 ? "" : "s");
	if (whole && (bringing->range.from_unix_ns || bringing->range.to_unix_ns))
		ky_cli_notice("%s: %u of them %s no index and %s read whole, beyond that time",
			      name, whole, whole == 1 ? "has" : "have",
			      whole == 1 ? "was" : "were");
}

static int bring(struct ky_input *input, struct bringing *bringing,
		 const struct ky_bucket_query *query)
{
	const struct ky_bucket_work work = {.bucket = query->place.bucket,
					    .count = bringing->list->count,
					    .one = fetch_one,
					    .progress = show,
					    .ctx = bringing};
	const char *name = input->arguments[0];
	char why[KY_BUCKET_WHY_BYTES] = "";
	int code;

	ky_progress_step("fetching");
	if (ky_bucket_lanes_run(&work, why)) {
		ky_cli_error("%s: %s", name, why);
		return KY_EXIT_TROUBLE;
	}
	code = take(input, bringing, query);
	if (!code && !ky_cli_is_quiet())
		say_amount(bringing, name);
	return code;
}

int ky_bucket_input_fetch(struct ky_input *input, const struct ky_time_range *range)
{
	struct ky_object_list list = {.objects = NULL};
	struct bringing bringing = {.input = input, .list = &list};
	struct ky_bucket_query query;
	int code = ky_bucket_query_make(&query, input, range);

	if (!code)
		code = ky_bucket_query_list(&list, &query, input->arguments[0]);
	if (!code)
		code = check_amount(input, &list);
	if (!code) {
		bringing.range = (struct ky_fetch_range){query.from_unix_ns, query.to_unix_ns};
		bringing.brought = make_brought(&list);
		bringing.fetched = ky_alloc(list.count * sizeof(*bringing.fetched));
		input->release = bringing.brought ? release : NULL;
		input->release_ctx = bringing.brought;
		if (bringing.brought && bringing.fetched) {
			code = bring(input, &bringing, &query);
		} else {
			ky_cli_error("out of memory");
			code = KY_EXIT_TROUBLE;
		}
	}
	ky_free(bringing.fetched);
	ky_object_list_release(&list);
	return code;
}
