/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* bench_symbols FILE < ADDRESSES - names with inlined calls through the same path as `kymo
 * symbolize`: build id, search, look-up; prints how many as JSON.
 */
#include <fcntl.h>
#include <inttypes.h>
#include <symbol/object_file.h>
#include <symbol/symbolizer.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

struct tally {
	uint64_t rows, bytes;
};

static void report(void *ctx, const struct ky_symbol_row *row)
{
	struct tally *tally = ctx;

	tally->rows++;
	tally->bytes += row->name_bytes;
}

static int fail(const char *what)
{
	(void)fprintf(stderr, "bench_symbols: %s\n", what);
	return 1;
}

int main(int argc, char **argv)
{
	const struct ky_symbolizer_options options = {.has_no_system_dirs = true};
	uint64_t addresses = 0, named = 0;
	struct ky_symbolizer *symbolizer;
	struct ky_code_place place = {0};
	struct ky_symbol_source source;
	struct tally tally = {0};
	struct ky_object object;
	char line[64];
	int fd = argc == 2 ? open(argv[1], O_RDONLY | O_CLOEXEC) : -1;

	if (fd < 0 || ky_object_read_fd(&object, fd) < 0)
		return fail("usage: bench_symbols FILE < ADDRESSES");
	close(fd);
	if (ky_symbolizer_open(&symbolizer, &options) < 0)
		return fail("out of memory");
	source = ky_symbolizer_source(symbolizer);
	place.path = argv[1];
	place.build_id = object.build_id;
	place.build_id_bytes = object.build_id_bytes;
	while (fgets(line, sizeof(line), stdin)) {
		uint32_t why;

		place.address = strtoull(line, NULL, 16);
		addresses++;
		named += source.find(source.ctx, &place, report, &tally, &why) > 0;
	}
	ky_symbolizer_close(symbolizer);
	(void)printf("{\"addresses\":%" PRIu64 ",\"named\":%" PRIu64 ",\"rows\":%" PRIu64
		     ",\"bytes\":%" PRIu64 "}\n",
		     addresses, named, tally.rows, tally.bytes);
	return 0;
}
