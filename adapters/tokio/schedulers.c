/* SPDX-License-Identifier: Apache-2.0 OR MIT */
#include "schedulers.h"

#include "host_words.h"
#include "worker.h"

#define HANDLE_WORDS_MAX 256u
#define CORE_WORDS_MAX 64u
#define SET_WORDS_MAX 40u
#define WORKERS_MAX 65536u
#define COUNTS 2u /* an Arc's target begins with them */
#define QUEUE_WORDS 4u
#define QUEUE_ROOM_MIN 64u
#define QUEUE_ROOM_MAX (UINT64_C(1) << 32)

/* One pair of Arcs for each worker: its run queue, and what unparks it. */
struct remotes {
	uintptr_t at;
	uint64_t count;
};

static bool read_remote(const struct remotes *remotes, uint64_t index, uint64_t pair[2])
{
	return ky_tokio_read_words(remotes->at + index * 2 * sizeof(pair[0]), pair, 2) == 2 &&
	       pair[0] != pair[1] && ky_tokio_is_arc(pair[0]) && ky_tokio_is_arc(pair[1]);
}

/* The longest of all that look so: padding of the handle may hold what stood on the stack while the
 * list was shorter. */
static bool find_remotes(uintptr_t handle, struct remotes *out)
{
	uint64_t words[HANDLE_WORDS_MAX], pair[2];
	size_t count = ky_tokio_read_words(handle, words, HANDLE_WORDS_MAX);

	*out = (struct remotes){0};
	for (size_t i = COUNTS; i + 1 < count; i++) {
		struct remotes found = {words[i], words[i + 1]};

		if (ky_tokio_is_address(found.at) && found.count > out->count &&
		    found.count <= WORKERS_MAX && read_remote(&found, 0, pair) &&
		    read_remote(&found, found.count - 1, pair))
			*out = found;
	}
	return out->count != 0;
}

/* Room, where the entries are, which is the first, how many: in the compiler's order. */
static bool is_queue(const uint64_t words[QUEUE_WORDS])
{
	for (uint32_t room = 0; room < QUEUE_WORDS; room++) {
		uint32_t small = 0, addresses = 0;

		if (words[room] < QUEUE_ROOM_MIN || words[room] > QUEUE_ROOM_MAX ||
		    (words[room] & (words[room] - 1)))
			continue;
		for (uint32_t i = 0; i < QUEUE_WORDS; i++) {
			small += i != room && words[i] <= words[room];
			addresses += i != room && words[i] > words[room] &&
				     ky_tokio_is_address(words[i]);
		}
		if (small == 2 && addresses == 1)
			return true;
	}
	return false;
}

static bool is_local_set(uintptr_t scheduler)
{
	uint64_t words[SET_WORDS_MAX];
	size_t count = ky_tokio_read_words(scheduler, words, SET_WORDS_MAX), queues = 0;

	for (size_t i = COUNTS; i + QUEUE_WORDS <= count; i++) {
		if (!is_queue(words + i))
			continue;
		queues++;
		i += QUEUE_WORDS - 1;
	}
	return queues >= 2;
}

enum ky_tokio_kind ky_tokio_scheduler_kind(uintptr_t scheduler)
{
	struct remotes remotes;

	if (find_remotes(scheduler, &remotes))
		return KY_TOKIO_KIND_MULTI_THREAD;
	return is_local_set(scheduler) ? KY_TOKIO_KIND_LOCAL_SET : KY_TOKIO_KIND_CURRENT_THREAD;
}

/* The core of this worker has one of its pair. */
static bool is_core(uintptr_t core, const uint64_t pair[2])
{
	uint64_t words[CORE_WORDS_MAX];
	size_t count;

	if (!ky_tokio_is_address(core))
		return false;
	count = ky_tokio_read_words(core, words, CORE_WORDS_MAX);
	for (size_t i = 0; i < count; i++)
		if (words[i] == pair[0] || words[i] == pair[1])
			return true;
	return false;
}

/* words: of a worker. The place of its handle is `at`; of the other two words one is its index and
 * one its core, which is not there where another thread has it. */
static enum ky_tokio_kind kind_by_handle(const uint64_t words[KY_TOKIO_WORKER_WORDS], uint32_t at)
{
	uint64_t pair[2];
	struct remotes remotes;
	bool is_taken = false;

	if (!ky_tokio_is_arc(words[at]) || !find_remotes(words[at], &remotes))
		return KY_TOKIO_KIND_BLOCKING;
	for (uint32_t index = COUNTS; index < KY_TOKIO_WORKER_WORDS; index++)
		for (uint32_t core = COUNTS; core < KY_TOKIO_WORKER_WORDS; core++) {
			if (core == index || core == at || index == at ||
			    words[index] >= remotes.count ||
			    !read_remote(&remotes, words[index], pair))
				continue;
			if (is_core(words[core], pair))
				return KY_TOKIO_KIND_LAUNCH;
			is_taken |= words[core] == 0;
		}
	return is_taken ? KY_TOKIO_KIND_UNKNOWN : KY_TOKIO_KIND_BLOCKING;
}

enum ky_tokio_kind ky_tokio_run_kind(const struct ky_tokio_table *table, const void *header)
{
	uintptr_t worker = ky_tokio_worker_of(table, header);
	enum ky_tokio_kind kind = KY_TOKIO_KIND_BLOCKING, found;
	uint64_t words[KY_TOKIO_WORKER_WORDS];

	if (!worker ||
	    ky_tokio_read_words(worker, words, KY_TOKIO_WORKER_WORDS) != KY_TOKIO_WORKER_WORDS)
		return KY_TOKIO_KIND_BLOCKING;
	/* A core may look like an Arc, too: its first words are what it counts. */
	for (uint32_t at = COUNTS; at < KY_TOKIO_WORKER_WORDS && kind != KY_TOKIO_KIND_LAUNCH;
	     at++) {
		found = kind_by_handle(words, at);
		kind = found != KY_TOKIO_KIND_BLOCKING ? found : kind;
	}
	/* block_in_place passes a worker to another launch, and may take its core back before. */
	if (kind == KY_TOKIO_KIND_UNKNOWN && ky_tokio_worker_is_known(worker))
		return KY_TOKIO_KIND_LAUNCH;
	return kind;
}
