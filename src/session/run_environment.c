/* SPDX-License-Identifier: Apache-2.0 OR MIT */
#include <base/alloc.h>
#include <session/run_environment.h>
#include <ring/status_directory.h>
#include <ctype.h>
#include <errno.h>
#include <fcntl.h>
#include <kymo/emit.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

#ifndef KYMO_LIBDIR
#define KYMO_LIBDIR "lib"
#endif
#define PRELOAD_NAME "libkymo-preload.so"
#define OWN_VARIABLES 14u

int ky_run_preload_value(const char *there, const char *ours, char *out, size_t capacity)
{
	size_t ours_bytes = strlen(ours);
	const char *at = there;
	int bytes;

	if (strpbrk(ours, ": \t\n") != NULL)
		return -EINVAL;
	/* A kymo run inside a kymo run: once is enough. */
	while (at != NULL && (at = strstr(at, ours)) != NULL) {
		if ((at == there || strchr(": \t\n", at[-1]) != NULL) &&
		    (at[ours_bytes] == '\0' || strchr(": \t\n", at[ours_bytes]) != NULL))
			break;
		at++;
	}
	if (at != NULL)
		bytes = snprintf(out, capacity, "%s", there);
	else if (there != NULL && there[0] != '\0')
		bytes = snprintf(out, capacity, "%s:%s", there, ours);
	else
		bytes = snprintf(out, capacity, "%s", ours);
	return bytes >= 0 && (size_t)bytes < capacity ? 0 : -ENAMETOOLONG;
}

static bool try_preload(char *out, size_t capacity, const char *directory, const char *below)
{
	int bytes = snprintf(out, capacity, "%s%s%s", directory, below, PRELOAD_NAME);
	char *whole; /* without "..", as the loader and /proc show it */

	if (bytes <= 0 || (size_t)bytes >= capacity || access(out, R_OK) != 0)
		return false;
	whole = realpath(out, NULL);
	bytes = whole == NULL ? -1 : snprintf(out, capacity, "%s", whole);
	free(whole);
	return bytes > 0 && (size_t)bytes < capacity;
}

int ky_run_find_preload(char *out, size_t capacity)
{
	static const char *const places[] = {"/adapters/tokio/", "/../../adapters/tokio/",
					     "/../adapters/tokio/", ("/../" KYMO_LIBDIR "/"), "/"};
	const char *wanted = getenv("KYMO_PRELOAD");
	char directory[384];
	ssize_t bytes;
	char *slash;
	size_t i;

	if (wanted != NULL && wanted[0] != '\0')
		return try_preload(out, capacity, wanted, "") || access(wanted, R_OK) != 0 ||
				       snprintf(out, capacity, "%s", wanted) >= (int)capacity ?
			       -ENOENT :
			       0;
	bytes = readlink("/proc/self/exe", directory, sizeof(directory) - 1);
	if (bytes > 0) {
		directory[bytes] = '\0';
		slash = strrchr(directory, '/');
		if (slash != NULL)
			*slash = '\0';
		for (i = 0; i < sizeof(places) / sizeof(places[0]); i++)
			if (try_preload(out, capacity, directory, places[i]))
				return 0;
	}
	return -ENOENT;
}

/* Owner-only, ours, and really a directory: any user can make a name in /dev/shm. */
static int prepare_ring_directory(const char *path)
{
	struct stat st;

	if (mkdir(path, 0700) != 0 && errno != EEXIST)
		return -errno;
	if (lstat(path, &st) != 0)
		return -errno;
	if (!S_ISDIR(st.st_mode))
		return -ENOTDIR;
	if (st.st_uid != geteuid() || (st.st_mode & 077) != 0)
		return -EPERM;
	return access(path, W_OK | X_OK) == 0 ? 0 : -errno;
}

static int add_variable(char **out, const char *name, const char *value)
{
	size_t bytes = strlen(name) + strlen(value) + 2;

	*out = ky_alloc(bytes);
	if (*out == NULL)
		return -ENOMEM;
	snprintf(*out, bytes, "%s=%s", name, value);
	return 0;
}

static bool is_own(const char *variable)
{
	static const char *const names[] = {
		"LD_PRELOAD=",     "KYMO_SESSION=",      "KYMO_RING_DIR=", "KYMO_STATUS_DIR=",
		"KYMO_SERVICE=",   "KYMO_RING_BYTES=",   "KYMO_MODE=",     "KYMO_STATUS_PARENT=",
		"KYMO_SAMPLE=",    "KYMO_SAMPLE_BYTES=", "KYMO_ALLOC=",    "KYMO_GATES=",
		"KYMO_TRACE_DIR=",
	};
	size_t i;

	for (i = 0; i < sizeof(names) / sizeof(names[0]); i++)
		if (strncmp(variable, names[i], strlen(names[i])) == 0)
			return true;
	return false;
}

/* Ours come first, so that close() knows which strings it allocated: up to the first NULL-able one.
 */
static int build_variables(struct ky_run_environment *environment,
			   const struct ky_session_options *options, const char *preload_value)
{
	char session[20], ring_bytes[24], sample_bytes[24], sample[16], parent[16], alloc[24],
		gates[16];
	size_t count = 0, at = 0;
	char **variable;
	int err;

	for (variable = environ; *variable != NULL; variable++)
		count++;
	environment->variables = ky_alloc((count + OWN_VARIABLES + 1) * sizeof(char *));
	if (environment->variables == NULL)
		return -ENOMEM;
	snprintf(session, sizeof(session), "%016llx", (unsigned long long)environment->session);
	snprintf(ring_bytes, sizeof(ring_bytes), "%llu", (unsigned long long)options->ring_bytes);
	err = add_variable(&environment->variables[at++], "LD_PRELOAD", preload_value);
	if (err == 0)
		err = add_variable(&environment->variables[at++], "KYMO_SESSION", session);
	if (err == 0)
		err = add_variable(&environment->variables[at++], "KYMO_RING_DIR",
				   environment->ring_directory);
	if (err == 0)
		err = add_variable(&environment->variables[at++], "KYMO_STATUS_DIR",
				   environment->status_directory);
	snprintf(parent, sizeof(parent), "%d", (int)getpid());
	if (err == 0)
		err = add_variable(&environment->variables[at++], "KYMO_STATUS_PARENT", parent);
	if (err == 0 && options->agent.output.service != NULL)
		err = add_variable(&environment->variables[at++], "KYMO_SERVICE",
				   options->agent.output.service);
	if (err == 0 && options->ring_bytes != 0)
		err = add_variable(&environment->variables[at++], "KYMO_RING_BYTES", ring_bytes);
	if (err == 0)
		err = add_variable(&environment->variables[at++], "KYMO_MODE",
				   options->agent.is_flight ? "flight" : "stream");
	/* For a recorder that is part of the program: beside the others' traces. */
	if (err == 0 && options->agent.output.file == NULL &&
	    options->agent.output.directory != NULL)
		err = add_variable(&environment->variables[at++], "KYMO_TRACE_DIR",
				   options->agent.output.directory);
	snprintf(sample, sizeof(sample), "%u", options->agent.sampling.hz);
	if (err == 0)
		err = add_variable(&environment->variables[at++], "KYMO_SAMPLE", sample);
	if (err == 0)
		environment->sample_variable = environment->variables[at - 1];
	snprintf(sample_bytes, sizeof(sample_bytes), "%llu",
		 (unsigned long long)options->sample_bytes);
	if (err == 0 && options->sample_bytes != 0)
		err = add_variable(&environment->variables[at++], "KYMO_SAMPLE_BYTES",
				   sample_bytes);
	snprintf(alloc, sizeof(alloc), "%llu", (unsigned long long)options->alloc_bytes);
	if (err == 0 && options->alloc_bytes != 0)
		err = add_variable(&environment->variables[at++], "KYMO_ALLOC", alloc);
	snprintf(gates, sizeof(gates), "%x",
		 (KYMO_GATES_DEFAULT | options->gates_set) & ~options->gates_clear);
	if (err == 0 && (options->gates_set | options->gates_clear) != 0)
		err = add_variable(&environment->variables[at++], "KYMO_GATES", gates);
	if (err != 0)
		return err;
	for (variable = environ; *variable != NULL; variable++)
		if (!is_own(*variable))
			environment->variables[at++] = *variable;
	return 0;
}

/* As the recorder takes it, but the same one after a change of the working directory. */
static int choose_ring_directory(const char *wish, char *out, size_t out_bytes)
{
	char here[KY_RING_DIRECTORY_BYTES] = "";
	int bytes;

	if (wish != NULL && wish[0] != '\0' && wish[0] != '/' && !getcwd(here, sizeof(here)))
		return errno == ERANGE ? -ENAMETOOLONG : -errno;
	if (wish == NULL || wish[0] == '\0')
		bytes = snprintf(out, out_bytes, "/dev/shm/kymo-%u", (unsigned int)geteuid());
	else
		bytes = snprintf(out, out_bytes, "%s%s%s", here, here[0] ? "/" : "", wish);
	return bytes >= 0 && (size_t)bytes < out_bytes ? 0 : -ENAMETOOLONG;
}

static int prepare_directories(struct ky_run_environment *environment,
			       const struct ky_session_options *options, char *errbuf,
			       size_t errbuf_bytes)
{
	const char *wish = options->ring_directory;
	int err;

	if (wish == NULL)
		wish = secure_getenv("KYMO_RING_DIR");
	err = choose_ring_directory(wish, environment->ring_directory,
				    sizeof(environment->ring_directory));
	if (err == -ENAMETOOLONG)
		snprintf(errbuf, errbuf_bytes,
			 "KYMO_RING_DIR, with what is above it, has more than %zu bytes",
			 sizeof(environment->ring_directory) - 1);
	else if (err != 0)
		snprintf(errbuf, errbuf_bytes, "KYMO_RING_DIR: %s", kymo_error_text(err));
	if (err != 0)
		return err;
	err = prepare_ring_directory(environment->ring_directory);
	if (err == 0) {
		environment->status_fd = ky_status_directory_open(
			environment->ring_directory, environment->status_directory,
			sizeof(environment->status_directory));
		if (environment->status_fd < 0) {
			environment->status_directory[0] = '\0';
			err = environment->status_fd;
		}
	}
	if (err != 0)
		snprintf(errbuf, errbuf_bytes,
			 "%s: %s, but it must be a directory of this user alone for the ring files "
			 "(--ring-dir takes another one)",
			 environment->ring_directory, kymo_error_text(err));
	return err;
}

int ky_run_environment_open(struct ky_run_environment *environment,
			    const struct ky_session_options *options, char *errbuf,
			    size_t errbuf_bytes)
{
	char preload_value[2048];
	int err;

	memset(environment, 0, sizeof(*environment));
	if (ky_run_find_preload(environment->preload, sizeof(environment->preload)) != 0) {
		snprintf(errbuf, errbuf_bytes,
			 "%s was not found beside this program nor in ../%s from it "
			 "(KYMO_PRELOAD takes its path)",
			 PRELOAD_NAME, KYMO_LIBDIR);
		return -ENOENT;
	}
	err = ky_run_preload_value(getenv("LD_PRELOAD"), environment->preload, preload_value,
				   sizeof(preload_value));
	if (err != 0) {
		snprintf(errbuf, errbuf_bytes,
			 "%s: LD_PRELOAD cannot carry this path (no blank, no colon, and not "
			 "longer than 2 KiB with what is there)",
			 environment->preload);
		return err;
	}
	err = prepare_directories(environment, options, errbuf, errbuf_bytes);
	if (err != 0)
		return err;
	do /* 0 means "no session" in a ring's header */
		if (getrandom(&environment->session, sizeof(environment->session), 0) !=
		    (ssize_t)sizeof(environment->session))
			environment->session = (uint64_t)getpid() << 32 | 1u;
	while (environment->session == 0);
	err = build_variables(environment, options, preload_value);
	if (err != 0) {
		snprintf(errbuf, errbuf_bytes, "no memory for the environment");
		ky_run_environment_close(environment);
	}
	return err;
}

bool ky_run_environment_has_room(const struct ky_run_environment *environment, uint64_t bytes)
{
	struct statvfs room;

	return statvfs(environment->ring_directory, &room) != 0 ||
	       (uint64_t)room.f_bavail * room.f_frsize >= bytes;
}

void ky_run_environment_close(struct ky_run_environment *environment)
{
	char **variable;

	if (environment->status_directory[0] != '\0')
		ky_status_directory_close(environment->status_directory, environment->status_fd);
	for (variable = environment->variables;
	     variable != NULL && *variable != NULL && is_own(*variable); variable++)
		ky_free(*variable);
	ky_free(environment->variables);
	memset(environment, 0, sizeof(*environment));
}

enum ky_run_status ky_run_status_parse(const char *text, char *reason, size_t reason_bytes)
{
	static const struct {
		const char *word;
		enum ky_run_status status;
	} known[] = {{"ok", KY_RUN_STATUS_OK},
		     {"no-tokio", KY_RUN_STATUS_NO_TOKIO},
		     {"stripped", KY_RUN_STATUS_STRIPPED},
		     {"refused", KY_RUN_STATUS_REFUSED},
		     {"own-recorder", KY_RUN_STATUS_OWN_RECORDER},
		     {"unknown-layout", KY_RUN_STATUS_UNKNOWN_LAYOUT}};
	size_t word_bytes = strcspn(text, " \n"), i, at = 0;
	const char *rest = text + word_bytes;
	enum ky_run_status status = KY_RUN_STATUS_OTHER;

	/* Without its end it is still being written, or was cut by a full disk. */
	if (word_bytes == 0 || strchr(text, '\n') == NULL)
		return KY_RUN_STATUS_NONE;
	for (i = 0; i < sizeof(known) / sizeof(known[0]); i++)
		if (strlen(known[i].word) == word_bytes &&
		    memcmp(known[i].word, text, word_bytes) == 0)
			status = known[i].status;
	if (status == KY_RUN_STATUS_OTHER)
		rest = text;
	while (*rest == ' ')
		rest++;
	/* It comes from CMD's process: nothing that could steer a terminal. */
	for (; *rest != '\0' && *rest != '\n' && at + 1 < reason_bytes; rest++)
		reason[at++] = isprint((unsigned char)*rest) ? *rest : '?';
	if (reason_bytes > 0)
		reason[at] = '\0';
	return status;
}

enum ky_run_status ky_run_environment_status(const struct ky_run_environment *environment, int pid,
					     char *reason, size_t reason_bytes)
{
	char path[340], text[512];
	ssize_t bytes;
	int fd;

	snprintf(path, sizeof(path), "%s/%d.status", environment->status_directory, pid);
	fd = open(path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);
	if (fd < 0)
		return KY_RUN_STATUS_NONE;
	bytes = read(fd, text, sizeof(text) - 1);
	close(fd);
	if (bytes <= 0)
		return KY_RUN_STATUS_NONE;
	text[bytes] = '\0';
	return ky_run_status_parse(text, reason, reason_bytes);
}
