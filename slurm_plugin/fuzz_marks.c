/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Fuzzes the parser of marks for some seconds of its own CPU time, under AddressSanitizer and UndefinedBehaviorSanitizer.
 * Inputs that reach new code are kept and mutated further (gcc's -fsanitize-coverage=trace-pc).
 *
 *     fuzz_marks SECONDS [SEED]
 */
#define _GNU_SOURCE
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "marks.h"

#define CORPUS 4096
#define LONGEST 4096

static const char *const seeds[] = {
	"",
	"tesched-marks 1\nend 0\n",
	"tesched-marks 1\n17 * 3 0 requeue 2 60 1790000000 1790003600\nend 1\n",
	"tesched-marks 1\n17 * 3 0 requeue 2 60 1790000000 1790003600\n18 41 4 30 suspend 0 0 0 99999999999\nend 2\n",
	"tesched-marks 1\n2147483647 2147483647 2000000000 604800 requeue 65535 2147483647 0 0\nend 1\n",
	"tesched-marks 1\n2 * 0 0 requeue 1 0 0 0\n1 * 0 0 requeue 1 0 0 0\nend 2\n",
	"tesched-marks 1\n1 * 0 0 requeue 65536 0 0 0\n2 * 0 0 requeue 1 0 0 0\n\nend 3\n",
	"tesched-marks 1\nwait 2\nbarred 0\nbarred 1000\n17 * 3 0 requeue 2 60 0 0\nend 1\n",
	"tesched-marks 1\n17 * 3 0 requeue 2 60 0 0\n41 41 1 0 requeue 0 0 0 1790003600\nend 2\n",
	"te patience=300", "tesched:patience=0.5,patience=999999",
	"tesched:te", "a tesched:te;b", ":te::debug:", "tesched:yield=*",
};
static const char *const words[] = {
	"tesched-marks 1\n", "end ", "end 1\n", " * ", "requeue ", "suspend ", "\n", " ", "0", "4294967296", "-1",
	"99999999999999999999999999999999", "tesched:te", ":", ";", ",", "barred ", "wait ",
};

static struct {
	char *text;
	size_t size;
} corpus[CORPUS];
static size_t corpus_count, parsed;
static unsigned char covered[1 << 16];
static size_t edges;
static uint64_t state;

extern void __sanitizer_cov_trace_pc(void);

void __sanitizer_cov_trace_pc(void)
{
	unsigned char *edge = &covered[((uintptr_t) __builtin_return_address(0)) & (sizeof(covered) - 1)];

	edges += !*edge;
	*edge = 1;
}

static uint64_t any(uint64_t below)
{
	state ^= state << 13;
	state ^= state >> 7;
	state ^= state << 17;
	return below ? state % below : 0;
}

static void require(bool holds, const char *what)
{
	if (holds)
		return;
	fprintf(stderr, "fuzz_marks: %s\n", what);
	abort();
}

/* Copy to a block of exactly this size, so that a read beyond its end is found. */
static void feed(const char *input, size_t size)
{
	char *text = malloc(size ? size : 1), *string = malloc(size + 1);
	size_t lines, room;
	mark_t *marks;
	te_rules_t *te = malloc(sizeof(te_rules_t));
	long count, void_line;

	require(text && string && te, "no memory");
	memcpy(text, input, size);
	memcpy(string, input, size);
	string[size] = '\0';
	lines = marks_lines(text, size);
	room = any(4) ? lines : (size_t) any(lines + 1);
	marks = malloc(room ? room * sizeof(mark_t) : 1);
	count = marks_parse(text, size, marks, room, te, &void_line);
	require(void_line >= 0 && (size_t) void_line <= lines, "a line that is not there is said to be void");
	require(te->count <= MARKS_MAX_BARRED, "more users are barred than there is room for");
	if (count < 0) {
		require((size_t) -count <= lines + 1, "a line that is not there is said to be wrong");
	} else {
		parsed++;
		require((size_t) count <= room, "more marks than there is room for");
		require((size_t) count + (void_line != 0) + 2 <= lines, "more marks than there are lines of marks");
		for (long i = 0; i < count; i++) {
			const uint32_t ids[3] = { marks[i].preemptor, 0, 0 };

			require(marks[i].job_id && (!i || marks[i - 1].job_id < marks[i].job_id), "ids do not ascend");
			require(marks_find(marks, (size_t) count, marks[i].job_id) == &marks[i], "a mark is not found");
			(void) mark_delays(&marks[i], (uint32_t) any(3), (int64_t) any(UINT32_MAX));
			(void) mark_holds(&marks[i], ids, (uint32_t) any(3), (int64_t) any(UINT32_MAX), (int64_t) any(UINT32_MAX));
		}
		require(!marks_find(marks, (size_t) count, 0), "job 0 has a mark");
	}
	require(!has_word(string, "") && !has_name(string, ""), "the empty word is found");
	require(patience_of(string) <= 1000000, "no patience is longer");
	require(!patience_of(string) || strcasestr(string, "patience="), "a patience is found that is not there");
	require(!has_word(string, "tesched:te") || strstr(string, "tesched:te"), "a word is found that is not there");
	require(!has_name(string, "debug") || strstr(string, "debug"), "a name is found that is not there");
	for (size_t i = 0; i < te->count; i++)
		require(count < 0 || is_barred(te, te->user[i]), "a barred user is not found");
	free(te);
	free(marks);
	free(string);
	free(text);
}

static size_t mutate(char *text, size_t size)
{
	for (uint64_t times = 1 + any(4); times; times--) {
		size_t at = (size_t) any(size + 1), length = (size_t) any(64), other;
		const char *word = words[any(sizeof(words) / sizeof(*words))];

		switch (any(6)) {
		case 0: /* another byte */
			if (at < size)
				text[at] = (char) any(256);
			break;
		case 1: /* a digit */
			if (at < size)
				text[at] = (char) ('0' + any(10));
			break;
		case 2: /* a word */
			length = strlen(word);
			if (size + length <= LONGEST) {
				memmove(text + at + length, text + at, size - at);
				memcpy(text + at, word, length);
				size += length;
			}
			break;
		case 3: /* less */
			length = length < size - at ? length : size - at;
			memmove(text + at, text + at + length, size - at - length);
			size -= length;
			break;
		case 4: /* a part twice */
			length = length < size - at ? length : size - at;
			if (size + length <= LONGEST) {
				memmove(text + at + length, text + at, size - at);
				size += length;
			}
			break;
		default: /* a part of another input */
			other = (size_t) any(corpus_count);
			length = length < corpus[other].size ? length : corpus[other].size;
			if (size + length <= LONGEST) {
				memmove(text + at + length, text + at, size - at);
				memcpy(text + at, corpus[other].text, length);
				size += length;
			}
		}
	}
	return size;
}

static void keep(const char *text, size_t size)
{
	size_t slot = corpus_count < CORPUS ? corpus_count++ : (size_t) any(CORPUS);

	free(corpus[slot].text);
	corpus[slot].text = malloc(size ? size : 1);
	require(corpus[slot].text, "no memory");
	memcpy(corpus[slot].text, text, size);
	corpus[slot].size = size;
}

int main(int argc, char **argv)
{
	double seconds = argc > 1 ? atof(argv[1]) : 10;
	char text[LONGEST];
	size_t runs = 0;

	state = argc > 2 ? strtoull(argv[2], NULL, 10) : (uint64_t) time(NULL);
	printf("fuzz_marks: %g s of CPU, seed %llu\n", seconds, (unsigned long long) state);
	state = state ? state * UINT64_C(0x9E3779B97F4A7C15) : 1;
	for (size_t i = 0; i < sizeof(seeds) / sizeof(*seeds); i++) {
		feed(seeds[i], strlen(seeds[i]));
		keep(seeds[i], strlen(seeds[i]));
	}
	while ((double) clock() / CLOCKS_PER_SEC < seconds) {
		size_t from = (size_t) any(corpus_count), size = corpus[from].size, before = edges;

		memcpy(text, corpus[from].text, size);
		size = mutate(text, size);
		feed(text, size);
		if (edges > before || !any(20000))
			keep(text, size);
		runs++;
	}
	printf("fuzz_marks: %zu inputs, %zu of them good files, %zu edges, corpus of %zu: nothing found\n", runs, parsed, edges,
	       corpus_count);
	for (size_t i = 0; i < corpus_count; i++)
		free(corpus[i].text);
	return 0;
}
