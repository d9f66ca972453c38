/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * SPDK's NVMe-oF target by uprobes, whatever its transport. Where its structures have their fields
 * depends on the release (src/machine/spdk.rs); every hit is checked, because another layout gives
 * wrong records.
 */
#ifndef ND_SPDK_BPF_H
#define ND_SPDK_BPF_H

/* Messages between SPDK's threads, by function. */
struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, ND_SPDK_MSGS);
	__type(key, struct nd_spdk_msg);
	__type(value, __u64);
} messages SEC(".maps");

/* Reads memory of the process. */
#define peek(to, from) bpf_probe_read_user(to, sizeof(*(to)), (void *)(from))

/* The begin of a subsystem. */
struct nd_spdk_subsystem {
	char bytes[ND_SPDK_SUBSYSTEM];
};

struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct nd_spdk_subsystem);
} scratch_subsystem SEC(".maps");

/*
 * The offset of the NQN in a subsystem: that of the first one. Releases differ. A program that
 * preempts this one copies another subsystem of the same release.
 */
static __always_inline int spdk_nqn_at(__u64 subsystem)
{
	struct nd_spdk_subsystem *copy;
	__u32 zero = 0, at;

	copy = bpf_map_lookup_elem(&scratch_subsystem, &zero);
	if (!copy || peek(copy, subsystem))
		return -1;
	for (at = 0; at < ND_SPDK_SUBSYSTEM - 4; at++) {
		if (copy->bytes[at] == 'n' && copy->bytes[at + 1] == 'q' &&
		    copy->bytes[at + 2] == 'n' && copy->bytes[at + 3] == '.')
			return at;
	}
	return -1;
}

/* Remembers a controller with its NQN. Fails if there is none: this is no controller. */
static __always_inline int spdk_ctrl(const struct nd_host_ctrl *key)
{
	struct nd_host_name *name;
	__u64 subsystem = 0;
	int at;

	if (bpf_map_lookup_elem(&host_ctrls, key))
		return 0;
	if (peek(&subsystem, key->address + ND_SPDK_CTRLR_SUBSYSTEM))
		return -1;
	at = spdk_nqn_at(subsystem);
	if (at < 0)
		return -1;
	name = place_of_name(key);
	if (name)
		bpf_probe_read_user_str(name->nqn, sizeof(name->nqn), (void *)(subsystem + at));
	return 0;
}

/*
 * The queue and the controller of a request, checked. A queue has no controller until its Connect
 * has been executed.
 */
static __always_inline int spdk_where(__u64 req, struct nd_host *event)
{
	__u64 qpair = 0, ctrlr = 0;
	__u16 cntlid = 0;

	if (peek(&qpair, req) || !qpair || peek(&event->qid, qpair + host_config.qpair_qid) ||
	    peek(&ctrlr, qpair + host_config.qpair_ctrlr))
		return -1;
	if (!ctrlr)
		return (event->sqe[0] & 0xff) == ND_SPDK_FABRICS ? 0 : -1;
	if (peek(&cntlid, ctrlr))
		return -1;
	event->ctrl.address = ctrlr;
	event->ctrl.cntlid = cntlid;
	return spdk_ctrl(&event->ctrl);
}

/* spdk_nvmf_request_exec(req) */
SEC("?uprobe")
int spdk_fetch(struct pt_regs *ctx)
{
	struct nd_host event = {.points_ns = {bpf_ktime_get_ns()}};
	__u64 req = PT_REGS_PARM1(ctx), cmd = 0;

	if (!is_target())
		return 0;
	count(ND_HOST_HIT_FETCH);
	event.request = req;
	if (peek(&cmd, req + host_config.req_cmd) || peek(&event.sqe, cmd) ||
	    spdk_where(req, &event)) {
		count(ND_HOST_FAILED_CHECK);
		return 0;
	}
	begin(req, &event);
	return 0;
}

/*
 * spdk_bdev_readv_blocks_ext(..., cb, req, opts) and the like. The callback and its argument are
 * the seventh and the eighth parameter.
 */
SEC("?uprobe")
int spdk_submit(struct pt_regs *ctx)
{
	struct nd_host *event;
	__u64 req = 0;

	if (!is_target())
		return 0;
	count(ND_HOST_HIT_SUBMIT);
#if defined(__TARGET_ARCH_x86)
	/* The first two words of the stack are the return address and the callback. */
	if (peek(&req, PT_REGS_SP(ctx) + 16))
		return 0;
#else
	req = PT_REGS_PARM8(ctx);
#endif
	/* Other modules use these functions, too. */
	event = bpf_map_lookup_elem(&flying, &req);
	if (event && !event->points_ns[ND_HOST_BACKEND_SUBMIT])
		event->points_ns[ND_HOST_BACKEND_SUBMIT] = bpf_ktime_get_ns();
	return 0;
}

/* spdk_nvmf_request_complete(req): requests that do not complete at once, on the way to the next.
 */
SEC("?uprobe")
int spdk_done(struct pt_regs *ctx)
{
	__u64 req = PT_REGS_PARM1(ctx);
	struct nd_host *event;

	if (!is_target())
		return 0;
	count(ND_HOST_HIT_DONE);
	event = bpf_map_lookup_elem(&flying, &req);
	if (event && event->points_ns[ND_HOST_BACKEND_SUBMIT])
		event->points_ns[ND_HOST_BACKEND_DONE] = bpf_ktime_get_ns();
	return 0;
}

/* nvmf_transport_req_complete(req). The response has the id of the command. */
SEC("?uprobe")
int spdk_complete(struct pt_regs *ctx)
{
	__u64 req = PT_REGS_PARM1(ctx), now = bpf_ktime_get_ns(), cmd = 0, rsp = 0;
	struct nd_host *known, event = {};
	__u16 cid = 0, status = 0;

	if (!is_target())
		return 0;
	count(ND_HOST_HIT_COMPLETE);
	known = bpf_map_lookup_elem(&flying, &req);
	if (known) {
		event = *known;
		bpf_map_delete_elem(&flying, &req);
	} else {
		count(ND_HOST_WITHOUT_BEGIN);
		event.request = req;
		if (peek(&cmd, req + host_config.req_cmd) || peek(&event.sqe, cmd)) {
			count(ND_HOST_FAILED_CHECK);
			return 0;
		}
	}
	if (spdk_where(req, &event) || peek(&rsp, req + host_config.req_rsp) ||
	    peek(&cid, rsp + ND_CQE_CID) || peek(&status, rsp + ND_CQE_STATUS) ||
	    cid != event.sqe[0] >> 16) {
		count(ND_HOST_FAILED_CHECK);
		return 0;
	}
	event.points_ns[ND_HOST_POST] = now;
	event.status = status >> 1;
	event.flags |= ND_HOST_HAS_STATUS;
	emit(&event);
	return 0;
}

/* nvmf_transport_req_free(req): the request ends without a response, as its connection does. */
SEC("?uprobe")
int spdk_free(struct pt_regs *ctx)
{
	__u64 req = PT_REGS_PARM1(ctx);
	struct nd_host *known, event;

	if (!is_target())
		return 0;
	count(ND_HOST_HIT_FREE);
	known = bpf_map_lookup_elem(&flying, &req);
	if (!known)
		return 0;
	event = *known;
	bpf_map_delete_elem(&flying, &req);
	event.flags |= ND_HOST_IS_ABANDONED;
	emit(&event);
	return 0;
}

static __always_inline int count_msg(__u32 call, __u64 function)
{
	struct nd_spdk_msg key = {.function = function, .call = call};
	__u64 one = 1, *n;

	if (!is_target())
		return 0;
	n = bpf_map_lookup_elem(&messages, &key);
	if (n)
		__sync_fetch_and_add(n, 1);
	/* Another CPU may have added it meanwhile. */
	else if (bpf_map_update_elem(&messages, &key, &one, BPF_NOEXIST)) {
		n = bpf_map_lookup_elem(&messages, &key);
		if (n)
			__sync_fetch_and_add(n, 1);
		else
			count(ND_HOST_NO_ROOM);
	}
	return 0;
}

/* spdk_thread_send_msg(thread, fn, ctx) */
SEC("?uprobe")
int spdk_send_msg(struct pt_regs *ctx)
{
	return count_msg(ND_SPDK_SEND_MSG, PT_REGS_PARM2(ctx));
}

/* spdk_for_each_channel(device, fn, ctx, done) */
SEC("?uprobe")
int spdk_each_channel(struct pt_regs *ctx)
{
	return count_msg(ND_SPDK_EACH_CHANNEL, PT_REGS_PARM2(ctx));
}

#endif
