/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Bios before they have a request (--stages=full): the programs from their submission until a
 * request is allocated for them, or they are merged into one, or end without one.
 *
 * Waits with a bio among their arguments are added to its entry; for the others see pause.bpf.h.
 */
#ifndef ND_BIO_H
#define ND_BIO_H

/*
 * The bio in this kernel's event: arguments are (bio, ...), or before 5.11 (queue, bio, ...). Not
 * cfg_rq_second: 5.10.y got that change of the events with requests, but not this one. On 5.11 the
 * verifier rejects these programs, because its bios have bi_disk, too. In assembly: clang merges
 * the loads to one from a computed address, which the verifier of 5.10 rejects.
 */
static __always_inline u64 bio_of(void *ctx)
{
	u64 bio;

	if (bpf_core_field_exists(struct bio, bi_disk))
		asm volatile("%0 = *(u64 *)(%1 + 8)" : "=r"(bio) : "r"(ctx));
	else
		asm volatile("%0 = *(u64 *)(%1 + 0)" : "=r"(bio) : "r"(ctx));
	return bio;
}

static __always_inline u64 disk_name_of(u64 bio)
{
	u64 disk;

	if (bpf_core_field_exists(struct bio, bi_disk)) {
		disk = peek(bio + bpf_core_field_offset(struct bio, bi_disk), TYPED);
	} else {
		disk = peek(bio + bpf_core_field_offset(struct bio, bi_bdev), TYPED);
		disk = peek(disk + bpf_core_field_offset(struct block_device, bd_disk), TYPED);
	}
	return disk + bpf_core_field_offset(struct gendisk, disk_name);
}

/* Whether a name, of which this is the first word, begins with `nvme`. */
static __always_inline int is_nvme_name(u64 word)
{
	if (__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__)
		return (u32)word == 0x656d766e;
	return word >> 32 == 0x6e766d65;
}

#define BIO_FIELD(at, field) peek((at) + bpf_core_field_offset(struct bio, field), TYPED)

static __always_inline int is_of_nvme(u64 bio)
{
	return is_nvme_name(peek(disk_name_of(bio), TYPED));
}

/* Whether a name, of which this is the first word, begins with `dm-`. */
static __always_inline int is_mapped_name(u64 word)
{
	if (__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__)
		return (word & 0xffffff) == 0x2d6d64;
	return word >> 40 == 0x646d2d;
}

/* Whether bios are followed with their submitters. */
#define FOLLOWS_SUBMITTERS (cfg_waits && cfg_who & ND_WHO_SUBMITTER)

#include "disks.bpf.h"
#include "submitter.bpf.h"
#include "bio_table.bpf.h"
#include "pause.bpf.h"

/* With cfg_start_bio: bios with a request whose command is not set up. */
struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 1); /* user space sets it */
	__uint(key_size, sizeof(u64));
	__uint(value_size, sizeof(struct nd_begun));
} begun SEC(".maps");

/* A bio of another disk than NVMe: device mapper may submit a clone of it to one. */
static __always_inline int on_other_bio(u64 bio, u8 early, u32 hook)
{
	return FOLLOWS_SUBMITTERS ? note_submission_of(bio, early, hook) : 0;
}

/* blk-throttle looks at a bio: it is about to be queued, now or later. A bio that was queued before
 * is the rest of one that was split: it keeps its submission. */
static __always_inline int on_throttle(u64 bio, u32 hook)
{
	struct nd_bio *b;

	if (!is_of_nvme(bio))
		return on_other_bio(bio, 1, hook);
	if (ignored(hook))
		return 0;
	hit(hook, TYPED);
	b = bpf_map_lookup_elem(&bios, &bio);
	if (!b || !b->bio_ns || (!b->rest && !is_entry_of(b, bio)))
		put_bio(bio, bpf_ktime_get_ns(), 0);
	return 0;
}

/*
 * The same before 5.18, for each bio. A bio that has waited comes here again. Whether one has to
 * wait, the end of the function shows.
 */
static __always_inline int on_limits_in(u64 bio, u32 hook)
{
	struct nd_bio *b = bpf_map_lookup_elem(&bios, &bio);

	if (b && b->submit_ns && !b->bio_ns && is_entry_of(b, bio)) {
		b->released = 1;
		return 0;
	}
	return on_throttle(bio, hook);
}

/* The bio may be gone: its address only finds its entry. */
static __always_inline int on_limits_out(u64 bio, int waits, u32 hook)
{
	struct nd_bio *b = bpf_map_lookup_elem(&bios, &bio);

	if (!b || ignored(hook))
		return 0;
	hit(hook, TYPED);
	if (!waits && !b->bio_ns && !b->released)
		b->submit_ns = 0; /* not submitted yet */
	return 0;
}

/* A bio is queued, after blk-throttle. This comes once in the life of a bio. */
static __always_inline int on_bio_queued(u64 bio, u32 hook)
{
	struct nd_bio *b;
	u64 now;

	if (!is_of_nvme(bio))
		return on_other_bio(bio, 0, hook);
	if (ignored(hook))
		return 0;
	hit(hook, TYPED);
	forget_pause();
	now = bpf_ktime_get_ns();
	if (bios_there) {
		b = bpf_map_lookup_elem(&bios, &bio);
		if (b && !b->bio_ns && is_entry_of(b, bio)) {
			b->bio_ns = now;
			if (!b->submit_ns)
				b->submit_ns = now;
			return 0;
		}
		if (b)
			drop_entry(bio);
	}
	/* A task's last bio is its own: a clone goes to the table. */
	if ((FOLLOWS_SUBMITTERS && submitter_of_original(bio)) || !note_last(bio, now))
		put_bio(bio, now, now);
	return 0;
}

/* The block layer has split a piece off: `bio`. The rest is its bi_private, and is submitted again
 * without block_bio_queue. */
static __always_inline int on_bio_split(u64 bio, u32 hook)
{
	u64 rest = BIO_FIELD(bio, bi_private);
	struct nd_last_bio *former = in_last(bio);
	struct nd_bio *b, copy;

	if (ignored(hook))
		return 0;
	if (former)
		former->bio = 0;
	b = bio_in_table(rest);
	if (!b)
		return FOLLOWS_SUBMITTERS ? on_submitted_split(bio, hook) : 0;
	hit(hook, TYPED);
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
		hit(hook, TYPED);
	else if (FOLLOWS_SUBMITTERS)
		on_submitted_done(bio, hook);
	return 0;
}

static __always_inline int on_wait_in(u64 bio, u32 hook)
{
	struct nd_bio *b = bio_in_table(bio);

	if (!b || ignored(hook))
		return 0;
	hit(hook, TYPED);
	b->begin_ns = bpf_ktime_get_ns();
	return 0;
}

/* The bio may be gone: its address only finds its entry. */
static __always_inline int on_wait_out(u64 bio, int freeze, u32 hook)
{
	struct nd_bio *b = bpf_map_lookup_elem(&bios, &bio);
	u64 waited;

	if (!b || !b->begin_ns || ignored(hook))
		return 0;
	hit(hook, TYPED);
	waited = bpf_ktime_get_ns() - b->begin_ns;
	b->begin_ns = 0;
	if (freeze)
		b->freeze_ns += waited;
	else
		b->iocost_ns += waited;
	return 0;
}

/*
 * A zone of a disk takes one write at a time, and others wait (zone write plugging, 6.10 and
 * later). Whether this one has to, the end of the function shows. By then another CPU may have
 * given it a request. It waits until then, less the waits that come after this one.
 */
static __always_inline int on_zone_in(u64 bio, u32 hook)
{
	struct nd_bio *b = bio_in_table(bio);

	if (!b || ignored(hook))
		return 0;
	hit(hook, TYPED);
	b->zone_ns = bpf_ktime_get_ns();
	return 0;
}

static __always_inline int on_zone_out(u64 bio, int waits, u32 hook)
{
	struct nd_bio *b = waits ? NULL : bpf_map_lookup_elem(&bios, &bio);

	if (!b || ignored(hook))
		return 0;
	hit(hook, TYPED);
	b->zone_ns = 0;
	return 0;
}

/* The time of the request, if all waits of its bio are known; otherwise 0. A bio that waits for a
 * zone after it has waited for a frozen queue keeps the first: the other is in `block`. */
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

/* The waits of a bio that got its request at `start`. Takes it out of the room of its task. */
static __always_inline void waits_of_last(struct nd_waits *w, struct nd_last_bio *l, u64 start)
{
	w->submit_ns = l->bio_ns;
	w->bio_ns = l->bio_ns;
	w->freeze_ns = 0;
	w->iocost_ns = 0;
	w->start_ns = known_start(w, 0, 0, start);
	if (cfg_context)
		count_wait(l->bio, start - l->bio_ns);
	w->also = 0;
	l->bio = 0;
}

/* The same of a bio in the table. */
static __always_inline void waits_of(struct nd_waits *w, struct nd_bio *b, u64 bio, u64 start)
{
	w->submit_ns = cfg_wait_points & ND_WAIT_SUBMIT ? b->submit_ns : b->bio_ns;
	w->bio_ns = b->bio_ns;
	w->freeze_ns = cfg_wait_points & ND_WAIT_FREEZE ? b->freeze_ns : 0;
	w->iocost_ns = cfg_wait_points & ND_WAIT_IOCOST ? b->iocost_ns : 0;
	w->start_ns = known_start(w, b->begin_ns, b->zone_ns, start);
	/* Of a bio that is split the first request: the others come after it. */
	if (cfg_context && !b->rest)
		count_wait(bio, start - b->bio_ns);
	w->also = 0;
	drop_entry(bio);
}

/* Whether a request begins within a bio. */
static __always_inline int begins_in(u64 at, u64 sector, u32 bytes)
{
	return at >= sector && at <= sector + (bytes >> 9);
}

/* The submitter of the last bio that this task queued: the task itself. */
static __always_inline void submitter_of_last(struct nd_sender *by, u64 bio)
{
	if (FOLLOWS_SUBMITTERS)
		by_this_task(by, bio, TYPED);
}

/* A request was allocated for a bio: keeps its waits, and its submitter, until the set-up. Requests
 * of flushes, and of passthrough commands, have no bio. The address of a bio may be that of an
 * earlier one. */
static __always_inline void note_waits(struct nd_start *st, struct request *rq, int typed)
{
	u64 bio = peek((u64)rq + bpf_core_field_offset(struct request, bio), typed), at;
	struct nd_last_bio *l;
	struct nd_bio *b;

	st->waits.start_ns = 0;
	if (FOLLOWS_SUBMITTERS)
		st->by.tid = 0;
	if (!bio || is_passthrough(rq, typed))
		return;
	at = GET(typed, rq, __sector);
	l = in_last(bio);
	if (l && begins_in(at, l->sector, l->bytes)) {
		waits_of_last(&st->waits, l, st->ns);
		submitter_of_last(&st->by, bio);
		return;
	}
	b = bpf_map_lookup_elem(&bios, &bio);
	if (!b || !b->bio_ns || !begins_in(at, b->sector, b->bytes)) {
		count(ND_NO_BIO);
		return;
	}
	if (FOLLOWS_SUBMITTERS)
		st->by = b->by;
	waits_of(&st->waits, b, bio, st->ns);
}

/*
 * The bio got a request, which is not an argument: keeps its waits by its address until the set-up.
 * Until then the bio is one of the request's.
 */
static __always_inline int on_bio_start(u64 bio, u32 hook)
{
	struct nd_last_bio *l = in_last(bio);
	struct nd_bio *b = l ? NULL : bpf_map_lookup_elem(&bios, &bio);
	struct nd_begun w = {};
	u64 now;

	if (!(l || (b && b->bio_ns)) || ignored(hook)) {
		forget_pause();
		return 0;
	}
	hit(hook, TYPED);
	now = bpf_ktime_get_ns();
	if (l) {
		waits_of_last(&w.waits, l, now);
		submitter_of_last(&w.by, bio);
	} else if (b) {
		w.by = b->by;
		waits_of(&w.waits, b, bio, now);
	}
	w.waits.also = now;
	if (bpf_map_update_elem(&begun, &bio, &w, BPF_ANY))
		count(ND_BIOS_FULL);
	return 0;
}

/* Looks for the bio that got the request among all of it. Other requests may have been merged into
 * it: the first counts, as for the kernel. Returns when that was; 0: not known. */
static __noinline u64 take_begun(struct request *rq, struct nd_slot *to)
{
	u64 bio = peek((u64)rq + bpf_core_field_offset(struct request, bio), TYPED), start = 0;
	struct nd_begun *w;

	for (u32 i = 0; i < ND_CHAIN; i++) {
		if (!bio)
			break;
		w = bpf_map_lookup_elem(&begun, &bio);
		if (w) {
			if (!start || w->waits.also < start) {
				to->waits = w->waits;
				if (FOLLOWS_SUBMITTERS)
					to->origin.by = w->by;
				start = w->waits.also;
			}
			bpf_map_delete_elem(&begun, &bio);
		}
		bio = BIO_FIELD(bio, bi_next);
	}
	return start;
}

/* The start of a command by its bios. Its slot, and the entry of its tag, get the waits before it.
 */
static __always_inline u64 start_of_bios(struct nd_slot *s, struct nd_start *st, struct request *rq,
					 int typed)
{
	u64 pdu = pdu_of(rq), start;

	start = take_begun(typed ? drop_trust(rq) : rq, s);
	waits_in(s)->also = 0;
	if (start && st) {
		st->waits = *waits_in(s);
		if (FOLLOWS_SUBMITTERS) {
			st->by = s->origin.by;
			st->mark = mark_of(rq, typed);
		}
	}
	/* Without the driver's types a retry, whose bio is gone, counts too. */
	if (!start && GET(typed, rq, bio) && !is_passthrough(rq, typed) &&
	    ((!typed && cfg_by_name) ||
	     !(u8)peek(pdu + bpf_core_field_offset(struct nvme_request, retries), typed)))
		count(ND_NO_BIO);
	return start;
}

#include "bio_chain.bpf.h"

/* The submitter of a command, before its set-up: that of the bio that got the request. A retry has
 * no start, but the same bio. Without an entry (start_of_bios()) the slot has it, also of a command
 * that was requeued. */
static __always_inline void take_submitter(struct nd_slot *s, struct nd_start *st,
					   struct request *rq, u64 start, int typed)
{
	if (!FOLLOWS_SUBMITTERS || (!st && start))
		return;
	if (st && (start || st->mark == mark_of(rq, typed)))
		s->origin.by = st->by;
	else
		s->origin.by.tid = 0;
}

/* A requeued command has the waits of its first set-up, in its slot or in the entry of its tag. */
static __always_inline void take_waits(struct nd_slot *s, struct nd_start *st, struct request *rq,
				       int typed)
{
	if (st && s->start_ns && st->waits.start_ns == s->start_ns)
		*waits_in(s) = st->waits;
	note_bios(s, st, rq, typed);
}

#endif
