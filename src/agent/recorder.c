/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* Composition root of the library that programs link: the C API of the recorder, over the engine
 * and a thread that steps the agent of its ring (own_agent.h). Where another process drains,
 * recorder_plain.c stands in for this file. */
#include <base/gnu.h>

#include <base/alloc.h>
#include <base/now.h>
#include <base/start_thread.h>
#include <errno.h>
#include <kymo/fatal.h>
#include <agent/dumps.h>
#include <record/emit/bell.h>
#include <record/emit/emit_engine.h>
#include <record/emit/options.h>
#include <record/sample/sampler.h>
#include <agent/own_agent.h>
#include <agent/own_options.h>
#include <agent/own_sources.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

#define DRAIN_NICE 10
#define DUMPS_WAITING_MAX 32u

struct kymo_recorder {
	struct ky_own_agent own;         /* the thread's alone while it runs */
	const struct ky_ring *last_ring; /* for the dumps that close makes */
	pthread_t thread;
	bool has_thread;
	pid_t pid;            /* a forked child has neither our thread nor our files */
	uint32_t is_stopping; /* atomic */
	uint64_t wakeups;     /* atomic */
};

static struct kymo_recorder *the_recorder; /* under the engine's lock */
static struct ky_dumps dumps = {.lock = PTHREAD_MUTEX_INITIALIZER,
				.done = PTHREAD_COND_INITIALIZER};

/* What a file's name asks for, whatever the recorder's own compression is. */
static int choose_named(struct ky_compressor_factory *out, uint32_t compression)
{
	return ky_compressor_choose(out, compression, 1);
}

/* Of this process, and recording. */
static const struct ky_ring *live_ring(void)
{
	if (__atomic_load_n(&ky_engine.phase, __ATOMIC_ACQUIRE) != KY_LIVE || ky_engine_is_orphan())
		return NULL;
	return __atomic_load_n(&ky_engine.ring, __ATOMIC_ACQUIRE);
}

static void *run(void *ctx)
{
	struct kymo_recorder *recorder = ctx;
	id_t tid = (id_t)syscall(SYS_gettid);

	pthread_setname_np(pthread_self(), "kymo-drain");
	errno = 0;
	setpriority(PRIO_PROCESS, tid, getpriority(PRIO_PROCESS, tid) + DRAIN_NICE);
	for (;;) {
		struct ky_bell_reading reading = ky_bell_read(ky_engine_live_ring());
		uint64_t until_ns, sources_ns;

		if (__atomic_load_n(&recorder->is_stopping, __ATOMIC_SEQ_CST))
			break;
		until_ns = ky_own_agent_step(&recorder->own, live_ring());
		sources_ns = ky_own_sources_step(ky_now_ns(CLOCK_MONOTONIC));
		ky_bell_wait(&reading, sources_ns < until_ns ? sources_ns : until_ns);
		__atomic_fetch_add(&recorder->wakeups, 1, __ATOMIC_RELAXED);
	}
	ky_own_agent_last_dumps(&recorder->own, recorder->last_ring);
	return NULL;
}

static int start_thread(struct kymo_recorder *recorder)
{
	int err;

	recorder->pid = getpid();
	recorder->is_stopping = 0;
	recorder->last_ring = NULL;
	ky_own_agent_begin(&recorder->own, &dumps);
	ky_dumps_open(&dumps, DUMPS_WAITING_MAX);
	__atomic_store_n(&ky_engine.has_listener, 1, __ATOMIC_RELEASE);
	err = ky_start_thread(&recorder->thread, run, recorder);
	recorder->has_thread = err == 0;
	if (err)
		ky_dumps_close(&dumps);
	return err;
}

static void stop_thread(struct kymo_recorder *recorder)
{
	ky_dumps_close(&dumps);
	__atomic_store_n(&recorder->is_stopping, 1, __ATOMIC_SEQ_CST);
	ky_bell_ring(ky_engine_ring());
	pthread_join(recorder->thread, NULL);
	recorder->has_thread = false;
	__atomic_store_n(&ky_engine.has_listener, 0, __ATOMIC_RELEASE);
}

static void publish(struct kymo_recorder *recorder)
{
	struct ky_lock_mark mark = ky_engine_lock();

	the_recorder = recorder;
	ky_engine_unlock(mark);
}

/* A recorder is open, in this process or in the one it was forked from. */
static bool is_active(void)
{
	uint32_t phase = __atomic_load_n(&ky_engine.phase, __ATOMIC_ACQUIRE);

	return phase == KY_LAZY || phase == KY_STARTING || phase == KY_LIVE;
}

static bool has_work(void)
{
	return !(ky_engine.options.flags & KYMO_RECORDER_NO_DRAIN);
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
	ky_own_agent_init(&recorder->own);
	recorder->own.place.choose_compressor = choose_named;
	err = ky_own_options_take(&recorder->own, &taken, is_active());
	if (err) {
		ky_free(recorder);
		return err;
	}
	err = ky_compressor_choose(&recorder->own.options.output.compressor, taken.compression,
				   taken.compression_level ? (int)taken.compression_level : 1);
	if (!err)
		err = ky_engine_open(&taken, taken.flags & KYMO_RECORDER_NO_DRAIN ?
						     &ky_timer_source :
						     &ky_own_samplers_hooks);
	if (err) {
		ky_free(recorder);
		return ky_options_say(&taken, err, "recorder: %s", kymo_error_text(err));
	}
	ky_own_options_output(&recorder->own, &taken);
	for (size_t i = 0; i < taken.metadata_count; i++)
		(void)kymo_metadata_set(taken.metadata[i].key, taken.metadata[i].value);
	if (has_work())
		err = start_thread(recorder);
	if (err) {
		ky_engine_leave(ky_engine_stop(), true);
		ky_free(recorder);
		return ky_options_say(&taken, err, "drain thread: %s", kymo_error_text(err));
	}
	if (taken.flags & KYMO_RECORDER_FATAL_SIGNALS)
		(void)kymo_fatal_signals_install(); /* fails for no signal of ours */
	publish(recorder);
	*out = recorder;
	return 0;
}

int kymo_recorder_close(struct kymo_recorder *recorder)
{
	bool is_live, is_streaming;
	int err;

	if (!recorder)
		return 0;
	/* From a callback: what runs it is needed until it returns, and cannot wait for itself. */
	if (recorder->has_thread && recorder->pid == getpid() &&
	    pthread_equal(recorder->thread, pthread_self()))
		return -EDEADLK;
	/* While their last events are still recorded. */
	if (recorder->has_thread && recorder->pid == getpid())
		ky_own_sources_end();
	ky_engine_scan_modules();
	is_streaming = ky_engine_mode() == KYMO_MODE_STREAM;
	is_live = ky_engine_stop();
	publish(NULL);
	if (recorder->has_thread && recorder->pid == getpid()) {
		recorder->last_ring = is_live ? ky_engine.ring : NULL;
		stop_thread(recorder);
		ky_own_sources_end(); /* one that was added meanwhile */
		ky_own_agent_end(&recorder->own, is_live && is_streaming ? ky_engine.ring : NULL);
	}
	err = __atomic_load_n(&recorder->own.last_error, __ATOMIC_RELAXED);
	ky_engine_leave(is_live, !(ky_engine.options.flags & KYMO_RECORDER_NO_DRAIN));
	ky_free(recorder);
	return err;
}

/* In a forked child. */
int kymo_recorder_reopen(void)
{
	struct kymo_recorder *recorder = the_recorder;
	int err = ky_engine_reopen();

	if (err || !recorder || recorder->pid == getpid())
		return err;
	ky_own_agent_forget(&recorder->own);
	ky_own_sources_forget();
	recorder->has_thread = false;
	recorder->wakeups = 0;
	recorder->pid = getpid();
	if (has_work())
		err = start_thread(recorder);
	if (err)
		ky_engine_leave(ky_engine_stop(), true);
	return err;
}

int kymo_recorder_status(struct kymo_recorder_status *out)
{
	struct kymo_recorder_status status = {.size = sizeof(status)};
	struct ky_dumps_stats made;
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
		ky_own_agent_status(&the_recorder->own, &status);
		status.wakeups = __atomic_load_n(&the_recorder->wakeups, __ATOMIC_RELAXED);
	}
	ky_engine_unlock(mark);
	ky_dumps_stats(&dumps, &made);
	status.dumps_waiting = made.waiting;
	status.dumps_made = made.made;
	status.dumps_failed = made.failed;
	status.dumps_refused = made.refused;
	status.size = size < sizeof(status) ? size : sizeof(status);
	memcpy(out, &status, status.size);
	return 0;
}

static int refuse(void)
{
	if (!is_active())
		return KYMO_E_CLOSED;
	if (!has_work())
		return KYMO_E_UNSUPPORTED;
	/* Not so in a forked child that has not reopened. */
	return ky_dumps_is_ours(&dumps) ? 0 : KYMO_E_CLOSED;
}

int kymo_event_source_add(const struct kymo_event_source *source)
{
	int number, err = refuse();

	if (err)
		return err;
	number = ky_own_sources_add(source);
	if (number > 0)
		ky_bell_ring(ky_engine_ring());
	return number;
}

int kymo_event_source_remove(int source)
{
	return ky_own_sources_remove(source);
}

static void give(struct kymo_dump_result *out, const struct kymo_dump_result *result)
{
	size_t size = out->size < sizeof(*result) ? out->size : sizeof(*result);

	memcpy(out, result, size);
	out->size = size;
}

int kymo_recorder_dump(const struct kymo_dump_options *options, struct kymo_dump_result *result)
{
	struct ky_dump_request *request;
	bool is_waiting;
	int err;

	if (result && result->size < sizeof(result->size))
		return -EINVAL;
	err = refuse();
	if (!err)
		err = ky_dump_request_make(&request, options, ky_now_ns(CLOCK_MONOTONIC));
	if (err)
		return err;
	is_waiting = request->is_waited_for;
	err = ky_dumps_put(&dumps, request);
	if (err) {
		ky_free(request);
		return err;
	}
	ky_bell_ring(ky_engine_ring());
	if (!is_waiting)
		return 0;
	ky_dumps_wait(&dumps, request);
	err = request->result.err;
	if (result)
		give(result, &request->result);
	ky_free(request);
	return err;
}

int kymo_trigger_add(const char *rules, char *errbuf, size_t errbuf_bytes)
{
	char unread[1];
	int err;

	if (!rules)
		return -EINVAL;
	err = refuse();
	if (!err)
		err = errbuf && errbuf_bytes ? ky_own_rules_add(rules, errbuf, errbuf_bytes) :
					       ky_own_rules_add(rules, unread, sizeof(unread));
	if (!err)
		ky_bell_ring(ky_engine_ring());
	return err;
}
