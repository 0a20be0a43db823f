/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* The macros of curl.h that check types would call what is loaded late by name. */
#define CURL_DISABLE_TYPECHECK
#include <send/http_client.h>

#include <base/alloc.h>
#include <base/library.h>
#include <base/now.h>
#include <curl/curl.h>
#include <errno.h>
#include <kymo/base.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <unistd.h>

#undef curl_easy_setopt
#undef curl_easy_getinfo

#define ANSWER_BYTES_MAX (64u << 10)
#define CONNECT_MS 10000
#define TOTAL_MS 60000
#define BYTES_PER_MS 64
#define STALL_S 30L
#define EXPECT_BYTES (1u << 20) /* below, to ask first costs more than to send */
#define UPLOAD_BUFFER_BYTES (128L << 10)

/* ---- libcurl ---- */

static struct {
	CURLcode (*global_init)(long flags);
	CURL *(*easy_init)(void);
	void (*easy_cleanup)(CURL *easy);
	void (*easy_reset)(CURL *easy);
	CURLcode (*easy_setopt)(CURL *easy, CURLoption option, ...);
	CURLcode (*easy_perform)(CURL *easy);
	CURLcode (*easy_getinfo)(CURL *easy, CURLINFO info, ...);
	const char *(*easy_strerror)(CURLcode code);
	struct curl_slist *(*slist_append)(struct curl_slist *list, const char *text);
	void (*slist_free_all)(struct curl_slist *list);
	time_t (*getdate)(const char *text, const time_t *unused);
	bool is_loaded;
} curl;

static pthread_once_t load_once = PTHREAD_ONCE_INIT;

static void load(void)
{
	static const char *const names[] = {"libcurl-gnutls.so.4", "libcurl.so.4"};
	static const struct ky_library_function wanted[] = {
		{&curl.global_init, "curl_global_init"},
		{&curl.easy_init, "curl_easy_init"},
		{&curl.easy_cleanup, "curl_easy_cleanup"},
		{&curl.easy_reset, "curl_easy_reset"},
		{&curl.easy_setopt, "curl_easy_setopt"},
		{&curl.easy_perform, "curl_easy_perform"},
		{&curl.easy_getinfo, "curl_easy_getinfo"},
		{&curl.easy_strerror, "curl_easy_strerror"},
		{&curl.slist_append, "curl_slist_append"},
		{&curl.slist_free_all, "curl_slist_free_all"},
		{&curl.getdate, "curl_getdate"},
	};
	void *library = NULL;

	for (size_t i = 0; !library && i < sizeof(names) / sizeof(names[0]); i++)
		library = dlopen(names[i], RTLD_NOW | RTLD_LOCAL);
	curl.is_loaded = ky_library_find(library, wanted, sizeof(wanted) / sizeof(wanted[0])) &&
			 curl.global_init(CURL_GLOBAL_DEFAULT) == CURLE_OK;
}

/* ---- one request ---- */

struct ky_http_client {
	CURL *easy;
	uint64_t deadline_ns; /* atomic */
	/* of the request that runs */
	const struct ky_http_request *request;
	struct ky_http_answer *answer;
	uint64_t sent_bytes;
	int read_error;
};

static size_t read_body(char *out, size_t size, size_t count, void *ctx)
{
	struct ky_http_client *http = ctx;
	const struct ky_http_request *request = http->request;
	uint64_t left = request->body_bytes - http->sent_bytes;
	size_t wanted = size * count;
	ssize_t got;

	if (wanted > left)
		wanted = (size_t)left;
	if (!wanted)
		return 0;
	if (request->body) {
		memcpy(out, request->body + http->sent_bytes, wanted);
		got = (ssize_t)wanted;
	} else {
		got = pread(request->body_fd, out, wanted, (off_t)http->sent_bytes);
	}
	if (got <= 0) {
		http->read_error = got < 0 ? errno : EIO; /* it became shorter */
		return CURL_READFUNC_ABORT;
	}
	http->sent_bytes += (uint64_t)got;
	return (size_t)got;
}

static int seek_body(void *ctx, curl_off_t offset, int origin)
{
	struct ky_http_client *http = ctx;

	if (origin != SEEK_SET || offset < 0)
		return CURL_SEEKFUNC_CANTSEEK;
	http->sent_bytes = (uint64_t)offset;
	return CURL_SEEKFUNC_OK;
}

static size_t take_body(char *bytes, size_t size, size_t count, void *ctx)
{
	struct ky_http_client *http = ctx;
	size_t most = http->request->answer_bytes_max ? http->request->answer_bytes_max :
							ANSWER_BYTES_MAX;
	size_t room = most - http->answer->body.used, wanted = size * count;

	if (ky_buf_append(&http->answer->body, bytes, wanted < room ? wanted : room))
		return 0;
	http->answer->is_cut = wanted > room;
	return http->answer->is_cut ? 0 : wanted;
}

/* The value of `name` when the line is that header. */
static bool header_is(const char *line, size_t count, const char *name, char *out, size_t capacity)
{
	size_t name_bytes = strlen(name);

	if (count <= name_bytes || strncasecmp(line, name, name_bytes) != 0 ||
	    line[name_bytes] != ':')
		return false;
	line += name_bytes + 1;
	count -= name_bytes + 1;
	while (count && (*line == ' ' || *line == '\t')) {
		line++;
		count--;
	}
	while (count &&
	       (line[count - 1] == '\r' || line[count - 1] == '\n' || line[count - 1] == ' '))
		count--;
	if (count >= capacity)
		count = capacity - 1;
	memcpy(out, line, count);
	out[count] = '\0';
	return true;
}

static size_t take_header(char *line, size_t size, size_t count, void *ctx)
{
	struct ky_http_client *http = ctx;
	struct ky_http_answer *answer = http->answer;
	size_t all = size * count;
	char text[64];

	if (header_is(line, all, "date", text, sizeof(text))) {
		time_t seconds = curl.getdate(text, NULL);

		answer->date_ns = seconds > 0 ? (uint64_t)seconds * 1000000000u : 0;
	} else if (header_is(line, all, "retry-after", text, sizeof(text))) {
		uint64_t seconds = strtoull(text, NULL, 10);

		answer->after_ns = (seconds < 3600 ? seconds : 3600) * 1000000000u;
	} else if (header_is(line, all, "content-range", text, sizeof(text))) {
		if (strncmp(text, "bytes ", 6) == 0 && text[6] >= '0' && text[6] <= '9')
			answer->range_from = strtoull(text + 6, NULL, 10);
	} else if (header_is(line, all, "content-length", text, sizeof(text))) {
		answer->length = strtoull(text, NULL, 10);
	} else if (!header_is(line, all, "x-amz-bucket-region", answer->region,
			      sizeof(answer->region)) &&
		   !header_is(line, all, "x-amz-meta-kymo-sha256", answer->digest,
			      sizeof(answer->digest)) &&
		   !header_is(line, all, "x-amz-meta-kymo-origin", answer->origin,
			      sizeof(answer->origin)) &&
		   !header_is(line, all, "etag", answer->etag, sizeof(answer->etag))) {
		(void)header_is(line, all, "location", answer->location, sizeof(answer->location));
	}
	return all;
}

bool ky_http_client_is_stopped(const struct ky_http_client *http)
{
	return ky_now_ns(CLOCK_MONOTONIC) >= __atomic_load_n(&http->deadline_ns, __ATOMIC_RELAXED);
}

static int watch(void *ctx, curl_off_t a, curl_off_t b, curl_off_t c, curl_off_t d)
{
	(void)a;
	(void)b;
	(void)c;
	(void)d;
	return ky_http_client_is_stopped(ctx);
}

/* Whom the user trusts beside the system: as the AWS tools have it, then curl, then OpenSSL. NULL:
 * the system's authorities alone. */
static const char *authorities(void)
{
	static const char *const names[] = {"AWS_CA_BUNDLE", "CURL_CA_BUNDLE", "SSL_CERT_FILE"};
	const char *path;

	for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++)
		if ((path = getenv(names[i])) && path[0])
			return path;
	return NULL;
}

static void set_trust(CURL *easy)
{
	const char *path = authorities();

	curl.easy_setopt(easy, CURLOPT_SSL_VERIFYPEER, 1L);
	curl.easy_setopt(easy, CURLOPT_SSL_VERIFYHOST, 2L);
	if (path)
		curl.easy_setopt(easy, CURLOPT_CAINFO, path);
}

static void set_limits(struct ky_http_client *http)
{
	const struct ky_http_request *request = http->request;
	CURL *easy = http->easy;
	long total_ms = request->total_ms_max ?
				(long)request->total_ms_max :
				TOTAL_MS +
					(long)((request->body_bytes + request->answer_bytes_max) /
					       BYTES_PER_MS);

	curl.easy_setopt(easy, CURLOPT_NOSIGNAL, 1L);
	curl.easy_setopt(easy, CURLOPT_FOLLOWLOCATION, 0L);
	curl.easy_setopt(easy, CURLOPT_PROTOCOLS_STR, "http,https");
	curl.easy_setopt(easy, CURLOPT_HTTP_VERSION, (long)CURL_HTTP_VERSION_1_1);
	curl.easy_setopt(easy, CURLOPT_CONNECTTIMEOUT_MS,
			 request->connect_ms_max ? (long)request->connect_ms_max : CONNECT_MS);
	curl.easy_setopt(easy, CURLOPT_TIMEOUT_MS, total_ms);
	curl.easy_setopt(easy, CURLOPT_LOW_SPEED_LIMIT, 1L);
	curl.easy_setopt(easy, CURLOPT_LOW_SPEED_TIME, STALL_S);
	curl.easy_setopt(easy, CURLOPT_NOPROGRESS, 0L);
	curl.easy_setopt(easy, CURLOPT_XFERINFOFUNCTION, watch);
	curl.easy_setopt(easy, CURLOPT_XFERINFODATA, http);
}

static struct curl_slist *make_headers(const struct ky_http_request *request)
{
	struct curl_slist *list = NULL, *next;

	for (size_t i = 0; i < request->header_count; i++) {
		next = curl.slist_append(list, request->headers[i]);
		if (!next)
			break;
		list = next;
	}
	if (request->body_bytes < EXPECT_BYTES) {
		next = curl.slist_append(list, "Expect:");
		list = next ? next : list;
	}
	return list;
}

static void set_request(struct ky_http_client *http, struct curl_slist *headers)
{
	const struct ky_http_request *request = http->request;
	CURL *easy = http->easy;

	curl.easy_setopt(easy, CURLOPT_URL, request->url);
	curl.easy_setopt(easy, CURLOPT_PATH_AS_IS, 1L);
	curl.easy_setopt(easy, CURLOPT_HTTPHEADER, headers);
	curl.easy_setopt(easy, CURLOPT_WRITEFUNCTION, take_body);
	curl.easy_setopt(easy, CURLOPT_WRITEDATA, http);
	curl.easy_setopt(easy, CURLOPT_HEADERFUNCTION, take_header);
	curl.easy_setopt(easy, CURLOPT_HEADERDATA, http);
	curl.easy_setopt(easy, CURLOPT_ERRORBUFFER, http->answer->error);
	if (strcmp(request->method, "HEAD") == 0)
		curl.easy_setopt(easy, CURLOPT_NOBODY, 1L);
	else if (request->body || request->body_fd >= 0 || strcmp(request->method, "PUT") == 0 ||
		 strcmp(request->method, "POST") == 0) { /* these have a length, if it is 0 */
		curl.easy_setopt(easy, CURLOPT_UPLOAD, 1L);
		curl.easy_setopt(easy, CURLOPT_UPLOAD_BUFFERSIZE, UPLOAD_BUFFER_BYTES);
		curl.easy_setopt(easy, CURLOPT_READFUNCTION, read_body);
		curl.easy_setopt(easy, CURLOPT_READDATA, http);
		curl.easy_setopt(easy, CURLOPT_SEEKFUNCTION, seek_body);
		curl.easy_setopt(easy, CURLOPT_SEEKDATA, http);
		curl.easy_setopt(easy, CURLOPT_INFILESIZE_LARGE, (curl_off_t)request->body_bytes);
	}
	curl.easy_setopt(easy, CURLOPT_CUSTOMREQUEST, request->method);
}

/* libcurl's words say which of its lists it has looked in, and in which words its library says no.
 */
static void say_distrust(struct ky_http_answer *answer)
{
	char detail[96];

	snprintf(detail, sizeof(detail), "%.*s", (int)strcspn(answer->error, "."), answer->error);
	snprintf(
		answer->error, sizeof(answer->error),
		"its certificate is not trusted (%s); AWS_CA_BUNDLE names the file of an authority "
		"that is",
		detail);
}

static void say_failure(struct ky_http_client *http, CURLcode code)
{
	struct ky_http_answer *answer = http->answer;

	if (http->read_error)
		snprintf(answer->error, sizeof(answer->error), "the segment cannot be read: %s",
			 kymo_error_text(-http->read_error));
	else if (code == CURLE_ABORTED_BY_CALLBACK)
		snprintf(answer->error, sizeof(answer->error), "the time to send was over");
	else if (code == CURLE_PEER_FAILED_VERIFICATION)
		say_distrust(answer);
	else if (code == CURLE_SSL_CACERT_BADFILE)
		snprintf(answer->error, sizeof(answer->error),
			 "the certificates in %.160s cannot be read",
			 authorities() ? authorities() : "the system's file");
	else if (!answer->error[0])
		snprintf(answer->error, sizeof(answer->error), "%s", curl.easy_strerror(code));
}

int ky_http_client_do(struct ky_http_client *http, const struct ky_http_request *request,
		      struct ky_http_answer *answer)
{
	struct ky_buf body = answer->body;
	struct curl_slist *headers;
	CURLcode code;

	ky_buf_clear(&body);
	*answer = (struct ky_http_answer){.body = body, .range_from = UINT64_MAX};
	http->request = request;
	http->answer = answer;
	http->sent_bytes = 0;
	http->read_error = 0;
	curl.easy_reset(http->easy); /* the connection stays */
	headers = make_headers(request);
	set_limits(http);
	set_trust(http->easy);
	set_request(http, headers);
	code = curl.easy_perform(http->easy);
	curl.slist_free_all(headers);
	/* An answer that is too long, or came before all was sent, is one all the same. A body that
	 * ended early is none: who knows what the rest would have said. */
	if (code == CURLE_OK || (code == CURLE_WRITE_ERROR && answer->is_cut) ||
	    code == CURLE_SEND_ERROR)
		curl.easy_getinfo(http->easy, CURLINFO_RESPONSE_CODE, &answer->status);
	if (answer->status < 200)
		answer->status = 0;
	if (!answer->status)
		say_failure(http, code);
	return answer->body.failed;
}

void ky_http_client_stop_at(struct ky_http_client *http, uint64_t deadline_ns)
{
	__atomic_store_n(&http->deadline_ns, deadline_ns, __ATOMIC_RELAXED);
}

int ky_http_client_open(struct ky_http_client **out, char *why)
{
	struct ky_http_client *http;

	*out = NULL;
	pthread_once(&load_once, load);
	if (!curl.is_loaded) {
		snprintf(why, KY_HTTP_ERROR_BYTES,
			 "libcurl, which sends over HTTP, is not installed (Debian has it in "
			 "libcurl3-gnutls)");
		return KYMO_E_UNSUPPORTED;
	}
	http = ky_alloc(sizeof(*http));
	if (!http)
		return -ENOMEM;
	http->deadline_ns = UINT64_MAX;
	http->easy = curl.easy_init();
	if (!http->easy) {
		ky_free(http);
		return -ENOMEM;
	}
	*out = http;
	return 0;
}

void ky_http_client_close(struct ky_http_client *http)
{
	if (!http)
		return;
	curl.easy_cleanup(http->easy);
	ky_free(http);
}
