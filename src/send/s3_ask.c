/* SPDX-License-Identifier: Apache-2.0 OR MIT */
#include <send/s3_ask.h>

#include <base/now.h>
#include <errno.h>
#include <stdio.h>

#define TRIES_MAX 6u
#define WAIT_NS UINT64_C(200000000) /* doubled with each try: 6 s in all */
#define WAIT_NS_MAX UINT64_C(3000000000)

/* A retry that the verdict makes useless is none. */
static bool may_ask_again(struct ky_s3_client *client, const struct ky_http_answer *answer,
			  enum ky_verdict verdict, uint32_t tries)
{
	uint64_t wait_ns = WAIT_NS << tries;

	if (verdict == KY_VERDICT_REFRESH || verdict == KY_VERDICT_SKEW ||
	    verdict == KY_VERDICT_REDIRECT) {
		ky_s3_client_learn(client, verdict, answer);
		return tries < 2;
	}
	if (verdict != KY_VERDICT_AGAIN || tries + 1 >= TRIES_MAX ||
	    ky_http_client_is_stopped(client->http))
		return false;
	if (answer->after_ns > wait_ns)
		wait_ns = answer->after_ns;
	ky_sleep_ns(wait_ns < WAIT_NS_MAX ? wait_ns : WAIT_NS_MAX);
	return true;
}

int ky_s3_ask(struct ky_s3_client *client, const struct ky_s3_request *request,
	      struct ky_http_answer *answer, char *why)
{
	char code[64];

	for (uint32_t tries = 0;; tries++) {
		int err = ky_s3_client_do(client, request, answer);
		enum ky_verdict verdict;

		if (err) {
			(void)snprintf(why, KY_S3_ASK_WHY_BYTES, "%s",
				       err == -ENOMEM ? "out of memory" :
							"a name is longer than S3 takes");
			return err;
		}
		if (answer->status >= 200 && answer->status < 300)
			return 0;
		verdict = ky_s3_client_judge(answer, code);
		if (may_ask_again(client, answer, verdict, tries))
			continue;
		ky_s3_client_say(client, answer, why, KY_S3_ASK_WHY_BYTES);
		return verdict == KY_VERDICT_DENIED ? -EACCES : -EIO;
	}
}
