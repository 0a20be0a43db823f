/* SPDX-License-Identifier: Apache-2.0 OR MIT */
#include <send/push.h>

#include <base/alloc.h>
#include <base/now.h>
#include <errno.h>
#include <kymo/base.h>
#include <send/http_client.h>
#include <send/push_answer.h>
#include <ship/compressor.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#define SECRET_BYTES_MIN 4u /* a shorter word is none, and hides too much */
#define GZIP_LEVEL 6
#define OWN_HEADERS 3u

_Static_assert(KY_HTTP_ERROR_BYTES == KY_PUSH_WHY_BYTES, "one size of sentences");

struct ky_push {
	struct ky_http_client *http;
	const struct ky_push_target *target;
	struct ky_http_answer answer;
	struct ky_retry retry;
};

static int append(void *ctx, const uint8_t *bytes, size_t count)
{
	return ky_buf_append(ctx, bytes, count);
}

static int pack(struct ky_push_body *body)
{
	struct ky_compressor_factory factory;
	struct ky_compressor gzip;
	struct ky_buf packed;
	int result;

	ky_compressor_gzip(&factory, GZIP_LEVEL);
	result = factory.open(&factory, &gzip);
	if (result)
		return result;
	ky_buf_init(&packed, 0);
	result = gzip.write(gzip.self, body->bytes.bytes, body->bytes.used, append, &packed);
	if (!result)
		result = gzip.finish(gzip.self, append, &packed);
	gzip.close(gzip.self);
	if (result) {
		ky_buf_release(&packed);
		return result;
	}
	ky_buf_release(&body->bytes);
	body->bytes = packed;
	body->is_packed = true;
	return 0;
}

static int post(struct ky_push *push, const struct ky_push_body *body)
{
	const struct ky_push_place *place = &push->target->places[body->signal];
	const char *headers[KY_PUSH_HEADERS_MAX + OWN_HEADERS];
	size_t count = 0;

	headers[count++] = body->signal == KY_PUSH_PPROF ? "Content-Type: application/proto" :
							   "Content-Type: application/x-protobuf";
	headers[count++] = "User-Agent: kymo/" KYMO_VERSION_STRING;
	if (body->is_packed)
		headers[count++] = "Content-Encoding: gzip";
	for (uint32_t i = 0; i < place->header_count; i++)
		headers[count++] = place->headers[i];
	return ky_http_client_do(push->http,
				 &(struct ky_http_request){.method = "POST",
							   .url = place->url,
							   .headers = headers,
							   .header_count = count,
							   .body_fd = -1,
							   .body = body->bytes.bytes,
							   .body_bytes = body->bytes.used,
							   .total_ms_max = place->timeout_ms},
				 &push->answer);
}

/* The words of the protocol: 429, 502, 503 and 504 pass, 400 is for good. Beside them what retry.h
 * says of others, which keeps a segment that a person can still send. */
static enum ky_verdict judge(long status)
{
	enum ky_verdict verdict = ky_retry_judge(status, "");

	if (status == 400 || status == 422)
		return KY_VERDICT_REFUSED;
	if (verdict == KY_VERDICT_EXISTS || verdict == KY_VERDICT_REDIRECT)
		return KY_VERDICT_DENIED;
	return verdict;
}

/* A receiver that says what it got back says a token. word: what of a header is looked for. */
static void hide(char *text, const char *word)
{
	size_t bytes = strlen(word);
	char *found;

	while (bytes >= SECRET_BYTES_MIN && (found = strstr(text, word)) != NULL)
		memset(found, '*', bytes);
}

static void hide_secrets(const struct ky_push_place *place, char *text)
{
	for (uint32_t i = 0; i < place->header_count; i++) {
		const char *value = strstr(place->headers[i], ": ");
		const char *last = strrchr(place->headers[i], ' ');

		if (value)
			hide(text, value + 2);
		if (last)
			hide(text, last + 1);
	}
}

static void say(const struct ky_push *push, const struct ky_push_place *place, char *why)
{
	const struct ky_http_answer *answer = &push->answer;
	char text[80];

	if (!answer->status) {
		(void)snprintf(why, KY_PUSH_WHY_BYTES, "no answer of %.120s: %.110s", place->url,
			       answer->error);
	} else if (answer->status >= 300 && answer->status < 400) {
		(void)snprintf(why, KY_PUSH_WHY_BYTES,
			       "%.100s answers %ld and leads to another address, which is not "
			       "followed: name the right one",
			       place->url, answer->status);
	} else {
		ky_push_answer_text(answer->body.bytes, answer->body.used, text, sizeof(text));
		hide_secrets(place, text);
		(void)snprintf(why, KY_PUSH_WHY_BYTES, "%.120s answers %ld%s%s", place->url,
			       answer->status, text[0] ? ": " : "", text);
	}
}

static enum ky_verdict send_one(struct ky_push *push, struct ky_push_body *body, uint64_t *rejected,
				char *why)
{
	const struct ky_push_place *place = &push->target->places[body->signal];
	enum ky_verdict verdict;
	int result = 0;

	if (!place->is_plain && !body->is_packed)
		result = pack(body);
	if (!result)
		result = post(push, body);
	if (result) {
		(void)snprintf(why, KY_PUSH_WHY_BYTES, "cannot be prepared: %s",
			       kymo_error_text(result));
		push->answer.after_ns = 0;
		return KY_VERDICT_AGAIN;
	}
	verdict = judge(push->answer.status);
	if (verdict == KY_VERDICT_TAKEN && body->signal != KY_PUSH_PPROF)
		*rejected += ky_push_answer_rejected(push->answer.body.bytes,
						     push->answer.body.used);
	else if (verdict != KY_VERDICT_TAKEN)
		say(push, place, why);
	return verdict;
}

enum ky_verdict ky_push_send(struct ky_push *push, struct ky_push_body *bodies, uint32_t count,
			     const struct ky_push_arrival *arrival, uint64_t *due_ns,
			     uint64_t *rejected, char *why)
{
	enum ky_verdict all = KY_VERDICT_TAKEN;

	*rejected = 0;
	for (uint32_t i = 0; i < count; i++) {
		enum ky_verdict verdict = KY_VERDICT_TAKEN;

		bool is_to_send = !bodies[i].is_sent && bodies[i].bytes.used &&
				  !push->target->places[bodies[i].signal].is_off;

		if (is_to_send)
			verdict = send_one(push, &bodies[i], rejected, why);
		if (verdict == KY_VERDICT_TAKEN) {
			if (is_to_send && arrival)
				arrival->arrived(arrival->ctx, bodies[i].signal);
			bodies[i].is_sent = true;
			ky_retry_succeeded(&push->retry);
			continue;
		}
		if (verdict == KY_VERDICT_REFUSED) { /* the others may be wanted */
			ky_retry_succeeded(&push->retry);
			all = verdict;
			continue;
		}
		ky_retry_failed(&push->retry, verdict, push->answer.after_ns,
				ky_now_ns(CLOCK_MONOTONIC));
		*due_ns = push->retry.due_ns;
		return KY_VERDICT_AGAIN;
	}
	return all;
}

void ky_push_stop_at(struct ky_push *push, uint64_t deadline_ns)
{
	ky_http_client_stop_at(push->http, deadline_ns);
}

int ky_push_open(struct ky_push **out, const struct ky_push_target *target, char *why)
{
	struct ky_push *push = ky_alloc(sizeof(*push));
	int result;

	*out = NULL;
	if (!push)
		return -ENOMEM;
	push->target = target;
	push->retry.random = ky_now_ns(CLOCK_REALTIME) ^ (uint64_t)getpid() << 32;
	ky_buf_init(&push->answer.body, 0);
	result = ky_http_client_open(&push->http, why);
	if (result) {
		ky_push_close(push);
		return result;
	}
	*out = push;
	return 0;
}

void ky_push_close(struct ky_push *push)
{
	if (!push)
		return;
	ky_http_client_close(push->http);
	ky_buf_release(&push->answer.body);
	ky_free(push);
}
