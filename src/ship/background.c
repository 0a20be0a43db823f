/* SPDX-License-Identifier: Apache-2.0 OR MIT */
#include <ship/background.h>

#include <base/alloc.h>
#include <base/start_thread.h>
#include <errno.h>
#include <string.h>

struct queue_entry {
	struct queue_entry *next;
	size_t capacity;       /* of the bytes after this */
	struct ky_chunk chunk; /* its bytes lie after this */
};

struct ky_background {
	ky_chunk_fn sink;
	void *sink_ctx;
	size_t bytes_max;
	pthread_t thread;
	pthread_mutex_t lock;
	pthread_cond_t has_work; /* for the thread */
	pthread_cond_t has_room; /* for the caller */
	/* below: under the lock */
	struct queue_entry *first, **last;
	struct queue_entry
		*spare; /* kept: fresh memory of a chunk's size costs more than copying it */
	size_t bytes;   /* that wait or are with the sink */
	bool is_ending;
	/* Up to the next start of a segment that is delivered, and that is given out. */
	bool is_dropping, is_refusing;
	int error;
	struct ky_chunk_loss loss;
};

/* The lock is held, and let go while the sink works. */
static void deliver(struct ky_background *self, const struct ky_chunk *chunk)
{
	int err;

	if (chunk->is_segment_start)
		self->is_dropping = false;
	if (!self->is_dropping) {
		pthread_mutex_unlock(&self->lock);
		err = self->sink(self->sink_ctx, chunk);
		pthread_mutex_lock(&self->lock);
		if (!err)
			return;
		self->is_dropping = self->is_refusing = true;
		self->error = err;
	}
	ky_chunk_lose(&self->loss, chunk);
}

/* The lock is held. One is enough for a sink that keeps up. */
static void retire(struct ky_background *self, struct queue_entry *entry)
{
	self->bytes -= entry->chunk.byte_count;
	if (!self->spare || self->spare->capacity < entry->capacity) {
		struct queue_entry *smaller = self->spare;

		self->spare = entry;
		entry = smaller;
	}
	ky_free(entry);
}

static void *run(void *ctx)
{
	struct ky_background *self = ctx;

	pthread_mutex_lock(&self->lock);
	for (;;) {
		struct queue_entry *entry = self->first;

		if (!entry && self->is_ending)
			break;
		if (!entry) {
			pthread_cond_wait(&self->has_work, &self->lock);
			continue;
		}
		self->first = entry->next;
		if (!self->first)
			self->last = &self->first;
		deliver(self, &entry->chunk);
		retire(self, entry);
		pthread_cond_signal(&self->has_room);
	}
	pthread_mutex_unlock(&self->lock);
	return NULL;
}

static void release(struct ky_background *self)
{
	pthread_cond_destroy(&self->has_room);
	pthread_cond_destroy(&self->has_work);
	pthread_mutex_destroy(&self->lock);
	ky_free(self->spare);
	ky_free(self);
}

int ky_background_open(struct ky_background **out, ky_chunk_fn sink, void *sink_ctx,
		       size_t bytes_max)
{
	struct ky_background *self = ky_alloc(sizeof(*self));
	int err;

	*out = NULL;
	if (!self)
		return -ENOMEM;
	self->sink = sink;
	self->sink_ctx = sink_ctx;
	self->bytes_max = bytes_max;
	self->last = &self->first;
	pthread_mutex_init(&self->lock, NULL);
	pthread_cond_init(&self->has_work, NULL);
	pthread_cond_init(&self->has_room, NULL);
	err = ky_start_thread(&self->thread, run, self);
	if (err) {
		release(self);
		return err;
	}
	*out = self;
	return 0;
}

void ky_background_close(struct ky_background *self)
{
	if (!self)
		return;
	pthread_mutex_lock(&self->lock);
	self->is_ending = true;
	pthread_cond_signal(&self->has_work);
	pthread_mutex_unlock(&self->lock);
	pthread_join(self->thread, NULL);
	release(self);
}

static struct queue_entry *take_spare(struct ky_background *self, size_t bytes)
{
	struct queue_entry *entry = NULL;

	pthread_mutex_lock(&self->lock);
	if (self->spare && self->spare->capacity >= bytes) {
		entry = self->spare;
		self->spare = NULL;
	}
	pthread_mutex_unlock(&self->lock);
	return entry;
}

static struct queue_entry *copy_chunk(struct ky_background *self, const struct ky_chunk *chunk)
{
	struct queue_entry *entry = take_spare(self, chunk->byte_count);
	uint8_t *bytes;

	if (!entry) {
		entry = ky_realloc(NULL, sizeof(*entry) + chunk->byte_count);
		if (!entry)
			return NULL;
		entry->capacity = chunk->byte_count;
	}
	bytes = (uint8_t *)(entry + 1);
	entry->next = NULL;
	entry->chunk = *chunk;
	if (chunk->byte_count)
		memcpy(bytes, chunk->bytes, chunk->byte_count);
	entry->chunk.bytes = bytes;
	return entry;
}

int ky_background_chunk(void *ctx, const struct ky_chunk *chunk)
{
	struct ky_background *self = ctx;
	struct queue_entry *entry = copy_chunk(self, chunk);
	int err = 0;

	if (!entry)
		return -ENOMEM;
	pthread_mutex_lock(&self->lock);
	while (self->bytes && self->bytes + chunk->byte_count > self->bytes_max)
		pthread_cond_wait(&self->has_room, &self->lock);
	if (chunk->is_segment_start)
		self->is_refusing = false;
	if (self->is_refusing)
		err = self->error;
	if (!err) {
		*self->last = entry;
		self->last = &entry->next;
		self->bytes += chunk->byte_count;
		pthread_cond_signal(&self->has_work);
	}
	pthread_mutex_unlock(&self->lock);
	if (err)
		ky_free(entry);
	return err;
}

void ky_background_wait(struct ky_background *self)
{
	pthread_mutex_lock(&self->lock);
	while (self->bytes)
		pthread_cond_wait(&self->has_room, &self->lock);
	pthread_mutex_unlock(&self->lock);
}

bool ky_background_take_loss(struct ky_background *self, struct ky_chunk_loss *out, int *error)
{
	bool has_loss;

	pthread_mutex_lock(&self->lock);
	*out = self->loss;
	*error = self->error;
	has_loss = out->chunk_count != 0;
	memset(&self->loss, 0, sizeof(self->loss));
	pthread_mutex_unlock(&self->lock);
	return has_loss;
}

const struct ky_background_functions ky_background_functions = {
	ky_background_open, ky_background_close, ky_background_chunk, ky_background_wait,
	ky_background_take_loss};
