/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* assume_role.h - keys of a role, for keys that may take it: STS's AssumeRole, a signed form.
 *
 * Source:   AWS STS API reference, AssumeRole.
 * Secrets:  those of the caller are in the signature alone; the answer has the role's.
 * Threads:  owner of the client.
 */
#ifndef KY_SEND_ASSUME_ROLE_H
#define KY_SEND_ASSUME_ROLE_H

#include <send/http_client.h>

struct ky_assume_role {
	const char *access_key, *secret_key, *token; /* token "": none */
	const char *role, *session, *external_id;    /* "": none */
	const char *endpoint, *region;               /* endpoint NULL or "": AWS's of the region */
};

/* Returns 0 and the answer; -ENOENT, and why (KY_HTTP_ERROR_BYTES) says what is wrong; -ENOMEM. */
int ky_assume_role_ask(struct ky_http_client *http, const struct ky_assume_role *role,
		       struct ky_http_answer *answer, char *why);

#endif
