/* SPDX-License-Identifier: Apache-2.0 OR MIT */
#include <base/gnu.h>

#include <send/exec_stage.h>

#include <base/alloc.h>
#include <base/now.h>
#include <elf/run_target.h>
#include <errno.h>
#include <inttypes.h>
#include <kymo/base.h>
#include <poll.h>
#include <send/child_command.h>
#include <send/retry.h>
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#define EXIT_AGAIN 75
#define FACT_COUNT 11u
#define FACT_BYTES 1280u
#define ENVIRONMENT_MAX 4096u
#define LINE_BYTES 160u

struct exec_stage {
	char *words[KY_EXEC_WORDS_MAX + 1];
	char *text; /* they point into it */
	char name[256];
	uint64_t limit_ns, end_ns;
	uint64_t finish_ns; /* atomic */
	struct ky_retry retry;
	struct ky_child_command child; /* pid 0: nothing runs */
	bool was_killed;
	/* the line that is being read, and the last whole one that says something */
	char line[LINE_BYTES], last[LINE_BYTES];
	size_t line_bytes;
	char facts[FACT_COUNT][FACT_BYTES];
	char *environment[ENVIRONMENT_MAX + FACT_COUNT + 1];
};

/* ---- its environment ---- */

static void put_text(struct exec_stage *stage, size_t *at, const char *name, const char *value)
{
	snprintf(stage->facts[*at], FACT_BYTES, "KYMO_SEGMENT_%s=%s", name, value);
	(*at)++;
}

static void put_number(struct exec_stage *stage, size_t *at, const char *name, uint64_t value)
{
	char text[24];

	snprintf(text, sizeof(text), "%" PRIu64, value);
	put_text(stage, at, name, text);
}

static void make_environment(struct exec_stage *stage, const struct kymo_segment *segment)
{
	size_t facts = 0, count = 0;

	/* A copy has no name, and none of our descriptors is the command's. */
	put_text(stage, &facts, "PATH",
		 strncmp(segment->path, "/proc/self/", 11) == 0 ? "/dev/stdin" : segment->path);
	put_text(stage, &facts, "NAME", segment->name);
	put_text(stage, &facts, "SERVICE", segment->service);
	put_text(stage, &facts, "RUN", segment->run);
	put_text(stage, &facts, "HOST", segment->host);
	put_number(stage, &facts, "PID", segment->pid);
	put_number(stage, &facts, "NUMBER", segment->number);
	put_number(stage, &facts, "BYTES", segment->byte_count);
	put_number(stage, &facts, "START_UNIX_NS", segment->start_unix_ns);
	put_number(stage, &facts, "END_UNIX_NS", segment->end_unix_ns);
	put_text(stage, &facts, "DUMP", segment->dump_id);
	for (size_t i = 0; i < facts; i++)
		stage->environment[count++] = stage->facts[i];
	for (char **from = environ; *from && count < ENVIRONMENT_MAX; from++)
		if (strncmp(*from, "KYMO_SEGMENT_", 13) != 0)
			stage->environment[count++] = *from;
	stage->environment[count] = NULL;
}

/* ---- its start ---- */

static int start(struct exec_stage *stage, const struct kymo_segment *segment)
{
	char self[32];
	int err;

	/* Opened anew, so that its offset is the command's own. */
	snprintf(self, sizeof(self), "/proc/self/fd/%d", segment->fd);
	err = ky_child_command_start(&stage->child, stage->words, stage->environment, self, true);
	if (err)
		stage->child.pid = 0;
	return err;
}

/* ---- while it runs ---- */

static void end_line(struct exec_stage *stage)
{
	if (stage->line_bytes) {
		memcpy(stage->last, stage->line, stage->line_bytes);
		stage->last[stage->line_bytes] = '\0';
	}
	stage->line_bytes = 0;
}

/* False: it has closed its output. At most so much at once: one that floods is timed like others.
 */
static bool read_output(struct exec_stage *stage)
{
	char bytes[2048];

	for (int round = 0; round < 64; round++) {
		ssize_t got = read(stage->child.output_fd, bytes, sizeof(bytes));

		if (got <= 0)
			return got < 0 && (errno == EAGAIN || errno == EINTR);
		for (ssize_t i = 0; i < got; i++) {
			if (bytes[i] == '\n')
				end_line(stage);
			else if (stage->line_bytes < LINE_BYTES - 1)
				stage->line[stage->line_bytes++] = bytes[i];
		}
	}
	return true;
}

static void judge(struct exec_stage *stage, int status, struct kymo_stage_result *result)
{
	uint64_t now_ns = ky_now_ns(CLOCK_MONOTONIC);

	if (WIFEXITED(status) && WEXITSTATUS(status) == 0) {
		ky_retry_succeeded(&stage->retry);
		result->answer = KYMO_STAGE_TAKEN;
		return;
	}
	if (stage->was_killed)
		snprintf(result->reason, sizeof(result->reason), "%s was ended: its time was over",
			 stage->words[0]);
	else if (WIFSIGNALED(status))
		snprintf(result->reason, sizeof(result->reason), "%s died of signal %d",
			 stage->words[0], WTERMSIG(status));
	else
		snprintf(result->reason, sizeof(result->reason), "%s exits with %d%s%s",
			 stage->words[0], WEXITSTATUS(status), stage->last[0] ? ": " : "",
			 stage->last);
	result->answer = KYMO_STAGE_REFUSED;
	if (!stage->was_killed && (!WIFEXITED(status) || WEXITSTATUS(status) != EXIT_AGAIN))
		return;
	ky_retry_failed(&stage->retry, KY_VERDICT_AGAIN, 0, now_ns);
	result->answer = KYMO_STAGE_AGAIN;
	result->again_ns = stage->retry.due_ns - now_ns;
}

static void reap(struct exec_stage *stage, struct kymo_stage_result *result)
{
	int status;

	ky_child_command_kill(&stage->child);
	(void)read_output(stage);
	end_line(stage);
	status = ky_child_command_reap(&stage->child);
	stage->child.pid = 0;
	judge(stage, status, result);
}

static void step(void *ctx, uint32_t wait_ms, struct kymo_stage_result *result)
{
	struct exec_stage *stage = ctx;
	struct pollfd fds[2] = {{.fd = stage->child.output_fd, .events = POLLIN},
				{.fd = stage->child.pid_fd, .events = POLLIN}};
	uint64_t finish_ns = __atomic_load_n(&stage->finish_ns, __ATOMIC_RELAXED), now_ns;

	result->answer = KYMO_STAGE_PENDING;
	if (poll(fds, 2, (int)wait_ms) > 0 && fds[0].revents && !read_output(stage)) {
		/* Without an output left only its end is news. */
		(void)poll(fds + 1, 1, (int)wait_ms);
	}
	now_ns = ky_now_ns(CLOCK_MONOTONIC);
	if (!ky_child_command_has_ended(&stage->child) && now_ns < stage->end_ns &&
	    now_ns < finish_ns)
		return;
	stage->was_killed = !ky_child_command_has_ended(&stage->child);
	reap(stage, result);
}

static void take(void *ctx, const struct kymo_segment *segment, struct kymo_stage_result *result)
{
	struct exec_stage *stage = ctx;
	int err;

	make_environment(stage, segment);
	stage->line_bytes = 0;
	stage->last[0] = '\0';
	stage->was_killed = false;
	stage->end_ns = ky_now_ns(CLOCK_MONOTONIC) + stage->limit_ns;
	err = start(stage, segment);
	result->answer = KYMO_STAGE_PENDING;
	if (!err)
		return;
	snprintf(result->reason, sizeof(result->reason), "%s cannot be started: %s",
		 stage->words[0], kymo_error_text(err));
	result->answer = KYMO_STAGE_AGAIN;
	result->again_ns = KY_RETRY_CAP_NS;
}

static void finish(void *ctx, uint64_t deadline_ns)
{
	struct exec_stage *stage = ctx;

	__atomic_store_n(&stage->finish_ns, deadline_ns, __ATOMIC_RELAXED);
}

static void close_stage(void *ctx)
{
	struct exec_stage *stage = ctx;
	struct kymo_stage_result result = {.size = sizeof(result)};

	if (stage && stage->child.pid)
		reap(stage, &result);
	if (stage)
		ky_free(stage->text);
	ky_free(stage);
}

int ky_exec_stage_make(struct kymo_segment_stage *out, const char *command, uint64_t limit_ns,
		       char *why)
{
	struct exec_stage *stage = ky_alloc(sizeof(*stage));
	size_t count = 0;
	char *rest = NULL, path[1024];

	if (!stage)
		return -ENOMEM;
	stage->text = ky_alloc(strlen(command) + 1);
	if (!stage->text) {
		ky_free(stage);
		return -ENOMEM;
	}
	memcpy(stage->text, command, strlen(command));
	for (char *word = strtok_r(stage->text, " \t\n", &rest); word && count < KY_EXEC_WORDS_MAX;
	     word = strtok_r(NULL, " \t\n", &rest))
		stage->words[count++] = word;
	if (!count || (rest && rest[0])) {
		snprintf(why, KYMO_STAGE_REASON_BYTES, "a command has 1 to %u words",
			 KY_EXEC_WORDS_MAX);
		close_stage(stage);
		return -EINVAL;
	}
	if (ky_run_target_resolve(stage->words[0], path, sizeof(path)) != 0 ||
	    access(path, X_OK) != 0) {
		snprintf(why, KYMO_STAGE_REASON_BYTES, "there is no program '%.200s'",
			 stage->words[0]);
		close_stage(stage);
		return -EINVAL;
	}
	snprintf(stage->name, sizeof(stage->name), "exec %.240s", command);
	stage->limit_ns = limit_ns ? limit_ns : KY_EXEC_LIMIT_NS;
	stage->finish_ns = UINT64_MAX;
	stage->retry.random = ky_now_ns(CLOCK_REALTIME) | 1;
	*out = (struct kymo_segment_stage){.size = sizeof(*out),
					   .name = stage->name,
					   .ctx = stage,
					   .take = take,
					   .poll = step,
					   .finish = finish,
					   .close = close_stage};
	return 0;
}
