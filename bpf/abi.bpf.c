// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/*
 * The types and numbers that the BPF programs share with user space. This object has no programs
 * and is not loaded: libbpf-cargo generates Rust from its BTF (src/abi). A type without a variable
 * here is not in the BTF.
 */
#include "abi.h"
#include "host_abi.h"

#define SHARE(kind, name) const kind name shared_##name = {0}

SHARE(struct, nd_activity);
SHARE(struct, nd_begun);
SHARE(struct, nd_bio);
SHARE(struct, nd_cell);
SHARE(struct, nd_complete);
SHARE(struct, nd_config);
SHARE(struct, nd_cpu);
SHARE(struct, nd_ctrl);
SHARE(struct, nd_disk);
SHARE(struct, nd_failures);
SHARE(struct, nd_group);
SHARE(struct, nd_group_row);
SHARE(struct, nd_host);
SHARE(struct, nd_origin);
SHARE(struct, nd_other);
SHARE(struct, nd_pair);
SHARE(struct, nd_last_bio);
SHARE(struct, nd_pause);
SHARE(struct, nd_rowless);
SHARE(struct, nd_scratch);
SHARE(struct, nd_slot);
SHARE(struct, nd_stack);
SHARE(struct, nd_stack_sum);
SHARE(struct, nd_start);
SHARE(struct, nd_submit);
SHARE(struct, nd_submitter);
SHARE(enum, nd_activity_limit);
SHARE(enum, nd_at);
SHARE(enum, nd_beside);
SHARE(enum, nd_bio_limit);
SHARE(enum, nd_by);
SHARE(enum, nd_class);
SHARE(enum, nd_by_cgroup);
SHARE(enum, nd_count);
SHARE(enum, nd_cqe);
SHARE(enum, nd_end_of_recovery);
SHARE(enum, nd_failure);
SHARE(enum, nd_group_limit);
SHARE(enum, nd_hist_rule);
SHARE(enum, nd_hook);
SHARE(enum, nd_host_count);
SHARE(enum, nd_host_flag);
SHARE(enum, nd_host_limit);
SHARE(enum, nd_host_point);
SHARE(enum, nd_inside);
SHARE(enum, nd_key);
SHARE(enum, nd_kind);
SHARE(enum, nd_known);
SHARE(enum, nd_limit);
SHARE(enum, nd_memory_limit);
SHARE(enum, nd_mode);
SHARE(enum, nd_qemu);
SHARE(enum, nd_saw);
SHARE(enum, nd_wait_point);
SHARE(enum, nd_control);
SHARE(enum, nd_size);
SHARE(enum, nd_spdk);
SHARE(enum, nd_spdk_call);
SHARE(enum, nd_stack_at);
SHARE(enum, nd_stack_limit);
SHARE(enum, nd_stages);
SHARE(enum, nd_state);
SHARE(enum, nd_submitter_limit);
SHARE(enum, nd_trace);
SHARE(enum, nd_usdt_cookie);
SHARE(enum, nd_usdt_count);
SHARE(enum, nd_usdt_limit);
SHARE(enum, nd_who);
