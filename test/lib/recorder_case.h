/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* recorder_case.h - a recorder with its ring in a directory of the test's own, and a view into
 * it. */
#ifndef KY_TEST_RECORDER_CASE_H
#define KY_TEST_RECORDER_CASE_H

#include "ring_reader.h"

#include <kymo/emit.h>
#include <kymo/recorder.h>

struct test_recorder {
	char directory[64];
	char path[256]; /* of the ring, once there is one */
	struct kymo_recorder *recorder;
	struct test_ring ring;
};

/* Opens with NO_DRAIN; flags is added. ring_bytes 0: the smallest, 128 KiB. Fails the test on
 * error. */
void test_recorder_open(struct test_recorder *test, uint64_t ring_bytes, uint32_t flags);

/* Maps the ring (once) and reads all of it. */
void test_recorder_read(struct test_recorder *test);

/* Closes and removes everything. */
void test_recorder_close(struct test_recorder *test);

/* A directory of its own on tmpfs where there is one; removed by test_recorder_close(). A counter
 * that tests set has just moved its upper half. */
void test_recorder_directory(struct test_recorder *test);

/* Runs fn in a new thread and joins it. */
void test_in_thread(void *(*fn)(void *), void *ctx);

#endif
