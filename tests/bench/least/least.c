// SPDX-License-Identifier: GPL-2.0
/*
 * least OBJECT PREFIX: runs those programs of least.bpf.c whose names begin with PREFIX, until
 * SIGINT, and then prints how many commands the first histogram has.
 */
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <bpf/libbpf.h>

/* As in least.bpf.c; the sum comes before the buckets. */
#define STAGES 5
#define WORDS  65

int main(int argc, char **argv)
{
	struct bpf_object *object;
	struct bpf_program *program;
	uint64_t hists[STAGES][WORDS], seen = 0;
	struct bpf_map *map;
	sigset_t set;
	int signal;

	if (argc != 3) {
		fprintf(stderr, "least OBJECT PREFIX\n");
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
		const char *name = bpf_program__name(program);

		bpf_program__set_autoload(program, !strncmp(name, argv[2], strlen(argv[2])));
	}
	if (bpf_object__load(object))
		return 1;
	bpf_object__for_each_program(program, object)
	{
		if (bpf_program__autoload(program) && !bpf_program__attach(program))
			return 1;
	}
	sigwait(&set, &signal);
	map = bpf_object__find_map_by_name(object, ".data.hists");
	if (!map || bpf_map__value_size(map) != sizeof(hists) ||
	    bpf_map__lookup_elem(map, &(uint32_t){0}, sizeof(uint32_t), hists, sizeof(hists), 0))
		return 1;
	for (int i = 1; i < WORDS; i++)
		seen += hists[0][i];
	printf("seen %llu\n", (unsigned long long)seen);
	return 0;
}
