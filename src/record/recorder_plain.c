/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* Opening and closing where another thread drains the ring: no thread, no disk, no library but
 * libc. The preload links this one; programs that link the library get recorder.c instead. */
#include <errno.h>
#include <kymo/dump.h>
#include <kymo/fatal.h>
#include <kymo/source.h>
#include <record/emit/emit_engine.h>
#include <record/emit/options.h>
#include <record/sample/sampler.h>

struct kymo_recorder {
	bool is_open;
};

static struct kymo_recorder the_recorder;

int kymo_recorder_open(struct kymo_recorder **out, const struct kymo_recorder_options *options)
{
	struct kymo_recorder_options taken;
	int err;

	if (!out)
		return -EINVAL;
	*out = NULL;
	err = ky_options_take(&taken, options);
	if (err)
		return err;
	if (!(taken.flags & KYMO_RECORDER_NO_DRAIN))
		return ky_options_say(
			&taken, KYMO_E_UNSUPPORTED,
			"this build has no drain thread: set KYMO_RECORDER_NO_DRAIN and drain the "
			"ring from another process");
	err = ky_engine_open(&taken, &ky_timer_source);
	if (err)
		return ky_options_say(&taken, err, "recorder: %s", kymo_error_text(err));
	for (size_t i = 0; i < taken.metadata_count; i++)
		(void)kymo_metadata_set(taken.metadata[i].key, taken.metadata[i].value);
	if (taken.flags & KYMO_RECORDER_FATAL_SIGNALS)
		(void)kymo_fatal_signals_install(); /* fails for no signal of ours */
	the_recorder.is_open = true;
	*out = &the_recorder;
	return 0;
}

int kymo_recorder_close(struct kymo_recorder *recorder)
{
	if (!recorder || !recorder->is_open)
		return 0;
	recorder->is_open = false;
	ky_engine_leave(ky_engine_stop(), false);
	return 0;
}

int kymo_recorder_reopen(void)
{
	return ky_engine_reopen();
}

int kymo_recorder_status(struct kymo_recorder_status *out)
{
	return ky_engine_status(out);
}

static int refuse(void)
{
	return the_recorder.is_open ? KYMO_E_UNSUPPORTED : KYMO_E_CLOSED;
}

int kymo_trigger_add(const char *rules, char *errbuf, size_t errbuf_bytes)
{
	(void)rules;
	(void)errbuf;
	(void)errbuf_bytes;
	return refuse();
}

int kymo_event_source_add(const struct kymo_event_source *source)
{
	(void)source;
	return refuse();
}

int kymo_event_source_remove(int source)
{
	(void)source;
	return -ENOENT;
}

int kymo_recorder_dump(const struct kymo_dump_options *options, struct kymo_dump_result *result)
{
	(void)options;
	(void)result;
	return refuse();
}
