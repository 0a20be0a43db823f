/* SPDX-License-Identifier: Apache-2.0 OR MIT */
#include <symbol/task_type.h>
#include <string.h>

/* The first generic argument that starts at text, up to its comma or closing bracket. */
static size_t first_argument(const char *text)
{
	size_t at, depth = 0;

	for (at = 0; text[at] != '\0'; at++) {
		char c = text[at];

		if (c == '<' || c == '(' || c == '[') {
			depth++;
		} else if (c == '>' && at > 0 && text[at - 1] == '-') {
			continue; /* the arrow of a function type */
		} else if (c == '>' || c == ')' || c == ']') {
			if (depth == 0)
				return at;
			depth--;
		} else if (c == ',' && depth == 0) {
			return at;
		}
	}
	return 0;
}

size_t ky_task_type(const char *text, const char **out, bool *is_cell)
{
	static const char *const places[] = {
		"tokio::runtime::task::core::Cell<",
		"tokio::runtime::task::core::CoreStage<",
		"tokio::runtime::task::core::Stage<",
		"tokio::runtime::task::harness::Harness<",
		"tokio::runtime::task::raw::poll::<",
		"tokio::runtime::task::raw::dealloc::<",
		"tokio::runtime::task::raw::shutdown::<",
		"tokio::runtime::task::raw::try_read_output::<",
		"tokio::runtime::task::core::Core<",
	};
	size_t i, bytes;

	for (i = 0; i < sizeof(places) / sizeof(places[0]); i++) {
		const char *found = strstr(text, places[i]);

		if (found == NULL)
			continue;
		*out = found + strlen(places[i]);
		*is_cell = i == 0;
		bytes = first_argument(*out);
		/* A lone capital is a generic parameter's name: legacy symbols of methods keep
		 * those. */
		if (bytes > 1)
			return bytes;
	}
	return 0;
}

bool ky_task_type_is_on_the_way(const char *symbol)
{
	/* Legacy and v0 symbols both carry identifiers in clear text after their lengths. */
	static const char *const marks[] = {"drop_in_place", "4task3raw", "7harness",
					    "4task4core",    "with_mut",  "Box",
					    "core3mem4drop"};
	size_t i;

	for (i = 0; i < sizeof(marks) / sizeof(marks[0]); i++)
		if (strstr(symbol, marks[i]) != NULL)
			return true;
	return false;
}
