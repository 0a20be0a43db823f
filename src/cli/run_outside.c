/* SPDX-License-Identifier: Apache-2.0 OR MIT */
#include <base/gnu.h>

#include <cli/run_outside.h>

#include <base/alloc.h>
#include <base/file_name.h>
#include <base/first_line.h>
#include <base/hash.h>
#include <base/now.h>
#include <cli/run_modules.h>
#include <cli/run_process.h>
#include <errno.h>
#include <fcntl.h>
#include <kymo/arch.h>
#include <kymo/base.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#include <wire/resource_area.h>
#include <wire/sample_area.h>
#include <wire/unwind_image.h>

#define MS_NS UINT64_C(1000000)
#define MODULES_MAX 1024u
#define MODULES_FIRST_NS (250 * MS_NS)
#define MODULES_NS (1000 * MS_NS)
/* No word of a library: it was not loaded. And so long for a first task. */
#define SILENCE_NS (1000 * MS_NS)
#define FIRST_TASK_NS (2000 * MS_NS)
/* Many a program is a launcher that becomes another one, or is over by then. */
#define SETTLE_NS (100 * MS_NS)
#define RINGS_MAX 64u /* images of CMD; those behind go on in the last one's */
/* A tenth of a second of the processor at 99 Hz. */
#define SAMPLES_MIN 10u
#define LOOKS_MIN 2u
#define IDLE_LOOKS_MIN 10u /* of a program that sleeps: ten seconds of it */

#define PAGE ((uint64_t)KYMO_ARCH_PAGE_BYTES)
#define SLOTS 16u        /* nobody writes there */
#define PATH_BYTES 2048u /* a longer one is not told */
#define DIRECTORY_BYTES (UINT64_C(256) << 10)

static uint64_t round_up(uint64_t bytes, uint64_t to)
{
	return (bytes + to - 1) / to * to;
}

static void read_clock(struct ky_clock_anchor *out)
{
	uint64_t now_ns = ky_now_ns(CLOCK_MONOTONIC);

	*out = (struct ky_clock_anchor){now_ns, now_ns, now_ns, ky_realtime_at_ns(now_ns)};
}

void ky_run_outside_open(struct ky_run_outside *outside, const struct ky_run_options *options,
			 const char *directory, uint64_t session)
{
	memset(outside, 0, sizeof(*outside));
	outside->options = options;
	outside->directory = directory;
	outside->session = session;
	outside->fd = -1;
	read_clock(&outside->anchor);
	outside->start_ns = outside->anchor.monotonic_ns;
}

static void leave_ring(struct ky_run_outside *outside)
{
	if (outside->fd >= 0)
		close(outside->fd);
	outside->fd = -1;
}

void ky_run_outside_close(struct ky_run_outside *outside)
{
	if (!outside->options)
		return;
	leave_ring(outside);
	ky_free(outside->modules);
	outside->modules = NULL;
}

void ky_run_outside_child(struct ky_run_outside *outside, uint32_t pid, bool is_static,
			  uint64_t patience_ns)
{
	outside->pid = pid;
	outside->settle_ns = patience_ns && patience_ns < SETTLE_NS ? patience_ns : SETTLE_NS;
	outside->is_static = is_static;
}

/* ---- the ring ---- */

/* As the recorder names itself. */
static void name_service(const struct ky_run_outside *outside, char *out, size_t capacity)
{
	const char *wish = outside->options->service;
	const char *slash = strrchr(outside->program, '/');

	if (!wish || !wish[0])
		wish = slash ? slash + 1 : "process";
	snprintf(out, capacity, "%s", wish);
	ky_file_name_clean(out);
}

static void lay_out(const struct ky_run_outside *outside, struct ky_ring_header *header)
{
	uint64_t sample_bytes = outside->options->sample_bytes;

	if (sample_bytes < KY_SAMPLE_BYTES_MIN)
		sample_bytes = KY_SAMPLE_BYTES_DEFAULT;
	header->version = KY_RING_VERSION;
	header->page_bytes = (uint32_t)PAGE;
	header->side_offset = 2 * PAGE;
	header->side_bytes = round_up(sizeof(struct ky_ring_side), PAGE);
	header->directory_offset = header->side_offset + header->side_bytes;
	header->directory_bytes = DIRECTORY_BYTES;
	header->slots_offset = round_up(header->directory_offset + DIRECTORY_BYTES, KY_SLOT_BYTES);
	header->slot_count = SLOTS;
	header->slot_bytes = KY_SLOT_BYTES;
	header->sample_offset = header->slots_offset + (uint64_t)SLOTS * KY_SLOT_BYTES;
	header->sample_bytes = sample_bytes / PAGE * PAGE;
	header->resource_offset = header->sample_offset + header->sample_bytes;
	header->resource_bytes = KY_RESOURCE_AREA_BYTES;
	header->unwind_offset = round_up(header->resource_offset + header->resource_bytes, PAGE);
	header->unwind_bytes = KY_UNWIND_AREA_BYTES;
	header->file_bytes = header->unwind_offset + header->unwind_bytes;
	atomic_init(&header->usable_count, SLOTS);
}

static void describe(const struct ky_run_outside *outside, struct ky_ring_header *header)
{
	memset(header, 0, sizeof(*header));
	lay_out(outside, header);
	header->flags = KY_RING_CLOCK_MONOTONIC | KY_RING_OUTSIDE |
			(outside->options->is_flight ? KY_RING_FLIGHT : 0u);
	header->pid = outside->pid;
	header->start_time_ticks = ky_run_process_start_ticks(outside->pid);
	header->session = outside->session;
	header->ticks_per_second = UINT64_C(1000000000);
	header->open_anchor = outside->anchor;
	(void)ky_read_first_line(KY_BOOT_ID_PATH, header->boot_id, sizeof(header->boot_id));
	name_service(outside, header->service, sizeof(header->service));
	snprintf(header->arch, sizeof(header->arch), "%s", KYMO_ARCH_NAME);
	snprintf(header->recorder_version, sizeof(header->recorder_version), "%s",
		 KYMO_VERSION_STRING);
	header->uid = (uint32_t)geteuid();
	header->pid_namespace = ky_run_process_namespace();
	atomic_init(&header->state, KY_RING_LIVE);
	atomic_init(&header->magic, KY_RING_MAGIC);
}

static bool put(int fd, const void *bytes, size_t count, uint64_t at)
{
	return pwrite(fd, bytes, count, (off_t)at) == (ssize_t)count;
}

/* One entry of the directory, which counts once all of it is there. */
static bool add_entry(struct ky_run_outside *outside, struct ky_entry entry, const void *payload)
{
	uint8_t bytes[sizeof(entry) + sizeof(struct ky_entry_module) + 32 + PATH_BYTES] = {0};
	size_t count = sizeof(entry) + (size_t)round_up(entry.payload_bytes, 8);
	uint64_t used = outside->directory_used + count;

	if (count > sizeof(bytes) || used > DIRECTORY_BYTES)
		return false;
	memcpy(bytes, &entry, sizeof(entry));
	memcpy(bytes + sizeof(entry), payload, entry.payload_bytes);
	if (!put(outside->fd, bytes, count,
		 outside->header.directory_offset + outside->directory_used))
		return false;
	outside->directory_used = used;
	return put(outside->fd, &used, sizeof(used),
		   offsetof(struct ky_ring_header, directory_used));
}

static bool add_metadata(struct ky_run_outside *outside, const char *key, const char *value)
{
	char payload[sizeof(uint32_t) + 64 + KY_OUTSIDE_WHY_BYTES + 64];
	uint32_t key_bytes = (uint32_t)strlen(key);
	int text_bytes = snprintf(payload + sizeof(key_bytes), sizeof(payload) - sizeof(key_bytes),
				  "%s%s", key, value);
	struct ky_entry entry = {.kind = KY_ENTRY_METADATA};

	if (text_bytes < 0 || (size_t)text_bytes >= sizeof(payload) - sizeof(key_bytes))
		return false;
	memcpy(payload, &key_bytes, sizeof(key_bytes));
	entry.payload_bytes = (uint32_t)sizeof(key_bytes) + (uint32_t)text_bytes;
	return add_entry(outside, entry, payload);
}

/* The header is written last, and whole: before, nobody takes the file for a ring. */
static int fill(struct ky_run_outside *outside)
{
	const struct ky_ring_header *header = &outside->header;
	char unseen[KY_OUTSIDE_WHY_BYTES + 48];

	if (ftruncate(outside->fd, (off_t)header->file_bytes) != 0)
		return -errno;
	outside->directory_used = 0;
	outside->module_count = 0;
	snprintf(unseen, sizeof(unseen), "polls, wakes and tasks: %s", outside->why);
	if (!add_metadata(outside, "recorder.unseen", unseen))
		return -ENOSPC;
	atomic_store_explicit(&outside->header.directory_used, outside->directory_used,
			      memory_order_relaxed);
	return put(outside->fd, header, sizeof(*header), 0) ? 0 : -ENOSPC;
}

static int make_ring(struct ky_run_outside *outside)
{
	char path[KY_RUN_RING_DIRECTORY_BYTES + 128];
	int err;

	if (!outside->modules)
		outside->modules = ky_alloc(MODULES_MAX * sizeof(*outside->modules));
	if (!outside->modules)
		return -ENOMEM;
	describe(outside, &outside->header);
	if (!outside->header.start_time_ticks)
		return -ESRCH;
	snprintf(path, sizeof(path), "%s/%s-%u-%llu.outside%u.ring", outside->directory,
		 outside->header.service, outside->pid,
		 (unsigned long long)outside->header.start_time_ticks, outside->ring_count);
	outside->fd = open(path, O_RDWR | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);
	if (outside->fd < 0)
		return -errno;
	err = fill(outside);
	if (err != 0) {
		unlink(path);
		leave_ring(outside);
		return err;
	}
	outside->ring_count++;
	outside->look_ns = 0;
	return 0;
}

/* ---- what is mapped ---- */

static uint64_t key_of(const struct ky_seen_module *module)
{
	return ky_hash_bytes(module->start, module->path, strlen(module->path));
}

static bool has_key(const uint64_t *keys, uint32_t count, uint64_t key)
{
	for (uint32_t i = 0; i < count; i++)
		if (keys[i] == key)
			return true;
	return false;
}

/* Returns false when the directory is full. */
static bool add_module(struct ky_run_outside *outside, struct ky_seen_module *module,
		       uint64_t from_ns)
{
	uint8_t payload[sizeof(struct ky_entry_module) + sizeof(module->build_id) + PATH_BYTES];
	size_t path_bytes = strlen(module->path);
	struct ky_entry entry = {.kind = KY_ENTRY_MODULE, .id = outside->module_count + 1};
	struct ky_entry_module fixed = {.start = module->start,
					.end = module->end,
					.file_offset = module->file_offset,
					.from_ticks = from_ns,
					.path_bytes = (uint32_t)path_bytes};

	if (outside->module_count == MODULES_MAX || path_bytes > PATH_BYTES)
		return false;
	ky_run_modules_read_file(outside->pid, module);
	fixed.load_bias = module->start - module->file_offset - module->linked_at;
	fixed.build_id_bytes = module->build_id_bytes;
	memcpy(payload, &fixed, sizeof(fixed));
	memcpy(payload + sizeof(fixed), module->build_id, module->build_id_bytes);
	memcpy(payload + sizeof(fixed) + module->build_id_bytes, module->path, path_bytes);
	entry.payload_bytes = (uint32_t)(sizeof(fixed) + module->build_id_bytes + path_bytes);
	if (!add_entry(outside, entry, payload))
		return false;
	outside->modules[outside->module_count++] = key_of(module);
	return true;
}

/* Key 0: gone already. */
static void note_gone(struct ky_run_outside *outside, const uint64_t *there, uint32_t count,
		      uint64_t now_ns)
{
	for (uint32_t i = 0; i < outside->module_count; i++) {
		struct ky_entry entry = {
			.kind = KY_ENTRY_MODULE_GONE, .payload_bytes = sizeof(now_ns), .id = i + 1};

		if (!outside->modules[i] || has_key(there, count, outside->modules[i]))
			continue;
		if (add_entry(outside, entry, &now_ns))
			outside->modules[i] = 0;
	}
}

/* Into the directory, where a dump and whoever recovers the ring find it, too. */
static void look_at_modules(struct ky_run_outside *outside, uint64_t now_ns)
{
	struct ky_seen_module *seen = ky_alloc(MODULES_MAX * sizeof(*seen));
	uint64_t *keys = ky_alloc(MODULES_MAX * sizeof(*keys));
	uint64_t from_ns = outside->module_count ? now_ns : outside->anchor.monotonic_ns;
	char *text = NULL;
	size_t count = 0;

	if (seen && keys)
		count = ky_run_modules_read(outside->pid, seen, MODULES_MAX, &text);
	for (size_t i = 0; i < count; i++) {
		keys[i] = key_of(&seen[i]);
		if (!has_key(outside->modules, outside->module_count, keys[i]) &&
		    !add_module(outside, &seen[i], from_ns))
			break;
	}
	/* A process in the middle of its end has no mappings any more: that unloads nothing. */
	if (count > 0 && count < MODULES_MAX)
		note_gone(outside, keys, (uint32_t)count, now_ns);
	ky_free(text);
	ky_free(keys);
	ky_free(seen);
}

/* ---- when ---- */

static void read_program(const struct ky_run_outside *outside, char *out, size_t capacity)
{
	ssize_t count;
	char path[64];

	snprintf(path, sizeof(path), "/proc/%u/exe", outside->pid);
	count = readlink(path, out, capacity - 1);
	out[count > 0 ? count : 0] = '\0';
}

/* Why CMD has no ring, as far as is known; "": it may still make one. */
static void find_why(struct ky_run_outside *outside, enum ky_run_status status, const char *reason,
		     uint64_t age_ns)
{
	char *out = outside->why;
	size_t capacity = sizeof(outside->why);

	outside->is_launcher = outside->is_static || status == KY_RUN_STATUS_NO_TOKIO ||
			       status == KY_RUN_STATUS_NONE;
	if (outside->is_static)
		snprintf(out, capacity, "it is statically linked, so no library can be preloaded");
	else if (status == KY_RUN_STATUS_NO_TOKIO)
		snprintf(out, capacity, "it does not use Tokio");
	else if (status == KY_RUN_STATUS_STRIPPED)
		snprintf(out, capacity,
			 "it is stripped, and without symbols Tokio's tasks cannot be found");
	else if (status == KY_RUN_STATUS_REFUSED)
		snprintf(out, capacity, "%s", reason);
	else if (status == KY_RUN_STATUS_UNKNOWN_LAYOUT || status == KY_RUN_STATUS_OTHER)
		snprintf(out, capacity, "it has Tokio in a form that kymo does not know (%s)",
			 reason);
	else if (status == KY_RUN_STATUS_NONE && age_ns >= SILENCE_NS)
		snprintf(out, capacity, "the recorder was not loaded into it");
	else if (status == KY_RUN_STATUS_OK && age_ns >= FIRST_TASK_NS)
		snprintf(out, capacity, "it ran no task so far, or could make no ring");
}

/* The next image of CMD has a ring of its own, as it has when it records itself. */
static void follow_exec(struct ky_run_outside *outside)
{
	char program[sizeof(outside->program)];

	read_program(outside, program, sizeof(program));
	if (!program[0] || strcmp(program, outside->program) == 0 ||
	    outside->ring_count >= RINGS_MAX)
		return;
	leave_ring(outside);
	read_clock(&outside->anchor);
	memcpy(outside->program, program, sizeof(outside->program));
	outside->error = make_ring(outside);
	outside->is_over = outside->error != 0;
}

static void begin(struct ky_run_outside *outside, bool is_late)
{
	read_program(outside, outside->program, sizeof(outside->program));
	/* A process without a name for its program is a zombie, or another user's. */
	if (!outside->program[0]) {
		outside->is_over = true;
		outside->error = -ESRCH;
		return;
	}
	/* What was sampled in between was nobody's. */
	if (is_late)
		read_clock(&outside->anchor);
	outside->error = make_ring(outside);
	outside->is_over = outside->error != 0;
}

bool ky_run_outside_step(struct ky_run_outside *outside, enum ky_run_status status,
			 const char *reason, bool has_rings, uint64_t now_ns)
{
	uint64_t age_ns = now_ns - outside->start_ns;

	if (outside->is_over || !outside->pid)
		return false;
	/* The first look comes before there is anything to see, the last behind the end. */
	if (has_rings) {
		outside->is_over = true;
		leave_ring(outside);
		return false;
	}
	if (outside->fd < 0) {
		if (status == KY_RUN_STATUS_NO_TOKIO && strcmp(reason, "recorder") == 0) {
			outside->is_over = true; /* it records by itself, when it wants to */
			return false;
		}
		find_why(outside, status, reason, age_ns);
		if (!outside->why[0])
			return status == KY_RUN_STATUS_NONE;
		if (age_ns < outside->settle_ns)
			return true;
		begin(outside, status == KY_RUN_STATUS_OK ||
				       (status == KY_RUN_STATUS_NONE && !outside->is_static));
	} else {
		follow_exec(outside);
	}
	if (outside->fd < 0 || now_ns < outside->look_ns)
		return false;
	outside->look_ns = now_ns + (outside->module_count && age_ns > MODULES_FIRST_NS ?
					     MODULES_NS :
					     MODULES_FIRST_NS);
	look_at_modules(outside, now_ns);
	return false;
}

bool ky_run_outside_is_worth(bool is_sampled, uint64_t sample_count, uint32_t looks)
{
	return sample_count >= SAMPLES_MIN || looks >= (is_sampled ? IDLE_LOOKS_MIN : LOOKS_MIN);
}

bool ky_run_outside_is_half_full(const struct ky_ring_view *view)
{
	const uint8_t *area = ky_ring_view_resources(view);
	struct ky_resource_about about = {.hand = 0};
	struct ky_sample_ring cpu;

	if (area)
		ky_ring_view_resource_about(area, &about);
	if (about.hand >= KY_RESOURCE_SLOTS / 2)
		return true;
	return ky_ring_view_samples(view, KY_SAMPLES_CPU, &cpu) &&
	       KY_SAMPLE_CLAIM(atomic_load_explicit(&cpu.head->hand, memory_order_relaxed)) >=
		       cpu.slot_count / 2;
}
