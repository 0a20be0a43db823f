/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* A program closes a library that has the recorder in it, while a thread lives that has recorded:
 * test_unload PLUGIN. */
#include "../../lib/cmocka_all.h"
#include "../../lib/temp_tree.h"

#include <dlfcn.h>
#include <pthread.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

static const char *plugin;
static void *handle;
static pthread_barrier_t barrier;

static void *look_up(const char *name)
{
	void *function = dlsym(handle, name);

	assert_non_null(function);
	return function;
}

static void call(const char *name)
{
	void (*function)(void);
	void *found = look_up(name);

	memcpy(&function, &found, sizeof(function));
	function();
}

static void *record_and_wait(void *ctx)
{
	call("plugin_mark");
	pthread_barrier_wait(&barrier);
	pthread_barrier_wait(&barrier); /* the library is closed */
	return ctx;
}

static void unload__leaves_what_threads_and_forks_call(void **state)
{
	int (*begin)(const char *directory), status = -1;
	char directory[64];
	pthread_t thread;
	void *found;
	pid_t child;

	(void)state;
	assert_int_equal(temp_tree_make(directory, sizeof(directory)), 0);
	handle = dlopen(plugin, RTLD_NOW);
	assert_non_null(handle);
	found = look_up("plugin_begin");
	memcpy(&begin, &found, sizeof(begin));
	assert_int_equal(begin(directory), 0);
	pthread_barrier_init(&barrier, NULL, 2);
	assert_int_equal(pthread_create(&thread, NULL, record_and_wait, NULL), 0);
	pthread_barrier_wait(&barrier);
	call("plugin_end");
	assert_int_equal(dlclose(handle), 0);
	pthread_barrier_wait(&barrier);
	pthread_join(thread, NULL);
	child = fork();
	if (child == 0)
		_exit(0);
	assert_int_equal(waitpid(child, &status, 0), child);
	assert_int_equal(status, 0);
	assert_int_equal(temp_tree_remove(directory), 0);
}

int main(int argc, char **argv)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(unload__leaves_what_threads_and_forks_call),
	};

	assert_int_equal(argc, 2);
	plugin = argv[1];
	return cmocka_run_group_tests_name("unload", tests, NULL, NULL);
}
