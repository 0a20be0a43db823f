/* SPDX-License-Identifier: Apache-2.0 OR MIT */
#include <base/gnu.h>

#include <send/push_child.h>

#include <base/bytes.h>
#include <base/now.h>
#include <errno.h>
#include <fcntl.h>
#include <kymo/base.h>
#include <poll.h>
#include <proc/clean_spawn.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#define NICE 10
#define LIMIT_NS UINT64_C(120000000000)
#define CHECK_MS 100
#define FRAME_BYTES 8u
#define BODIES_BYTES_MAX (64u << 20)
#define MEMORY "512M"

struct child {
	pid_t pid;
	int output_fd, error_fd;
	struct ky_buf output;
	char said[KY_PUSH_WHY_BYTES]; /* the beginning of what it says of trouble */
	size_t said_bytes;
};

void ky_push_frame(struct ky_buf *out, uint32_t signal, const struct ky_buf *body)
{
	uint8_t head[FRAME_BYTES];

	if (!body->used || body->used > BODIES_BYTES_MAX)
		return;
	ky_put_u32(head, signal);
	ky_put_u32(head + 4, (uint32_t)body->used);
	ky_buf_append(out, head, sizeof(head));
	ky_buf_append(out, body->bytes, body->used);
}

/* ---- its start ---- */

static int set_up(posix_spawn_file_actions_t *files, posix_spawnattr_t *attributes, int segment_fd,
		  const int *output, const int *errors)
{
	char self[32];

	(void)snprintf(self, sizeof(self), "/proc/self/fd/%d", segment_fd);
	if (posix_spawn_file_actions_init(files))
		return -ENOMEM;
	if (ky_clean_spawn_init(attributes, true)) {
		posix_spawn_file_actions_destroy(files);
		return -ENOMEM;
	}
	if (posix_spawn_file_actions_addopen(files, STDIN_FILENO, self, O_RDONLY, 0) ||
	    posix_spawn_file_actions_adddup2(files, output[1], STDOUT_FILENO) ||
	    posix_spawn_file_actions_adddup2(files, errors[1], STDERR_FILENO)) {
		posix_spawn_file_actions_destroy(files);
		posix_spawnattr_destroy(attributes);
		return -ENOMEM;
	}
	return 0;
}

/* In a container it shares the memory of the service that is recorded: it goes first. */
static void offer_to_oom_killer(pid_t pid)
{
	char path[48];
	int fd;

	(void)snprintf(path, sizeof(path), "/proc/%d/oom_score_adj", (int)pid);
	fd = open(path, O_WRONLY | O_CLOEXEC);
	if (fd < 0)
		return;
	(void)!write(fd, "1000", 4);
	close(fd);
}

static int spawn(struct child *child, int segment_fd, bool is_pprof, const int *output,
		 const int *errors)
{
	char words[][24] = {"kymo",         "export", "-q", "--format", KY_PUSH_FORMAT_OTLP,
			    "--max-memory", MEMORY,   "-"};
	char *arguments[sizeof(words) / sizeof(words[0]) + 1] = {NULL};
	posix_spawn_file_actions_t files;
	posix_spawnattr_t attributes;
	int result = set_up(&files, &attributes, segment_fd, output, errors);

	if (result)
		return result;
	for (size_t i = 0; i < sizeof(words) / sizeof(words[0]); i++)
		arguments[i] = words[i];
	if (is_pprof)
		memcpy(words[4], KY_PUSH_FORMAT_PPROF, sizeof(KY_PUSH_FORMAT_PPROF));
	result = -posix_spawn(&child->pid, "/proc/self/exe", &files, &attributes, arguments,
			      environ);
	posix_spawn_file_actions_destroy(&files);
	posix_spawnattr_destroy(&attributes);
	if (!result) {
		(void)setpriority(PRIO_PROCESS, (id_t)child->pid, NICE);
		offer_to_oom_killer(child->pid);
	}
	return result;
}

static int start(struct child *child, int segment_fd, bool is_pprof)
{
	int output[2], errors[2], result;

	if (pipe2(output, O_CLOEXEC))
		return -errno;
	if (pipe2(errors, O_CLOEXEC)) {
		result = -errno;
		close(output[0]);
		close(output[1]);
		return result;
	}
	result = spawn(child, segment_fd, is_pprof, output, errors);
	close(output[1]);
	close(errors[1]);
	child->output_fd = output[0];
	child->error_fd = errors[0];
	if (result) {
		close(child->output_fd);
		close(child->error_fd);
	}
	return result;
}

/* ---- while it runs ---- */

/* False: it has closed this one. */
static bool read_some(int fd, struct child *child, bool is_output)
{
	uint8_t bytes[2048];
	ssize_t got = read(fd, bytes, sizeof(bytes));

	if (got < 0 && errno == EINTR)
		return true;
	if (got <= 0)
		return false;
	if (is_output) {
		(void)ky_buf_append(&child->output, bytes, (size_t)got);
		return !child->output.failed;
	}
	for (ssize_t i = 0; i < got && child->said_bytes + 1 < sizeof(child->said); i++)
		if (bytes[i] >= ' ')
			child->said[child->said_bytes++] = (char)bytes[i];
	return true;
}

enum end {
	END_WHOLE,
	END_LIMIT,   /* its own time was over */
	END_FINISHED /* that of all */
};

static enum end read_all(struct child *child, const uint64_t *end_ns)
{
	struct pollfd fds[2] = {{.fd = child->output_fd, .events = POLLIN},
				{.fd = child->error_fd, .events = POLLIN}};
	uint64_t limit_ns = ky_now_ns(CLOCK_MONOTONIC) + LIMIT_NS;

	while (fds[0].fd >= 0 || fds[1].fd >= 0) {
		uint64_t now_ns;

		(void)poll(fds, 2, CHECK_MS);
		for (int i = 0; i < 2; i++)
			if (fds[i].fd >= 0 && fds[i].revents &&
			    !read_some(fds[i].fd, child, i == 0))
				fds[i].fd = -1;
		now_ns = ky_now_ns(CLOCK_MONOTONIC);
		if (now_ns >= __atomic_load_n(end_ns, __ATOMIC_RELAXED))
			return END_FINISHED;
		if (now_ns >= limit_ns)
			return END_LIMIT;
	}
	return END_WHOLE;
}

static int take_frames(const struct ky_buf *output, struct ky_push_body bodies[KY_PUSH_SIGNALS])
{
	size_t at = 0;

	while (output->used - at >= FRAME_BYTES) {
		uint32_t signal = ky_get_u32(output->bytes + at);
		uint32_t bytes = ky_get_u32(output->bytes + at + 4);

		at += FRAME_BYTES;
		if (signal >= KY_PUSH_SIGNALS || bytes > output->used - at)
			return KYMO_E_CORRUPT;
		ky_buf_clear(&bodies[signal].bytes);
		if (ky_buf_append(&bodies[signal].bytes, output->bytes + at, bytes))
			return bodies[signal].bytes.failed;
		at += bytes;
	}
	return at == output->used ? 0 : KYMO_E_CORRUPT;
}

/* What came of it. Returns as ky_push_make_fn. */
static int judge(struct child *child, int status, enum end end,
		 struct ky_push_body bodies[KY_PUSH_SIGNALS], char *why)
{
	int result = -EINVAL;

	if (end != END_WHOLE) {
		(void)snprintf(why, KY_PUSH_WHY_BYTES, "its analysis was ended: its time was over");
	} else if (WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL) {
		(void)snprintf(why, KY_PUSH_WHY_BYTES,
			       "its analysis was killed; it is tried again: memory may be short");
		result = -EAGAIN;
	} else if (WIFSIGNALED(status))
		(void)snprintf(why, KY_PUSH_WHY_BYTES, "its analysis died of signal %d",
			       WTERMSIG(status));
	else if (child->output.failed)
		(void)snprintf(why, KY_PUSH_WHY_BYTES, "its analysis has more than %u MiB",
			       BODIES_BYTES_MAX >> 20);
	else if (!child->output.used && WEXITSTATUS(status))
		(void)snprintf(why, KY_PUSH_WHY_BYTES, "cannot be analysed: %.220s",
			       child->said_bytes ? child->said : "no reason was given");
	else
		result = take_frames(&child->output, bodies);
	if (result == -EINVAL)
		return end == END_FINISHED ? -EAGAIN : -EINVAL;
	if (result)
		(void)snprintf(why, KY_PUSH_WHY_BYTES, "its analysis cannot be read: %s",
			       kymo_error_text(result));
	return result;
}

int ky_push_child_make(void *ctx, const struct kymo_segment *segment, bool is_pprof,
		       struct ky_push_body bodies[KY_PUSH_SIGNALS], const uint64_t *end_ns,
		       char *why)
{
	struct child child = {.pid = 0};
	enum end end;
	int status = 0, result;

	(void)ctx;
	ky_buf_init(&child.output, BODIES_BYTES_MAX);
	result = start(&child, segment->fd, is_pprof);
	if (result) {
		(void)snprintf(why, KY_PUSH_WHY_BYTES, "cannot be analysed now: %s",
			       kymo_error_text(result));
		return -EAGAIN;
	}
	end = read_all(&child, end_ns);
	/* Its group goes before it is reaped: the number is not another's until then. */
	if (end != END_WHOLE || child.output.failed)
		(void)kill(-child.pid, SIGKILL);
	close(child.output_fd);
	close(child.error_fd);
	while (waitpid(child.pid, &status, 0) < 0 && errno == EINTR)
		;
	result = judge(&child, status, end, bodies, why);
	ky_buf_release(&child.output);
	return result;
}
