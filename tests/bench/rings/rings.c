// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/*
 * rings OBJECT: the time that a record takes from its reservation to its submission, for one CPU,
 * for two CPUs with one ring, and for two CPUs with a ring each: the median of many runs. Needs two
 * CPUs, and root.
 */
#define _GNU_SOURCE
#include <pthread.h>
#include <sched.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>
#include <bpf/bpf.h>
#include <bpf/libbpf.h>

#define RUNS	20000
#define RECORDS 256 /* of a run, as in rings.bpf.c */

static int program;
static volatile uint64_t *consumed[2], *produced[2];

struct worker {
	uint32_t cpu, ring;
	pthread_t thread;
	uint32_t ns[RUNS];
};

static void *work(void *arg)
{
	struct worker *w = arg;
	uint64_t args[1] = {w->ring};
	LIBBPF_OPTS(bpf_test_run_opts, opts, .ctx_in = args, .ctx_size_in = sizeof(args));
	cpu_set_t cpus;

	CPU_ZERO(&cpus);
	CPU_SET(w->cpu, &cpus);
	sched_setaffinity(0, sizeof(cpus), &cpus);
	for (int i = 0; i < RUNS; i++) {
		if (bpf_prog_test_run_opts(program, &opts))
			exit((perror("rings"), 1));
		w->ns[i] = opts.retval;
		/* All is read. The other writer may set an older position: its ring is then full,
		 * and this run does not count. */
		*consumed[w->ring] = *produced[w->ring];
	}
	return 0;
}

static int by_value(const void *a, const void *b)
{
	return *(const uint32_t *)a < *(const uint32_t *)b ? -1 : 1;
}

static void measure(const char *what, int n, uint32_t ring_of_second)
{
	static struct worker workers[2];
	static uint32_t all[2 * RUNS];
	int runs = 0;

	workers[1] = (struct worker){.cpu = 1, .ring = ring_of_second};
	for (int i = 0; i < n; i++)
		pthread_create(&workers[i].thread, 0, work, &workers[i]);
	for (int i = 0; i < n; i++)
		pthread_join(workers[i].thread, 0);
	for (int i = 0; i < n; i++)
		for (int run = 0; run < RUNS; run++)
			if (workers[i].ns[run])
				all[runs++] = workers[i].ns[run];
	qsort(all, runs, sizeof(*all), by_value);
	printf("%-22s %5.1f ns a record (%d runs)\n", what, (double)all[runs / 2] / RECORDS, runs);
}

int main(int argc, char **argv)
{
	const char *names[] = {"one", "other"};
	struct bpf_object *object;

	object = argc == 2 ? bpf_object__open_file(argv[1], 0) : 0;
	if (!object || bpf_object__load(object))
		return fprintf(stderr, "usage: rings OBJECT\n"), 2;
	program = bpf_program__fd(bpf_object__find_program_by_name(object, "fill"));
	for (int i = 0; i < 2; i++) {
		int ring = bpf_object__find_map_fd_by_name(object, names[i]);
		long page = sysconf(_SC_PAGESIZE);

		consumed[i] = mmap(0, page, PROT_READ | PROT_WRITE, MAP_SHARED, ring, 0);
		produced[i] = mmap(0, page, PROT_READ, MAP_SHARED, ring, page);
		if (consumed[i] == MAP_FAILED || produced[i] == MAP_FAILED)
			return perror("rings"), 1;
	}
	measure("one CPU", 1, 0);
	measure("two CPUs, one ring", 2, 0);
	measure("two CPUs, a ring each", 2, 1);
	return 0;
}
