// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/*
 * start OUT ERR SECONDS COMMAND...: runs a tracer, and reports on stdout when it is attached. This
 * works for any tracer: once it is attached, its descriptors of BPF objects, perf events and trace
 * files no longer change, and it sleeps.
 *
 *   attached PID MS      MS from the start to the last change of those descriptors
 *   ended STATUS KB      its exit status (128 + signal), and its peak of resident memory
 *
 * Without the first line it ended too early, or was not attached after SECONDS and was killed.
 */
#define _GNU_SOURCE
#include <dirent.h>
#include <fcntl.h>
#include <signal.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define LOOK_EVERY_US 5000
/* Attached: no change for QUIET_MS, and then asleep at LOOKS_ASLEEP checks in a row. */
#define QUIET_MS     500
#define LOOKS_ASLEEP 3

/* Descriptors that a tracer holds while it traces: how their targets begin in /proc/PID/fd. */
static const char *const TRACING[] = {
	"anon_inode:bpf",
	"anon_inode:[perf_event]",
	"/sys/kernel/debug/",
	"/sys/kernel/tracing/",
};

static double now_ms(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return now.tv_sec * 1e3 + now.tv_nsec / 1e6;
}

static bool is_tracing(const char *target)
{
	for (size_t i = 0; i < sizeof(TRACING) / sizeof(TRACING[0]); i++) {
		if (!strncmp(target, TRACING[i], strlen(TRACING[i])))
			return true;
	}
	return false;
}

/* A number for the set of these descriptors: the same for the same set, 0 for none. */
static uint64_t look(pid_t pid)
{
	char path[300], target[64];
	struct dirent *entry;
	uint64_t sum = 0;
	DIR *dir;

	snprintf(path, sizeof(path), "/proc/%d/fd", pid);
	dir = opendir(path);
	if (!dir)
		return 0;
	while ((entry = readdir(dir))) {
		ssize_t length = readlinkat(dirfd(dir), entry->d_name, target, sizeof(target) - 1);

		if (length <= 0)
			continue;
		target[length] = 0;
		if (is_tracing(target))
			sum = sum * 31 + atoi(entry->d_name) + 1;
	}
	closedir(dir);
	return sum;
}

static bool asleep(pid_t pid)
{
	char path[64], stat[512] = "", *state;
	FILE *file;

	snprintf(path, sizeof(path), "/proc/%d/stat", pid);
	file = fopen(path, "r");
	if (!file)
		return false;
	/* PID (NAME) STATE ...; the name may contain any character */
	if (!fgets(stat, sizeof(stat), file))
		stat[0] = 0;
	fclose(file);
	state = strrchr(stat, ')');
	return state && !strncmp(state, ") S", 3);
}

/* Waits until it is attached. Returns the milliseconds since `begin`; negative: it never was. */
static double until_attached(pid_t pid, double begin, double limit_ms)
{
	double changed = begin;
	uint64_t before = 0;
	int sleeps = 0;

	for (;;) {
		siginfo_t ended = {};
		uint64_t held = look(pid);
		double now = now_ms();

		if (waitid(P_PID, pid, &ended, WEXITED | WNOHANG | WNOWAIT) || ended.si_pid)
			return -1;
		if (now - begin > limit_ms) {
			kill(pid, SIGKILL);
			return -1;
		}
		if (held != before) {
			before = held;
			changed = now;
		}
		if (held && now - changed > QUIET_MS) {
			sleeps = asleep(pid) ? sleeps + 1 : 0;
			if (sleeps == LOOKS_ASLEEP)
				return changed - begin;
		}
		usleep(LOOK_EVERY_US);
	}
}

static void become(char **command, const char *out, const char *err)
{
	int to_out = open(out, O_WRONLY | O_CREAT | O_TRUNC, 0644);
	int to_err = open(err, O_WRONLY | O_CREAT | O_TRUNC, 0644);
	int from = open("/dev/null", O_RDONLY);

	setsid();
	dup2(from, STDIN_FILENO);
	dup2(to_out, STDOUT_FILENO);
	dup2(to_err, STDERR_FILENO);
	execvp(command[0], command);
	perror(command[0]);
	_exit(127);
}

int main(int argc, char **argv)
{
	double begin = now_ms(), attached;
	struct rusage usage;
	int status;
	pid_t pid;

	if (argc < 5) {
		fprintf(stderr, "usage: start OUT ERR SECONDS COMMAND...\n");
		return 2;
	}
	pid = fork();
	if (!pid)
		become(argv + 4, argv[1], argv[2]);
	attached = until_attached(pid, begin, atof(argv[3]) * 1e3);
	if (attached >= 0) {
		printf("attached %d %.0f\n", pid, attached);
		fflush(stdout);
	}
	if (wait4(pid, &status, 0, &usage) != pid) {
		perror("start");
		return 1;
	}
	printf("ended %d %ld\n", WIFSIGNALED(status) ? 128 + WTERMSIG(status) : WEXITSTATUS(status),
	       usage.ru_maxrss);
	return 0;
}
