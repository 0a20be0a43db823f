/* SPDX-License-Identifier: Apache-2.0 OR MIT */
#include <send/aws_keys.h>

#include <base/alloc.h>
#include <errno.h>
#include <fcntl.h>
#include <kymo/base.h>
#include <send/answer.h>
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
	struct ky_aws_keys keys, profile;
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

/* ---- the profile's files ---- */

static char *trim(char *text)
{
	size_t count;

	text += strspn(text, " \t");
	count = strlen(text);
	while (count && strchr(" \t\r\n", text[count - 1]))
		text[--count] = '\0';
	return text;
}

/* "[name]" or "[profile name]" */
static bool is_section(char *line, const char *profile)
{
	char *end = strchr(line, ']');

	if (!end)
		return false;
	*end = '\0';
	line = trim(line + 1);
	if (strncmp(line, "profile", 7) == 0 && (line[7] == ' ' || line[7] == '\t'))
		line = trim(line + 8);
	return strcmp(line, profile) == 0;
}

static void take_line(struct ky_aws_keys *keys, char *line)
{
	char *equals = strchr(line, '=');
	const char *name, *value;

	if (!equals)
		return;
	*equals = '\0';
	name = trim(line);
	value = trim(equals + 1);
	if (strcmp(name, "aws_access_key_id") == 0)
		(void)copy(keys->access_key, sizeof(keys->access_key), value);
	else if (strcmp(name, "aws_secret_access_key") == 0)
		(void)copy(keys->secret_key, sizeof(keys->secret_key), value);
	else if (strcmp(name, "aws_session_token") == 0)
		(void)copy(keys->token, sizeof(keys->token), value);
	else if (strcmp(name, "region") == 0)
		(void)copy(keys->region, sizeof(keys->region), value);
	else if (strcmp(name, "endpoint_url") == 0)
		(void)copy(keys->endpoint, sizeof(keys->endpoint), value);
}

static void read_profile(struct key_search *search, const char *variable, const char *below_home)
{
	const char *path = getenv(variable), *home = getenv("HOME");
	const char *profile = getenv("AWS_PROFILE");
	char *line = search->line, found[PATH_BYTES];
	bool is_ours = false;
	FILE *file;

	if (!path || !path[0]) {
		if (!home ||
		    snprintf(found, sizeof(found), "%s/%s", home, below_home) >= (int)sizeof(found))
			return;
		path = found;
	}
	file = fopen(path, "re");
	if (!file)
		return;
	while (fgets(line, LINE_BYTES, file)) {
		if (line[0] == '[')
			is_ours = is_section(line, profile && profile[0] ? profile : "default");
		else if (is_ours && line[0] != '#' && line[0] != ';' && line[0] != ' ' &&
			 line[0] != '\t')
			take_line(&search->profile, line);
	}
	(void)fclose(file);
}

/* ---- endpoints ---- */

uint64_t ky_aws_time_ns(const char *text)
{
	struct tm parts = {.tm_isdst = 0};
	const char *end = strptime(text, "%Y-%m-%dT%H:%M:%S", &parts);
	time_t seconds = end ? timegm(&parts) : -1;

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

static int take_document(struct ky_aws_keys *keys, const struct ky_buf *body)
{
	char end[64];
	uint64_t end_ns;

	if (!ky_answer_json(body->bytes, body->used, "AccessKeyId", keys->access_key,
			    sizeof(keys->access_key)) ||
	    !ky_answer_json(body->bytes, body->used, "SecretAccessKey", keys->secret_key,
			    sizeof(keys->secret_key)))
		return -ENOENT;
	if (!ky_answer_json(body->bytes, body->used, "Token", keys->token, sizeof(keys->token)))
		return -ENOENT;
	(void)ky_answer_json(body->bytes, body->used, "Expiration", end, sizeof(end));
	end_ns = ky_aws_time_ns(end);
	keys->refresh_unix_ns = end_ns > EARLY_NS ? end_ns - EARLY_NS : 0;
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

/* ---- all of it ---- */

static bool take_environment(struct ky_aws_keys *keys)
{
	return copy(keys->access_key, sizeof(keys->access_key), getenv("AWS_ACCESS_KEY_ID")) &&
	       copy(keys->secret_key, sizeof(keys->secret_key), getenv("AWS_SECRET_ACCESS_KEY"));
}

static void place(struct ky_aws_keys *keys)
{
	if (!copy(keys->region, sizeof(keys->region), getenv("AWS_REGION")))
		(void)copy(keys->region, sizeof(keys->region), getenv("AWS_DEFAULT_REGION"));
	if (!keys->region[0])
		(void)copy(keys->region, sizeof(keys->region), "us-east-1");
	if (!copy(keys->endpoint, sizeof(keys->endpoint), getenv("AWS_ENDPOINT_URL_S3")))
		(void)copy(keys->endpoint, sizeof(keys->endpoint), getenv("AWS_ENDPOINT_URL"));
}

static int find_keys(struct key_search *search)
{
	struct ky_aws_keys *keys = &search->keys;
	const struct ky_aws_keys *profile = &search->profile;

	read_profile(search, "AWS_CONFIG_FILE", ".aws/config");
	read_profile(search, "AWS_SHARED_CREDENTIALS_FILE", ".aws/credentials");
	memcpy(keys->region, profile->region, sizeof(keys->region));
	memcpy(keys->endpoint, profile->endpoint, sizeof(keys->endpoint));
	keys->source = "the environment";
	if (take_environment(keys)) {
		(void)copy(keys->token, sizeof(keys->token), getenv("AWS_SESSION_TOKEN"));
		return 0;
	}
	if (profile->access_key[0] && profile->secret_key[0]) {
		*keys = *profile;
		keys->source = "the profile";
		return 0;
	}
	keys->source = "the container's endpoint";
	if (ask_container(search) == 0)
		return 0;
	keys->source = "the machine's endpoint";
	return ask_machine(search);
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
	err = find_keys(search);
	if (search->answer.body.bytes)
		explicit_bzero(search->answer.body.bytes, search->answer.body.capacity);
	ky_buf_release(&search->answer.body);
	if (err) {
		snprintf(why, KY_HTTP_ERROR_BYTES,
			 "no credentials: neither AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, nor "
			 "a profile in ~/.aws/credentials, nor a container or machine that has a "
			 "role");
		err = -ENOENT;
	} else {
		place(&search->keys);
		*keys = search->keys;
	}
	explicit_bzero(search, sizeof(*search));
	ky_free(search);
	return err;
}

void ky_aws_keys_forget(struct ky_aws_keys *keys)
{
	explicit_bzero(keys, sizeof(*keys));
}
