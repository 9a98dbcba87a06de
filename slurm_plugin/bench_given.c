/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Time of one sort of waiting jobs that each are looked up in the list of jobs with victims, as Slurm sorts its queue:
 * `make bench`. Beside it the same with a list of 512 that is searched from end to end, as it was. */
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#include "taken.h"

#define JOBS 1000
#define PLAIN 512 /* in the list that is searched from end to end */

static given_list_t list;
static uint32_t plain[PLAIN];
static size_t looked;

static bool find_plain(uint32_t job)
{
	for (size_t at = 0; at < PLAIN; at++)
		if (plain[at] == job)
			return true;
	return false;
}

static int by_plain(const void *left, const void *right)
{
	looked += 2;
	return (int) find_plain(*(const uint32_t *) right) - (int) find_plain(*(const uint32_t *) left);
}

static int by_list(const void *left, const void *right)
{
	uint32_t restarts;

	return (int) given_find(&list, *(const uint32_t *) right, NO_TASK, &restarts) -
	       (int) given_find(&list, *(const uint32_t *) left, NO_TASK, &restarts);
}

/* Return the milliseconds of the shortest of several sorts of the same jobs. */
static double sorted_ms(int (*compare)(const void *, const void *))
{
	double shortest = 1e9;

	for (int turn = 0; turn < 20; turn++) {
		uint32_t jobs[JOBS];
		struct timespec began, ended;
		double ms;

		srandom(1);
		for (size_t at = 0; at < JOBS; at++)
			jobs[at] = 1000 + (uint32_t) random() % JOBS;
		(void) clock_gettime(CLOCK_MONOTONIC, &began);
		qsort(jobs, JOBS, sizeof(jobs[0]), compare);
		(void) clock_gettime(CLOCK_MONOTONIC, &ended);
		ms = (double) (ended.tv_sec - began.tv_sec) * 1e3 + (double) (ended.tv_nsec - began.tv_nsec) / 1e6;
		shortest = ms < shortest ? ms : shortest;
	}
	return shortest;
}

int main(void)
{
	double before, after;

	for (uint32_t job = 0; job < GIVEN_MAX; job++)
		given_add(&list, 1000 + JOBS / 2 + job, NO_TASK, 0);
	for (uint32_t job = 0; job < PLAIN; job++)
		plain[job] = 1000 + JOBS / 2 + job;
	before = sorted_ms(by_plain);
	looked /= 20;
	after = sorted_ms(by_list);
	printf("%d jobs, %zu look-ups a sort: %.3f ms in a list of %d from end to end, %.3f ms in the list of %d: 1/%.0f\n",
	       JOBS, looked, before, PLAIN, after, GIVEN_MAX, before / after);
	return 0;
}
