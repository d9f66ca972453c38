/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* What the model of faults.c knows of each command. */
#ifndef TRUTH_H
#define TRUTH_H

enum point {
	P_START,
	P_SETUP_IN,
	P_SETUP_OUT,
	P_ISSUE,
	P_DOORBELL,
	P_IRQ,
	P_CQE,
	P_COMPLETE,
	P_END,
	POINTS
};

/* The true points of a command, by queue and command id. */
struct truth {
	u64 from[POINTS], to[POINTS];	     /* clock before and after each point; 0: not passed */
	enum { NEVER, ACTIVE, OVER } active; /* OVER: its record may still follow */
	int records;
	int rejected; /* by a filter */
};

/* Opcodes. A filter rejects the second. */
#define READ  2
#define WRITE 1

enum place { AWAY, SET_UP, COPIED, AT_DEVICE };

#endif
