/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* Names as the crates behind blaze.h write them, of well-formed symbols and of hostile ones. */
#include "../../lib/cmocka_all.h"
#include "../../lib/prng.h"

#include <symbol/blaze.h>
#include <stdio.h>
#include <string.h>

static const char *demangled(const char *symbol)
{
	static char out[4097];
	size_t bytes = ky_blaze_demangle(symbol, strlen(symbol), out, sizeof(out) - 1);

	out[bytes] = '\0';
	return out;
}

static void demangle__legacy_loses_hash_and_escapes(void **state)
{
	(void)state;
	assert_string_equal(demangled("_ZN6report6render28_$u7b$$u7b$closure$u7d$$u7d$"
				      "17h0123456789abcdefE"),
			    "report::render::{{closure}}");
	assert_string_equal(demangled(
				    "_ZN70_$LT$alloc..vec..Vec$LT$T$C$A$GT$$u20$as$u20$core..ops.."
				    "drop..Drop$GT$4drop17h0123456789abcdefE"),
			    "<alloc::vec::Vec<T,A> as core::ops::drop::Drop>::drop");
	assert_string_equal(demangled("_ZN3a.b17h0123456789abcdefE"), "a.b");
	assert_string_equal(demangled("_ZN3a.b1c17h0123456789abcdefE.llvm.123"), "a.b::c");
}

static void demangle__cpp_has_its_own_names(void **state)
{
	(void)state;
	assert_string_equal(demangled("_ZN3foo3barEv"), "foo::bar()");
	assert_string_equal(demangled("_ZNSt6vectorIiSaIiEE9push_backEOi"),
			    "std::vector<int, std::allocator<int> >::push_back(int&&)");
}

static void demangle__what_is_not_mangled_stays_as_it_is(void **state)
{
	static const char *const symbols[] = {"main", "", "_R", "_ZN", "_RNvC1a", "\xff\x01"};
	static char text[5000];

	(void)state;
	for (size_t i = 0; i < 5; i++)
		assert_string_equal(demangled(symbols[i]), symbols[i]);
	assert_string_equal(demangled(symbols[5]), "\xef\xbf\xbd\x01");
	/* Longer than the room for its name. */
	memset(text, 'a', sizeof(text));
	text[sizeof(text) - 1] = '\0';
	assert_int_equal(strlen(demangled(text)), 4096);
}

/* As c++filt 2.40 prints them, less the disambiguator of the crate, and with punycode read. */
static void demangle__v0_prints_every_production(void **state)
{
	static const struct {
		const char *symbol, *text;
	} cases[] = {
		{"_RNvCs1234_7mycrate3foo", "mycrate::foo"},
		{"_RNCNvCs1234_7mycrate3foo0", "mycrate::foo::{closure#0}"},
		{"_RNCNvCs1234_7mycrate3foos_0", "mycrate::foo::{closure#1}"},
		{"_RNSNvCs1234_7mycrate3foo6vtable", "mycrate::foo::{shim:vtable#0}"},
		{"_RINvCs1234_7mycrate3foomlE", "mycrate::foo::<u32, i32>"},
		{"_RNvMCs1234_7mycrateNtB2_3Foo3new", "<mycrate::Foo>::new"},
		{"_RNvXCs1234_7mycrateNtB2_3FooNtB2_3Bar3baz",
		 "<mycrate::Foo as mycrate::Bar>::baz"},
		{"_RNvYNtCs1234_7mycrate3FooNtB4_3Bar3baz", "<mycrate::Foo as mycrate::Bar>::baz"},
		{"_RINvC1a1fShE", "a::f::<[u8]>"},
		{"_RINvC1a1fAhj10_E", "a::f::<[u8; 16]>"},
		{"_RINvC1a1fTEE", "a::f::<()>"},
		{"_RINvC1a1fThEE", "a::f::<(u8,)>"},
		{"_RINvC1a1fThmEE", "a::f::<(u8, u32)>"},
		{"_RINvC1a1fReE", "a::f::<&str>"},
		{"_RINvC1a1fQPhE", "a::f::<&mut *const u8>"},
		{"_RINvC1a1fOhE", "a::f::<*mut u8>"},
		{"_RINvC1a1fFhEmE", "a::f::<fn(u8) -> u32>"},
		{"_RINvC1a1fFUKCEuE", "a::f::<unsafe extern \"C\" fn()>"},
		{"_RINvC1a1fDNtC1a1TEL_E", "a::f::<dyn a::T>"},
		{"_RINvC1a1fDNtC1a1Tp4ItemhEL_E", "a::f::<dyn a::T<Item = u8>>"},
		{"_RINvC1a1fDINtC1a1ThEp4ItemhEL_E", "a::f::<dyn a::T<u8, Item = u8>>"},
		{"_RINvC1a1fFG_RL0_hEuE", "a::f::<for<'a> fn(&'a u8)>"},
		{"_RINvC1a1fKb1_E", "a::f::<true>"},
		{"_RINvC1a1fKin5_E", "a::f::<-5>"},
		{"_RINvC1a1fKpE", "a::f::<_>"},
		{"_RNvC1au10mnchen_3ya", "a::m\xc3\xbcnchen"},
	};
	size_t i;

	(void)state;
	for (i = 0; i < sizeof(cases) / sizeof(cases[0]); i++)
		assert_string_equal(demangled(cases[i].symbol), cases[i].text);
}

static void demangle__output_that_does_not_fit_is_cut_at_every_size(void **state)
{
	static const char *const symbols[] = {
		"_RINvC1a1fDINtC1a1ThEp4ItemhEL_E",
		"_ZN6report6render28_$u7b$$u7b$closure$u7d$$u7d$17h0123456789abcdefE",
	};
	char out[128], guard[128], whole[128];

	(void)state;
	memset(guard, '#', sizeof(guard));
	for (size_t i = 0; i < 2; i++) {
		size_t bytes = strlen(symbols[i]), whole_bytes;

		whole_bytes = (size_t)snprintf(whole, sizeof(whole), "%s", demangled(symbols[i]));
		for (size_t capacity = 0; capacity <= bytes; capacity++) {
			size_t used;

			memset(out, '#', sizeof(out));
			used = ky_blaze_demangle(symbols[i], bytes, out, capacity);
			assert_true(used <= capacity);
			assert_memory_equal(out + capacity, guard, sizeof(out) - capacity);
			/* With less room than the symbol has, nothing is read of it. */
			assert_memory_equal(out, capacity < bytes ? symbols[i] : whole, used);
		}
		assert_int_equal(ky_blaze_demangle(symbols[i], bytes, out, bytes), whole_bytes);
	}
}

/* Each tuple refers twice to the one before: 2^levels types when printed. */
static size_t demangle_doubling(unsigned int levels, char *out, size_t capacity)
{
	static const char digits[] = "0123456789abcdefghijklmnopqrstuvwxyz"
				     "ABCDEFGHIJKLMNOPQRSTUVWXYZ";
	char symbol[1024] = "_RINvC1a1fTThhE";
	size_t used = strlen(symbol), previous = 9, start, n; /* offsets count from after "_R" */

	while (levels-- > 0) {
		char reference[4] = "B";

		n = 1;
		if (previous - 1 >= 62)
			reference[n++] = digits[(previous - 1) / 62];
		reference[n++] = digits[(previous - 1) % 62];
		reference[n++] = '_';
		start = used - 2;
		symbol[used++] = 'T';
		memcpy(symbol + used, reference, n);
		memcpy(symbol + used + n, reference, n);
		used += 2 * n;
		symbol[used++] = 'E';
		previous = start;
	}
	symbol[used++] = 'E';
	symbol[used++] = 'E';
	used = ky_blaze_demangle(symbol, used, out, capacity - 1);
	out[used] = '\0';
	return used;
}

static void demangle__exponential_back_references_end_soon(void **state)
{
	static char out[1 << 20];

	(void)state;
	assert_true(demangle_doubling(2, out, sizeof(out)) > 0);
	assert_string_equal(out, "a::f::<((u8, u8), ((u8, u8), (u8, u8)), "
				 "(((u8, u8), (u8, u8)), ((u8, u8), (u8, u8))))>");
	assert_true(demangle_doubling(40, out, sizeof(out)) < sizeof(out));
}

static void demangle__deep_nesting_ends_soon(void **state)
{
	static char symbol[20000] = "_RINvC1a1f", out[65536];
	size_t used = strlen(symbol);

	(void)state;
	memset(symbol + used, 'S', 15000);
	symbol[used + 15000] = 'h';
	symbol[used + 15001] = 'E';
	assert_true(ky_blaze_demangle(symbol, used + 15002, out, sizeof(out)) <= sizeof(out));
}

/* Random edits of valid symbols: whatever they mean, the result stays inside its buffer and is
 * text. */
static void demangle__random_edits_stay_inside_the_buffer(void **state)
{
	static const char *const seeds[] = {
		"_RINvC1a1fDINtC1a1ThEp4ItemhEL_FG_RL0_hEuTB8_hEAhj10_E",
		"_RNvXCs1234_7mycrateNtB2_3FooNtB2_3Bar3baz",
		"_ZN39_$LT$alloc..vec..Vec$LT$T$C$A$GT$$u20$as4drop17h0123456789abcdefE",
	};
	static const char letters[] = "BCDEFGIKLMNSTXY_$.0123456789abcdhpsu";
	struct test_prng prng = {7};
	char symbol[256], out[300];
	size_t i, bytes;
	uint32_t edits;

	(void)state;
	for (i = 0; i < 60000; i++) {
		const char *seed = seeds[i % 3];

		bytes = strlen(seed);
		memcpy(symbol, seed, bytes);
		for (edits = 1 + test_below(&prng, 5); edits > 0; edits--)
			symbol[2 + test_below(&prng, (uint32_t)bytes - 2)] =
				letters[test_below(&prng, sizeof(letters) - 1)];
		bytes -= test_below(&prng, 4);
		out[256] = '#';
		assert_true(ky_blaze_demangle(symbol, bytes, out, 256) <= 256);
		assert_int_equal(out[256], '#');
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(demangle__legacy_loses_hash_and_escapes),
		cmocka_unit_test(demangle__cpp_has_its_own_names),
		cmocka_unit_test(demangle__what_is_not_mangled_stays_as_it_is),
		cmocka_unit_test(demangle__v0_prints_every_production),
		cmocka_unit_test(demangle__output_that_does_not_fit_is_cut_at_every_size),
		cmocka_unit_test(demangle__exponential_back_references_end_soon),
		cmocka_unit_test(demangle__deep_nesting_ends_soon),
		cmocka_unit_test(demangle__random_edits_stay_inside_the_buffer),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
