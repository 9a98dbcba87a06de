/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Lists of the jobs that Slurm has preempted last, and for which; see taken.h. */
#include "taken.h"

#include <string.h>

void taken_drop(taken_list_t *list, size_t at)
{
	if (at >= list->count)
		return;
	list->count--;
	memmove(&list->job[at], &list->job[at + 1], (list->count - at) * sizeof(taken_t));
}

void taken_add(taken_list_t *list, uint32_t victim, uint32_t preemptor)
{
	size_t at = 0;

	while (at < list->count && list->job[at].victim != victim)
		at++;
	taken_drop(list, at);
	if (list->count == TAKEN_MAX)
		taken_drop(list, 0);
	list->job[list->count++] = (taken_t) { .victim = victim, .preemptor = preemptor };
}

/* A place is an index and 1. */
typedef char a_place_holds_each_index[GIVEN_MAX < UINT16_MAX ? 1 : -1];

/* Fibonacci hashing, since ids come one after the other and tasks do, too. The high bits depend on all of the key, those in the
 * middle not on its upper ones: ids that are 1,024 apart shared a few buckets by them. */
size_t given_bucket(uint32_t job, uint32_t task)
{
	uint64_t key = ((uint64_t) job << 32 | task) * UINT64_C(0x9e3779b97f4a7c15);

	return (size_t) (key >> (64 - GIVEN_BITS));
}

/* Return the place of a job; 0 if it has none. */
static uint16_t place_of(const given_list_t *list, uint32_t job, uint32_t task)
{
	uint16_t place = list->bucket[given_bucket(job, task)];

	while (place && (list->to[place - 1].job != job || list->to[place - 1].task != task))
		place = list->to[place - 1].next;
	return place;
}

static void leave_bucket(given_list_t *list, uint16_t place)
{
	const given_t *one = &list->to[place - 1];
	uint16_t *from = &list->bucket[given_bucket(one->job, one->task)];

	while (*from != place)
		from = &list->to[*from - 1].next;
	*from = one->next;
}

static void leave_ages(given_list_t *list, uint16_t place)
{
	const given_t *one = &list->to[place - 1];

	*(one->older ? &list->to[one->older - 1].newer : &list->oldest) = one->newer;
	*(one->newer ? &list->to[one->newer - 1].older : &list->newest) = one->older;
}

void given_add(given_list_t *list, uint32_t job, uint32_t task, uint32_t restarts)
{
	uint16_t place = place_of(list, job, task), *bucket = &list->bucket[given_bucket(job, task)];
	given_t *one;

	if (!place && list->count < GIVEN_MAX)
		place = (uint16_t) ++list->count;
	else {
		place = place ? place : list->oldest;
		leave_bucket(list, place);
		leave_ages(list, place);
	}
	one = &list->to[place - 1];
	*one = (given_t) { .job = job, .task = task, .restarts = restarts, .next = *bucket, .older = list->newest };
	*bucket = place;
	*(one->older ? &list->to[one->older - 1].newer : &list->oldest) = place;
	list->newest = place;
}

bool given_find(const given_list_t *list, uint32_t job, uint32_t task, uint32_t *restarts)
{
	uint16_t place = job ? place_of(list, job, task) : 0;

	if (place)
		*restarts = list->to[place - 1].restarts;
	return place;
}
