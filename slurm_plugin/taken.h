/* SPDX-License-Identifier: GPL-2.0-or-later */
/* The jobs that Slurm has preempted last, each with the job for which it did, and the jobs for which it has preempted others.
 * Knows nothing of Slurm. */
#ifndef TESCHED_TAKEN_H
#define TESCHED_TAKEN_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* With so many on their way at once the oldest is forgotten. */
#define TAKEN_MAX 256

typedef struct {
	uint32_t victim; /* job ids */
	uint32_t preemptor;
} taken_t;

typedef struct {
	taken_t job[TAKEN_MAX]; /* the oldest first */
	size_t count;
} taken_list_t;

/* Of so many jobs it is known that others were preempted for them; then the oldest is forgotten. */
#define GIVEN_MAX 4096
#define GIVEN_BITS 13
#define GIVEN_BUCKETS (1 << GIVEN_BITS)
/* The task of a job that is none of an array, or of which it is not known; it is Slurm's NO_VAL. */
#define NO_TASK ((uint32_t) 0xfffffffe)

/* A place in a list is its index and 1; 0 is none, so that a list of zeros is an empty one. */
typedef struct {
	uint32_t job; /* id; of an array before its task has started, the array's */
	uint32_t task; /* of the array */
	uint32_t restarts; /* that it had when a job was last preempted for it */
	uint16_t next; /* in its bucket */
	uint16_t older;
	uint16_t newer;
} given_t;

typedef struct {
	given_t to[GIVEN_MAX];
	uint16_t bucket[GIVEN_BUCKETS];
	uint16_t oldest;
	uint16_t newest;
	size_t count;
} given_list_t;

/* Note that a job is preempted for this one, in place of what is noted of it. */
extern void taken_add(taken_list_t *list, uint32_t victim, uint32_t preemptor);

/* Forget the job at this index. */
extern void taken_drop(taken_list_t *list, size_t at);

/* Note that a job is preempted for this one, which has been restarted so many times. It allocates nothing. */
extern void given_add(given_list_t *list, uint32_t job, uint32_t task, uint32_t restarts);

/* The bucket of a job. */
extern size_t given_bucket(uint32_t job, uint32_t task);

/* Return whether a job was preempted for this one, and how many restarts it had then. It looks at a few places, however
 * many jobs are noted: Slurm asks twice for each comparison of two such jobs as it sorts. */
extern bool given_find(const given_list_t *list, uint32_t job, uint32_t task, uint32_t *restarts);

#endif
