// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/* The timer of a CPU: it is late once, and the CPU is offline once. Prints the gaps, and since when
 * the CPU has had its timer. */
#include "stubs.h"

#define MS 1000000ull

static u64 opened_ns;

static long bpf_perf_prog_read_value(void *ctx, void *value, unsigned size)
{
	((u64 *)value)[1] = now_ns - opened_ns;
	return 0;
}

struct bpf_perf_event_value {
	u64 counter, enabled, running;
};

#include "activity.bpf.h"

static struct nd_activity cpu;

static void run(int ms)
{
	while (ms--) {
		now_ns += MS;
		on_tick(&cpu, NULL);
	}
}

int main(void)
{
	now_ns = 1000 * MS;
	opened_ns = now_ns;
	run(100);
	now_ns += 9 * MS; /* something keeps the CPU from its timer */
	run(100);
	printf("%llu %llu %llu ", cpu.gaps, cpu.gap_ns / MS, cpu.timed_ns / MS);
	now_ns += 2000 * MS; /* offline */
	opened_ns = now_ns;
	run(100);
	now_ns += 4 * MS;
	run(1);
	printf("%llu %llu %llu\n", cpu.gaps, cpu.gap_ns / MS, cpu.timed_ns / MS);
	return 0;
}
