/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* Bios before they have a request (--stages=full). Waits of functions that have the bio as an
 * argument are added to its entry, the others to the pause of the task. */
#pragma once

#include "emit.bpf.h"
#include "origin.bpf.h"

MAP(disks, PERCPU_HASH, u64[2], struct nd_disk, ND_MAX_DISKS);

static __noinline struct nd_disk *new_disk(u64 *name)
{
	struct nd_disk fresh = {};

	if (!name)
		return 0;
	bpf_map_update_elem(&disks, name, &fresh, BPF_NOEXIST);
	return bpf_map_lookup_elem(&disks, name);
}

/* The counters of the bio's disk: NVMe, or with `upper` dm or md. NULL: another, or no room. */
static __always_inline struct nd_disk *disk_of(u64 bio, int upper)
{
	u64 at = disk_name_of(bio), name[2];
	struct nd_disk *disk;

	name[0] = peek(at);
	if (upper ? !is_upper_name(name[0]) : !is_nvme_name(name[0]))
		return 0;
	name[1] = peek(at + sizeof(u64));
	disk = bpf_map_lookup_elem(&disks, name);
	return disk ? disk : new_disk(name);
}

static __always_inline void count_time(struct nd_disk *disk, u64 waited)
{
	if (!disk)
		return;
	disk->requests++;
	disk->sum_ns += waited;
	if (waited > ND_WAITED_NS)
		disk->waited++;
	if (waited > disk->max_ns)
		disk->max_ns = waited;
}

/* A bio of a disk above NVMe has ended. */
static __always_inline void count_upper(u64 bio)
{
	struct nd_submitter *by = bpf_map_lookup_elem(&submitters, &bio);

	if (by && by->since_ns)
		count_time(disk_of(bio, 1), bpf_ktime_get_ns() - by->since_ns);
}

/* Each task has room for the bio that it queued last: most get their request before the task queues
 * another. A bio that waits, is split, or has no request by then moves to a table. */

MAP(bios, HASH, u64, struct nd_bio, ND_BIOS);

/* How many bios the table has: mostly none, which saves searches. */
static u32 bios_there SEC(".bss.waits");

/* By task. Not maps: see `tasks` in slots.bpf.h. */
static struct nd_last_bio last_bios[ND_PAUSES] SEC(".bss.waits") __attribute__((aligned(64)));
static struct nd_pause pauses[ND_PAUSES] SEC(".bss.waits");

/* Puts an entry into the table, or replaces an outdated one of its address. */
static __always_inline void put_entry(u64 bio, struct nd_bio *b)
{
	if (!bpf_map_update_elem(&bios, &bio, b, BPF_NOEXIST))
		__sync_fetch_and_add(&bios_there, 1);
	else if (bpf_map_update_elem(&bios, &bio, b, BPF_EXIST))
		count(ND_BIOS_FULL);
}

/* Returns whether it was there. */
static __always_inline int drop_entry(u64 bio)
{
	if (bpf_map_delete_elem(&bios, &bio))
		return 0;
	__sync_fetch_and_add(&bios_there, -1);
	return 1;
}

/* The task's room, if this bio is in it. */
static __always_inline struct nd_last_bio *in_last(u64 bio)
{
	u32 tid = this_task();
	struct nd_last_bio *l = &last_bios[tid & (ND_PAUSES - 1)];

	if (l->tid != tid || l->bio != bio)
		l = NULL;
	HIDE(l);
	return l;
}

/* Takes the bio of this task, which has not waited, out of its room. */
static __always_inline struct nd_bio take_last(struct nd_last_bio *l)
{
	l->bio = 0;
	return (struct nd_bio){
		.submit_ns = l->bio_ns,
		.bio_ns = l->bio_ns,
		.sector = l->sector,
		.bytes = l->bytes,
	};
}

/* Moves the bio of this task to the table. A later entry of its address stays. */
static __always_inline void move_bio(struct nd_last_bio *l)
{
	u64 bio = l->bio;
	struct nd_bio *there, b = take_last(l);

	if (FOLLOWS_SUBMITTERS)
		by_this_task(&b.by, bio);
	there = bpf_map_lookup_elem(&bios, &bio);
	if (!there || there->submit_ns < b.submit_ns)
		put_entry(bio, &b);
}

/* The entry of a bio, which moves to the table. */
static __always_inline struct nd_bio *bio_in_table(u64 bio)
{
	struct nd_last_bio *l = in_last(bio);

	if (l)
		move_bio(l);
	return bpf_map_lookup_elem(&bios, &bio);
}

/* Notes a bio in the room of its task. Fails if another task has one there. Two tasks that meet
 * there at the same time may lose a bio, which is counted at its request. */
static __always_inline int note_last(u64 bio, u64 now)
{
	u32 tid = this_task();
	struct nd_last_bio *l = &last_bios[tid & (ND_PAUSES - 1)];

	if (l->bio && l->tid != tid)
		return 0;
	/* Another task may have queued the former bio since (multipath), or use its memory. */
	if (l->bio && l->bio != bio && has_place(l->bio, l->sector, l->bytes))
		move_bio(l);
	l->tid = tid;
	l->bytes = BIO_FIELD(bio, bi_iter.bi_size);
	l->sector = BIO_FIELD(bio, bi_iter.bi_sector);
	l->bio_ns = now;
	l->bio = bio;
	return 1;
}

static __always_inline void put_bio(u64 bio, u64 submit_ns, u64 bio_ns)
{
	struct nd_bio b = {
		.submit_ns = submit_ns,
		.bio_ns = bio_ns,
		.sector = BIO_FIELD(bio, bi_iter.bi_sector),
		.bytes = BIO_FIELD(bio, bi_iter.bi_size),
	};

	if (FOLLOWS_SUBMITTERS)
		who_submits(&b.by, bio);
	put_entry(bio, &b);
}

/* What a task has waited for: a tag, wbt, before 5.14 a frozen queue. These functions do not have
 * the bio, but the next request of the task is the one that waited. */

/* NULL: this task has not waited. */
static __always_inline struct nd_pause *known_pause(void)
{
	u32 tid = this_task();
	struct nd_pause *p = &pauses[tid & (ND_PAUSES - 1)];

	if (p->tid != tid)
		p = NULL;
	HIDE(p);
	return p;
}

/* What the task waited for before was not for its next bio. */
static __always_inline void forget_pause(void)
{
	struct nd_pause *p = known_pause();

	if (p)
		p->tid = 0;
}

/* The pause of this task, emptied if it was another task's. */
static __always_inline struct nd_pause *own_pause(void)
{
	u32 tid = this_task();
	struct nd_pause *p = &pauses[tid & (ND_PAUSES - 1)];

	if (p->tid != tid)
		*p = (struct nd_pause){.tid = tid};
	return p;
}

static __always_inline int begin_wait(u64 *begin_ns, u32 hook)
{
	hit(hook, ACCESS_BTF);
	*begin_ns = bpf_ktime_get_ns();
	return 0;
}

static __always_inline int end_wait(u64 *begin_ns, u64 *sum_ns, u32 hook)
{
	if (!*begin_ns)
		return 0;
	hit(hook, ACCESS_BTF);
	*sum_ns += bpf_ktime_get_ns() - *begin_ns;
	*begin_ns = 0;
	return 0;
}

/* Before 5.14 the bio is no argument. A queue that freezes after the test counts in `block`. */
static __always_inline int on_enter_in(u64 q, u32 hook)
{
	u64 depth = q + bpf_core_field_offset(struct request_queue, mq_freeze_depth);

	return (u32)peek(depth) ? begin_wait(&own_pause()->freeze_begin_ns, hook) : 0;
}

static __always_inline int on_enter_out(u32 hook)
{
	struct nd_pause *p = known_pause();

	return p ? end_wait(&p->freeze_begin_ns, &p->freeze_ns, hook) : 0;
}

static __always_inline int on_wbt_in(u32 hook)
{
	return begin_wait(&own_pause()->wbt_begin_ns, hook);
}

static __always_inline int on_wbt_out(u32 hook)
{
	struct nd_pause *p = known_pause();

	return p ? end_wait(&p->wbt_begin_ns, &p->wbt_ns, hook) : 0;
}

#define BLK_MQ_REQ_NOWAIT 1

/* No tag is free. A request that may not wait fails. */
static __always_inline int may_not_wait(u64 data)
{
	u64 at = data + bpf_core_field_offset(struct blk_mq_alloc_data, flags);

	return (u32)peek(at) & BLK_MQ_REQ_NOWAIT;
}

static __always_inline int on_tag_wait(u32 hook)
{
	struct nd_pause *p;

	hit(hook, ACCESS_BTF);
	p = own_pause();
	if (!p->tag_ns)
		p->tag_ns = bpf_ktime_get_ns();
	return 0;
}

/* Returns 0 if a wait of the task has no end. */
static __always_inline int take_pause(struct nd_waits *w, u64 start)
{
	struct nd_pause *p = known_pause();

	w->wbt_ns = 0;
	w->tag_ns = 0;
	if (!p)
		return 1;
	p->tid = 0;
	if (cfg_wait_points & ND_WAIT_FREEZE)
		w->freeze_ns += p->freeze_ns;
	if (cfg_wait_points & ND_WAIT_WBT)
		w->wbt_ns = p->wbt_ns;
	if (cfg_wait_points & ND_WAIT_TAG && p->tag_ns)
		w->tag_ns = start - p->tag_ns;
	return !p->wbt_begin_ns && !p->freeze_begin_ns;
}

/* With cfg_start_bio: bios with a request whose command is not set up. */
MAP(begun, HASH, u64, struct nd_begun, 1); /* user space sets it */

/* blk-throttle looks at a bio before it is queued. The rest of a split bio keeps its submission. */
static __always_inline int on_throttle(u64 bio, u32 hook)
{
	struct nd_bio *b;

	if (!is_of_nvme(bio))
		return FOLLOWS_SUBMITTERS ? note_submission_of(bio, 1, hook) : 0;
	hit(hook, ACCESS_BTF);
	b = bpf_map_lookup_elem(&bios, &bio);
	if (!b || !b->bio_ns || (!b->rest && !has_place(bio, b->sector, b->bytes)))
		put_bio(bio, bpf_ktime_get_ns(), 0);
	return 0;
}

/* The same before 5.18, and again after a wait. The function's end shows whether it has to wait. */
static __always_inline int on_limits_in(u64 bio, u32 hook)
{
	struct nd_bio *b = bpf_map_lookup_elem(&bios, &bio);

	if (b && b->submit_ns && !b->bio_ns && has_place(bio, b->sector, b->bytes)) {
		b->released = 1;
		return 0;
	}
	return on_throttle(bio, hook);
}

/* The bio may be gone: its address only finds its entry. */
static __always_inline int on_limits_out(u64 bio, int waits, u32 hook)
{
	struct nd_bio *b = bpf_map_lookup_elem(&bios, &bio);

	if (!b)
		return 0;
	hit(hook, ACCESS_BTF);
	if (!waits && !b->bio_ns && !b->released)
		b->submit_ns = 0; /* not submitted yet */
	return 0;
}

/* A bio is queued, after blk-throttle. This comes once in the life of a bio. */
static __always_inline int on_bio_queued(u64 bio, u32 hook)
{
	struct nd_bio *b;
	u64 now;

	/* Device mapper may submit a clone of it to an NVMe disk. */
	if (!is_of_nvme(bio))
		return FOLLOWS_SUBMITTERS ? note_submission_of(bio, 0, hook) : 0;
	hit(hook, ACCESS_BTF);
	forget_pause();
	now = bpf_ktime_get_ns();
	if (bios_there) {
		b = bpf_map_lookup_elem(&bios, &bio);
		if (b && !b->bio_ns && has_place(bio, b->sector, b->bytes)) {
			b->bio_ns = now;
			if (!b->submit_ns)
				b->submit_ns = now;
			return 0;
		}
		if (b)
			drop_entry(bio);
	}
	/* A task's last bio is its own: a clone goes to the table. */
	if ((FOLLOWS_SUBMITTERS && bio_above(bio)) || !note_last(bio, now))
		put_bio(bio, now, now);
	return 0;
}

/* See on_submitted_split(). */
static __always_inline int on_bio_split(u64 bio, u32 hook)
{
	u64 rest = BIO_FIELD(bio, bi_private);
	struct nd_last_bio *former = in_last(bio);
	struct nd_bio *b, copy;

	if (former)
		former->bio = 0;
	b = bio_in_table(rest);
	if (!b)
		return FOLLOWS_SUBMITTERS ? on_submitted_split(bio, hook) : 0;
	hit(hook, ACCESS_BTF);
	copy = *b;
	b->rest = 1;
	put_entry(bio, &copy);
	return 0;
}

/* A bio needs no request: it was merged, or it has ended. */
static __always_inline int on_bio_gone(u64 bio, u32 hook)
{
	struct nd_last_bio *l = in_last(bio);

	if (l)
		l->bio = 0;
	if (l || (bios_there && drop_entry(bio)))
		hit(hook, ACCESS_BTF);
	else if (FOLLOWS_SUBMITTERS) {
		if (TIMES_UPPER)
			count_upper(bio);
		on_submitted_done(bio, hook);
	}
	return 0;
}

static __always_inline int on_wait_in(u64 bio, int zone, u32 hook)
{
	struct nd_bio *b = bio_in_table(bio);

	return b ? begin_wait(zone ? &b->zone_ns : &b->begin_ns, hook) : 0;
}

static __always_inline int on_wait_out(u64 bio, int freeze, u32 hook)
{
	struct nd_bio *b = bpf_map_lookup_elem(&bios, &bio);

	return b ? end_wait(&b->begin_ns, freeze ? &b->freeze_ns : &b->iocost_ns, hook) : 0;
}

/* A zone takes one write at a time (zone write plugging, 6.10). The end of the function shows
 * whether this one waits: until it gets a request, less the waits that come after this one. */
static __always_inline int on_zone_out(u64 bio, int waits, u32 hook)
{
	struct nd_bio *b = waits ? NULL : bpf_map_lookup_elem(&bios, &bio);

	if (!b)
		return 0;
	hit(hook, ACCESS_BTF);
	b->zone_ns = 0;
	return 0;
}

/* The time of the request, if all waits of its bio are known; otherwise 0. Of a frozen queue and a
 * zone, only the first wait is kept: the other is in `block`. */
static __always_inline u64 known_start(struct nd_waits *w, u64 begin_ns, u64 zone_ns, u64 start)
{
	int known = take_pause(w, start) && !begin_ns;
	u64 after = w->iocost_ns + w->wbt_ns + w->tag_ns;

	if (zone_ns && !w->freeze_ns && cfg_wait_points & ND_WAIT_ZONE)
		w->freeze_ns = (start - zone_ns - after) | ND_FOR_ZONE;
	if (known && w->bio_ns + to_enter(w) + after <= start)
		return start;
	count(ND_UNPAIRED_WAIT);
	return 0;
}

static __always_inline void waits_of(struct nd_waits *w, struct nd_bio *b, u64 bio, u64 start)
{
	w->submit_ns = cfg_wait_points & ND_WAIT_SUBMIT ? b->submit_ns : b->bio_ns;
	w->bio_ns = b->bio_ns;
	w->freeze_ns = cfg_wait_points & ND_WAIT_FREEZE ? b->freeze_ns : 0;
	w->iocost_ns = cfg_wait_points & ND_WAIT_IOCOST ? b->iocost_ns : 0;
	w->start_ns = known_start(w, b->begin_ns, b->zone_ns, start);
	/* Of a bio that is split the first request: the others come after it. */
	if (cfg_context && !b->rest)
		count_time(disk_of(bio, 0), start - b->bio_ns);
	w->also = 0;
}

/* Takes what is known of a bio whose request was allocated at `start`. Returns 0 if its submission
 * was not observed. `at`, the first sector, tells it from an earlier bio with its address. */
static __always_inline int take_bio(struct nd_begun *to, u64 bio, u64 at, u64 start)
{
	struct nd_last_bio *l = in_last(bio);
	struct nd_bio *b, last;

	if (l && begins_in(at, l->sector, l->bytes)) {
		last = take_last(l);
		waits_of(&to->waits, &last, bio, start);
		if (FOLLOWS_SUBMITTERS)
			by_this_task(&to->by, bio);
		return 1;
	}
	b = bpf_map_lookup_elem(&bios, &bio);
	if (!b || !b->bio_ns || !begins_in(at, b->sector, b->bytes))
		return 0;
	if (FOLLOWS_SUBMITTERS)
		to->by = b->by;
	waits_of(&to->waits, b, bio, start);
	drop_entry(bio);
	return 1;
}

/* A request was allocated for a bio: keeps its waits and its submitter until the setup. */
static __always_inline void note_waits(struct nd_start *st, struct request *rq,
				       enum nd_access access)
{
	u64 bio = FIELD_AT((u64)rq, struct request, bio);

	st->begun.waits.start_ns = 0;
	if (FOLLOWS_SUBMITTERS)
		st->begun.by.tid = 0;
	if (!bio || is_passthrough(rq, access))
		return;
	if (!take_bio(&st->begun, bio, GET(access, rq, __sector), st->ns))
		count(ND_NO_BIO);
}

/* The same where the request is not an argument: its waits are kept by the bio's address. */
static __always_inline int on_bio_start(u64 bio, u32 hook)
{
	u64 now = bpf_ktime_get_ns();
	struct nd_begun w = {};

	if (!bio)
		return 0;
	if (!take_bio(&w, bio, BIO_FIELD(bio, bi_iter.bi_sector), now)) {
		forget_pause();
		return 0;
	}
	hit(hook, ACCESS_BTF);
	w.waits.also = now;
	if (bpf_map_update_elem(&begun, &bio, &w, BPF_ANY))
		count(ND_BIOS_FULL);
	return 0;
}

/* Takes the waits of a bio of a request, if it began before `start` (0: none yet), and returns when
 * it began. Not static: the verifier verifies it once, not for each bio. */
__noinline u64 take_begun_of(u64 bio, u32 index, u64 start)
{
	struct nd_slot *to = slot_at(index);
	struct nd_begun *w;

	if (!cfg_waits || !to)
		return start;
	w = bpf_map_lookup_elem(&begun, &bio);
	if (!w)
		return start;
	if (!start || w->waits.also < start) {
		*waits_in(to) = w->waits;
		if (FOLLOWS_SUBMITTERS)
			to->origin.by = w->by;
		start = w->waits.also;
	}
	bpf_map_delete_elem(&begun, &bio);
	return start;
}

/* Looks for the bio that got the request. Other requests may have been merged into it: the first
 * counts, as for the kernel. Returns when that was; 0: not known. */
static __noinline u64 take_begun(struct request *rq, u32 index)
{
	u64 bio = FIELD_AT((u64)rq, struct request, bio), start = 0;

	for (u32 i = 0; i < ND_CHAIN && bio; i++) {
		start = take_begun_of(bio, index, start);
		bio = BIO_FIELD(bio, bi_next);
	}
	return start;
}

/* The slot and the entry of the tag get the waits. */
static __always_inline u64 start_of_bios(struct nd_slot *s, u32 index, struct nd_start *st,
					 struct request *rq, enum nd_access access)
{
	u64 pdu = pdu_of(rq), start;

	start = take_begun(access == ACCESS_BTF ? drop_trust(rq) : rq, index);
	waits_in(s)->also = 0;
	if (start && st) {
		st->begun.waits = *waits_in(s);
		if (FOLLOWS_SUBMITTERS) {
			st->begun.by = s->origin.by;
			st->mark = mark_of(rq, access);
		}
	}
	/* Without the driver's types a retry, whose bio is gone, counts too. */
	if (!start && GET(access, rq, bio) && !is_passthrough(rq, access) &&
	    ((access != ACCESS_BTF && cfg_by_name) ||
	     !(u8)FIELD_AT(pdu, struct nvme_request, retries)))
		count(ND_NO_BIO);
	return start;
}

/* Where single commands are traced, the table keeps merged bios for follow_chain(). */
static __always_inline int on_bio_merged(u64 bio, u32 hook)
{
	if (!cfg_trace)
		return on_bio_gone(bio, hook);
	if (bio_in_table(bio))
		hit(hook, ACCESS_BTF);
	return 0;
}

/* Takes a bio that was merged out of the table. Returns the earlier one of its submission and
 * `oldest`. Not static: see take_begun_of(). */
__noinline u64 take_merged(u64 bio, u64 oldest)
{
	struct nd_bio *b;

	if (!cfg_waits)
		return oldest;
	b = bpf_map_lookup_elem(&bios, &bio);
	if (!b)
		return oldest;
	if (b->submit_ns && b->submit_ns < oldest)
		oldest = b->submit_ns;
	drop_entry(bio);
	return oldest;
}

/* Notes a command's bios and how long the oldest has waited. After a requeue this is known. */
static __always_inline void note_bios(struct nd_slot *s, struct nd_start *st, struct request *rq)
{
	u64 bio, next, oldest, n = 1;

	if (!cfg_trace || !s->start_ns || s->waits.start_ns != s->start_ns || s->waits.also)
		return;
	bio = FIELD_AT((u64)rq, struct request, bio);
	if (!bio)
		return;
	oldest = s->waits.submit_ns;
	next = BIO_FIELD(bio, bi_next);
	if (next) /* this one may have been merged in front of it */
		oldest = take_merged(bio, oldest);
	for (; next && n < ND_CHAIN; n++) {
		oldest = take_merged(next, oldest);
		next = BIO_FIELD(next, bi_next);
	}
	s->waits.also =
		n << ND_BIOS_SHIFT | ((s->setup_out_ns - oldest) & ((1ULL << ND_BIOS_SHIFT) - 1));
	if (st && st->begun.waits.start_ns == s->start_ns)
		st->begun.waits.also = s->waits.also;
}

/* The submitter of a command. A retry has no start, but the same bio. Without an entry
 * (start_of_bios()) the slot has it, also after a requeue. */
static __always_inline void take_submitter(struct nd_slot *s, struct nd_start *st,
					   struct request *rq, u64 start, enum nd_access access)
{
	if (!FOLLOWS_SUBMITTERS || (!st && start))
		return;
	if (st && (start || st->mark == mark_of(rq, access)))
		s->origin.by = st->begun.by;
	else
		s->origin.by.tid = 0;
}

/* A requeued command has the waits of its first setup, in its slot or in the entry of its tag. */
static __always_inline void take_waits(struct nd_slot *s, struct nd_start *st, struct request *rq)
{
	if (st && s->start_ns && st->begun.waits.start_ns == s->start_ns)
		*waits_in(s) = st->begun.waits;
	note_bios(s, st, rq);
}
