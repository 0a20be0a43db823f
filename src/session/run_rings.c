/* SPDX-License-Identifier: Apache-2.0 OR MIT */
#include <session/run_rings.h>

#include <base/alloc.h>
#include <base/earlier.h>
#include <base/now.h>
#include <errno.h>
#include <fcntl.h>
#include <proc/run_process.h>
#include <ring/ring_keep.h>
#include <session/run_prepared.h>
#include <session/run_ring.h>
#include <session/run_say.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#define ANONYMOUS_NAME "(anonymous)"

int ky_run_rings_open(struct ky_run_rings **out, const struct ky_session_options *options,
		      const char *directory, uint64_t session)
{
	struct ky_run_rings *rings = ky_alloc(sizeof(*rings));

	*out = NULL;
	if (rings == NULL)
		return -ENOMEM;
	rings->options = *options;
	rings->options.agent.event = ky_agent_say;
	rings->options.agent.event_ctx = &rings->events;
	rings->events.options = &rings->options;
	rings->options.agent.output.queue = &ky_background_functions;
	rings->session = session;
	ky_run_directory_init(&rings->names, rings->directory);
	ky_run_scan_init(&rings->scan, ky_now_ns(CLOCK_MONOTONIC));
	rings->pid_namespace = ky_run_process_namespace();
	snprintf(rings->directory, sizeof(rings->directory), "%s", directory);
	*out = rings;
	return 0;
}

void ky_run_rings_trouble(struct ky_run_rings *rings, const char *name, int err)
{
	if (rings->done.error == 0)
		rings->done.error = err;
	if (rings->said_ring)
		return;
	rings->said_ring = true;
	ky_run_say("%s/%s: %s; this process is not recorded, CMD is not affected", rings->directory,
		   name, kymo_error_text(err));
}

/* They are read again at every step. */
static void report_too_many(struct ky_run_rings *rings)
{
	if (!rings->said_too_many)
		ky_run_say("more than %u processes record at once: the others wait in their rings "
			   "until one of these ends",
			   KY_RUN_RINGS_MAX);
	rings->said_too_many = true;
}

/* The oldest first: what an earlier program of a process recorded is finished, at once, and its
 * run's directory free, before the next program's ring is drained into it. */
static void insert_by_age(struct ky_run_rings *rings, struct ky_run_ring *ring)
{
	uint32_t at = rings->ring_count++;

	for (uint32_t i = 0; i < at; i++)
		if (ky_run_ring_is_successor(ring, rings->rings[i]))
			rings->rings[i]->agent.drain.pace.due_ns = 0;
	for (; at > 0 && rings->rings[at - 1]->made_ns > ring->made_ns; at--)
		rings->rings[at] = rings->rings[at - 1];
	rings->rings[at] = ring;
}

static void add_ring(struct ky_run_rings *rings, const char *name, int fd, const struct stat *st,
		     const struct ky_ring_header *header)
{
	struct ky_run_ring *ring;
	int err;

	if (rings->ring_count == KY_RUN_RINGS_MAX) {
		report_too_many(rings);
		close(fd);
		return;
	}
	err = ky_run_ring_open(&ring, rings, name, fd, st, header);
	if (err < 0) {
		ky_run_rings_trouble(rings, name, err);
		ky_run_scan_ignore(&rings->scan, name, st->st_ino);
		return;
	}
	insert_by_age(rings, ring);
}

static bool is_known(const struct ky_run_rings *rings, const char *name, dev_t device, ino_t inode)
{
	for (uint32_t i = 0; i < rings->ring_count; i++)
		if (rings->rings[i]->inode == inode && rings->rings[i]->device == device)
			return true;
	return ky_run_scan_ignores(&rings->scan, name, inode);
}

struct scan {
	struct ky_run_rings *rings;
	bool is_last;
};

/* Returns false: it is to be read again, for it may become a ring of ours. */
static bool read_file(struct ky_run_rings *rings, const char *name, bool stop)
{
	struct ky_ring_header header = {.session = 0};
	struct stat st;
	int fd = ky_run_directory_open(&rings->names, name, O_RDWR | O_NONBLOCK);

	if (fd < 0)
		return false;
	if (fstat(fd, &st) != 0 || !S_ISREG(st.st_mode)) {
		close(fd);
		return true;
	}
	if (!ky_run_prepared_read(fd, &st, &header)) {
		ky_run_prepared_check(rings->names.fd, name, fd, rings->session, &rings->tables,
				      stop);
		close(fd);
		return header.session != 0 && header.session != rings->session;
	}
	/* A `kymo recover` that found it dead before we saw it alive makes a trace of it. */
	if (header.session != rings->session || ky_ring_claim(fd) != 0) {
		ky_run_scan_ignore(&rings->scan, name, st.st_ino);
		close(fd);
		return true;
	}
	add_ring(rings, name, fd, &st, &header);
	return is_known(rings, name, st.st_dev, st.st_ino);
}

static bool on_name(void *ctx, const char *name, dev_t device, ino_t inode)
{
	const struct scan *scan = ctx;

	return is_known(scan->rings, name, device, inode) ||
	       read_file(scan->rings, name, scan->is_last);
}

static void scan(struct ky_run_rings *rings, bool is_last)
{
	struct scan scan = {rings, is_last};

	ky_run_directory_scan(&rings->names, is_last, on_name, &scan);
}

static void on_anonymous(void *ctx, int fd)
{
	struct ky_run_rings *rings = ctx;
	struct ky_ring_header header;
	struct stat st;

	if (fstat(fd, &st) != 0 || is_known(rings, ANONYMOUS_NAME, st.st_dev, st.st_ino) ||
	    !ky_run_prepared_read(fd, &st, &header) || header.session != rings->session)
		close(fd);
	else
		add_ring(rings, ANONYMOUS_NAME, fd, &st, &header);
}

static void step_all(struct ky_run_rings *rings, bool stop, uint64_t *due_ns_out)
{
	uint32_t kept = 0;

	for (uint32_t i = 0; i < rings->ring_count; i++) {
		struct ky_run_ring *ring = rings->rings[i];
		uint64_t due_ns = ky_run_ring_step(ring, stop);

		if (due_ns < *due_ns_out)
			*due_ns_out = due_ns;
		rings->rings[i] = NULL;
		if (ring->is_finished)
			ky_run_ring_close(ring);
		else
			rings->rings[kept++] = ring;
	}
	rings->ring_count = kept;
}

void ky_run_rings_sample(struct ky_run_rings *rings, struct ky_run_samplers *samplers)
{
	rings->samplers = samplers;
}

void ky_run_rings_child(struct ky_run_rings *rings, uint32_t pid)
{
	rings->child.pid = pid;
	(void)ky_child_states_open(&rings->states, (pid_t)pid);
}

void ky_run_rings_child_ending(void *ctx)
{
	struct ky_run_rings *rings = ctx;

	ky_table_thread_end(rings->tables, rings->child.pid);
	ky_child_states_finish(rings->states);
	for (uint32_t i = 0; i < rings->ring_count; i++)
		if (rings->rings[i]->pid == rings->child.pid && !rings->rings[i]->is_foreign)
			ky_reading_end(&rings->rings[i]->reading);
}

void ky_run_rings_child_ended(struct ky_run_rings *rings, int wait_status, uint32_t oom)
{
	rings->child.has_ended = true;
	rings->child.wait_status = wait_status;
	rings->child.oom = oom;
	rings->child.end_ns = ky_now_ns(CLOCK_MONOTONIC);
	for (uint32_t i = 0; i < rings->ring_count; i++)
		rings->rings[i]->agent.drain.pace.due_ns = 0; /* at once: it can be finished now */
}

static bool is_flight_alone(const struct ky_run_rings *rings)
{
	return rings->options.agent.is_flight && rings->options.agent.triggers.rule_count == 0;
}

static uint64_t scan_pace_ns(const struct ky_run_rings *rings, uint64_t now_ns)
{
	return ky_run_scan_pace_ns(&rings->scan, is_flight_alone(rings),
				   rings->names.news_fd >= 0 && rings->names.is_settled, now_ns);
}

/* Nothing is drained, and nothing else suffers from a reading that takes long. */
static bool is_at_leisure(const struct ky_run_rings *rings)
{
	if (!is_flight_alone(rings) || !ky_run_samplers_can_wait(rings->samplers))
		return false;
	for (uint32_t i = 0; i < rings->ring_count; i++)
		if (!rings->rings[i]->agent.drain.is_flight || rings->rings[i]->populate.is_making)
			return false;
	return true;
}

/* What the samplers do next can come with what else is done once a second. */
static bool is_late_enough(struct ky_run_rings *rings)
{
	struct pollfd polled[KY_RUN_RINGS_POLLED_MAX + 1];

	(void)ky_run_rings_poll(rings, polled); /* what is waited for from now on */
	return ky_run_samplers_can_be_late(rings->samplers);
}

/* What is due soon is done at this wake-up: one of its own would cost more. */
static uint64_t slack_ns(const struct ky_run_rings *rings, uint64_t now_ns)
{
	/* Of two that come once a second each, one comes with the other if it may be early by more
	 * than a half. */
	return scan_pace_ns(rings, now_ns) / 8 * (is_flight_alone(rings) ? 5 : 3);
}

uint64_t ky_run_rings_step(struct ky_run_rings *rings)
{
	uint64_t start_ns = ky_now_ns(CLOCK_MONOTONIC), now_ns, samplers_ns, due_ns;
	bool is_lent;

	if (start_ns + slack_ns(rings, start_ns) >= rings->scan.due_ns) {
		scan(rings, false);
		if (ky_run_scan_wants_anonymous(&rings->scan, rings->names.fd, start_ns))
			ky_run_process_anonymous_rings(rings->session, on_anonymous, rings);
		rings->scan.due_ns = start_ns + scan_pace_ns(rings, start_ns);
	}
	ky_table_thread_look(rings->tables, start_ns);
	samplers_ns = ky_run_samplers_step(rings->samplers);
	due_ns = rings->scan.due_ns;
	step_all(rings, false, &due_ns);
	is_lent = is_at_leisure(rings);
	ky_reading_lend(rings->readings, is_lent);
	due_ns = ky_earlier(due_ns, ky_reading_step(rings->readings));
	if (!is_lent || !is_late_enough(rings))
		due_ns = ky_earlier(due_ns, samplers_ns);
	/* From when each thing was read: a step that took longer is followed by the next at
	 * once. */
	now_ns = ky_now_ns(CLOCK_MONOTONIC);
	return due_ns > now_ns ? due_ns - now_ns : 0;
}

uint32_t ky_run_rings_poll(struct ky_run_rings *rings, struct pollfd *out)
{
	int fds[KY_RUN_RINGS_POLLED_MAX - 1];
	uint32_t count = ky_run_samplers_fds(rings->samplers, fds, KY_RUN_RINGS_POLLED_MAX - 1);

	out[0] = (struct pollfd){.fd = rings->names.news_fd, .events = POLLIN};
	for (uint32_t i = 0; i < count; i++)
		out[i + 1] = (struct pollfd){.fd = fds[i], .events = POLLIN};
	return count + 1;
}

void ky_run_rings_polled(struct ky_run_rings *rings, const struct pollfd *polled, uint32_t count)
{
	if (polled[0].revents && ky_run_directory_take_news(&rings->names))
		ky_run_scan_news(&rings->scan, ky_now_ns(CLOCK_MONOTONIC));
	for (uint32_t i = 1; i < count; i++)
		if (polled[i].revents & ~POLLIN)
			ky_run_samplers_are_mute(rings->samplers);
}

void ky_run_rings_finish(struct ky_run_rings *rings, bool is_alone)
{
	uint64_t due_ns = UINT64_MAX;

	scan(rings, true);
	if (!is_alone)
		ky_run_process_anonymous_rings(rings->session, on_anonymous, rings);
	ky_run_samplers_end(rings->samplers);
	step_all(rings, true, &due_ns);
}

void ky_run_rings_totals(const struct ky_run_rings *rings, struct ky_run_totals *out)
{
	char *slash;

	*out = rings->done;
	if (out->error == 0)
		out->error = rings->events.first_error;
	out->write_error = rings->events.first_error;
	out->open_error = rings->names.open_error;
	out->is_full = rings->events.has_said_full;
	out->live_count = rings->ring_count;
	for (uint32_t i = 0; i < rings->ring_count; i++) {
		ky_run_ring_add_totals(out, rings->rings[i]);
		out->live_pid = rings->rings[i]->pid;
	}
	slash = strrchr(out->trace_path, '/');
	if (rings->options.agent.output.file != NULL && out->process_count > 0)
		snprintf(out->trace_path, sizeof(out->trace_path), "%s",
			 rings->options.agent.output.file);
	else if (out->process_count > 1 && slash != NULL)
		*slash = '\0'; /* several runs: the directory above them */
}

void ky_run_rings_close(struct ky_run_rings *rings)
{
	uint32_t i;

	if (rings == NULL)
		return;
	for (i = 0; i < rings->ring_count; i++)
		ky_run_ring_close(rings->rings[i]);
	ky_table_thread_close(rings->tables);
	ky_reading_thread_close(rings->readings);
	ky_child_states_close(rings->states);
	ky_run_directory_close(&rings->names);
	ky_free(rings);
}
