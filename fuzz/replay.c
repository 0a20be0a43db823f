/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* replay FOLDER|FILE... - gives every file to the fuzz target once, from an exact copy. */
#include "fuzz_target.h"

#include <dirent.h>
#include <string.h>
#include <sys/stat.h>

static unsigned int file_count;

static int replay_file(const char *path)
{
	FILE *file = fopen(path, "rb");
	struct stat st;
	uint8_t *bytes;
	size_t count;

	if (!file || fstat(fileno(file), &st)) {
		perror(path);
		return 1;
	}
	bytes = malloc(st.st_size ? (size_t)st.st_size : 1);
	if (!bytes) {
		perror(path);
		fclose(file);
		return 1;
	}
	count = fread(bytes, 1, (size_t)st.st_size, file);
	fclose(file);
	printf("# %s: %zu bytes\n", path, count);
	fflush(stdout);
	LLVMFuzzerTestOneInput(bytes, count);
	free(bytes);
	file_count++;
	return 0;
}

static int replay_folder(const char *path)
{
	struct dirent **entries;
	int count = scandir(path, &entries, NULL, alphasort);
	int failed = count < 0;

	for (int i = 0; i < count; i++) {
		char name[2048];

		snprintf(name, sizeof(name), "%s/%s", path, entries[i]->d_name);
		if (entries[i]->d_name[0] != '.')
			failed |= replay_file(name);
		free(entries[i]);
	}
	if (count >= 0)
		free(entries);
	return failed;
}

int main(int argc, char **argv)
{
	int failed = 0;

	for (int i = 1; i < argc; i++) {
		struct stat st;

		if (stat(argv[i], &st)) {
			perror(argv[i]);
			failed = 1;
			continue;
		}
		failed |= S_ISDIR(st.st_mode) ? replay_folder(argv[i]) : replay_file(argv[i]);
	}
	if (!file_count) {
		fprintf(stderr, "usage: %s FOLDER|FILE...: there was nothing to replay\n", argv[0]);
		return 1;
	}
	return failed;
}
