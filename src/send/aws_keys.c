/* SPDX-License-Identifier: Apache-2.0 OR MIT */
#include <send/aws_keys.h>

#include <base/alloc.h>
#include <errno.h>
#include <fcntl.h>
#include <kymo/base.h>
#include <send/answer.h>
#include <send/assume_role.h>
#include <send/aws_profile.h>
#include <send/key_process.h>
#include <send/web_identity.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <time.h>
#include <unistd.h>

#define LINE_BYTES 4608
#define PATH_BYTES 512
#define EARLY_NS UINT64_C(300000000000)
#define NEAR_MS 1000u /* what is on this machine, or its hypervisor's, answers at once */
#define ROLE_LETTERS "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+=,.@_-"
#define MACHINE "http://169.254.169.254"
#define CONTAINER "http://169.254.170.2"

/* Too large for a stack. */
struct key_search {
	struct ky_aws_keys keys;
	struct ky_aws_profile profile;
	struct ky_http_client *http;
	struct ky_http_answer answer;
	char line[LINE_BYTES], header[LINE_BYTES + 32];
};

static bool copy(char *out, size_t capacity, const char *text)
{
	if (!text || !text[0] || strlen(text) >= capacity)
		return false;
	memcpy(out, text, strlen(text) + 1);
	return true;
}

/* ---- endpoints ---- */

const char *ky_aws_domain(const char *region)
{
	return strncmp(region, "cn-", 3) == 0 ? "amazonaws.com.cn" : "amazonaws.com";
}

uint64_t ky_aws_time_ns(const char *text)
{
	struct tm parts = {.tm_isdst = 0};
	const char *end = strptime(text, "%Y-%m-%dT%H:%M:%S", &parts);
	time_t seconds = end ? timegm(&parts) : -1;
	struct tm offset = {.tm_isdst = 0};

	/* Programs write "+02:00", and parts of a second. */
	if (end && *end == '.')
		end += 1 + strspn(end + 1, "0123456789");
	if (seconds > 0 && (*end == '+' || *end == '-') && strptime(end + 1, "%H:%M", &offset))
		seconds -= (*end == '+' ? 60 : -60) * (60 * (time_t)offset.tm_hour + offset.tm_min);
	return seconds > 0 ? (uint64_t)seconds * 1000000000u : 0;
}

static int ask(struct ky_http_client *http, const char *method, const char *url, const char *header,
	       struct ky_http_answer *answer)
{
	const struct ky_http_request request = {.method = method,
						.url = url,
						.headers = &header,
						.header_count = header ? 1 : 0,
						.body_fd = -1,
						.connect_ms_max = NEAR_MS,
						.total_ms_max = 5 * NEAR_MS};
	int err = ky_http_client_do(http, &request, answer);

	return err ? err : answer->status == 200 ? 0 : -ENOENT;
}

static void end_at(struct ky_aws_keys *keys, const char *text)
{
	uint64_t end_ns = ky_aws_time_ns(text);

	keys->refresh_unix_ns = end_ns > EARLY_NS ? end_ns - EARLY_NS : 0;
}

static int take_document(struct ky_aws_keys *keys, const struct ky_buf *body)
{
	char end[64];

	if (!ky_answer_json(body->bytes, body->used, "AccessKeyId", keys->access_key,
			    sizeof(keys->access_key)) ||
	    !ky_answer_json(body->bytes, body->used, "SecretAccessKey", keys->secret_key,
			    sizeof(keys->secret_key)))
		return -ENOENT;
	if (!ky_answer_json(body->bytes, body->used, "Token", keys->token, sizeof(keys->token)))
		return -ENOENT;
	(void)ky_answer_json(body->bytes, body->used, "Expiration", end, sizeof(end));
	end_at(keys, end);
	return 0;
}

static bool read_token_file(char *out, size_t capacity, const char *path)
{
	int fd = path ? open(path, O_RDONLY | O_CLOEXEC) : -1;
	ssize_t got = fd >= 0 ? read(fd, out, capacity - 1) : -1;

	if (fd >= 0)
		close(fd);
	if (got <= 0)
		return false;
	out[got] = '\0';
	out[strcspn(out, "\r\n")] = '\0';
	return out[0] != '\0';
}

/* The token would go in the clear: over http to this machine and the container's own addresses
 * alone, as other tools have it. */
static bool is_near(const char *url)
{
	static const char *const near[] = {"https://",
					   "http://127.0.0.1",
					   "http://localhost",
					   "http://[::1]",
					   "http://169.254.170.2",
					   "http://169.254.170.23",
					   "http://[fd00:ec2::23]"};

	for (size_t i = 0; i < sizeof(near) / sizeof(near[0]); i++) {
		size_t count = strlen(near[i]);

		if (strncmp(url, near[i], count) == 0 &&
		    (i == 0 || url[count] == ':' || url[count] == '/' || !url[count]))
			return true;
	}
	return false;
}

static int ask_container(struct key_search *search)
{
	const char *relative = getenv("AWS_CONTAINER_CREDENTIALS_RELATIVE_URI");
	const char *full = getenv("AWS_CONTAINER_CREDENTIALS_FULL_URI");
	const char *given = getenv("AWS_CONTAINER_AUTHORIZATION_TOKEN");
	char url[PATH_BYTES], *token = search->line;
	int err;

	if (relative && relative[0] == '/')
		snprintf(url, sizeof(url), CONTAINER "%s", relative);
	else if (full && is_near(full))
		snprintf(url, sizeof(url), "%s", full);
	else
		return -ENOENT;
	if (!read_token_file(token, LINE_BYTES, getenv("AWS_CONTAINER_AUTHORIZATION_TOKEN_FILE")))
		snprintf(token, LINE_BYTES, "%s", given ? given : "");
	snprintf(search->header, sizeof(search->header), "Authorization: %s", token);
	err = ask(search->http, "GET", url, token[0] ? search->header : NULL, &search->answer);
	return err ? err : take_document(&search->keys, &search->answer.body);
}

/* A token first: a proxy that a request forger reaches cannot get one. */
static int ask_machine(struct key_search *search)
{
	struct ky_http_client *http = search->http;
	struct ky_http_answer *answer = &search->answer;
	const char *off = getenv("AWS_EC2_METADATA_DISABLED");
	const char *base = getenv("AWS_EC2_METADATA_SERVICE_ENDPOINT");
	char url[PATH_BYTES], header[PATH_BYTES], role[128];
	int err;

	if (off && strcasecmp(off, "true") == 0)
		return -ENOENT;
	if (!base || !base[0])
		base = MACHINE;
	snprintf(url, sizeof(url), "%s/latest/api/token", base);
	err = ask(http, "PUT", url, "X-aws-ec2-metadata-token-ttl-seconds: 21600", answer);
	if (err)
		return err;
	snprintf(header, sizeof(header), "X-aws-ec2-metadata-token: %.*s",
		 (int)(answer->body.used < 256 ? answer->body.used : 256),
		 (const char *)answer->body.bytes);
	snprintf(url, sizeof(url), "%s/latest/meta-data/iam/security-credentials/", base);
	err = ask(http, "GET", url, header, answer);
	if (err)
		return err;
	snprintf(role, sizeof(role), "%.*s",
		 (int)(answer->body.used < sizeof(role) - 1 ? answer->body.used : sizeof(role) - 1),
		 (const char *)answer->body.bytes);
	role[strspn(role, ROLE_LETTERS)] = '\0';
	snprintf(url, sizeof(url), "%s/latest/meta-data/iam/security-credentials/%s", base, role);
	err = role[0] ? ask(http, "GET", url, header, answer) : -ENOENT;
	return err ? err : take_document(&search->keys, &answer->body);
}

static int take_role_keys(struct key_search *search, const char *action, char *why)
{
	const struct ky_buf *body = &search->answer.body;
	struct ky_aws_keys *keys = &search->keys;
	char end[64];

	if (!ky_answer_xml(body->bytes, body->used, "AccessKeyId", keys->access_key,
			   sizeof(keys->access_key)) ||
	    !ky_answer_xml(body->bytes, body->used, "SecretAccessKey", keys->secret_key,
			   sizeof(keys->secret_key)) ||
	    !ky_answer_xml(body->bytes, body->used, "SessionToken", keys->token,
			   sizeof(keys->token))) {
		snprintf(why, KY_HTTP_ERROR_BYTES, "no credentials: what %s answered has none",
			 action);
		return -ENOENT;
	}
	(void)ky_answer_xml(body->bytes, body->used, "Expiration", end, sizeof(end));
	end_at(keys, end);
	return 0;
}

/* 1: it was not told of one. What was told and fails is not passed over: the machine's role is
 * another's. */
static int ask_web_identity(struct key_search *search, char *why)
{
	const struct ky_aws_profile *profile = &search->profile;
	const char *token_file = getenv("AWS_WEB_IDENTITY_TOKEN_FILE");
	struct ky_web_identity identity = {.token_file = token_file,
					   .role = getenv("AWS_ROLE_ARN"),
					   .session = getenv("AWS_ROLE_SESSION_NAME"),
					   .endpoint = getenv("AWS_ENDPOINT_URL_STS"),
					   .region = search->keys.region};
	int err;

	if (!token_file || !token_file[0]) {
		identity.token_file = profile->web_token_file;
		identity.role = profile->role;
		identity.session = profile->role_session;
	}
	if (!identity.token_file[0] || !identity.role || !identity.role[0])
		return 1;
	if (!identity.endpoint || !identity.endpoint[0])
		identity.endpoint = getenv("AWS_ENDPOINT_URL");
	err = ky_web_identity_ask(search->http, &identity, &search->answer, why);
	if (err)
		return err;
	return take_role_keys(search, "AssumeRoleWithWebIdentity", why);
}

/* Keys that the program of a profile prints; what it is told and fails is not passed over. */
static int ask_process(struct ky_aws_keys *keys, const struct ky_aws_profile *profile, char *why)
{
	uint64_t version;
	struct ky_buf out;
	char end[64];
	int err;

	ky_buf_init(&out, 0);
	err = ky_key_process_run(&out, profile->process, 0, why);
	if (!err &&
	    (!ky_answer_json_number(out.bytes, out.used, "Version", &version) || version != 1 ||
	     !ky_answer_json(out.bytes, out.used, "AccessKeyId", keys->access_key,
			     sizeof(keys->access_key)) ||
	     !ky_answer_json(out.bytes, out.used, "SecretAccessKey", keys->secret_key,
			     sizeof(keys->secret_key)))) {
		snprintf(why, KY_HTTP_ERROR_BYTES,
			 "no credentials: what credential_process prints is no JSON of version 1 "
			 "with AccessKeyId and SecretAccessKey");
		err = -ENOENT;
	}
	if (!err) {
		(void)ky_answer_json(out.bytes, out.used, "SessionToken", keys->token,
				     sizeof(keys->token));
		(void)ky_answer_json(out.bytes, out.used, "Expiration", end, sizeof(end));
		end_at(keys, end);
	}
	if (out.bytes)
		explicit_bzero(out.bytes, out.capacity);
	ky_buf_release(&out);
	return err;
}

/* The keys of the profile that may take the role, where a program prints them. */
static int take_source(struct key_search *search, struct ky_aws_profile *source, char *why)
{
	struct ky_aws_keys *keys = &search->keys;
	int err;

	if (source->access_key[0] || !source->process[0])
		return 0;
	err = ask_process(keys, source, why);
	if (!err) {
		(void)copy(source->access_key, sizeof(source->access_key), keys->access_key);
		(void)copy(source->secret_key, sizeof(source->secret_key), keys->secret_key);
		source->token[0] = '\0';
		(void)copy(source->token, sizeof(source->token), keys->token);
	}
	keys->access_key[0] = keys->secret_key[0] = keys->token[0] = '\0';
	return err;
}

/* 1: the profile names none. The keys that may take it are of another profile, or of the same. */
static int ask_role(struct key_search *search, char *why)
{
	const struct ky_aws_profile *profile = &search->profile;
	struct ky_aws_profile *source;
	int err;

	if (!profile->role[0] || !profile->source[0])
		return 1;
	source = ky_alloc(sizeof(*source));
	if (!source)
		return -ENOMEM;
	ky_aws_profile_read(source, profile->source);
	err = take_source(search, source, why);
	if (err) {
		explicit_bzero(source, sizeof(*source));
		ky_free(source);
		return err;
	}
	if (source->access_key[0] && source->secret_key[0]) {
		struct ky_assume_role role = {source->access_key,
					      source->secret_key,
					      source->token,
					      profile->role,
					      profile->role_session,
					      profile->external_id,
					      getenv("AWS_ENDPOINT_URL_STS"),
					      search->keys.region};

		if (!role.endpoint || !role.endpoint[0])
			role.endpoint = getenv("AWS_ENDPOINT_URL");
		err = ky_assume_role_ask(search->http, &role, &search->answer, why);
		if (!err)
			err = take_role_keys(search, "AssumeRole", why);
	} else {
		err = -ENOENT;
		snprintf(why, KY_HTTP_ERROR_BYTES,
			 "no credentials: profile %.64s, whose keys would take role %.96s, has "
			 "none of its own",
			 profile->source, profile->role);
	}
	explicit_bzero(source, sizeof(*source));
	ky_free(source);
	return err;
}

/* ---- all of it ---- */

static bool take_environment(struct ky_aws_keys *keys)
{
	return copy(keys->access_key, sizeof(keys->access_key), getenv("AWS_ACCESS_KEY_ID")) &&
	       copy(keys->secret_key, sizeof(keys->secret_key), getenv("AWS_SECRET_ACCESS_KEY"));
}

static void place(struct ky_aws_keys *keys, const struct ky_aws_profile *profile)
{
	const char *const regions[] = {getenv("AWS_REGION"), getenv("AWS_DEFAULT_REGION"),
				       profile->region, "us-east-1"};
	const char *const endpoints[] = {getenv("AWS_ENDPOINT_URL_S3"), getenv("AWS_ENDPOINT_URL"),
					 profile->endpoint};
	bool has_it = false;

	for (size_t i = 0; i < sizeof(regions) / sizeof(regions[0]) && !has_it; i++)
		has_it = copy(keys->region, sizeof(keys->region), regions[i]);
	has_it = false;
	for (size_t i = 0; i < sizeof(endpoints) / sizeof(endpoints[0]) && !has_it; i++)
		has_it = copy(keys->endpoint, sizeof(keys->endpoint), endpoints[i]);
}

static bool take_profile(struct ky_aws_keys *keys, const struct ky_aws_profile *profile)
{
	(void)copy(keys->token, sizeof(keys->token), profile->token);
	return copy(keys->access_key, sizeof(keys->access_key), profile->access_key) &&
	       copy(keys->secret_key, sizeof(keys->secret_key), profile->secret_key);
}

static void say_none(const struct ky_aws_profile *profile, const char *name, char *why)
{
	if (profile->unread)
		snprintf(why, KY_HTTP_ERROR_BYTES,
			 "no credentials: profile %.64s gets them by %s, which kymo does not; "
			 "`aws configure export-credentials --format env` prints such for the "
			 "environment",
			 name, profile->unread);
	else
		snprintf(why, KY_HTTP_ERROR_BYTES,
			 "no credentials: neither AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, nor "
			 "a profile in ~/.aws/credentials, nor a token, container or machine that "
			 "has a role");
}

static int find_keys(struct key_search *search, char *why)
{
	struct ky_aws_keys *keys = &search->keys;
	const char *name = getenv("AWS_PROFILE");
	int err;

	if (!name || !name[0])
		name = "default";
	ky_aws_profile_read(&search->profile, name);
	place(keys, &search->profile);
	keys->source = "the environment";
	if (take_environment(keys)) {
		(void)copy(keys->token, sizeof(keys->token), getenv("AWS_SESSION_TOKEN"));
		return 0;
	}
	keys->source = "a web identity";
	err = ask_web_identity(search, why);
	if (err <= 0)
		return err;
	keys->source = "the profile's role";
	err = ask_role(search, why);
	if (err <= 0)
		return err;
	keys->source = "the profile";
	if (take_profile(keys, &search->profile))
		return 0;
	keys->source = "the profile's program";
	if (search->profile.process[0])
		return ask_process(keys, &search->profile, why);
	keys->source = "the container's endpoint";
	if (ask_container(search) == 0)
		return 0;
	keys->source = "the machine's endpoint";
	err = ask_machine(search);
	if (err)
		say_none(&search->profile, name, why);
	return err;
}

int ky_aws_keys_read(struct ky_aws_keys *keys, struct ky_http_client *http, char *why)
{
	struct key_search *search = ky_alloc(sizeof(*search));
	int err;

	snprintf(why, KY_HTTP_ERROR_BYTES, "out of memory");
	if (!search)
		return -ENOMEM;
	search->http = http;
	ky_buf_init(&search->answer.body, 0);
	err = find_keys(search, why);
	if (search->answer.body.bytes)
		explicit_bzero(search->answer.body.bytes, search->answer.body.capacity);
	ky_buf_release(&search->answer.body);
	if (err)
		err = -ENOENT;
	else
		*keys = search->keys;
	explicit_bzero(search, sizeof(*search));
	ky_free(search);
	return err;
}

void ky_aws_keys_forget(struct ky_aws_keys *keys)
{
	explicit_bzero(keys, sizeof(*keys));
}
