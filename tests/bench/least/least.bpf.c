// SPDX-License-Identifier: GPL-2.0
/*
 * The least that a latency can cost with hooks that miss no command: the hooks of nvme-deep, and at
 * each of them the clock and nothing that a measured number does not need. One histogram for
 * everybody, in one place for all CPUs; no controller, namespace or opcode; no filter; a place by
 * tag alone, which is right for one disk with one queue; no requeue, no retry, nobody's books. It
 * is the floor that `make bench` shows, not a tool.
 */
#include <linux/bpf.h>
#include <linux/types.h>
#include <bpf/bpf_helpers.h>
#include <bpf/bpf_tracing.h>

char LICENSE[] SEC("license") = "GPL";

struct request {
	int tag;
	int internal_tag;
} __attribute__((preserve_access_index));

#define TAGS	1024
#define STAGES	5
#define BUCKETS 64
#define BATCHES 4096

struct place {
	__u64 rq;
	__u64 setup_ns;
	__u64 cqe_ns;
	__u64 batch;
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

/* One doorbell for all that was set up since the last. */
__u64 batch, bells[BATCHES];
/* a map of its own, so that the loader finds it */
struct hist hists[STAGES] SEC(".data.hists");

/* Tracepoints of the driver may be given no request. */
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

/* Powers of two. */
static __always_inline void put(struct hist *h, __u64 ns)
{
	__u64 i = 0, v = ns;

	if (v >> 32) {
		v >>= 32;
		i = 32;
	}
	if (v >> 16) {
		v >>= 16;
		i += 16;
	}
	if (v >> 8) {
		v >>= 8;
		i += 8;
	}
	if (v >> 4) {
		v >>= 4;
		i += 4;
	}
	if (v >> 2) {
		v >>= 2;
		i += 2;
	}
	i += v >> 1;
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
