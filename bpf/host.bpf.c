// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/* Commands in nvmet (tracepoints), QEMU and SPDK (uprobes). A map keeps each until its end. */
#include "host_abi.h"
#include "kernel.bpf.h"

#pragma clang attribute push(__attribute__((preserve_access_index)), apply_to = record)

struct nvmet_subsys {
	char *subsysnqn;
};

struct nvmet_ctrl {
	struct nvmet_subsys *subsys;
	u16 cntlid;
};

struct nvmet_sq {
	struct nvmet_ctrl *ctrl;
	u16 qid;
};

struct nvme_completion {
	u16 status;
};

struct nvmet_req {
	void *cmd;
	struct nvme_completion *cqe;
	struct nvmet_sq *sq;
};

#pragma clang attribute pop

/* The process that is traced, and the offsets of fields in its structures. QEMU: the command of a
 * request. SPDK: also its response, and the id and the controller of a queue. */
const volatile struct {
	u32 tgid;
	u32 req_cmd;
	u32 req_rsp;
	u32 qpair_qid;
	u32 qpair_ctrlr;
} host_config = {.req_cmd = 1};

MAP(flying, HASH, u64, struct nd_host, ND_HOST_FLYING);
MAP(host_ctrls, HASH, struct nd_host_ctrl, struct nd_host_name, ND_HOST_CTRLS);
MAP(host_counts, PERCPU_ARRAY, u32, u64, ND_HOST_COUNTS);
RING(host_events, ND_HOST_RING);

static __always_inline void count(u32 what)
{
	u64 *n = bpf_map_lookup_elem(&host_counts, &what);

	/* Another program may preempt this one. */
	if (n)
		__sync_fetch_and_add(n, 1);
}

static __always_inline void begin(u64 req, const struct nd_host *event)
{
	struct nd_host *before = bpf_map_lookup_elem(&flying, &req);

	/* The end of the command that had this request was not observed. */
	if (before)
		count(ND_HOST_WITHOUT_END);
	if (bpf_map_update_elem(&flying, &req, event, BPF_ANY))
		count(ND_HOST_NO_ROOM);
}

/* Returns 0 if the start of the command was not observed. */
static __always_inline int take(u64 req, struct nd_host *event)
{
	struct nd_host *known = bpf_map_lookup_elem(&flying, &req);

	if (!known)
		return 0;
	*event = *known;
	bpf_map_delete_elem(&flying, &req);
	return 1;
}

static __always_inline void emit(struct nd_host *event)
{
	if (bpf_ringbuf_output(&host_events, event, sizeof(*event), BPF_RB_NO_WAKEUP))
		count(ND_HOST_LOST);
}

static __always_inline void put_name(const struct nd_host_ctrl *key, struct nd_host_name *name)
{
	if (bpf_map_update_elem(&host_ctrls, key, name, BPF_ANY))
		count(ND_HOST_NO_ROOM);
}

/* The queue and the controller of a request: a Connect has none before it is executed. */
static __always_inline struct nvmet_ctrl *nvmet_where(struct nvmet_req *req, struct nd_host *event)
{
	struct nvmet_ctrl *ctrl = BPF_CORE_READ(req, sq, ctrl);

	event->qid = BPF_CORE_READ(req, sq, qid);
	if (ctrl) {
		event->ctrl.address = (u64)ctrl;
		event->ctrl.cntlid = BPF_CORE_READ(ctrl, cntlid);
	}
	return ctrl;
}

SEC("?raw_tp/nvmet_req_init")
int BPF_PROG(nvmet_init, struct nvmet_req *req, void *cmd)
{
	struct nd_host event = {.points_ns = {bpf_ktime_get_ns()}, .request = (u64)req};

	count(ND_HOST_HIT_INIT);
	bpf_probe_read_kernel(event.sqe, sizeof(event.sqe), cmd);
	/* For a command that does not end during the run. */
	nvmet_where(req, &event);
	begin(event.request, &event);
	return 0;
}

/* A command that is rejected before its execution has no init. */
SEC("?raw_tp/nvmet_req_complete")
int BPF_PROG(nvmet_complete, struct nvmet_req *req)
{
	struct nd_host event = {};
	u64 now = bpf_ktime_get_ns();
	struct nd_host_name name = {};
	struct nvmet_ctrl *ctrl;

	count(ND_HOST_HIT_COMPLETE);
	if (!take((u64)req, &event)) {
		count(ND_HOST_WITHOUT_BEGIN);
		event.request = (u64)req;
		bpf_probe_read_kernel(event.sqe, sizeof(event.sqe), BPF_CORE_READ(req, cmd));
	}
	event.points_ns[ND_HOST_POST] = now;
	event.status = BPF_CORE_READ(req, cqe, status) >> 1;
	event.flags |= ND_HOST_HAS_STATUS;
	ctrl = nvmet_where(req, &event);
	if (ctrl && !bpf_map_lookup_elem(&host_ctrls, &event.ctrl)) {
		bpf_probe_read_kernel_str(name.nqn, sizeof(name.nqn),
					  BPF_CORE_READ(ctrl, subsys, subsysnqn));
		put_name(&event.ctrl, &name);
	}
	emit(&event);
	return 0;
}

/* Reads memory of the process. Returns 0 if it could. */
#define READ(to, from) bpf_probe_read_user(to, sizeof(*(to)), (void *)(from))

static __always_inline int is_traced(void)
{
	return bpf_get_current_pid_tgid() >> 32 == host_config.tgid;
}

/* Counts a hit. Returns 0 if it is not of the process that is traced. */
static __always_inline int hit(u32 what)
{
	if (!is_traced())
		return 0;
	count(what);
	return 1;
}

/* QEMU: nvme_map_dptr(n, sg, len, cmd). The fields around cmd show whether the layout is known. */
SEC("?uprobe")
int qemu_fetch(struct pt_regs *ctx)
{
	struct nd_host event = {.points_ns = {bpf_ktime_get_ns()}};
	u64 n = PT_REGS_PARM1(ctx), cmd = PT_REGS_PARM4(ctx), sq = 0, owner = 0;
	u64 req = cmd - host_config.req_cmd;
	u16 cid = 0;

	if (!hit(ND_HOST_HIT_FETCH))
		return 0;
	READ(&event.sqe, cmd);
	READ(&cid, req + ND_QEMU_REQ_CID);
	READ(&sq, req + ND_QEMU_REQ_SQ);
	READ(&owner, sq + ND_QEMU_SQ_CTRL);
	if (!sq || owner != n || cid != event.sqe[0] >> 16 ||
	    READ(&event.qid, sq + ND_QEMU_SQ_ID)) {
		count(ND_HOST_FAILED_CHECK);
		return 0;
	}
	/* An admin command does not end in nvme_rw_complete_cb. */
	if (!event.qid)
		return 0;
	event.request = req;
	event.ctrl.address = n;
	begin(req, &event);
	return 0;
}

/* QEMU: dma_blk_read, dma_blk_write, blk_aio_preadv and blk_aio_pwritev(..., cb, opaque). */
SEC("?uprobe")
int qemu_submit(struct pt_regs *ctx)
{
	u64 req = PT_REGS_PARM6(ctx);
	struct nd_host *event;

	if (!hit(ND_HOST_HIT_SUBMIT))
		return 0;
	/* Requests of other devices are not in the map. */
	event = bpf_map_lookup_elem(&flying, &req);
	if (event)
		event->points_ns[ND_HOST_BACKEND_SUBMIT] = bpf_ktime_get_ns();
	return 0;
}

/* QEMU: nvme_rw_complete_cb(req, ret). */
SEC("?uprobe")
int qemu_done(struct pt_regs *ctx)
{
	u64 req = PT_REGS_PARM1(ctx), now = bpf_ktime_get_ns();
	struct nd_host event;
	u16 cid = 0;

	if (!hit(ND_HOST_HIT_DONE))
		return 0;
	if (!take(req, &event)) {
		count(ND_HOST_WITHOUT_BEGIN);
		return 0;
	}
	READ(&cid, req + ND_QEMU_REQ_CID);
	if (cid != event.sqe[0] >> 16) {
		count(ND_HOST_FAILED_CHECK);
		return 0;
	}
	event.points_ns[ND_HOST_BACKEND_DONE] = now;
	/* The status of an error is set later. */
	if (!(s32)PT_REGS_PARM2(ctx))
		event.flags |= ND_HOST_HAS_STATUS;
	emit(&event);
	return 0;
}

/* QEMU: msix_notify(dev, vector). The controller begins with its device. */
SEC("?uprobe")
int qemu_interrupt(struct pt_regs *ctx)
{
	struct nd_host event = {.flags = ND_HOST_IS_INTERRUPT};

	if (!hit(ND_HOST_HIT_INTERRUPT))
		return 0;
	event.points_ns[ND_HOST_ITSELF] = bpf_ktime_get_ns();
	event.ctrl.address = PT_REGS_PARM1(ctx);
	event.sqe[0] = PT_REGS_PARM2(ctx);
	emit(&event);
	return 0;
}

/* SPDK's NVMe-oF target. Offsets depend on the release (src/machine/spdk.rs): hits are checked. */

/* Messages between SPDK's threads. */
MAP(messages, HASH, struct nd_spdk_msg, u64, ND_SPDK_MSGS);

/* The first bytes of a subsystem. */
MAP(scratch_subsystem, PERCPU_ARRAY, u32, char[ND_SPDK_SUBSYSTEM], 1);

/* The offset of the NQN in a subsystem, which differs between releases. */
static __always_inline int spdk_nqn_at(u64 subsystem)
{
	u32 zero = 0, at;
	char *copy = bpf_map_lookup_elem(&scratch_subsystem, &zero);

	if (!copy || bpf_probe_read_user(copy, ND_SPDK_SUBSYSTEM, (void *)subsystem))
		return -1;
	for (at = 0; at < ND_SPDK_SUBSYSTEM - 4; at++) {
		if (copy[at] == 'n' && copy[at + 1] == 'q' && copy[at + 2] == 'n' &&
		    copy[at + 3] == '.')
			return at;
	}
	return -1;
}

/* Remembers a controller with its NQN. Fails if there is none: this is no controller. */
static __always_inline int spdk_ctrl(const struct nd_host_ctrl *key)
{
	struct nd_host_name name = {};
	u64 subsystem = 0;
	int at;

	if (bpf_map_lookup_elem(&host_ctrls, key))
		return 0;
	if (READ(&subsystem, key->address + ND_SPDK_CTRLR_SUBSYSTEM))
		return -1;
	at = spdk_nqn_at(subsystem);
	if (at < 0)
		return -1;
	bpf_probe_read_user_str(name.nqn, sizeof(name.nqn), (void *)(subsystem + at));
	put_name(key, &name);
	return 0;
}

/* A queue has no controller before its Connect. */
static __always_inline int spdk_where(u64 req, struct nd_host *event)
{
	u64 qpair = 0, ctrlr = 0;
	u16 cntlid = 0;

	if (READ(&qpair, req) || !qpair || READ(&event->qid, qpair + host_config.qpair_qid) ||
	    READ(&ctrlr, qpair + host_config.qpair_ctrlr))
		return -1;
	if (!ctrlr)
		return (event->sqe[0] & 0xff) == ND_SPDK_FABRICS ? 0 : -1;
	if (READ(&cntlid, ctrlr))
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
	u64 req = PT_REGS_PARM1(ctx), cmd = 0;

	if (!hit(ND_HOST_HIT_FETCH))
		return 0;
	event.request = req;
	if (READ(&cmd, req + host_config.req_cmd) || READ(&event.sqe, cmd) ||
	    spdk_where(req, &event)) {
		count(ND_HOST_FAILED_CHECK);
		return 0;
	}
	begin(req, &event);
	return 0;
}

/* spdk_bdev_readv_blocks_ext(..., cb, req, opts) and others: cb is the seventh parameter. */
SEC("?uprobe")
int spdk_submit(struct pt_regs *ctx)
{
	struct nd_host *event;
	u64 req = 0;

	if (!hit(ND_HOST_HIT_SUBMIT))
		return 0;
#if defined(__TARGET_ARCH_x86)
	/* The first two words of the stack are the return address and the callback. */
	if (READ(&req, PT_REGS_SP(ctx) + 16))
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

/* spdk_nvmf_request_complete(req): also of requests that go on to the next. */
SEC("?uprobe")
int spdk_done(struct pt_regs *ctx)
{
	u64 req = PT_REGS_PARM1(ctx);
	struct nd_host *event;

	if (!hit(ND_HOST_HIT_DONE))
		return 0;
	event = bpf_map_lookup_elem(&flying, &req);
	if (event && event->points_ns[ND_HOST_BACKEND_SUBMIT])
		event->points_ns[ND_HOST_BACKEND_DONE] = bpf_ktime_get_ns();
	return 0;
}

/* nvmf_transport_req_complete(req). The response has the id of the command. */
SEC("?uprobe")
int spdk_complete(struct pt_regs *ctx)
{
	u64 req = PT_REGS_PARM1(ctx), now = bpf_ktime_get_ns(), cmd = 0, rsp = 0;
	struct nd_host event = {};
	u16 cid = 0, status = 0;

	if (!hit(ND_HOST_HIT_COMPLETE))
		return 0;
	if (!take(req, &event)) {
		count(ND_HOST_WITHOUT_BEGIN);
		event.request = req;
		if (READ(&cmd, req + host_config.req_cmd) || READ(&event.sqe, cmd)) {
			count(ND_HOST_FAILED_CHECK);
			return 0;
		}
	}
	if (spdk_where(req, &event) || READ(&rsp, req + host_config.req_rsp) ||
	    READ(&cid, rsp + ND_CQE_CID) || READ(&status, rsp + ND_CQE_STATUS) ||
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
	u64 req = PT_REGS_PARM1(ctx);
	struct nd_host event;

	if (!hit(ND_HOST_HIT_FREE) || !take(req, &event))
		return 0;
	event.points_ns[ND_HOST_ITSELF] = bpf_ktime_get_ns();
	event.flags |= ND_HOST_IS_ABANDONED;
	emit(&event);
	return 0;
}

static __always_inline int count_msg(u32 call, u64 function)
{
	struct nd_spdk_msg key = {.function = function, .call = call};
	u64 none = 0, *n;

	if (!is_traced())
		return 0;
	n = bpf_map_lookup_elem(&messages, &key);
	if (!n) {
		bpf_map_update_elem(&messages, &key, &none, BPF_NOEXIST);
		n = bpf_map_lookup_elem(&messages, &key);
	}
	if (n)
		__sync_fetch_and_add(n, 1);
	else
		count(ND_HOST_NO_ROOM);
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
