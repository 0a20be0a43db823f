/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* aws_keys.h - who we are to S3, and where it is: the places that other tools read, in their order.
 *
 * Keys:      AWS_ACCESS_KEY_ID, AWS_SECRET_ACCESS_KEY, AWS_SESSION_TOKEN; a web identity
 *            (AWS_WEB_IDENTITY_TOKEN_FILE, AWS_ROLE_ARN, AWS_ROLE_SESSION_NAME, or the profile's,
 *            asked of AWS_ENDPOINT_URL_STS, AWS_ENDPOINT_URL or AWS); a role that the profile
 *            takes with the keys of source_profile, asked there, too; the profile AWS_PROFILE
 *            (or default) of AWS_SHARED_CREDENTIALS_FILE (~/.aws/credentials) and AWS_CONFIG_FILE
 *            (~/.aws/config), or the program that it names (credential_process); the container's
 *            endpoint (AWS_CONTAINER_CREDENTIALS_RELATIVE_URI, _FULL_URI, with
 *            AWS_CONTAINER_AUTHORIZATION_TOKEN or _TOKEN_FILE); the machine's, by a token
 *            (AWS_EC2_METADATA_DISABLED leaves it out).
 * Region:    AWS_REGION, AWS_DEFAULT_REGION, the profile's, us-east-1.
 * Endpoint:  AWS_ENDPOINT_URL_S3, AWS_ENDPOINT_URL, the profile's, AWS itself ("").
 * Secrets:   never in a sentence; forgotten with ky_aws_keys_forget().
 * Threads:   owner.
 */
#ifndef KY_SEND_AWS_KEYS_H
#define KY_SEND_AWS_KEYS_H

#include <send/http_client.h>

struct ky_aws_keys {
	char access_key[160], secret_key[160], token[4096]; /* token "": none */
	char region[64], endpoint[256];
	uint64_t refresh_unix_ns; /* read anew from then on, 5 minutes before the end; 0: no end */
	const char *source;       /* for sentences */
};

/* Reads all of it. http: for what is asked of others. Returns 0; -ENOENT: no keys anywhere, and why
 * (KY_HTTP_ERROR_BYTES) says what to set; what was there stays then. */
int ky_aws_keys_read(struct ky_aws_keys *keys, struct ky_http_client *http, char *why);
void ky_aws_keys_forget(struct ky_aws_keys *keys);

/* AWS's own of this region: amazonaws.com, in China another. */
const char *ky_aws_domain(const char *region);

/* "2026-05-18T12:30:00Z" as nanoseconds since 1970; 0: it is no such time. */
uint64_t ky_aws_time_ns(const char *text);

#endif
