/* SPDX-License-Identifier: Apache-2.0 OR MIT */
#include <analyze/code_stacks.h>

#include <analyze/crate_name.h>
#include <base/alloc.h>
#include <base/hash.h>
#include <base/text.h>
#include <errno.h>
#include <string.h>

struct stacks_making {
	struct ky_code_stacks *out;
	struct ky_symbol_table *symbols;
	uint32_t spot_capacity, line_capacity, function_capacity;
	uint32_t *slots; /* of spots, + 1 */
	uint32_t slot_count;
	uint32_t *functions; /* by the table's number: function + 1 */
	uint32_t number_count;
};

static uint32_t function_of(struct stacks_making *making, uint32_t number, uint32_t line)
{
	struct ky_code_stacks *out = making->out;

	if (number == UINT32_MAX) /* the table's memory is spent: all of those are one */
		number = 0;
	else
		number++;
	if (ky_grow(&making->functions, &making->number_count, number + 1, sizeof(uint32_t)))
		return UINT32_MAX;
	if (!making->functions[number]) {
		if (ky_grow(&out->function_lines, &making->function_capacity,
			    out->function_count + 1, sizeof(uint32_t)))
			return UINT32_MAX;
		out->function_lines[out->function_count] = line;
		making->functions[number] = ++out->function_count;
	}
	return making->functions[number] - 1;
}

static bool is_system(const struct ky_code_place *place)
{
	static const char *const files[] = {"/libc.so",        "/libc-",   "/ld-linux",
					    "/ld-musl",        "/libm.so", "/libpthread",
					    "libkymo-preload", "vdso"};

	if (place->kind == KY_CODE_KERNEL)
		return true;
	for (size_t i = 0; i < sizeof(files) / sizeof(files[0]); i++)
		if (ky_text_contains(place->path, files[i]))
			return true;
	return false;
}

/* The library beside a program, or in it. */
static bool is_recorder(const struct ky_code_place *place, const char *name)
{
	return ky_text_contains(place->path, "libkymo-preload") || ky_text_begins(name, "ky_") ||
	       ky_text_begins(name, "kymo_");
}

/* Where the trace has no map of modules (dial9's), what has no file and is no path of Rust is the
 * system's. */
static bool add_lines(struct stacks_making *making, const struct ky_symbol_frame *frames,
		      uint32_t count, const struct ky_code_place *place, bool has_map)
{
	struct ky_code_stacks *out = making->out;

	if (ky_grow(&out->lines, &making->line_capacity, out->line_count + count,
		    sizeof(*out->lines)))
		return false;
	for (uint32_t i = 0; i < count; i++) {
		struct ky_code_line *line = &out->lines[out->line_count];

		line->function = function_of(making, frames[i].number, out->line_count);
		if (line->function == UINT32_MAX)
			return false;
		line->name = frames[i].number == UINT32_MAX ? "(no memory for names)" :
							      frames[i].name;
		line->file = frames[i].file;
		line->line = frames[i].line;
		line->why = frames[i].why;
		line->is_recorder = is_recorder(place, line->name);
		line->is_system = is_system(place) ||
				  (!has_map && !*line->file && !ky_text_contains(line->name, "::"));
		out->line_count++;
	}
	return true;
}

static uint32_t spot_place(const struct stacks_making *making, uint64_t address, uint32_t number)
{
	return (uint32_t)ky_hash_number(address ^ (uint64_t)number << 48) &
	       (making->slot_count - 1);
}

static bool grow_slots(struct stacks_making *making)
{
	uint32_t count = making->slot_count ? making->slot_count * 2 : 1024;
	uint32_t *slots = ky_alloc((size_t)count * sizeof(*slots));

	if (!slots)
		return false;
	ky_free(making->slots);
	making->slots = slots;
	making->slot_count = count;
	for (uint32_t i = 0; i < making->out->spot_count; i++) {
		const struct ky_code_spot *spot = &making->out->spots[i];
		uint32_t at = spot_place(making, spot->address, spot->number);

		while (slots[at])
			at = (at + 1) & (count - 1);
		slots[at] = i + 1;
	}
	return true;
}

static uint32_t add_spot(struct stacks_making *making, uint64_t address, uint64_t time_ns,
			 const struct ky_symbol_frame *frames, uint32_t count)
{
	struct ky_code_stacks *out = making->out;
	struct ky_code_place place;
	const struct ky_code_module *module;
	bool has_map;

	if (count > KY_CODE_INLINES_MAX)
		count = KY_CODE_INLINES_MAX;
	if (ky_grow(&out->spots, &making->spot_capacity, out->spot_count + 1, sizeof(*out->spots)))
		return UINT32_MAX;
	module = ky_code_map_find(ky_symbol_table_map(making->symbols), address, time_ns, &place,
				  NULL);
	out->spots[out->spot_count] = (struct ky_code_spot){address, out->line_count, count,
							    frames[0].number,
							    module ? module->number : KY_NONE};
	out->nameless_count += frames[0].why != KY_SYMBOL_FOUND;
	has_map = ky_symbol_table_map(making->symbols)->count > 0;
	if (!add_lines(making, frames, count, &place, has_map))
		return UINT32_MAX;
	return out->spot_count++;
}

static uint32_t spot_of(struct stacks_making *making, uint64_t address, uint64_t time_ns)
{
	const struct ky_symbol_frame *frames;
	uint32_t count, at, spot;

	if (making->out->spot_count >= making->slot_count / 2 && !grow_slots(making))
		return UINT32_MAX;
	count = ky_symbol_table_find(making->symbols, address, time_ns, &frames);
	at = spot_place(making, address, frames[0].number);
	while (making->slots[at]) {
		spot = making->slots[at] - 1;
		if (making->out->spots[spot].address == address &&
		    making->out->spots[spot].number == frames[0].number)
			return spot;
		at = (at + 1) & (making->slot_count - 1);
	}
	spot = add_spot(making, address, time_ns, frames, count);
	if (spot != UINT32_MAX)
		making->slots[at] = spot + 1;
	return spot;
}

/* ---- stacks that one line stands for ---- */

struct site {
	uint32_t function, line, leaf;
};

static struct site site_of(const struct ky_code_stacks *stacks, uint32_t stack)
{
	const struct ky_code_line *own = ky_code_own_line(stacks, stack);
	const struct ky_code_line *leaf = ky_code_leaf_line(stacks, stack);
	struct site site = {KY_NONE, 0, KY_NONE};

	if (own)
		site = (struct site){own->function, own->line, leaf ? leaf->function : KY_NONE};
	return site;
}

static int find_sites(struct ky_code_stacks *out)
{
	uint32_t count = out->trace->samples.stack_count, slot_count = 16, i;
	struct site *sites = ky_alloc(((size_t)count + 1) * sizeof(*sites));
	uint32_t *slots;

	while (slot_count < count * 2u && slot_count < 1u << 31)
		slot_count *= 2;
	slots = ky_alloc((size_t)slot_count * sizeof(*slots));
	for (i = 0; sites && slots && i < count; i++) {
		uint32_t at;

		sites[i] = site_of(out, i);
		at = (uint32_t)ky_hash_bytes(KY_HASH_START, &sites[i], sizeof(sites[i])) &
		     (slot_count - 1);
		while (slots[at] && memcmp(&sites[slots[at] - 1], &sites[i], sizeof(*sites)) != 0)
			at = (at + 1) & (slot_count - 1);
		if (!slots[at])
			slots[at] = i + 1;
		out->sites[i] = slots[at] - 1;
	}
	i = sites && slots;
	ky_free(sites);
	ky_free(slots);
	return i ? 0 : -ENOMEM;
}

/* What the recorder costs is told as one row, not as functions between those of the program. */
static bool name_recorder(struct stacks_making *making)
{
	struct ky_code_stacks *out = making->out;
	uint32_t function = KY_NONE;

	for (uint32_t i = 0; i < out->line_count; i++) {
		if (!out->lines[i].is_recorder)
			continue;
		if (function == KY_NONE)
			function = out->lines[i].function;
		out->lines[i].function = function;
	}
	if (function == KY_NONE)
		return true;
	if (ky_grow(&out->lines, &making->line_capacity, out->line_count + 1, sizeof(*out->lines)))
		return false;
	out->lines[out->line_count] = (struct ky_code_line){.name = "kymo",
							    .file = "",
							    .function = function,
							    .why = KY_SYMBOL_FOUND,
							    .is_system = true,
							    .is_recorder = true};
	out->function_lines[function] = out->line_count++;
	return true;
}

int ky_code_stacks_make(struct ky_code_stacks *out, const struct ky_trace *trace,
			struct ky_symbol_table *symbols)
{
	const struct ky_samples *samples = &trace->samples;
	struct stacks_making making = {.out = out, .symbols = symbols};
	int result = -ENOMEM;
	uint32_t i, k;

	memset(out, 0, sizeof(*out));
	out->trace = trace;
	out->frame_spots = ky_alloc(((size_t)samples->frame_count + 1) * sizeof(uint32_t));
	out->sites = ky_alloc(((size_t)samples->stack_count + 1) * sizeof(uint32_t));
	out->is_place = ky_alloc((size_t)samples->stack_count + 1);
	if (!out->frame_spots || !out->sites || !out->is_place)
		goto fail;
	for (i = 0; i < samples->row_count; i++)
		if (samples->rows[i].kind == KY_STACK_PLACE &&
		    samples->rows[i].stack < samples->stack_count)
			out->is_place[samples->rows[i].stack] = true;
	for (i = 0; i < samples->stack_count; i++) {
		const struct ky_stack *stack = &samples->stacks[i];

		for (k = stack->first; k < stack->first + stack->count; k++) {
			out->frame_spots[k] = spot_of(&making, samples->frames[k], stack->first_ns);
			if (out->frame_spots[k] == UINT32_MAX)
				goto fail;
		}
	}
	result = name_recorder(&making) ? find_sites(out) : -ENOMEM;
fail:
	ky_free(making.slots);
	ky_free(making.functions);
	if (result < 0)
		ky_code_stacks_release(out);
	return result;
}

void ky_code_stacks_release(struct ky_code_stacks *stacks)
{
	ky_free(stacks->frame_spots);
	ky_free(stacks->sites);
	ky_free(stacks->is_place);
	ky_free(stacks->spots);
	ky_free(stacks->lines);
	ky_free(stacks->function_lines);
	memset(stacks, 0, sizeof(*stacks));
}

/* ---- walking ---- */

void ky_code_walk_begin(struct ky_code_walk *walk, const struct ky_code_stacks *stacks,
			uint32_t stack)
{
	memset(walk, 0, sizeof(*walk));
	walk->stacks = stacks;
	if (stack < stacks->trace->samples.stack_count) {
		walk->frame = stacks->trace->samples.stacks[stack].first;
		walk->frame_end = walk->frame + stacks->trace->samples.stacks[stack].count;
	}
}

const struct ky_code_line *ky_code_walk_next(struct ky_code_walk *walk)
{
	while (walk->line == walk->line_end) {
		const struct ky_code_spot *spot;

		if (walk->frame == walk->frame_end)
			return NULL;
		spot = &walk->stacks->spots[walk->stacks->frame_spots[walk->frame++]];
		walk->line = spot->first;
		walk->line_end = spot->first + spot->count;
	}
	return &walk->stacks->lines[walk->line++];
}

/* What a program that links the library has of it in its own functions. */
static bool is_of_headers(const struct ky_code_line *line)
{
	return ky_text_begins(line->name, "kymo_") && ky_text_contains(line->file, "kymo/") &&
	       ky_text_contains(line->file, ".h");
}

/* The language's library, and what that is built from. */
static bool is_of_language(const struct ky_code_line *line)
{
	static const char *const files[] = {"/rustc/", "/rustlib/src/", "/rust/deps/"};

	for (size_t i = 0; i < sizeof(files) / sizeof(files[0]); i++)
		if (ky_text_contains(line->file, files[i]))
			return true;
	return false;
}

bool ky_code_polls_task(const struct ky_code_line *line)
{
	return line->why == KY_SYMBOL_FOUND &&
	       ky_text_contains(line->name, "tokio::runtime::task::");
}

bool ky_code_is_own(const struct ky_code_line *line)
{
	static const char *const files[] = {"/.cargo/", "/cargo/registry/", "/cargo/git/"};
	size_t i;

	if (line->why != KY_SYMBOL_FOUND || line->is_system || is_of_headers(line) ||
	    is_of_language(line) ||
	    ky_crate_name_is_library(line->name)) /* or "[unknown] 0x..." of dial9 */
		return false;
	for (i = 0; i < sizeof(files) / sizeof(files[0]); i++)
		if (ky_text_contains(line->file, files[i]))
			return false;
	return true;
}

/* So the place of a task that waits is seen; it is not what the task waits for. */
static bool clones_waker(const struct ky_code_line *line)
{
	return line->why == KY_SYMBOL_FOUND && ky_text_contains(line->name, "task::wake::") &&
	       ky_text_contains(line->name, "clone");
}

static bool is_runtime(const struct ky_code_line *line)
{
	static const char *const crates[] = {"std::", "core::", "alloc::", "tokio::", "__"};
	const char *name = ky_crate_name_begin(line->name);

	for (size_t i = 0; i < sizeof(crates) / sizeof(crates[0]); i++)
		if (ky_text_begins(name, crates[i]))
			return true;
	return line->is_system || is_of_language(line) || !ky_text_contains(name, "::");
}

const struct ky_code_line *ky_code_own_line(const struct ky_code_stacks *stacks, uint32_t stack)
{
	const struct ky_code_line *line, *leaf = NULL, *named = NULL, *rust = NULL, *task = NULL;
	const struct ky_code_line *crate = NULL;
	struct ky_code_walk walk;
	bool is_place = stack < stacks->trace->samples.stack_count && stacks->is_place[stack];

	ky_code_walk_begin(&walk, stacks, stack);
	while ((line = ky_code_walk_next(&walk))) {
		if (!leaf)
			leaf = line;
		if (line->why != KY_SYMBOL_FOUND)
			continue;
		if (is_place && clones_waker(line))
			continue;
		if (!named)
			named = line;
		if (is_place && !is_runtime(line))
			task = line;
		if (!crate && !is_runtime(line))
			crate = line;
		if (!ky_code_is_own(line))
			continue;
		if (*line->file && line->file[0] != '.') /* libc's own are relative to its build */
			return line;
		if (!rust && ky_text_contains(line->name, "::"))
			rust = line;
	}
	if (!rust && task)
		return task;
	return rust ? rust : crate ? crate : named ? named : leaf;
}

const struct ky_code_line *ky_code_leaf_line(const struct ky_code_stacks *stacks, uint32_t stack)
{
	const struct ky_code_line *own = ky_code_own_line(stacks, stack), *line, *before = NULL;
	struct ky_code_walk walk;

	ky_code_walk_begin(&walk, stacks, stack);
	line = ky_code_walk_next(&walk);
	if (!line || !stacks->is_place[stack])
		return line;
	for (; line && line != own; line = ky_code_walk_next(&walk))
		before = clones_waker(line) ? NULL : line;
	return before;
}
