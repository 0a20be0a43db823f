/* SPDX-License-Identifier: Apache-2.0 OR MIT */
#include <bucket/object_list.h>

#include <base/alloc.h>
#include <base/out_text.h>
#include <base/text.h>
#include <errno.h>
#include <kymo/base.h>
#include <send/layout.h>
#include <ship/trace_file.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define HOUR_NS UINT64_C(3600000000000)
#define HOURS_MAX 48u   /* prefixes; beyond, one a day */
#define DAYS_MAX 93u    /* beyond, all at once */
#define LONGS_MAX 1024u /* hours with long segments that reach into the time */
#define STALE_PAGES_MAX 3u

struct listing {
	struct ky_object_list *list;
	struct ky_s3_client *client;
	const struct ky_bucket_query *query;
	struct ky_listing_page page;
	struct ky_buf body;
	char *why;
	uint64_t seen_count;
	char last[KY_LIST_KEY_BYTES]; /* name of this listing: they ascend */
	char **prefixes;              /* found by a listing that is cut at slashes */
	uint32_t prefix_count, prefix_capacity;
	struct ky_object_long *longs; /* hours before the time with segments that reach into it */
	uint32_t long_count, long_capacity;
};

static int fail(const struct listing *listing, int err, const char *sentence)
{
	(void)snprintf(listing->why, KY_BUCKET_WHY_BYTES, "bucket %s %s", listing->client->bucket,
		       sentence);
	return err;
}

/* ---- what is wanted ---- */

static bool is_named(const char *wanted, const char *name)
{
	return !wanted || strcmp(wanted, name) == 0;
}

static bool is_in_time(const struct ky_bucket_query *query, const struct ky_object_key *facts,
		       uint64_t end_ns)
{
	if (!facts->start_unix_ns)
		return true;
	if (query->to_unix_ns && facts->start_unix_ns >= query->to_unix_ns)
		return false;
	return !query->from_unix_ns || end_ns > query->from_unix_ns;
}

/* What began in this hour may last so long. */
static uint64_t lasts_ns(const struct listing *listing, const struct ky_object_key *facts)
{
	uint64_t hours = 1;

	for (uint32_t i = 0; i < listing->long_count; i++) {
		const struct ky_object_long *one = &listing->longs[i];

		if (one->hours > hours && facts->start_unix_ns >= one->hour_unix_ns &&
		    facts->start_unix_ns - one->hour_unix_ns < HOUR_NS &&
		    strcmp(one->service, facts->service) == 0)
			hours = one->hours;
	}
	return hours * HOUR_NS;
}

static bool is_wanted(const struct listing *listing, const struct ky_object_key *facts)
{
	const struct ky_bucket_query *query = listing->query;
	/* Closer bounds come from its neighbours, once all are known. */
	uint64_t end_ns = facts->start_unix_ns + lasts_ns(listing, facts);

	return is_named(query->service, facts->service) && is_named(query->host, facts->host) &&
	       is_in_time(query, facts, facts->end_unix_ns > end_ns ? facts->end_unix_ns : end_ns);
}

/* A server that gives a page again would never come to an end. */
static int note_name(struct listing *listing, const char *name)
{
	listing->seen_count++;
	if (strcmp(name, listing->last) <= 0)
		return fail(listing, -EIO, "answers a listing that does not continue");
	memcpy(listing->last, name, strlen(name) + 1);
	return 0;
}

static int add_object(void *ctx, const struct ky_list_entry *entry)
{
	struct listing *listing = ctx;
	struct ky_object_list *list = listing->list;
	struct ky_bucket_object *object;
	struct ky_object_key facts;
	int err = note_name(listing, entry->key);

	if (err)
		return err;
	if (!entry->bytes || !ky_object_key_read(&facts, entry->key) || !is_wanted(listing, &facts))
		return 0;
	if (list->count == KY_OBJECTS_MAX) {
		list->is_cut = true;
		return 1;
	}
	if (ky_grow(&list->objects, &list->capacity, list->count + 1, sizeof(*list->objects)))
		return -ENOMEM;
	object = &list->objects[list->count];
	object->key = ky_text_join(entry->key, "");
	if (!object->key)
		return -ENOMEM;
	memcpy(object->etag, entry->etag, sizeof(object->etag));
	object->bytes = entry->bytes;
	object->facts = facts;
	list->bytes += entry->bytes;
	list->count++;
	return 0;
}

/* A listing's entry that says where long segments are. */
static int add_long(void *ctx, const struct ky_list_entry *entry)
{
	struct listing *listing = ctx;
	const struct ky_bucket_query *query = listing->query;
	struct ky_object_long found;
	int err = note_name(listing, entry->key);

	if (err)
		return err;
	if (!ky_object_long_read(&found, entry->key) || !is_named(query->service, found.service) ||
	    found.hour_unix_ns + (found.hours + 1) * HOUR_NS <= query->from_unix_ns ||
	    (query->to_unix_ns && found.hour_unix_ns >= query->to_unix_ns))
		return 0;
	for (uint32_t i = 0; i < listing->long_count; i++) {
		struct ky_object_long *same = &listing->longs[i];

		if (same->hour_unix_ns == found.hour_unix_ns &&
		    strcmp(same->service, found.service) == 0) {
			same->hours = same->hours > found.hours ? same->hours : found.hours;
			return 0;
		}
	}
	if (listing->long_count == LONGS_MAX) {
		listing->list->is_cut = true;
		return 0;
	}
	if (ky_grow(&listing->longs, &listing->long_capacity, listing->long_count + 1,
		    sizeof(*listing->longs)))
		return -ENOMEM;
	listing->longs[listing->long_count++] = found;
	return 0;
}

static int add_prefix(void *ctx, const char *prefix)
{
	struct listing *listing = ctx;
	char *copy;
	int err = note_name(listing, prefix);

	if (err)
		return err;
	if (listing->prefix_count == KY_OBJECTS_MAX)
		return 1;
	if (ky_grow(&listing->prefixes, &listing->prefix_capacity, listing->prefix_count + 1,
		    sizeof(*listing->prefixes)))
		return -ENOMEM;
	copy = ky_text_join(prefix, "");
	if (!copy)
		return -ENOMEM;
	listing->prefixes[listing->prefix_count++] = copy;
	return 0;
}

/* ---- pages ---- */

/* One page. A server that never ends its listing, or gives what is none, is left. */
static int read_page(struct listing *listing, const char *prefix, bool is_cut_at_slash, char *token,
		     uint32_t *stale_count)
{
	struct ky_listing_page *page = &listing->page;
	uint64_t seen_before = listing->seen_count;
	int err = ky_bucket_page(listing->client, prefix, is_cut_at_slash, token, &listing->body,
				 listing->why);

	listing->list->page_count++;
	if (!err)
		err = ky_listing_page_read(page, listing->body.bytes, listing->body.used);
	listing->list->odd_count += page->odd_count;
	if (err == -ENOMEM)
		return fail(listing, err, "holds more names than there is memory for");
	if (err)
		return err;
	if (!page->is_list)
		return fail(listing, -EIO,
			    "answers something that is no listing; is AWS_ENDPOINT_URL an S3 "
			    "server?");
	*stale_count = listing->seen_count == seen_before ? *stale_count + 1 : 0;
	if (page->is_more && (!page->token[0] || *stale_count > STALE_PAGES_MAX))
		return fail(listing, -EIO, "answers a listing that does not continue");
	if (listing->seen_count > KY_LISTED_KEYS_MAX) {
		listing->list->is_cut = true;
		return 1;
	}
	memcpy(token, page->token, KY_LIST_TOKEN_BYTES);
	return 0;
}

/* object: gets the entries; NULL: the prefixes up to the next slash are wanted instead. */
static int read_pages(struct listing *listing, const char *prefix,
		      int (*object)(void *ctx, const struct ky_list_entry *entry))
{
	char token[KY_LIST_TOKEN_BYTES] = "";
	uint32_t stale_count = 0;
	int err;

	listing->page.object = object;
	listing->page.prefix = add_prefix;
	listing->page.ctx = listing;
	listing->last[0] = '\0';
	do {
		err = read_page(listing, prefix, !object, token, &stale_count);
	} while (!err && listing->page.is_more);
	return err;
}

static void drop_prefixes(struct listing *listing)
{
	for (uint32_t i = 0; i < listing->prefix_count; i++)
		ky_free(listing->prefixes[i]);
	ky_free(listing->prefixes);
	listing->prefixes = NULL;
	listing->prefix_count = listing->prefix_capacity = 0;
}

/* ---- prefixes ---- */

static unsigned hour_of(uint64_t unix_ns)
{
	return (unsigned)(unix_ns / HOUR_NS % 24);
}

/* The keys of one form, which say the hour, begin with it; host: the last part, where known. */
static void add_form(struct ky_buf *out, enum ky_object_form form, const char *service,
		     uint64_t unix_ns, bool is_hour, const char *host)
{
	if (form == KY_OBJECT_KYMO) {
		ky_out_text(out, "k1/raw/");
		ky_layout_value(out, "service", service);
		ky_layout_date(out, unix_ns);
		if (is_hour)
			ky_out_format(out, "hour=%02u/", hour_of(unix_ns));
		if (is_hour && host)
			ky_layout_value(out, "host", host);
		return;
	}
	ky_out_text(out, "version=1/");
	ky_layout_date(out, unix_ns);
	ky_layout_value(out, "service", service);
	if (is_hour)
		ky_out_format(out, "time=%02u", hour_of(unix_ns));
}

static int read_prefix(struct listing *listing, struct ky_buf *prefix)
{
	int err;

	(void)ky_buf_append(prefix, "", 1);
	err = prefix->failed ? fail(listing, -ENOMEM, "has names that there is no memory for") :
			       read_pages(listing, (const char *)prefix->bytes, add_object);
	ky_buf_release(prefix);
	return err;
}

static void begin_prefix(struct ky_buf *out, const struct listing *listing)
{
	ky_buf_init(out, 0);
	if (listing->query->place.prefix[0])
		ky_out_format(out, "%s/", listing->query->place.prefix);
}

/* A service whose time is known: what began in an hour, and in the one before, may last into it. */
static int read_hours(struct listing *listing, enum ky_object_form form, const char *service)
{
	const struct ky_bucket_query *query = listing->query;
	uint64_t from_ns = query->from_unix_ns / HOUR_NS * HOUR_NS;
	uint64_t to_ns = query->to_unix_ns;
	bool is_hour = to_ns - from_ns <= HOURS_MAX * HOUR_NS;
	uint64_t step_ns = is_hour ? HOUR_NS : 24 * HOUR_NS;
	int err = 0;

	from_ns = from_ns > HOUR_NS ? from_ns - HOUR_NS : 0;
	from_ns = from_ns / step_ns * step_ns;
	for (; !err && from_ns < to_ns; from_ns += step_ns) {
		struct ky_buf prefix;

		begin_prefix(&prefix, listing);
		add_form(&prefix, form, service, from_ns, is_hour, query->host);
		err = read_prefix(listing, &prefix);
	}
	return err;
}

static bool is_bounded(const struct ky_bucket_query *query)
{
	return query->from_unix_ns && query->to_unix_ns &&
	       query->to_unix_ns - query->from_unix_ns <= DAYS_MAX * 24 * HOUR_NS;
}

/* Services of the kymo form are the first thing that its keys say: they can be listed. */
static int read_services(struct listing *listing)
{
	struct ky_buf prefix;
	uint32_t found;
	int err;

	begin_prefix(&prefix, listing);
	ky_out_text(&prefix, "k1/raw/service=");
	(void)ky_buf_append(&prefix, "", 1);
	err = prefix.failed ? -ENOMEM : read_pages(listing, (const char *)prefix.bytes, NULL);
	found = listing->prefix_count;
	for (uint32_t i = 0; !err && i < found; i++) {
		char service[KY_OBJECT_SERVICE_BYTES];

		if (ky_object_service_read(service, listing->prefixes[i] + prefix.used - 1))
			err = read_hours(listing, KY_OBJECT_KYMO, service);
		else
			listing->list->odd_count++;
	}
	drop_prefixes(listing);
	ky_buf_release(&prefix);
	return err;
}

static int read_below(struct listing *listing, const char *below)
{
	struct ky_buf prefix;

	begin_prefix(&prefix, listing);
	ky_out_text(&prefix, below);
	return read_prefix(listing, &prefix);
}

/* All of a form; by days where the time is known. */
static int read_form(struct listing *listing, enum ky_object_form form)
{
	const struct ky_bucket_query *query = listing->query;
	struct ky_buf prefix;
	int err = 0;

	if (is_bounded(query) && query->service)
		return read_hours(listing, form, query->service);
	if (form == KY_OBJECT_KYMO) {
		if (is_bounded(query))
			return read_services(listing);
		begin_prefix(&prefix, listing);
		ky_out_text(&prefix, "k1/raw/");
		if (query->service)
			ky_layout_value(&prefix, "service", query->service);
		return read_prefix(listing, &prefix);
	}
	if (!is_bounded(query))
		return read_below(listing, "version=1/");
	for (uint64_t day = (query->from_unix_ns - HOUR_NS) / (24 * HOUR_NS);
	     !err && day * 24 * HOUR_NS < query->to_unix_ns; day++) {
		begin_prefix(&prefix, listing);
		ky_out_text(&prefix, "version=1/");
		ky_layout_date(&prefix, day * 24 * HOUR_NS);
		err = read_prefix(listing, &prefix);
	}
	return err;
}

/* ---- what lasts longer than an hour ---- */

/* Which hours before the time have something that reaches into it. */
static int read_longs(struct listing *listing)
{
	const struct ky_bucket_query *query = listing->query;
	struct ky_buf prefix;
	int err;

	if (!query->from_unix_ns)
		return 0;
	begin_prefix(&prefix, listing);
	ky_out_text(&prefix, "k1/long/");
	if (query->service)
		ky_layout_value(&prefix, "service", query->service);
	(void)ky_buf_append(&prefix, "", 1);
	err = prefix.failed ? -ENOMEM : read_pages(listing, (const char *)prefix.bytes, add_long);
	ky_buf_release(&prefix);
	return err;
}

/* Those hours; what is found twice counts once. */
static int read_long_hours(struct listing *listing)
{
	const struct ky_bucket_query *query = listing->query;
	int err = 0;

	for (uint32_t i = 0; !err && i < 2 * listing->long_count && is_bounded(query); i++) {
		const struct ky_object_long *one = &listing->longs[i / 2];
		struct ky_buf prefix;

		begin_prefix(&prefix, listing);
		add_form(&prefix, i % 2 ? KY_OBJECT_DIAL9 : KY_OBJECT_KYMO, one->service,
			 one->hour_unix_ns, true, query->host);
		err = read_prefix(listing, &prefix);
	}
	return err;
}

/* ---- the list ---- */

static int in_order(const void *left, const void *right)
{
	const struct ky_bucket_object *a = left, *b = right;
	int order = strcmp(a->facts.service, b->facts.service);

	if (!order)
		order = strcmp(a->facts.host, b->facts.host);
	if (!order)
		order = strcmp(a->facts.run, b->facts.run);
	if (!order && a->facts.number != b->facts.number)
		order = a->facts.number < b->facts.number ? -1 : 1;
	if (!order && a->facts.form != b->facts.form)
		order = a->facts.form > b->facts.form ? -1 : 1; /* the one with an index first */
	return order ? order : strcmp(a->key, b->key);
}

bool ky_object_is_of_run(const struct ky_bucket_object *one, const struct ky_bucket_object *other)
{
	const struct ky_object_key *a = &one->facts, *b = &other->facts;

	return a->form != KY_OBJECT_PLAIN && b->form != KY_OBJECT_PLAIN &&
	       strcmp(a->service, b->service) == 0 && strcmp(a->host, b->host) == 0 &&
	       strcmp(a->run, b->run) == 0;
}

static bool is_next_of(const struct ky_bucket_object *one, const struct ky_bucket_object *next)
{
	return next->facts.number == one->facts.number + 1 && next->facts.start_unix_ns &&
	       next->facts.start_unix_ns >= one->facts.start_unix_ns &&
	       ky_object_is_of_run(one, next);
}

static void drop_object(struct ky_object_list *list, const struct ky_bucket_object *object)
{
	list->bytes -= object->bytes;
	ky_free(object->key);
}

/* Two listings gave the same key, or the segment was sent in both layouts. */
static bool is_double(const struct ky_bucket_object *one, const struct ky_bucket_object *before)
{
	return strcmp(one->key, before->key) == 0 ||
	       (one->facts.form == KY_OBJECT_DIAL9 && before->facts.form == KY_OBJECT_KYMO &&
		one->facts.number == before->facts.number && ky_object_is_of_run(one, before));
}

/* A segment whose key says no end ends where the next of its run begins: dial9's say seconds. */
static void narrow(struct ky_object_list *list, const struct ky_bucket_query *query)
{
	uint32_t kept = 0;

	for (uint32_t i = 0; i < list->count; i++) {
		if (kept && is_double(&list->objects[i], &list->objects[kept - 1]))
			drop_object(list, &list->objects[i]);
		else
			list->objects[kept++] = list->objects[i];
	}
	list->count = kept;
	kept = 0;
	for (uint32_t i = 0; i < list->count; i++) {
		struct ky_bucket_object *one = &list->objects[i];

		if (!one->facts.end_unix_ns && i + 1 < list->count &&
		    is_next_of(one, &list->objects[i + 1]))
			one->facts.end_unix_ns = list->objects[i + 1].facts.start_unix_ns +
						 UINT64_C(1000000000);
		if (is_in_time(query, &one->facts,
			       one->facts.end_unix_ns ? one->facts.end_unix_ns : UINT64_MAX))
			list->objects[kept++] = *one;
		else
			drop_object(list, one);
	}
	list->count = kept;
}

static int read_all(struct listing *listing)
{
	const struct ky_bucket_query *query = listing->query;
	struct ky_object_list *list = listing->list;
	int err;

	/* One object, by its whole name. */
	if (query->place.prefix[0] && ky_trace_file_suffix(query->place.prefix)) {
		err = read_pages(listing, query->place.prefix, add_object);
		if (err || list->count)
			return err;
	}
	err = read_longs(listing);
	if (!err)
		err = read_long_hours(listing);
	if (!err)
		err = read_form(listing, KY_OBJECT_KYMO);
	if (!err)
		err = read_form(listing, KY_OBJECT_DIAL9);
	/* Traces that someone put there by hand have no service, host or time in their names. */
	if (!err && !list->count && !query->service && !query->host && !query->from_unix_ns &&
	    !query->to_unix_ns)
		err = read_below(listing, "");
	return err;
}

int ky_object_list_read(struct ky_object_list *list, struct ky_s3_client *client,
			const struct ky_bucket_query *query, char *why)
{
	struct listing *listing = ky_alloc(sizeof(*listing)); /* too large for a stack */
	int err;

	if (!listing) {
		(void)snprintf(why, KY_BUCKET_WHY_BYTES, "out of memory");
		return -ENOMEM;
	}
	listing->list = list;
	listing->client = client;
	listing->query = query;
	listing->why = why;
	ky_buf_init(&listing->body, KY_BUCKET_PAGE_BYTES_MAX);
	err = read_all(listing);
	ky_buf_release(&listing->body);
	drop_prefixes(listing);
	ky_free(listing->longs);
	ky_free(listing);
	if (err < 0)
		return err;
	if (list->count)
		qsort(list->objects, list->count, sizeof(*list->objects), in_order);
	narrow(list, query);
	return 0;
}

void ky_object_list_release(struct ky_object_list *list)
{
	for (uint32_t i = 0; i < list->count; i++)
		ky_free(list->objects[i].key);
	ky_free(list->objects);
	*list = (struct ky_object_list){.objects = NULL};
}
