/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* Holds a recovered trace against what its killed writer had counted.
 *
 *   kill_check WITNESS [TRACE...]
 *
 * Traces that continue each other are given in order; what is still being written (.active) may end
 * in the middle. Every published event is there, in order, under the right name, and at most one
 * more in each thread: published, not yet counted. Prints `events N ahead N`; exits with 1 after a
 * sentence for each thread where that is not so.
 */
#include <base/byte_source.h>
#include <fcntl.h>
#include <inttypes.h>
#include <read/event_stream.h>
#include <ship/inflate.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "kill_host.h"

#define WORKERS 4096u

struct check {
	uint64_t next[KILL_SLOTS]; /* number of the event that comes next */
	uint32_t slot_of[WORKERS]; /* whose poll is open on this worker, + 1 */
	uint64_t wrong;
};

static void report(struct check *check, uint32_t slot, const char *what)
{
	if (check->wrong++ < 10)
		printf("thread %u: %s where event %" PRIu64 " belongs\n", slot, what,
		       slot < KILL_SLOTS ? check->next[slot] : 0);
}

static const struct ky_value *field(const struct ky_event *event, uint32_t which)
{
	uint8_t at = event->schema->slot_of[which];

	return at == 0xff ? NULL : &event->values[at];
}

static uint64_t number(const struct ky_event *event, uint32_t which)
{
	const struct ky_value *value = field(event, which);

	return value != NULL ? value->as.number : 0;
}

static void on_task(struct check *check, uint64_t task, uint32_t kind)
{
	uint32_t slot = (uint32_t)(task >> 16) - 1u;

	if (slot >= KILL_SLOTS)
		report(check, slot, "a task that was not recorded");
	else if (check->next[slot] % 3 != kind || task != kill_task_of(slot, check->next[slot]))
		report(check, slot, "another event");
	else
		check->next[slot]++;
}

static void on_begin(struct check *check, const struct ky_event *event)
{
	uint64_t task = number(event, KY_F_POLL_START_task_id);
	uint64_t worker = number(event, KY_F_POLL_START_worker_id);
	const struct ky_value *name = field(event, KY_F_POLL_START_spawn_loc);
	uint32_t slot = (uint32_t)(task >> 16) - 1u;
	char text[KILL_NAME_BYTES];

	(void)snprintf(text, sizeof(text), "kill::slot_%u::job_%u", slot,
		       (uint32_t)(task >> 8) & 0xffu);
	if (name == NULL || name->text.count != strlen(text) ||
	    memcmp(name->text.bytes, text, name->text.count) != 0)
		report(check, slot, "a poll under another name");
	if (worker < WORKERS)
		check->slot_of[worker] = slot + 1u;
	on_task(check, task, 0);
}

static void on_end(struct check *check, const struct ky_event *event)
{
	uint64_t worker = number(event, KY_F_POLL_END_worker_id);
	uint32_t slot = worker < WORKERS ? check->slot_of[worker] - 1u : UINT32_MAX;

	if (slot >= KILL_SLOTS || check->next[slot] % 3 != 2)
		report(check, slot, "the end of a poll without a begin");
	else
		check->next[slot]++;
}

/* A trace continues with a poll that an earlier one began. */
static void on_open_poll(struct check *check, const struct ky_event *event)
{
	uint64_t worker = number(event, KY_F_OPEN_POLL_worker_id);
	uint32_t slot = (uint32_t)(number(event, KY_F_OPEN_POLL_task_id) >> 16) - 1u;

	if (slot < KILL_SLOTS && worker < WORKERS)
		check->slot_of[worker] = slot + 1u;
}

static bool is_unfinished(const char *path)
{
	size_t bytes = strlen(path), ending = strlen(".active");

	return bytes > ending && strcmp(path + bytes - ending, ".active") == 0;
}

static int read_trace(struct check *check, const char *path)
{
	const struct ky_event_stream_options options = {.is_stored_order = true};
	struct ky_byte_source source;
	struct ky_event_stream *stream;
	const struct ky_event *event;
	char error[512] = "";
	int err = ky_inflate_open(&source, path, NULL, error, sizeof(error));

	if (err == 0)
		err = ky_event_stream_open(&stream, &source, 1, &options);
	if (err != 0) {
		printf("%s: %s\n", path, error);
		return 1;
	}
	while ((err = ky_event_stream_next(stream, &event)) == 1) {
		if (event->schema->event == KY_EV_POLL_START)
			on_begin(check, event);
		else if (event->schema->event == KY_EV_WAKE)
			on_task(check, number(event, KY_F_WAKE_woken_task_id), 1);
		else if (event->schema->event == KY_EV_POLL_END)
			on_end(check, event);
		else if (event->schema->event == KY_EV_OPEN_POLL)
			on_open_poll(check, event);
		else if (event->schema->event == KY_EV_LOSS)
			report(check, KILL_SLOTS, "a loss");
	}
	if (ky_event_stream_notice(stream, 0) != NULL && !is_unfinished(path)) {
		printf("%s\n", ky_event_stream_notice(stream, 0));
		check->wrong++;
	}
	ky_event_stream_close(stream);
	source.close(source.ctx);
	return err < 0;
}

int main(int argc, char **argv)
{
	static struct check check;
	const struct kill_witness *witness;
	uint64_t events = 0, ahead = 0;
	int fd = argc > 1 ? open(argv[1], O_RDONLY) : -1;

	witness = fd >= 0 ? mmap(NULL, sizeof(*witness), PROT_READ, MAP_SHARED, fd, 0) : MAP_FAILED;
	if (witness == MAP_FAILED)
		return 2;
	for (int i = 2; i < argc; i++)
		if (read_trace(&check, argv[i]) != 0)
			return 2;
	for (uint32_t slot = 0; slot < KILL_SLOTS; slot++) {
		uint64_t published = atomic_load(&witness->slots[slot].published);

		events += check.next[slot];
		ahead += check.next[slot] - published;
		if (check.next[slot] - published <= 1)
			continue;
		check.wrong++;
		printf("thread %u: %" PRIu64 " events published, %" PRIu64 " recovered\n", slot,
		       published, check.next[slot]);
	}
	printf("events %" PRIu64 " ahead %" PRIu64 "\n", events, ahead);
	return check.wrong != 0;
}
