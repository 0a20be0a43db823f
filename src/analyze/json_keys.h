/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* json_keys.h - names from a trace as the keys of one JSON object, no two of them equal.
 *
 * The format does not forbid that a schema or a StringMap repeats a name, and different bytes that
 * are not UTF-8 are the same in JSON. The second of a name becomes "name#2" and so on; a number
 * whose name is taken already is passed over.
 * Errors:  -ENOMEM of ky_json_keys_finish(); release after any of them.
 * Threads: owner.
 */
#ifndef KY_ANALYZE_JSON_KEYS_H
#define KY_ANALYZE_JSON_KEYS_H

#include <base/buf.h>

struct ky_json_keys {
	struct ky_buf text;   /* of all names, as JSON shows them */
	struct ky_buf places; /* of each name in it */
	uint32_t count;
};

void ky_json_keys_init(struct ky_json_keys *keys);
void ky_json_keys_release(struct ky_json_keys *keys);
void ky_json_keys_add(struct ky_json_keys *keys, const char *name, size_t name_bytes);

/* Returns 1: the names clash and ky_json_keys_get() has others; 0: they can be taken as they are;
 * -ENOMEM. */
int ky_json_keys_finish(struct ky_json_keys *keys);
const char *ky_json_keys_get(const struct ky_json_keys *keys, uint32_t index, size_t *bytes);

#endif
