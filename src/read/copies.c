/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* What each source says that it holds, and who therefore gives what. */
#include <read/copies.h>

#include <base/alloc.h>
#include <errno.h>
#include <kymo/base.h>
#include <read/copies_state.h>
#include <read/frame_reader.h>
#include <read/sort.h>
#include <string.h>

#define LOOK_FRAMES 4096u /* of a source, until it says what it is */
#define LOOK_BYTES (1u << 20)
#define PART_BYTES 40u
#define CLAIMS_MAX (1u << 20)
#define WORKERS_MAX 65536u
#define BLOCKING_POOL 254u /* and 255, unknown: ids of no worker */

enum part {
	PART_NONE = 0, /* it does not say */
	PART_STREAM,
	PART_REST, /* goes on where a stream was cut off */
	PART_DUMP
};

/* Of one segment. Behind from nothing is missing that it was to hold; behind whole_from nothing at
 * all, up to `to`. */
struct claim {
	uint64_t from, whole_from, to;
	uint64_t from_ns, border_ns, to_ns; /* from_ns, border_ns (of whole_from): 0 not known */
	uint64_t whole_from_ns;
	uint32_t source, group;
	enum part part;
	bool has_to;
};

/* One source as it describes itself. */
struct look {
	struct ky_copies_key key;
	char part_text[PART_BYTES];
	enum part part;
	bool is_wanted; /* it is read as a whole: there may be copies of it, or in it */
	bool is_mixed;  /* of several parts or processes: it keeps all */
	uint32_t process, group;
	struct ky_worker_id *workers;
	uint32_t worker_count;
	struct ky_clock_line *lines; /* of the segment that is read */
	uint32_t line_count, line_capacity;
	uint64_t last_ns;
};

struct scan {
	struct ky_copies *copies;
	struct look *looks;
	uint32_t count;
	struct claim *claims;
	uint32_t claim_count, claim_capacity;
	uint32_t group_count;
	struct look *look; /* the source that is read */
	uint32_t source;
};

/* ---- what a segment says ---- */

struct said {
	struct ky_copies_key key;
	char part[PART_BYTES];
	uint64_t from, whole_from, to;
	bool has_to, is_end;
};

static bool is_key(const struct ky_value *value, const char *key)
{
	return value->text.count == strlen(key) &&
	       memcmp(value->text.bytes, key, value->text.count) == 0;
}

static void take_text(char *out, size_t out_bytes, const struct ky_value *value)
{
	size_t bytes = value->text.count < out_bytes - 1 ? value->text.count : out_bytes - 1;

	memset(out, 0, out_bytes);
	if (bytes)
		memcpy(out, value->text.bytes, bytes);
}

static uint64_t take_number(const struct ky_value *value)
{
	uint64_t number = 0;

	for (size_t i = 0; i < value->text.count && i < 20; i++) {
		if (value->text.bytes[i] < '0' || value->text.bytes[i] > '9')
			return 0;
		number = number * 10 + (uint64_t)(value->text.bytes[i] - '0');
	}
	return number;
}

static bool read_said(struct said *out, struct ky_trc_dec *dec, const struct ky_frame *frame)
{
	const struct ky_value *entries = ky_frame_field(frame, KY_F_SEGMENT_METADATA_entries);
	struct ky_value key, value;
	struct ky_walk walk;

	memset(out, 0, sizeof(*out));
	if (!entries || entries->type != KY_TYPE_STRING_MAP)
		return false;
	ky_trc_walk_begin(&walk, entries);
	while (ky_trc_walk_next(dec, &walk, &key, &value) == 1) {
		if (is_key(&key, "boot_id"))
			take_text(out->key.process.boot, sizeof(out->key.process.boot), &value);
		else if (is_key(&key, "pid"))
			take_text(out->key.process.pid, sizeof(out->key.process.pid), &value);
		else if (is_key(&key, "process.start_time_ticks"))
			take_text(out->key.process.start, sizeof(out->key.process.start), &value);
		else if (is_key(&key, "coverage.ring"))
			take_text(out->key.ring, sizeof(out->key.ring), &value);
		else if (is_key(&key, "coverage.part"))
			take_text(out->part, sizeof(out->part), &value);
		else if (is_key(&key, "coverage.from_ticks"))
			out->from = take_number(&value);
		else if (is_key(&key, "coverage.whole_from_ticks"))
			out->whole_from = take_number(&value);
		else if (is_key(&key, "segment.complete"))
			out->is_end = is_key(&value, "true");
		else if (is_key(&key, "coverage.to_ticks")) {
			out->to = take_number(&value);
			out->has_to = true;
		}
	}
	return out->part[0] && out->key.process.pid[0];
}

static enum part part_of(const char *text)
{
	if (strcmp(text, "dump") == 0)
		return PART_DUMP;
	if (strcmp(text, "rest") == 0)
		return PART_REST;
	return strncmp(text, "stream-", 7) == 0 ? PART_STREAM : PART_NONE;
}

/* ---- the first look ---- */

static int ignore_notice(void *ctx, uint64_t offset, int code, const char *text)
{
	(void)ctx;
	(void)offset;
	(void)code;
	(void)text;
	return 0;
}

static void note_said(struct look *look, const struct said *said)
{
	if (look->part == PART_NONE) {
		look->key = said->key;
		memcpy(look->part_text, said->part, sizeof(look->part_text));
		look->part = part_of(said->part);
	} else if (memcmp(&look->key, &said->key, sizeof(look->key)) != 0 ||
		   memcmp(look->part_text, said->part, sizeof(look->part_text)) != 0) {
		look->is_mixed = true;
	}
}

static int look_at(struct look *look, struct ky_byte_source *source,
		   const struct ky_trc_limits *limits)
{
	struct ky_frame_reader reader;
	struct ky_frame frame;
	struct said said;
	int result = ky_frame_reader_init(&reader, source, limits, LOOK_BYTES, ignore_notice, NULL);

	if (result < 0)
		return result == -ENOMEM ? result : 0;
	for (uint32_t i = 0; i < LOOK_FRAMES && look->part == PART_NONE; i++) {
		result = ky_frame_reader_next(&reader, &frame);
		if (result != 1)
			break;
		if (frame.kind == KY_FRAME_EVENT && frame.schema->event == KY_EV_SEGMENT_METADATA &&
		    read_said(&said, reader.dec, &frame))
			note_said(look, &said);
	}
	ky_frame_reader_release(&reader);
	return result == -ENOMEM ? result : 0;
}

static bool is_one_part(const struct look *a, const struct look *b)
{
	if (a->part == PART_DUMP || b->part == PART_DUMP)
		return false;
	return a->part == PART_REST || b->part == PART_REST ||
	       memcmp(a->part_text, b->part_text, sizeof(a->part_text)) == 0;
}

/* Those of a process that comes in more than one part. Returns whether there are any. */
static bool choose(struct scan *scan)
{
	bool has_any = false;

	for (uint32_t i = 0; i < scan->count; i++) {
		struct look *one = &scan->looks[i];

		for (uint32_t k = 0; one->part != PART_NONE && k < scan->count; k++) {
			struct look *other = &scan->looks[k];

			if (i == k || other->part == PART_NONE || is_one_part(one, other) ||
			    memcmp(&one->key, &other->key, sizeof(one->key)) != 0)
				continue;
			one->is_wanted = has_any = true;
			break;
		}
	}
	return has_any;
}

/* On the line that these ticks lie on. Before the first, which says little there: by it, or 0 where
 * a border needs the time to the ns. */
static uint64_t ns_of(const struct look *look, uint64_t ticks, bool is_border)
{
	uint32_t low = 0, high = look->line_count;

	while (high - low > 1) {
		uint32_t middle = low + (high - low) / 2;

		if (look->lines[middle].ticks <= ticks)
			low = middle;
		else
			high = middle;
	}
	if (!ticks || (is_border && ticks < look->lines[low].ticks))
		return 0;
	return ky_clock_line_ns(&look->lines[low], ticks);
}

/* The last stamp of that time. */
static uint64_t ticks_of(const struct ky_clock_line *line, uint64_t ns)
{
	uint64_t low = 0, high = UINT64_MAX;

	while (high - low > 1) {
		uint64_t middle = low + (high - low) / 2;

		if (ky_clock_line_ns(line, middle) <= ns)
			low = middle;
		else
			high = middle;
	}
	return low;
}

static void close_claim(struct scan *scan)
{
	struct claim *claim = scan->claim_count ? &scan->claims[scan->claim_count - 1] : NULL;
	const struct look *look = scan->look;

	if (!claim || claim->source != scan->source)
		return;
	if (!look->line_count) { /* it has no record */
		scan->claim_count--;
		return;
	}
	if (!claim->has_to)
		claim->to = ticks_of(&look->lines[look->line_count - 1], look->last_ns);
	claim->from_ns = ns_of(look, claim->from, true);
	claim->border_ns = ns_of(look, claim->whole_from, true);
	claim->whole_from_ns = ns_of(look, claim->whole_from, false);
	claim->to_ns = ns_of(look, claim->to, true);
}

static bool open_claim(struct scan *scan, const struct said *said)
{
	uint32_t wanted = scan->claim_capacity ? scan->claim_capacity * 2 : 16;
	struct claim *list;

	if (scan->claim_count == scan->claim_capacity) {
		if (scan->claim_count >= CLAIMS_MAX)
			return false;
		list = ky_realloc(scan->claims, wanted * sizeof(*list));
		if (!list)
			return false;
		scan->claims = list;
		scan->claim_capacity = wanted;
	}
	memset(&scan->claims[scan->claim_count], 0, sizeof(*scan->claims));
	scan->claims[scan->claim_count].source = scan->source;
	scan->claims[scan->claim_count].part = part_of(said->part);
	scan->claims[scan->claim_count++].from = said->from;
	return true;
}

/* The last words of a segment hold, its first are all there is of one that was cut off. */
static bool on_metadata(struct scan *scan, struct ky_trc_dec *dec, const struct ky_frame *frame)
{
	struct claim *claim;
	struct said said;

	if (!read_said(&said, dec, frame))
		return true;
	note_said(scan->look, &said);
	if (!said.is_end || !scan->claim_count ||
	    scan->claims[scan->claim_count - 1].source != scan->source) {
		close_claim(scan);
		scan->look->line_count = 0;
		if (!open_claim(scan, &said))
			return false;
	}
	claim = &scan->claims[scan->claim_count - 1];
	claim->whole_from = said.whole_from > said.from ? said.whole_from : said.from;
	claim->to = said.to;
	claim->has_to = said.has_to;
	return true;
}

static bool on_worker(struct scan *scan, const struct ky_frame *frame)
{
	uint64_t id = ky_frame_number(frame, KY_F_WORKER_worker_id, BLOCKING_POOL);
	uint64_t identity = ky_frame_number(frame, KY_F_WORKER_identity, 0);
	struct look *look = scan->look;
	uint32_t same = 0;
	struct ky_worker_id *list;

	if (!identity || id == BLOCKING_POOL || id == BLOCKING_POOL + 1)
		return true;
	for (uint32_t i = 0; i < look->worker_count; i++) {
		if (look->workers[i].id == id)
			return true;
		same += look->workers[i].to == identity;
	}
	if (look->worker_count >= WORKERS_MAX)
		return true;
	list = ky_realloc(look->workers, (look->worker_count + 1) * sizeof(*list));
	if (!list)
		return false;
	look->workers = list;
	/* The same words may come back with another worker once the first is gone. */
	list[look->worker_count++] = (struct ky_worker_id){identity + same, id, identity};
	return true;
}

static bool on_clock(struct look *look, const struct ky_frame *frame)
{
	uint32_t wanted = look->line_capacity ? look->line_capacity * 2 : 64;
	struct ky_clock_line line, *list;

	if (!ky_clock_line_read(&line, frame) ||
	    (look->line_count && look->lines[look->line_count - 1].ticks >= line.ticks))
		return true;
	if (look->line_count == look->line_capacity) {
		list = ky_realloc(look->lines, wanted * sizeof(*list));
		if (!list)
			return false;
		look->lines = list;
		look->line_capacity = wanted;
	}
	look->lines[look->line_count++] = line;
	return true;
}

static bool on_frame(struct scan *scan, struct ky_trc_dec *dec, const struct ky_frame *frame)
{
	struct look *look = scan->look;

	if (frame->schema->has_timestamp && frame->timestamp_ns > look->last_ns)
		look->last_ns = frame->timestamp_ns;
	switch (frame->schema->event) {
	case KY_EV_SEGMENT_METADATA:
		return on_metadata(scan, dec, frame);
	case KY_EV_WORKER:
		return on_worker(scan, frame);
	case KY_EV_COUNTER_CLOCK:
		return on_clock(look, frame);
	default:
		return true;
	}
}

static int read_whole(struct scan *scan, struct ky_byte_source *source,
		      const struct ky_trc_limits *limits, uint64_t raw_bytes_max)
{
	struct ky_hot_event hot[32];
	struct ky_frame_reader reader;
	struct ky_frame frame;
	uint32_t count;
	int result = ky_frame_reader_init(&reader, source, limits, raw_bytes_max, ignore_notice,
					  NULL);

	if (result < 0)
		return result == -ENOMEM ? result : 0;
	do {
		while ((count = ky_frame_reader_hot(&reader, hot, 32)) > 0) {
			if (hot[count - 1].timestamp_ns > scan->look->last_ns)
				scan->look->last_ns = hot[count - 1].timestamp_ns;
		}
		result = ky_frame_reader_next(&reader, &frame);
		if (result == 1 && frame.kind == KY_FRAME_EVENT &&
		    !on_frame(scan, reader.dec, &frame))
			result = -ENOMEM;
	} while (result == 1);
	close_claim(scan);
	ky_frame_reader_release(&reader);
	return result == -ENOMEM ? result : 0;
}

/* ---- who owns what ---- */

static bool insert_owned(struct ky_copies_process *process, uint32_t at, struct ky_owned owned)
{
	struct ky_owned *list = ky_realloc(process->owned,
					   (process->owned_count + 1) * sizeof(*list));

	if (!list)
		return false;
	process->owned = list;
	memmove(list + at + 1, list + at, (process->owned_count - at) * sizeof(*list));
	list[at] = owned;
	process->owned_count++;
	return true;
}

/* What nobody has yet of the stamps behind lo, up to hi. Next to somebody else's part times keep to
 * that one's clock. */
static bool give(struct ky_copies_process *process, struct ky_owned claim)
{
	struct ky_owned part = claim;
	uint32_t at = 0;

	while (part.lo < claim.hi) {
		const struct ky_owned *next;

		while (at < process->owned_count && process->owned[at].hi <= part.lo)
			at++;
		next = at < process->owned_count ? &process->owned[at] : NULL;
		part.hi = claim.hi;
		part.hi_ns = claim.hi_ns;
		if (next && next->lo < claim.hi) {
			part.hi = next->lo;
			part.hi_ns = next->lo_ns ? next->lo_ns : UINT64_MAX;
		}
		if (part.lo < part.hi) {
			if (!insert_owned(process, at, part))
				return false;
			at++;
			next = at < process->owned_count ? &process->owned[at] : NULL;
		}
		if (!next || next->lo >= claim.hi)
			return true;
		part.lo = next->hi;
		part.lo_ns = next->hi_ns + 1;
	}
	return true;
}

static bool is_claim_before(const void *a, const void *b, const void *ctx)
{
	const struct claim *x = a, *y = b;

	(void)ctx;
	return x->to < y->to;
}

enum turn {
	TURN_STREAMS, /* what they hold as a whole */
	TURN_DUMPS,
	TURN_REMAINS, /* what streams hold in part: behind a time of flight */
	TURNS
};

static bool give_claim(struct scan *scan, const struct claim *claim, enum turn turn)
{
	const struct look *look = &scan->looks[claim->source];
	struct ky_owned wish = {claim->from, claim->to, claim->from_ns, claim->to_ns, look->group};

	if (look->is_mixed || (turn == TURN_DUMPS) != (claim->part == PART_DUMP))
		return true;
	if (turn == TURN_STREAMS) {
		wish.lo = claim->whole_from;
		wish.lo_ns = claim->border_ns;
	}
	return wish.lo >= wish.hi || give(&scan->copies->processes[look->process], wish);
}

/* Between two segments of one part times are left as they are. */
static void join_own(struct ky_copies_process *process)
{
	uint32_t kept = 0;

	for (uint32_t i = 1; i < process->owned_count; i++) {
		const struct ky_owned *owned = &process->owned[i];
		struct ky_owned *last = &process->owned[kept];

		if (owned->group == last->group && owned->lo == last->hi) {
			last->hi = owned->hi;
			last->hi_ns = owned->hi_ns;
		} else {
			process->owned[++kept] = *owned;
		}
	}
	if (process->owned_count)
		process->owned_count = kept + 1;
}

static int divide(struct scan *scan)
{
	ky_sort(scan->claims, scan->claim_count, sizeof(*scan->claims), is_claim_before, NULL);
	for (int turn = 0; turn < TURNS; turn++)
		for (uint32_t i = 0; i < scan->claim_count; i++)
			if (!give_claim(scan, &scan->claims[i], (enum turn)turn))
				return -ENOMEM;
	for (uint32_t i = 0; i < scan->copies->process_count; i++)
		join_own(&scan->copies->processes[i]);
	return 0;
}

static bool is_begun_before(const void *a, const void *b, const void *ctx)
{
	const struct claim *x = a, *y = b;

	(void)ctx;
	return x->whole_from < y->whole_from;
}

static int add_unrecorded(struct ky_copies *copies, uint64_t from_ns, uint64_t to_ns)
{
	struct ky_unrecorded *list = ky_realloc(copies->unrecorded,
						(copies->unrecorded_count + 1) * sizeof(*list));

	if (!list)
		return -ENOMEM;
	copies->unrecorded = list;
	list[copies->unrecorded_count++] = (struct ky_unrecorded){from_ns, to_ns};
	return 0;
}

/* The stamps that somebody holds as a whole, one behind the other: between them nothing was
 * recorded, or nobody kept it. Claims are in the order of where they begin. */
static int find_unrecorded(struct scan *scan, uint32_t process)
{
	uint64_t reached = 0, reached_ns = 0;
	int result = 0;

	for (uint32_t i = 0; i < scan->claim_count && !result; i++) {
		const struct claim *claim = &scan->claims[i];
		const struct look *look = &scan->looks[claim->source];

		if (look->is_mixed || look->process != process || claim->to <= reached)
			continue;
		if (reached && claim->whole_from > reached && claim->whole_from_ns > reached_ns)
			result = add_unrecorded(scan->copies, reached_ns, claim->whole_from_ns);
		reached = claim->to;
		reached_ns = claim->to_ns;
	}
	return result;
}

/* ---- groups and workers ---- */

/* The rest of a stream goes on exactly where that one ends. */
static uint32_t group_of_rest(const struct scan *scan, const struct look *rest, uint32_t source)
{
	uint64_t from = 0;

	for (uint32_t i = 0; i < scan->claim_count; i++) {
		if (scan->claims[i].source == source)
			from = scan->claims[i].from;
	}
	for (uint32_t i = 0; i < scan->claim_count; i++) {
		const struct look *look = &scan->looks[scan->claims[i].source];

		if (look->part == PART_STREAM && look->process == rest->process &&
		    scan->claims[i].to >= from && scan->claims[i].from <= from)
			return look->group;
	}
	return UINT32_MAX;
}

static void find_groups(struct scan *scan)
{
	for (uint32_t i = 0; i < scan->count; i++) {
		struct look *look = &scan->looks[i];

		look->group = UINT32_MAX;
		for (uint32_t k = 0; k < i && look->part == PART_STREAM; k++) {
			if (scan->looks[k].is_wanted && scan->looks[k].part == PART_STREAM &&
			    scan->looks[k].process == look->process &&
			    memcmp(scan->looks[k].part_text, look->part_text, PART_BYTES) == 0)
				look->group = scan->looks[k].group;
		}
		if (look->group == UINT32_MAX && look->part != PART_REST)
			look->group = scan->group_count++;
	}
	for (uint32_t i = 0; i < scan->count; i++) {
		struct look *look = &scan->looks[i];

		if (look->part == PART_REST && look->is_wanted)
			look->group = group_of_rest(scan, look, i);
		if (look->group == UINT32_MAX)
			look->group = scan->group_count++;
	}
}

static uint64_t free_id(const struct ky_copies_process *process, uint64_t wish)
{
	uint64_t highest = 0;
	bool is_free = true;

	for (uint32_t i = 0; i < process->worker_count; i++) {
		is_free &= process->workers[i].id != wish;
		if (process->workers[i].id > highest)
			highest = process->workers[i].id;
	}
	if (is_free)
		return wish;
	return highest + 1 == BLOCKING_POOL ? BLOCKING_POOL + 2 : highest + 1;
}

static bool name_worker(struct ky_copies_process *process, struct ky_worker_id *worker)
{
	struct ky_worker_id *list;

	for (uint32_t i = 0; i < process->worker_count; i++) {
		if (process->workers[i].identity == worker->identity) {
			worker->to = process->workers[i].id;
			return true;
		}
	}
	list = ky_realloc(process->workers, (process->worker_count + 1) * sizeof(*list));
	if (!list)
		return false;
	process->workers = list;
	worker->to = free_id(process, worker->id);
	list[process->worker_count++] = (struct ky_worker_id){worker->identity, worker->to, 0};
	return true;
}

/* Streams first, then dumps as they were made: the claims are in that order. */
static int name_workers(struct scan *scan)
{
	for (int turn = 0; turn < 2; turn++) {
		for (uint32_t i = 0; i < scan->claim_count; i++) {
			struct look *look = &scan->looks[scan->claims[i].source];

			if ((turn == 0) != (look->part != PART_DUMP) || look->is_mixed)
				continue;
			for (uint32_t k = 0; k < look->worker_count; k++)
				if (!name_worker(&scan->copies->processes[look->process],
						 &look->workers[k]))
					return -ENOMEM;
		}
	}
	return 0;
}

static int find_processes(struct scan *scan)
{
	struct ky_copies *copies = scan->copies;

	copies->processes = ky_alloc(scan->count * sizeof(*copies->processes));
	if (!copies->processes)
		return -ENOMEM;
	for (uint32_t i = 0; i < scan->count; i++) {
		struct look *look = &scan->looks[i];

		if (!look->is_wanted)
			continue;
		while (look->process < copies->process_count &&
		       memcmp(&copies->processes[look->process].key, &look->key,
			      sizeof(look->key)) != 0)
			look->process++;
		if (look->process == copies->process_count)
			copies->processes[copies->process_count++].key = look->key;
	}
	return 0;
}

static void settle(struct scan *scan)
{
	struct ky_copies *copies = scan->copies;

	for (uint32_t i = 0; i < scan->count; i++) {
		struct ky_copies_source *source = &copies->sources[i];
		struct look *look = &scan->looks[i];

		source->copies = copies;
		source->index = i;
		if (!look->is_wanted || look->is_mixed)
			continue;
		source->process = &copies->processes[look->process];
		source->group = look->group;
		source->workers = look->workers;
		source->worker_count = look->worker_count;
		look->workers = NULL;
		for (uint32_t k = 0; k < source->worker_count; k++)
			source->has_other_ids |= source->workers[k].id != source->workers[k].to;
		ky_copies_begin(source);
	}
}

static int scan_all(struct scan *scan, struct ky_byte_source *sources,
		    const struct ky_trc_limits *limits, uint64_t raw_bytes_max)
{
	int result = find_processes(scan);

	for (uint32_t i = 0; i < scan->count && !result; i++) {
		if (!scan->looks[i].is_wanted)
			continue;
		scan->look = &scan->looks[i];
		scan->source = i;
		result = read_whole(scan, &sources[i], limits, raw_bytes_max);
	}
	if (result)
		return result;
	find_groups(scan);
	result = divide(scan);
	if (!result)
		result = name_workers(scan);
	ky_sort(scan->claims, scan->claim_count, sizeof(*scan->claims), is_begun_before, NULL);
	for (uint32_t i = 0; i < scan->copies->process_count && !result; i++)
		result = find_unrecorded(scan, i);
	if (!result)
		settle(scan);
	return result;
}

static int look_at_all(struct scan *scan, struct ky_byte_source *sources,
		       const struct ky_trc_limits *limits)
{
	int result = 0;

	for (uint32_t i = 0; i < scan->count && !result; i++) {
		if (!sources[i].seek) /* it is read once */
			continue;
		result = look_at(&scan->looks[i], &sources[i], limits);
	}
	return result;
}

int ky_copies_open(struct ky_copies **out, struct ky_byte_source *sources, uint32_t count,
		   const struct ky_trc_limits *limits, uint64_t raw_bytes_max)
{
	struct scan scan = {.count = count};
	int result = -ENOMEM;

	*out = NULL;
	if (count < 2)
		return 0;
	scan.looks = ky_alloc(count * sizeof(*scan.looks));
	scan.copies = ky_alloc(sizeof(*scan.copies));
	if (scan.looks && scan.copies)
		scan.copies->sources = ky_alloc(count * sizeof(*scan.copies->sources));
	if (scan.looks && scan.copies && scan.copies->sources) {
		scan.copies->source_count = count;
		result = look_at_all(&scan, sources, limits);
		if (!result && choose(&scan)) {
			result = scan_all(&scan, sources, limits, raw_bytes_max);
			if (!result) {
				*out = scan.copies;
				scan.copies = NULL;
			}
		}
	}
	for (uint32_t i = 0; scan.looks && i < count; i++) {
		ky_free(scan.looks[i].workers);
		ky_free(scan.looks[i].lines);
	}
	ky_free(scan.looks);
	ky_free(scan.claims);
	ky_copies_close(scan.copies);
	return result;
}

void ky_copies_close(struct ky_copies *copies)
{
	if (!copies)
		return;
	for (uint32_t i = 0; i < copies->source_count; i++)
		ky_free(copies->sources[i].workers);
	for (uint32_t i = 0; i < copies->process_count; i++) {
		ky_free(copies->processes[i].owned);
		ky_free(copies->processes[i].workers);
	}
	ky_free(copies->processes);
	ky_free(copies->unrecorded);
	ky_free(copies->seen);
	ky_free(copies->sources);
	ky_free(copies);
}

struct ky_copies_source *ky_copies_source(struct ky_copies *copies, uint32_t index)
{
	return copies && copies->sources[index].process ? &copies->sources[index] : NULL;
}

uint32_t ky_copies_unrecorded(const struct ky_copies *copies, const struct ky_unrecorded **out)
{
	*out = copies ? copies->unrecorded : NULL;
	return copies ? copies->unrecorded_count : 0;
}
