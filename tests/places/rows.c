// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/*
 * Tests that rows do not run out. Runs the unmodified C of the BPF programs on commands of kinds
 * that appear one after the other, with random points missing, as after a long run on a preemptible
 * kernel. tests/places.rs runs it.
 *
 *   rows SEED COMMANDS MODE RARITY
 *
 * MODE 3: the full stages. The larger RARITY is, the more rarely points are missing.
 *
 * Two controllers with a namespace each have the smallest table: 64 rows. Prints the number of
 * commands, of those without a row, of those with fewer points than observed, of wrong results
 * (cells whose stages do not add up to the total, kinds whose commands or bytes are not in their
 * rows), and of reserved rows for commands with all points.
 */
#define WITH_KFUNC
#define OWN_ROWS

typedef unsigned long long word;
static void *row_of(word key);
static void *cell_at(unsigned int index);
static void *rowless_of(word key);
static int add_to(void *map, const word *key, const unsigned int *row);
static unsigned int next_row;
#define bpf_map_update_elem(map, key, value, flags) add_to(map, (void *)(key), (void *)(value))
#define bpf_map_push_elem(...)			    0
#define bpf_map_peek_elem(map, value)		    (*(value) = next_row, next_row == ROWS)
#define bpf_map_pop_elem(map, value)		    (next_row == ROWS ? -1 : (*(value) = next_row++, 0))

#define ROWS  64
#define KINDS (2 * (6 + 8))

#include "stubs.h"

const struct kernel_stat kstat;

static word row_keys[ROWS];
static u32 row_numbers[ROWS], rows_known;
static struct nd_cell cell_map[ROWS];

static void *row_of(word key)
{
	for (u32 i = 0; i < rows_known; i++)
		if (row_keys[i] == key)
			return &row_numbers[i];
	return 0;
}

static word rowless_keys[KINDS];
static struct nd_rowless rowless_sums[KINDS];
static u32 rowless_known;

static void *rowless_of(word key)
{
	for (u32 i = 0; i < rowless_known; i++)
		if (rowless_keys[i] == key)
			return &rowless_sums[i];
	return 0;
}

static int add_to(void *map, const word *key, const u32 *row)
{
	if (map == (void *)&rowless) {
		if (rowless_of(*key))
			return -1;
		rowless_keys[rowless_known++] = *key;
		return 0;
	}
	row_keys[rows_known] = *key;
	row_numbers[rows_known++] = *row;
	return 0;
}

static void *cell_at(u32 index)
{
	return index < ROWS ? &cell_map[index] : 0;
}

/* Opcodes in the order of their appearance: of I/O queues, of admin queues. */
static const u8 opcodes[2][8] = {{2, 1, 0, 9, 8, 5}, {6, 2, 10, 9, 0x18, 0xc, 5, 1}};

struct kind {
	u64 key, commands, bytes;
};

static struct kind kinds[KINDS];

static void make_kinds(void)
{
	u32 n = 0;

	for (u32 i = 0; i < 8; i++)
		for (u32 admin = 0; admin < 2; admin++)
			for (u32 ctrl = 0; ctrl < 2; ctrl++)
				if (admin || i < 6)
					kinds[n++].key =
						key_of(ctrl, !admin, opcodes[admin][i], admin);
}

static u32 rarity = 1;

/* The time of a point; 0: not observed, once in `one_in` commands, times `rarity`. */
static u64 passed(u64 *now, u32 one_in)
{
	*now += 1 + random_below(1000);
	return random_below(one_in * rarity) ? *now : 0;
}

/* The waits of a command with a start; some have none. */
static void wait_before(struct nd_slot *s)
{
	struct nd_waits *w = waits_in(s);

	*w = (struct nd_waits){};
	if (!cfg_waits || !s->start_ns || !random_below(4 * rarity))
		return;
	w->start_ns = s->start_ns;
	w->tag_ns = random_below(100);
	w->bio_ns = s->start_ns - w->tag_ns - random_below(100);
	w->submit_ns = w->bio_ns - random_below(100);
}

static void command(struct nd_slot *s, struct kind *kind)
{
	u32 fine = cfg_mode == ND_MODE_FINE;
	u64 now = 1000, complete, end;

	keep_key(s, kind->key);
	s->bytes = random_below(1 << 17);
	s->start_ns = passed(&now, 4);
	s->setup_in_ns = passed(&now, 4);
	s->setup_out_ns = passed(&now, 40);
	s->issue_ns = passed(&now, 4);
	s->doorbell_ns = passed(&now, 4);
	s->irq_ns = passed(&now, 4);
	s->cqe_ns = passed(&now, 4);
	complete = passed(&now, 40);
	end = fine ? passed(&now, 4) : 0;
	if (!s->setup_out_ns) /* found by its CQE or its completion */
		s->start_ns = s->setup_in_ns = s->issue_ns = s->doorbell_ns = 0;
	wait_before(s);
	kind->commands++;
	kind->bytes += s->bytes;
	if (complete && (!fine || end))
		finish(s, &cpu_map[0], complete, end);
	else
		finish_partial(s, &cpu_map[0], complete, end);
}

/* Whether the stages of a cell add up to its total, and counts its commands. */
static u64 commands_of(struct nd_cell *c, u64 *wrong)
{
	u32 stages = cfg_mode == ND_MODE_FINE	 ? ND_STAGES_FINE
		     : cfg_mode == ND_MODE_BASIC ? ND_STAGES_BASIC
						 : ND_STAGES_TOTAL;
	struct nd_hist *total = &c->hist[stages - 1];
	u64 sum = 0, n = 0;

	for (u32 i = 0; i + 1 < stages; i++)
		sum += c->hist[i].sum_ns;
	for (u32 i = ND_STAGES_FINE; cfg_waits && i < ND_STAGES_FULL; i++)
		sum += c->hist[i].sum_ns;
	*wrong += stages > 1 && sum != total->sum_ns;
	for (u32 i = 0; i < ND_HIST_BUCKETS; i++)
		n += total->bucket[i];
	return n + c->unmeasured;
}

/* Reserved rows of commands that were observed at all points. */
static u32 reserved_for_usual(void)
{
	u32 usual = ND_SAW_ALL | (cfg_waits ? ND_SAW_BIO : 0), n = 0;

	for (u32 r = 0; r < rows_known; r++)
		n += row_numbers[r] >= ROWS - ROWS / 8 && (row_keys[r] & ND_PATTERN) == usual;
	return n;
}

int main(int argc, char **argv)
{
	static struct nd_slot slot;
	u64 wrong = 0, no_row, fewer;
	long n;

	if (argc != 5)
		return 2;
	seed = strtoull(argv[1], 0, 0);
	n = strtol(argv[2], 0, 0);
	cfg_mode = strtoul(argv[3], 0, 0);
	if (cfg_mode > ND_MODE_FINE) { /* the full stages */
		cfg_mode = ND_MODE_FINE;
		cfg_waits = 1;
	}
	rarity = strtoul(argv[4], 0, 0);
	cfg_rows = ROWS;
	cfg_recover = 1;
	cfg_end = cfg_mode == ND_MODE_FINE;
	make_kinds();
	for (long i = 0; i < n; i++)
		command(&slot, &kinds[random_below(1 + (u32)(i * KINDS / n))]);
	for (u32 k = 0; k < KINDS; k++) {
		u64 commands = 0, bytes = 0;

		for (u32 r = 0; r < rows_known; r++) {
			struct nd_cell *c = &cell_map[row_numbers[r]];

			if ((row_keys[r] ^ kinds[k].key) & ~ND_PATTERN)
				continue;
			commands += commands_of(c, &wrong);
			bytes += c->bytes;
		}
		for (u32 r = 0; r < rowless_known; r++) {
			if ((rowless_keys[r] ^ kinds[k].key) & ~ND_PATTERN)
				continue;
			commands += rowless_sums[r].commands;
			bytes += rowless_sums[r].bytes;
		}
		wrong += commands != kinds[k].commands || bytes != kinds[k].bytes;
	}
	no_row = cpu_map[0].count[ND_NO_ROW];
	fewer = cpu_map[0].count[ND_FEWER_POINTS];
	printf("%ld %llu %llu %llu %u\n", n, no_row, fewer, wrong, reserved_for_usual());
	return 0;
}
