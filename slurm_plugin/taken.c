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

void given_add(given_list_t *list, uint32_t job, uint32_t restarts)
{
	size_t at = 0;

	while (at < list->count && list->to[at].job != job)
		at++;
	if (at == list->count && list->count == GIVEN_MAX)
		at = 0; /* the oldest goes */
	if (at < list->count) {
		list->count--;
		memmove(&list->to[at], &list->to[at + 1], (list->count - at) * sizeof(given_t));
	}
	list->to[list->count++] = (given_t) { .job = job, .restarts = restarts };
}

bool given_find(const given_list_t *list, uint32_t job, uint32_t *restarts)
{
	for (size_t at = 0; job && at < list->count; at++)
		if (list->to[at].job == job) {
			*restarts = list->to[at].restarts;
			return true;
		}
	return false;
}
