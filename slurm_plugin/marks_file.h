/* SPDX-License-Identifier: GPL-2.0-or-later */
/* The marks file as it is now: read again when it has been replaced. Knows nothing of Slurm. */
#ifndef TESCHED_MARKS_FILE_H
#define TESCHED_MARKS_FILE_H

#include <sys/stat.h>

#include "marks.h"

typedef struct {
	mark_t *marks;
	size_t count; /* 0 if the file is missing or wrong */
	te_rules_t te;
	int64_t last_until; /* when the last mark expires; 0: there is none */
	long void_line; /* the first line that is void; 0 if none is */
	char wrong[80]; /* what is wrong with the file; empty if nothing is */
	struct stat seen; /* the file that was read */
	int64_t looked_ms;
} marks_file_t;

/* Read the file if it has been replaced or `anew`; asks the file system at most every 100 ms. Return whether it was read.
 * Only a plain file that belongs to one of these users, and that no other may write, is read. */
extern bool marks_file_refresh(marks_file_t *file, const char *path, const uid_t owners[3], bool anew);

/* Free the marks. */
extern void marks_file_close(marks_file_t *file);

#endif
