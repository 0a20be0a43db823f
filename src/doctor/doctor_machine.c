/* SPDX-License-Identifier: Apache-2.0 OR MIT */
#include <doctor/doctor.h>

#include <base/first_line.h>
#include <base/out_text.h>
#include <errno.h>
#include <inttypes.h>
#include <kymo/base.h>
#include <probe/perf_source.h>
#include <probe/wake_source.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/statvfs.h>
#include <time.h>
#include <unistd.h>

#define RING_BYTES_DEFAULT (UINT64_C(32) << 20)
#define ROOM_BYTES_MIN (UINT64_C(512) << 10) /* of the smallest ring, about */

struct ky_doctor_check *ky_doctor_add(struct ky_doctor *doctor, const char *name, const char *value,
				      ...)
{
	struct ky_doctor_check *check = &doctor->checks[doctor->count];
	va_list arguments;

	if (doctor->count < KY_DOCTOR_CHECKS_MAX - 1)
		doctor->count++;
	memset(check, 0, sizeof(*check));
	check->name = name;
	va_start(arguments, value);
	(void)vsnprintf(check->value, sizeof(check->value), value, arguments);
	va_end(arguments);
	return check;
}

void ky_doctor_effect(struct ky_doctor_check *check, enum ky_doctor_state state, const char *effect,
		      ...)
{
	va_list arguments;

	check->state = state;
	va_start(arguments, effect);
	(void)vsnprintf(check->effect, sizeof(check->effect), effect, arguments);
	va_end(arguments);
}

void ky_doctor_fix(struct ky_doctor_check *check, const char *fix, ...)
{
	va_list arguments;

	va_start(arguments, fix);
	(void)vsnprintf(check->fix, sizeof(check->fix), fix, arguments);
	va_end(arguments);
}

/* 0, or why not. */
static int try_timer(void)
{
	struct sigevent event = {.sigev_notify = SIGEV_NONE};
	timer_t timer;

	if (timer_create(CLOCK_THREAD_CPUTIME_ID, &event, &timer) != 0)
		return errno;
	(void)timer_delete(timer);
	return 0;
}

/* Whether it works. */
static bool check_perf(struct ky_doctor *doctor, bool has_timers)
{
	struct ky_perf_options options = {.rate_hz = 99, .stack_bytes = 16384, .has_kernel = true};
	struct ky_doctor_check *check;
	char paranoid[32];
	int result = ky_perf_test(&options);

	if (!ky_read_first_line("/proc/sys/kernel/perf_event_paranoid", paranoid, sizeof(paranoid)))
		(void)snprintf(paranoid, sizeof(paranoid), "unreadable");
	check = ky_doctor_add(doctor, "perf_event",
			      result ? "refused when tried: %s (perf_event_paranoid is %s)" :
				       "samples%s (perf_event_paranoid is %s)",
			      result ? result == -ENODATA ? "it opens and yields nothing" :
							    kymo_error_text(result) :
			      options.has_kernel ? " with the kernel's frames" :
						   " of user space only",
			      paranoid);
	if (result) {
		ky_doctor_effect(check, KY_DOCTOR_LIMITED, "%s",
				 has_timers ? "CPU samples come from timers inside the program: a "
					      "signal each, no frames of the kernel" :
					      "no CPU samples, for timers are refused, too");
		if (result == -EACCES || (result == -EPERM && strtol(paranoid, NULL, 10) > 2))
			ky_doctor_fix(check, "sudo sysctl kernel.perf_event_paranoid=1");
		else if (result == -EPERM)
			ky_doctor_fix(check, "docker run --cap-add PERFMON ... (a seccomp filter "
					     "refuses it)");
	} else if (!options.has_kernel) {
		ky_doctor_effect(check, KY_DOCTOR_LIMITED,
				 "time in the kernel is not sampled: system calls appear idle");
		ky_doctor_fix(check, "sudo sysctl kernel.perf_event_paranoid=1");
	}
	return result == 0;
}

static void check_switches(struct ky_doctor *doctor)
{
	struct ky_perf_options options = {.is_switches = true, .has_kernel = true};
	struct ky_doctor_check *check;
	char cost[KY_OUT_CELL_BYTES];
	uint64_t cost_ns = 0;
	int result = ky_perf_test_switches(&options, &cost_ns);

	if (!result) {
		(void)ky_doctor_add(doctor, "context_switches",
				    "are reported; a record takes %s of CPU time",
				    ky_out_duration(cost, cost_ns));
		return;
	}
	check = ky_doctor_add(doctor, "context_switches", "refused when tried: %s",
			      result == -ENODATA ? "perf_event opens but reports none" :
						   kymo_error_text(result));
	ky_doctor_effect(check, KY_DOCTOR_LIMITED,
			 "preemption and page faults inside polls are only counted, not recorded "
			 "one by one");
}

static void check_wake_ups(struct ky_doctor *doctor)
{
	struct ky_doctor_check *check;
	struct ky_wakes *wakes;
	int result = ky_wakes_open(&wakes);

	if (!result) {
		ky_wakes_close(wakes);
		(void)ky_doctor_add(doctor, "wake_ups",
				    "are reported (tracefs): when a wait ended, and what ended it");
		return;
	}
	if (result == -ENOENT)
		check = ky_doctor_add(doctor, "wake_ups", "tracefs is not mounted");
	else if (result == -ENODATA)
		check = ky_doctor_add(doctor, "wake_ups",
				      "perf_event opens but does not report all of ours (a pid "
				      "namespace, or a CPU whose interrupts it misses)");
	else
		check = ky_doctor_add(doctor, "wake_ups", "refused when tried: %s",
				      kymo_error_text(result));
	ky_doctor_effect(check, KY_DOCTOR_LIMITED,
			 "blocked and runnable time have bounds only (growth of run_delay); what "
			 "ended a wait is not recorded");
	if (result == -ENOENT)
		ky_doctor_fix(check, "sudo mount -t tracefs tracefs /sys/kernel/tracing, then "
				     "sudo kymo run");
	else if (result == -EACCES || result == -EPERM)
		ky_doctor_fix(check, "sudo kymo run");
}

static void check_timers(struct ky_doctor *doctor, int refusal, bool has_perf)
{
	struct ky_doctor_check *check;

	if (!refusal) {
		(void)ky_doctor_add(doctor, "cpu_timers", "can be made");
		return;
	}
	check = ky_doctor_add(doctor, "cpu_timers", "refused when tried: %s", strerror(refusal));
	ky_doctor_effect(check, KY_DOCTOR_LIMITED,
			 has_perf ? "nothing stands in where perf_event is refused" :
				    "no CPU samples, for perf_event is refused, too");
}

static void check_kernel_names(struct ky_doctor *doctor)
{
	struct ky_doctor_check *check;
	char line[256], restrict_text[32];
	bool is_shown = ky_read_first_line("/proc/kallsyms", line, sizeof(line)) &&
			strtoull(line, NULL, 16) != 0;

	if (!ky_read_first_line("/proc/sys/kernel/kptr_restrict", restrict_text,
				sizeof(restrict_text)))
		(void)snprintf(restrict_text, sizeof(restrict_text), "unreadable");
	check = ky_doctor_add(doctor, "kernel_symbols", "%s (kptr_restrict is %s)",
			      is_shown ? "readable" : "hidden", restrict_text);
	if (is_shown)
		return;
	ky_doctor_effect(check, KY_DOCTOR_LIMITED, "frames of the kernel have no names");
	ky_doctor_fix(check, "sudo sysctl kernel.kptr_restrict=0 kernel.perf_event_paranoid=1");
}

static void check_yama(struct ky_doctor *doctor)
{
	struct ky_doctor_check *check;
	char scope[32];

	if (!ky_read_first_line("/proc/sys/kernel/yama/ptrace_scope", scope, sizeof(scope))) {
		(void)ky_doctor_add(doctor, "ptrace", "no Yama: own processes may be attached to");
		return;
	}
	check = ky_doctor_add(doctor, "ptrace", "yama/ptrace_scope is %s", scope);
	if (scope[0] == '0' || (geteuid() == 0 && scope[0] != '3'))
		return;
	ky_doctor_effect(check, KY_DOCTOR_LIMITED,
			 "kymo attach and stacks of stuck threads need a parent, or root; kymo run "
			 "is a parent");
	if (scope[0] != '3')
		ky_doctor_fix(check, "sudo sysctl kernel.yama.ptrace_scope=0");
}

static void check_room(struct ky_doctor *doctor)
{
	char size[KY_OUT_CELL_BYTES], left[KY_OUT_CELL_BYTES];
	struct ky_doctor_check *check;
	struct statvfs room;
	uint64_t free_bytes;

	if (statvfs("/dev/shm", &room) != 0) {
		check = ky_doctor_add(doctor, "shared_memory", "/dev/shm: %s", strerror(errno));
		ky_doctor_effect(check, KY_DOCTOR_LIMITED,
				 "the ring is in anonymous memory: no kymo dump or recover");
		ky_doctor_fix(check, "sudo mount -t tmpfs -o size=1g,mode=1777 tmpfs /dev/shm");
		return;
	}
	if (room.f_flag & ST_RDONLY) {
		check = ky_doctor_add(doctor, "shared_memory", "/dev/shm is mounted read-only");
		ky_doctor_effect(check, KY_DOCTOR_NONE,
				 "kymo run has no place for the ring: CMD runs unrecorded");
		ky_doctor_fix(check, "kymo run --ring-dir DIRECTORY ... (on a tmpfs that can be "
				     "written, as docker run --tmpfs /run/kymo makes one)");
		return;
	}
	free_bytes = (uint64_t)room.f_bavail * room.f_frsize;
	check = ky_doctor_add(doctor, "shared_memory", "/dev/shm has %s, %s of it free",
			      ky_out_bytes(size, (uint64_t)room.f_blocks * room.f_frsize),
			      ky_out_bytes(left, free_bytes));
	if (free_bytes >= RING_BYTES_DEFAULT + (4u << 20))
		return;
	ky_doctor_effect(check, KY_DOCTOR_LIMITED,
			 free_bytes < ROOM_BYTES_MIN ?
				 "too little for any ring: kymo run records nothing" :
				 "less than one ring of 32 MiB: the ring gets smaller, and keeps "
				 "less or loses records; --ring-bytes does not help");
	if (free_bytes < ROOM_BYTES_MIN)
		check->state = KY_DOCTOR_NONE;
	ky_doctor_fix(check, "sudo mount -o remount,size=1g /dev/shm (docker run --shm-size=1g)");
}

static void check_file_size(struct ky_doctor *doctor)
{
	struct ky_doctor_check *check;
	char size[KY_OUT_CELL_BYTES];
	struct rlimit limit;

	if (getrlimit(RLIMIT_FSIZE, &limit) != 0 || limit.rlim_cur == RLIM_INFINITY)
		return;
	check = ky_doctor_add(doctor, "file_size", "files may have %s",
			      ky_out_bytes(size, limit.rlim_cur));
	if (limit.rlim_cur >= 4 * RING_BYTES_DEFAULT)
		return;
	ky_doctor_effect(check, KY_DOCTOR_LIMITED,
			 "the ring gets smaller, or has no room for "
			 "stacks");
	ky_doctor_fix(check, "ulimit -f unlimited");
}

static void check_clock(struct ky_doctor *doctor)
{
	struct ky_doctor_check *check;
	char source[64];

	if (!ky_read_first_line("/sys/devices/system/clocksource/clocksource0/current_clocksource",
				source, sizeof(source)))
		(void)snprintf(source, sizeof(source), "unknown");
	check = ky_doctor_add(doctor, "clock", "the kernel's clock source is %s", source);
	if (strcmp(source, "tsc") == 0 || strcmp(source, "kvm-clock") == 0 ||
	    strcmp(source, "arch_sys_counter") == 0 || strcmp(source, "unknown") == 0)
		return;
	ky_doctor_effect(check, KY_DOCTOR_LIMITED,
			 "reading the clock may take a system call: "
			 "events cost more");
}

static void check_seccomp(struct ky_doctor *doctor)
{
	FILE *file = fopen("/proc/self/status", "re");
	char line[256];
	int mode = -1;

	while (file && fgets(line, sizeof(line), file))
		if (strncmp(line, "Seccomp:", 8) == 0)
			mode = (int)strtol(line + 8, NULL, 10);
	if (file)
		(void)fclose(file);
	if (mode >= 0)
		(void)ky_doctor_add(doctor, "seccomp",
				    mode ? "a filter is at work: what it refuses stands above" :
					   "no filter");
}

void ky_doctor_machine(struct ky_doctor *doctor)
{
	int timer_refusal = try_timer();
	bool has_perf = check_perf(doctor, timer_refusal == 0);

	check_switches(doctor);
	check_timers(doctor, timer_refusal, has_perf);
	check_wake_ups(doctor);
	check_kernel_names(doctor);
	check_yama(doctor);
	check_seccomp(doctor);
	check_room(doctor);
	check_file_size(doctor);
	check_clock(doctor);
}
