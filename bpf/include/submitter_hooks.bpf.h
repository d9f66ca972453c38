/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* The programs that observe submitters: part of the hook table in nvme_deep.bpf.c. */
#ifndef ND_SUBMITTER_HOOKS_H
#define ND_SUBMITTER_HOOKS_H

SEC("?tp_btf/block_bio_queue")
int BPF_PROG(submit_btf)
{
	u64 bio = bio_of(ctx);

	return bio ? on_bio_submitted(bio, ND_HOOK_SUBMIT_BTF) : 0;
}

SEC("?tp_btf/block_split")
int BPF_PROG(submit_split_btf)
{
	u64 bio = bio_of(ctx);

	return bio ? on_submitted_split(bio, ND_HOOK_SUBMIT_SPLIT_BTF) : 0;
}

/* Its arguments are (queue, bio) on every kernel. */
SEC("?tp_btf/block_bio_complete")
int BPF_PROG(submit_done_btf, void *q, void *bio)
{
	return on_submitted_done((u64)bio, ND_HOOK_SUBMIT_DONE_BTF);
}

SEC("?fentry/__blk_throtl_bio")
int BPF_PROG(submit_limit_fentry, void *bio)
{
	return on_bio_limited((u64)bio, ND_HOOK_SUBMIT_LIMIT_FENTRY);
}

SEC("?fentry/blk_throtl_bio")
int BPF_PROG(submit_limit_old_fentry, void *bio)
{
	return on_bio_limited((u64)bio, ND_HOOK_SUBMIT_LIMIT_OLD_FENTRY);
}

#endif
