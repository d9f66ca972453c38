// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/*
 * Runs the programs that observe submitters on a model of bios: tasks and a kernel thread submit
 * them, blk-throttle lets some wait and a kernel thread queues them later, the block layer splits
 * some, and all use the same few addresses and sectors again. Each request must have the task that
 * submitted its bio. tests/places.rs runs it:
 *
 *   submitters SEED STEPS OLD
 *
 * OLD: before 5.18, where blk-throttle looks at each bio, and again at those that have waited.
 * Prints the number of requests, of bios that waited, of pieces, and of requests with a wrong
 * submitter.
 */
#define ND_WHO
#define OWN_BIOS
#include <stddef.h>
static void *submitter_at(unsigned long long bio);
static long bpf_map_update_elem(void *map, const void *key, const void *value, int flags);
static long bpf_map_delete_elem(void *map, const void *key);
#include "stubs.h"

#define BIOS	   6
#define TASKS	   4 /* thread ids from 1 on; the last is that of writeback */
#define DISPATCHER 99
#define BLOCK	   4096

enum state { FREE, LIMITED, QUEUED };

static struct gendisk disk = {.disk_name = "nvme0n1"};
static struct bio memory[BIOS];
static struct life {
	enum state state;
	u32 submitter;
	int limited, rest;
} lives[BIOS];
static struct entry {
	int is_used;
	struct nd_submitter by;
} entries[BIOS];
static int old;
static u64 requests, waited, pieces, wrong;

static void *submitter_at(u64 bio)
{
	u64 i = (struct bio *)bio - memory;

	return i < BIOS && entries[i].is_used ? &entries[i].by : 0;
}

static long bpf_map_update_elem(void *map, const void *key, const void *value, int flags)
{
	u64 i = *(struct bio *const *)key - memory;

	if (map == (void *)&submitters && i < BIOS)
		entries[i] = (struct entry){1, *(const struct nd_submitter *)value};
	return 0;
}

static long bpf_map_delete_elem(void *map, const void *key)
{
	u64 i = *(struct bio *const *)key - memory;

	if (map == (void *)&submitters && i < BIOS)
		entries[i].is_used = 0;
	return 0;
}

static void run_as(u32 tid)
{
	current_tid = tid;
	current_task.flags = tid >= TASKS ? PF_KTHREAD_FLAG : 0;
}

/* submit_bio_noacct(): blk-throttle, then the queue. The rest of a bio was queued before. */
static void submit(u32 i, u32 tid, int waits)
{
	u64 bio = (u64)&memory[i];

	run_as(tid);
	if (old || lives[i].limited)
		on_bio_limited(bio, ND_HOOK_SUBMIT_LIMIT_FENTRY);
	if (waits) {
		waited++;
		lives[i].state = LIMITED;
		return;
	}
	if (!lives[i].rest)
		on_bio_submitted(bio, ND_HOOK_SUBMIT_BTF);
	lives[i].state = QUEUED;
}

/* A kernel thread passes on a bio that has waited. */
static void dispatch(u32 i)
{
	lives[i].limited = old && lives[i].limited; /* later it does not pass blk-throttle again */
	submit(i, DISPATCHER, 0);
}

static void begin(u32 i)
{
	struct bvec_iter *iter = &memory[i].bi_iter;
	u32 tid = 1 + random_below(TASKS);

	/* the sector after the last one here, the same again, or that of another bio */
	if (random_below(3) == 0)
		iter->bi_sector += iter->bi_size >> 9;
	else if (random_below(2) == 0)
		iter->bi_sector = random_below(4) * 8;
	iter->bi_size = (1 + random_below(4)) * BLOCK;
	memory[i].bi_disk = &disk;
	lives[i] = (struct life){.submitter = tid, .limited = random_below(2)};
	submit(i, tid, lives[i].limited && random_below(2));
}

/* Splits a piece off, which begins where the bio did. The task that queued it submits the rest. */
static void split(u32 i, u32 piece)
{
	struct bvec_iter *iter = &memory[i].bi_iter;

	memory[piece] = memory[i];
	memory[piece].bi_iter.bi_size = BLOCK;
	memory[piece].bi_private = &memory[i];
	iter->bi_sector += BLOCK >> 9;
	iter->bi_size -= BLOCK;
	lives[piece] = lives[i];
	lives[i].rest = 1;
	on_submitted_split((u64)&memory[piece], ND_HOOK_SUBMIT_SPLIT_BTF);
	pieces++;
	submit(i, current_tid, lives[i].limited && random_below(2));
}

/* The set-up of the command, by any task. */
static void start_request(u32 i)
{
	struct request rq = {.bio = &memory[i], .__sector = memory[i].bi_iter.bi_sector};
	struct nd_origin found;
	u32 within;

	run_as(1 + random_below(TASKS));
	find_submitter(&found, &rq, &within, TYPED);
	requests++;
	if (found.tid != lives[i].submitter)
		wrong++;
	lives[i].state = FREE;
}

static void step(void)
{
	u32 i = random_below(BIOS), other = random_below(BIOS);

	switch (lives[i].state) {
	case FREE:
		begin(i);
		break;
	case LIMITED:
		dispatch(i);
		break;
	case QUEUED:
		if (memory[i].bi_iter.bi_size > BLOCK && lives[other].state == FREE &&
		    random_below(2)) {
			run_as(lives[i].submitter);
			split(i, other);
		} else if (random_below(20) == 0) { /* it needs no request */
			on_submitted_done((u64)&memory[i], ND_HOOK_SUBMIT_DONE_BTF);
			lives[i].state = FREE;
		} else {
			start_request(i);
		}
	}
}

int main(int argc, char **argv)
{
	u64 steps = argc == 4 ? strtoull(argv[2], 0, 10) : 0;

	if (!steps)
		return 2;
	seed = strtoull(argv[1], 0, 10);
	old = atoi(argv[3]);
	cfg_who = ND_WHO_ORIGIN | ND_WHO_SUBMITTER;
	while (steps--)
		step();
	printf("%llu %llu %llu %llu\n", requests, waited, pieces, wrong);
	return 0;
}
