/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Reader of the marks file; see marks_file.h. It is read, not mapped: a mapped file that is cut short ends its reader. */
#define _GNU_SOURCE
#include "marks_file.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#define REFRESH_MS 100

/* Return whether an error of the system's may pass while the file stays as it is. */
static bool passes(int error)
{
	return error == EMFILE || error == ENFILE || error == ENOMEM || error == EINTR || error == EAGAIN || error == ESTALE ||
	       error == EIO || error == ETIMEDOUT;
}

static const char *read_marks(marks_file_t *file, int descriptor, char *text, size_t size, bool *again)
{
	static char wrong[sizeof(file->wrong)];
	size_t got = 0, room;
	long count;
	ssize_t chunk;

	while (got < size && ((chunk = read(descriptor, text + got, size - got)) > 0 || (chunk < 0 && errno == EINTR)))
		got += chunk > 0 ? (size_t) chunk : 0;
	if (got < size) {
		*again = true;
		return chunk < 0 ? strerror(errno) : "it became shorter while it was read";
	}
	room = marks_lines(text, size);
	if (room > MARKS_MAX_COUNT + MARKS_MAX_BARRED + 2)
		return "it has too many lines";
	if (!(file->marks = malloc((room + 1) * sizeof(mark_t)))) {
		*again = true;
		return "there is no memory for it";
	}
	count = marks_parse(text, size, file->marks, room, &file->te, &file->void_line);
	if (count < 0) {
		(void) snprintf(wrong, sizeof(wrong), "line %ld is wrong", -count);
		return wrong;
	}
	file->count = (size_t) count;
	for (size_t i = 0; i < file->count; i++) {
		const mark_t *line = &file->marks[i];

		/* One of its own job makes none preemptable, and may have no end. */
		if (line->preemptor != line->job_id && line->until > file->last_until)
			file->last_until = line->until;
	}
	return NULL;
}

/* Return whether the file was read, or will not be while it stays as it is. */
static bool load(marks_file_t *file, const char *path, const uid_t owners[3])
{
	bool again = false;
	const char *wrong;
	char *text = NULL;
	struct stat now;
	int descriptor = open(path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY);

	free(file->marks);
	file->marks = NULL;
	file->count = 0;
	file->last_until = 0;
	file->void_line = 0;
	if (descriptor < 0 || fstat(descriptor, &now)) {
		again = passes(errno);
		wrong = strerror(errno);
	} else if (!S_ISREG(now.st_mode))
		wrong = "it is no plain file";
	else if (now.st_uid != owners[0] && now.st_uid != owners[1] && now.st_uid != owners[2])
		wrong = "it belongs to another user than root, SlurmUser or tesched_marks_user";
	else if (now.st_mode & (S_IWGRP | S_IWOTH))
		wrong = "others than its owner may write it";
	else if ((uint64_t) now.st_size > MARKS_MAX_BYTES)
		wrong = "it is too large";
	else if ((again = !(text = malloc((size_t) now.st_size + 1))))
		wrong = "there is no memory for it";
	else
		wrong = read_marks(file, descriptor, text, (size_t) now.st_size, &again);
	(void) snprintf(file->wrong, sizeof(file->wrong), "%s", wrong ? wrong : "");
	free(text);
	if (descriptor >= 0)
		(void) close(descriptor);
	return !again;
}

bool marks_file_refresh(marks_file_t *file, const char *path, const uid_t owners[3], bool anew)
{
	struct timespec clock;
	struct stat now;
	int64_t now_ms;

	(void) clock_gettime(CLOCK_MONOTONIC, &clock);
	now_ms = (int64_t) clock.tv_sec * 1000 + clock.tv_nsec / 1000000;
	if (!anew && file->looked_ms && now_ms - file->looked_ms < REFRESH_MS)
		return false;
	anew = anew || !file->looked_ms;
	file->looked_ms = now_ms;
	if (stat(path, &now))
		memset(&now, 0, sizeof(now));
	if (!anew && now.st_ino == file->seen.st_ino && now.st_dev == file->seen.st_dev &&
	    now.st_size == file->seen.st_size && now.st_ctim.tv_sec == file->seen.st_ctim.tv_sec &&
	    now.st_ctim.tv_nsec == file->seen.st_ctim.tv_nsec)
		return false;
	file->seen = now;
	if (!load(file, path, owners))
		memset(&file->seen, 0, sizeof(file->seen)); /* no file is like this one: it is read again at the next look */
	return true;
}

void marks_file_close(marks_file_t *file)
{
	free(file->marks);
	memset(file, 0, sizeof(*file));
}
