/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* Composition root of the library that programs link: the engine, and a thread that drains its ring
 * to disk. Where somebody else drains, recorder_plain.c stands in for this file. */
#include <base/gnu.h>

#include <base/alloc.h>
#include <drain/drain.h>
#include <errno.h>
#include <record/emit/emit_engine.h>
#include <record/emit/options.h>
#include <ship/stage.h>
#include <ship/store.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

#define MS_NS UINT64_C(1000000)
#define PACE_NS (50 * MS_NS)
#define PACE_BUSY_NS MS_NS
#define STORE_RETRY_NS (1000 * MS_NS)
#define DRAIN_NICE 10
#define DRAIN_MEMORY_BYTES (6u << 20)
#define TRACE_DIRECTORY_DEFAULT "./kymo-traces"

struct kymo_recorder {
	struct ky_drain *drain; /* the thread's alone while it runs */
	struct ky_store *store;
	struct ky_stage_factory stage;
	uint64_t store_retry_ns;
	char run_name[64];
	char trace_file[512];      /* "": segments in a directory */
	uint32_t file_further_pid; /* not 0: the name is the parent's */

	pthread_t thread;
	bool has_thread;
	pid_t pid; /* a forked child has neither our thread nor our files */
	pthread_mutex_t lock;
	pthread_cond_t wake;
	bool is_stopping;

	uint64_t segments_sealed; /* atomic, for status */
	uint64_t bytes_written;   /* atomic */
	int32_t last_error;       /* atomic; the first */
};

static struct kymo_recorder *the_recorder; /* under the engine's lock */

static void note_error(struct kymo_recorder *recorder, int err)
{
	int32_t none = 0;

	if (err < 0)
		__atomic_compare_exchange_n(&recorder->last_error, &none, err, false,
					    __ATOMIC_RELAXED, __ATOMIC_RELAXED);
}

static int choose_stage(struct ky_stage_factory *out, uint32_t compression, int32_t level)
{
	switch (compression) {
	case KYMO_COMPRESSION_DEFAULT:
	case KYMO_COMPRESSION_ZSTD:
#if !defined(KY_WITHOUT_ZSTD)
		ky_stage_zstd(out, level ? level : 1);
		return 0;
#else
		if (compression == KYMO_COMPRESSION_ZSTD)
			return KYMO_E_UNSUPPORTED;
		break;
#endif
	case KYMO_COMPRESSION_GZIP:
#if !defined(KY_WITHOUT_GZIP)
		ky_stage_gzip(out, level ? level : 1);
		return 0;
#else
		return KYMO_E_UNSUPPORTED;
#endif
	default:
		break;
	}
	*out = ky_stage_none;
	return 0;
}

/* Opened with the first chunk: a process that records nothing leaves nothing. */
static int open_store(struct kymo_recorder *recorder)
{
	const struct kymo_recorder_options *options = &ky_engine.options;
	uint64_t now_ns = ky_now_ns(CLOCK_MONOTONIC);
	struct ky_store_options store = {
		.file = recorder->trace_file[0] ? recorder->trace_file : NULL,
		.file_further_pid = recorder->file_further_pid,
		.directory = ky_engine.trace_directory[0] ? ky_engine.trace_directory :
							    TRACE_DIRECTORY_DEFAULT,
		.service = ky_engine.service,
		.run = recorder->run_name,
		.stage = &recorder->stage,
		.segment_bytes_max = options->segment_bytes_max,
		.rotate_interval_ns = options->rotate_interval_ns,
		.total_bytes_max = options->total_bytes_max,
	};

	if (now_ns < recorder->store_retry_ns)
		return -EAGAIN;
	recorder->store_retry_ns = now_ns + STORE_RETRY_NS;
	return ky_store_open(&recorder->store, &store);
}

static int take_chunk(void *ctx, const struct ky_chunk *chunk)
{
	struct kymo_recorder *recorder = ctx;
	int err = recorder->store ? 0 : open_store(recorder);

	if (!err)
		err = ky_store_chunk(recorder->store, chunk);
	if (err != -EAGAIN)
		note_error(recorder, err);
	return err;
}

static int open_drain(struct kymo_recorder *recorder)
{
	const struct ky_ring *ring = __atomic_load_n(&ky_engine.ring, __ATOMIC_ACQUIRE);
	struct ky_drain_options options = {
		.image = ring->base,
		.image_bytes = ring->mapped_bytes,
		.chunk = take_chunk,
		.chunk_ctx = recorder,
		.memory_bytes_max = DRAIN_MEMORY_BYTES,
		.source = "C API",
	};

	ky_store_run_name(recorder->run_name, sizeof(recorder->run_name), ring->header->boot_id,
			  ring->header->pid, ring->start_time_ticks);
	return ky_drain_open(&recorder->drain, &options);
}

static void update_status(struct kymo_recorder *recorder)
{
	struct ky_store_stats stats;

	if (!recorder->store)
		return;
	ky_store_stats(recorder->store, &stats);
	__atomic_store_n(&recorder->segments_sealed, stats.segments_sealed, __ATOMIC_RELAXED);
	__atomic_store_n(&recorder->bytes_written, stats.bytes_stored, __ATOMIC_RELAXED);
	note_error(recorder, stats.last_error);
}

/* One look at the ring; returns how long to wait for the next. */
static uint64_t drain_once(struct kymo_recorder *recorder)
{
	struct ky_drain_stats stats;
	int err;

	if (!recorder->drain) {
		if (__atomic_load_n(&ky_engine.phase, __ATOMIC_ACQUIRE) != KY_LIVE)
			return PACE_NS;
		err = open_drain(recorder);
		if (err) {
			note_error(recorder, err);
			return PACE_NS;
		}
	}
	note_error(recorder, ky_drain_step(recorder->drain, 0));
	if (recorder->store && ky_store_wants_seal(recorder->store, ky_now_ns(CLOCK_MONOTONIC)))
		note_error(recorder, ky_drain_seal(recorder->drain));
	update_status(recorder);
	ky_drain_stats(recorder->drain, &stats);
	return stats.backlog_bytes > ky_engine.options.ring_bytes / 4 ? PACE_BUSY_NS : PACE_NS;
}

static void wait_until(struct kymo_recorder *recorder, uint64_t at_ns)
{
	struct timespec until = {.tv_sec = (time_t)(at_ns / 1000000000u),
				 .tv_nsec = (long)(at_ns % 1000000000u)};

	while (!recorder->is_stopping &&
	       pthread_cond_timedwait(&recorder->wake, &recorder->lock, &until) == 0)
		;
}

static void *run(void *ctx)
{
	struct kymo_recorder *recorder = ctx;
	id_t tid = (id_t)syscall(SYS_gettid);

	pthread_setname_np(pthread_self(), "kymo-drain");
	errno = 0;
	setpriority(PRIO_PROCESS, tid, getpriority(PRIO_PROCESS, tid) + DRAIN_NICE);
	pthread_mutex_lock(&recorder->lock);
	while (!recorder->is_stopping) {
		uint64_t pause_ns;

		pthread_mutex_unlock(&recorder->lock);
		pause_ns = drain_once(recorder);
		pthread_mutex_lock(&recorder->lock);
		wait_until(recorder, ky_now_ns(CLOCK_MONOTONIC) + pause_ns);
	}
	pthread_mutex_unlock(&recorder->lock);
	return NULL;
}

/* The host's signals are not for our thread. */
static int start_thread(struct kymo_recorder *recorder)
{
	pthread_condattr_t attr;
	sigset_t all, before;
	int err;

	pthread_condattr_init(&attr);
	pthread_condattr_setclock(&attr, CLOCK_MONOTONIC);
	pthread_mutex_init(&recorder->lock, NULL);
	pthread_cond_init(&recorder->wake, &attr);
	pthread_condattr_destroy(&attr);
	recorder->pid = getpid();
	recorder->is_stopping = false;
	sigfillset(&all);
	pthread_sigmask(SIG_SETMASK, &all, &before);
	err = pthread_create(&recorder->thread, NULL, run, recorder);
	pthread_sigmask(SIG_SETMASK, &before, NULL);
	recorder->has_thread = err == 0;
	return -err;
}

static void stop_thread(struct kymo_recorder *recorder)
{
	if (!recorder->has_thread)
		return;
	pthread_mutex_lock(&recorder->lock);
	recorder->is_stopping = true;
	pthread_cond_signal(&recorder->wake);
	pthread_mutex_unlock(&recorder->lock);
	pthread_join(recorder->thread, NULL);
	recorder->has_thread = false;
}

/* Everything that is still in the ring, then the end of the last segment. */
static void drain_rest(struct kymo_recorder *recorder)
{
	if (!recorder->drain)
		note_error(recorder, open_drain(recorder));
	if (!recorder->drain)
		return;
	note_error(recorder, ky_drain_step(recorder->drain, KY_DRAIN_FINAL));
	note_error(recorder, ky_drain_seal(recorder->drain));
	ky_drain_last_word(recorder->drain);
	update_status(recorder);
}

static void publish(struct kymo_recorder *recorder)
{
	struct ky_lock_mark mark = ky_engine_lock();

	the_recorder = recorder;
	ky_engine_unlock(mark);
}

static bool is_draining(void)
{
	return !(ky_engine.options.flags & (KYMO_RECORDER_NO_DRAIN | KYMO_RECORDER_FLIGHT));
}

/* The name says the compression: everybody who sees the file believes it. */
static int take_file(struct kymo_recorder *recorder, struct kymo_recorder_options *taken)
{
	const char *name = taken->trace_file, *suffix = name ? ky_trace_file_suffix(name) : "";
	uint32_t compression = KYMO_COMPRESSION_NONE;
	int err;

	if (!name)
		return 0;
	if (!suffix)
		return ky_options_say(taken, -EINVAL,
				      "trace_file %s: the name must end in .trc, .trc.zst or "
				      ".trc.gz",
				      name);
	if (suffix[0])
		compression = suffix[1] == 'z' ? KYMO_COMPRESSION_ZSTD : KYMO_COMPRESSION_GZIP;
	if (taken->compression && taken->compression != compression)
		return ky_options_say(taken, -EINVAL,
				      "trace_file %s: compression contradicts the name", name);
	if (taken->segment_bytes_max || taken->rotate_interval_ns)
		return ky_options_say(taken, -EINVAL,
				      "trace_file %s: one file does not rotate; leave "
				      "segment_bytes_max and rotate_interval_ns 0",
				      name);
	if (taken->total_bytes_max && taken->total_bytes_max < KY_TRACE_FILE_BYTES_MIN)
		return ky_options_say(taken, -EINVAL,
				      "trace_file %s: total_bytes_max is less than 1 MiB", name);
	err = ky_trace_file_check(name);
	if (err)
		return ky_options_say(taken, err, "trace_file %s: %s", name, kymo_error_text(err));
	snprintf(recorder->trace_file, sizeof(recorder->trace_file), "%s", name);
	taken->compression = compression;
	taken->trace_file = NULL; /* the caller's text */
	return 0;
}

int kymo_recorder_open(struct kymo_recorder **out, const struct kymo_recorder_options *options)
{
	struct kymo_recorder_options taken;
	struct kymo_recorder *recorder;
	int err;

	if (!out)
		return -EINVAL;
	*out = NULL;
	err = ky_options_take(&taken, options);
	if (err)
		return err;
	recorder = ky_alloc(sizeof(*recorder));
	if (!recorder)
		return ky_options_say(&taken, -ENOMEM, "recorder: out of memory");
	recorder->pid = getpid();
	err = take_file(recorder, &taken);
	if (err) {
		ky_free(recorder);
		return err;
	}
	err = choose_stage(&recorder->stage, taken.compression, taken.compression_level);
	if (!err)
		err = ky_engine_open(&taken);
	if (err) {
		ky_free(recorder);
		return ky_options_say(&taken, err, "recorder: %s", kymo_error_text(err));
	}
	for (size_t i = 0; i < taken.metadata_count; i++)
		(void)kymo_metadata_set(taken.metadata[i].key, taken.metadata[i].value);
	if (is_draining())
		err = start_thread(recorder);
	if (err) {
		ky_engine_leave(ky_engine_stop(), true);
		ky_free(recorder);
		return ky_options_say(&taken, err, "drain thread: %s", kymo_error_text(err));
	}
	publish(recorder);
	*out = recorder;
	return 0;
}

int kymo_recorder_close(struct kymo_recorder *recorder)
{
	bool is_live, is_draining_here;
	int err;

	if (!recorder)
		return 0;
	is_draining_here = recorder->has_thread && recorder->pid == getpid();
	ky_engine_scan_modules();
	is_live = ky_engine_stop();
	publish(NULL);
	if (is_draining_here) {
		stop_thread(recorder);
		if (is_live)
			drain_rest(recorder);
		ky_drain_close(recorder->drain);
		ky_store_close(recorder->store);
		pthread_cond_destroy(&recorder->wake);
		pthread_mutex_destroy(&recorder->lock);
	}
	err = __atomic_load_n(&recorder->last_error, __ATOMIC_RELAXED);
	ky_engine_leave(is_live, !(ky_engine.options.flags & KYMO_RECORDER_NO_DRAIN));
	ky_free(recorder);
	return err;
}

/* In a forked child. The parent's drain and store stay where they are, never touched again: closing
 * them would seal a segment that the parent is still writing. */
int kymo_recorder_reopen(void)
{
	struct kymo_recorder *recorder = the_recorder;
	int err = ky_engine_reopen();

	if (err || !recorder || recorder->pid == getpid())
		return err;
	recorder->drain = NULL;
	recorder->store = NULL;
	recorder->store_retry_ns = 0;
	recorder->file_further_pid = (uint32_t)getpid();
	recorder->has_thread = false;
	recorder->segments_sealed = recorder->bytes_written = 0;
	recorder->last_error = 0;
	recorder->pid = getpid();
	if (is_draining())
		err = start_thread(recorder);
	if (err)
		ky_engine_leave(ky_engine_stop(), true);
	return err;
}

int kymo_recorder_status(struct kymo_recorder_status *out)
{
	struct kymo_recorder_status status = {.size = sizeof(status)};
	size_t size = out ? out->size : 0;
	struct ky_lock_mark mark;
	int err;

	if (size < sizeof(size))
		return -EINVAL;
	err = ky_engine_status(&status);
	if (err)
		return err;
	mark = ky_engine_lock();
	if (the_recorder && the_recorder->pid == getpid()) {
		status.segments_sealed = __atomic_load_n(&the_recorder->segments_sealed,
							 __ATOMIC_RELAXED);
		status.bytes_written = __atomic_load_n(&the_recorder->bytes_written,
						       __ATOMIC_RELAXED);
		if (!status.last_error)
			status.last_error = __atomic_load_n(&the_recorder->last_error,
							    __ATOMIC_RELAXED);
	}
	ky_engine_unlock(mark);
	status.size = size < sizeof(status) ? size : sizeof(status);
	memcpy(out, &status, status.size);
	return 0;
}
