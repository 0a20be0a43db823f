/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* temp_tree.h - a folder of a test's own, and its end with everything below. */
#ifndef TEST_LIB_TEMP_TREE_H
#define TEST_LIB_TEMP_TREE_H

#include "cmocka_all.h"

#include <ftw.h>
#include <stdio.h>
#include <stdlib.h>

/* out: at least 32 bytes. Returns 0, -1. */
static inline int temp_tree_make(char *out, size_t out_bytes)
{
	snprintf(out, out_bytes, "/tmp/kymo-test-XXXXXX");
	return mkdtemp(out) ? 0 : -1;
}

static inline int temp_tree_remove_one(const char *path, const struct stat *about, int type,
				       struct FTW *ftw)
{
	(void)about;
	(void)type;
	(void)ftw;
	return remove(path);
}

static inline void temp_tree_write(const char *path, const char *text)
{
	FILE *file = fopen(path, "we");

	assert_non_null(file);
	assert_true(fputs(text, file) >= 0);
	assert_int_equal(fclose(file), 0);
}

/* Returns 0; not 0: something could not be removed. */
static inline int temp_tree_remove(const char *path)
{
	return nftw(path, temp_tree_remove_one, 16, FTW_DEPTH | FTW_PHYS);
}

#endif
