// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/*
 * Runs the programs of --stages=full on a model of bios: tasks queue them, some wait in a frozen
 * queue, in blk-throttle, for a zone or for io.cost, some are split, some need no request, and all
 * use the same few addresses and sectors again. Some bios are queued again by another task. A task
 * may queue further bios before one has its request, and some tasks share the room for their last
 * bio. Each request must have the times of its bio. tests/places.rs runs it:
 *
 *   bios SEED STEPS BY_BIO
 *
 * BY_BIO: the event of the request has the bio, not the request (5.16 to 6.4).
 * Prints the number of requests, of bios that waited, of pieces, of merged bios, of bios that
 * another task's kept out of the room, of requests without times, of those with wrong ones or a
 * wrong submitter, and of entries that are there and not counted, or the reverse.
 *
 * A request has the submitter of the bio that got it. A kernel thread submits some bios for bios of
 * a device mapper disk.
 */
#define OWN_BIOS
#include "stubs.h"

#define BIOS	   6
#define TASKS	   4
#define DISPATCHER 99
#define BLOCK	   4096

enum state { FREE, LIMITED, QUEUED, STARTED, MERGED };

static struct gendisk disk = {.disk_name = "nvme0n1"}, mapped = {.disk_name = "dm-0"};
/* The bios of the NVMe disk: some are clones. */
static struct dm_target_io targets[BIOS];
#define BIO(i) (&targets[i].clone)
/* Bios of the device mapper disk, and what it has of each. */
static struct bio above[BIOS];
static struct dm_io ios[BIOS];
static struct nd_submitter above_table[BIOS];
static int is_above[BIOS];
static struct life {
	enum state state;
	u32 task;
	u32 submitter;
	int again; /* another task has queued it before: how long it has waited is not tested */
	u64 submit_ns, bio_ns, freeze_ns, iocost_ns;
	u64 zone_ns; /* since when it waits for its zone; 0: it does not */
	/* With a request. */
	u32 request; /* into which it was merged */
	u64 start_ns, count, oldest_ns;
} lives[BIOS];
static struct request requests_of[BIOS];
static struct nd_start starts_of[BIOS];
static struct nd_bio table[BIOS];
static struct nd_begun begun_table[BIOS];
static int is_in_table[BIOS], has_begun[BIOS];
static int by_bio;
static u64 requests, waited, pieces, merged, kept_out, lost, wrong;

static u32 number_of(u64 bio)
{
	u64 at = bio - (u64)BIO(0);

	return at % sizeof(*targets) ? BIOS : at / sizeof(*targets);
}

static u32 number_above(u64 bio)
{
	return (bio - (u64)above) / sizeof(*above);
}

static int is_bio_map(void *map)
{
	return map == (void *)&bios || map == (void *)&begun || map == (void *)&submitters;
}

static u32 index_in(void *map, u64 bio)
{
	return map == (void *)&submitters ? number_above(bio) : number_of(bio);
}

static void *bio_entry(void *map, u64 bio)
{
	u32 i = index_in(map, bio);

	if (i >= BIOS)
		return 0;
	if (map == (void *)&submitters)
		return is_above[i] ? &above_table[i] : 0;
	if (map == (void *)&begun)
		return has_begun[i] ? &begun_table[i] : 0;
	return is_in_table[i] ? &table[i] : 0;
}

static long bpf_map_update_elem(void *map, const void *key, const void *value, int flags)
{
	u32 i = index_in(map, *(const u64 *)key);

	if (i >= BIOS)
		return 0;
	if (map == (void *)&submitters) {
		above_table[i] = *(const struct nd_submitter *)value;
		is_above[i] = 1;
		return 0;
	}
	if (map == (void *)&begun) {
		begun_table[i] = *(const struct nd_begun *)value;
		has_begun[i] = 1;
		return 0;
	}
	if ((flags == BPF_NOEXIST && is_in_table[i]) || (flags == BPF_EXIST && !is_in_table[i]))
		return -1;
	table[i] = *(const struct nd_bio *)value;
	is_in_table[i] = 1;
	return 0;
}

static long bpf_map_delete_elem(void *map, const void *key)
{
	u32 i = index_in(map, *(const u64 *)key);
	int *there = is_in_table;

	if (map == (void *)&begun)
		there = has_begun;
	else if (map == (void *)&submitters)
		there = is_above;
	if (i >= BIOS || !there[i])
		return -1;
	there[i] = 0;
	return 0;
}

static void run_as(u32 tid)
{
	current_tid = tid;
	current_task.flags = tid == DISPATCHER ? PF_KTHREAD_FLAG : 0;
}

/* Tasks 1 and 3, and 2 and 4, share the room for their last bio. */
static u32 tid_of(u32 task)
{
	return task > 2 ? task - 2 + ND_PAUSES : task;
}

static void queue(u32 i, u32 tid)
{
	struct nd_last_bio *room = &last_bios[tid & (ND_PAUSES - 1)];

	run_as(tid);
	kept_out += room->bio && room->tid != tid;
	on_bio_queued((u64)BIO(i), ND_HOOK_BIO_QUEUED_BTF);
	lives[i].state = QUEUED;
	lives[i].bio_ns = now_ns;
	if (!lives[i].submit_ns)
		lives[i].submit_ns = now_ns;
}

static void begin(u32 i)
{
	u32 task = tid_of(1 + random_below(TASKS));

	lives[i] = (struct life){.task = task, .submitter = task};
	targets[i].magic = 0;
	BIO(i)->bi_flags = 0;
	BIO(i)->bi_disk = &disk;
	BIO(i)->bi_private = 0;
	BIO(i)->bi_iter.bi_sector = random_below(1000) * 8;
	BIO(i)->bi_iter.bi_size = (1 + random_below(4)) * BLOCK;
	if (random_below(4) == 0) {
		above[i] = *BIO(i);
		above[i].bi_disk = &mapped;
		run_as(task);
		on_bio_queued((u64)&above[i], ND_HOOK_BIO_QUEUED_BTF);
		ios[i] = (struct dm_io){.magic = DM_IO_MAGIC, .orig_bio = &above[i]};
		targets[i].magic = DM_TIO_MAGIC;
		BIO(i)->bi_flags = BIO_IS_CLONE;
		targets[i].io = &ios[i];
		lives[i].task = DISPATCHER;
	}
	if (random_below(10)) {
		queue(i, lives[i].task);
		return;
	}
	run_as(lives[i].task);
	on_throttle((u64)BIO(i), ND_HOOK_THROTTLE_FENTRY);
	lives[i].submit_ns = now_ns;
	lives[i].state = LIMITED;
	waited++;
}

/* A bio waits in a function: for a frozen queue, or for io.cost. Meanwhile other tasks run. */
static void wait_for(u32 i, int freeze)
{
	u64 from;

	on_wait_in((u64)BIO(i), 0, freeze ? ND_HOOK_FREEZE_IN_FENTRY : ND_HOOK_IOCOST_IN_FENTRY);
	from = now_ns;
	now_ns += random_below(1000);
	on_wait_out((u64)BIO(i), freeze,
		    freeze ? ND_HOOK_FREEZE_OUT_FEXIT : ND_HOOK_IOCOST_OUT_FEXIT);
	if (freeze)
		lives[i].freeze_ns += now_ns - from;
	else
		lives[i].iocost_ns += now_ns - from;
	waited++;
}

/* The bio may have to wait for its zone. If so, another task allocates its request. */
static void plug(u32 i)
{
	int waits = random_below(2);
	u64 from;

	on_wait_in((u64)BIO(i), 1, ND_HOOK_ZONE_IN_FENTRY);
	from = now_ns;
	on_zone_out((u64)BIO(i), waits, ND_HOOK_ZONE_OUT_FEXIT);
	if (!waits)
		return;
	lives[i].zone_ns = from;
	lives[i].task = DISPATCHER;
	waited++;
}

/* Splits a piece off, which begins where the bio did. */
static void split(u32 i, u32 piece)
{
	*BIO(piece) = *BIO(i);
	BIO(piece)->bi_iter.bi_size = BLOCK;
	BIO(piece)->bi_private = BIO(i);
	BIO(i)->bi_iter.bi_sector += BLOCK >> 9;
	BIO(i)->bi_iter.bi_size -= BLOCK;
	lives[piece] = lives[i];
	targets[piece].magic = 0;
	on_bio_split((u64)BIO(piece), ND_HOOK_BIO_SPLIT_BTF);
	pieces++;
}

/* Allocates the request of a bio. */
static void start_request(u32 i)
{
	struct life *l = &lives[i];

	BIO(i)->bi_next = 0;
	requests_of[i] = (struct request){.bio = BIO(i), .__sector = BIO(i)->bi_iter.bi_sector};
	if (by_bio) {
		on_bio_start((u64)BIO(i), ND_HOOK_START_BIO_BTF);
	} else {
		starts_of[i] = (struct nd_start){.ns = bpf_ktime_get_ns()};
		note_waits(&starts_of[i], &requests_of[i], ACCESS_BTF);
	}
	l->state = STARTED;
	l->start_ns = now_ns;
	if (l->zone_ns && !l->freeze_ns)
		l->freeze_ns = (now_ns - l->zone_ns - l->iocost_ns) | ND_FOR_ZONE;
	l->count = 1;
	l->oldest_ns = l->submit_ns;
}

/* Merges a bio into a request, in front or at the back. */
static void merge(u32 i, u32 request)
{
	struct bio *last = requests_of[request].bio;
	struct life *to = &lives[request];

	run_as(lives[i].task);
	on_bio_merged((u64)BIO(i), ND_HOOK_BIO_BACK_BTF);
	lives[i].state = MERGED;
	lives[i].request = request;
	BIO(i)->bi_next = 0;
	to->count++;
	to->again |= lives[i].again;
	if (lives[i].submit_ns < to->oldest_ns)
		to->oldest_ns = lives[i].submit_ns;
	if (random_below(2)) {
		BIO(i)->bi_next = last;
		requests_of[request].bio = BIO(i);
		return;
	}
	while (last->bi_next)
		last = last->bi_next;
	last->bi_next = BIO(i);
}

/* The setup of the command, and its end. */
static void set_up_and_end(u32 i)
{
	struct nd_slot s = {};
	struct life *l = &lives[i];
	struct nd_sender by;
	u64 bios, mask = l->again ? ~0ULL << ND_BIOS_SHIFT : ~0ULL;

	if (by_bio) {
		slot_map[0] = s;
		s.start_ns = take_begun(&requests_of[i], 0);
		*waits_in(&s) = *waits_in(&slot_map[0]);
		s.origin = slot_map[0].origin;
		waits_in(&s)->also = 0;
		take_submitter(&s, 0, &requests_of[i], s.start_ns, ACCESS_BTF);
	} else {
		take_submitter(&s, &starts_of[i], &requests_of[i], starts_of[i].ns, ACCESS_BTF);
		*waits_in(&s) = starts_of[i].begun.waits;
		s.start_ns = waits_in(&s)->start_ns;
	}
	run_as(DISPATCHER);
	find_submitter(&by, &s, &requests_of[i], ACCESS_BTF);
	s.setup_out_ns = bpf_ktime_get_ns();
	note_bios(&s, 0, &requests_of[i]);
	bios = l->count << ND_BIOS_SHIFT | (s.setup_out_ns - l->oldest_ns);
	requests++;
	merged += l->count - 1;
	if (!waits_in(&s)->start_ns)
		lost++;
	else if (by.tid != l->submitter || s.start_ns != l->start_ns ||
		 waits_in(&s)->bio_ns != l->bio_ns || waits_in(&s)->iocost_ns != l->iocost_ns ||
		 waits_in(&s)->submit_ns != l->submit_ns ||
		 waits_in(&s)->freeze_ns != l->freeze_ns || (waits_in(&s)->also ^ bios) & mask)
		wrong++;
	for (u32 n = 0; n < BIOS; n++) {
		if (n != i && (lives[n].state != MERGED || lives[n].request != i))
			continue;
		on_bio_gone((u64)BIO(n), ND_HOOK_BIO_DONE_BTF);
		lives[n].state = FREE;
	}
}

/* A bio waits for a frozen queue, then for its zone, then for io.cost. */
static int may_enter(u32 i)
{
	return !lives[i].zone_ns && !lives[i].iocost_ns;
}

static void step(void)
{
	u32 i = random_below(BIOS), other = random_below(BIOS);

	run_as(lives[i].task);
	switch (lives[i].state) {
	case FREE:
		begin(i);
		break;
	case LIMITED:
		queue(i, DISPATCHER);
		lives[i].task = DISPATCHER;
		break;
	case QUEUED:
		if (may_enter(i) && random_below(10) == 0) {
			wait_for(i, 1);
		} else if (may_enter(i) && random_below(10) == 0) {
			plug(i);
		} else if (random_below(10) == 0) {
			wait_for(i, 0);
		} else if (may_enter(i) && BIO(i)->bi_iter.bi_size > BLOCK &&
			   lives[other].state == FREE && random_below(8) == 0) {
			split(i, other);
		} else if (random_below(30) == 0) { /* multipath: another task queues it again */
			lives[i] = (struct life){
				.task = DISPATCHER,
				.submitter = targets[i].magic ? lives[i].submitter : DISPATCHER,
				.again = 1,
			};
			queue(i, DISPATCHER);
		} else if (random_below(20) == 0) { /* it needs no request */
			on_bio_gone((u64)BIO(i), ND_HOOK_BIO_DONE_BTF);
			lives[i].state = FREE;
		} else if (lives[other].state == STARTED) {
			merge(i, other);
		} else {
			start_request(i);
		}
		break;
	case STARTED:
		set_up_and_end(i);
		break;
	case MERGED:
		break;
	}
}

int main(int argc, char **argv)
{
	u64 steps = argc == 4 ? strtoull(argv[2], 0, 10) : 0;
	int counted;

	if (!steps)
		return 2;
	seed = strtoull(argv[1], 0, 10);
	by_bio = atoi(argv[3]);
	cfg_wait_points = ND_WAIT_ALL;
	cfg_trace = ND_TRACE_PAIRS;
	cfg_waits = 1;
	cfg_who = ND_WHO_ORIGIN | ND_WHO_SUBMITTER;
	while (steps--)
		step();
	counted = bios_there;
	for (u32 i = 0; i < BIOS; i++)
		counted -= is_in_table[i];
	printf("%llu %llu %llu %llu %llu %llu %llu %d\n", requests, waited, pieces, merged,
	       kept_out, lost, wrong, abs(counted));
	return 0;
}
