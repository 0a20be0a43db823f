/* SPDX-License-Identifier: Apache-2.0 OR MIT */
#include <bucket/bucket_lanes.h>

#include <base/alloc.h>
#include <base/now.h>
#include <base/start_thread.h>
#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>

#define LOOK_NS UINT64_C(50000000)

struct lanes {
	const struct ky_bucket_work *work;
	uint32_t next, ended;  /* atomic */
	pthread_mutex_t mutex; /* of the first error */
	int result;
	char *why;
};

struct bucket_lane {
	struct lanes *lanes;
	pthread_t thread;
	bool is_connected; /* atomic: the client may be stopped */
	struct ky_s3_client client;
	char why[KY_BUCKET_WHY_BYTES];
};

static void keep_error(struct lanes *lanes, int result, const char *why)
{
	(void)pthread_mutex_lock(&lanes->mutex);
	if (!lanes->result) {
		lanes->result = result;
		(void)snprintf(lanes->why, KY_BUCKET_WHY_BYTES, "%s", why);
	}
	(void)pthread_mutex_unlock(&lanes->mutex);
	__atomic_store_n(&lanes->next, UINT32_MAX / 2, __ATOMIC_RELAXED);
}

static void *run(void *ctx)
{
	struct bucket_lane *lane = ctx;
	struct lanes *lanes = lane->lanes;
	const struct ky_bucket_work *work = lanes->work;
	int result = ky_bucket_connect(&lane->client, work->bucket, lane->why);

	__atomic_store_n(&lane->is_connected, !result, __ATOMIC_RELEASE);
	while (!result) {
		uint32_t index = __atomic_fetch_add(&lanes->next, 1, __ATOMIC_RELAXED);

		if (index >= work->count)
			break;
		result = work->one(work->ctx, &lane->client, index, lane->why);
	}
	if (result)
		keep_error(lanes, result, lane->why);
	__atomic_fetch_add(&lanes->ended, 1, __ATOMIC_RELEASE);
	return NULL; /* the client is closed by who may stop it */
}

/* Those that connect meanwhile see that there is nothing to do. */
static void stop(struct lanes *lanes, struct bucket_lane *all, uint32_t started)
{
	__atomic_store_n(&lanes->next, UINT32_MAX / 2, __ATOMIC_RELAXED);
	for (uint32_t i = 0; i < started; i++)
		if (__atomic_load_n(&all[i].is_connected, __ATOMIC_ACQUIRE))
			ky_http_client_stop_at(all[i].client.http, 0);
}

static void watch(struct lanes *lanes, struct bucket_lane *all, uint32_t started)
{
	const struct ky_bucket_work *work = lanes->work;
	uint64_t wait_ns = LOOK_NS / 50;

	while (__atomic_load_n(&lanes->ended, __ATOMIC_ACQUIRE) < started) {
		ky_sleep_ns(wait_ns);
		wait_ns = wait_ns * 2 < LOOK_NS ? wait_ns * 2 : LOOK_NS;
		if (work->progress)
			work->progress(work->ctx);
		if (work->is_over && work->is_over(work->ctx))
			stop(lanes, all, started);
	}
}

int ky_bucket_lanes_run(const struct ky_bucket_work *work, char *why)
{
	struct lanes lanes = {.work = work, .mutex = PTHREAD_MUTEX_INITIALIZER, .why = why};
	uint32_t wanted = work->count < KY_BUCKET_LANES ? work->count : KY_BUCKET_LANES;
	struct bucket_lane *all = ky_alloc((wanted + 1) * sizeof(*all));
	uint32_t started = 0;

	for (uint32_t i = 0; all && i < wanted; i++) {
		all[started].lanes = &lanes;
		if (!ky_start_thread(&all[started].thread, run, &all[started]))
			started++;
	}
	if (!started && wanted) {
		ky_free(all);
		(void)snprintf(why, KY_BUCKET_WHY_BYTES, "no memory, or no thread can be made");
		return -EAGAIN;
	}
	watch(&lanes, all, started);
	for (uint32_t i = 0; i < started; i++)
		(void)pthread_join(all[i].thread, NULL);
	for (uint32_t i = 0; i < started; i++)
		ky_s3_client_close(&all[i].client);
	ky_free(all);
	return lanes.result;
}
