/* SPDX-License-Identifier: Apache-2.0 OR MIT */
#include <edit/redact.h>

#include <base/bytes.h>
#include <errno.h>
#include <string.h>
#include <sys/random.h>

/* Short, so that a chunk does not grow by it. */
static const char hidden[] = "***";

void ky_redact_init_key(struct ky_redact *redact, uint32_t classes,
			const uint8_t key[KY_REDACT_KEY_BYTES])
{
	memset(redact, 0, sizeof(*redact));
	redact->classes = classes;
	ky_buf_init(&redact->text, 0);
	memcpy(redact->key, key, sizeof(redact->key));
}

int ky_redact_init(struct ky_redact *redact, uint32_t classes)
{
	uint8_t key[KY_REDACT_KEY_BYTES] = {0};
	bool is_random = getrandom(key, sizeof(key), 0) == (ssize_t)sizeof(key);
	int err = errno ? -errno : -EIO;

	ky_redact_init_key(redact, classes, key);
	return is_random ? 0 : err;
}

void ky_redact_release(struct ky_redact *redact)
{
	ky_buf_release(&redact->text);
}

uint32_t ky_redact_level(const char *text)
{
	return strcmp(text, "args") == 0   ? KY_REDACT_LEVEL_ARGS :
	       strcmp(text, "values") == 0 ? KY_REDACT_LEVEL_VALUES :
	       strcmp(text, "names") == 0  ? KY_REDACT_LEVEL_NAMES :
					     0;
}

const char *ky_redact_class_name(uint32_t number)
{
	static const char *const names[KY_REDACT_CLASSES] = {"paths", "args", "memory", "values",
							     "names"};

	return names[number];
}

/* ---- a keyed hash: J.-P. Aumasson, D. J. Bernstein, "SipHash: a fast short-input PRF" ---- */

static uint64_t turn(uint64_t word, int by)
{
	return word << by | word >> (64 - by);
}

static void sip_round(uint64_t v[4])
{
	v[0] += v[1];
	v[1] = turn(v[1], 13) ^ v[0];
	v[0] = turn(v[0], 32);
	v[2] += v[3];
	v[3] = turn(v[3], 16) ^ v[2];
	v[0] += v[3];
	v[3] = turn(v[3], 21) ^ v[0];
	v[2] += v[1];
	v[1] = turn(v[1], 17) ^ v[2];
	v[2] = turn(v[2], 32);
}

static uint64_t sip_hash(const uint8_t key[KY_REDACT_KEY_BYTES], const uint8_t *at, size_t count)
{
	uint64_t low = ky_get_u64(key), high = ky_get_u64(key + 8);
	uint64_t v[4] = {low ^ UINT64_C(0x736f6d6570736575), high ^ UINT64_C(0x646f72616e646f6d),
			 low ^ UINT64_C(0x6c7967656e657261), high ^ UINT64_C(0x7465646279746573)};
	uint64_t word = (uint64_t)count << 56;
	size_t whole = count & ~(size_t)7;

	for (size_t i = 0; i < whole; i += 8) {
		uint64_t m = ky_get_u64(at + i);

		v[3] ^= m;
		sip_round(v);
		sip_round(v);
		v[0] ^= m;
	}
	for (size_t i = whole; i < count; i++)
		word |= (uint64_t)at[i] << 8 * (i - whole);
	v[3] ^= word;
	sip_round(v);
	sip_round(v);
	v[0] ^= word;
	v[2] ^= 0xff;
	for (int i = 0; i < 4; i++)
		sip_round(v);
	return v[0] ^ v[1] ^ v[2] ^ v[3];
}

/* ---- texts: each appends what stands for one ---- */

static void put(struct ky_redact *redact, const void *bytes, size_t count)
{
	(void)ky_buf_append(&redact->text, bytes, count);
}

static void put_hidden(struct ky_redact *redact)
{
	put(redact, hidden, sizeof(hidden) - 1);
}

static void put_hash(struct ky_redact *redact, const uint8_t *text, size_t count)
{
	static const char digits[] = "0123456789abcdef";
	uint64_t hash = sip_hash(redact->key, text, count);
	char name[13] = {'n'};

	for (int i = 0; i < 12; i++)
		name[1 + i] = digits[hash >> 4 * i & 15];
	put(redact, name, sizeof(name));
}

static bool ends_name(uint8_t byte)
{
	return byte == '/' || byte <= ' ' || strchr("\"'<>()[]{},;:|", byte) != NULL;
}

/* Bytes of a home directory at the start of the text, without a slash after it; 0: none. */
static size_t home_bytes(const uint8_t *at, size_t count)
{
	static const char *const places[] = {"/home/", "/Users/"};
	static const char root[] = "/root";

	for (size_t i = 0; i < sizeof(places) / sizeof(places[0]); i++) {
		size_t bytes = strlen(places[i]), end = bytes;

		if (count <= bytes || memcmp(at, places[i], bytes) != 0)
			continue;
		while (end < count && !ends_name(at[end]))
			end++;
		if (end > bytes)
			return end;
	}
	if (count >= sizeof(root) - 1 && memcmp(at, root, sizeof(root) - 1) == 0 &&
	    (count == sizeof(root) - 1 || ends_name(at[sizeof(root) - 1])))
		return sizeof(root) - 1;
	return 0;
}

static void put_paths(struct ky_redact *redact, const uint8_t *text, size_t count)
{
	size_t from = 0;

	for (size_t i = 0; i < count;) {
		size_t bytes = text[i] == '/' ? home_bytes(text + i, count - i) : 0;

		if (!bytes) {
			i++;
			continue;
		}
		put(redact, text + from, i - from);
		put(redact, "~", 1);
		from = i += bytes;
	}
	put(redact, text + from, count - from);
}

static void put_text(struct ky_redact *redact, const uint8_t *text, size_t count, uint32_t class)
{
	if (!count)
		return;
	if (class == KY_REDACT_NAMES && redact->classes & KY_REDACT_NAMES)
		put_hash(redact, text, count);
	else if (class != KY_REDACT_NAMES && redact->classes & class)
		put_hidden(redact);
	else if (redact->classes & KY_REDACT_PATHS)
		put_paths(redact, text, count);
	else
		put(redact, text, count);
}

/* ---- what a field is ---- */

static bool is_text(struct ky_slice slice, const char *text)
{
	return slice.count == strlen(text) && memcmp(slice.bytes, text, slice.count) == 0;
}

/* Words of kymo's own: they say nothing of the program. */
#define CLASS_PLAIN 0u

static uint32_t class_of(const struct ky_schema *schema, uint16_t field)
{
	uint8_t known = schema->fields[field].known;

	if (known == 0xff || schema->event == KY_EV_UNKNOWN)
		return is_text(schema->fields[field].name, "span_name") ? KY_REDACT_NAMES :
									  KY_REDACT_VALUES;
	switch (schema->event) {
	case KY_EV_ANNOTATION:
		return KY_REDACT_VALUES;
	case KY_EV_CRASH:
		return KY_REDACT_MEMORY;
	case KY_EV_LOSS:
	case KY_EV_RETENTION:
	case KY_EV_TRIGGER:
	case KY_EV_STUCK_THREAD:
	case KY_EV_SEGMENT_INDEX:
	case KY_EV_CONN_ENTER:
	case KY_EV_CONN_EXIT:
		return CLASS_PLAIN;
	case KY_EV_HISTOGRAM:
		return known == KY_F_HISTOGRAM_name ? KY_REDACT_NAMES : CLASS_PLAIN;
	case KY_EV_PROCESS_MAP:
		return known == KY_F_PROCESS_MAP_path ? KY_REDACT_NAMES : CLASS_PLAIN;
	default:
		return KY_REDACT_NAMES;
	}
}

/* Of the metadata: what the recorder writes itself, from words and numbers of its own. A key's
 * group ends in a dot. */
/* What recorders write of themselves. Each by its whole name: a program may choose any other. */
static const char *const recorder_keys[] = {"pid",
					    "boot_id",
					    "process.start_time_ticks",
					    "process.available_parallelism",
					    "process.end",
					    "machine.architecture",
					    "kymo.version",
					    "kymo.source",
					    "kymo.gates",
					    "kymo.gates_off",
					    "kymo.mode",
					    "kymo.dump.continues",
					    "kymo.segments.unsent",
					    "offcpu.rule",
					    "offcpu.sources",
					    "offcpu.split",
					    "offcpu.fault_stacks",
					    "alloc.source",
					    "alloc.unseen",
					    "alloc.interval_bytes",
					    "alloc.refused",
					    "places.rule",
					    "poll_cost.mark",
					    "clock.source",
					    "clock.ticks_per_second",
					    "clock.jumps",
					    "ring.bytes",
					    "ring.anonymous",
					    "ring.dropped",
					    "coverage.ring",
					    "coverage.part",
					    "coverage.from_ticks",
					    "coverage.whole_from_ticks",
					    "coverage.to_ticks",
					    "flight.age_ns",
					    "unwind.tables",
					    "cpu_time.measured",
					    "sampling.cpu",
					    "sampling.cpu.choice",
					    "sampling.cpu.rate_hz",
					    "sampling.cpu.share_ppm",
					    "sampling.cpu.kernel",
					    "sampling.cpu.refused",
					    "sampling.cpu.threads_refused",
					    "resources.interval_ns",
					    "resources.missing",
					    "rules.fired",
					    "rules.held_back",
					    "rules.untold",
					    "rules.untold_over_budget",
					    "rules.undumped",
					    "watchdog.late",
					    "watchdog.unwatched_ns",
					    "directory.corrupt",
					    "runtimes.left_out",
					    "segment.complete",
					    "tokio.version",
					    "tokio.unstable",
					    "tokio.roots",
					    "tokio.local_queue",
					    "tokio.tables",
					    "tokio.tables_by_shape",
					    "tokio.copies",
					    "tokio.next_id",
					    "tokio.tables_unrecognised",
					    "tokio.tables_refused",
					    "tokio.inside",
					    "tokio.attached",
					    "dial9.version"};

/* runtime.NAME: the numbers of its workers. */
static bool is_of_runtime(struct ky_slice key, struct ky_slice value)
{
	static const char prefix[] = "runtime.";

	if (key.count < sizeof(prefix) || memcmp(key.bytes, prefix, sizeof(prefix) - 1) != 0)
		return false;
	for (size_t i = 0; i < value.count; i++)
		if ((value.bytes[i] < '0' || value.bytes[i] > '9') && value.bytes[i] != ',')
			return false;
	return true;
}

static uint32_t class_of_key(struct ky_slice key, struct ky_slice value)
{
	if (is_text(key, "service") || is_text(key, "host") || is_text(key, "resources.cgroup"))
		return KY_REDACT_NAMES;
	for (size_t i = 0; i < sizeof(recorder_keys) / sizeof(recorder_keys[0]); i++)
		if (is_text(key, recorder_keys[i]))
			return CLASS_PLAIN;
	return is_of_runtime(key, value) ? CLASS_PLAIN : KY_REDACT_ARGS;
}

/* ---- values ---- */

static bool next_text(const uint8_t **at, size_t *left, struct ky_slice *out)
{
	uint32_t bytes;

	if (*left < 4)
		return false;
	bytes = ky_get_u32(*at);
	*at += 4;
	*left -= 4;
	out->bytes = *at;
	out->count = bytes < *left ? bytes : *left;
	*at += out->count;
	*left -= out->count;
	return true;
}

/* Puts the text that `change` appends, after its length. */
static void put_counted(struct ky_redact *redact, struct ky_slice text, uint32_t class)
{
	uint8_t length[4] = {0};
	size_t at = redact->text.used;

	put(redact, length, sizeof(length));
	put_text(redact, text.bytes, text.count, class);
	if (!redact->text.failed)
		ky_put_u32(redact->text.bytes + at,
			   (uint32_t)(redact->text.used - at - sizeof(length)));
}

static void put_map(struct ky_redact *redact, const struct ky_value *value, bool is_metadata)
{
	const uint8_t *at = value->text.bytes;
	size_t left = value->text.count;
	struct ky_slice key, text;

	while (next_text(&at, &left, &key) && next_text(&at, &left, &text)) {
		uint32_t class = is_metadata ? class_of_key(key, text) : KY_REDACT_VALUES;
		bool is_own = is_metadata && (class == KY_REDACT_NAMES ||
					      (class == CLASS_PLAIN && !is_of_runtime(key, text)));

		/* Keys of the program are names as well. */
		put_counted(redact, key,
			    is_own      ? CLASS_PLAIN :
			    is_metadata ? KY_REDACT_NAMES :
					  class);
		put_counted(redact, text, class);
	}
}

static const struct ky_value *changed(struct ky_redact *redact, const struct ky_value *value,
				      struct ky_value *copy)
{
	*copy = *value;
	copy->text.bytes = redact->text.bytes;
	copy->text.count = redact->text.used;
	return copy;
}

const struct ky_value *ky_redact_value(struct ky_redact *redact, const struct ky_schema *schema,
				       uint16_t field, const struct ky_value *value,
				       struct ky_value *copy)
{
	uint32_t class;

	if (!value->is_present)
		return value;
	class = class_of(schema, field);
	ky_buf_clear(&redact->text);
	switch (value->type) {
	case KY_TYPE_POOLED_STRING:
		if (!value->is_resolved)
			return value;
		put_text(redact, value->text.bytes, value->text.count, class);
		return changed(redact, value, copy);
	case KY_TYPE_STRING:
		put_text(redact, value->text.bytes, value->text.count, class);
		return changed(redact, value, copy);
	case KY_TYPE_STRING_MAP:
		put_map(redact, value, schema->event == KY_EV_SEGMENT_METADATA);
		return changed(redact, value, copy);
	case KY_TYPE_BYTES:
	case KY_TYPE_STACK:
		/* Stacks are addresses of code, but for the registers of a crash. */
		if (value->type == KY_TYPE_STACK && class != KY_REDACT_MEMORY)
			return value;
		if (class == KY_REDACT_NAMES || !(redact->classes & class) ||
		    (!value->text.count && !value->frame_count))
			return value;
		*copy = *value;
		copy->text.count = 0;
		copy->frame_count = 0;
		return copy;
	default:
		return value;
	}
}

struct ky_slice ky_redact_name(struct ky_redact *redact, struct ky_slice name)
{
	ky_buf_clear(&redact->text);
	put_text(redact, name.bytes, name.count, KY_REDACT_NAMES);
	return (struct ky_slice){redact->text.bytes, redact->text.used};
}

struct ky_slice ky_redact_type(struct ky_redact *redact, uint32_t event, const char *name,
			       size_t name_bytes)
{
	static const char *const spans[] = {"SpanEnter:", "SpanExit:"};
	const uint8_t *at = (const void *)name;
	size_t kept = 0;

	ky_buf_clear(&redact->text);
	for (size_t i = 0; i < sizeof(spans) / sizeof(spans[0]); i++)
		if (name_bytes > strlen(spans[i]) && memcmp(name, spans[i], strlen(spans[i])) == 0)
			kept = strlen(spans[i]);
	if (event == KY_EV_UNKNOWN && redact->classes & KY_REDACT_NAMES) {
		put(redact, name, kept);
		put_text(redact, at + kept, name_bytes - kept, KY_REDACT_NAMES);
	} else if (redact->classes & KY_REDACT_PATHS) {
		put_paths(redact, at, name_bytes);
	} else {
		put(redact, name, name_bytes);
	}
	return (struct ky_slice){redact->text.bytes, redact->text.used};
}

const char *ky_redact_text(struct ky_redact *redact, const char *text)
{
	ky_buf_clear(&redact->text);
	if (redact->classes & KY_REDACT_PATHS)
		put_paths(redact, (const void *)text, strlen(text));
	else
		put(redact, text, strlen(text));
	put(redact, "", 1);
	return redact->text.failed ? "" : (const char *)redact->text.bytes;
}
