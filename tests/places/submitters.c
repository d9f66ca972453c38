// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/*
 * Runs the programs that observe submitters on a model of bios: tasks and a kernel thread submit
 * them, blk-throttle lets some wait and a kernel thread queues them later, the block layer splits
 * some, and all use the same few addresses and sectors again. For some bios of a device mapper disk
 * the kernel thread submits a clone, or as dm-crypt does a bio of its own. Each request must have
 * the task that submitted its bio, or the bio above, or nobody if the submission of that was not
 * observed. tests/places.rs runs it:
 *
 *   submitters SEED STEPS OLD
 *
 * OLD: before 5.18, where blk-throttle looks at each bio, and again at those that have waited.
 * A filter selects the commands of one task. Now and then the table has lost the bio of a request.
 * Prints the number of requests, of bios that waited, of pieces, of requests for bios above, of
 * requests with a wrong submitter, of submissions that were lost, and of commands without one.
 */
#define OWN_BIOS
#include "stubs.h"

#define BIOS	   6
#define TASKS	   4 /* thread ids from 1 on; the last is writeback */
#define DISPATCHER 99
#define BLOCK	   4096

enum state { FREE, MAPPED, LIMITED, QUEUED };
enum above { NONE, CLONE, CRYPT };

static struct gendisk disk = {.disk_name = "nvme0n1"}, mapped = {.disk_name = "dm-0"};
/* The bios of the NVMe disk are clones, or have anything before them. */
static struct dm_target_io memory[BIOS];
/* Bios of the device mapper disk, what it has of each, and its clones that dm-crypt does not
 * submit. */
static struct bio above[BIOS];
static struct dm_io ios[BIOS];
static struct dm_target_io bases[BIOS];
static struct dm_crypt_io crypt_ios[BIOS];
static struct life {
	enum state state;
	enum above above;
	u32 submitter;
	u32 owner; /* the bio that this is a piece of, or itself */
	int limited, rest;
} lives[BIOS];
static u32 parts[BIOS]; /* by owner, those that have not ended */
static struct entry {
	int is_used;
	struct nd_submitter by;
} entries[2 * BIOS];
static int old;
static u64 requests, waited, pieces, of_above, wrong, lost, unknown;

static struct entry *entry_at(u64 bio)
{
	u64 first = (u64)above, last = (u64)(above + BIOS);

	if (bio >= first && bio < last)
		return &entries[BIOS + (bio - first) / sizeof(*above)];
	first = (u64)&memory[0].clone;
	return bio >= first && bio < (u64)(memory + BIOS)
		       ? &entries[(bio - first) / sizeof(*memory)]
		       : 0;
}

static int is_bio_map(void *map)
{
	return map == (void *)&submitters;
}

static void *bio_entry(void *map, u64 bio)
{
	struct entry *e = entry_at(bio);

	return e && e->is_used ? &e->by : 0;
}

static long bpf_map_update_elem(void *map, const void *key, const void *value, int flags)
{
	struct entry *e = entry_at(*(const u64 *)key);

	if (map == (void *)&submitters && e)
		*e = (struct entry){1, *(const struct nd_submitter *)value};
	return 0;
}

static long bpf_map_delete_elem(void *map, const void *key)
{
	struct entry *e = entry_at(*(const u64 *)key);

	if (map == (void *)&submitters && e)
		e->is_used = 0;
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
	u64 bio = (u64)&memory[i].clone;

	run_as(tid);
	if (old || lives[i].limited)
		note_submission_of(bio, 1, ND_HOOK_SUBMIT_LIMIT_FENTRY);
	if (waits) {
		waited++;
		lives[i].state = LIMITED;
		return;
	}
	if (!lives[i].rest)
		note_submission_of(bio, 0, ND_HOOK_SUBMIT_BTF);
	lives[i].state = QUEUED;
}

/* A kernel thread passes on a bio that has waited. */
static void dispatch(u32 i)
{
	lives[i].limited = old && lives[i].limited; /* later it does not pass blk-throttle again */
	submit(i, DISPATCHER, 0);
}

/* The sector after the last one here, the same again, or another bio's. */
static void choose(struct bvec_iter *iter)
{
	if (random_below(3) == 0)
		iter->bi_sector += iter->bi_size >> 9;
	else if (random_below(2) == 0)
		iter->bi_sector = random_below(4) * 8;
	iter->bi_size = (1 + random_below(4)) * BLOCK;
}

static void begin(u32 i)
{
	u32 tid = 1 + random_below(TASKS);
	enum above kind = random_below(3);

	/* What lies before the bio may be left from the former one. While pieces of that are open,
	 * the kernel would not use the memory of a clone again. */
	if (parts[i])
		kind = NONE;
	if (parts[i] || random_below(2))
		memory[i].magic = 0;
	lives[i] = (struct life){
		.above = kind, .submitter = tid, .owner = i, .limited = random_below(2)};
	parts[i]++;
	memory[i].clone.bi_disk = &disk;
	memory[i].clone.bi_private = 0;
	memory[i].clone.bi_flags = kind == CLONE ? BIO_IS_CLONE : 0;
	if (kind == NONE) {
		choose(&memory[i].clone.bi_iter);
		submit(i, tid, lives[i].limited && random_below(2));
		return;
	}
	choose(&above[i].bi_iter);
	above[i].bi_disk = &mapped;
	run_as(tid);
	if (random_below(20))
		note_submission_of((u64)&above[i], 0, ND_HOOK_SUBMIT_BTF);
	else
		lives[i].submitter = 0; /* the kernel has skipped the program */
	lives[i].state = MAPPED;
}

/* A kernel thread submits the bio for the one above. */
static void map(u32 i)
{
	struct dm_target_io *tio = lives[i].above == CLONE ? &memory[i] : &bases[i];

	ios[i] = (struct dm_io){.magic = DM_IO_MAGIC, .orig_bio = &above[i]};
	tio->magic = DM_TIO_MAGIC;
	tio->io = &ios[i];
	crypt_ios[i].base_bio = &bases[i].clone;
	if (lives[i].above == CRYPT)
		memory[i].clone.bi_private = &crypt_ios[i];
	memory[i].clone.bi_iter = above[i].bi_iter;
	memory[i].clone.bi_iter.bi_sector += 800;
	submit(i, DISPATCHER, lives[i].limited && random_below(2));
}

/* With its last part, the bio above has ended, too. */
static void end(u32 i)
{
	u32 owner = lives[i].owner;

	if (!--parts[owner])
		on_submitted_done((u64)&above[owner], ND_HOOK_SUBMIT_DONE_BTF);
	lives[i].state = FREE;
}

/* Splits a piece off, which begins where the bio did. The task that queued it submits the rest. */
static void split(u32 i, u32 piece)
{
	struct bvec_iter *iter = &memory[i].clone.bi_iter;

	memory[piece].clone = memory[i].clone;
	memory[piece].clone.bi_iter.bi_size = BLOCK;
	memory[piece].clone.bi_private = &memory[i].clone;
	iter->bi_sector += BLOCK >> 9;
	iter->bi_size -= BLOCK;
	lives[piece] = lives[i];
	parts[lives[i].owner]++;
	lives[i].rest = 1;
	on_submitted_split((u64)&memory[piece].clone, ND_HOOK_SUBMIT_SPLIT_BTF);
	pieces++;
	submit(i, current_tid, lives[i].limited && random_below(2));
}

/* The setup of the command, by any task. */
static void start_request(u32 i)
{
	struct bio *bio = &memory[i].clone;
	struct request rq = {.bio = bio, .__sector = bio->bi_iter.bi_sector};
	struct nd_slot s = {};
	struct nd_sender found;
	int verdict, is_lost = !random_below(50);

	run_as(1 + random_below(TASKS));
	find_submitter(&found, &s, &rq, ACCESS_BTF);
	requests++;
	of_above += lives[i].above != NONE;
	if (found.tid != lives[i].submitter)
		wrong++;
	if (is_lost)
		entry_at((u64)bio)->is_used = 0;
	lost += is_lost || !lives[i].submitter;
	verdict = wanted_who(&s, &rq, ACCESS_BTF);
	unknown += verdict == UNATTRIBUTED;
	wrong += verdict != UNATTRIBUTED &&
		 (verdict == WANTED) != (lives[i].submitter == targ_pids[0]);
	end(i);
}

static void step(void)
{
	u32 i = random_below(BIOS), other = random_below(BIOS);

	switch (lives[i].state) {
	case FREE:
		begin(i);
		break;
	case MAPPED:
		map(i);
		break;
	case LIMITED:
		dispatch(i);
		break;
	case QUEUED:
		if (memory[i].clone.bi_iter.bi_size > BLOCK && lives[other].state == FREE &&
		    random_below(2)) {
			run_as(lives[i].above == NONE ? lives[i].submitter : DISPATCHER);
			split(i, other);
		} else if (random_below(20) == 0) { /* it needs no request */
			on_submitted_done((u64)&memory[i].clone, ND_HOOK_SUBMIT_DONE_BTF);
			end(i);
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
	targ_submitter = targ_pid_count = targ_pids[0] = 1;
	while (steps--)
		step();
	printf("%llu %llu %llu %llu %llu %llu %llu\n", requests, waited, pieces, of_above, wrong,
	       lost, unknown);
	return 0;
}
