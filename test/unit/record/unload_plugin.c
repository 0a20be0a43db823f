/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* unload_plugin.c - a library with the recorder in it, which test_unload.c opens and closes. */
#include <kymo/emit.h>
#include <kymo/recorder.h>

#define EXPORT __attribute__((visibility("default")))

EXPORT int plugin_begin(const char *directory);
EXPORT void plugin_mark(void);
EXPORT void plugin_end(void);

static struct kymo_recorder *recorder;

int plugin_begin(const char *directory)
{
	struct kymo_recorder_options options = KYMO_RECORDER_OPTIONS_INIT;

	options.flags = KYMO_RECORDER_NO_DRAIN;
	options.ring_directory = directory;
	return kymo_recorder_open(&recorder, &options);
}

void plugin_mark(void)
{
	kymo_mark(1);
}

void plugin_end(void)
{
	kymo_recorder_close(recorder);
}
