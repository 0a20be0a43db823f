/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* Bytes as what a kernel tells about sockets: as messages of sock_diag, and as /proc/net/tcp.
 * Promises: never more sockets than there is room for; what lies behind them stays; the same input
 *           gives the same sockets; a listener has a version.
 */
#include "fuzz_target.h"

#include <probe/listeners.h>
#include <string.h>

#define ROOM 16u

static uint64_t digest_of(const struct ky_listener *sockets, uint32_t count)
{
	uint64_t digest = 1;

	for (uint32_t i = 0; i < count; i++) {
		FUZZ_CHECK(sockets[i].version == 4 || sockets[i].version == 6);
		digest = fuzz_digest(digest, &sockets[i].inode, sizeof(sockets[i].inode));
		digest = fuzz_digest(digest, sockets[i].address, sizeof(sockets[i].address));
		digest = fuzz_digest(digest, &sockets[i].port, sizeof(sockets[i].port));
	}
	return digest;
}

static uint64_t parse(const uint8_t *bytes, size_t count)
{
	struct ky_listener sockets[ROOM + 1];
	char *text = malloc(count + 1);
	uint32_t used = 0;
	uint64_t digest;
	int more;

	FUZZ_CHECK(text);
	memset(sockets, 0x5a, sizeof(sockets));
	more = ky_listeners_message(bytes, count, sockets, ROOM, &used);
	FUZZ_CHECK(more <= 1 && more > -4096 && used <= ROOM);
	digest = digest_of(sockets, used);
	if (count)
		memcpy(text, bytes, count);
	text[count] = 0;
	for (uint8_t version = 4; version <= 6; version += 2) {
		used = ky_listeners_parse(text, version, sockets, ROOM);
		FUZZ_CHECK(used <= ROOM);
		digest ^= digest_of(sockets, used);
	}
	FUZZ_CHECK(sockets[ROOM].version == 0x5a);
	free(text);
	return digest;
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t count)
{
	FUZZ_CHECK(parse(bytes, count) == parse(bytes, count));
	return 0;
}
