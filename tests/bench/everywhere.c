// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/*
 * everywhere CPUS COMMAND...: runs a command on each of CPUs 0 to CPUS - 1 at the same time, pinned
 * to it, between the marks for lines.c. Fails if one of them does.
 */
#define _GNU_SOURCE
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

#include "mark.h"

int main(int argc, char **argv)
{
	long cpus = argc > 2 ? atol(argv[1]) : 0;
	int status, failed = 0;

	if (cpus < 1 || cpus > 64) {
		fprintf(stderr, "usage: everywhere CPUS COMMAND...\n");
		return 2;
	}
	mark(MARK_LINES_BEGIN);
	for (long cpu = 0; cpu < cpus; cpu++) {
		if (!fork()) {
			cpu_set_t set;

			CPU_ZERO(&set);
			CPU_SET(cpu, &set);
			if (!sched_setaffinity(0, sizeof(set), &set))
				execv(argv[2], argv + 2);
			_exit(127);
		}
	}
	while (wait(&status) > 0)
		failed |= status;
	mark(MARK_LINES_END);
	return !!failed;
}
