// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/*
 * The baseline: the lowest cost of a latency with hooks that miss no command. It has the hooks of
 * nvme-deep. Each hook reads the clock, and does nothing that a measured number does not need. All
 * commands on all CPUs share one set of histograms, without controllers, namespaces, opcodes or
 * filters. A command is found by its tag alone, which is right for one disk with one queue.
 * Requeues and retries are not handled, and there is no ledger. A trace has what a line of
 * `trace --stages` shows, and no events other than pairs. `make bench` shows the baseline
 * for comparison; it is not a tool.
 */
#include <linux/bpf.h>
#include <linux/types.h>
#include <bpf/bpf_helpers.h>
#include <bpf/bpf_tracing.h>
#include <bpf/bpf_core_read.h>

char LICENSE[] SEC("license") = "Dual BSD/GPL";

struct blk_mq_hw_ctx {
	unsigned int queue_num;
} __attribute__((preserve_access_index));

struct request {
	struct blk_mq_hw_ctx *mq_hctx;
	int tag;
	int internal_tag;
	unsigned int __data_len;
} __attribute__((preserve_access_index));

struct task_struct {
	char comm[16];
} __attribute__((preserve_access_index));

struct nvme_ctrl {
	int instance;
} __attribute__((preserve_access_index));

struct nvme_request {
	struct nvme_ctrl *ctrl;
	union {
		__u64 u64;
	} result;
	__u8 retries;
} __attribute__((preserve_access_index));

struct timespec64 {
	__s64 tv_sec;
} __attribute__((preserve_access_index));

/* an SQE, in wire format */
struct nvme_command {
	__u64 words[8];
};

extern void *bpf_rdonly_cast(const void *obj, __u32 btf_id) __ksym __weak;

#define TAGS	1024
#define STAGES	9
#define BUCKETS 64
#define BATCHES 4096

/* For a trace: CDW0, CDW1, CDW10 to CDW15, and the submitter. */
struct asked {
	__u64 words[4];
	__u64 comm[2];
	__u64 id;
};

struct place {
	__u64 rq;
	__u64 setup_in_ns;
	__u64 setup_ns;
	__u64 issue_ns;
	__u64 irq_ns;
	__u64 cqe_ns;
	__u64 complete_ns;
	__u64 batch;
	struct asked asked;
};

/* The values of a line of a trace. */
struct record {
	__u64 start_ns;
	__u64 setup_ns;
	__u64 bell_ns;
	__u64 cqe_ns;
	__u64 complete_ns;
	__u64 result;
	__u64 status; /* and retries, flags */
	__u64 key;    /* only with rows */
	struct asked asked;
};

struct hist {
	__u64 sum;
	__u64 bucket[BUCKETS];
};

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, TAGS);
	__type(key, __u32);
	__type(value, struct place);
} places SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, TAGS);
	__type(key, __u32);
	__type(value, __u64);
} starts SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_RINGBUF);
	__uint(max_entries, 4 << 20);
} records SEC(".maps");

/* A doorbell is for all commands set up since the one before. The last setup and interrupt. */
__u64 batch, bells[BATCHES], setup_in_ns, irq_ns;
/* in a separate map, so that the loader finds it */
struct hist hists[STAGES] SEC(".data.hists");

static __always_inline __u64 word_at(const void *at)
{
	struct timespec64 *any = bpf_rdonly_cast(at, bpf_core_type_id_kernel(struct timespec64));

	return any->tv_sec;
}

/* The driver's tracepoints may pass no request. */
static __always_inline struct place *place_of(struct request *rq)
{
	__u32 tag;

	if (!rq)
		return 0;
	tag = rq->tag;
	return bpf_map_lookup_elem(&places, &tag);
}

static __always_inline struct place *begin(struct request *rq)
{
	struct place *p = place_of(rq);

	if (p)
		p->rq = (__u64)rq;
	return p;
}

static __always_inline struct place *end(struct request *rq)
{
	struct place *p = place_of(rq);

	if (!p || p->rq != (__u64)rq)
		return 0;
	p->rq = 0;
	return p;
}

static __always_inline __u64 *start_of(struct request *rq)
{
	__u32 tag = rq->internal_tag >= 0 ? rq->internal_tag : rq->tag;

	return bpf_map_lookup_elem(&starts, &tag);
}

/* Binary logarithms of the numbers below 2048. */
static const __u8 log2_of[2048] = {
	[2 ... 3] = 1,	    [4 ... 7] = 2,	  [8 ... 15] = 3,    [16 ... 31] = 4,
	[32 ... 63] = 5,    [64 ... 127] = 6,	  [128 ... 255] = 7, [256 ... 511] = 8,
	[512 ... 1023] = 9, [1024 ... 2047] = 10,
};

static __always_inline void put(struct hist *h, __u64 ns)
{
	__u64 i;

	if (ns < 1 << 11)
		i = log2_of[ns];
	else if (ns < 1 << 19)
		i = log2_of[ns >> 8] + 8;
	else if (ns < 1 << 27)
		i = log2_of[ns >> 16] + 16;
	else
		i = 27;
	h->sum += ns;
	h->bucket[i & (BUCKETS - 1)]++;
}

SEC("?tp_btf/nvme_setup_cmd")
int BPF_PROG(one_setup, struct request *rq)
{
	struct place *p = begin(rq);

	if (p)
		p->setup_ns = bpf_ktime_get_ns();
	return 0;
}

SEC("?tp_btf/nvme_complete_rq")
int BPF_PROG(one_complete, struct request *rq)
{
	__u64 now = bpf_ktime_get_ns();
	struct place *p = end(rq);

	if (p)
		put(&hists[0], now - p->setup_ns);
	return 0;
}

SEC("?tp_btf/block_io_start")
int BPF_PROG(all_start, struct request *rq)
{
	__u64 *start = start_of(rq);

	if (start)
		*start = bpf_ktime_get_ns();
	return 0;
}

SEC("?tp_btf/nvme_setup_cmd")
int BPF_PROG(all_setup, struct request *rq)
{
	struct place *p = begin(rq);

	if (!p)
		return 0;
	p->batch = batch;
	p->setup_ns = bpf_ktime_get_ns();
	return 0;
}

static __always_inline int ring(void)
{
	bells[batch++ & (BATCHES - 1)] = bpf_ktime_get_ns();
	return 0;
}

SEC("?fexit/nvme_queue_rqs")
int BPF_PROG(all_queue_rqs)
{
	return ring();
}

SEC("?fexit/nvme_queue_rq")
int BPF_PROG(all_queue_rq)
{
	return ring();
}

SEC("?tp_btf/nvme_sq")
int BPF_PROG(all_cqe, struct request *rq)
{
	struct place *p = place_of(rq);

	if (p)
		p->cqe_ns = bpf_ktime_get_ns();
	return 0;
}

SEC("?tp_btf/nvme_complete_rq")
int BPF_PROG(all_complete, struct request *rq)
{
	__u64 now = bpf_ktime_get_ns(), bell, *start;
	struct place *p = end(rq);

	if (!p)
		return 0;
	start = start_of(rq);
	if (!start)
		return 0;
	bell = bells[p->batch & (BATCHES - 1)];
	put(&hists[1], p->setup_ns - *start);
	put(&hists[2], bell - p->setup_ns);
	put(&hists[3], p->cqe_ns - bell);
	put(&hists[4], now - p->cqe_ns);
	put(&hists[0], now - *start);
	return 0;
}

/* The fine stage set; needs all_start and all_queue_*. */
SEC("?fentry/nvme_setup_cmd")
int BPF_PROG(fine_setup_in)
{
	setup_in_ns = bpf_ktime_get_ns();
	return 0;
}

SEC("?tp_btf/nvme_setup_cmd")
int BPF_PROG(fine_setup, struct request *rq)
{
	struct place *p = begin(rq);

	if (!p)
		return 0;
	p->batch = batch;
	p->setup_in_ns = setup_in_ns;
	p->setup_ns = bpf_ktime_get_ns();
	return 0;
}

SEC("?tp_btf/block_rq_issue")
int BPF_PROG(fine_issue, struct request *rq)
{
	struct place *p = place_of(rq);

	if (p)
		p->issue_ns = bpf_ktime_get_ns();
	return 0;
}

SEC("?fentry/nvme_irq")
int BPF_PROG(fine_irq)
{
	irq_ns = bpf_ktime_get_ns();
	return 0;
}

SEC("?tp_btf/nvme_sq")
int BPF_PROG(fine_cqe, struct request *rq)
{
	struct place *p = place_of(rq);

	if (!p)
		return 0;
	p->cqe_ns = bpf_ktime_get_ns();
	p->irq_ns = irq_ns;
	return 0;
}

SEC("?tp_btf/nvme_complete_rq")
int BPF_PROG(fine_complete, struct request *rq)
{
	struct place *p = place_of(rq);

	if (p)
		p->complete_ns = bpf_ktime_get_ns();
	return 0;
}

SEC("?tp_btf/block_rq_complete")
int BPF_PROG(fine_end, struct request *rq)
{
	__u64 now = bpf_ktime_get_ns(), bell, *start;
	struct place *p = end(rq);

	if (!p)
		return 0;
	start = start_of(rq);
	if (!start)
		return 0;
	bell = bells[p->batch & (BATCHES - 1)];
	put(&hists[1], p->setup_in_ns - *start);
	put(&hists[2], p->setup_ns - p->setup_in_ns);
	put(&hists[3], p->issue_ns - p->setup_ns);
	put(&hists[4], bell - p->issue_ns);
	put(&hists[5], p->irq_ns - bell);
	put(&hists[6], p->cqe_ns - p->irq_ns);
	put(&hists[7], p->complete_ns - p->cqe_ns);
	put(&hists[8], now - p->complete_ns);
	put(&hists[0], now - *start);
	return 0;
}

static __always_inline void ask(struct asked *a, struct nvme_command *cmd)
{
	const char *comm;

	a->words[0] = cmd->words[0];
	a->words[1] = cmd->words[5];
	a->words[2] = cmd->words[6];
	a->words[3] = cmd->words[7];
	a->id = bpf_get_current_pid_tgid();
	comm = (void *)(bpf_get_current_task() + bpf_core_field_offset(struct task_struct, comm));
	a->comm[0] = word_at(comm);
	a->comm[1] = word_at(comm + 8);
}

static __always_inline struct record *answer(struct request *rq, struct asked *asked)
{
	struct record *r = bpf_ringbuf_reserve(&records, sizeof(*r), 0);
	const char *own = (char *)rq + bpf_core_type_size(struct request);

	if (!r)
		return 0;
	r->result = word_at(own + bpf_core_field_offset(struct nvme_request, result));
	r->status = word_at(own + bpf_core_field_offset(struct nvme_request, retries));
	r->asked = *asked;
	return r;
}

/* A trace of pairs with stages; needs all_start, all_queue_* and all_cqe. */
SEC("?tp_btf/nvme_setup_cmd")
int BPF_PROG(pair_setup, struct request *rq, struct nvme_command *cmd)
{
	struct place *p = begin(rq);

	if (!p || !cmd)
		return 0;
	ask(&p->asked, cmd);
	p->batch = batch;
	p->setup_ns = bpf_ktime_get_ns();
	return 0;
}

SEC("?tp_btf/nvme_complete_rq")
int BPF_PROG(pair_complete, struct request *rq)
{
	__u64 now = bpf_ktime_get_ns(), *start;
	struct place *p = end(rq);
	struct record *r;

	if (!p)
		return 0;
	start = start_of(rq);
	if (!start)
		return 0;
	r = answer(rq, &p->asked);
	if (!r)
		return 0;
	r->start_ns = *start;
	r->setup_ns = p->setup_ns;
	r->bell_ns = bells[p->batch & (BATCHES - 1)];
	r->cqe_ns = p->cqe_ns;
	r->complete_ns = now;
	bpf_ringbuf_submit(r, BPF_RB_NO_WAKEUP);
	return 0;
}

#include "rows.bpf.h"
