/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* Who submitted a bio (submitter.bpf.h). As in abi.h. */
#ifndef ND_SUBMITTER_ABI_H
#define ND_SUBMITTER_ABI_H

enum nd_submitter_limit {
	ND_SUBMITTERS =
		16384, /* bios; the one that was looked up longest ago gives way to another */
};

/* nd_sender.tid of a task that is not within the cgroup of the filter. */
enum nd_unwanted { ND_UNWANTED = 0xffffffff };

/* The submission of a bio. */
struct nd_submitter {
	struct nd_sender by;
	__u64 sector; /* the first, of the disk */
	__u32 bytes;
	__u16 early; /* noted before block_bio_queue, which may be of another task */
	__u16 rest;  /* a piece was split off, and this has no request yet */
};

_Static_assert(sizeof(struct nd_submitter) == 48, "no padding");

#endif
