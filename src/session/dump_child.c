/* SPDX-License-Identifier: Apache-2.0 OR MIT */
#include <session/dump_child.h>

#include <base/alloc.h>
#include <base/now.h>
#include <errno.h>
#include <ship/disk.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

/* Beside the traces, not among them: what reads a directory of traces takes everything in it. */
void ky_dump_child_directory(char *out, size_t out_bytes, const char *chosen, const char *output)
{
	size_t bytes = strlen(output);

	while (bytes > 1 && output[bytes - 1] == '/')
		bytes--;
	if (chosen != NULL)
		(void)snprintf(out, out_bytes, "%s", chosen);
	else
		(void)snprintf(out, out_bytes, "%.*s.dumps", (int)bytes, output);
}

const char *ky_dump_child_path(void *ctx, uint32_t n)
{
	struct ky_dump_child *child = ctx;
	const struct ky_output_options *to = &child->options->output;
	const char *output = to->file != NULL ? to->file : to->directory;
	char directory[KY_DUMP_DIRECTORY_BYTES], name[KY_DUMP_NAME_BYTES];
	size_t bytes;

	ky_dump_child_directory(directory, sizeof(directory),
				child->options->triggers.dump_directory, output);
	(void)ky_disk_make_path(directory); /* making the file says what is wrong */
	ky_dump_name(name, sizeof(name), "", child->service, child->pid, ky_now_ns(CLOCK_REALTIME),
		     &to->compressor);
	/* The number distinguishes those of one second. */
	bytes = strlen(name) - strlen(".trc") - strlen(to->compressor.suffix);
	(void)snprintf(child->path, sizeof(child->path), "%s/%.*s-%u.trc%s", directory, (int)bytes,
		       name, n, to->compressor.suffix);
	return child->path;
}

static void report(const struct ky_dump_child *child, struct ky_agent_event event,
		   const struct ky_dump_request *request)
{
	event.pid = child->pid;
	event.rule = request->rule;
	event.value = request->value;
	event.path = request->path;
	child->options->event(child->options->event_ctx, &event);
}

/* In the forked process. */
static int write_dump(const struct ky_dump_child *child, const struct ky_dump_request *request)
{
	const struct ky_output_options *to = &child->options->output;
	struct ky_cut_pair pairs[KY_DUMP_PAIRS_MAX + KY_OUTPUT_METADATA_MAX];
	struct ky_dump_job *job = ky_alloc(sizeof(*job));
	int err;

	if (job == NULL)
		return -ENOMEM;
	job->path = request->path;
	job->taken = KY_DUMP_REPLACED;
	/* Beside the service; at its end there is nothing to give way to, and CMD's end waits. */
	job->gives_way = !child->is_dead;
	job->compressor = to->compressor;
	ky_dump_request_cut(request, &job->cut);
	memcpy(pairs, request->pairs, request->pair_count * sizeof(*pairs));
	for (size_t i = 0; i < to->metadata_count; i++)
		pairs[job->cut.pair_count++] = (struct ky_cut_pair){to->metadata[i].key,
								    to->metadata[i].value};
	job->cut.pairs = pairs;
	job->cut.source = child->source;
	job->cut.is_dead = child->is_dead;
	err = ky_dump_write_named(job, &child->ring);
	report(child,
	       (struct ky_agent_event){.kind = err == 0 ? KY_AGENT_DUMP_MADE : KY_AGENT_DUMP_FAILED,
				       .error = err,
				       .count = job->report.events_written,
				       .span_ns = job->report.newest_ns - job->report.oldest_ns},
	       request);
	return err;
}

static int make(void *ctx, struct ky_dump_request *request)
{
	const struct ky_dump_child *child = ctx;

	request->maker = fork();
	if (request->maker == 0)
		_exit(write_dump(child, request) == 0 ? 0 : 1);
	if (request->maker > 0)
		return KY_DUMP_IS_MADE_ELSEWHERE;
	request->result.err = -errno;
	report(child,
	       (struct ky_agent_event){.kind = KY_AGENT_MAKER_FAILED, .error = request->result.err},
	       request);
	return request->result.err;
}

static int is_made(void *ctx, struct ky_dump_request *request, bool waits)
{
	const struct ky_dump_child *child = ctx;
	struct stat about;
	int status = 0;
	pid_t got;

	do
		got = waitpid(request->maker, &status, waits ? 0 : WNOHANG);
	while (got < 0 && errno == EINTR);
	if (got == 0)
		return KY_DUMP_IS_MADE_ELSEWHERE;
	/* It could not report that itself. */
	if (got > 0 && WIFSIGNALED(status))
		report(child,
		       (struct ky_agent_event){.kind = KY_AGENT_MAKER_KILLED,
					       .count = (uint64_t)WTERMSIG(status)},
		       request);
	if (got < 0 || !WIFEXITED(status) || WEXITSTATUS(status) != 0)
		request->result.err = -EIO;
	else if (stat(request->path, &about) == 0)
		request->result.bytes_written = (uint64_t)about.st_size;
	return request->result.err;
}

struct ky_dump_maker ky_dump_child_maker(struct ky_dump_child *child)
{
	return (struct ky_dump_maker){make, is_made, child};
}
