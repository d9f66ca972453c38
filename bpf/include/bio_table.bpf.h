/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Where bios are from their submission until they have a request (--stages=full). Each task has
 * room for the bio that it queued last: most get their request before the task queues another. A
 * bio that waits, is split, or has no request when its task queues another one, moves to a table,
 * by its address.
 */
#ifndef ND_BIO_TABLE_H
#define ND_BIO_TABLE_H

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, ND_BIOS);
	__uint(key_size, sizeof(u64));
	__uint(value_size, sizeof(struct nd_bio));
} bios SEC(".maps");

/* How many bios the table has. 0 spares searches for each bio. */
static u32 bios_there SEC(".bss.waits");

/* By task. Not a map: see `tasks` in slots.bpf.h. */
static struct nd_last_bio last_bios[ND_PAUSES] SEC(".bss.waits") __attribute__((aligned(64)));

/* Puts an entry into the table, or replaces an outdated one of its address. */
static __always_inline void put_entry(u64 bio, struct nd_bio *b)
{
	if (!bpf_map_update_elem(&bios, &bio, b, BPF_NOEXIST))
		__sync_fetch_and_add(&bios_there, 1);
	else if (bpf_map_update_elem(&bios, &bio, b, BPF_EXIST))
		count(ND_BIOS_FULL);
}

/* Takes the bio out of the table. Returns whether it was there. */
static __always_inline int drop_entry(u64 bio)
{
	if (bpf_map_delete_elem(&bios, &bio))
		return 0;
	__sync_fetch_and_add(&bios_there, -1);
	return 1;
}

static __always_inline struct nd_last_bio *last_bio_of(u32 tid)
{
	return &last_bios[tid & (ND_PAUSES - 1)];
}

/* The room of this task, if this bio is in it. */
static __always_inline struct nd_last_bio *in_last(u64 bio)
{
	u32 tid = this_task();
	struct nd_last_bio *l = last_bio_of(tid);

	return l->tid == tid && l->bio == bio ? l : NULL;
}

/* Whether this bio has this place. */
static __always_inline int has_place(u64 bio, u64 sector, u32 bytes)
{
	return sector == BIO_FIELD(bio, bi_iter.bi_sector) &&
	       bytes == (u32)BIO_FIELD(bio, bi_iter.bi_size);
}

/* Whether the entry is of this bio, not of an earlier one with its address. */
static __always_inline int is_entry_of(struct nd_bio *b, u64 bio)
{
	return has_place(bio, b->sector, b->bytes);
}

/* Moves the bio of this task to the table. It has not waited. A later entry of its address stays.
 */
static __always_inline void move_bio(struct nd_last_bio *l)
{
	struct nd_bio b =
			      {
				      .submit_ns = l->bio_ns,
				      .bio_ns = l->bio_ns,
				      .sector = l->sector,
				      .bytes = l->bytes,
			      },
		      *there;
	u64 bio = l->bio;

	l->bio = 0;
	if (FOLLOWS_SUBMITTERS)
		by_this_task(&b.by, bio, TYPED);
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

/*
 * Notes a bio in the room of its task. If a task of another number has its bio there,
 * the bio goes to the table. Two tasks that meet in the same room at the same time may lose a bio,
 * which is counted at its request: that compares task, address, sector and size.
 */
static __always_inline int note_last(u64 bio, u64 now)
{
	u32 tid = this_task();
	struct nd_last_bio *l = last_bio_of(tid);

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

/* Puts a bio into the table, or replaces an outdated entry of its address. */
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

#endif
