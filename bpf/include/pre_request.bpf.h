/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* The programs of --stages=full: a part of the hook table (nvme_deep.bpf.c). */
#ifndef ND_BEFORE_H
#define ND_BEFORE_H

/* To 5.15: blk-mq has allocated the request. */
SEC("?fentry/blk_account_io_start")
int BPF_PROG(start_fentry, struct request *rq)
{
	return on_start(rq, ND_HOOK_START_FENTRY, TYPED);
}

/* 5.16 to 6.4: no function is left that has the request, too. */
SEC("?tp_btf/block_getrq")
int BPF_PROG(start_bio_btf)
{
	u64 bio = bio_of(ctx);

	return bio ? on_bio_start(bio, ND_HOOK_START_BIO_BTF) : 0;
}

SEC("?tp_btf/block_bio_queue")
int BPF_PROG(bio_queued_btf)
{
	u64 bio = bio_of(ctx);

	return bio ? on_bio_queued(bio, ND_HOOK_BIO_QUEUED_BTF) : 0;
}

SEC("?tp_btf/block_split")
int BPF_PROG(bio_split_btf)
{
	u64 bio = bio_of(ctx);

	return bio ? on_bio_split(bio, ND_HOOK_BIO_SPLIT_BTF) : 0;
}

SEC("?tp_btf/block_bio_backmerge")
int BPF_PROG(bio_back_btf)
{
	return on_bio_merged(bio_of(ctx), ND_HOOK_BIO_BACK_BTF);
}

SEC("?tp_btf/block_bio_frontmerge")
int BPF_PROG(bio_front_btf)
{
	return on_bio_merged(bio_of(ctx), ND_HOOK_BIO_FRONT_BTF);
}

/* Its arguments are (queue, bio) on every kernel. */
SEC("?tp_btf/block_bio_complete")
int BPF_PROG(bio_done_btf, void *q, void *bio)
{
	return on_bio_gone((u64)bio, ND_HOOK_BIO_DONE_BTF);
}

SEC("?fentry/__blk_throtl_bio")
int BPF_PROG(throttle_fentry, void *bio)
{
	return on_throttle((u64)bio, ND_HOOK_THROTTLE_FENTRY);
}

/* Before 5.18. */
SEC("?fentry/blk_throtl_bio")
int BPF_PROG(limits_in_fentry, void *bio)
{
	return on_limits_in((u64)bio, ND_HOOK_LIMITS_IN_FENTRY);
}

SEC("?fexit/blk_throtl_bio")
int BPF_PROG(limits_out_fexit, void *bio, u8 waits)
{
	return on_limits_out((u64)bio, waits, ND_HOOK_LIMITS_OUT_FEXIT);
}

SEC("?fentry/__bio_queue_enter")
int BPF_PROG(freeze_in_fentry, void *q, void *bio)
{
	return on_wait_in((u64)bio, ND_HOOK_FREEZE_IN_FENTRY);
}

SEC("?fexit/__bio_queue_enter")
int BPF_PROG(freeze_out_fexit, void *q, void *bio)
{
	return on_wait_out((u64)bio, 1, ND_HOOK_FREEZE_OUT_FEXIT);
}

/* Before 5.14. */
SEC("?fentry/blk_queue_enter")
int BPF_PROG(enter_in_fentry, void *q)
{
	return on_enter_in((u64)q, ND_HOOK_ENTER_IN_FENTRY);
}

SEC("?fexit/blk_queue_enter")
int BPF_PROG(enter_out_fexit)
{
	return on_enter_out(ND_HOOK_ENTER_OUT_FEXIT);
}

SEC("?fentry/blk_zone_plug_bio")
int BPF_PROG(zone_in_fentry, void *bio)
{
	return on_zone_in((u64)bio, ND_HOOK_ZONE_IN_FENTRY);
}

SEC("?fexit/blk_zone_plug_bio")
int BPF_PROG(zone_out_fexit, void *bio, u32 segments, u8 waits)
{
	return on_zone_out((u64)bio, waits, ND_HOOK_ZONE_OUT_FEXIT);
}

SEC("?fentry/ioc_rqos_throttle")
int BPF_PROG(iocost_in_fentry, void *rqos, void *bio)
{
	return on_wait_in((u64)bio, ND_HOOK_IOCOST_IN_FENTRY);
}

SEC("?fexit/ioc_rqos_throttle")
int BPF_PROG(iocost_out_fexit, void *rqos, void *bio)
{
	return on_wait_out((u64)bio, 0, ND_HOOK_IOCOST_OUT_FEXIT);
}

SEC("?fentry/rq_qos_wait")
int BPF_PROG(wbt_in_fentry)
{
	return on_wbt_in(ND_HOOK_WBT_IN_FENTRY);
}

SEC("?fexit/rq_qos_wait")
int BPF_PROG(wbt_out_fexit)
{
	return on_wbt_out(ND_HOOK_WBT_OUT_FEXIT);
}

/* 7.2 and later: only if no tag is free. */
SEC("?tp_btf/block_rq_tag_wait")
int BPF_PROG(tag_wait_btf)
{
	return on_tag_wait(ND_HOOK_TAG_WAIT_BTF);
}

SEC("?fexit/__blk_mq_get_tag")
int BPF_PROG(tag_fexit, void *data, void *bt, u32 tag)
{
	return tag == ~0u && !may_not_wait((u64)data) ? on_tag_wait(ND_HOOK_TAG_FEXIT) : 0;
}

#endif
