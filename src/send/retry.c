/* SPDX-License-Identifier: Apache-2.0 OR MIT */
#include <send/retry.h>

#include <base/random.h>
#include <stddef.h>
#include <string.h>

#define QUICK_NS UINT64_C(100000000)
#define BREAKER_NS UINT64_C(1000000000)

struct meaning {
	const char *code;
	enum ky_verdict verdict;
};

/* Servers do not agree on the status of a code, so the code goes first. */
static const struct meaning meanings[] = {
	{"PreconditionFailed", KY_VERDICT_EXISTS},
	{"ConditionalRequestConflict", KY_VERDICT_AGAIN},
	{"OperationAborted", KY_VERDICT_AGAIN},
	{"SlowDown", KY_VERDICT_AGAIN},
	{"RequestTimeout", KY_VERDICT_AGAIN},
	{"RequestTimeoutException", KY_VERDICT_AGAIN},
	{"Throttling", KY_VERDICT_AGAIN},
	{"ThrottlingException", KY_VERDICT_AGAIN},
	{"RequestLimitExceeded", KY_VERDICT_AGAIN},
	{"InternalError", KY_VERDICT_AGAIN},
	{"ServiceUnavailable", KY_VERDICT_AGAIN},
	{"XMinioStorageFull", KY_VERDICT_AGAIN},
	/* The bytes were changed on the way. */
	{"BadDigest", KY_VERDICT_AGAIN},
	{"XAmzContentSHA256Mismatch", KY_VERDICT_AGAIN},
	{"XAmzContentChecksumMismatch", KY_VERDICT_AGAIN},
	{"IncompleteBody", KY_VERDICT_AGAIN},
	{"ExpiredToken", KY_VERDICT_REFRESH},
	{"ExpiredTokenException", KY_VERDICT_REFRESH},
	{"TokenRefreshRequired", KY_VERDICT_REFRESH},
	{"RequestExpired", KY_VERDICT_REFRESH},
	{"RequestTimeTooSkewed", KY_VERDICT_SKEW},
	{"PermanentRedirect", KY_VERDICT_REDIRECT},
	{"TemporaryRedirect", KY_VERDICT_REDIRECT},
	{"AuthorizationHeaderMalformed", KY_VERDICT_REDIRECT},
	{"IllegalLocationConstraintException", KY_VERDICT_REDIRECT},
	{"KeyTooLongError", KY_VERDICT_REFUSED},
	{"EntityTooLarge", KY_VERDICT_REFUSED},
	{"XMinioInvalidObjectName", KY_VERDICT_REFUSED},
	{"MetadataTooLarge", KY_VERDICT_REFUSED},
};

enum ky_verdict ky_retry_judge(long status, const char *code)
{
	if (status >= 200 && status < 300)
		return KY_VERDICT_TAKEN;
	for (size_t i = 0; i < sizeof(meanings) / sizeof(meanings[0]); i++) {
		if (strcmp(meanings[i].code, code) == 0)
			return meanings[i].verdict;
	}
	if (status == 412)
		return KY_VERDICT_EXISTS;
	if (status == 0 || status == 408 || status == 409 || status == 429 || status >= 500)
		return KY_VERDICT_AGAIN;
	if (status >= 300 && status < 400)
		return KY_VERDICT_REDIRECT;
	if (status == 413 || status == 414 || status == 431)
		return KY_VERDICT_REFUSED;
	return KY_VERDICT_DENIED;
}

/* All of 0 .. most, so that many hosts do not come back in step. */
static uint64_t jitter(struct ky_retry *retry, uint64_t most_ns)
{
	if (!retry->random)
		retry->random = 1;
	return ky_random_next(&retry->random) % (most_ns + 1);
}

static uint64_t open_breaker(struct ky_retry *retry)
{
	retry->breaker_ns = retry->breaker_ns ? retry->breaker_ns * 2 : BREAKER_NS;
	if (retry->breaker_ns > KY_RETRY_BREAKER_NS_MAX)
		retry->breaker_ns = KY_RETRY_BREAKER_NS_MAX;
	return retry->breaker_ns / 2 + jitter(retry, retry->breaker_ns / 2);
}

void ky_retry_failed(struct ky_retry *retry, enum ky_verdict verdict, uint64_t after_ns,
		     uint64_t now_ns)
{
	uint64_t wait_ns;

	if (verdict == KY_VERDICT_REFRESH || verdict == KY_VERDICT_SKEW ||
	    verdict == KY_VERDICT_REDIRECT) {
		if (!(retry->at_once & 1u << verdict)) {
			retry->at_once |= 1u << verdict;
			retry->due_ns = now_ns;
			return;
		}
		verdict = KY_VERDICT_DENIED; /* it did not help */
	}
	retry->failures++;
	if (verdict == KY_VERDICT_DENIED) {
		wait_ns = KY_RETRY_BREAKER_NS_MAX;
	} else if (retry->failures <= KY_RETRY_QUICK) {
		uint64_t most_ns = QUICK_NS << retry->failures;

		wait_ns = jitter(retry, most_ns < KY_RETRY_CAP_NS ? most_ns : KY_RETRY_CAP_NS);
	} else {
		wait_ns = open_breaker(retry);
	}
	if (after_ns > KY_RETRY_BREAKER_NS_MAX)
		after_ns = KY_RETRY_BREAKER_NS_MAX;
	retry->due_ns = now_ns + (wait_ns > after_ns ? wait_ns : after_ns);
	/* What helps at once may help again, once it is asked for anew. */
	retry->at_once = 0;
}

void ky_retry_succeeded(struct ky_retry *retry)
{
	retry->breaker_ns = retry->due_ns = 0;
	retry->failures = retry->at_once = 0;
}

bool ky_retry_is_due(const struct ky_retry *retry, uint64_t now_ns)
{
	return now_ns >= retry->due_ns;
}
