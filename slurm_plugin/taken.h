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
#define GIVEN_MAX 512

typedef struct {
	uint32_t job; /* id */
	uint32_t restarts; /* that it had when a job was last preempted for it */
} given_t;

typedef struct {
	given_t to[GIVEN_MAX]; /* the oldest first */
	size_t count;
} given_list_t;

/* Note that a job is preempted for this one, in place of what is noted of it. */
extern void taken_add(taken_list_t *list, uint32_t victim, uint32_t preemptor);

/* Forget the job at this index. */
extern void taken_drop(taken_list_t *list, size_t at);

/* Note that a job is preempted for this one, which has been restarted so many times. */
extern void given_add(given_list_t *list, uint32_t job, uint32_t restarts);

/* Return whether a job was preempted for this one, and how many restarts it had then. */
extern bool given_find(const given_list_t *list, uint32_t job, uint32_t *restarts);

#endif
