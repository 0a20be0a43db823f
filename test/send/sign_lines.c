/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* sign_lines - signs what it reads, for oracles that sign the same.
 *
 * A line is words with blanks between them, each in hex after an "x": method, path, payload, date,
 * access key, secret key, region, then "q" name value for each parameter and "h" name value for
 * each header. Of each it prints the target and the header Authorization, with a tab between. */
#include <send/sigv4.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define WORDS_MAX (7u + 6u * KY_SIGV4_PAIRS_MAX)

static char *words[WORDS_MAX];

/* In place. */
static void unhex(char *word)
{
	char *out = word;

	if (*word != 'x')
		return;
	for (const char *at = word + 1; at[0] && at[1]; at += 2) {
		const char pair[3] = {at[0], at[1], 0};

		*out++ = (char)strtoul(pair, NULL, 16);
	}
	*out = '\0';
}

static void sign(size_t count)
{
	static struct ky_sigv4_pair query[KY_SIGV4_PAIRS_MAX], headers[KY_SIGV4_PAIRS_MAX];
	struct ky_sigv4_request request = {.method = words[0],
					   .path = words[1],
					   .query = query,
					   .headers = headers,
					   .payload = words[2],
					   .date = words[3]};
	const struct ky_sigv4_key key = {words[4], words[5], words[6], "s3"};
	struct ky_buf out;

	for (size_t i = 7; i + 2 < count; i += 3) {
		const struct ky_sigv4_pair pair = {words[i + 1], words[i + 2]};

		if (words[i][0] == 'q')
			query[request.query_count++] = pair;
		else
			headers[request.header_count++] = pair;
	}
	ky_buf_init(&out, 0);
	if (ky_sigv4_target(&out, request.path, query, request.query_count) ||
	    ky_buf_append(&out, "\t", 1) || ky_sigv4_sign(&out, &request, &key))
		abort();
	printf("%.*s\n", (int)out.used, (const char *)out.bytes);
	ky_buf_release(&out);
}

int main(void)
{
	char *line = NULL, *rest;
	size_t capacity = 0, count;

	while (getline(&line, &capacity, stdin) > 0) {
		count = 0;
		for (char *word = strtok_r(line, " \n", &rest); word && count < WORDS_MAX;
		     word = strtok_r(NULL, " \n", &rest))
			words[count++] = word;
		for (size_t i = 0; i < count; i++)
			unhex(words[i]);
		if (count >= 7)
			sign(count);
	}
	free(line);
	return 0;
}
