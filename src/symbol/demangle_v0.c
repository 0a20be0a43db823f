/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* Rust's v0 mangling (RFC 2603): a recursive grammar with back-references, printed while it is
 * parsed. */
#include <inttypes.h>
#include <symbol/demangle.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#define DEPTH_MAX 96u
#define STEPS_MAX 20000u

struct v0 {
	const char *in;
	size_t in_bytes, at;
	char *out;
	size_t capacity, used;
	uint32_t depth, steps;
	uint64_t bound_lifetimes;
	bool is_silent; /* parse, print nothing */
	bool failed;
};

static void print_path(struct v0 *v, bool is_in_value);
static void print_type(struct v0 *v);
static void print_const(struct v0 *v, bool is_in_value);

static void put(struct v0 *v, const char *text, size_t count)
{
	if (v->is_silent || v->failed)
		return;
	if (count >= v->capacity - v->used) {
		v->failed = true;
		return;
	}
	memcpy(v->out + v->used, text, count);
	v->used += count;
	v->out[v->used] = '\0';
}

static void put_text(struct v0 *v, const char *text)
{
	put(v, text, strlen(text));
}

static void put_number(struct v0 *v, uint64_t number)
{
	char text[24];

	snprintf(text, sizeof(text), "%" PRIu64, number);
	put_text(v, text);
}

/* Every production enters here: what bounds depth and time. */
static bool enter(struct v0 *v)
{
	if (v->failed || v->depth >= DEPTH_MAX || v->steps >= STEPS_MAX) {
		v->failed = true;
		return false;
	}
	v->depth++;
	v->steps++;
	return true;
}

static void leave(struct v0 *v)
{
	v->depth--;
}

static char peek(const struct v0 *v)
{
	if (v->failed || v->at >= v->in_bytes)
		return '\0';
	return v->in[v->at];
}

static char next(struct v0 *v)
{
	char c = peek(v);

	if (c == '\0')
		v->failed = true;
	else
		v->at++;
	return c;
}

static bool eat(struct v0 *v, char c)
{
	if (peek(v) != c)
		return false;
	v->at++;
	return true;
}

static uint64_t parse_base62(struct v0 *v)
{
	uint64_t value = 0;

	if (eat(v, '_'))
		return 0;
	for (;;) {
		char c = next(v);
		uint64_t digit = 0;

		if (c == '_')
			break;
		if (c >= '0' && c <= '9')
			digit = (uint64_t)(c - '0');
		else if (c >= 'a' && c <= 'z')
			digit = (uint64_t)(c - 'a') + 10;
		else if (c >= 'A' && c <= 'Z')
			digit = (uint64_t)(c - 'A') + 36;
		else
			v->failed = true;
		if (v->failed || value > (UINT64_MAX - digit) / 62) {
			v->failed = true;
			return 0;
		}
		value = value * 62 + digit;
	}
	if (value == UINT64_MAX) {
		v->failed = true;
		return 0;
	}
	return value + 1;
}

static uint64_t parse_optional_base62(struct v0 *v, char tag)
{
	uint64_t value;

	if (!eat(v, tag))
		return 0;
	value = parse_base62(v);
	if (value == UINT64_MAX)
		v->failed = true;
	return value + 1;
}

struct identifier {
	const char *text;
	size_t count;
	bool is_punycode;
};

static struct identifier parse_identifier(struct v0 *v)
{
	struct identifier id = {.text = ""};
	size_t count = 0;

	id.is_punycode = eat(v, 'u');
	if (peek(v) < '0' || peek(v) > '9') {
		v->failed = true;
		return id;
	}
	if (!eat(v, '0')) {
		while (peek(v) >= '0' && peek(v) <= '9' && count <= v->in_bytes)
			count = count * 10 + (size_t)(next(v) - '0');
	}
	eat(v, '_');
	if (v->failed || count > v->in_bytes - v->at) {
		v->failed = true;
		return id;
	}
	id.text = v->in + v->at;
	id.count = count;
	v->at += count;
	return id;
}

static void put_identifier(struct v0 *v, struct identifier id)
{
	if (id.is_punycode)
		put_text(v, "punycode{");
	put(v, id.text, id.count);
	if (id.is_punycode)
		put_text(v, "}");
}

/* Stands at a "B" that was just eaten: parses at the earlier place with `print`, then comes back.
 */
static size_t begin_back_reference(struct v0 *v)
{
	size_t tag_at = v->at - 1;
	uint64_t target = parse_base62(v);
	size_t saved = v->at;

	/* Strictly backwards, so that a reference cannot contain itself. */
	if (v->failed || target >= tag_at) {
		v->failed = true;
		return saved;
	}
	v->at = (size_t)target;
	return saved;
}

static void put_lifetime(struct v0 *v, uint64_t index)
{
	char letter[3] = "'_";

	if (index == 0) {
		put_text(v, letter);
		return;
	}
	if (index > v->bound_lifetimes) {
		v->failed = true;
		return;
	}
	index = v->bound_lifetimes - index;
	if (index < 26) {
		letter[1] = (char)('a' + index);
		put_text(v, letter);
	} else {
		put_text(v, "'_");
		put_number(v, index);
	}
}

/* "for<'a, 'b> "; returns how many lifetimes it bound, for the caller to unbind. */
static uint64_t open_binder(struct v0 *v)
{
	uint64_t count = parse_optional_base62(v, 'G'), i;

	if (count == 0 || v->failed)
		return 0;
	if (count > 64) { /* no source has them; printing would be the attack */
		v->failed = true;
		return 0;
	}
	put_text(v, "for<");
	for (i = 0; i < count; i++) {
		if (i > 0)
			put_text(v, ", ");
		v->bound_lifetimes++;
		put_lifetime(v, 1);
	}
	put_text(v, "> ");
	return count;
}

static void print_generic_argument(struct v0 *v)
{
	if (eat(v, 'L'))
		put_lifetime(v, parse_base62(v));
	else if (eat(v, 'K'))
		print_const(v, false);
	else
		print_type(v);
}

static size_t print_list(struct v0 *v, void (*print)(struct v0 *))
{
	size_t count = 0;

	while (!v->failed && !eat(v, 'E')) {
		if (count++ > 0)
			put_text(v, ", ");
		print(v);
	}
	return count;
}

static void skip_impl_path(struct v0 *v)
{
	bool was_silent = v->is_silent;

	v->is_silent = true;
	parse_optional_base62(v, 's');
	print_path(v, false);
	v->is_silent = was_silent;
}

static void print_nested(struct v0 *v, bool is_in_value)
{
	char name_space = next(v);
	struct identifier id;
	uint64_t disambiguator;

	print_path(v, is_in_value);
	disambiguator = parse_optional_base62(v, 's');
	id = parse_identifier(v);
	if (name_space >= 'A' && name_space <= 'Z') {
		put_text(v, "::{");
		if (name_space == 'C')
			put_text(v, "closure");
		else if (name_space == 'S')
			put_text(v, "shim");
		else
			put(v, &name_space, 1);
		if (id.count > 0) {
			put_text(v, ":");
			put_identifier(v, id);
		}
		put_text(v, "#");
		put_number(v, disambiguator);
		put_text(v, "}");
	} else if (id.count > 0) {
		put_text(v, "::");
		put_identifier(v, id);
	}
}

static void print_impl(struct v0 *v, char tag)
{
	if (tag != 'Y')
		skip_impl_path(v);
	put_text(v, "<");
	print_type(v);
	if (tag != 'M') {
		put_text(v, " as ");
		print_path(v, false);
	}
	put_text(v, ">");
}

static void print_path(struct v0 *v, bool is_in_value)
{
	size_t saved;
	char tag;

	if (!enter(v))
		return;
	tag = next(v);
	switch (tag) {
	case 'C':
		parse_optional_base62(v, 's');
		put_identifier(v, parse_identifier(v));
		break;
	case 'N':
		print_nested(v, is_in_value);
		break;
	case 'M':
	case 'X':
	case 'Y':
		print_impl(v, tag);
		break;
	case 'I':
		print_path(v, is_in_value);
		put_text(v, is_in_value ? "::<" : "<");
		print_list(v, print_generic_argument);
		put_text(v, ">");
		break;
	case 'B':
		saved = begin_back_reference(v);
		if (!v->is_silent)
			print_path(v, is_in_value);
		v->at = saved;
		break;
	default:
		v->failed = true;
	}
	leave(v);
}

static const char *basic_type(char tag)
{
	switch (tag) {
	case 'a':
		return "i8";
	case 'b':
		return "bool";
	case 'c':
		return "char";
	case 'd':
		return "f64";
	case 'e':
		return "str";
	case 'f':
		return "f32";
	case 'h':
		return "u8";
	case 'i':
		return "isize";
	case 'j':
		return "usize";
	case 'l':
		return "i32";
	case 'm':
		return "u32";
	case 'n':
		return "i128";
	case 'o':
		return "u128";
	case 'p':
		return "_";
	case 's':
		return "i16";
	case 't':
		return "u16";
	case 'u':
		return "()";
	case 'v':
		return "...";
	case 'x':
		return "i64";
	case 'y':
		return "u64";
	case 'z':
		return "!";
	default:
		return NULL;
	}
}

static void print_fn(struct v0 *v)
{
	uint64_t bound = open_binder(v);
	size_t i;

	if (eat(v, 'U'))
		put_text(v, "unsafe ");
	if (eat(v, 'K')) {
		put_text(v, "extern \"");
		if (eat(v, 'C')) {
			put_text(v, "C");
		} else {
			struct identifier abi = parse_identifier(v);

			for (i = 0; i < abi.count; i++)
				put(v, abi.text[i] == '_' ? "-" : &abi.text[i], 1);
		}
		put_text(v, "\" ");
	}
	put_text(v, "fn(");
	print_list(v, print_type);
	put_text(v, ")");
	if (!eat(v, 'u')) {
		put_text(v, " -> ");
		print_type(v);
	}
	v->bound_lifetimes -= bound;
}

/* The trait of a dyn, its generics left open for "Item = T". Returns whether they were opened. */
static bool print_open_path(struct v0 *v)
{
	bool is_open = false;
	size_t saved;

	if (!enter(v))
		return false;
	if (eat(v, 'B')) {
		saved = begin_back_reference(v);
		if (!v->is_silent)
			is_open = print_open_path(v);
		v->at = saved;
	} else if (eat(v, 'I')) {
		print_path(v, false);
		put_text(v, "<");
		print_list(v, print_generic_argument);
		is_open = true;
	} else {
		print_path(v, false);
	}
	leave(v);
	return is_open;
}

static void print_dyn(struct v0 *v)
{
	uint64_t bound, lifetime;
	size_t count = 0;

	put_text(v, "dyn ");
	bound = open_binder(v);
	while (!v->failed && !eat(v, 'E')) {
		bool is_open;

		if (count++ > 0)
			put_text(v, " + ");
		is_open = print_open_path(v);
		while (eat(v, 'p')) {
			put_text(v, is_open ? ", " : "<");
			is_open = true;
			put_identifier(v, parse_identifier(v));
			put_text(v, " = ");
			print_type(v);
		}
		if (is_open)
			put_text(v, ">");
	}
	v->bound_lifetimes -= bound;
	if (!eat(v, 'L')) {
		v->failed = true;
		return;
	}
	lifetime = parse_base62(v);
	if (lifetime != 0) {
		put_text(v, " + ");
		put_lifetime(v, lifetime);
	}
}

static void print_reference(struct v0 *v, char tag)
{
	uint64_t lifetime = 0;

	put_text(v, "&");
	if (eat(v, 'L')) {
		lifetime = parse_base62(v);
		if (lifetime != 0) {
			put_lifetime(v, lifetime);
			put_text(v, " ");
		}
	}
	if (tag == 'Q')
		put_text(v, "mut ");
	print_type(v);
}

static void print_array(struct v0 *v, char tag)
{
	put_text(v, "[");
	print_type(v);
	if (tag == 'A') {
		put_text(v, "; ");
		print_const(v, true);
	}
	put_text(v, "]");
}

static void print_type_of_tag(struct v0 *v, char tag)
{
	size_t saved;

	switch (tag) {
	case 'R':
	case 'Q':
		print_reference(v, tag);
		break;
	case 'P':
	case 'O':
		put_text(v, tag == 'P' ? "*const " : "*mut ");
		print_type(v);
		break;
	case 'A':
	case 'S':
		print_array(v, tag);
		break;
	case 'T':
		put_text(v, "(");
		if (print_list(v, print_type) == 1)
			put_text(v, ",");
		put_text(v, ")");
		break;
	case 'F':
		print_fn(v);
		break;
	case 'D':
		print_dyn(v);
		break;
	case 'B':
		saved = begin_back_reference(v);
		if (!v->is_silent)
			print_type(v);
		v->at = saved;
		break;
	default:
		v->at--; /* a path: its tag is its own */
		print_path(v, false);
	}
}

static void print_type(struct v0 *v)
{
	const char *basic;
	char tag;

	if (!enter(v))
		return;
	tag = next(v);
	basic = basic_type(tag);
	if (basic != NULL)
		put_text(v, basic);
	else if (!v->failed)
		print_type_of_tag(v, tag);
	leave(v);
}

static void print_const_number(struct v0 *v, char tag)
{
	uint64_t value = 0;
	size_t start, digits;

	if (eat(v, 'n'))
		put_text(v, "-");
	start = v->at;
	while ((peek(v) >= '0' && peek(v) <= '9') || (peek(v) >= 'a' && peek(v) <= 'f')) {
		char c = next(v);

		value = value << 4 | (uint64_t)(c <= '9' ? c - '0' : c - 'a' + 10);
	}
	digits = v->at - start;
	if (!eat(v, '_')) {
		v->failed = true;
	} else if (tag == 'b') {
		put_text(v, value != 0 ? "true" : "false");
	} else if (digits > 16) {
		put_text(v, "0x");
		put(v, v->in + start, digits);
	} else {
		put_number(v, value);
	}
}

static void print_const(struct v0 *v, bool is_in_value)
{
	size_t saved;
	char tag;

	(void)is_in_value;
	if (!enter(v))
		return;
	tag = next(v);
	if (tag == 'B') {
		saved = begin_back_reference(v);
		if (!v->is_silent)
			print_const(v, is_in_value);
		v->at = saved;
	} else if (tag == 'p') {
		put_text(v, "_");
	} else if (tag != '\0' && strchr("hmytojaslxnibc", tag) != NULL) {
		print_const_number(v, tag);
	} else {
		v->failed = true; /* structural constants: no task type has them */
	}
	leave(v);
}

size_t ky_demangle_v0(const char *symbol, size_t symbol_bytes, char *out, size_t capacity)
{
	struct v0 v = {.out = out, .capacity = capacity};
	size_t i;

	if (symbol_bytes < 3 || capacity == 0)
		return 0;
	v.in = symbol + 2;
	v.in_bytes = symbol_bytes - 2;
	for (i = 0; i < v.in_bytes; i++) {
		if (v.in[i] == '.') { /* a suffix of the compiler's */
			v.in_bytes = i;
			break;
		}
		if ((unsigned char)v.in[i] <= 0x20 || (unsigned char)v.in[i] >= 0x7f)
			return 0;
	}
	/* A number here would be a later version of the encoding. */
	if (peek(&v) < 'A' || peek(&v) > 'Z')
		return 0;
	print_path(&v, true);
	return v.failed ? 0 : v.used;
}
