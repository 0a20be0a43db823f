/* SPDX-License-Identifier: Apache-2.0 OR MIT */
#include <cli/progress.h>

#include <agent/dump_writer.h>
#include <base/now.h>
#include <base/out_text.h>
#include <base/start_thread.h>
#include <cli/cli.h>
#include <inttypes.h>
#include <stdbool.h>
#include <stdio.h>
#include <time.h>
#include <unistd.h>

#define AFTER_NS UINT64_C(1000000000)
#define EVERY_NS UINT64_C(100000000)

/* All of it but the first two under the lock. */
static struct progress {
	pthread_mutex_t lock;
	pthread_cond_t changed;
	pthread_t painter;
	const char *what;
	uint64_t start_ns, shown_ns, step_ns;
	uint64_t done, total;
	bool is_wanted, is_shared, is_active, is_counted, is_shown, has_painter, is_ending;
} progress = {.lock = PTHREAD_MUTEX_INITIALIZER};

static void show(void)
{
	uint64_t now_ns = ky_now_ns(CLOCK_MONOTONIC);
	char cell[KY_OUT_CELL_BYTES];

	if (!progress.is_active || !progress.what || now_ns - progress.start_ns < AFTER_NS ||
	    now_ns - progress.shown_ns < EVERY_NS)
		return;
	progress.shown_ns = now_ns;
	progress.is_shown = true;
	if (progress.is_counted && progress.total)
		(void)fprintf(stderr, "\r\033[K%s %" PRIu64 " %%", progress.what,
			      progress.done >= progress.total ?
				      UINT64_C(100) :
				      progress.done * 100 / progress.total);
	else if (progress.is_counted)
		(void)fprintf(stderr, "\r\033[K%s %s", progress.what,
			      ky_out_bytes(cell, progress.done));
	else
		(void)fprintf(stderr, "\r\033[K%s, %" PRIu64 " s", progress.what,
			      (now_ns - progress.step_ns) / AFTER_NS);
}

static void wipe(void)
{
	if (progress.is_shown)
		(void)fputs("\r\033[K", stderr);
	progress.is_shown = progress.is_active = false;
	progress.shown_ns = 0;
}

static void *paint(void *ctx)
{
	(void)ctx;
	pthread_mutex_lock(&progress.lock);
	while (!progress.is_ending) {
		struct timespec until;
		uint64_t until_ns;

		if (!progress.is_active) {
			pthread_cond_wait(&progress.changed, &progress.lock);
			continue;
		}
		until_ns = ky_now_ns(CLOCK_MONOTONIC) + EVERY_NS;
		until.tv_sec = (time_t)(until_ns / 1000000000u);
		until.tv_nsec = (long)(until_ns % 1000000000u);
		(void)pthread_cond_timedwait(&progress.changed, &progress.lock, &until);
		show();
	}
	pthread_mutex_unlock(&progress.lock);
	return NULL;
}

/* Without it steps and counts alone repaint. Signals are for the thread that works. */
static void start_painter(void)
{
	pthread_condattr_t monotonic;

	if (pthread_condattr_init(&monotonic) != 0)
		return;
	(void)pthread_condattr_setclock(&monotonic, CLOCK_MONOTONIC);
	if (pthread_cond_init(&progress.changed, &monotonic) == 0) {
		progress.is_ending = false;
		progress.has_painter = ky_start_thread(&progress.painter, paint, NULL) == 0;
		if (!progress.has_painter)
			(void)pthread_cond_destroy(&progress.changed);
	}
	(void)pthread_condattr_destroy(&monotonic);
}

void ky_progress_open(void)
{
	if (progress.is_wanted)
		return;
	progress.is_wanted = !ky_cli_is_quiet() && isatty(STDERR_FILENO) == 1;
	progress.is_shared = progress.is_wanted && isatty(STDOUT_FILENO) == 1;
	if (!progress.start_ns)
		progress.start_ns = ky_now_ns(CLOCK_MONOTONIC);
	if (progress.is_wanted && !progress.has_painter)
		start_painter();
}

/* The lock is held. */
static void wake(void)
{
	if (progress.has_painter && !progress.is_active)
		(void)pthread_cond_signal(&progress.changed);
	progress.is_active = true;
}

void ky_progress_step(const char *what)
{
	if (!progress.is_wanted)
		return;
	pthread_mutex_lock(&progress.lock);
	progress.what = what;
	progress.is_counted = false;
	progress.step_ns = ky_now_ns(CLOCK_MONOTONIC);
	progress.shown_ns = 0; /* at once */
	wake();
	show();
	pthread_mutex_unlock(&progress.lock);
}

void ky_progress_count(uint64_t done_bytes, uint64_t total_bytes)
{
	if (!progress.is_wanted)
		return;
	pthread_mutex_lock(&progress.lock);
	progress.done = done_bytes;
	progress.total = total_bytes;
	progress.is_counted = true;
	wake();
	show();
	pthread_mutex_unlock(&progress.lock);
}

void ky_progress_quiet(void)
{
	if (!progress.is_wanted)
		return;
	pthread_mutex_lock(&progress.lock);
	wipe();
	pthread_mutex_unlock(&progress.lock);
}

void ky_progress_result(void)
{
	if (progress.is_shared)
		ky_progress_quiet();
}

void ky_progress_close(void)
{
	ky_progress_quiet();
	if (progress.has_painter) {
		pthread_mutex_lock(&progress.lock);
		progress.is_ending = true;
		(void)pthread_cond_signal(&progress.changed);
		pthread_mutex_unlock(&progress.lock);
		(void)pthread_join(progress.painter, NULL);
		(void)pthread_cond_destroy(&progress.changed);
		progress.has_painter = false;
	}
	progress.is_wanted = progress.is_shared = false;
	progress.what = NULL;
}

/* The line about a dump, of which a command has one. */
static uint64_t dump_shown_ns;

static void show_dump(void *ctx, uint64_t bytes, const struct ky_chunk *chunk)
{
	uint64_t now_ns = ky_now_ns(CLOCK_MONOTONIC);
	char size[KY_OUT_CELL_BYTES], span[KY_OUT_CELL_BYTES];
	uint64_t to_go = now_ns > chunk->last_ns ? now_ns - chunk->last_ns : 0;

	(void)ctx;
	if (now_ns - dump_shown_ns < AFTER_NS)
		return;
	dump_shown_ns = now_ns;
	ky_cli_notice("%s written, %s of the recording to go", ky_out_bytes(size, bytes),
		      ky_out_duration(span, to_go));
}

void ky_progress_of_dump(struct ky_dump_job *job)
{
	if (ky_cli_is_quiet() || !isatty(STDERR_FILENO))
		return;
	dump_shown_ns = ky_now_ns(CLOCK_MONOTONIC);
	job->between = show_dump;
}
