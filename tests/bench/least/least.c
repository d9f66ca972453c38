// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/*
 * least OBJECT PREFIX...: runs the programs of least.bpf.c that have one of these prefixes in their
 * name, until SIGINT. Then prints the number of commands in the first histogram (of all rows), or
 * the number of records.
 */
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <time.h>
#include <bpf/libbpf.h>

/* As in least.bpf.c; the sum comes before the buckets. */
#define STAGES 9
#define WORDS  65
/* As in rows.bpf.h. */
#define ALL_ROW	 5
#define ROW_HEAD (1 + ALL_ROW)

static int chosen(const char *name, char **prefixes)
{
	for (; *prefixes; prefixes++)
		if (!strncmp(name, *prefixes, strlen(*prefixes)))
			return 1;
	return 0;
}

static int take(void *seen, void *record, size_t size)
{
	++*(uint64_t *)seen;
	return 0;
}

int main(int argc, char **argv)
{
	const struct timespec pause = {.tv_nsec = 50000000};
	struct ring_buffer *records;
	struct bpf_object *object;
	struct bpf_program *program;
	uint64_t hists[STAGES][WORDS], row[ROW_HEAD + ALL_ROW * WORDS], seen = 0;
	struct bpf_map *map;
	sigset_t set;

	if (argc < 3) {
		fprintf(stderr, "least OBJECT PREFIX...\n");
		return 2;
	}
	sigemptyset(&set);
	sigaddset(&set, SIGINT);
	sigprocmask(SIG_BLOCK, &set, NULL);
	object = bpf_object__open_file(argv[1], NULL);
	if (!object)
		return 1;
	bpf_object__for_each_program(program, object)
	{
		bpf_program__set_autoload(program, chosen(bpf_program__name(program), argv + 2));
	}
	if (bpf_object__load(object))
		return 1;
	bpf_object__for_each_program(program, object)
	{
		if (bpf_program__autoload(program) && !bpf_program__attach(program))
			return 1;
	}
	records = ring_buffer__new(bpf_object__find_map_fd_by_name(object, "records"), take, &seen,
				   NULL);
	if (!records)
		return 1;
	while (sigtimedwait(&set, NULL, &pause) < 0)
		ring_buffer__consume(records);
	ring_buffer__consume(records);
	map = bpf_object__find_map_by_name(object, ".data.hists");
	if (!map || bpf_map__value_size(map) != sizeof(hists) ||
	    bpf_map__lookup_elem(map, &(uint32_t){0}, sizeof(uint32_t), hists, sizeof(hists), 0))
		return 1;
	for (int i = 1; i < WORDS; i++)
		seen += hists[0][i];
	map = bpf_object__find_map_by_name(object, "rows");
	for (uint32_t at = 0; map && at < bpf_map__max_entries(map); at++) {
		if (bpf_map__lookup_elem(map, &at, sizeof(at), row, sizeof(row), 0))
			return 1;
		for (int i = 1; i < WORDS; i++)
			seen += row[ROW_HEAD + i];
	}
	printf("seen %llu\n", (unsigned long long)seen);
	return 0;
}
