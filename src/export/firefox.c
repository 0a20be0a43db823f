/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* The processed format of the Firefox profiler, version 48 (docs-developer/CHANGELOG-formats.md of
 * firefox-devtools/profiler): tables of each thread, stacks as a tree of prefixes. Newer versions
 * of the page upgrade it. */
#include <base/json_write.h>
#include <analyze/report.h>
#include <base/alloc.h>
#include <base/hash.h>
#include <errno.h>
#include <export/export.h>
#include <kymo/base.h>
#include <base/text.h>
#include <string.h>

struct node {
	uint32_t prefix; /* node + 1; 0: root */
	uint32_t function;
};

struct firefox_encoder {
	const struct ky_export *export;
	struct ky_buf *out;
	uint64_t start_ns;
	/* of the current thread */
	uint32_t *locals; /* by function: its number here + 1 */
	struct ky_buf functions, nodes, stacks, times, weights, walk;
	uint32_t *slots; /* of nodes, + 1 */
	uint32_t slot_count, node_count, function_count, sample_count;
	uint64_t first_ns;
};

static void quoted(struct ky_buf *out, const char *text)
{
	ky_json_string(out, text, strlen(text));
}

static void put_ms(struct ky_buf *out, uint64_t ns)
{
	char text[8] = {'.', '0', '0', '0', '0', '0', '0', 0};
	uint64_t rest = ns % 1000000;

	for (int i = 6; i > 0; i--, rest /= 10)
		text[i] = (char)('0' + rest % 10);
	ky_text_u64(out, ns / 1000000);
	ky_text(out, text);
}

/* "name":[text,text,...] where every element is the same. */
static void put_same(struct ky_buf *out, const char *name, const char *text, uint32_t count)
{
	ky_text(out, ",\"");
	ky_text(out, name);
	ky_text(out, "\":[");
	for (uint32_t i = 0; i < count; i++) {
		ky_text(out, i ? "," : "");
		ky_text(out, text);
	}
	ky_text(out, "]");
}

/* "name":[0,1,2,...] */
static void put_counting(struct ky_buf *out, const char *name, uint32_t count)
{
	ky_text(out, ",\"");
	ky_text(out, name);
	ky_text(out, "\":[");
	for (uint32_t i = 0; i < count; i++) {
		ky_text(out, i ? "," : "");
		ky_text_u64(out, i);
	}
	ky_text(out, "]");
}

static void put_length(struct ky_buf *out, const char *name, uint32_t count)
{
	ky_text(out, ",\"");
	ky_text(out, name);
	ky_text(out, "\":{\"length\":");
	ky_text_u64(out, count);
}

/* ---- the tree of stacks ---- */

static struct node node_at(const struct firefox_encoder *encoder, uint32_t node)
{
	struct node at;

	memcpy(&at, encoder->nodes.bytes + (size_t)node * sizeof(at), sizeof(at));
	return at;
}

static uint32_t slot_of(const struct firefox_encoder *encoder, struct node node)
{
	uint64_t hash = ky_hash_number(node.prefix * (UINT64_C(1) << 32) + node.function);
	uint32_t at = (uint32_t)hash & (encoder->slot_count - 1);

	while (encoder->slots[at]) {
		struct node other = node_at(encoder, encoder->slots[at] - 1);

		if (other.prefix == node.prefix && other.function == node.function)
			break;
		at = (at + 1) & (encoder->slot_count - 1);
	}
	return at;
}

static bool grow(struct firefox_encoder *encoder)
{
	uint32_t count = encoder->slot_count ? encoder->slot_count * 2 : 256;
	uint32_t *slots = ky_alloc((size_t)count * sizeof(*slots));

	if (!slots)
		return false;
	ky_free(encoder->slots);
	encoder->slots = slots;
	encoder->slot_count = count;
	for (uint32_t i = 0; i < encoder->node_count; i++)
		slots[slot_of(encoder, node_at(encoder, i))] = i + 1;
	return true;
}

/* The node of a function called from `prefix`, plus 1; 0: no memory. */
static uint32_t node_of(struct firefox_encoder *encoder, uint32_t prefix, uint32_t function)
{
	struct node node = {prefix, function};
	uint32_t at;

	if (encoder->node_count >= encoder->slot_count / 2 && !grow(encoder))
		return 0;
	at = slot_of(encoder, node);
	if (!encoder->slots[at]) {
		if (ky_buf_append(&encoder->nodes, &node, sizeof(node)) < 0)
			return 0;
		encoder->slots[at] = ++encoder->node_count;
	}
	return encoder->slots[at];
}

static uint32_t local_of(struct firefox_encoder *encoder, uint32_t function)
{
	if (!encoder->locals[function]) {
		ky_buf_append(&encoder->functions, &function, sizeof(function));
		encoder->locals[function] = ++encoder->function_count;
	}
	return encoder->locals[function] - 1;
}

static uint32_t stack_of(struct firefox_encoder *encoder, const struct ky_stack_row *row,
			 const struct ky_export_part *part)
{
	uint32_t function, node = 0;

	ky_export_stack(&encoder->walk, encoder->export, row->stack, part);
	if (encoder->walk.failed)
		return 0;
	for (size_t i = encoder->walk.used / sizeof(function); i-- > 0;) {
		memcpy(&function, encoder->walk.bytes + i * sizeof(function), sizeof(function));
		node = node_of(encoder, node, local_of(encoder, function));
		if (!node)
			return 0;
	}
	return node;
}

/* ---- a thread ---- */

static int add_part(struct firefox_encoder *encoder, const struct ky_stack_row *row,
		    const struct ky_export_part *part)
{
	uint32_t node = stack_of(encoder, row, part);
	const char *comma = encoder->sample_count++ ? "," : "";

	if (!node)
		return -ENOMEM;
	if (encoder->sample_count == 1)
		encoder->first_ns = row->time_ns;
	ky_text(&encoder->stacks, comma);
	ky_text_u64(&encoder->stacks, node - 1);
	ky_text(&encoder->times, comma);
	put_ms(&encoder->times,
	       row->time_ns > encoder->start_ns ? row->time_ns - encoder->start_ns : 0);
	ky_text(&encoder->weights, comma);
	if (encoder->export->is_counted || encoder->export->kind == KY_STACK_ALLOC)
		ky_text_u64(&encoder->weights, part->value);
	else
		put_ms(&encoder->weights, part->value);
	return 0;
}

static int add_row(struct firefox_encoder *encoder, const struct ky_stack_row *row)
{
	struct ky_export_part parts[KY_STATES];
	uint32_t count = ky_export_parts(encoder->export, row, parts), i;
	int result = 0;

	for (i = 0; i < count && result == 0; i++)
		result = add_part(encoder, row, &parts[i]);
	return result;
}

static uint32_t function_of(const struct firefox_encoder *encoder, uint32_t local)
{
	uint32_t function;

	memcpy(&function, encoder->functions.bytes + (size_t)local * sizeof(function),
	       sizeof(function));
	return function;
}

static const struct ky_code_line *line_of(const struct firefox_encoder *encoder, uint32_t local)
{
	const struct ky_code_stacks *code = encoder->export->code;
	uint32_t function = function_of(encoder, local);

	return function < code->function_count ? &code->lines[code->function_lines[function]] :
						 NULL;
}

/* Categories are why a thread did not run: the page colours its graph by them. */
static const char *const categories[][2] = {
	{"Other", "grey"},   {"Off CPU", "darkgrey"},  {"System call", "blue"},
	{"Futex", "purple"}, {"Page fault", "orange"}, {"Preempted", "red"},
};
#define CATEGORY_COUNT (sizeof(categories) / sizeof(categories[0]))

static uint32_t category_of(const struct firefox_encoder *encoder, uint32_t local)
{
	uint32_t reason = ky_export_reason_of(encoder->export, function_of(encoder, local));
	char cell[KY_EXPORT_CELL_BYTES];
	uint8_t kind;

	if (reason == KY_NONE)
		return 0;
	(void)ky_export_reason_name(cell, encoder->export, reason, &kind);
	return kind <= KY_WAIT_PREEMPTED ? kind + 1u : KY_WAIT_OTHER + 1u;
}

/* Of stacks: a state is reported above its reason, and belongs to it. */
static void put_stack_categories(struct firefox_encoder *encoder)
{
	struct ky_buf *out = encoder->out;

	ky_text(out, ",\"category\":[");
	for (uint32_t i = 0; i < encoder->node_count; i++) {
		struct node node = node_at(encoder, i);
		uint32_t category = category_of(encoder, node.function);

		if (!category && node.prefix)
			category = category_of(encoder, node_at(encoder, node.prefix - 1).function);
		ky_text(out, i ? "," : "");
		ky_text_u64(out, category);
	}
	ky_text(out, "]");
}

/* Of frames: null is the category of what called it. */
static void put_frame_categories(struct firefox_encoder *encoder)
{
	struct ky_buf *out = encoder->out;
	uint32_t first = encoder->export->code->function_count;

	ky_text(out, ",\"category\":[");
	for (uint32_t i = 0; i < encoder->function_count; i++) {
		uint32_t category = category_of(encoder, i);

		ky_text(out, i ? "," : "");
		if (!category && function_of(encoder, i) > first)
			ky_text(out, "null");
		else
			ky_text_u64(out, category);
	}
	ky_text(out, "]");
}

static void put_function_tables(struct firefox_encoder *encoder)
{
	uint32_t count = encoder->function_count, i;
	struct ky_buf *out = encoder->out;

	put_length(out, "funcTable", count);
	put_counting(out, "name", count);
	put_same(out, "isJS", "false", count);
	put_same(out, "relevantForJS", "false", count);
	put_same(out, "resource", "-1", count);
	ky_text(out, ",\"fileName\":[");
	for (i = 0; i < count; i++) {
		const struct ky_code_line *line = line_of(encoder, i);

		ky_text(out, i ? "," : "");
		if (line && *line->file)
			ky_text_u64(out, (uint64_t)count + i);
		else
			ky_text(out, "null");
	}
	ky_text(out, "]");
	put_same(out, "lineNumber", "null", count);
	put_same(out, "columnNumber", "null", count);
	ky_text(out, "}");
}

static void put_tables(struct firefox_encoder *encoder)
{
	uint32_t count = encoder->function_count, nodes = encoder->node_count, i;
	struct ky_buf *out = encoder->out;
	char cell[KY_EXPORT_CELL_BYTES];

	put_function_tables(encoder);
	put_length(out, "frameTable", count);
	put_same(out, "address", "-1", count);
	put_same(out, "inlineDepth", "0", count);
	put_frame_categories(encoder);
	put_same(out, "subcategory", "0", count);
	put_counting(out, "func", count);
	put_same(out, "nativeSymbol", "null", count);
	put_same(out, "innerWindowID", "null", count);
	put_same(out, "implementation", "null", count);
	put_same(out, "line", "null", count);
	put_same(out, "column", "null", count);
	ky_text(out, "}");
	put_length(out, "stackTable", nodes);
	ky_text(out, ",\"frame\":[");
	for (i = 0; i < nodes; i++) {
		ky_text(out, i ? "," : "");
		ky_text_u64(out, node_at(encoder, i).function);
	}
	ky_text(out, "],\"prefix\":[");
	for (i = 0; i < nodes; i++) {
		struct node node = node_at(encoder, i);

		ky_text(out, i ? "," : "");
		if (node.prefix)
			ky_text_u64(out, node.prefix - 1);
		else
			ky_text(out, "null");
	}
	ky_text(out, "]");
	put_stack_categories(encoder);
	put_same(out, "subcategory", "0", nodes);
	ky_text(out, "},\"stringArray\":[");
	for (i = 0; i < 2 * count; i++) {
		const struct ky_code_line *line = line_of(encoder, i % count);
		uint32_t function = function_of(encoder, i % count);

		ky_text(out, i ? "," : "");
		quoted(out, !line     ? ky_export_function_name(cell, encoder->export, function) :
			    i < count ? line->name :
					line->file);
	}
	ky_text(out, "]");
}

static void put_samples(struct firefox_encoder *encoder)
{
	const struct ky_export *export = encoder->export;
	struct ky_buf *out = encoder->out;

	ky_text(out, ",\"samples\":{\"length\":");
	ky_text_u64(out, encoder->sample_count);
	ky_text(out, ",\"weightType\":\"");
	ky_text(out, export->is_counted             ? "samples" :
		     export->kind == KY_STACK_ALLOC ? "bytes" :
						      "tracing-ms");
	ky_text(out, "\",\"stack\":[");
	ky_buf_append(out, encoder->stacks.bytes, encoder->stacks.used);
	ky_text(out, "],\"time\":[");
	ky_buf_append(out, encoder->times.bytes, encoder->times.used);
	ky_text(out, "],\"weight\":[");
	ky_buf_append(out, encoder->weights.bytes, encoder->weights.used);
	ky_text(out, "]}");
}

static void put_thread(struct firefox_encoder *encoder, uint32_t tid)
{
	const char *pid = ky_trace_metadata(encoder->export->trace, "pid");
	const char *service = ky_trace_metadata(encoder->export->trace, "service");
	struct ky_buf *out = encoder->out;
	char cell[96];

	ky_text(out, "{\"name\":");
	quoted(out, ky_export_thread_name(cell, encoder->export, tid));
	ky_text(out, ",\"processName\":");
	quoted(out, service ? service : "kymo");
	ky_text(out, ",\"pid\":");
	quoted(out, pid ? pid : "0");
	ky_text(out, ",\"tid\":");
	ky_text_u64(out, tid);
	ky_text(out, ",\"processType\":\"default\",\"isMainThread\":false,"
		     "\"processStartupTime\":0,\"processShutdownTime\":null,"
		     "\"unregisterTime\":null,\"pausedRanges\":[],"
		     "\"showMarkersInTimeline\":false,\"registerTime\":");
	put_ms(out,
	       encoder->first_ns > encoder->start_ns ? encoder->first_ns - encoder->start_ns : 0);
	ky_text(out, ",\"markers\":{\"length\":0,\"category\":[],\"data\":[],\"endTime\":[],"
		     "\"name\":[],\"phase\":[],\"startTime\":[]},"
		     "\"nativeSymbols\":{\"length\":0,\"address\":[],\"functionSize\":[],"
		     "\"libIndex\":[],\"name\":[]},"
		     "\"resourceTable\":{\"length\":0,\"lib\":[],\"name\":[],\"host\":[],"
		     "\"type\":[]}");
	put_tables(encoder);
	put_samples(encoder);
	ky_text(out, "}");
}

static void clear(struct firefox_encoder *encoder)
{
	memset(encoder->locals, 0,
	       (size_t)ky_export_function_count(encoder->export) * sizeof(uint32_t));
	if (encoder->slots)
		memset(encoder->slots, 0, encoder->slot_count * sizeof(uint32_t));
	ky_buf_clear(&encoder->functions);
	ky_buf_clear(&encoder->nodes);
	ky_buf_clear(&encoder->stacks);
	ky_buf_clear(&encoder->times);
	ky_buf_clear(&encoder->weights);
	encoder->node_count = encoder->function_count = encoder->sample_count = 0;
}

static int put_threads(struct firefox_encoder *encoder, const uint32_t *tids, int64_t count)
{
	const struct ky_samples *samples = &encoder->export->trace->samples;
	int result = 0;

	for (int64_t i = 0; i < count && result == 0; i++) {
		clear(encoder);
		for (uint32_t k = 0; k < samples->row_count && result == 0; k++)
			if (samples->rows[k].tid == tids[i] &&
			    ky_export_has(encoder->export, &samples->rows[k]))
				result = add_row(encoder, &samples->rows[k]);
		if (result == 0)
			result = encoder->functions.failed | encoder->stacks.failed |
						 encoder->times.failed | encoder->weights.failed ?
					 -ENOMEM :
					 0;
		ky_text(encoder->out, i ? "," : "");
		if (result == 0)
			put_thread(encoder, tids[i]);
		if (result == 0)
			result = encoder->out->failed;
	}
	return result;
}

static void put_meta(struct firefox_encoder *encoder)
{
	const struct ky_trace *trace = encoder->export->trace;
	const char *service = ky_trace_metadata(trace, "service");
	struct ky_buf *out = encoder->out;

	ky_text(out, "{\"meta\":{\"version\":27,\"preprocessedProfileVersion\":48,"
		     "\"processType\":0,\"stackwalk\":1,\"interval\":10,\"debug\":false,"
		     "\"symbolicated\":true,\"usesOnlyOneStackType\":true,"
		     "\"sourceCodeIsNotOnSearchfox\":true,\"doesNotUseFrameImplementation\":true,"
		     "\"categories\":[");
	for (size_t i = 0; i < CATEGORY_COUNT; i++) {
		ky_text(out, i ? ",{\"name\":" : "{\"name\":");
		quoted(out, categories[i][0]);
		ky_text(out, ",\"color\":");
		quoted(out, categories[i][1]);
		ky_text(out, ",\"subcategories\":[\"Other\"]}");
	}
	ky_text(out, "],\"markerSchema\":[],\"extensions\":{\"length\":0,\"id\":[],"
		     "\"name\":[],\"baseURL\":[]},\"importedFrom\":\"kymo " KYMO_VERSION_STRING
		     "\",\"product\":");
	quoted(out, service ? service : "kymo");
	ky_text(out, ",\"startTime\":");
	put_ms(out, ky_trace_unix_ns(trace, encoder->start_ns));
	ky_text(out, "},\"libs\":[],\"pages\":[],\"profilerOverhead\":[],\"counters\":[],"
		     "\"threads\":[");
}

int ky_export_firefox(struct ky_buf *out, const struct ky_export *export)
{
	struct firefox_encoder encoder = {
		.export = export, .out = out, .start_ns = export->trace->run_first_ns};
	struct ky_buf *bufs[] = {&encoder.functions, &encoder.nodes,   &encoder.stacks,
				 &encoder.times,     &encoder.weights, &encoder.walk};
	uint32_t *tids, i;
	int64_t count = ky_export_threads(export, &tids);
	int result = count < 0 ? (int)count : 0;

	for (i = 0; i < sizeof(bufs) / sizeof(bufs[0]); i++)
		ky_buf_init(bufs[i], 0);
	encoder.locals = ky_alloc((size_t)ky_export_function_count(export) *
				  sizeof(*encoder.locals));
	if (!encoder.locals)
		result = -ENOMEM;
	if (result == 0) {
		put_meta(&encoder);
		result = put_threads(&encoder, tids, count);
		ky_text(out, "]}\n");
	}
	for (i = 0; i < sizeof(bufs) / sizeof(bufs[0]); i++)
		ky_buf_release(bufs[i]);
	ky_free(encoder.locals);
	ky_free(encoder.slots);
	ky_free(tids);
	return result ? result : out->failed;
}
