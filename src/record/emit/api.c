/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* The public calls that need neither a drain thread nor a disk: gates, status, names, metadata. */
#include <record/emit/emit_engine.h>

#include <errno.h>
#include <kymo/sampling.h>
#include <record/emit/bell.h>
#include <record/emit/counter_table.h>
#include <record/emit/options.h>
#include <record/emit/usdt_names.h>
#include <record/sample/poll_readings.h>
#include <stdio.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

bool ky_engine_lock_open(struct ky_lock_mark *mark)
{
	uint32_t phase = __atomic_load_n(&ky_engine.phase, __ATOMIC_ACQUIRE);

	if (phase == KY_CLOSED || phase == KY_DISARMED ||
	    (phase == KY_LIVE && ky_engine_is_orphan()))
		return false;
	*mark = ky_engine_lock();
	if (ky_engine.directory.bytes)
		return true;
	ky_engine_unlock(*mark);
	return false;
}

typedef uint32_t (*add_fn)(struct ky_directory *directory, const struct ky_directory_item *item);

static uint32_t add(add_fn fn, const struct ky_directory_item *item)
{
	struct ky_lock_mark mark;
	int err = errno;
	uint32_t id = 0;

	if (ky_engine_lock_open(&mark)) {
		id = fn(&ky_engine.directory, item);
		ky_engine_unlock(mark);
	}
	errno = err;
	return id;
}

uint32_t kymo_string_intern(const char *text, size_t text_bytes)
{
	struct ky_directory_item item = {.kind = KY_ENTRY_STRING,
					 .text = text ? text : "",
					 .text_bytes = text ? text_bytes : 0};

	return add(ky_directory_intern, &item);
}

uint32_t kymo_name_intern(const char *text, size_t text_bytes, uint64_t code_address,
			  uint64_t table_address, uint32_t copy)
{
	size_t kept = text ? ky_directory_kept(text, text_bytes) : 0;
	struct ky_entry_name fixed = {.code_address = code_address,
				      .table_address = table_address,
				      .copy = copy,
				      .text_bytes = (uint32_t)kept};
	struct ky_directory_item item = {.kind = KY_ENTRY_NAME,
					 .fixed = &fixed,
					 .fixed_bytes = sizeof(fixed),
					 .text = text ? text : "",
					 .text_bytes = text ? text_bytes : 0};
	uint64_t address = table_address ? table_address : code_address;

	uint32_t id;

	/* Code that was loaded after the last reading of the loader's list. */
	if (address && !ky_engine_knows(address))
		ky_engine_scan_modules();
	id = add(ky_directory_intern, &item);
	ky_usdt_name_add(id, text, text_bytes, code_address);
	return id;
}

void kymo_runtime_describe(uint64_t runtime, const char *name, uint32_t kind, uint32_t copy)
{
	struct ky_entry_runtime fixed = {.runtime = runtime, .kind = kind, .copy = copy};
	struct ky_directory_item item = {.kind = KY_ENTRY_RUNTIME,
					 .fixed = &fixed,
					 .fixed_bytes = sizeof(fixed),
					 .text = name ? name : "",
					 .text_bytes = name ? strlen(name) : 0};

	add(ky_directory_intern, &item);
}

int kymo_metadata_set(const char *key, const char *value)
{
	uint8_t fixed[sizeof(uint32_t) + KY_METADATA_KEY_BYTES_MAX];
	struct ky_directory_item item = {.kind = KY_ENTRY_METADATA, .fixed = fixed, .text = value};
	uint32_t key_bytes;
	int err = ky_metadata_check(key, value);

	if (err)
		return err;
	key_bytes = (uint32_t)strlen(key);
	memcpy(fixed, &key_bytes, sizeof(key_bytes));
	memcpy(fixed + sizeof(key_bytes), key, key_bytes);
	item.fixed_bytes = sizeof(key_bytes) + key_bytes;
	item.text_bytes = strlen(value);
	/* Not interned: the last entry of a key wins, also when it says again what an earlier one
	 * said. */
	if (add(ky_directory_append, &item))
		return 0;
	return ky_engine.directory.bytes ? KYMO_E_LIMIT : KYMO_E_CLOSED;
}

void kymo_modules_refresh(void)
{
	int err = errno;

	ky_engine_scan_modules();
	errno = err;
}

void kymo_recorder_gates(uint32_t set, uint32_t clear)
{
	uint32_t phase = __atomic_load_n(&ky_engine.phase, __ATOMIC_ACQUIRE), old, next;
	const struct ky_ring *ring;

	if (phase == KY_CLOSED || phase == KY_DISARMED ||
	    (phase == KY_LIVE && ky_engine_is_orphan()))
		return;
	old = __atomic_load_n(&kymo_control.gates, __ATOMIC_ACQUIRE);
	/* The shared page counts: `kymo` may have changed it. The private word is for a ring to
	 * come. */
	do {
		next = (old | set) & ~clear & KY_GATES_ALL;
		__atomic_store_n(&ky_engine.gates, next, __ATOMIC_RELEASE);
	} while (!__atomic_compare_exchange_n(&kymo_control.gates, &old, next, false,
					      __ATOMIC_ACQ_REL, __ATOMIC_ACQUIRE));
	ring = __atomic_load_n(&ky_engine.ring, __ATOMIC_ACQUIRE);
	if (next && ring)
		atomic_store_explicit(&ring->control->settings.stopped_ns, 0, memory_order_relaxed);
}

void kymo_recorder_confine(void)
{
	__atomic_store_n(&ky_engine.is_confined, 1, __ATOMIC_RELAXED);
}

uint32_t ky_engine_mode(void)
{
	struct ky_engine *engine = &ky_engine;
	const struct ky_ring *ring = __atomic_load_n(&engine->ring, __ATOMIC_ACQUIRE);
	uint32_t mode = 0;

	if (__atomic_load_n(&engine->phase, __ATOMIC_ACQUIRE) == KY_LIVE && !ky_engine_is_orphan())
		mode = atomic_load_explicit(&ring->control->settings.mode, memory_order_acquire);
	if (mode == KYMO_MODE_STREAM || mode == KYMO_MODE_FLIGHT)
		return mode;
	return __atomic_load_n(&engine->options.flags, __ATOMIC_RELAXED) & KYMO_RECORDER_STREAM ?
		       KYMO_MODE_STREAM :
		       KYMO_MODE_FLIGHT;
}

/* Before there is a ring the mode is what its header will say. */
static void set_mode_locked(uint32_t mode)
{
	struct ky_ring *ring = ky_engine.ring;
	struct ky_ring_settings *settings;
	uint32_t flags = ky_engine.options.flags & ~(uint32_t)KYMO_RECORDER_STREAM;

	if (mode == KYMO_MODE_STREAM)
		flags |= KYMO_RECORDER_STREAM;
	__atomic_store_n(&ky_engine.options.flags, flags, __ATOMIC_RELAXED);
	if (ky_engine.phase != KY_LIVE) {
		if (ky_engine.prepared && mode == KYMO_MODE_STREAM)
			ky_engine.prepared->header->flags &= ~(uint32_t)KY_RING_FLIGHT;
		else if (ky_engine.prepared)
			ky_engine.prepared->header->flags |= KY_RING_FLIGHT;
		return;
	}
	/* One word is never half written; and where a `kymo set` is in the middle of several, or
	 * died there, the generation must stay odd. */
	settings = &ring->control->settings;
	atomic_store_explicit(&settings->mode, mode, memory_order_release);
	atomic_fetch_add_explicit(&settings->generation, 2, memory_order_release);
}

int kymo_recorder_mode(uint32_t mode)
{
	struct ky_lock_mark mark;

	if (mode != KYMO_MODE_STREAM && mode != KYMO_MODE_FLIGHT)
		return -EINVAL;
	if (!ky_engine_lock_open(&mark))
		return KYMO_E_CLOSED;
	set_mode_locked(mode);
	ky_engine_unlock(mark);
	ky_bell_ring(ky_engine_ring());
	return 0;
}

static void fill_status(struct kymo_recorder_status *out)
{
	struct ky_engine *engine = &ky_engine;
	struct ky_ring_header *header;
	uint32_t phase = __atomic_load_n(&engine->phase, __ATOMIC_ACQUIRE);
	bool is_live = phase == KY_LIVE && !ky_engine_is_orphan();

	out->is_armed = is_live || phase == KY_LAZY || phase == KY_STARTING;
	out->last_error = engine->last_error;
	out->counters_refused = ky_counters_refused();
	out->mode = ky_engine_mode();
	out->directory_bytes_max = KY_DIRECTORY_BYTES_DEFAULT;
	if (!is_live)
		return;
	header = engine->ring->header;
	out->threads = atomic_load_explicit(&header->thread_count, memory_order_acquire);
	out->sub_buffers_claimed = atomic_load_explicit(&header->claim_index, memory_order_relaxed);
	out->dropped_count = atomic_load_explicit(&header->dropped_count, memory_order_relaxed);
	out->directory_bytes = atomic_load_explicit(&header->directory_used, memory_order_relaxed);
	out->directory_bytes_max = engine->ring->directory_bytes;
	snprintf(out->ring_path, sizeof(out->ring_path), "%.255s", engine->ring->path);
}

int ky_engine_status(struct kymo_recorder_status *out)
{
	struct kymo_recorder_status status = {.size = sizeof(status)};
	struct ky_lock_mark mark;

	if (!out || out->size < sizeof(out->size))
		return -EINVAL;
	if (ky_engine.pool) { /* else: never opened, nothing to lock for */
		if (ky_engine.phase == KY_LIVE && ky_engine_is_orphan()) {
			fill_status(&status);
		} else {
			mark = ky_engine_lock();
			fill_status(&status);
			ky_engine_unlock(mark);
		}
	}
	status.size = out->size < sizeof(status) ? out->size : sizeof(status);
	memcpy(out, &status, status.size);
	return 0;
}

/* ---- sampling.h ---- */

bool kymo_sampling_is_on(void)
{
	const struct ky_sampler_hooks *sampler = ky_engine_sampler();

	return sampler && sampler->is_on();
}

/* Not where a filter of the program may kill for a call that it does not make itself. */
static bool may_change_timers(const struct ky_sampler_hooks *sampler)
{
	return sampler && sampler->is_on() &&
	       !__atomic_load_n(&ky_engine.is_confined, __ATOMIC_RELAXED) && ky_poll_cost_may_ask();
}

void kymo_sampling_begin(void)
{
	const struct ky_sampler_hooks *sampler = ky_engine_sampler();
	int saved = errno;

	if (may_change_timers(sampler)) {
		uint32_t tid = (uint32_t)syscall(SYS_gettid);

		/* An earlier thread of this number may have left its timer. */
		sampler->thread_end(tid);
		sampler->thread_begin(tid);
	}
	errno = saved;
}

void kymo_sampling_end(void)
{
	const struct ky_sampler_hooks *sampler = ky_engine_sampler();
	int saved = errno;

	if (may_change_timers(sampler))
		sampler->thread_end((uint32_t)syscall(SYS_gettid));
	errno = saved;
}

void kymo_sampling_leave_signal(void)
{
	const struct ky_sampler_hooks *sampler = ky_engine_sampler();
	int saved = errno;

	if (sampler)
		sampler->leave_signal();
	errno = saved;
}
