/* SPDX-License-Identifier: GPL-2.0-or-later */
/* The time by which a sort of the waiting jobs goes: one for all its comparisons, since a job that moved within a sort would
 * make its order contradict itself. Slurm says neither that a sort begins nor that it ends, but sorts and gathers victims
 * under the same lock: what it gathers lies between two sorts, and the first comparison after that takes the time anew.
 * Knows nothing of Slurm. */
#ifndef TESCHED_SORT_CLOCK_H
#define TESCHED_SORT_CLOCK_H

#include <stdbool.h>
#include <stdint.h>

/* One of zeros takes the time at the first comparison. */
typedef struct {
	int64_t at; /* Unix seconds */
	bool in_sort; /* a comparison has taken `at`, and no victims were gathered since */
} sort_clock_t;

/* Note that victims are gathered, for whatever job: no sort is on. */
static inline void sort_clock_end(sort_clock_t *clock)
{
	clock->in_sort = false;
}

/* Return the time of the sort to which a comparison made `now` belongs. */
static inline int64_t sort_clock_at(sort_clock_t *clock, int64_t now)
{
	if (!clock->in_sort)
		*clock = (sort_clock_t) { .at = now, .in_sort = true };
	return clock->at;
}

#endif
