/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* web_identity.h - keys of a role for the token of an identity provider, as Kubernetes mounts one
 * into a pod (IAM roles for service accounts, MinIO's STS).
 *
 * The request is AssumeRoleWithWebIdentity of AWS STS, version 2011-06-15, a POST that nothing
 * signs: https://docs.aws.amazon.com/STS/latest/APIReference/API_AssumeRoleWithWebIdentity.html
 *
 * Secrets:  the token goes to the endpoint alone, and into no sentence.
 * Threads:  owner of the client.
 */
#ifndef KY_SEND_WEB_IDENTITY_H
#define KY_SEND_WEB_IDENTITY_H

#include <send/http_client.h>

struct ky_web_identity {
	const char *token_file; /* read anew by each request: the provider replaces it */
	const char *role;       /* its ARN */
	const char *session;    /* "" or NULL: kymo */
	const char *endpoint;   /* of STS; "" or NULL: AWS's of this region */
	const char *region;
};

/* Returns 0, the answer being the document with the keys; -ENOENT: refused, and why
 * (KY_HTTP_ERROR_BYTES) says by what; -ENOMEM. */
int ky_web_identity_ask(struct ky_http_client *http, const struct ky_web_identity *identity,
			struct ky_http_answer *answer, char *why);

#endif
