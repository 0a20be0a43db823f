/* SPDX-License-Identifier: Apache-2.0 OR MIT */
#include <session/run_ring.h>

#include <base/alloc.h>
#include <base/now.h>
#include <base/write_within.h>
#include <errno.h>
#include <fcntl.h>
#include <proc/run_process.h>
#include <ring/ring_end.h>
#include <ring/ring_guard.h>
#include <ring/ring_keep.h>
#include <ring/ring_settings.h>
#include <session/run_say.h>
#include <ship/store.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <symbol/debug_symbols.h>
#include <unistd.h>

#define MS_NS UINT64_C(1000000)
#define PACE_STREAM_NS (1000 * MS_NS)
#define CHECK_NS (100 * MS_NS) /* at what has been written since the last step */
/* An empty ring takes as much in this time as the rest of one that is filling does in the other. */
#define CHECK_EMPTY_NS (150 * MS_NS)
#define SOURCE "tokio preload"
#define DUMPS_MAX 16u /* of a ring, that wait or are being made */

static const struct ky_ring_header *header_of(const struct ky_run_ring *ring)
{
	return (const struct ky_ring_header *)(const void *)ring->image;
}

void ky_run_ring_close(struct ky_run_ring *ring)
{
	ky_run_samplers_remove(ring->owner->samplers, &ring->sampled);
	ky_reading_end(&ring->reading);
	ky_agent_close(&ring->agent);
	ky_ring_names_close(ring->names);
	if (ring->is_process_open)
		ky_proc_reader_close(&ring->process);
	if (ring->image != NULL)
		munmap((void *)(uintptr_t)ring->image, ring->image_bytes);
	if (ring->fd >= 0)
		close(ring->fd);
	ky_free(ring);
}

static void identify(struct ky_run_ring *ring, const struct ky_ring_header *header)
{
	const struct ky_ring_access access = {.fd = ring->fd};

	ring->pid = header->pid;
	ring->process_start_ticks = header->start_time_ticks;
	ring->is_anonymous = (header->flags & KY_RING_ANONYMOUS) != 0;
	ring->is_foreign = header->pid_namespace != 0 && ring->owner->pid_namespace != 0 &&
			   header->pid_namespace != ring->owner->pid_namespace;
	ring->made_ns = header->open_anchor.monotonic_ns;
	ky_agent_output_init(&ring->agent.output, &ring->owner->options.agent, header, &access,
			     &ring->owner->is_file_taken);
}

/* As the settings of the ring want it, which any process with a right to it can change. */
static bool wants_flight(struct ky_run_ring *ring)
{
	(void)ky_ring_view_settings(&ring->agent.drain.view, &ring->wish);
	return ring->wish.mode == KY_RING_MODE_AS_OPENED ? ring->owner->options.agent.is_flight :
							   ring->wish.mode == KY_RING_MODE_FLIGHT;
}

/* Of an earlier recorder process, that was killed. */
static void continue_trace(struct ky_run_ring *ring)
{
	const struct ky_open_ring open = {.image = (uint8_t *)(uintptr_t)ring->image,
					  .image_bytes = ring->image_bytes};
	struct ky_agent_output *output = &ring->agent.output;
	struct ky_ring_tail *tail = ky_alloc(sizeof(*tail));

	if (tail == NULL)
		return; /* what is on disk already is there twice, and readers count it once */
	ky_ring_progress_read(tail, &open);
	output->chunk_count = tail->chunk_count;
	ring->owner->options.settle(tail);
	output->last_ticks = tail->from_ticks;
	output->last_ties = tail->from_ties;
	ky_free(tail);
}

static int start_drain(struct ky_run_ring *ring)
{
	const struct ky_ring_header *header = header_of(ring);
	int err = ky_ring_names_open(&ring->names, ring->image, ring->image_bytes,
				     ky_debug_symbols_add);

	if (ring->owner->options.settle != NULL)
		continue_trace(ring);
	ring->agent.drain = (struct ky_drain_mode){.options = &ring->owner->options.agent,
						   .output = &ring->agent.output,
						   .image = ring->image,
						   .image_bytes = ring->image_bytes,
						   .source = SOURCE,
						   .name = ky_ring_names_text,
						   .name_ctx = ring->names,
						   .fetch_samples = ky_run_samplers_fetch,
						   .fetch_ctx = ring->owner->samplers,
						   .process = &ring->process,
						   .has_last_cut = true};
	if (!err)
		err = ky_drain_mode_open(&ring->agent.drain);
	if (err)
		return err;
	ky_proc_reader_open(&ring->process, NULL, NULL, header->pid, header->pid_namespace);
	ring->is_process_open = true;
	return ky_drain_mode_set(&ring->agent.drain, wants_flight(ring));
}

static int open_rules(struct ky_run_ring *ring)
{
	const struct ky_agent_options *options = &ring->owner->options.agent;
	const struct ky_rules_options how = {.image = ring->image,
					     .image_bytes = ring->image_bytes,
					     .access = {.fd = ring->fd},
					     .pid = ring->pid,
					     .dumps = &ring->dumps,
					     .path = ky_dump_child_path,
					     .path_ctx = &ring->maker,
					     .event = options->event,
					     .event_ctx = options->event_ctx};
	int err = ky_rules_open(&ring->agent.rules, &how);

	if (!err)
		err = ky_rules_set(ring->agent.rules, options->triggers.rules,
				   options->triggers.rule_count);
	return err;
}

/* Rules watch a process that is here. */
static void start_rules(struct ky_run_ring *ring)
{
	const struct ky_agent_options *options = &ring->owner->options.agent;
	int err;

	if (options->triggers.rule_count == 0 || ring->is_foreign)
		return;
	ring->maker = (struct ky_dump_child){
		.options = options,
		.ring = {.fd = ring->fd,
			 .image = (uint8_t *)(uintptr_t)ring->image,
			 .image_bytes = ring->image_bytes},
		.pid = ring->pid,
		.service = ring->agent.output.service,
		.source = SOURCE,
	};
	ky_dumps_open(&ring->dumps, DUMPS_MAX);
	ring->agent.dumps = &ring->dumps;
	ring->agent.maker = ky_dump_child_maker(&ring->maker);
	err = open_rules(ring);
	if (!err)
		return;
	ky_run_say("%s (pid %u) is not watched: %s", ring->agent.output.service, ring->pid,
		   kymo_error_text(err));
	ky_rules_close(ring->agent.rules);
	ring->agent.rules = NULL;
	ring->agent.dumps = NULL;
}

/* The session's thread steps the tables. */
static void describe_tables(void *self, struct ky_drain *drain)
{
	const struct ky_run_ring *ring = self;
	char text[200];

	ky_table_thread_text(ring->owner->tables, ring->fd, text, sizeof(text));
	(void)ky_drain_metadata(drain, "unwind.tables", text);
}

static void close_tables(void *self)
{
	const struct ky_run_ring *ring = self;

	ky_table_thread_remove(ring->owner->tables, ring->fd);
}

/* Is it CMD's own, the process that we wait for? */
static bool is_childs(const struct ky_run_ring *ring)
{
	return ring->owner->child.pid != 0 && ring->pid == ring->owner->child.pid &&
	       !ring->is_foreign;
}

static void start_probes(struct ky_run_ring *ring)
{
	ring->reading.resources.area.access.fd = ring->fd;
	ring->reading.resources.interval_ns = ring->owner->options.agent.resource_ms * MS_NS;
	if (is_childs(ring))
		ring->reading.states = ring->owner->states;
	ring->reading.since_ns = ring->made_ns;
	ky_reading_add(&ring->owner->readings, &ring->reading, &ring->agent.drain.view);
	if (!ring->is_foreign)
		ring->agent.probes[KY_AGENT_MODULES] = ky_probe_modules_init(
			&ring->modules, ring->pid, ring->agent.drain.pace.found_ns);
	if (!ring->is_foreign)
		ring->agent.probes[KY_AGENT_FILTERS] = ky_probe_filters_init(
			&ring->filters, ring->pid, &ring->agent.drain.view,
			&(const struct ky_ring_access){.fd = ring->fd});
	ring->agent.probes[KY_AGENT_TABLES] = (struct ky_probe){
		.self = ring, .describe = describe_tables, .close = close_tables};
}

/* The ring is a file that others can truncate while it is mapped. A fault inside it must end that
 * ring's recording, not this process: CMD's exit status depends on us. */
static int guard(const struct ky_run_ring *ring, int (*work)(void *ctx), void *ctx)
{
	static struct ky_guarded_area areas[KY_RUN_SAMPLERS_AREAS_MAX + 1]; /* one at a time */
	uint32_t count = ky_run_samplers_areas(ring->owner->samplers, areas);

	areas[count++] = (struct ky_guarded_area){ring->image, ring->image_bytes};
	return ky_ring_guard(areas, count, work, ctx);
}

static int start(void *ctx)
{
	struct ky_run_ring *ring = ctx;
	int err = start_drain(ring);

	if (err < 0)
		return err;
	start_probes(ring);
	start_rules(ring);
	return 0;
}

/* A process that calls exec keeps its number and its start time, and loses its threads: a later
 * ring of the same process is the next program's. */
bool ky_run_ring_is_successor(const struct ky_run_ring *next, const struct ky_run_ring *ring)
{
	return next->pid == ring->pid && next->process_start_ticks == ring->process_start_ticks &&
	       next->made_ns > ring->made_ns;
}

int ky_run_ring_open(struct ky_run_ring **out, struct ky_run_rings *rings, const char *name, int fd,
		     const struct stat *st, const struct ky_ring_header *header)
{
	struct ky_run_ring *ring = ky_alloc(sizeof(*ring));
	void *image;
	int err = 0;

	*out = NULL;
	if (ring == NULL) {
		close(fd);
		return -ENOMEM;
	}
	ring->owner = rings;
	ring->fd = fd;
	ring->device = st->st_dev;
	ring->inode = st->st_ino;
	ring->image_bytes = (size_t)st->st_size;
	snprintf(ring->file_name, sizeof(ring->file_name), "%s", name);
	identify(ring, header);
	image = mmap(NULL, ring->image_bytes, PROT_READ, MAP_SHARED, fd, 0);
	if (image == MAP_FAILED) {
		err = -errno;
	} else {
		ring->image = image;
		err = guard(ring, start, ring);
	}
	if (err >= 0 && !ring->is_foreign) {
		ky_table_thread_add(&rings->tables, fd, header);
		ring->sampled.ring = (struct ky_sampled_ring){.pid = ring->pid,
							      .made_ns = ring->made_ns,
							      .image = ring->image,
							      .image_bytes = ring->image_bytes};
		ky_run_samplers_add(rings->samplers, &ring->sampled, ring->fd);
	}
	if (err < 0) {
		ky_run_ring_close(ring);
		return err;
	}
	*out = ring;
	return 0;
}

/* From here on all but the last two run under the guard against faults in the image. */

/* How it ended, into the ring, should we not get to the end of this, and into the trace. Returns
 * true when it ended as it should not. */
static bool note_end(struct ky_run_ring *ring)
{
	const struct ky_run_ended_child *child = &ring->owner->child;
	const struct ky_ring_header *header = header_of(ring);
	struct ky_ring_ending ending = {.kind = KY_END_EXIT};
	char text[KY_END_TEXT_BYTES];

	if (!is_childs(ring) || !child->has_ended || ring->made_ns > child->end_ns)
		return false;
	(void)ky_ring_end_write(ring->fd, header->side_offset, header->side_bytes,
				child->wait_status, child->oom, child->end_ns);
	ky_ring_ending_of(&ending, child->wait_status, child->oom);
	(void)ky_ring_ending_text(&ending, text, sizeof(text));
	if (ky_drain_mode_stream(&ring->agent.drain) != NULL)
		(void)ky_drain_metadata(ring->agent.drain.stream, "process.end", text);
	return ky_ring_ending_is_abnormal(&ending);
}

/* For totals, which are asked for outside of the guard. */
static void note_dropped(struct ky_run_ring *ring)
{
	ring->dropped_count = atomic_load_explicit(&header_of(ring)->dropped_count,
						   memory_order_relaxed);
}

/* The file goes, but for one that could not be written as a trace. */
static void put_away(struct ky_run_ring *ring, bool is_needed)
{
	struct ky_run_rings *rings = ring->owner;

	ring->is_finished = true;
	if (ring->is_anonymous)
		return;
	if (!is_needed) {
		ky_ring_remove_at(rings->names.fd, ring->file_name, ring->device, ring->inode);
		return;
	}
	ky_run_scan_ignore(&rings->scan, ring->file_name, ring->inode);
	ky_run_say("%s/%s stays: `kymo recover` makes a trace of it where one can be written",
		   rings->directory, ring->file_name);
}

static void finish(struct ky_run_ring *ring, bool is_still_running)
{
	struct ky_run_rings *rings = ring->owner;
	bool is_abnormal = !is_still_running && note_end(ring);
	uint32_t gates = 0;
	int err;

	ky_reading_end(&ring->reading);
	/* A stream fetches by itself; what a flight ends with reads the ring alone. */
	ky_run_samplers_fetch_last(rings->samplers);
	/* What it records from now on is not read, so it must not pay for it either. A
	 * refused write only means that it continues to record into a file without a name. */
	err = is_still_running ? ky_write_within(ring->fd, header_of(ring)->page_bytes, &gates,
						 sizeof(gates)) :
				 0;
	if (rings->done.error == 0)
		rings->done.error = err;
	ring->maker.is_dead = !is_still_running;
	err = ky_agent_finish(&ring->agent, !is_still_running, is_abnormal);
	if (err < 0 && !ring->agent.drain.is_ring_needed)
		ky_run_rings_trouble(rings, ring->file_name, err);
	note_dropped(ring);
	ky_run_ring_add_totals(&rings->done, ring);
	ky_agent_output_close(&ring->agent.output);
	put_away(ring, ring->agent.drain.is_ring_needed && !is_still_running);
}

static bool has_successor(const struct ky_run_ring *ring)
{
	const struct ky_run_rings *rings = ring->owner;

	for (uint32_t i = 0; i < rings->ring_count; i++)
		if (rings->rings[i] != NULL && ky_run_ring_is_successor(rings->rings[i], ring))
			return true;
	return false;
}

static bool is_writer_gone(const struct ky_run_ring *ring)
{
	uint32_t state = atomic_load_explicit(&header_of(ring)->state, memory_order_acquire);
	struct stat st;

	if (has_successor(ring))
		return true;
	if (!ring->is_anonymous && fstat(ring->fd, &st) == 0 && st.st_nlink == 0)
		return true;
	/* The trace gets its end: that of a process we wait for will be known in a moment. */
	if (is_childs(ring) && !ring->owner->child.has_ended)
		return false;
	if (state == KY_RING_CLOSED)
		return true;
	if (ring->is_foreign)
		return !ky_ring_is_mapped(ring->fd);
	return !ky_run_process_is_alive(ring->pid, ring->process_start_ticks);
}

static struct ky_drain_mode_pace pace_of(const struct ky_run_ring *ring, bool is_flight)
{
	/* What a rule judges by events is known when they are read. */
	struct ky_drain_mode_pace pace = {.longest_ns = ring->agent.rules != NULL ?
								KY_RUN_SCAN_IDLE_NS :
							is_flight ? KY_RUN_SCAN_NEWS_NS :
								    PACE_STREAM_NS,
					  .check_ns = CHECK_NS,
					  .check_empty_ns = CHECK_EMPTY_NS,
					  .has_slack = true};

	/* A ring that fills takes a processor, of which the samplers hear in less than CHECK_NS. */
	if (!is_flight && ring->agent.rules == NULL &&
	    ky_run_samplers_are_resting(ring->owner->samplers))
		pace.check_empty_ns = PACE_STREAM_NS;
	/* The pages of a flight's ring are made ahead of the claim index, until it has come round
	 * once. */
	if (is_flight && ring->agent.rules == NULL)
		pace.check_ns = pace.check_empty_ns = ring->populate.is_making ?
							      KY_RUN_SCAN_IDLE_NS :
							      KY_RUN_SCAN_NEWS_NS;
	return pace;
}

/* Returns when the next step is due, CLOCK_MONOTONIC. */
static uint64_t step_agent(struct ky_run_ring *ring, uint64_t now_ns)
{
	struct ky_agent_moment moment = {.now_ns = now_ns, .is_flight = wants_flight(ring)};
	uint64_t again_ns;
	int err;

	ky_reading_set(&ring->reading, ring->wish.resource_ms);
	ring->sampled.ring.wanted_hz = ring->wish.sample_hz;
	(void)ky_run_populate(&ring->populate, &ring->agent.drain.view, ring->fd);
	moment.pace = pace_of(ring, moment.is_flight);
	again_ns = ky_agent_step(&ring->agent, &moment, &err);
	if (err < 0)
		ky_run_rings_trouble(ring->owner, ring->file_name, err);
	return again_ns;
}

struct step {
	struct ky_run_ring *ring;
	bool is_last;
	uint64_t due_ns; /* of the next one */
};

static int take_step(void *ctx)
{
	uint64_t now_ns = ky_now_ns(CLOCK_MONOTONIC);
	struct step *step = ctx;

	/* Read before the drain: what the writer published last is then certainly seen. */
	if (step->is_last || is_writer_gone(step->ring)) {
		finish(step->ring, step->is_last && !is_writer_gone(step->ring));
		step->due_ns = now_ns + KY_RUN_SCAN_IDLE_NS;
	} else {
		step->due_ns = step_agent(step->ring, now_ns);
	}
	note_dropped(step->ring);
	return 0;
}

static void report_lost(void *ctx, const struct ky_dump_request *request, int err)
{
	const struct ky_run_ring *ring = ctx;
	const struct ky_agent_options *options = &ring->owner->options.agent;

	if (err == KYMO_E_TRUNCATED) /* the maker has reported any other */
		options->event(options->event_ctx,
			       &(const struct ky_agent_event){.kind = KY_AGENT_DUMP_LOST,
							      .error = err,
							      .pid = ring->pid,
							      .rule = request->rule,
							      .value = request->value});
}

/* The file was cut. The drain was left in the middle; what it wrote before stays. */
static void give_up(struct ky_run_ring *ring)
{
	const struct ky_dump_hooks hooks = {.after = report_lost, .ctx = ring};

	ky_run_rings_trouble(ring->owner, ring->file_name, KYMO_E_TRUNCATED);
	if (ring->agent.dumps != NULL)
		ky_dumps_cancel(ring->agent.dumps, &ring->agent.maker, &hooks, KYMO_E_TRUNCATED);
	ky_agent_abandon(&ring->agent);
	ring->is_finished = true;
	unlinkat(ring->owner->names.fd, ring->file_name, 0);
}

/* Returns when the next one is due. */
uint64_t ky_run_ring_step(struct ky_run_ring *ring, bool is_last)
{
	struct step step = {ring, is_last, UINT64_MAX};

	if (guard(ring, take_step, &step) == 0)
		return step.due_ns;
	give_up(ring);
	return UINT64_MAX;
}

void ky_run_ring_add_totals(struct ky_run_totals *out, const struct ky_run_ring *ring)
{
	struct ky_drain_stats drained;
	uint64_t age_ns;

	ky_drain_mode_totals(&ring->agent.drain, &drained, &age_ns);
	if (age_ns > 0)
		out->age_ns = age_ns;
	out->event_count += drained.events_written;
	out->lost_count += drained.records_lost - drained.records_dropped;
	out->sample_lost_count += drained.samples_lost;
	out->flown_count += drained.records_flown;
	out->dropped_count += ring->dropped_count;
	if (!ky_agent_output_has_begun(&ring->agent.output))
		return;
	out->bytes_stored += atomic_load_explicit(&ring->agent.output.bytes_stored,
						  memory_order_relaxed);
	out->unsent_count += atomic_load_explicit(&ring->agent.output.segments_unsent,
						  memory_order_relaxed);
	if (strcmp(out->trace_path, ring->agent.output.path) != 0) /* else: before an exec */
		out->process_count++;
	snprintf(out->trace_path, sizeof(out->trace_path), "%s", ring->agent.output.path);
}
