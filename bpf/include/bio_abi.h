/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* What happens before the request (--stages=full): bios, and the waits of a request. As in abi.h.
 */
#ifndef ND_BIO_ABI_H
#define ND_BIO_ABI_H

enum nd_bio_limit {
	ND_BIOS = 16384,    /* bios between their submission and their request */
	ND_PAUSES = 4096,   /* tasks that wait for a tag, or in wbt; and those with a bio */
	ND_CHAIN = 256,	    /* bios of a request that are looked at */
	ND_BIOS_SHIFT = 48, /* where the number of bios begins in nd_early_times.bios */
};

/* A bio from its submission to an NVMe disk until it has a request. */
struct nd_bio {
	__u64 submit_ns; /* blk-throttle looks at it; without limits as bio_ns */
	__u64 bio_ns;	 /* block_bio_queue; 0: still in blk-throttle */
	__u64 freeze_ns; /* time in __bio_queue_enter() */
	__u64 iocost_ns; /* time in ioc_rqos_throttle() */
	__u64 begin_ns;	 /* of a wait that has not ended; 0: none */
	__u64 zone_ns;	 /* since when it waits for its zone; 0: it does not */
	__u64 sector;	 /* the first, of the disk */
	__u32 bytes;
	__u16 released;	     /* blk-throttle looks at it again: it has waited there */
	__u16 rest;	     /* a piece was split off */
	struct nd_sender by; /* only if submitters are observed */
};

/* The last bio that a task queued, until it has a request: most get it before the task queues
 * another. */
struct nd_last_bio {
	__u32 tid;
	__u32 bytes;
	__u64 bio; /* 0: none */
	__u64 bio_ns;
	__u64 sector;
	__u64 _pad[4];
};

/* The waits of the task that is about to get a request. */
struct nd_pause {
	__u32 tid; /* 0: none */
	__u32 _pad;
	__u64 wbt_begin_ns; /* in rq_qos_wait(); 0: not */
	__u64 wbt_ns;
	__u64 tag_ns;	       /* since when it waits for a tag; 0: it does not */
	__u64 freeze_begin_ns; /* in blk_queue_enter() of a frozen queue; 0: not */
	__u64 freeze_ns;
};

/* The bio for which a request was allocated: two times, and how long it waited for what. */
struct nd_waits {
	__u64 start_ns; /* of the request that waited; 0: not known */
	__u64 submit_ns;
	__u64 bio_ns;
	__u64 freeze_ns; /* or for a zone: ND_FOR_ZONE */
	__u64 iocost_ns;
	__u64 wbt_ns;
	__u64 tag_ns;
	/* While the request is not known: when it was allocated (on_bio_start()). In a slot: as
	 * nd_early_times.bios. */
	__u64 also;
};

/* What is known of a bio that got its request, until the set-up (on_bio_start()). */
struct nd_begun {
	struct nd_waits waits;
	struct nd_sender by;
};

_Static_assert(sizeof(struct nd_bio) == 96, "no padding");
_Static_assert(sizeof(struct nd_last_bio) == 64, "a cache line");
_Static_assert(sizeof(struct nd_pause) == 48, "no padding");
_Static_assert(sizeof(struct nd_waits) == 64, "a cache line");
_Static_assert(sizeof(struct nd_begun) == 96, "no padding");

#endif
