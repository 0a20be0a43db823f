/* SPDX-License-Identifier: Apache-2.0 OR MIT */
#include <send/push_target.h>

#include <base/alloc.h>
#include <base/hex.h>
#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#define TIMEOUT_MS 10000u /* OpenTelemetry's own */
#define TIMEOUT_MS_MAX 600000u
#define HEADER_BYTES_MAX 8192u

__attribute__((format(printf, 2, 3))) static int wrong(char *why, const char *format, ...)
{
	va_list arguments;

	va_start(arguments, format);
	(void)vsnprintf(why, KY_PUSH_WHY_BYTES, format, arguments);
	va_end(arguments);
	return -EINVAL;
}

/* ---- addresses ---- */

static int check_url(const char *url, const char *of, char *why)
{
	const char *host = strncmp(url, "http://", 7) == 0  ? url + 7 :
			   strncmp(url, "https://", 8) == 0 ? url + 8 :
							      NULL;

	if (!host || !host[0] || host[0] == '/')
		return wrong(why,
			     "%s is http://HOST:PORT or https://HOST:PORT, with a path or "
			     "without",
			     of);
	if (strlen(url) >= KY_PUSH_URL_BYTES)
		return wrong(why, "%s has more than %u bytes", of, KY_PUSH_URL_BYTES - 1);
	for (const char *at = url; *at; at++)
		if (*at <= ' ' || *at == 0x7f)
			return wrong(why, "%s has a blank in it", of);
	if (memchr(host, '@', strcspn(host, "/?#")))
		return wrong(why,
			     "%s has credentials in it, which others may see: give them as "
			     "headers, in a variable",
			     of);
	if (strpbrk(host, "?#"))
		return wrong(why, "%s has a query in it, which is not sent", of);
	return 0;
}

/* base may end in a slash. */
static void join(char *out, size_t out_bytes, const char *base, const char *path)
{
	size_t count = strlen(base);

	while (count && base[count - 1] == '/')
		count--;
	(void)snprintf(out, out_bytes, "%.*s%s", (int)count, base, path);
}

/* ---- headers ---- */

/* One byte of a value; %XX is one. *at moves on. */
static int next_byte(const char **at, const char *end)
{
	const char *from = *at;
	int byte = ky_hex_percent(from, end);

	*at += byte < 0 ? 1 : 3;
	return byte < 0 ? (unsigned char)from[0] : byte;
}

/* What HTTP allows in a name. */
static bool is_name(const char *from, const char *end)
{
	for (const char *at = from; at < end; at++)
		if (!((*at >= 'a' && *at <= 'z') || (*at >= 'A' && *at <= 'Z') ||
		      (*at >= '0' && *at <= '9') || (*at && strchr("!#$%&'*+-.^_`|~", *at))))
			return false;
	return end > from;
}

static void trim(const char **from, const char **end)
{
	while (*from < *end && (**from == ' ' || **from == '\t'))
		(*from)++;
	while (*end > *from && ((*end)[-1] == ' ' || (*end)[-1] == '\t'))
		(*end)--;
}

/* "name=value", of which no byte is repeated in a sentence. */
static int add_header(struct ky_push_place *place, const char *from, const char *end,
		      const char *of, char *why)
{
	const char *equals = memchr(from, '=', (size_t)(end - from)), *name_end;
	char *text;
	size_t used;

	if (!equals)
		return wrong(why, "%s is NAME=VALUE,NAME=VALUE, percent-encoded", of);
	name_end = equals;
	trim(&from, &name_end);
	if (!is_name(from, name_end))
		return wrong(why, "%s has a name in it that is none of a header", of);
	if (place->header_count == KY_PUSH_HEADERS_MAX || end - from > (long)HEADER_BYTES_MAX)
		return wrong(why, "%s has more than %u headers, or one of more than 8 KiB", of,
			     KY_PUSH_HEADERS_MAX);
	equals++;
	trim(&equals, &end);
	text = ky_alloc((size_t)(end - from) + 4);
	if (!text)
		return -ENOMEM;
	place->headers[place->header_count++] = text;
	used = (size_t)(name_end - from);
	memcpy(text, from, used);
	text[used++] = ':';
	text[used++] = ' ';
	while (equals < end) {
		int byte = next_byte(&equals, end);

		if (byte < ' ' && byte != '\t')
			return wrong(why, "%s has a control character in it", of);
		text[used++] = (char)byte;
	}
	return 0;
}

static int read_headers(struct ky_push_place *place, const char *text, const char *of, char *why)
{
	while (text && *text) {
		const char *end = strchr(text, ','), *next = end ? end + 1 : NULL;
		const char *from = text;
		int result = 0;

		end = end ? end : text + strlen(text);
		trim(&from, &end);
		if (from < end)
			result = add_header(place, from, end, of, why);
		if (result)
			return result;
		text = next;
	}
	return 0;
}

/* ---- variables ---- */

struct signal_names {
	const char *prefix, *path, *exporter;
};
static const struct signal_names signals[KY_PUSH_SIGNALS] = {
	[KY_PUSH_TRACES] = {"OTEL_EXPORTER_OTLP_TRACES_", "/v1/traces", "OTEL_TRACES_EXPORTER"},
	[KY_PUSH_METRICS] = {"OTEL_EXPORTER_OTLP_METRICS_", "/v1/metrics", "OTEL_METRICS_EXPORTER"},
	[KY_PUSH_PROFILES] = {"OTEL_EXPORTER_OTLP_PROFILES_", "/v1development/profiles", NULL},
	[KY_PUSH_PPROF] = {"KYMO_PPROF_", "/push.v1.PusherService/Push", NULL},
};
#define OF_ALL "OTEL_EXPORTER_OTLP_"

/* The variable of the signal, else of all; name: which it was. NULL: neither is set. */
static const char *find(ky_push_variable_fn variable, enum ky_push_signal signal, const char *word,
			char name[64])
{
	const char *text;

	(void)snprintf(name, 64, "%s%s", signals[signal].prefix, word);
	text = variable(name);
	if ((text && *text) || signal == KY_PUSH_PPROF)
		return text && *text ? text : NULL;
	(void)snprintf(name, 64, OF_ALL "%s", word);
	text = variable(name);
	return text && *text ? text : NULL;
}

static int read_place(struct ky_push_target *target, enum ky_push_signal signal, const char *url,
		      ky_push_variable_fn variable, char *why)
{
	struct ky_push_place *place = &target->places[signal];
	char name[64], own[64];
	const char *text;
	int result;

	if (*url) {
		join(place->url, sizeof(place->url), url, signals[signal].path);
	} else {
		/* That of one signal is whole; that of all has none of the paths. */
		text = find(variable, signal, "ENDPOINT", name);
		(void)snprintf(own, sizeof(own), "%sENDPOINT", signals[signal].prefix);
		text = text ? text : "http://localhost:4318";
		result = check_url(text, name, why);
		if (result)
			return result;
		join(place->url, sizeof(place->url), text,
		     strcmp(name, own) == 0 ? "" : signals[signal].path);
	}
	text = find(variable, signal, "TIMEOUT", name);
	place->timeout_ms = text ? (uint32_t)strtoul(text, NULL, 10) : TIMEOUT_MS;
	if (!place->timeout_ms || place->timeout_ms > TIMEOUT_MS_MAX)
		return wrong(why, "%s is a number of milliseconds, at most %u", name,
			     TIMEOUT_MS_MAX);
	text = find(variable, signal, "COMPRESSION", name);
	if (text && strcmp(text, "gzip") != 0 && strcmp(text, "none") != 0)
		return wrong(why, "%s is gzip or none", name);
	place->is_plain = text && text[0] == 'n';
	text = signals[signal].exporter ? variable(signals[signal].exporter) : NULL;
	place->is_off = text && strcmp(text, "none") == 0;
	text = find(variable, signal, "HEADERS", name);
	return read_headers(place, text, name, why);
}

static const char *environment(const char *name)
{
	return getenv(name);
}

int ky_push_target_read(struct ky_push_target *out, bool is_pprof, const char *url,
			ky_push_variable_fn variable, char *why)
{
	int result = 0;

	if (!variable)
		variable = environment;
	memset(out, 0, sizeof(*out));
	out->is_pprof = is_pprof;
	if (*url || is_pprof)
		result = check_url(url, "the address", why);
	for (uint32_t signal = 0; !result && signal < KY_PUSH_SIGNALS; signal++)
		if ((signal == KY_PUSH_PPROF) == is_pprof)
			result = read_place(out, signal, url, variable, why);
	if (!result && !is_pprof && out->places[KY_PUSH_TRACES].is_off &&
	    out->places[KY_PUSH_METRICS].is_off)
		result = wrong(why, "OTEL_TRACES_EXPORTER and OTEL_METRICS_EXPORTER are none: "
				    "nothing is left to send");
	if (result)
		return result;
	(void)snprintf(out->name, sizeof(out->name), "%s:%s", is_pprof ? "pprof" : "otlp",
		       *url ? url : out->places[KY_PUSH_TRACES].url);
	return 0;
}

void ky_push_target_release(struct ky_push_target *target)
{
	for (uint32_t signal = 0; signal < KY_PUSH_SIGNALS; signal++)
		for (uint32_t i = 0; i < target->places[signal].header_count; i++) {
			char *text = target->places[signal].headers[i];

			explicit_bzero(text, strlen(text));
			ky_free(text);
		}
	memset(target, 0, sizeof(*target));
}
