/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* origin.h - which segment something was made from, said so that only its owner can tell.
 *
 * A copy of a segment may have other bytes the next time (a file that names its code was replaced,
 * another compressor), so its digest does not say whether it was sent. Its origin does: a keyed
 * hash of the file on disk and of how it is copied. Without the key it tells nothing, not even to
 * who can guess what was redacted.
 * The key is in DIR/SERVICE/.send-key, its owner's alone, made once.
 * Threads: owner.
 */
#ifndef KY_SEND_ORIGIN_H
#define KY_SEND_ORIGIN_H

#include <stdint.h>

#define KY_ORIGIN_BYTES 65u /* hex digits, and a zero */
#define KY_ORIGIN_KEY_BYTES 16u

struct ky_origin_keys {
	uint8_t origin[KY_ORIGIN_KEY_BYTES];
	uint8_t names[KY_ORIGIN_KEY_BYTES]; /* for hashes of what is redacted */
};

/* service_fd: of its directory. Returns 0; -EPERM: the file is another user's, or others may read
 * it; -EBADMSG: it is no key; -errno. */
int ky_origin_keys_read(struct ky_origin_keys *out, int service_fd);

/* Of the whole file behind fd. Returns 0, -errno, -ENOMEM. */
int ky_origin_make(char out[KY_ORIGIN_BYTES], const struct ky_origin_keys *keys, int fd,
		   uint32_t settings);

#endif
