/* SPDX-License-Identifier: Apache-2.0 OR MIT */
#include <base/gnu.h>

#include <ring/ring_settings.h>

#include <base/now.h>
#include <base/testpoint.h>
#include <base/nearest.h>
#include <base/quantity.h>
#include <ring/ring_mark.h>
#include <errno.h>
#include <inttypes.h>
#include <kymo/alloc.h>
#include <kymo/emit.h>
#include <limits.h>
#include <linux/futex.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>
#include <wire/kind_list.h>

/* A writer that died in the middle is waited for so long. */
#define PATIENCE_STEPS 200
#define STEP_NS 1000000
/* What struct ky_ring_settings says for "everything", whatever the start said. */
#define THRESHOLD_ALL 1u
#define THROTTLE_ALL UINT32_MAX
#define MS_NS UINT64_C(1000000)

enum setting_kind {
	KIND_GATE,
	KIND_RECORDING, /* all gates, samplers and readings at once; 0: on */
	KIND_THRESHOLD,
	KIND_THROTTLE,
	KIND_MODE,
	KIND_SAMPLING,
	KIND_ALLOC_BYTES,
	KIND_RESOURCES
};

struct ky_setting {
	const char *name;
	uint32_t kind;  /* enum setting_kind */
	uint32_t which; /* bit of the gate; enum ky_retain_kind */
};

#define GATE_ROW(gate, name) {name, KIND_GATE, KYMO_GATE_##gate},
#define THRESHOLD_ROW(gate, name) {name ".threshold", KIND_THRESHOLD, KY_RETAIN_##gate},
#define THROTTLE_ROW(gate, name) {name ".throttle", KIND_THROTTLE, KY_RETAIN_##gate},
#define NO_ROW(gate, name)

/* clang-format off */
static const struct ky_setting settings[] = {
	KY_KIND_LIST(GATE_ROW, GATE_ROW, GATE_ROW)
	KY_KIND_LIST(NO_ROW, NO_ROW, THRESHOLD_ROW)
	KY_KIND_LIST(NO_ROW, THROTTLE_ROW, THROTTLE_ROW)
	{"recording", KIND_RECORDING, 0},
	{"mode", KIND_MODE, 0},
	{"sampling", KIND_SAMPLING, 0},
	{"alloc.bytes", KIND_ALLOC_BYTES, 0},
	{"resources", KIND_RESOURCES, 0},
};
/* clang-format on */
#define SETTING_COUNT (sizeof(settings) / sizeof(settings[0]))
_Static_assert(SETTING_COUNT <= KY_SETTINGS_MAX, "all of them at once");

const char *ky_setting_name(const struct ky_setting *setting)
{
	return setting->name;
}

bool ky_setting_is_gate(const struct ky_setting *setting)
{
	return setting->kind == KIND_GATE;
}

const char *ky_setting_text(char *text, const struct ky_setting *setting, uint64_t value)
{
	static const char *const modes[] = {"default", "stream", "flight"};
	char cell[KY_QUANTITY_TEXT_BYTES];

	bool is_off = setting->kind == KIND_THRESHOLD ? value == THRESHOLD_ALL :
		      setting->kind == KIND_THROTTLE  ? value == THROTTLE_ALL :
		      setting->kind == KIND_SAMPLING  ? value == KY_SETTING_OFF :
		      setting->kind == KIND_RESOURCES ? value == KY_SETTING_OFF :
							value == 0;

	if (setting->kind == KIND_RECORDING)
		(void)snprintf(text, KY_SETTING_TEXT_BYTES, "%s", value ? "off" : "on");
	else if (setting->kind == KIND_MODE)
		(void)snprintf(text, KY_SETTING_TEXT_BYTES, "%s", modes[value <= 2 ? value : 0]);
	else if (setting->kind == KIND_ALLOC_BYTES)
		(void)snprintf(text, KY_SETTING_TEXT_BYTES, "%s",
			       value ? ky_quantity_bytes_text(cell, value) : modes[0]);
	else if (is_off)
		(void)snprintf(text, KY_SETTING_TEXT_BYTES, "off");
	else if (setting->kind == KIND_GATE)
		(void)snprintf(text, KY_SETTING_TEXT_BYTES, "on");
	else if (value == 0)
		(void)snprintf(text, KY_SETTING_TEXT_BYTES, "%s", modes[0]);
	else if (setting->kind == KIND_SAMPLING)
		(void)snprintf(text, KY_SETTING_TEXT_BYTES, "%" PRIu64, value);
	else if (setting->kind == KIND_RESOURCES)
		(void)snprintf(text, KY_SETTING_TEXT_BYTES, "%s",
			       ky_quantity_ns_text(cell, value * MS_NS));
	else if (setting->kind == KIND_THROTTLE)
		(void)snprintf(text, KY_SETTING_TEXT_BYTES, "%" PRIu64 "/s", value);
	else
		(void)snprintf(text, KY_SETTING_TEXT_BYTES, "%s", ky_quantity_ns_text(cell, value));
	return text;
}

/* ---- KEY=VALUE ---- */

static bool is_same_name(const char *name, const char *typed, size_t typed_bytes)
{
	size_t i;

	if (strlen(name) != typed_bytes)
		return false;
	for (i = 0; i < typed_bytes; i++)
		if (name[i] != (typed[i] == '-' ? '_' : typed[i]))
			return false;
	return true;
}

static const struct ky_setting *find(const char *typed, size_t typed_bytes)
{
	size_t i;

	for (i = 0; i < SETTING_COUNT; i++)
		if (is_same_name(settings[i].name, typed, typed_bytes))
			return &settings[i];
	return NULL;
}

static int say_unknown(const char *typed, size_t typed_bytes, char *why)
{
	const char *names[SETTING_COUNT], *nearest;
	char key[64];
	size_t i, used;

	(void)snprintf(key, sizeof(key), "%.*s", (int)(typed_bytes < 60 ? typed_bytes : 60), typed);
	for (i = 0; i < SETTING_COUNT; i++)
		names[i] = settings[i].name;
	nearest = ky_nearest(key, names, SETTING_COUNT);
	used = (size_t)snprintf(why, KY_FOUND_WHY_BYTES,
				"there is no setting '%s'%s%s%s; there are", key,
				nearest ? " (did you mean '" : "", nearest ? nearest : "",
				nearest ? "'?)" : "");
	for (i = 0; i < SETTING_COUNT && used < KY_FOUND_WHY_BYTES; i++)
		used += (size_t)snprintf(why + used, KY_FOUND_WHY_BYTES - used, "%s %s",
					 i ? "," : "", names[i]);
	return -EINVAL;
}

static bool parse_gate(uint64_t *out, const char *text)
{
	*out = strcmp(text, "on") == 0;
	return *out || strcmp(text, "off") == 0;
}

static bool parse_recording(uint64_t *out, const char *text)
{
	bool is_known = parse_gate(out, text);

	*out = !*out;
	return is_known;
}

static bool parse_mode(uint64_t *out, const char *text)
{
	*out = strcmp(text, "flight") == 0 ? KY_RING_MODE_FLIGHT :
	       strcmp(text, "stream") == 0 ? KY_RING_MODE_STREAM :
					     KY_RING_MODE_AS_OPENED;
	return *out || strcmp(text, "default") == 0;
}

bool ky_setting_rate(const char *text, uint32_t *out)
{
	uint64_t value = 0;
	bool is_fine = ky_quantity_or_off(ky_quantity_number, text, 1, KY_SETTING_SAMPLE_HZ_MAX,
					  &value);

	*out = (uint32_t)value;
	return is_fine;
}

bool ky_setting_alloc(const char *text, uint64_t *out)
{
	return ky_quantity_or_off(ky_quantity_bytes, text, KYMO_ALLOC_BYTES_MIN,
				  KYMO_ALLOC_BYTES_MAX, out);
}

bool ky_setting_interval(const char *text, uint32_t *out_ms)
{
	uint64_t ns = 0;
	bool is_fine = ky_quantity_or_off(ky_quantity_ns, text, UINT64_C(1000000000),
					  UINT64_C(3600000000000), &ns);

	*out_ms = (uint32_t)(ns / 1000000);
	return is_fine;
}

static bool parse_threshold(uint64_t *out, const char *text)
{
	*out = strcmp(text, "default") == 0 ? 0 : THRESHOLD_ALL;
	if (*out == 0 || strcmp(text, "off") == 0 || strcmp(text, "0") == 0)
		return true;
	if (ky_quantity_ns(text, out) != 0)
		return false;
	if (*out == 0)
		*out = THRESHOLD_ALL;
	return true;
}

static bool parse_throttle(uint64_t *out, const char *text)
{
	char *end;

	*out = strcmp(text, "default") == 0 ? 0 : THROTTLE_ALL;
	if (*out == 0 || strcmp(text, "off") == 0)
		return true;
	if (text[0] < '0' || text[0] > '9')
		return false;
	errno = 0;
	*out = strtoull(text, &end, 10);
	return errno == 0 && *out > 0 && *out < THROTTLE_ALL &&
	       (*end == '\0' || strcmp(end, "/s") == 0);
}

static bool parse_sampling(uint64_t *out, const char *text)
{
	uint32_t rate_hz = 0;

	*out = strcmp(text, "default") == 0 ? 0 : KY_SETTING_OFF;
	if (*out == 0)
		return true;
	if (!ky_setting_rate(text, &rate_hz))
		return false;
	if (rate_hz)
		*out = rate_hz;
	return true;
}

static bool parse_alloc_bytes(uint64_t *out, const char *text)
{
	*out = 0;
	return strcmp(text, "default") == 0 || (ky_setting_alloc(text, out) && *out);
}

static bool parse_resources(uint64_t *out, const char *text)
{
	uint32_t interval_ms = 0;

	*out = strcmp(text, "default") == 0 ? 0 : KY_SETTING_OFF;
	if (*out == 0)
		return true;
	if (!ky_setting_interval(text, &interval_ms))
		return false;
	if (interval_ms)
		*out = interval_ms;
	return true;
}

static bool parse_value(uint64_t *out, uint32_t kind, const char *text, const char **wanted)
{
	switch (kind) {
	case KIND_GATE:
		*wanted = "on or off";
		return parse_gate(out, text);
	case KIND_RECORDING:
		*wanted = "on or off";
		return parse_recording(out, text);
	case KIND_MODE:
		*wanted = "stream, flight or default";
		return parse_mode(out, text);
	case KIND_SAMPLING:
		*wanted = "samples a second, 1 to 1000, or off or default";
		return parse_sampling(out, text);
	case KIND_ALLOC_BYTES:
		*wanted = "a size from 1K to 1G, or default";
		return parse_alloc_bytes(out, text);
	case KIND_RESOURCES:
		*wanted = "a time from 1s to 1h, or off or default";
		return parse_resources(out, text);
	case KIND_THROTTLE:
		*wanted = "events a second, as 1000/s, or off or default";
		return parse_throttle(out, text);
	default:
		*wanted = "a time, as 1ms, 500us or 0.2s, or off or default";
		return parse_threshold(out, text);
	}
}

int ky_settings_parse(struct ky_setting_changes *out, const char *text, char *why)
{
	const char *equals = strchr(text, '='), *wanted;
	const struct ky_setting *setting;
	uint64_t value;
	size_t i;

	if (equals == NULL) {
		(void)snprintf(why, KY_FOUND_WHY_BYTES, "'%.64s' is not KEY=VALUE, as wake=off is",
			       text);
		return -EINVAL;
	}
	setting = find(text, (size_t)(equals - text));
	if (setting == NULL)
		return say_unknown(text, (size_t)(equals - text), why);
	for (i = 0; i < out->count; i++)
		if (out->changes[i].setting == setting) {
			(void)snprintf(why, KY_FOUND_WHY_BYTES, "'%s' is set twice", setting->name);
			return -EINVAL;
		}
	if (!parse_value(&value, setting->kind, equals + 1, &wanted)) {
		(void)snprintf(why, KY_FOUND_WHY_BYTES, "'%.64s' is no value of %s, which is %s",
			       equals + 1, setting->name, wanted);
		return -EINVAL;
	}
	out->changes[out->count++] = (struct ky_setting_change){setting, value, 0};
	return 0;
}

/* ---- the ring's words ---- */

static _Atomic uint64_t *threshold_of(struct ky_ring_settings *words, uint32_t kind)
{
	return kind == KY_RETAIN_POLL ? &words->poll_threshold_ns :
	       kind == KY_RETAIN_WAKE ? &words->wake_threshold_ns :
	       kind == KY_RETAIN_SPAN ? &words->span_threshold_ns :
					&words->blocking_threshold_ns;
}

/* Of a recording that is stopped, those that open when it continues. */
static _Atomic uint32_t *gates_of(struct ky_ring_control *control)
{
	return ky_settings_stopped_ns(&control->settings) ? &control->settings.stopped_gates :
							    &control->gates;
}

static uint64_t read_one(struct ky_ring_control *control, const struct ky_setting *setting)
{
	struct ky_ring_settings *words = &control->settings;

	switch (setting->kind) {
	case KIND_GATE:
		return (atomic_load_explicit(gates_of(control), memory_order_relaxed) &
			setting->which) != 0;
	case KIND_RECORDING:
		return ky_settings_stopped_ns(words) != 0;
	case KIND_MODE:
		return atomic_load_explicit(&words->mode, memory_order_relaxed);
	case KIND_SAMPLING:
		return atomic_load_explicit(&words->sample_hz, memory_order_relaxed);
	case KIND_ALLOC_BYTES:
		return atomic_load_explicit(&words->alloc_bytes, memory_order_relaxed);
	case KIND_RESOURCES:
		return atomic_load_explicit(&words->resource_ms, memory_order_relaxed);
	case KIND_THROTTLE:
		return atomic_load_explicit(&words->throttle[setting->which], memory_order_relaxed);
	default:
		return atomic_load_explicit(threshold_of(words, setting->which),
					    memory_order_relaxed);
	}
}

/* Killed in between, it counts as stopped and may still record: "on" mends that, and nothing
 * forgets which gates were open. */
static void set_recording(struct ky_ring_control *control, bool is_stopped)
{
	struct ky_ring_settings *words = &control->settings;
	uint32_t gates;

	if (is_stopped) {
		gates = atomic_load_explicit(&control->gates, memory_order_relaxed);
		if (ky_settings_note_stop(words, gates, ky_now_ns(CLOCK_MONOTONIC)))
			atomic_exchange_explicit(&control->gates, 0, memory_order_acq_rel);
	} else if (ky_settings_stopped_ns(words)) {
		gates = atomic_load_explicit(&words->stopped_gates, memory_order_relaxed);
		atomic_fetch_or_explicit(&control->gates, gates, memory_order_acq_rel);
		atomic_store_explicit(&words->stopped_ns, 0, memory_order_release);
	}
}

static void write_one(struct ky_ring_control *control, const struct ky_setting *setting,
		      uint64_t value)
{
	struct ky_ring_settings *words = &control->settings;

	if (setting->kind == KIND_RECORDING)
		set_recording(control, value != 0);
	else if (setting->kind == KIND_MODE)
		atomic_store_explicit(&words->mode, (uint32_t)value, memory_order_relaxed);
	else if (setting->kind == KIND_SAMPLING)
		atomic_store_explicit(&words->sample_hz, (uint32_t)value, memory_order_relaxed);
	else if (setting->kind == KIND_ALLOC_BYTES)
		atomic_store_explicit(&words->alloc_bytes, value, memory_order_relaxed);
	else if (setting->kind == KIND_RESOURCES)
		atomic_store_explicit(&words->resource_ms, (uint32_t)value, memory_order_relaxed);
	else if (setting->kind == KIND_THROTTLE)
		atomic_store_explicit(&words->throttle[setting->which], (uint32_t)value,
				      memory_order_relaxed);
	else
		atomic_store_explicit(threshold_of(words, setting->which), value,
				      memory_order_relaxed);
}

/* Makes the generation odd. A process that made it odd and died is succeeded after a while: it
 * stays odd, and changes, so that no reader takes the half-written state for whole. Returns what it
 * is as long as no process does the same with us. */
static uint32_t begin(struct ky_ring_settings *words)
{
	const struct timespec step = {.tv_nsec = STEP_NS};
	uint32_t seen = atomic_load_explicit(&words->generation, memory_order_acquire), now;
	int waited = 0;

	for (;;) {
		now = atomic_load_explicit(&words->generation, memory_order_acquire);
		if (now != seen)
			waited = 0;
		seen = now;
		if (now % 2 == 0 || waited >= PATIENCE_STEPS) {
			if (atomic_compare_exchange_strong_explicit(
				    &words->generation, &now, now + 1 + now % 2,
				    memory_order_acq_rel, memory_order_acquire))
				break;
			continue;
		}
		nanosleep(&step, NULL);
		waited++;
	}
	/* Pairs with the fence of a reader between the values and its second reading. */
	atomic_thread_fence(memory_order_release);
	return now + 1 + now % 2;
}

/* False: another process took us for dead. */
static bool end(struct ky_ring_control *control, uint32_t mine)
{
	if (!atomic_compare_exchange_strong_explicit(&control->settings.generation, &mine, mine + 1,
						     memory_order_release, memory_order_relaxed))
		return false;
	atomic_fetch_add_explicit(&control->bell, 1, memory_order_release);
	(void)syscall(SYS_futex, &control->bell, FUTEX_WAKE, INT_MAX, NULL, NULL, 0);
	return true;
}

static void apply_gates(struct ky_ring_control *control, struct ky_setting_changes *changes)
{
	_Atomic uint32_t *gates = gates_of(control);
	uint32_t set = 0, clear = 0, old;
	size_t i;

	for (i = 0; i < changes->count; i++) {
		if (changes->changes[i].setting->kind != KIND_GATE)
			continue;
		if (changes->changes[i].value)
			set |= changes->changes[i].setting->which;
		else
			clear |= changes->changes[i].setting->which;
	}
	if ((set | clear) == 0)
		return;
	old = atomic_load_explicit(gates, memory_order_relaxed);
	while (!atomic_compare_exchange_weak_explicit(gates, &old, (old | set) & ~clear,
						      memory_order_acq_rel, memory_order_relaxed))
		;
	for (i = 0; i < changes->count; i++)
		if (changes->changes[i].setting->kind == KIND_GATE)
			changes->changes[i].before = (old & changes->changes[i].setting->which) !=
						     0;
}

/* What a trace shows of a time without a record: neither an idle process nor a loss. */
static void mark_recording(const struct ky_open_ring *ring, bool is_stopped)
{
	if (ring->side)
		ky_mark_put(ring->side, is_stopped ? "recording stopped" : "recording resumed",
			    ky_now_ns(CLOCK_MONOTONIC));
}

/* False: another process took us for dead, and what we had not written yet is not written. */
static bool write_all(struct ky_open_ring *ring, struct ky_setting_changes *changes, uint32_t mine,
		      bool is_first)
{
	struct ky_ring_control *control = ring->control;

	for (size_t i = 0; i < changes->count; i++) {
		struct ky_setting_change *change = &changes->changes[i];
		uint64_t before;

		if (change->setting->kind == KIND_GATE)
			continue;
		KY_TESTPOINT("settings.writing");
		if (atomic_load_explicit(&control->settings.generation, memory_order_relaxed) !=
		    mine)
			return false;
		before = read_one(control, change->setting);
		if (is_first)
			change->before = before;
		write_one(control, change->setting, change->value);
		if (change->setting->kind == KIND_RECORDING && before != change->value)
			mark_recording(ring, change->value != 0);
	}
	return true;
}

int ky_settings_apply(struct ky_open_ring *ring, struct ky_setting_changes *changes)
{
	struct ky_ring_control *control = ring->control;
	bool has_settings = false, is_first = true;
	uint32_t mine;
	size_t i;

	for (i = 0; i < changes->count; i++)
		has_settings |= changes->changes[i].setting->kind != KIND_GATE;
	apply_gates(control, changes);
	if (!has_settings)
		return 0;
	/* One that was stopped so long that it was succeeded comes after its successor. */
	for (;;) {
		mine = begin(&control->settings);
		if (write_all(ring, changes, mine, is_first) && end(control, mine))
			return 0;
		is_first = false;
	}
}

void ky_settings_read(const struct ky_ring_control *ring_control, struct ky_setting_changes *out)
{
	/* Of our own: what reads one value serves writers, too. */
	struct ky_ring_control copy = *ring_control, *control = &copy;
	size_t i;

	out->is_unfinished =
		atomic_load_explicit(&control->settings.generation, memory_order_relaxed) % 2 != 0;
	out->count = SETTING_COUNT;
	for (i = 0; i < SETTING_COUNT; i++) {
		out->changes[i].setting = &settings[i];
		out->changes[i].before = read_one(control, &settings[i]);
		out->changes[i].value = out->changes[i].before;
	}
}
