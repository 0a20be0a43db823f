/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* answer.h - one value out of what a server answered, which is not trusted.
 *
 * Both scan forward once and copy at most out_bytes - 1 bytes; nothing is built, nothing recurses.
 * Threads: any.
 */
#ifndef KY_SEND_ANSWER_H
#define KY_SEND_ANSWER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* The text of the first element <tag>, if it is printable ASCII without markup. False, and "":
 * there is none. */
bool ky_answer_xml(const uint8_t *bytes, size_t count, const char *tag, char *out,
		   size_t out_bytes);

/* The string under the first key of this name, at any depth. \/ is /; of other escapes there is
 * none in what we ask for. False, and "": there is none, or it is too long. */
bool ky_answer_json(const uint8_t *bytes, size_t count, const char *key, char *out,
		    size_t out_bytes);

/* The whole number under the first key of this name. False: there is none, or no such number. */
bool ky_answer_json_number(const uint8_t *bytes, size_t count, const char *key, uint64_t *out);

#endif
