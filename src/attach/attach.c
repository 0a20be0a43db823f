/* SPDX-License-Identifier: Apache-2.0 OR MIT */
#include <base/gnu.h>

#include <attach/attach.h>
#include <attach/attach_arch.h>
#include <attach/borrow.h>
#include <attach/park.h>
#include <base/now.h>
#include <base/testpoint.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <time.h>

#define MS_NS UINT64_C(1000000)
#define SEARCH_NS (2000 * MS_NS)
#define PAUSE_NS (5 * MS_NS)
#define LOAD_NS (30000 * MS_NS) /* symbols of a large program on a slow disk */
#define PATIENCE_MS 5000u
#define CANDIDATES_MAX 64u

static void pause_for(uint64_t ns)
{
	nanosleep(&(const struct timespec){0, (long)ns}, NULL);
}

/* The process opens the file by its name: it must see the same one under it. */
static int check_library(const struct ky_process *process, const char *library, char *why)
{
	char path[KYMO_ATTACH_PATH_BYTES + 32];
	struct stat ours, theirs;

	if (process->library[0])
		return 0;
	if (stat(library, &ours) != 0)
		return ky_attach_refuse(why, -errno, "cannot be given %s: %s", library,
					strerror(errno));
	snprintf(path, sizeof(path), "/proc/%u/root%s", process->pid, library);
	if (stat(path, &theirs) != 0 || theirs.st_ino != ours.st_ino ||
	    theirs.st_dev != ours.st_dev) {
		if (!ky_process_is_there(process))
			return ky_attach_refuse(why, -ESRCH, "ended meanwhile");
		return ky_attach_refuse(
			why, -ENOENT,
			"lives in another file system (a container?) where %s is not; put it "
			"there and name it with KYMO_PRELOAD",
			library);
	}
	return 0;
}

static void fill_block(struct kymo_attach_block *block, const struct ky_process *process,
		       const struct ky_attach_request *request)
{
	memset(block, 0, sizeof(*block));
	memcpy(block->functions, process->functions, sizeof(process->functions));
	block->pause[1] = MS_NS;
	block->reads_max = request->patience_ms ? request->patience_ms : PATIENCE_MS;
	block->version = KYMO_ATTACH_VERSION;
	block->action = request->action;
	block->is_streaming = request->is_streaming;
	block->gates = request->gates;
	block->sample_hz = request->sample_hz;
	block->ring_bytes = request->ring_bytes;
	block->session = request->session;
	snprintf(block->function, sizeof(block->function), "%s", KYMO_ATTACH_FUNCTION);
	snprintf(block->service, sizeof(block->service), "%s",
		 request->service ? request->service : "");
	snprintf(block->ring_directory, sizeof(block->ring_directory), "%s",
		 request->ring_directory ? request->ring_directory : "");
	/* Once loaded it is known by the name it was loaded under. */
	snprintf(block->library, sizeof(block->library), "%s",
		 process->library[0] ? process->library : request->library);
}

static bool read_block(const struct ky_process *process, uint64_t address,
		       struct kymo_attach_block *out)
{
	struct iovec local = {out, sizeof(*out)};
	struct iovec remote = {(void *)(uintptr_t)address, sizeof(*out)};

	return process_vm_readv((pid_t)process->pid, &local, 1, &remote, 1, 0) ==
	       (ssize_t)sizeof(*out);
}

static bool answer(const struct ky_process *process, uint64_t address, uint32_t word)
{
	struct iovec local = {&word, sizeof(word)};
	struct iovec remote = {
		(void *)(uintptr_t)(address + offsetof(struct kymo_attach_block, answer)),
		sizeof(word)};

	return process_vm_writev((pid_t)process->pid, &local, 1, &remote, 1, 0) ==
	       (ssize_t)sizeof(word);
}

static int search(const struct ky_process *process, const struct ky_arch_code *code,
		  const struct kymo_attach_block *block, struct ky_borrowed *borrowed,
		  struct ky_attach_answer *out, char *why)
{
	uint64_t until_ns = ky_now_ns(CLOCK_MONOTONIC) + SEARCH_NS;
	pid_t candidates[CANDIDATES_MAX];
	int err = -EAGAIN;

	borrowed->memory = process->free_address;
	do {
		size_t count = ky_park_candidates(process, candidates, CANDIDATES_MAX);

		for (size_t i = 0; i < count; i++) {
			err = ky_borrow(process, candidates[i], code, block, borrowed, why);

			out->stop_count++;
			if (borrowed->stopped_ns > out->stopped_ns)
				out->stopped_ns = borrowed->stopped_ns;
			if (err != -EAGAIN && err != -EEXIST)
				return err;
		}
		pause_for(PAUSE_NS);
	} while (ky_now_ns(CLOCK_MONOTONIC) < until_ns && ky_process_is_there(process));
	if (!ky_process_is_there(process))
		return ky_attach_refuse(why, -ESRCH, "ended meanwhile");
	if (err == -EEXIST)
		return err;
	return ky_attach_refuse(
		why, -EBUSY,
		"has no thread that could be borrowed without risk: within 2 s none of them "
		"slept in Tokio's park; nothing was changed");
}

/* The block is not there any more. */
static int say_gone(const struct ky_process *process, char *why)
{
	if (!ky_process_is_there(process))
		return ky_attach_refuse(why, -ESRCH, "ended meanwhile");
	return ky_attach_refuse(
		why, -EAGAIN, "could not make a thread for us (its limits?); nothing was changed");
}

/* Its thread has gone without our answer. */
static int say_too_late(const struct ky_process *process, const struct kymo_attach_block *block,
			char *why)
{
	if (!ky_process_is_there(process))
		return ky_attach_refuse(why, -ESRCH, "ended meanwhile");
	return ky_attach_refuse(why, -ETIMEDOUT,
				"waited %u ms for this kymo, which did not get to run; nothing was "
				"changed",
				block->reads_max);
}

/* Waits until the state is no longer `state`. */
static int wait_state(const struct ky_process *process, uint64_t address,
		      struct kymo_attach_block *block, uint32_t state, char *why)
{
	uint64_t until_ns = ky_now_ns(CLOCK_MONOTONIC) + LOAD_NS;

	while (ky_now_ns(CLOCK_MONOTONIC) < until_ns) {
		if (!read_block(process, address, block))
			return say_gone(process, why);
		if (block->state != state)
			return 0;
		pause_for(MS_NS / 4);
	}
	return ky_attach_refuse(why, -ETIMEDOUT,
				"did not answer within 30 s: another thread holds its loader");
}

static int say_loader(const struct ky_process *process, const struct kymo_attach_block *block,
		      char *why)
{
	char text[256] = "";

	if (block->message && ky_process_read(process, block->message, text, sizeof(text) - 1)) {
		for (char *at = text; *at; at++)
			if ((unsigned char)*at < ' ' || *at == 0x7f)
				*at = '?';
	}
	return ky_attach_refuse(why, -ENOEXEC, "could not load the recorder: %s",
				text[0] ? text : "its loader does not say why");
}

static int converse(const struct ky_process *process, uint64_t address,
		    struct kymo_attach_block *block, struct ky_attach_answer *out, char *why)
{
	int err = wait_state(process, address, block, KYMO_ATTACH_BORN, why);

	if (!err && block->state == KYMO_ATTACH_LOAD_FAILED) {
		err = say_loader(process, block, why);
		answer(process, address, KYMO_ATTACH_LEAVE);
	}
	if (err)
		return err;
	KY_TESTPOINT("attach.ready");
	if (block->state == KYMO_ATTACH_READY) {
		if (!answer(process, address, KYMO_ATTACH_GO))
			return say_too_late(process, block, why);
		KY_TESTPOINT("attach.go");
		err = wait_state(process, address, block, KYMO_ATTACH_READY, why);
	}
	if (err)
		return err;
	out->result = block->result;
	memcpy(out->text, block->text, sizeof(out->text));
	out->text[sizeof(out->text) - 1] = '\0';
	KY_TESTPOINT("attach.done");
	answer(process, address, KYMO_ATTACH_LEAVE);
	return 0;
}

static int ask(const struct ky_process *process, const struct ky_attach_request *request,
	       struct ky_attach_answer *out, char *why)
{
	const char *refusal = ky_arch_refusal();
	static struct kymo_attach_block block;
	struct ky_borrowed borrowed = {0};
	struct ky_arch_code code;
	int err;

	memset(out, 0, sizeof(*out));
	if (refusal)
		return ky_attach_refuse(why, -ENOTSUP, "cannot be attached to: %s", refusal);
	err = check_library(process, request->library, why);
	if (err)
		return err;
	if (!process->free_address || !ky_arch_find_code(process, &code))
		return ky_attach_refuse(why, -ENOTSUP, "has a C library that kymo does not know");
	fill_block(&block, process, request);
	prctl(PR_SET_TIMERSLACK, 1ul);
	err = search(process, &code, &block, &borrowed, out, why);
	return err ? err : converse(process, borrowed.block, &block, out, why);
}

int ky_attach_ask(const struct ky_process *process, const struct ky_attach_request *request,
		  struct ky_attach_answer *out, char *why)
{
	int err = ask(process, request, out, why);

	ky_process_unlock(process);
	return err;
}
