/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Parser of the marks file; see marks.h. */
#include "marks.h"

#include <ctype.h>
#include <string.h>
#include <strings.h>

typedef struct {
	const char *at;
	const char *end;
} cursor_t;

static bool take(cursor_t *cursor, const char *word)
{
	size_t length = strlen(word);

	if ((size_t) (cursor->end - cursor->at) < length || memcmp(cursor->at, word, length))
		return false;
	cursor->at += length;
	return true;
}

/* A decimal number of at most `max`, which is below 10^18, and then this character. */
static bool take_number(cursor_t *cursor, uint64_t max, char then, uint64_t *number)
{
	const char *first = cursor->at;

	*number = 0;
	while (cursor->at < cursor->end && *cursor->at >= '0' && *cursor->at <= '9') {
		*number = *number * 10 + (uint64_t) (*cursor->at++ - '0');
		if (*number > max)
			return false;
	}
	if (cursor->at == first || cursor->at == cursor->end || *cursor->at != then)
		return false;
	cursor->at++;
	return true;
}

static bool take_u32(cursor_t *cursor, uint64_t max, uint32_t *number)
{
	uint64_t wide;
	bool good = take_number(cursor, max, ' ', &wide);

	*number = good ? (uint32_t) wide : 0;
	return good;
}

static bool take_mark(cursor_t *cursor, mark_t *mark)
{
	uint64_t after, until;

	if (!take_u32(cursor, INT32_MAX, &mark->job_id) || !mark->job_id)
		return false;
	if (take(cursor, "* "))
		mark->preemptor = 0;
	else if (!take_u32(cursor, INT32_MAX, &mark->preemptor) || !mark->preemptor)
		return false;
	if (!take_u32(cursor, MARKS_MAX_ORDER, &mark->prio) || !take_u32(cursor, MARKS_MAX_GRACE_S, &mark->grace_s))
		return false;
	mark->suspend = take(cursor, "suspend ");
	if (!mark->suspend && !take(cursor, "requeue "))
		return false;
	if (!take_u32(cursor, UINT16_MAX, &mark->max_restarts) || !take_u32(cursor, INT32_MAX, &mark->least_run_s))
		return false;
	if (!take_number(cursor, INT64_C(99999999999), ' ', &after) ||
	    !take_number(cursor, INT64_C(99999999999), '\n', &until))
		return false;
	mark->after = (int64_t) after;
	mark->until = (int64_t) until;
	return true;
}

static bool take_wait(cursor_t *cursor, te_rules_t *te)
{
	uint64_t seconds;
	bool good = take_number(cursor, MARKS_MAX_WAIT_S, '\n', &seconds);

	te->wait_s = good ? (uint32_t) seconds : 0;
	return good;
}

static bool take_barred(cursor_t *cursor, te_rules_t *te)
{
	uint64_t user;

	if (te->count == MARKS_MAX_BARRED || !take_number(cursor, UINT32_MAX, '\n', &user))
		return false;
	if (te->count && user <= te->user[te->count - 1])
		return false;
	te->user[te->count++] = (uint32_t) user;
	return true;
}

/* A rule begins with a letter; whatever else a line begins with, it was meant for a mark. */
static bool at_mark(const cursor_t *cursor)
{
	return cursor->at < cursor->end && !(*cursor->at >= 'a' && *cursor->at <= 'z');
}

static bool skip_line(cursor_t *cursor)
{
	const char *newline = memchr(cursor->at, '\n', (size_t) (cursor->end - cursor->at));

	if (newline)
		cursor->at = newline + 1;
	return newline;
}

long marks_parse(const char *text, size_t size, mark_t *marks, size_t room, te_rules_t *te, long *void_line)
{
	cursor_t cursor = { text, text + size };
	uint64_t said;
	size_t count = 0, lines = 0;
	long line = 2;

	*void_line = 0;
	te->count = 0;
	te->wait_s = 0;
	if (!take(&cursor, "tesched-marks 1\n"))
		return -1;
	if (take(&cursor, "wait ") && (line++, !take_wait(&cursor, te)))
		return -2;
	for (; take(&cursor, "barred "); line++)
		if (!take_barred(&cursor, te))
			return -line;
	for (; at_mark(&cursor); line++, lines++) {
		cursor_t fields = cursor;
		mark_t mark;

		if (!skip_line(&cursor))
			return -line;
		if (!take_mark(&fields, &mark) || (count && mark.job_id <= marks[count - 1].job_id)) {
			*void_line = *void_line ? *void_line : line;
			continue;
		}
		if (count == room)
			return -line;
		marks[count++] = mark;
	}
	if (!take(&cursor, "end ") || !take_number(&cursor, MARKS_MAX_COUNT, '\n', &said) || said != lines)
		return -line;
	return cursor.at == cursor.end ? (long) count : -line - 1;
}

bool is_barred(const te_rules_t *te, uint32_t user)
{
	for (size_t i = 0; i < te->count && te->user[i] <= user; i++)
		if (te->user[i] == user)
			return true;
	return false;
}

const mark_t *marks_find(const mark_t *marks, size_t count, uint32_t job_id)
{
	size_t low = 0, high = count;

	while (low < high) {
		size_t middle = low + (high - low) / 2;

		if (marks[middle].job_id < job_id)
			low = middle + 1;
		else
			high = middle;
	}
	return low < count && marks[low].job_id == job_id ? &marks[low] : NULL;
}

size_t marks_lines(const char *text, size_t size)
{
	const char *end = text + size;
	size_t lines = 0;

	while (text < end && (text = memchr(text, '\n', (size_t) (end - text)))) {
		text++;
		lines++;
	}
	return lines;
}

bool mark_holds(const mark_t *mark, const uint32_t preemptor[3], uint32_t restarts, int64_t began, int64_t now)
{
	if (mark->preemptor && mark->preemptor != preemptor[0] && mark->preemptor != preemptor[1] &&
	    mark->preemptor != preemptor[2])
		return false;
	return now >= mark->after && now <= mark->until && restarts < mark->max_restarts &&
	       now - began >= (int64_t) mark->least_run_s;
}

bool mark_delays(const mark_t *line, uint32_t given, int64_t now)
{
	return line && line->preemptor == line->job_id && given >= line->prio && now <= line->until;
}

bool mark_recalls(const mark_t *line, int64_t loaded, int64_t now)
{
	return line && line->preemptor == line->job_id && line->after && line->after <= loaded && now <= line->until;
}

bool is_enough(const uint64_t *held, const uint64_t *wanted, size_t count)
{
	for (size_t i = 0; held && i < count; i++)
		if (held[i] < wanted[i])
			return false;
	return held && count;
}

uint32_t mark_place(const mark_t *mark, bool enough)
{
	return enough ? mark->prio + 1 : UINT32_MAX - 2 - mark->prio;
}

/* Return whether one of the words of `text`, separated by one of `separators`, is this one. */
static bool among(const char *text, const char *separators, const char *word)
{
	size_t length = strlen(word);

	while (text && *text) {
		size_t span = strcspn(text, separators);

		if (span == length && !memcmp(text, word, length))
			return length > 0;
		text += span;
		if (*text)
			text++;
	}
	return false;
}

bool has_word(const char *text, const char *word)
{
	return among(text, " ,;", word);
}

bool has_name(const char *list, const char *name)
{
	return name && among(list, ":", name);
}

/* Return what `300` or `0.5` says, rounded up: six digits at most, and three behind the point; 0 for anything else. */
static uint32_t seconds_of(const char *text, size_t length)
{
	size_t whole = 0, parts;
	uint32_t seconds = 0;
	bool more = false;

	for (; whole < length && isdigit((unsigned char) text[whole]); whole++)
		if (whole < 6)
			seconds = seconds * 10 + (uint32_t) (text[whole] - '0');
	if (!whole || whole > 6)
		return 0;
	if (whole == length)
		return seconds;
	parts = length - whole - 1;
	if (text[whole] != '.' || !parts || parts > 3)
		return 0;
	for (size_t i = whole + 1; i < length; i++) {
		if (!isdigit((unsigned char) text[i]))
			return 0;
		more |= text[i] != '0';
	}
	return seconds + more;
}

uint32_t patience_of(const char *comment)
{
	static const char key[] = "patience=", prefix[] = "tesched:";
	const char *end = comment ? comment + strnlen(comment, MARKS_MAX_COMMENT) : NULL;
	uint32_t seconds = 0;

	while (comment && comment < end) {
		const char *word = comment;

		while (comment < end && !strchr(" \t\n\v\f\r,;", *comment))
			comment++;
		/* A word that is cut short says something else; no word before it counts for less. */
		if (comment == end && *comment)
			break;
		if ((size_t) (comment - word) >= sizeof(prefix) - 1 && !strncasecmp(word, prefix, sizeof(prefix) - 1))
			word += sizeof(prefix) - 1;
		if ((size_t) (comment - word) >= sizeof(key) - 1 && !strncasecmp(word, key, sizeof(key) - 1)) {
			word += sizeof(key) - 1;
			seconds = seconds_of(word, (size_t) (comment - word));
		}
		comment++;
	}
	return seconds;
}

bool is_within_patience(const char *comment, int64_t began, int64_t now)
{
	uint32_t patience = patience_of(comment);

	return patience && now - began < (int64_t) patience;
}

void copy_value(const char *text, const char *name, char *value, size_t size)
{
	size_t length = strlen(name);

	for (; text && *text; text += strcspn(text, ","), text += *text == ',') {
		if (strncasecmp(text, name, length) || text[length] != '=')
			continue;
		text += length + 1;
		length = strcspn(text, ",");
		if (length < size) {
			memcpy(value, text, length);
			value[length] = '\0';
			return;
		}
		break;
	}
	value[0] = '\0';
}
