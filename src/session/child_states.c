/* SPDX-License-Identifier: Apache-2.0 OR MIT */
#include <base/gnu.h>

#include <session/child_states.h>

#include <base/alloc.h>
#include <base/now.h>
#include <base/start_thread.h>
#include <errno.h>
#include <stdbool.h>
#include <sys/wait.h>
#include <wire/resource_area.h>

struct ky_child_states {
	pthread_mutex_t lock;
	pthread_t thread;
	pid_t pid;
	bool is_joined;
	uint64_t count; /* so far */
	struct ky_child_change changes[KY_CHILD_CHANGES];
};

static void add(struct ky_child_states *states, const siginfo_t *info)
{
	struct ky_child_change change = {.at_ns = ky_now_ns(CLOCK_MONOTONIC),
					 .detail = (uint32_t)info->si_status};

	switch (info->si_code) {
	case CLD_STOPPED:
		change.change = KY_PROCESS_STOPPED;
		break;
	case CLD_CONTINUED:
		change.change = KY_PROCESS_CONTINUED;
		change.detail = 0;
		break;
	case CLD_EXITED:
		change.change = KY_PROCESS_EXITED;
		break;
	case CLD_KILLED:
	case CLD_DUMPED:
		change.change = KY_PROCESS_KILLED;
		break;
	default: /* a debugger's stop */
		return;
	}
	pthread_mutex_lock(&states->lock);
	states->changes[states->count++ % KY_CHILD_CHANGES] = change;
	pthread_mutex_unlock(&states->lock);
}

static void *run(void *ctx)
{
	struct ky_child_states *states = ctx;

	pthread_setname_np(pthread_self(), "kymo-child");
	for (;;) {
		siginfo_t info = {.si_pid = 0};

		if (waitid(P_PID, (id_t)states->pid, &info,
			   WSTOPPED | WCONTINUED | WEXITED | WNOWAIT) != 0) {
			if (errno == EINTR)
				continue;
			return NULL;
		}
		add(states, &info);
		if (info.si_code != CLD_STOPPED && info.si_code != CLD_CONTINUED &&
		    info.si_code != CLD_TRAPPED)
			return NULL;
		/* So that it is not reported again, and nothing that came meanwhile is taken. */
		(void)waitid(P_PID, (id_t)states->pid, &info,
			     (info.si_code == CLD_CONTINUED ? WCONTINUED : WSTOPPED) | WNOHANG);
	}
}

int ky_child_states_open(struct ky_child_states **out, pid_t pid)
{
	struct ky_child_states *states = ky_alloc(sizeof(*states));
	int err;

	*out = NULL;
	if (!states)
		return -ENOMEM;
	pthread_mutex_init(&states->lock, NULL);
	states->pid = pid;
	err = ky_start_thread(&states->thread, run, states);
	if (err)
		ky_free(states);
	else
		*out = states;
	return err;
}

uint32_t ky_child_states_read(struct ky_child_states *states, uint64_t *next,
			      struct ky_child_change *out, uint32_t count_max)
{
	uint32_t count = 0;

	pthread_mutex_lock(&states->lock);
	if (states->count - *next > KY_CHILD_CHANGES)
		*next = states->count - KY_CHILD_CHANGES;
	while (count < count_max && *next < states->count)
		out[count++] = states->changes[(*next)++ % KY_CHILD_CHANGES];
	pthread_mutex_unlock(&states->lock);
	return count;
}

void ky_child_states_finish(struct ky_child_states *states)
{
	if (!states || states->is_joined)
		return;
	pthread_join(states->thread, NULL);
	states->is_joined = true;
}

void ky_child_states_close(struct ky_child_states *states)
{
	if (!states || !states->is_joined)
		return;
	pthread_mutex_destroy(&states->lock);
	ky_free(states);
}
