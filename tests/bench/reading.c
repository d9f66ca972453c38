// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/*
 * reading: the CPU time of looking for commands in flight on a machine with 3 million tags, in this
 * machine's kernel, on maps that it makes. Two ways:
 *
 *   copied   each tag has a slot, and the kernel copies every slot (BPF_MAP_LOOKUP_BATCH)
 *   mapped   tags share slots as in src/session/layout.rs, whose pages are mapped, and of each slot
 * one word is read, as src/session/queues.rs does
 *
 * Needs root: cc -O2 -o target/reading tests/bench/reading.c && target/reading
 */
#include <linux/bpf.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

#define TAGS   (24 * 129 * 1024) /* 24 controllers of 129 queues */
#define SLOTS  ((1 << 17) + (1 << 18))
#define SLOT   64 /* bytes, without --stages=fine */
#define STATE  56 /* offset in a slot */
#define BATCH  1024
#define TURNS  5
#define MAPPED ((size_t)SLOTS * SLOT)

static void die(const char *what)
{
	perror(what);
	exit(1);
}

static int bpf(int command, union bpf_attr *attr)
{
	return (int)syscall(SYS_bpf, command, attr, sizeof(*attr));
}

static int make(unsigned int entries, unsigned int flags)
{
	union bpf_attr attr = {
		.map_type = BPF_MAP_TYPE_ARRAY,
		.key_size = sizeof(uint32_t),
		.value_size = SLOT,
		.max_entries = entries,
		.map_flags = flags,
	};
	int map = bpf(BPF_MAP_CREATE, &attr);

	if (map < 0)
		die("a map");
	return map;
}

/* Returns the slots that were read. */
static unsigned int copied(int map, unsigned int *open)
{
	static uint32_t keys[BATCH], from, next;
	static char slots[BATCH][SLOT];
	unsigned int seen = 0;
	int last = 0;

	for (int first = 1; !last; first = 0, from = next) {
		union bpf_attr attr = {
			.batch =
				{
					.in_batch = first ? 0 : (uintptr_t)&from,
					.out_batch = (uintptr_t)&next,
					.keys = (uintptr_t)keys,
					.values = (uintptr_t)slots,
					.count = BATCH,
					.map_fd = map,
				},
		};

		last = bpf(BPF_MAP_LOOKUP_BATCH, &attr);
		for (unsigned int i = 0; i < attr.batch.count; i++)
			*open += slots[i][STATE];
		seen += attr.batch.count;
	}
	return seen;
}

static unsigned int mapped(int map, unsigned int *open)
{
	const volatile uint64_t *words = mmap(NULL, MAPPED, PROT_READ, MAP_SHARED, map, 0);

	if (words == MAP_FAILED)
		die("mmap");
	for (size_t i = 0; i < SLOTS; i++)
		*open += words[i * (SLOT / 8) + STATE / 8] >> STATE % 8 * 8 & 0xff;
	munmap((void *)words, MAPPED);
	return SLOTS;
}

static double cpu_ms(void)
{
	struct rusage r;

	getrusage(RUSAGE_SELF, &r);
	return (double)(r.ru_utime.tv_sec + r.ru_stime.tv_sec) * 1e3 +
	       (double)(r.ru_utime.tv_usec + r.ru_stime.tv_usec) / 1e3;
}

int main(void)
{
	int all = make(TAGS, 0), shared = make(SLOTS, BPF_F_MMAPABLE);
	unsigned int open = 0, seen = 0;

	for (int way = 0; way < 2; way++) {
		double begin = cpu_ms();

		for (int i = 0; i < TURNS; i++)
			seen = way ? mapped(shared, &open) : copied(all, &open);
		printf("%s: %u slots, %.1f ms\n", way ? "mapped" : "copied", seen,
		       (cpu_ms() - begin) / TURNS);
	}
	return open != 0;
}
