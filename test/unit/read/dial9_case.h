/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* dial9_case.h - dial9's two traces of test/data, unpacked. */
#ifndef KY_TEST_DIAL9_CASE_H
#define KY_TEST_DIAL9_CASE_H

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <zlib.h>

#define DIAL9_057 "dial9-0.5.7-demo.bin.gz"
#define DIAL9_2026 "dial9-2026-05-demo.bin.gz"

/* Returns NULL when the file is not there; the caller frees. */
static inline uint8_t *dial9_bytes(const char *name, size_t *count)
{
	const char *root = getenv("MESON_SOURCE_ROOT");
	size_t capacity = 16u << 20;
	uint8_t *bytes = malloc(capacity);
	char path[512];
	gzFile file;
	int part;

	*count = 0;
	snprintf(path, sizeof(path), "%s/test/data/%s", root ? root : ".", name);
	file = gzopen(path, "rb");
	while (file && bytes && (part = gzread(file, bytes + *count, 1u << 20)) > 0) {
		*count += (size_t)part;
		if (*count + (1u << 20) > capacity)
			break;
	}
	if (file)
		gzclose(file);
	if (*count > 0)
		return bytes;
	free(bytes);
	return NULL;
}

#endif
