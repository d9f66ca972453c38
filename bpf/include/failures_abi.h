/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* Failed and retried commands. */
#ifndef ND_FAILURES_ABI_H
#define ND_FAILURES_ABI_H

/* Counters of a controller, struct nd_failures: first by status code type (bits 10:8). */
enum nd_failure {
	ND_FAIL_RETRIED = 8, /* completed commands that were retries */
	ND_FAIL_MAX = 16,
};

/* Commands of a controller that failed or were retries; only if the run counts these. */
struct nd_failures {
	__u64 count[ND_FAIL_MAX];
};

#endif
