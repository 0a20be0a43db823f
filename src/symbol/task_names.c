/* SPDX-License-Identifier: Apache-2.0 OR MIT */
#include <base/alloc.h>
#include <base/hash.h>
#include <elf.h>
#include <elf/task_tables.h>
#include <errno.h>
#include <fcntl.h>
#include <kymo/base.h>
#include <symbol/blaze.h>
#include <symbol/task_names.h>
#include <symbol/task_type.h>
#include <symbol/type_evidence.h>
#include <string.h>

#define DEPTH_MAX 6u
#define CODE_BYTES_MAX (64u << 10)         /* of one function */
#define WALK_BYTES_MAX (UINT64_C(4) << 20) /* of one table */
#define QUEUE_MAX 1024u
#define TYPES_MAX 16u
#define TYPE_BYTES_MAX 1024u
#define FOLDED_MAX 32u /* symbols read for one address */
#define NAME_BYTES 16384u

#define SAID 1024u
#define TYPES_SAID_BYTES (64u << 10)

#define TWINS_MAX 8u
#define SCHEDULE_WORD 1u
#define TABLES_MAX 4096u
#define ALL_BYTES_MAX (UINT64_C(256) << 20) /* of all tables together */
#define TABLE_WORDS 7u

/* Words of Tokio's task table that lead to the future's own code. The others are generic over the
 * scheduler alone, or folded more often. */
static const uint8_t walked_words[] = {2, 0, 6, 3};
#define WALKED_COUNT (sizeof(walked_words))

struct type {
	char text[TYPE_BYTES_MAX];
	size_t byte_count;
	uint32_t words;    /* bit i: reached from walked_words[i] */
	uint32_t symbols;  /* most symbols with a type that one such address has */
	uint32_t own;      /* words of it from a function that no other table leads to */
	uint32_t late;     /* or that no other table leads to that has no type of its own */
	uint32_t sharers;  /* least of the tables that lead to such a function */
	uint32_t beside;   /* bit i: folded into one function with types[i] */
	uint64_t evidence; /* of the addresses that said so; the order does not matter */
	bool is_cell;
};

/* What a symbol says: tables lead to the same functions again and again. */
struct symbol_news {
	uint32_t name;       /* its offset + 1; 0: free */
	uint32_t type;       /* of a task: in `types_said` */
	uint16_t type_bytes; /* 0: it names none */
	bool is_on_the_way, is_cell;
};

struct name_walk {
	struct {
		uint64_t address;
		uint32_t depth;
	} queue[QUEUE_MAX]; /* also the list of what was seen */
	size_t queue_count;
	uint64_t bytes_left;
	struct type types[TYPES_MAX];
	size_t type_count;
	struct ky_type_evidence evidence;
	bool has_evidence, is_counting;
	uint32_t table;    /* that is counted */
	uint64_t schedule; /* of the table that is walked */
	uint32_t word;     /* bit of the word this walk started from */
	uint8_t code[CODE_BYTES_MAX];
	char symbol[NAME_BYTES], text[NAME_BYTES];
	struct symbol_news said[SAID]; /* by a hash of the name's offset */
	uint32_t types_used;
	char types_said[TYPES_SAID_BYTES];
};

struct ky_task_names {
	struct ky_elf *elf;
	struct name_walk walk;
};

static int finish_open(struct ky_task_names **out, struct ky_elf *elf)
{
	struct ky_task_names *names = ky_alloc(sizeof(*names));

	if (names == NULL) {
		ky_elf_close(elf);
		return -ENOMEM;
	}
	names->elf = elf;
	*out = names;
	return 0;
}

int ky_task_names_open_fd(struct ky_task_names **out, int fd, const uint8_t *build_id,
			  size_t build_id_bytes)
{
	uint8_t found[KY_BUILD_ID_BYTES_MAX];
	struct ky_elf *elf;
	int err;

	*out = NULL;
	err = ky_elf_open_fd(&elf, fd);
	if (err < 0)
		return err;
	if (build_id == NULL)
		build_id_bytes = 0;
	if (ky_elf_build_id(elf, found) != build_id_bytes ||
	    (build_id_bytes > 0 && memcmp(found, build_id, build_id_bytes) != 0)) {
		ky_elf_close(elf);
		return KYMO_E_CORRUPT;
	}
	return finish_open(out, elf);
}

int ky_task_names_open(struct ky_task_names **out, const char *path, const uint8_t *build_id,
		       size_t build_id_bytes)
{
	/* O_NONBLOCK: the path comes from the ring and may be a FIFO by now. */
	int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);

	*out = NULL;
	return fd >= 0 ? ky_task_names_open_fd(out, fd, build_id, build_id_bytes) : -errno;
}

int ky_task_names_open_memory(struct ky_task_names **out, const uint8_t *bytes, size_t byte_count)
{
	struct ky_elf *elf;
	int err = ky_elf_open_memory(&elf, bytes, byte_count);

	*out = NULL;
	return err < 0 ? err : finish_open(out, elf);
}

int ky_task_names_add_symbols(struct ky_task_names *names, int fd)
{
	struct ky_elf *symbols;
	int err = ky_elf_open_fd(&symbols, fd);

	if (err == 0)
		ky_elf_take_symbols(names->elf, symbols);
	memset(names->walk.said, 0, sizeof(names->walk.said));
	return err;
}

void ky_task_names_close(struct ky_task_names *names)
{
	if (names == NULL)
		return;
	ky_type_evidence_release(&names->walk.evidence);
	ky_elf_close(names->elf);
	ky_free(names);
}

/* Returns the type's index, TYPES_MAX when there is no room. */
static size_t note_type(struct name_walk *walk, uint64_t address, const char *text,
			size_t byte_count, bool is_cell)
{
	struct type *type;
	size_t i;

	if (byte_count >= TYPE_BYTES_MAX) /* compared, and shown, up to here */
		byte_count = TYPE_BYTES_MAX - 1;
	for (i = 0; i < walk->type_count; i++) {
		type = &walk->types[i];
		if (type->byte_count != byte_count || memcmp(type->text, text, byte_count) != 0)
			continue;
		type->words |= walk->word;
		type->evidence += ky_hash_number(address);
		type->is_cell = type->is_cell || is_cell;
		return i;
	}
	if (walk->type_count == TYPES_MAX)
		return TYPES_MAX;
	type = &walk->types[walk->type_count++];
	memcpy(type->text, text, byte_count);
	type->text[byte_count] = '\0';
	type->byte_count = byte_count;
	type->words = walk->word;
	type->evidence = ky_hash_number(address);
	type->beside = type->own = type->late = 0;
	type->sharers = UINT32_MAX;
	type->symbols = 0;
	type->is_cell = is_cell;
	return walk->type_count - 1;
}

static bool is_seen(const struct name_walk *walk, uint64_t address)
{
	size_t i;

	for (i = 0; i < walk->queue_count; i++)
		if (walk->queue[i].address == address)
			return true;
	return false;
}

static void push(struct name_walk *walk, uint64_t address, uint32_t depth)
{
	if (walk->queue_count == QUEUE_MAX)
		return;
	walk->queue[walk->queue_count].address = address;
	walk->queue[walk->queue_count].depth = depth;
	walk->queue_count++;
}

/* walk->symbol into walk->text. */
static bool demangle(struct name_walk *walk, size_t symbol_bytes)
{
	size_t bytes = ky_blaze_demangle(walk->symbol, symbol_bytes, walk->text,
					 sizeof(walk->text) - 1);

	walk->text[bytes] = '\0';
	return bytes > 0;
}

static void read_said(struct ky_task_names *names, const struct ky_elf_symbol *symbol,
		      struct symbol_news *out)
{
	struct name_walk *walk = &names->walk;
	size_t bytes = ky_elf_symbol_name(names->elf, symbol, walk->symbol, sizeof(walk->symbol));
	const char *type;

	out->is_on_the_way = bytes > 0 && ky_task_type_is_on_the_way(walk->symbol);
	out->type_bytes = 0;
	/* Cheap test first: most of what is on the way names no task. */
	if (!out->is_on_the_way ||
	    (strstr(walk->symbol, "4task") == NULL && strstr(walk->symbol, "task..") == NULL) ||
	    !demangle(walk, bytes))
		return;
	bytes = ky_task_type(walk->text, &type, &out->is_cell);
	if (bytes == 0)
		return;
	if (bytes >= TYPE_BYTES_MAX) /* compared, and shown, up to here */
		bytes = TYPE_BYTES_MAX - 1;
	if (bytes > sizeof(walk->types_said) - walk->types_used) {
		memset(walk->said, 0, sizeof(walk->said));
		walk->types_used = 0;
	}
	memcpy(walk->types_said + walk->types_used, type, bytes);
	out->type = walk->types_used;
	out->type_bytes = (uint16_t)bytes;
	walk->types_used += (uint32_t)bytes;
}

static const struct symbol_news *said_by(struct ky_task_names *names,
					 const struct ky_elf_symbol *symbol)
{
	struct symbol_news *said = &names->walk.said[ky_hash_number(symbol->name) % SAID];

	if (said->name != symbol->name + 1) {
		read_said(names, symbol, said);
		said->name = symbol->name + 1;
	}
	return said;
}

/* A function names these types (bits): how much each of its symbols says. */
static void weigh(struct name_walk *walk, uint64_t address, uint32_t here, uint32_t typed)
{
	uint64_t key = ky_type_evidence_key(address, walk->schedule);
	bool is_single = (here & (here - 1)) == 0;
	uint32_t sharers = 0;
	size_t i;

	if (walk->is_counting) {
		ky_type_evidence_add(&walk->evidence, key, walk->table, is_single);
		return;
	}
	sharers = ky_type_evidence_count(&walk->evidence, key, false);
	for (i = 0; i < walk->type_count; i++) {
		struct type *type = &walk->types[i];

		if ((here & 1u << i) == 0)
			continue;
		type->beside |= here;
		if (type->symbols < typed)
			type->symbols = typed;
		if (type->sharers > sharers)
			type->sharers = sharers;
		if (is_single && ky_type_evidence_count(&walk->evidence, key, true) == 1)
			type->own |= walk->word;
		if (is_single && sharers == 1)
			type->late |= walk->word;
	}
}

/* A function that is called, or stands in the table: what its symbols say, and whether to continue
 * there. */
static void visit(struct ky_task_names *names, uint64_t address, uint32_t depth)
{
	struct name_walk *walk = &names->walk;
	const struct ky_elf_symbol *symbols;
	bool is_on_the_way = depth == 0;
	uint32_t here = 0, typed = 0;
	size_t count, i;

	symbols = ky_elf_symbols_at(names->elf, address, &count);
	if (symbols == NULL || is_seen(walk, address))
		return;
	for (i = 0; i < count && i < FOLDED_MAX; i++) {
		const struct symbol_news *said = said_by(names, &symbols[i]);

		is_on_the_way = is_on_the_way || said->is_on_the_way;
		if (said->type_bytes == 0)
			continue;
		here |= 1u << note_type(walk, address, walk->types_said + said->type,
					said->type_bytes, said->is_cell);
		typed++;
	}
	if (typed > 0)
		weigh(walk, address, here, typed);
	if (is_on_the_way)
		push(walk, address, depth);
}

/* Length of a direct call or jump whose 32-bit displacement ends at this length; 0: none starts
 * here. */
static size_t branch_bytes_x86(const uint8_t *code)
{
	if (code[0] == 0xe8 || code[0] == 0xe9)
		return 5;
	return code[0] == 0x0f && code[1] >= 0x80 && code[1] <= 0x8f ? 6 : 0;
}

/* Every byte is tried as the start of an instruction: false ones rarely hit the first byte of a
 * function that is on the way, and real ones are never missed. */
static void scan_x86(struct ky_task_names *names, uint64_t address, size_t byte_count,
		     uint32_t depth)
{
	const uint8_t *code = names->walk.code;
	size_t at, length;
	int32_t displacement;

	for (at = 0; at + 5 <= byte_count; at++) {
		length = branch_bytes_x86(code + at);
		if (length == 0 || length > byte_count - at)
			continue;
		memcpy(&displacement, code + at + length - 4, sizeof(displacement));
		visit(names, address + at + length + (uint64_t)(int64_t)displacement, depth);
	}
}

static void scan_aarch64(struct ky_task_names *names, uint64_t address, size_t byte_count,
			 uint32_t depth)
{
	uint32_t word;
	size_t at;

	for (at = 0; at + 4 <= byte_count; at += 4) {
		memcpy(&word, names->walk.code + at, sizeof(word));
		if (word >> 26 != 0x25 && word >> 26 != 0x05) /* bl, b */
			continue;
		/* 26 bits of words, sign-extended */
		visit(names, address + at + (uint64_t)((int64_t)((uint64_t)word << 38) >> 36),
		      depth);
	}
}

static void scan_function(struct ky_task_names *names, uint64_t address, uint32_t depth)
{
	struct name_walk *walk = &names->walk;
	const struct ky_elf_symbol *symbols;
	uint64_t bytes = 0;
	size_t count, i, got;

	symbols = ky_elf_symbols_at(names->elf, address, &count);
	for (i = 0; i < count && i < FOLDED_MAX; i++)
		if (symbols[i].byte_count > bytes)
			bytes = symbols[i].byte_count;
	if (bytes == 0) /* assembly says no size */
		bytes = 64;
	if (bytes > CODE_BYTES_MAX)
		bytes = CODE_BYTES_MAX;
	if (bytes > walk->bytes_left)
		return;
	walk->bytes_left -= bytes;
	/* Not a byte more: what follows belongs to another type. */
	got = ky_elf_read(names->elf, address, walk->code, (size_t)bytes);
	if (ky_elf_machine(names->elf) == EM_X86_64)
		scan_x86(names, address, got, depth + 1);
	else
		scan_aarch64(names, address, got, depth + 1);
}

static void walk_word(struct ky_task_names *names, uint64_t function, uint32_t word)
{
	struct name_walk *walk = &names->walk;
	size_t i;

	walk->word = word;
	walk->queue_count = 0;
	visit(names, function, 0);
	for (i = 0; i < walk->queue_count; i++)
		if (walk->queue[i].depth < DEPTH_MAX)
			scan_function(names, walk->queue[i].address, walk->queue[i].depth);
}

/* How much speaks for a type: words with evidence that is this table's alone, then words that no
 * other table has, then words, then a Cell among them. */
static uint32_t score(const struct type *type, uint32_t shared_words)
{
	return (uint32_t)__builtin_popcount(type->own) * 1024 +
	       (uint32_t)__builtin_popcount(type->late) * 128 +
	       (uint32_t)__builtin_popcount(type->words & ~shared_words) * 16 +
	       (uint32_t)__builtin_popcount(type->words) * 2 + type->is_cell;
}

static size_t append(char *out, size_t used, size_t capacity, const char *text)
{
	size_t bytes = strlen(text);

	if (bytes > capacity - 1 - used)
		bytes = capacity - 1 - used;
	memcpy(out + used, text, bytes);
	out[used + bytes] = '\0';
	return used + bytes;
}

struct task_name_table {
	uint64_t address;
	uint64_t words[TABLE_WORDS];
};

static int read_table(const struct ky_elf *elf, uint64_t address, struct task_name_table *out)
{
	size_t i;
	int err = 0;

	out->address = address;
	for (i = 0; i < TABLE_WORDS && err == 0; i++)
		err = ky_elf_word(elf, address + 8 * i, &out->words[i]);
	return err;
}

/* Other tables of the same scheduler that share a function with this one; *shared gets which. */
static size_t find_twins(struct ky_elf *elf, const struct task_name_table *table,
			 struct task_name_table *twins, uint32_t *shared)
{
	size_t count, found = 0, i, k;
	const struct ky_elf_pointer *pointers = ky_elf_function_pointers(elf, &count);

	*shared = 0;
	for (i = 0; i < count; i++) {
		for (k = 0; k < WALKED_COUNT; k++) {
			uint64_t base = pointers[i].address - 8u * walked_words[k];
			size_t t = 0;

			if (pointers[i].value != table->words[walked_words[k]] ||
			    base == table->address)
				continue;
			while (t < found && twins[t].address != base)
				t++;
			if (t == TWINS_MAX ||
			    (t == found && read_table(elf, base, &twins[t]) < 0) ||
			    twins[t].words[SCHEDULE_WORD] != table->words[SCHEDULE_WORD])
				continue;
			*shared |= 1u << k;
			if (t == found)
				found++;
		}
	}
	return found;
}

/* Fills walk->types. Returns the best score. */
static uint32_t walk_table(struct ky_task_names *names, const struct task_name_table *table,
			   uint32_t shared)
{
	struct name_walk *walk = &names->walk;
	uint32_t best = 0;
	size_t i;

	walk->type_count = 0;
	walk->bytes_left = WALK_BYTES_MAX;
	walk->schedule = table->words[SCHEDULE_WORD];
	for (i = 0; i < WALKED_COUNT; i++)
		walk_word(names, table->words[walked_words[i]], 1u << i);
	for (i = 0; i < walk->type_count; i++)
		if (score(&walk->types[i], shared) > best)
			best = score(&walk->types[i], shared);
	return best;
}

/* What the answer rests on: equal for two tables whose types cannot be distinguished. */
static uint64_t evidence_of(const struct name_walk *walk, uint32_t best, uint32_t shared)
{
	uint64_t evidence = 0;
	size_t i;

	for (i = 0; i < walk->type_count; i++)
		if (score(&walk->types[i], shared) == best)
			evidence += walk->types[i].evidence;
	return evidence;
}

/* How many of the other tables rest on the same evidence: their type may be another, or ours. */
static uint32_t count_equals(struct ky_task_names *names, const struct task_name_table *twins,
			     size_t twin_count, uint32_t shared, uint64_t evidence)
{
	uint32_t equals = 0;
	size_t i;

	for (i = 0; i < twin_count; i++) {
		uint32_t best = walk_table(names, &twins[i], shared);

		equals += evidence_of(&names->walk, best, shared) == evidence;
	}
	return equals;
}

static size_t write_types(const struct name_walk *walk, uint32_t wanted, char *out, size_t capacity)
{
	size_t i, used = 0;

	for (i = 0; i < walk->type_count; i++) {
		if ((wanted & 1u << i) == 0)
			continue;
		if (used > 0)
			used = append(out, used, capacity, " or ");
		used = append(out, used, capacity, walk->types[i].text);
	}
	return used;
}

static bool is_poll(const struct ky_task_names *names, uint64_t address, char *name)
{
	size_t count, i;
	const struct ky_elf_symbol *symbols = ky_elf_symbols_at(names->elf, address, &count);

	for (i = 0; i < count && i < FOLDED_MAX; i++)
		if (ky_elf_symbol_name(names->elf, &symbols[i], name, NAME_BYTES) > 0 &&
		    ky_task_table_is_poll(name))
			return true;
	return false;
}

/* The word after a table's first is a function, too: cheap to see, and most others have none
 * there. */
static bool has_schedule(const struct ky_elf_pointer *pointers, size_t count)
{
	uint64_t wanted = pointers[0].address + 8u * SCHEDULE_WORD;
	size_t i = 1;

	while (i < count && pointers[i].address < wanted)
		i++;
	return i < count && pointers[i].address == wanted;
}

/* Walks every table of the file once, so that it is known which functions several lead to. */
static void count_evidence(struct ky_task_names *names)
{
	struct name_walk *walk = &names->walk;
	uint64_t words[KY_TASK_TABLE_WORDS], bytes_left = ALL_BYTES_MAX;
	struct task_name_table table;
	size_t count, i;
	const struct ky_elf_pointer *pointers = ky_elf_function_pointers(names->elf, &count);

	walk->has_evidence = walk->is_counting = true;
	walk->table = 0;
	for (i = 0; i < count && walk->table < TABLES_MAX; i++) {
		/* A relocated word may also stand in the file as it will be. */
		if ((i > 0 && pointers[i].address == pointers[i - 1].address) ||
		    !has_schedule(pointers + i, count - i) ||
		    !is_poll(names, pointers[i].value, walk->symbol) ||
		    ky_elf_words(names->elf, pointers[i].address, words, KY_TASK_TABLE_WORDS) !=
			    KY_TASK_TABLE_WORDS ||
		    !ky_task_table_is_known(names->elf, pointers[i].address, words) ||
		    read_table(names->elf, pointers[i].address, &table) < 0)
			continue;
		if (bytes_left < WALK_BYTES_MAX)
			break;
		(void)walk_table(names, &table, 0);
		bytes_left -= WALK_BYTES_MAX - walk->bytes_left;
		walk->table++;
	}
	walk->is_counting = false;
	ky_type_evidence_finish(&walk->evidence);
}

size_t ky_task_name(struct ky_task_names *names, uint64_t table_address, char *out, size_t capacity)
{
	struct name_walk *walk = &names->walk;
	struct task_name_table table, twins[TWINS_MAX];
	uint32_t best, shared, equals = 0, symbols = 1, winners = 0, beside = 0, sharers = 0;
	size_t twin_count, i, used;

	if (capacity == 0)
		return 0;
	out[0] = '\0';
	if (read_table(names->elf, table_address, &table) < 0)
		return 0;
	if (!walk->has_evidence)
		count_evidence(names);
	twin_count = find_twins(names->elf, &table, twins, &shared);
	best = walk_table(names, &table, shared);
	if (best == 0)
		return 0;
	if (twin_count > 0) {
		equals = count_equals(names, twins, twin_count, shared,
				      evidence_of(walk, best, shared));
		best = walk_table(names, &table, shared);
	}
	for (i = 0; i < walk->type_count; i++) {
		if (score(&walk->types[i], shared) != best)
			continue;
		winners |= 1u << i;
		beside |= walk->types[i].beside;
		if (walk->types[i].symbols > symbols)
			symbols = walk->types[i].symbols;
		if (!walk->types[i].own && !walk->types[i].late && walk->types[i].sharers > sharers)
			sharers = walk->types[i].sharers;
	}
	if (sharers > 1)
		equals = equals > sharers - 1 ? equals : sharers - 1;
	used = write_types(walk, equals > 0 ? winners | beside : winners, out, capacity);
	/* LLVM drops the symbol of a function that it merged into another: with fewer symbols than
	 * tables, one of the types has left no trace. */
	if (equals >= symbols)
		used = append(out, used, capacity, " or one with the same code");
	return used;
}

size_t ky_function_name(struct ky_task_names *names, uint64_t code_address, char *out,
			size_t capacity)
{
	struct name_walk *walk = &names->walk;
	const struct ky_elf_symbol *symbol = ky_elf_symbol_covering(names->elf, code_address);
	size_t bytes;

	if (symbol == NULL || capacity == 0)
		return 0;
	bytes = ky_elf_symbol_name(names->elf, symbol, walk->symbol, sizeof(walk->symbol));
	if (bytes == 0)
		return 0;
	return append(out, 0, capacity, demangle(walk, bytes) ? walk->text : walk->symbol);
}
