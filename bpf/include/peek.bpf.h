/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* Reads of memory that no typed pointer leads to, and reads without verifier trust. */
#ifndef ND_PEEK_H
#define ND_PEEK_H

#ifdef ND_NO_KFUNC
/* libbpf resolves a kernel function in the kernel's BTF, and fails without BTF. This build is for
 * kernels whose types come from a file. */
#define HAVE_RDONLY_CAST	     0
#define bpf_rdonly_cast(obj, btf_id) ((void *)(obj))
#else
/* 6.2: casts any address to a pointer of any type, for reading (kernel/bpf/helpers.c). */
extern void *bpf_rdonly_cast(const void *obj, __u32 btf_id) __ksym __weak;
#define HAVE_RDONLY_CAST bpf_ksym_exists(bpf_rdonly_cast)
#endif

/*
 * Ids of types in the kernel's BTF, for bpf_rdonly_cast(). src/machine/reduced.rs adds this enum,
 * with the kernel's ids, to the BTF for libbpf, in which types have other ids.
 */
enum nd_type_id {
	ND_TYPE_ID_REQUEST = 1,
	ND_TYPE_ID_TIMESPEC64,
};
#define TYPE_ID(name) bpf_core_enum_value(enum nd_type_id, ND_TYPE_ID_##name)

/* Not relocated: the load has no offset. */
struct nd_word {
	u64 word;
};

/*
 * Reads a word of kernel memory that no typed pointer leads to. With bpf_rdonly_cast (6.2) this is
 * one load that cannot fault. The helper costs some eighty instructions, and
 * lockdown=confidentiality forbids it.
 */
static __always_inline u64 peek(u64 at, int typed)
{
	if (typed && HAVE_RDONLY_CAST) {
		/* Any type that begins with a 64-bit number is suitable. */
		struct nd_word *any;

		any = bpf_rdonly_cast((void *)at, TYPE_ID(TIMESPEC64));
		return any->word;
	} else {
		u64 word = 0;

		bpf_probe_read_kernel(&word, sizeof(word), (void *)at);
		/* Clang would join this load with the other one: five instructions more there. */
		asm volatile("" : "+r"(word));
		return word;
	}
}

/*
 * Drops verifier trust: slower loads, faster verification. For each pointer that is read through a
 * trusted pointer, the verifier searches all types of the kernel four times for a declaration of
 * trust (btf_nested_type_is_trusted()). This takes ten million instructions each time that it
 * explores the load.
 */
static __always_inline struct request *drop_trust(struct request *rq)
{
	if (HAVE_RDONLY_CAST)
		return bpf_rdonly_cast(rq, TYPE_ID(REQUEST));
	return rq;
}

/* bpf_get_current_comm() copies byte by byte: 150 instructions. */
static __always_inline void name_caller(u64 comm[2], int typed)
{
	u64 at;

	if (typed && HAVE_RDONLY_CAST) {
		at = bpf_get_current_task() + bpf_core_field_offset(struct task_struct, comm);
		comm[0] = peek(at, typed);
		comm[1] = peek(at + sizeof(u64), typed);
	} else {
		bpf_get_current_comm(comm, 2 * sizeof(u64));
	}
}

#ifdef ND_NO_KFUNC
#define interrupts() 0

static __always_inline int soft_interrupt(void)
{
	return -1;
}
#else
extern const struct kernel_stat kstat __ksym __weak;

/* Number of interrupts on this CPU; 0 if BTF does not describe the counter. */
static __always_inline u64 interrupts(void)
{
	struct kernel_stat *stat;

	if (!&kstat || !bpf_core_field_exists(struct kernel_stat, irqs_sum))
		return 0;
	stat = bpf_this_cpu_ptr(&kstat);
	return stat->irqs_sum;
}

extern const int __preempt_count __ksym __weak;
extern const struct pcpu_hot pcpu_hot __ksym __weak;

/* SOFTIRQ_OFFSET of include/linux/preempt.h, the same on every kernel so far. */
#define ND_SOFTIRQ (1 << 8)

/* Whether this CPU handles a soft interrupt, or was interrupted in one; -1: not known. BTF
 * describes the count on x86 kernels after 5.10. */
static __always_inline int soft_interrupt(void)
{
	struct pcpu_hot *hot;

	if (&__preempt_count)
		return !!(*(int *)bpf_this_cpu_ptr(&__preempt_count) & ND_SOFTIRQ);
	if (!&pcpu_hot)
		return -1;
	hot = bpf_this_cpu_ptr(&pcpu_hot);
	return !!(hot->preempt_count & ND_SOFTIRQ);
}
#endif

/* The driver's private part of a request: struct nvme_request on every transport. */
static __always_inline u64 pdu_of(struct request *rq)
{
	return (u64)rq + bpf_core_type_size(struct request);
}

/* The command id of a request, as on the wire. */
static __always_inline u32 command_id_of(struct request *rq, int typed)
{
	union {
		u64 word;
		struct {
			u8 opcode, flags;
			u16 command_id;
		};
	} head;

	head.word = peek(peek(pdu_of(rq) + bpf_core_field_offset(struct nvme_request, cmd), typed),
			 typed);
	return head.command_id;
}

/* Reads up to 16 bits at offset `at` of nvme_request: from `word`, which was read at offset `from`,
 * if they are in it, else from memory. */
static __always_inline u64 part_of(u64 pdu, u64 at, u64 from, u64 word, int typed)
{
	if (__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__ && at >= from && at < from + 7)
		return word >> (at - from) * 8;
	return peek(pdu + at, typed);
}

#endif
