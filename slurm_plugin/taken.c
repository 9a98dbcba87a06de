/* SPDX-License-Identifier: GPL-2.0-or-later */
/* List of the jobs that Slurm has preempted last; see taken.h. */
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
