/* SPDX-License-Identifier: Apache-2.0 OR MIT */
#include <base/gnu.h>

#include <record/emit/emit_engine.h>

#include <base/file_name.h>
#include <base/first_line.h>
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <link.h>
#include <record/emit/bell.h>
#include <record/emit/counter_table.h>
#include <record/emit/span_table.h>
#include <record/sample/poll_readings.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/auxv.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#ifndef MADV_WIPEONFORK
#define MADV_WIPEONFORK 18
#endif

struct ky_engine ky_engine = {.lock = PTHREAD_MUTEX_INITIALIZER};

struct ky_lock_mark ky_engine_lock(void)
{
	struct ky_lock_mark mark = {kymo_thread_self, 0, 0};

	/* Files are opened under it, and a thread that is cancelled would end there. */
	pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &mark.cancel);
	if (mark.self == &ky_thread_none) {
		kymo_thread_self = &ky_thread_busy;
	} else if (ky_thread_is_state(mark.self)) {
		mark.flags = __atomic_load_n(&mark.self->flags, __ATOMIC_RELAXED);
		__atomic_store_n(&mark.self->flags, mark.flags | 1u, __ATOMIC_RELAXED);
	}
	__atomic_signal_fence(__ATOMIC_SEQ_CST);
	pthread_mutex_lock(&ky_engine.lock);
	return mark;
}

void ky_engine_unlock(struct ky_lock_mark mark)
{
	pthread_mutex_unlock(&ky_engine.lock);
	__atomic_signal_fence(__ATOMIC_SEQ_CST);
	if (ky_thread_is_state(mark.self))
		__atomic_store_n(&mark.self->flags, mark.flags, __ATOMIC_RELAXED);
	kymo_thread_self = mark.self;
	pthread_setcancelstate(mark.cancel, NULL);
}

static uint32_t lock_owner(void)
{
#if defined(__GLIBC__)
	return (uint32_t)ky_engine.lock.__data.__owner;
#else
	return 0;
#endif
}

uint32_t ky_engine_tid_locked(void)
{
	uint32_t owner = ky_engine.is_lock_naming ? lock_owner() : 0;

	return owner ? owner : (uint32_t)syscall(SYS_gettid);
}

static void set_phase(enum ky_phase phase)
{
	__atomic_store_n(&ky_engine.phase, (uint32_t)phase, __ATOMIC_SEQ_CST);
}

bool ky_engine_is_orphan(void)
{
	return !__atomic_load_n(&ky_engine.pool->is_alive, __ATOMIC_ACQUIRE);
}

/* Private zeros instead of the page that others can write: every gate is shut. */
static void close_control_page(void)
{
	ky_map_private(&kymo_control, sizeof(kymo_control));
}

/* Runs in the child, which has one thread. The ring stays the parent's: even an event that the fork
 * cut in two writes into private memory from here on. */
void ky_engine_disarm_child(void)
{
	if (ky_engine_sampler())
		ky_engine_sampler()->forget();
	close_control_page();
	ky_ring_detach(ky_engine.ring);
	set_phase(KY_DISARMED);
	if (ky_thread_is_state(kymo_thread_self)) {
		pthread_setspecific(ky_engine.key, NULL);
		kymo_thread_self = &ky_thread_none;
	}
}

/* A child must not write into our pages, so the parent counts it. A child made by a raw clone is as
 * disarmed but not counted. */
static void count_fork(void)
{
	if (__atomic_load_n(&ky_engine.phase, __ATOMIC_ACQUIRE) == KY_LIVE)
		atomic_fetch_add_explicit(&ky_engine.ring->header->fork_disarmed_count, 1,
					  memory_order_relaxed);
}

/* Another thread may have held the lock at the fork; here it will never give it back. The child may
 * be the one that takes the prepared ring, and may not be able to read who it is by then. */
static void start_child(void)
{
	pthread_mutex_t fresh = PTHREAD_MUTEX_INITIALIZER;

	memcpy(&ky_engine.lock, &fresh, sizeof(fresh));
	ky_poll_cost_fork_child();
	if (ky_engine_sampler() && ky_engine_sampler()->fork_child)
		ky_engine_sampler()->fork_child();
	if (!ky_engine.prepared)
		return;
	ky_spans_forget();
	ky_ring_identify(ky_engine.prepared);
	__atomic_store_n(&ky_engine.pool->is_alive, 1, __ATOMIC_RELEASE);
}

static int hook_process(void)
{
	int err;

	if (ky_engine.has_process_hooks)
		return 0;
	err = pthread_key_create(&ky_engine.key, ky_thread_exit);
	if (err)
		return -err;
	err = pthread_atfork(NULL, count_fork, start_child);
	if (err) {
		pthread_key_delete(ky_engine.key);
		return -err;
	}
	ky_engine.has_process_hooks = true;
	return 0;
}

static int make_pool(void)
{
	struct ky_thread_pool *pool;

	if (ky_engine.pool)
		return 0;
	pool = mmap(NULL, sizeof(*pool), PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1,
		    0);
	if (pool == MAP_FAILED)
		return -ENOMEM;
	if (madvise(pool, sizeof(*pool), MADV_WIPEONFORK) != 0) { /* Linux before 4.14 */
		munmap(pool, sizeof(*pool));
		return KYMO_E_UNSUPPORTED;
	}
	ky_engine.pool = pool;
	return 0;
}

/* The session that drains this ring. A recorder with a thread of its own drains it itself, also in
 * a program that `kymo run` started: its events are written once. */
static uint64_t session(void)
{
	const char *text = ky_engine.options.flags & KYMO_RECORDER_NO_DRAIN ?
				   secure_getenv("KYMO_SESSION") :
				   NULL;

	if (ky_engine.options.session)
		return ky_engine.options.session;
	return text ? strtoull(text, NULL, 16) : 0;
}

static void describe_ring(const struct ky_ring *ring)
{
	struct ky_engine *engine = &ky_engine;
	struct ky_ring_header *header = ring->header;

	if (!(engine->options.flags & KYMO_RECORDER_STREAM))
		header->flags |= KY_RING_FLIGHT;
	(void)ky_read_first_line(KY_BOOT_ID_PATH, header->boot_id, sizeof(header->boot_id));
	snprintf(header->service, sizeof(header->service), "%.63s", engine->service);
	snprintf(header->arch, sizeof(header->arch), "%s", KYMO_ARCH_NAME);
	snprintf(header->recorder_version, sizeof(header->recorder_version), "%s",
		 KYMO_VERSION_STRING);
	/* Last: a reader that finds a session without a magic number sees a prepared ring. */
	__atomic_store_n(&header->session, session(), __ATOMIC_RELEASE);
}

/* What a first event can say, and without a system call. */
static void stamp_ring(void)
{
	struct ky_engine *engine = &ky_engine;
	struct ky_ring_header *header = engine->ring->header;

	engine->ring->clock = engine->clock;
	header->pid = engine->ring->pid;
	header->start_time_ticks = engine->ring->start_time_ticks;
	if (engine->clock.is_os)
		header->flags |= KY_RING_CLOCK_MONOTONIC;
	header->ticks_per_second = engine->clock.ticks_per_second;
	ky_clock_anchor(&engine->clock, &header->open_anchor);
}

/* From now on a gate is one load of a page that `kymo` can write, too. */
static void share_control_page(struct ky_ring *ring)
{
	uint32_t gates = __atomic_load_n(&ky_engine.gates, __ATOMIC_ACQUIRE);

	atomic_store_explicit(&ring->control->gates, gates, memory_order_relaxed);
	/* An old size of 0 maps shared pages a second time; no descriptor is needed. */
	if (mremap(ring->control, 0, KYMO_ARCH_PAGE_BYTES, MREMAP_MAYMOVE | MREMAP_FIXED,
		   &kymo_control) == MAP_FAILED)
		__atomic_store_n(&kymo_control.gates, gates, __ATOMIC_RELAXED);
	/* kymo_recorder_gates() may have run between the two. */
	gates = __atomic_load_n(&ky_engine.gates, __ATOMIC_ACQUIRE);
	__atomic_store_n(&kymo_control.gates, gates, __ATOMIC_RELAXED);
}

/* Of a child that was forked between two recordings: the thread that it has took part in the first
 * one, and writes with the state from then. */
static void keep_own_state(void)
{
	struct ky_engine *engine = &ky_engine;
	const struct ky_thread *own = (const struct ky_thread *)(const void *)kymo_thread_self;

	if (!ky_thread_is_state(kymo_thread_self))
		return;
	for (; &engine->pool->threads[engine->state_count] != own; engine->state_count++)
		engine->free_states[engine->free_count++] = (uint16_t)engine->state_count;
	engine->state_count++;
}

static void reset_threads(void)
{
	struct ky_engine *engine = &ky_engine;

	engine->parked_count = 0;
	engine->thread_number = 0;
	if (!ky_engine_is_orphan())
		return;
	engine->state_count = 0;
	engine->free_count = 0;
	keep_own_state();
	__atomic_store_n(&engine->pool->is_alive, 1, __ATOMIC_RELEASE);
}

/* "Seccomp" of proc(5). The loader has just opened files itself, so no filter kills for this one;
 * prctl() is not so sure. */
static int read_confinement(void)
{
	char text[4096], *at;
	int fd = open("/proc/self/status", O_RDONLY | O_CLOEXEC);
	ssize_t count = fd < 0 ? 0 : read(fd, text, sizeof(text) - 1);

	if (fd >= 0)
		close(fd);
	text[count > 0 ? count : 0] = 0;
	at = strstr(text, "\nSeccomp:");
	return at ? (int)strtol(at + sizeof("\nSeccomp:") - 1, NULL, 10) : 0;
}

/* A program that put itself under a filter since may be killed for a call it never makes itself,
 * such as those that make a file. */
static bool is_newly_confined(void)
{
	return __atomic_load_n(&ky_engine.is_confined, __ATOMIC_RELAXED) ||
	       prctl(PR_GET_SECCOMP) != ky_engine.confinement;
}

static int make_ring(struct ky_ring **out)
{
	struct ky_engine *engine = &ky_engine;
	struct ky_ring_request request = {
		.directory = engine->ring_directory[0] ? engine->ring_directory : NULL,
		.service = engine->service,
		.ring_bytes = engine->options.ring_bytes,
		.directory_bytes = KY_DIRECTORY_BYTES_DEFAULT,
		.sample_bytes = engine->options.sample_bytes,
	};
	int err = ky_ring_create(out, &request, &engine->clock);

	if (!err)
		describe_ring(*out);
	return err;
}

/* The prepared ring's gates count from here on, so that taking it maps nothing. What fails here is
 * tried again at the first event. */
static void prepare_ring(void)
{
	char comm[16] = "";

	if (make_ring(&ky_engine.prepared) != 0)
		return;
	(void)ky_read_first_line("/proc/thread-self/comm", comm, sizeof(comm));
	kymo_thread_name(comm);
	share_control_page(ky_engine.prepared);
	__atomic_store_n(&ky_engine.pool->is_alive, 1, __ATOMIC_RELEASE);
}

/* A page of our own with the gates as they are wanted. In one step: an event that found a gate shut
 * meanwhile would be missing, and it would not be known. */
static void own_control_page(void)
{
	struct kymo_control *page = mmap(NULL, sizeof(*page), PROT_READ | PROT_WRITE,
					 MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	if (page == MAP_FAILED) {
		close_control_page();
		return;
	}
	page->gates = __atomic_load_n(&ky_engine.gates, __ATOMIC_ACQUIRE);
	if (mremap(page, sizeof(*page), sizeof(*page), MREMAP_MAYMOVE | MREMAP_FIXED,
		   &kymo_control) == MAP_FAILED)
		close_control_page();
}

static bool take_prepared(void)
{
	struct ky_engine *engine = &ky_engine;
	struct ky_ring *ring = engine->prepared;
	uint32_t unused = 0;

	engine->prepared = NULL;
	if (!ring)
		return false;
	if (atomic_compare_exchange_strong_explicit(&ring->header->state, &unused, KY_RING_LIVE,
						    memory_order_acq_rel, memory_order_relaxed)) {
		if (ky_engine_is_orphan()) /* of a raw clone, which start_child() has not seen */
			ky_ring_identify(ring);
		__atomic_store_n(&engine->ring, ring, __ATOMIC_RELEASE);
		return true;
	}
	/* A process that we were forked from, or forked, was first: it is that one's page. */
	own_control_page();
	ky_ring_detach(ring);
	ky_ring_forget(ring, false);
	return false;
}

/* No thread will take it any more; not even a forked process that still may. */
static void discard_prepared(void)
{
	struct ky_ring *ring = ky_engine.prepared;
	uint32_t unused = 0;
	bool is_unused;

	if (!ring)
		return;
	ky_engine.prepared = NULL;
	is_unused = atomic_compare_exchange_strong(&ring->header->state, &unused, KY_RING_CLOSED);
	close_control_page();
	ky_ring_detach(ring);
	ky_ring_forget(ring, is_unused);
}

/* From the first event on, which may be of any kind, those gates are open that a profile wants.
 * Before it, that would be too early: without an event there is no ring, and no sample either. */
static void keep_wanted_gates(void)
{
	const char *text = secure_getenv("KYMO_GATES");
	uint32_t old = __atomic_load_n(&kymo_control.gates, __ATOMIC_RELAXED);
	uint32_t wanted = text ? (uint32_t)strtoul(text, NULL, 16) : old;

	/* 0: recording is stopped already. */
	while (old && !__atomic_compare_exchange_n(&kymo_control.gates, &old, wanted, true,
						   __ATOMIC_ACQ_REL, __ATOMIC_RELAXED))
		;
}

int ky_engine_start_locked(void)
{
	struct ky_engine *engine = &ky_engine;
	bool is_prepared;
	int err = 0;

	if (__atomic_load_n(&engine->phase, __ATOMIC_ACQUIRE) != KY_LAZY)
		return engine->phase == KY_LIVE ? 0 : KYMO_E_CLOSED;
	set_phase(KY_STARTING);
	ky_clock_calibrate(&engine->clock);
	is_prepared = take_prepared();
	if (!is_prepared)
		err = is_newly_confined() ? KYMO_E_UNSUPPORTED : make_ring(&engine->ring);
	if (err) {
		engine->last_error = err;
		__atomic_store_n(&engine->gates, 0, __ATOMIC_RELEASE);
		__atomic_store_n(&kymo_control.gates, 0, __ATOMIC_RELEASE);
		set_phase(KY_DISARMED);
		return err;
	}
	stamp_ring();
	ky_directory_attach(&engine->directory, engine->ring);
	ky_counters_new_ring();
	ky_counters_copy(engine->ring->side);
	ky_spans_copy(engine->ring->side);
	reset_threads();
	__atomic_store_n(&engine->generation, engine->generation + 1, __ATOMIC_RELEASE);
	if (!is_prepared)
		share_control_page(engine->ring);
	keep_wanted_gates();
	atomic_store_explicit(&engine->ring->header->state, KY_RING_LIVE, memory_order_relaxed);
	/* Everything above is there when a reader finds the magic. */
	atomic_store_explicit(&engine->ring->header->magic, KY_RING_MAGIC, memory_order_release);
	ky_poll_cost_start(&engine->clock, is_prepared);
	set_phase(KY_LIVE);
	ky_counters_copy(engine->ring->side);
	ky_spans_copy(engine->ring->side);
	if (__atomic_load_n(&engine->has_listener, __ATOMIC_ACQUIRE))
		ky_bell_ring(engine->ring);
	__atomic_store_n(&engine->settings_seen, 0, __ATOMIC_RELAXED);
	if (ky_engine_sampler() && engine->options.sample_hz)
		ky_engine_sampler()->apply(engine->options.sample_hz);
	return 0;
}

int ky_engine_start(void)
{
	struct ky_lock_mark mark = ky_engine_lock();
	int err = ky_engine_start_locked();

	ky_engine_unlock(mark);
	return err;
}

/* The caller's wish, else KYMO_SERVICE, else the program's name. */
static void choose_service(const char *wish)
{
	char path[KY_RING_PATH_BYTES];
	ssize_t count;

	if (!wish || !wish[0])
		wish = secure_getenv("KYMO_SERVICE");
	if (!wish || !wish[0]) {
		count = readlink("/proc/self/exe", path, sizeof(path) - 1);
		path[count > 0 ? count : 0] = 0;
		wish = strrchr(path, '/') ? strrchr(path, '/') + 1 : "process";
	}
	snprintf(ky_engine.service, KY_SERVICE_BYTES, "%s", wish);
	ky_file_name_clean(ky_engine.service);
}

/* Of the environment; 0: it is not there, or makes no sense. */
static uint64_t number_of(const char *name, uint64_t max)
{
	const char *text = secure_getenv(name);
	uint64_t number = text ? strtoull(text, NULL, 10) : 0;

	return number <= max ? number : 0;
}

static uint32_t resource_interval(void)
{
	const char *text = secure_getenv("KYMO_RESOURCES");
	uint32_t interval_ms = (uint32_t)number_of("KYMO_RESOURCES", KY_RESOURCE_MS_MAX);

	if (text && strcmp(text, "off") == 0)
		return UINT32_MAX;
	return interval_ms && interval_ms < KY_RESOURCE_MS_MIN ? KY_RESOURCE_MS_MIN : interval_ms;
}

static uint32_t switches_of_environment(void)
{
	const char *text = secure_getenv("KYMO_SWITCHES");

	return text && strcmp(text, "on") == 0 ? KYMO_SWITCHES_ON : KYMO_SWITCHES_OFF;
}

static int copy_options(const struct kymo_recorder_options *options)
{
	struct ky_engine *engine = &ky_engine;

	engine->options = *options;
	if (!engine->options.ring_bytes)
		engine->options.ring_bytes = KY_RING_BYTES_DEFAULT;
	if (!engine->options.gates)
		engine->options.gates = KYMO_GATES_DEFAULT;
	if (!engine->options.sample_bytes)
		engine->options.sample_bytes = number_of("KYMO_SAMPLE_BYTES", KY_SAMPLE_BYTES_MAX);
	if (engine->options.sample_bytes < KY_SAMPLE_BYTES_MIN)
		engine->options.sample_bytes = KY_SAMPLE_BYTES_DEFAULT;
	if (!engine->options.sample_hz)
		engine->options.sample_hz = (uint32_t)number_of("KYMO_SAMPLE", 1000);
	if (engine->options.sample_hz == KYMO_SAMPLE_OFF)
		engine->options.sample_hz = 0;
	if (!engine->options.switches)
		engine->options.switches = switches_of_environment();
	if (!engine->options.alloc_bytes)
		engine->options.alloc_bytes = number_of("KYMO_ALLOC", KYMO_ALLOC_BYTES_MAX);
	if (engine->options.alloc_bytes < KYMO_ALLOC_BYTES_MIN)
		engine->options.alloc_bytes = KYMO_ALLOC_BYTES_DEFAULT;
	if (!engine->options.resource_interval_ms)
		engine->options.resource_interval_ms = resource_interval();
	engine->options.metadata = NULL;
	engine->options.metadata_count = 0;
	engine->options.errbuf = NULL;
	engine->options.dump_directory = engine->options.triggers = NULL; /* the caller's texts */
	engine->options.service = engine->service;
	if (options->ring_directory &&
	    strlen(options->ring_directory) >= sizeof(engine->ring_directory))
		return -ENAMETOOLONG;
	if (options->trace_directory &&
	    strlen(options->trace_directory) >= sizeof(engine->trace_directory))
		return -ENAMETOOLONG;
	snprintf(engine->ring_directory, sizeof(engine->ring_directory), "%s",
		 options->ring_directory ? options->ring_directory : "");
	snprintf(engine->trace_directory, sizeof(engine->trace_directory), "%s",
		 options->trace_directory ? options->trace_directory : "");
	choose_service(options->service);
	return 0;
}

/* Of the loader; absent where the program is linked statically. */
#pragma weak dladdr
#pragma weak dlopen

static bool is_of_program(const void *base)
{
	const ElfW(Ehdr) *header = base;

	return (uintptr_t)base + header->e_phoff == getauxval(AT_PHDR);
}

/* Threads call us when they end, a fork does, and ticks that are on their way: a library that we
 * are part of must not be unloaded any more. Without the engine's lock: who has the loader's may be
 * about to record for the first time. */
static void stay_loaded(void)
{
	static uint32_t is_done; /* atomic */
	int err = errno;
	Dl_info info;

	if (!dladdr || !dlopen || __atomic_exchange_n(&is_done, 1, __ATOMIC_RELAXED))
		return;
	if (dladdr(&ky_engine, &info) && info.dli_fname && !is_of_program(info.dli_fbase))
		(void)dlopen(info.dli_fname, RTLD_LAZY | RTLD_NOLOAD | RTLD_NODELETE);
	errno = err;
}

int ky_engine_open(const struct kymo_recorder_options *options,
		   const struct ky_sampler_hooks *sampler)
{
	struct ky_engine *engine = &ky_engine;
	struct ky_lock_mark mark;
	int err = 0;

	stay_loaded();
	mark = ky_engine_lock();
	if (engine->phase == KY_LIVE && ky_engine_is_orphan())
		ky_engine_disarm_child();
	if (engine->phase != KY_CLOSED && engine->phase != KY_DISARMED)
		err = KYMO_E_ACTIVE;
	if (err)
		goto out;
	/* Not before: the one that records needs its own to stop. */
	__atomic_store_n(&engine->sampler, sampler, __ATOMIC_RELEASE);
	engine->last_error = 0;
	engine->confinement = read_confinement();
	engine->is_lock_naming = lock_owner() == (uint32_t)syscall(SYS_gettid);
	ky_directory_release(&engine->directory);
	err = copy_options(options);
	if (!err)
		err = hook_process();
	if (!err)
		err = make_pool();
	if (!err)
		err = ky_directory_init(&engine->directory, KY_DIRECTORY_BYTES_DEFAULT);
	if (err)
		goto out;
	ky_clock_choose(&engine->clock);
	memset(&engine->modules, 0, sizeof(engine->modules));
	ky_module_map_scan(&engine->modules, &engine->directory, &engine->clock);
	engine->has_options = true;
	__atomic_store_n(&engine->open_serial, engine->open_serial + 1, __ATOMIC_RELAXED);
	__atomic_store_n(&engine->gates, engine->options.gates, __ATOMIC_RELEASE);
	set_phase(KY_LAZY);
	if (options->flags & KYMO_RECORDER_PREPARED)
		prepare_ring();
	if (options->flags & KYMO_RECORDER_EAGER)
		err = ky_engine_start_locked();
	else
		__atomic_store_n(&kymo_control.gates, engine->options.gates, __ATOMIC_RELEASE);
	if (err) {
		set_phase(KY_CLOSED);
		ky_directory_release(&engine->directory);
	}
out:
	ky_engine_unlock(mark);
	return err;
}

bool ky_engine_stop(void)
{
	struct ky_engine *engine = &ky_engine;
	struct ky_lock_mark mark;
	bool is_live;

	if (engine->phase == KY_LIVE && ky_engine_is_orphan())
		ky_engine_disarm_child(); /* or we would shut our parent's gates */
	mark = ky_engine_lock();
	is_live = engine->phase == KY_LIVE;
	if (is_live && ky_engine_sampler())
		ky_engine_sampler()->stop();
	__atomic_store_n(&engine->gates, 0, __ATOMIC_RELEASE);
	ky_poll_cost_stop();
	discard_prepared();
	/* Private zeros: the page in the ring still says what was recorded. */
	if (is_live)
		close_control_page();
	else
		__atomic_store_n(&kymo_control.gates, 0, __ATOMIC_RELEASE);
	set_phase(KY_CLOSED);
	if (is_live) {
		/* A thread that was late in an event may have started it again. */
		if (ky_engine_sampler())
			ky_engine_sampler()->stop();
		for (uint32_t i = 0; i < engine->state_count; i++)
			/* Sequentially consistent, as the phase before: see set_limit() in
			 * emit_slow.c. */
			__atomic_store_n(&engine->pool->threads[i].hot.limit, NULL,
					 __ATOMIC_SEQ_CST);
		atomic_store_explicit(&engine->ring->header->state, KY_RING_CLOSED,
				      memory_order_release);
	}
	ky_engine_unlock(mark);
	return is_live;
}

void ky_engine_leave(bool is_live, bool is_unlinking)
{
	struct ky_lock_mark mark = ky_engine_lock();

	if (is_live) {
		ky_ring_detach(ky_engine.ring);
		ky_ring_forget(ky_engine.ring, is_unlinking);
	}
	ky_directory_release(&ky_engine.directory);
	ky_engine_unlock(mark);
}

int ky_engine_reopen(void)
{
	struct ky_engine *engine = &ky_engine;
	struct ky_lock_mark mark;
	int err = 0;

	if (!engine->has_options || !engine->directory.bytes)
		return KYMO_E_CLOSED;
	if (engine->phase == KY_LIVE && ky_engine_is_orphan())
		ky_engine_disarm_child();
	mark = ky_engine_lock();
	if (engine->phase == KY_DISARMED && ky_engine_is_orphan()) {
		ky_spans_forget();
		ky_ring_forget(engine->ring, false);
		ky_directory_detach(&engine->directory);
		ky_clock_choose(&engine->clock);
		__atomic_store_n(&engine->gates, engine->options.gates, __ATOMIC_RELEASE);
		set_phase(KY_LAZY);
		if (engine->options.flags & KYMO_RECORDER_EAGER)
			err = ky_engine_start_locked();
		else
			__atomic_store_n(&kymo_control.gates, engine->options.gates,
					 __ATOMIC_RELEASE);
	} else if (engine->phase != KY_LAZY) {
		err = engine->phase == KY_LIVE ? KYMO_E_ACTIVE : KYMO_E_CLOSED;
	}
	ky_engine_unlock(mark);
	return err;
}

void ky_engine_scan_modules(void)
{
	struct ky_engine *engine = &ky_engine;
	uint32_t phase = __atomic_load_n(&engine->phase, __ATOMIC_ACQUIRE);
	struct ky_lock_mark mark;

	if ((phase != KY_LAZY && phase != KY_LIVE) || (phase == KY_LIVE && ky_engine_is_orphan()))
		return;
	mark = ky_engine_lock();
	if (engine->directory.bytes)
		ky_module_map_scan(&engine->modules, &engine->directory, &engine->clock);
	ky_engine_unlock(mark);
}

bool ky_engine_knows(uint64_t address)
{
	struct ky_lock_mark mark = ky_engine_lock();
	bool is_known = ky_module_map_knows(&ky_engine.modules, address);

	ky_engine_unlock(mark);
	return is_known;
}
