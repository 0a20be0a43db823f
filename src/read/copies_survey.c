/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* What each source says that it holds. */
#include <read/copies_scan.h>

#include <base/alloc.h>
#include <errno.h>
#include <read/frame_reader.h>
#include <string.h>

#define SEARCH_FRAMES 4096u /* of a source, until it says what it is */
#define SEARCH_BYTES (1u << 20)
#define CLAIMS_MAX (1u << 20)
#define WORKERS_MAX 65536u

/* ---- what a segment says ---- */

struct said {
	struct ky_copies_key key;
	char part[KY_COPIES_BYTES];
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
	struct ky_trc_walk walk;

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

static enum ky_copies_part part_of(const char *text)
{
	if (strcmp(text, "dump") == 0)
		return KY_COPIES_DUMP;
	if (strcmp(text, "rest") == 0)
		return KY_COPIES_REST;
	return strncmp(text, "stream-", 7) == 0 ? KY_COPIES_STREAM : KY_COPIES_NONE;
}

/* ---- the first reading ---- */

static int ignore_notice(void *ctx, uint64_t offset, int code, const char *text)
{
	(void)ctx;
	(void)offset;
	(void)code;
	(void)text;
	return 0;
}

static void note_said(struct ky_copies_survey *survey, const struct said *said)
{
	if (survey->part == KY_COPIES_NONE) {
		survey->key = said->key;
		memcpy(survey->part_text, said->part, sizeof(survey->part_text));
		survey->part = part_of(said->part);
	} else if (memcmp(&survey->key, &said->key, sizeof(survey->key)) != 0 ||
		   memcmp(survey->part_text, said->part, sizeof(survey->part_text)) != 0) {
		survey->is_mixed = true;
	}
}

int ky_copies_survey(struct ky_copies_survey *survey, struct ky_byte_source *source,
		     const struct ky_trc_limits *limits)
{
	struct ky_frame_reader reader;
	struct ky_frame frame;
	struct said said;
	int result = ky_frame_reader_init(&reader, source, limits, SEARCH_BYTES, ignore_notice,
					  NULL);

	if (result < 0)
		return result == -ENOMEM ? result : 0;
	for (uint32_t i = 0; i < SEARCH_FRAMES && survey->part == KY_COPIES_NONE; i++) {
		result = ky_frame_reader_next(&reader, &frame);
		if (result != 1)
			break;
		if (frame.kind == KY_FRAME_EVENT && frame.schema->event == KY_EV_SEGMENT_METADATA &&
		    read_said(&said, reader.dec, &frame))
			note_said(survey, &said);
	}
	ky_frame_reader_release(&reader);
	return result == -ENOMEM ? result : 0;
}

/* ---- all of a source ---- */

/* On the line that these ticks lie on. Before the first, which says little there: by it, or 0 where
 * a border needs the time to the ns. */
static uint64_t ns_of(const struct ky_copies_survey *survey, uint64_t ticks, bool is_border)
{
	uint32_t low = 0, high = survey->line_count;

	while (high - low > 1) {
		uint32_t middle = low + (high - low) / 2;

		if (survey->lines[middle].ticks <= ticks)
			low = middle;
		else
			high = middle;
	}
	if (!ticks || (is_border && ticks < survey->lines[low].ticks))
		return 0;
	return ky_clock_line_ns(&survey->lines[low], ticks);
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

static void close_claim(struct ky_copies_scan *scan)
{
	struct ky_copies_claim *claim = scan->claim_count ? &scan->claims[scan->claim_count - 1] :
							    NULL;
	const struct ky_copies_survey *survey = scan->survey;

	if (!claim || claim->source != scan->source)
		return;
	if (!survey->line_count) { /* it has no record */
		scan->claim_count--;
		return;
	}
	if (!claim->has_to)
		claim->to = ticks_of(&survey->lines[survey->line_count - 1], survey->last_ns);
	claim->from_ns = ns_of(survey, claim->from, true);
	claim->border_ns = ns_of(survey, claim->whole_from, true);
	claim->whole_from_ns = ns_of(survey, claim->whole_from, false);
	claim->to_ns = ns_of(survey, claim->to, true);
}

static bool open_claim(struct ky_copies_scan *scan, const struct said *said)
{
	if (scan->claim_count >= CLAIMS_MAX ||
	    ky_grow(&scan->claims, &scan->claim_capacity, scan->claim_count + 1,
		    sizeof(*scan->claims)))
		return false;
	memset(&scan->claims[scan->claim_count], 0, sizeof(*scan->claims));
	scan->claims[scan->claim_count].source = scan->source;
	scan->claims[scan->claim_count].part = part_of(said->part);
	scan->claims[scan->claim_count++].from = said->from;
	return true;
}

/* The last words of a segment hold, its first are all there is of a truncated one. */
static bool on_metadata(struct ky_copies_scan *scan, struct ky_trc_dec *dec,
			const struct ky_frame *frame)
{
	struct ky_copies_claim *claim;
	struct said said;

	if (!read_said(&said, dec, frame))
		return true;
	note_said(scan->survey, &said);
	if (!said.is_end || !scan->claim_count ||
	    scan->claims[scan->claim_count - 1].source != scan->source) {
		close_claim(scan);
		scan->survey->line_count = 0;
		if (!open_claim(scan, &said))
			return false;
	}
	claim = &scan->claims[scan->claim_count - 1];
	claim->whole_from = said.whole_from > said.from ? said.whole_from : said.from;
	claim->to = said.to;
	claim->has_to = said.has_to;
	return true;
}

static bool on_worker(struct ky_copies_scan *scan, const struct ky_frame *frame)
{
	uint64_t id = ky_frame_number(frame, KY_F_WORKER_worker_id, KY_COPIES_BLOCKING_POOL);
	uint64_t identity = ky_frame_number(frame, KY_F_WORKER_identity, 0);
	struct ky_copies_survey *survey = scan->survey;
	uint32_t same = 0;
	struct ky_worker_id *list;

	if (!identity || id == KY_COPIES_BLOCKING_POOL || id == KY_COPIES_BLOCKING_POOL + 1)
		return true;
	for (uint32_t i = 0; i < survey->worker_count; i++) {
		if (survey->workers[i].id == id)
			return true;
		same += survey->workers[i].to == identity;
	}
	if (survey->worker_count >= WORKERS_MAX)
		return true;
	list = ky_realloc(survey->workers, (survey->worker_count + 1) * sizeof(*list));
	if (!list)
		return false;
	survey->workers = list;
	/* The same words may come back with another worker once the first is gone. */
	list[survey->worker_count++] = (struct ky_worker_id){identity + same, id, identity};
	return true;
}

static bool on_clock(struct ky_copies_survey *survey, const struct ky_frame *frame)
{
	struct ky_clock_line line;

	if (!ky_clock_line_read(&line, frame) ||
	    (survey->line_count && survey->lines[survey->line_count - 1].ticks >= line.ticks))
		return true;
	if (ky_grow(&survey->lines, &survey->line_capacity, survey->line_count + 1, sizeof(line)))
		return false;
	survey->lines[survey->line_count++] = line;
	return true;
}

static bool on_frame(struct ky_copies_scan *scan, struct ky_trc_dec *dec,
		     const struct ky_frame *frame)
{
	struct ky_copies_survey *survey = scan->survey;

	if (frame->schema->has_timestamp && frame->timestamp_ns > survey->last_ns)
		survey->last_ns = frame->timestamp_ns;
	switch (frame->schema->event) {
	case KY_EV_SEGMENT_METADATA:
		return on_metadata(scan, dec, frame);
	case KY_EV_WORKER:
		return on_worker(scan, frame);
	case KY_EV_COUNTER_CLOCK:
		return on_clock(survey, frame);
	default:
		return true;
	}
}

int ky_copies_read(struct ky_copies_scan *scan, struct ky_byte_source *source, uint32_t index,
		   const struct ky_trc_limits *limits, uint64_t raw_bytes_max)
{
	struct ky_hot_event hot[32];
	struct ky_frame_reader reader;
	struct ky_frame frame;
	uint32_t count;
	int result = ky_frame_reader_init(&reader, source, limits, raw_bytes_max, ignore_notice,
					  NULL);

	scan->survey = &scan->surveys[index];
	scan->source = index;
	if (result < 0)
		return result == -ENOMEM ? result : 0;
	do {
		while ((count = ky_frame_reader_hot(&reader, hot, 32)) > 0) {
			if (hot[count - 1].timestamp_ns > scan->survey->last_ns)
				scan->survey->last_ns = hot[count - 1].timestamp_ns;
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
