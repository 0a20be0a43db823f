/* SPDX-License-Identifier: Apache-2.0 OR MIT */
#include <send/s3_stage.h>

#include <base/alloc.h>
#include <base/now.h>
#include <errno.h>
#include <inttypes.h>
#include <kymo/base.h>
#include <send/s3_body.h>
#include <send/s3_client.h>
#include <ship/sent_list.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#define ROUNDS_MAX 8u /* tries at once, of all kinds, for one segment */
#define LOCAL_TROUBLE_NS UINT64_C(10000000000)

_Static_assert(KY_HTTP_ERROR_BYTES == KYMO_STAGE_REASON_BYTES, "sentences fit into reasons");

struct s3_stage {
	struct ky_s3_client client;
	struct ky_s3_place place;
	enum ky_layout layout;
	struct ky_retry retry;
	struct ky_http_answer answer;
	/* of the segment that was offered last, unless it was taken */
	char current[192];
	struct ky_s3_body body;
	struct ky_buf key;
	struct ky_sent_list long_noted; /* objects that name long segments, in memory alone */
	char name[KY_S3_BUCKET_BYTES + KY_S3_PREFIX_BYTES + 32];
};

static void answer_taken(struct kymo_stage_result *result)
{
	result->answer = KYMO_STAGE_TAKEN;
	result->reason[0] = '\0'; /* of a try before */
}

static void refuse(struct kymo_stage_result *result, const char *reason)
{
	result->answer = KYMO_STAGE_REFUSED;
	snprintf(result->reason, sizeof(result->reason), "%s", reason);
}

static void forget(struct s3_stage *stage)
{
	ky_s3_body_release(&stage->body);
	stage->current[0] = '\0';
}

/* Makes body and key, unless they are this segment's already. False: result says why not. */
static bool prepare(struct s3_stage *stage, const struct kymo_segment *segment,
		    struct kymo_stage_result *result)
{
	char which[sizeof(stage->current)];
	size_t name_bytes = strlen(segment->name);
	bool is_packed = name_bytes > 3 && strcmp(segment->name + name_bytes - 3, ".gz") == 0;
	int err;

	snprintf(which, sizeof(which), "%s/%s/%s", segment->service, segment->run, segment->name);
	if (strcmp(which, stage->current) == 0) {
		if (!stage->body.is_own)
			stage->body.fd = segment->fd;
		return true;
	}
	forget(stage);
	ky_buf_clear(&stage->key);
	err = ky_layout_key(&stage->key, stage->layout, stage->place.prefix, segment);
	if (err == KYMO_E_LIMIT) {
		refuse(result, "its name in the bucket would have more than 1,024 bytes");
		return false;
	}
	if (!err)
		err = ky_s3_body_make(&stage->body, segment,
				      stage->layout == KY_LAYOUT_DIAL9 && !is_packed);
	if (!err) {
		memcpy(stage->current, which, sizeof(which));
		return true;
	}
	if (err <= -4097) {
		snprintf(result->reason, sizeof(result->reason), "cannot be read: %s",
			 kymo_error_text(err));
		result->answer = KYMO_STAGE_REFUSED;
		return false;
	}
	snprintf(result->reason, sizeof(result->reason), "cannot be prepared: %s",
		 kymo_error_text(err));
	result->answer = KYMO_STAGE_AGAIN;
	result->again_ns = LOCAL_TROUBLE_NS;
	return false;
}

static int put_object(struct s3_stage *stage, const struct kymo_segment *segment)
{
	char number[24], start[24];
	struct ky_sigv4_pair headers[10] = {
		{"content-type", ky_layout_type(stage->layout, segment)},
		{"if-none-match", "*"},
		{"x-amz-meta-kymo-sha256", stage->body.sha256},
		{"x-amz-meta-service", segment->service},
		{"x-amz-meta-boot-id", segment->boot},
		{"x-amz-meta-segment-index", number},
		{"x-amz-meta-start-time", start},
	};
	size_t count = 7;
	struct ky_s3_request request = {.method = "PUT",
					.key = (const char *)stage->key.bytes,
					.headers = headers,
					.body_fd = stage->body.fd,
					.body_bytes = stage->body.bytes,
					.sha256 = stage->body.sha256,
					.crc32c = stage->body.crc32c};

	if (segment->host[0])
		headers[count++] = (struct ky_sigv4_pair){"x-amz-meta-host", segment->host};
	if (segment->origin[0])
		headers[count++] = (struct ky_sigv4_pair){"x-amz-meta-kymo-origin",
							  segment->origin};
	if (segment->dump_id[0])
		headers[count++] = (struct ky_sigv4_pair){"x-amz-meta-dump-id", segment->dump_id};
	request.header_count = count;
	snprintf(number, sizeof(number), "%" PRIu64, segment->number);
	snprintf(start, sizeof(start), "%" PRIu64, segment->start_unix_ns / 1000000000u);
	return ky_s3_client_do(&stage->client, &request, &stage->answer);
}

/* Says that a dump is whole, so it comes last. One that stands there is this dump's. */
static enum ky_verdict put_manifest(struct s3_stage *stage, const struct kymo_segment *segment)
{
	const struct ky_sigv4_pair headers[] = {{"content-type", "application/json"},
						{"if-none-match", "*"}};
	struct ky_s3_request request = {
		.method = "PUT", .headers = headers, .header_count = 2, .body_fd = -1};
	enum ky_verdict verdict = KY_VERDICT_AGAIN;
	char sha[KY_SHA256_HEX_BYTES], code[64];
	struct ky_buf key, text;
	int err;

	ky_buf_init(&key, 0);
	ky_buf_init(&text, 0);
	err = ky_layout_manifest_key(&key, stage->layout, stage->place.prefix, segment->dump_id);
	if (!err)
		err = ky_layout_manifest(&text, segment, (const char *)stage->key.bytes);
	if (!err) {
		ky_sigv4_sha256(sha, text.bytes, text.used);
		request.key = (const char *)key.bytes;
		request.body = text.bytes;
		request.body_bytes = text.used;
		request.sha256 = sha;
		err = ky_s3_client_do(&stage->client, &request, &stage->answer);
	}
	if (!err)
		verdict = ky_s3_client_judge(&stage->answer, code);
	ky_buf_release(&key);
	ky_buf_release(&text);
	return verdict == KY_VERDICT_EXISTS ? KY_VERDICT_TAKEN : verdict;
}

/* Before the segment, so that whoever finds that finds this. What the bucket does not allow here
 * costs readers of a time, not the segment: TAKEN, and a note for the segment's own success. */
static enum ky_verdict put_long(struct s3_stage *stage, const struct kymo_segment *segment,
				char note[KYMO_STAGE_REASON_BYTES])
{
	const struct ky_sigv4_pair headers[] = {{"if-none-match", "*"}};
	struct ky_s3_request request = {.method = "PUT",
					.headers = headers,
					.header_count = 1,
					.body_fd = -1,
					.body = (const uint8_t *)""};
	enum ky_verdict verdict = KY_VERDICT_TAKEN;
	char code[64], sha[KY_SHA256_HEX_BYTES];
	struct ky_buf key;
	int err;

	ky_buf_init(&key, 0);
	err = ky_layout_long_key(&key, stage->place.prefix, segment);
	request.key = (const char *)key.bytes;
	if (!err && key.used && !ky_sent_list_has(&stage->long_noted, request.key)) {
		ky_sigv4_sha256(sha, "", 0);
		request.sha256 = sha;
		err = ky_s3_client_do(&stage->client, &request, &stage->answer);
		verdict = err ? KY_VERDICT_AGAIN : ky_s3_client_judge(&stage->answer, code);
		if (verdict == KY_VERDICT_DENIED || verdict == KY_VERDICT_REFUSED) {
			snprintf(note, KYMO_STAGE_REASON_BYTES,
				 "it lasts longer than an hour, and the object that says so is "
				 "refused (%ld %s): who asks for a time late in it does not find "
				 "it",
				 stage->answer.status, code);
			verdict = KY_VERDICT_TAKEN;
		}
		if (verdict == KY_VERDICT_EXISTS)
			verdict = KY_VERDICT_TAKEN;
		if (verdict == KY_VERDICT_TAKEN)
			(void)ky_sent_list_refuse(&stage->long_noted, request.key);
	}
	ky_buf_release(&key);
	return verdict;
}

static int head_object(struct s3_stage *stage)
{
	const struct ky_s3_request request = {
		.method = "HEAD", .key = (const char *)stage->key.bytes, .body_fd = -1};

	return ky_s3_client_do(&stage->client, &request, &stage->answer);
}

static bool is_ours(const struct s3_stage *stage, const struct kymo_segment *segment)
{
	const struct ky_http_answer *there = &stage->answer;

	if (segment->origin[0] && strcmp(there->origin, segment->origin) == 0)
		return true;
	return strcmp(there->digest, stage->body.sha256) == 0 && there->length == stage->body.bytes;
}

/* An object stands there. Returns the verdict that holds then. */
static enum ky_verdict compare(struct s3_stage *stage, const struct kymo_segment *segment,
			       struct kymo_stage_result *result)
{
	char code[64];
	int err = head_object(stage);

	if (err || stage->answer.status != 200)
		return err                         ? KY_VERDICT_AGAIN :
		       stage->answer.status == 404 ? KY_VERDICT_AGAIN :
						     ky_s3_client_judge(&stage->answer, code);
	if (is_ours(stage, segment))
		return KY_VERDICT_TAKEN;
	snprintf(result->reason, sizeof(result->reason),
		 "another object has its name in bucket %s, and is left as it is",
		 stage->place.bucket);
	return KY_VERDICT_REFUSED;
}

static void settle(struct s3_stage *stage, enum ky_verdict verdict,
		   struct kymo_stage_result *result)
{
	uint64_t now_ns = ky_now_ns(CLOCK_MONOTONIC);

	if (verdict == KY_VERDICT_TAKEN || verdict == KY_VERDICT_REFUSED) {
		ky_retry_succeeded(&stage->retry);
		forget(stage);
		if (verdict == KY_VERDICT_TAKEN)
			answer_taken(result);
		else if (!result->reason[0])
			ky_s3_client_say(&stage->client, &stage->answer, result->reason,
					 sizeof(result->reason));
		return;
	}
	ky_s3_client_say(&stage->client, &stage->answer, result->reason, sizeof(result->reason));
	ky_retry_failed(&stage->retry, verdict, stage->answer.after_ns, now_ns);
	result->answer = KYMO_STAGE_AGAIN;
	result->again_ns = stage->retry.due_ns > now_ns ? stage->retry.due_ns - now_ns : 0;
}

static void take(void *ctx, const struct kymo_segment *segment, struct kymo_stage_result *result)
{
	struct s3_stage *stage = ctx;
	enum ky_verdict verdict = KY_VERDICT_AGAIN;
	char code[64], note[KYMO_STAGE_REASON_BYTES] = "";

	if (!prepare(stage, segment, result))
		return;
	for (uint32_t round = 0; round < ROUNDS_MAX; round++) {
		int err = 0;

		result->reason[0] = '\0';
		verdict = put_long(stage, segment, note);
		if (verdict == KY_VERDICT_TAKEN) {
			err = put_object(stage, segment);
			verdict = err ? KY_VERDICT_AGAIN : ky_s3_client_judge(&stage->answer, code);
		}
		if (verdict == KY_VERDICT_EXISTS)
			verdict = compare(stage, segment, result);
		if (verdict == KY_VERDICT_TAKEN && segment->dump_id[0])
			verdict = put_manifest(stage, segment);
		result->answer = KYMO_STAGE_REFUSED;
		if (!err)
			ky_s3_client_learn(&stage->client, verdict, &stage->answer);
		settle(stage, verdict, result);
		if (result->answer == KYMO_STAGE_TAKEN)
			memcpy(result->reason, note, sizeof(note));
		if (result->answer != KYMO_STAGE_AGAIN || result->again_ns)
			return;
	}
	result->again_ns = LOCAL_TROUBLE_NS;
}

static int open_stage(void *ctx, char *errbuf, size_t errbuf_bytes)
{
	struct s3_stage *stage = ctx;
	char why[KY_HTTP_ERROR_BYTES] = "out of memory";
	int err = ky_s3_client_open(&stage->client, stage->place.bucket, why);

	if (err)
		snprintf(errbuf, errbuf_bytes, "%s", why);
	return err;
}

static void finish(void *ctx, uint64_t deadline_ns)
{
	struct s3_stage *stage = ctx;

	if (stage->client.http)
		ky_http_client_stop_at(stage->client.http, deadline_ns);
}

static void close_stage(void *ctx)
{
	struct s3_stage *stage = ctx;

	if (!stage)
		return;
	forget(stage);
	ky_s3_client_close(&stage->client);
	ky_sent_list_close(&stage->long_noted);
	ky_buf_release(&stage->key);
	ky_buf_release(&stage->answer.body);
	ky_free(stage);
}

int ky_s3_stage_make(struct kymo_segment_stage *out, const char *url, enum ky_layout layout,
		     char *why)
{
	struct s3_stage *stage = ky_alloc(sizeof(*stage));
	int err;

	if (!stage)
		return -ENOMEM;
	stage->body.fd = stage->long_noted.fd = -1;
	ky_buf_init(&stage->key, 0);
	ky_buf_init(&stage->answer.body, 0);
	err = ky_s3_place_parse(&stage->place, url, why);
	if (err) {
		close_stage(stage);
		return err;
	}
	stage->layout = layout;
	stage->retry.random = ky_now_ns(CLOCK_REALTIME) ^ (uint64_t)getpid() << 32;
	/* Another layout gives other objects, so it is another destination. */
	snprintf(stage->name, sizeof(stage->name), "s3://%s%s%s%s", stage->place.bucket,
		 stage->place.prefix[0] ? "/" : "", stage->place.prefix,
		 layout == KY_LAYOUT_KYMO ? " (layout kymo)" : "");
	*out = (struct kymo_segment_stage){.size = sizeof(*out),
					   .name = stage->name,
					   .ctx = stage,
					   .open = open_stage,
					   .take = take,
					   .finish = finish,
					   .close = close_stage};
	return 0;
}
