/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* The bios of a command, with those that were merged into its request: how many, and how long the
 * oldest waited. Only where single commands are traced. */
#ifndef ND_BIO_CHAIN_H
#define ND_BIO_CHAIN_H

/* A bio is about to be merged into a request: the request's command is its command. */
static __always_inline int on_bio_merged(u64 bio, u32 hook)
{
	if (!cfg_trace)
		return on_bio_gone(bio, hook);
	if (bio_in_table(bio))
		hit(hook, TYPED);
	return 0;
}

struct nd_chain {
	u64 bio;       /* the next one */
	u64 oldest_ns; /* the earliest submission */
	u64 count;
};

/* Counts the bios of a request from the first on, and takes those that were merged out of the
 * table. */
static __noinline int follow_chain(struct nd_chain *c)
{
	struct nd_bio *b;

	if (!c)
		return 0;
	for (u32 i = 0; i < ND_CHAIN; i++) {
		u64 bio = c->bio;

		if (!bio)
			break;
		b = bpf_map_lookup_elem(&bios, &bio);
		if (b && b->submit_ns && b->submit_ns < c->oldest_ns)
			c->oldest_ns = b->submit_ns;
		if (b)
			drop_entry(bio);
		c->count++;
		c->bio = BIO_FIELD(bio, bi_next);
	}
	return 0;
}

/* Notes the bios of a command at its set-up. One that was requeued has those of its first set-up,
 * in its slot or in the entry of its tag. */
static __always_inline void note_bios(struct nd_slot *s, struct nd_start *st, struct request *rq,
				      int typed)
{
	struct nd_chain c = {};

	if (!cfg_trace || !s->start_ns || s->waits.start_ns != s->start_ns || s->waits.also)
		return;
	c.bio = peek((u64)rq + bpf_core_field_offset(struct request, bio), typed);
	if (!c.bio)
		return;
	c.oldest_ns = s->waits.submit_ns;
	if (BIO_FIELD(c.bio, bi_next))
		follow_chain(&c);
	else
		c.count = 1;
	s->waits.also = c.count << ND_BIOS_SHIFT |
			((s->setup_out_ns - c.oldest_ns) & ((1ULL << ND_BIOS_SHIFT) - 1));
	if (st && st->waits.start_ns == s->start_ns)
		st->waits.also = s->waits.also;
}

#endif
