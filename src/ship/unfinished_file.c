/* SPDX-License-Identifier: Apache-2.0 OR MIT */
#include <ship/unfinished_file.h>

#include <signal.h>
#include <stddef.h>
#include <unistd.h>

static const int endings[] = {SIGHUP, SIGINT, SIGQUIT, SIGPIPE, SIGTERM};

static const char *volatile noted[KY_UNFINISHED_MAX];
static volatile pid_t owner;

static void remove_all(int signal)
{
	for (size_t i = KY_UNFINISHED_MAX; i-- > 0 && owner == getpid();) {
		const char *path = noted[i];

		if (path && unlink(path) != 0)
			(void)rmdir(path);
	}
	(void)raise(signal); /* SA_RESETHAND: deadly now */
}

static void catch_endings(void)
{
	struct sigaction action = {.sa_handler = remove_all}, before;

	action.sa_flags = (int)(SA_RESETHAND | SA_NODEFER);
	for (size_t i = 0; i < sizeof(endings) / sizeof(endings[0]); i++)
		if (sigaction(endings[i], NULL, &before) == 0 && before.sa_handler == SIG_DFL)
			(void)sigaction(endings[i], &action, NULL);
}

void ky_unfinished_note(const char *path)
{
	size_t i = 0;

	while (i < KY_UNFINISHED_MAX && noted[i])
		i++;
	if (i == KY_UNFINISHED_MAX)
		return;
	owner = getpid();
	noted[i] = path;
	catch_endings();
}

void ky_unfinished_drop(const char *path)
{
	for (size_t i = 0; i < KY_UNFINISHED_MAX; i++)
		if (noted[i] == path)
			noted[i] = NULL;
}
