/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* container_text.h - a list or a map of an event as JSON: what a table or a page shows of it.
 *
 * A LIST is an array, a MAP an array of [key, value] pairs, as its keys can be anything, a
 * STRING_MAP an object. Numbers have 15 digits; what is not finite is null; bytes and stacks are
 * null.
 * Threads: owner.
 */
#ifndef KY_READ_CONTAINER_TEXT_H
#define KY_READ_CONTAINER_TEXT_H

#include <base/buf.h>
#include <wire/trc_dec.h>

#define KY_CONTAINER_TEXT_BYTES_MAX 4096u

/* container: a value of the event that dec read last. Returns false: it is longer than the limit,
 * or memory is out; what out holds then is no JSON. */
bool ky_container_text(struct ky_buf *out, struct ky_trc_dec *dec,
		       const struct ky_value *container);

#endif
