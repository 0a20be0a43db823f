/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* s3_ask.h - one question to a bucket by someone who waits for the answer: asked again while that
 * may help.
 *
 * Retries: trouble that passes is asked again, with growing waits, for about ten seconds; what a
 *          person has to mend ends at once. A client that was stopped asks no more.
 * Threads: owner of the client.
 */
#ifndef KY_SEND_S3_ASK_H
#define KY_SEND_S3_ASK_H

#include <send/s3_client.h>

#define KY_S3_ASK_WHY_BYTES 512u

/* Until it is answered with a success. why: KY_S3_ASK_WHY_BYTES. Returns 0; -EACCES, -EIO, -ENOMEM,
 * KYMO_E_LIMIT, with why and the last answer. */
int ky_s3_ask(struct ky_s3_client *client, const struct ky_s3_request *request,
	      struct ky_http_answer *answer, char *why);

#endif
