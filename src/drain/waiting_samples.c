/* SPDX-License-Identifier: Apache-2.0 OR MIT */
#include <drain/waiting_samples.h>

#include <base/alloc.h>
#include <base/hash.h>
#include <errno.h>

int ky_samples_init(struct ky_sample_list *samples)
{
	samples->source = ky_thread_make_source();
	return samples->source ? 0 : -ENOMEM;
}

void ky_samples_release(struct ky_sample_list *samples)
{
	for (uint32_t i = 0; i < samples->place_count; i++)
		ky_free(samples->waiting[i]);
	ky_free(samples->waiting);
	ky_free(samples->free_places);
	ky_free(samples->wakers);
	ky_thread_free(samples->source);
}

int ky_samples_make_places(struct ky_sample_list *samples)
{
	if (samples->waiting)
		return 0;
	samples->waiting = ky_alloc(KY_SAMPLES_WAITING_MAX * sizeof(*samples->waiting));
	samples->free_places = ky_realloc(NULL, KY_SAMPLES_WAITING_MAX * sizeof(uint32_t));
	if (!samples->waiting || !samples->free_places) {
		ky_free(samples->waiting);
		ky_free(samples->free_places);
		samples->waiting = NULL;
		samples->free_places = NULL;
		return -ENOMEM;
	}
	samples->place_count = 0;
	samples->free_count = KY_SAMPLES_WAITING_MAX;
	return 0;
}

static uint32_t given_back(const struct ky_sample_list *samples)
{
	return samples->free_count - (KY_SAMPLES_WAITING_MAX - samples->place_count);
}

int ky_samples_add(struct ky_sample_list *samples, struct ky_queue_sums *sums,
		   struct ky_waiting_sample *sample, uint64_t ticks)
{
	uint32_t free = given_back(samples);
	uint32_t place = free ? samples->free_places[free - 1] : samples->place_count;
	int err = ky_queue_push(&samples->source->queue, sums,
				&(struct ky_rec){ticks, place, KY_REC_SAMPLE, 0});

	if (err) {
		ky_free(sample);
		return err;
	}
	samples->free_count--;
	samples->place_count += !free;
	samples->waiting[place] = sample;
	return 0;
}

void ky_samples_remove(struct ky_sample_list *samples, uint64_t place)
{
	ky_free(samples->waiting[place]);
	samples->waiting[place] = NULL;
	samples->free_places[given_back(samples)] = (uint32_t)place;
	samples->free_count++;
}

struct ky_waker_name *ky_samples_waker(const struct ky_sample_list *samples, uint32_t tid)
{
	return &samples->wakers[ky_hash_number(tid) % KY_WAKER_NAMES];
}
