/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Tests of the marks file's parser and reader, and of the lists of jobs that were preempted. Ends with status 1 if a check fails. */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

#include "marks_file.h"
#include "sort_clock.h"
#include "taken.h"

#define HEAD "tesched-marks 1\n"
#define GOOD "17 * 3 0 requeue 2 60 1000 2000\n"

static int failed;

#define CHECK(what) ((what) ? (void) 0 : (void) (failed = 1, printf("line %d: not so: %s\n", __LINE__, #what)))

static long parse(const char *text)
{
	mark_t marks[8];
	te_rules_t te;
	long void_line;

	return marks_parse(text, strlen(text), marks, 8, &te, &void_line);
}

static void test_parser(void)
{
	mark_t marks[2];
	te_rules_t te;
	long void_line;
	const char *text = HEAD "wait 2\nbarred 0\nbarred 4294967295\n" GOOD "18 41 4 30 suspend 65535 0 0 99999999999\nend 2\n";

	CHECK(marks_lines(text, strlen(text)) == 7);
	CHECK(marks_parse(text, strlen(text), marks, 2, &te, &void_line) == 2 && void_line == 0);
	CHECK(marks[0].job_id == 17 && marks[0].preemptor == 0 && marks[0].prio == 3 && marks[0].grace_s == 0);
	CHECK(!marks[0].suspend && marks[0].max_restarts == 2 && marks[0].least_run_s == 60);
	CHECK(marks[0].after == 1000 && marks[0].until == 2000);
	CHECK(marks[1].preemptor == 41 && marks[1].suspend && marks[1].until == INT64_C(99999999999));
	CHECK(te.wait_s == 2 && te.count == 2 && is_barred(&te, 0) && is_barred(&te, UINT32_MAX) && !is_barred(&te, 7));
	CHECK(marks_parse(text, strlen(text), marks, 1, &te, &void_line) == -6);
	CHECK(marks_find(marks, 2, 17) == &marks[0] && marks_find(marks, 2, 18) == &marks[1]);
	CHECK(!marks_find(marks, 2, 16) && !marks_find(marks, 2, 19) && !marks_find(marks, 0, 17) && !marks_find(NULL, 0, 1));
	/* Each prefix of a good file is a wrong one. */
	for (size_t size = 0; size < strlen(text); size++)
		CHECK(marks_parse(text, size, marks, 2, &te, &void_line) < 0);
	CHECK(parse(HEAD "end 0\n") == 0);
	CHECK(parse("") == -1);
	CHECK(parse("tesched-marks 2\nend 0\n") == -1);
	CHECK(parse(HEAD "end 0\n\n") == -3);
	CHECK(parse(HEAD GOOD "end 2\n") == -3);
	CHECK(parse(HEAD "barred 7\nend 0\n") == 0);
	CHECK(parse(HEAD "barred 7\nbarred 7\nend 0\n") == -3 && parse(HEAD "barred 7\nbarred 6\nend 0\n") == -3);
	CHECK(parse(HEAD "barred 4294967296\nend 0\n") == -2 && parse(HEAD "barred x\nend 0\n") == -2);
	CHECK(parse(HEAD GOOD "barred 7\nend 1\n") == -3);
	CHECK(parse(HEAD "wait 0\nend 0\n") == 0 && parse(HEAD "wait 3600\nbarred 7\n" GOOD "end 1\n") == 1);
	CHECK(parse(HEAD "wait 3601\nend 0\n") == -2 && parse(HEAD "wait\nend 0\n") == -2);
	CHECK(parse(HEAD "wait 1\nwait 1\nend 0\n") == -3 && parse(HEAD "barred 7\nwait 1\nend 0\n") == -3);
	CHECK(parse(HEAD "wait 2\nrubbish\n") == -3);
}

static void test_most_barred(void)
{
	char text[MARKS_MAX_BARRED * 16 + 64] = HEAD;
	mark_t mark;
	te_rules_t te;
	long void_line;

	for (int user = 0; user <= MARKS_MAX_BARRED; user++) {
		char line[32];

		(void) snprintf(line, sizeof(line), "barred %d\n", user);
		strcat(text, line);
		if (user == MARKS_MAX_BARRED - 1) {
			strcat(text, "end 0\n");
			CHECK(marks_parse(text, strlen(text), &mark, 1, &te, &void_line) == 0 && is_barred(&te, 255));
			text[strlen(text) - strlen("end 0\n")] = '\0';
		}
	}
	strcat(text, "end 0\n");
	CHECK(marks_parse(text, strlen(text), &mark, 1, &te, &void_line) == -2 - MARKS_MAX_BARRED);
}

/* A wrong line of a mark is void, and the marks before and behind it are in force. */
static void test_void_lines(void)
{
	static const char *const wrong[] = {
		"0 * 3 0 requeue 2 60 1000 2000", "-1 * 3 0 requeue 2 60 1000 2000", "2147483648 * 3 0 requeue 2 60 1000 2000",
		"17 0 3 0 requeue 2 60 1000 2000", "17 ** 3 0 requeue 2 60 1000 2000", "17 * 3 604801 requeue 2 60 1000 2000",
		"17 * 3 0 cancel 2 60 1000 2000", "17 * 3 0 requeue 65536 60 1000 2000", "17 * 3 0 requeue 2 60 1000 100000000000",
		"17 * 3 0 requeue 2 60 1000", "17 * 3 0 requeue 2 60 1000 2000 ", "17  * 3 0 requeue 2 60 1000 2000",
		"17 * 3 0 requeue 2 60 1000 2000\r", "17\t* 3 0 requeue 2 60 1000 2000", "17 * 0x3 0 requeue 2 60 1000 2000",
		"17 * 99999999999999999999999999 0 requeue 2 60 1000 2000", " 17 * 3 0 requeue 2 60 1000 2000", "17",
		"", "4294967295", "7 * 3 0 requeue 2 60 1000 2000" /* not above the one before */, "8 * 3 0 requeue 2 60 1000 2000",
	};
	char text[256];
	mark_t marks[2];
	te_rules_t te;
	long count, void_line;

	for (size_t i = 0; i < sizeof(wrong) / sizeof(*wrong); i++) {
		(void) snprintf(text, sizeof(text), HEAD "8 * 3 0 requeue 2 60 1000 2000\n%s\n18 * 3 0 requeue 2 60 1000 2000\nend 3\n",
				wrong[i]);
		count = marks_parse(text, strlen(text), marks, 2, &te, &void_line);
		if (count != 2 || void_line != 3)
			printf("not void: %s\n", wrong[i]);
		CHECK(count == 2 && void_line == 3 && marks[0].job_id == 8 && marks[1].job_id == 18);
		/* `end` counts it. */
		(void) snprintf(text, sizeof(text), HEAD "%s\nend 0\n", wrong[i]);
		CHECK(parse(text) == -3);
	}
	/* A rule is not lost, wherever it stands: such a file has no mark. */
	CHECK(parse(HEAD "17\n17\nend 2\n") == 0 && parse(HEAD "17\nbarred 7\nend 1\n") == -3);
	CHECK(parse(HEAD "17\nend 1") < 0 && parse(HEAD "17") < 0);
}

static void test_holds(void)
{
	mark_t mark = { .job_id = 17, .max_restarts = 2, .least_run_s = 60, .after = 1000, .until = 2000 };
	const uint32_t te[3] = { 41, 40, 0 }, other[3] = { 42, 0, 0 };

	CHECK(mark_holds(&mark, te, 0, 900, 1000) && mark_holds(&mark, te, 1, 900, 2000));
	CHECK(!mark_holds(&mark, te, 0, 900, 999) && !mark_holds(&mark, te, 0, 900, 2001));
	CHECK(!mark_holds(&mark, te, 2, 900, 1500));
	CHECK(mark_holds(&mark, te, 0, 1440, 1500) && !mark_holds(&mark, te, 0, 1441, 1500));
	mark.preemptor = 41;
	CHECK(mark_holds(&mark, te, 0, 900, 1500) && !mark_holds(&mark, other, 0, 900, 1500));
	mark.preemptor = 40; /* its array */
	CHECK(mark_holds(&mark, te, 0, 900, 1500) && !mark_holds(&mark, other, 0, 900, 1500));
}

/* The line of a TE job that came back: no mark of a victim, for any plugin. */
static void test_delays(void)
{
	const char *text = HEAD "17 * 3 0 requeue 2 60 1000 2000\n41 41 1 0 requeue 0 0 0 2000\nend 2\n";
	const uint32_t itself[3] = { 41, 40, 0 };
	mark_t marks[2], other = { .job_id = 42, .preemptor = 43, .until = 2000 };
	te_rules_t te;
	long void_line;

	CHECK(marks_parse(text, strlen(text), marks, 2, &te, &void_line) == 2 && !void_line);
	CHECK(mark_delays(&marks[1], 1, 2000) && mark_delays(&marks[1], 2, 0));
	CHECK(!mark_delays(&marks[1], 0, 1500)); /* it had a useful run since */
	CHECK(!mark_delays(&marks[1], 1, 2001)); /* its wait is over */
	CHECK(!mark_delays(&marks[0], 9, 1500) && !mark_delays(&other, 9, 1500) && !mark_delays(NULL, 9, 1500));
	CHECK(!mark_holds(&marks[1], itself, 0, 900, 1500));
}

static void test_recalls(void)
{
	mark_t line = { .job_id = 41, .preemptor = 41, .prio = 2, .after = 1000, .until = 2000 };

	CHECK(mark_recalls(&line, 1000, 2000) && mark_recalls(&line, 1500, 1500));
	CHECK(!mark_recalls(&line, 999, 1500)); /* what has been since, the plugin knows */
	CHECK(!mark_recalls(&line, 1500, 2001) && !mark_recalls(NULL, 1500, 1500));
	line.preemptor = 0;
	CHECK(!mark_recalls(&line, 1500, 1500)); /* a victim's */
	line.preemptor = 41;
	line.after = 0;
	CHECK(!mark_recalls(&line, 1500, 1500)); /* the daemon knows of none */
}

static void test_values(void)
{
	char value[8] = "x";

	copy_value("a,tesched_marks=/m,b", "tesched_marks", value, sizeof(value));
	CHECK(!strcmp(value, "/m"));
	copy_value("Tesched_Marks=/n", "tesched_marks", value, sizeof(value));
	CHECK(!strcmp(value, "/n"));
	copy_value("tesched_marks_user=x,tesched_marksy=1,tesched_marks", "tesched_marks", value, sizeof(value));
	CHECK(!value[0]);
	copy_value("a=1234567,b=12345678", "a", value, sizeof(value));
	CHECK(!strcmp(value, "1234567"));
	copy_value("a=1234567,b=12345678", "b", value, sizeof(value));
	CHECK(!value[0]);
	copy_value(NULL, "a", value, sizeof(value));
	CHECK(!value[0]);
}

static void test_places(void)
{
	const mark_t small = { .job_id = 1, .prio = 3 }, large = { .job_id = 2, .prio = 8 }, last = { .job_id = 3, .prio = MARKS_MAX_ORDER };
	const uint64_t wants[3] = { 4, 100, 1 }, less[3] = { 4, 99, 2 }, more[3] = { 8, 100, 1 };

	CHECK(is_enough(more, wants, 3) && !is_enough(less, wants, 3) && is_enough(less, wants, 1));
	CHECK(!is_enough(NULL, wants, 3) && !is_enough(more, wants, 0));
	CHECK(0 < mark_place(&small, true) && mark_place(&small, true) < mark_place(&large, true));
	CHECK(mark_place(&large, true) < mark_place(&last, true) && mark_place(&last, true) <= mark_place(&last, false));
	CHECK(mark_place(&last, false) < mark_place(&large, false) && mark_place(&large, false) < mark_place(&small, false));
	CHECK(mark_place(&(mark_t) { .prio = 0 }, false) < UINT32_MAX - 1); /* NO_VAL */
}

static void test_words(void)
{
	CHECK(has_word("tesched:te", "tesched:te") && has_word("ticket 7, tesched:te; x", "tesched:te"));
	CHECK(!has_word(NULL, "tesched:te") && !has_word("", "tesched:te") && !has_word("tesched:te2", "tesched:te"));
	CHECK(!has_word("xtesched:te", "tesched:te") && !has_word("tesched:tetesched:te", "tesched:te"));
	CHECK(has_name("te", "te") && has_name("a:te:b", "te") && !has_name("a:te2:b", "te") && !has_name("", ""));
	CHECK(!has_name(NULL, "te") && !has_name("te", NULL) && !has_name("a::b", ""));
}

static void test_taken(void)
{
	taken_list_t list = { .count = 0 };

	taken_drop(&list, 0);
	CHECK(list.count == 0);
	taken_add(&list, 17, 41);
	taken_add(&list, 18, 41);
	taken_add(&list, 19, 42);
	CHECK(list.count == 3 && list.job[0].victim == 17 && list.job[2].victim == 19 && list.job[2].preemptor == 42);
	taken_add(&list, 17, 43); /* again, for another */
	CHECK(list.count == 3 && list.job[0].victim == 18 && list.job[2].victim == 17 && list.job[2].preemptor == 43);
	taken_drop(&list, 3);
	CHECK(list.count == 3);
	taken_drop(&list, 1);
	CHECK(list.count == 2 && list.job[0].victim == 18 && list.job[1].victim == 17);
	for (uint32_t victim = 100; victim < 100 + TAKEN_MAX; victim++)
		taken_add(&list, victim, 44);
	CHECK(list.count == TAKEN_MAX && list.job[0].victim == 100 && list.job[TAKEN_MAX - 1].victim == 99 + TAKEN_MAX);
	taken_add(&list, 99 + TAKEN_MAX, 45); /* a full list */
	CHECK(list.count == TAKEN_MAX && list.job[0].victim == 100 && list.job[TAKEN_MAX - 1].preemptor == 45);
}

static void test_given(void)
{
	static given_list_t list;
	uint32_t restarts = 7;

	CHECK(!given_find(&list, 41, NO_TASK, &restarts) && !given_find(&list, 0, NO_TASK, &restarts) && restarts == 7);
	given_add(&list, 41, NO_TASK, 0);
	given_add(&list, 42, NO_TASK, 3);
	CHECK(given_find(&list, 41, NO_TASK, &restarts) && restarts == 0);
	CHECK(given_find(&list, 42, NO_TASK, &restarts) && restarts == 3);
	given_add(&list, 41, NO_TASK, 2); /* again, after two restarts */
	CHECK(list.count == 2 && given_find(&list, 41, NO_TASK, &restarts) && restarts == 2);
	for (uint32_t job = 100; job < 100 + GIVEN_MAX - 1; job++)
		given_add(&list, job, NO_TASK, 0);
	CHECK(list.count == GIVEN_MAX && !given_find(&list, 42, NO_TASK, &restarts)); /* the oldest */
	CHECK(given_find(&list, 41, NO_TASK, &restarts) && restarts == 2);
	given_add(&list, 100, NO_TASK, 9); /* a full list */
	CHECK(list.count == GIVEN_MAX && given_find(&list, 41, NO_TASK, &restarts));
	CHECK(given_find(&list, 100, NO_TASK, &restarts) && restarts == 9);
}

static void test_given_tasks(void)
{
	static given_list_t list;
	uint32_t restarts = 7;

	given_add(&list, 41, 1, 0);
	given_add(&list, 41, 3, 2);
	CHECK(given_find(&list, 41, 1, &restarts) && restarts == 0 && given_find(&list, 41, 3, &restarts) && restarts == 2);
	restarts = 7;
	CHECK(!given_find(&list, 41, 2, &restarts) && !given_find(&list, 41, NO_TASK, &restarts) && restarts == 7);
	CHECK(!given_find(&list, 1, 41, &restarts));
}

/* Ids with a pattern are spread over the buckets: no place is far down its chain. */
static void test_given_chains(void)
{
	static const uint32_t steps[] = { 1, 2, 1000, 1024, 4096, 8192, 65536 };

	for (size_t at = 0; at < sizeof(steps) / sizeof(steps[0]); at++) {
		static uint32_t in_tasks[GIVEN_BUCKETS], in_jobs[GIVEN_BUCKETS];
		uint32_t longest = 0;

		memset(in_jobs, 0, sizeof(in_jobs));
		memset(in_tasks, 0, sizeof(in_tasks));
		for (uint32_t one = 0; one < GIVEN_MAX; one++) {
			uint32_t jobs = ++in_jobs[given_bucket(1000 + one * steps[at], NO_TASK)];
			uint32_t tasks = ++in_tasks[given_bucket(1000, one * steps[at])];

			longest = jobs > longest ? jobs : longest;
			longest = tasks > longest ? tasks : longest;
		}
		CHECK(longest <= 8);
	}
}

/* The list beside one that is searched from end to end: after each of many random notes both know the same. */
static void test_given_against_a_plain_list(void)
{
	static given_list_t list;
	static struct { uint32_t job, task, restarts; } plain[GIVEN_MAX];
	size_t count = 0;
	uint32_t random = 1;
	bool same = true;

	for (uint32_t turn = 0; turn < 5 * GIVEN_MAX; turn++) {
		uint32_t job, task, restarts = 0;
		size_t at = 0;

		random = random * 1664525 + 1013904223;
		job = 1 + (random >> 8) % (2 * GIVEN_MAX);
		task = random >> 30 ? NO_TASK : (random >> 4) % 4;
		while (at < count && (plain[at].job != job || plain[at].task != task))
			at++;
		same &= given_find(&list, job, task, &restarts) == (at < count) && (at == count || restarts == plain[at].restarts);
		if (at == count && count == GIVEN_MAX) {
			at = 0;
			same &= given_find(&list, plain[0].job, plain[0].task, &restarts);
		}
		if (at < count) {
			count--;
			memmove(&plain[at], &plain[at + 1], (count - at) * sizeof(plain[0]));
		}
		plain[count].job = job;
		plain[count].task = task;
		plain[count++].restarts = turn;
		given_add(&list, job, task, turn);
		same &= list.count == count;
	}
	CHECK(same && count == GIVEN_MAX);
	for (size_t at = 0; at < count; at++) {
		uint32_t restarts = 0;

		same &= given_find(&list, plain[at].job, plain[at].task, &restarts) && restarts == plain[at].restarts;
	}
	CHECK(same);
}

static void put(const char *path, const char *text, mode_t mode)
{
	char new[256];
	int descriptor;

	(void) snprintf(new, sizeof(new), "%s.new", path);
	descriptor = open(new, O_WRONLY | O_CREAT | O_TRUNC, 0600);
	CHECK(descriptor >= 0 && write(descriptor, text, strlen(text)) == (ssize_t) strlen(text));
	CHECK(!fchmod(descriptor, mode) && !close(descriptor) && !rename(new, path));
}

static void test_patience(void)
{
	static const struct {
		const char *comment;
		uint32_t seconds;
	} said[] = {
		{ "te patience=300", 300 },
		{ "patience=300", 300 },
		{ "lr=0.1,PATIENCE=7;te", 7 },
		{ "tesched:patience=9", 9 },
		{ "Tesched:Patience=9\tte", 9 },
		{ "patience=0.001", 1 },
		{ "patience=2.000", 2 },
		{ "patience=999999", 999999 },
		{ "patience=5 patience=6", 6 },
		{ "patience=5 patience=never", 0 },
		{ "patience=0", 0 },
		{ "", 0 },
		{ " ", 0 },
		{ "patience", 0 },
		{ "patience=", 0 },
		{ "patience=-5", 0 },
		{ "patience=+5", 0 },
		{ "patience=1000000", 0 },
		{ "patience=99999999999999999999", 0 },
		{ "patience=5s", 0 },
		{ "patience=5.", 0 },
		{ "patience=5.1234", 0 },
		{ "patience=5.1.1", 0 },
		{ "patience=.5", 0 },
		{ "patience=inf", 0 },
		{ "impatience=5", 0 },
		{ "xtesched:patience=5", 0 },
		{ "tesched:tesched:patience=5", 0 },
		{ "patience 5", 0 },
		{ "patience=5=6", 0 },
	};
	char line[MARKS_MAX_COMMENT + 100];

	CHECK(patience_of(NULL) == 0);
	for (size_t i = 0; i < sizeof(said) / sizeof(*said); i++) {
		if (patience_of(said[i].comment) != said[i].seconds)
			printf("of \"%s\" it is %u\n", said[i].comment, patience_of(said[i].comment));
		CHECK(patience_of(said[i].comment) == said[i].seconds);
	}
	/* Beyond the limit nothing is read, and what it cuts is no word. */
	memset(line, 'x', sizeof(line) - 1);
	line[sizeof(line) - 1] = '\0';
	memcpy(line, "patience=4 ", 11);
	memcpy(line + MARKS_MAX_COMMENT - 11, " patience=56", 12);
	CHECK(patience_of(line) == 4);
	line[MARKS_MAX_COMMENT] = '\0';
	CHECK(patience_of(line) == 5);
}

static void test_within_patience(void)
{
	CHECK(is_within_patience("te patience=3", 1000, 1000) && is_within_patience("te patience=3", 1000, 1002));
	CHECK(!is_within_patience("te patience=3", 1000, 1003));
	CHECK(!is_within_patience("te", 1000, 1000) && !is_within_patience(NULL, 1000, 1000));
	/* By a clock that stands before the job became eligible one that says nothing is as little patient. */
	CHECK(!is_within_patience("te", 1000, 0) && !is_within_patience(NULL, 1000, 999) && !is_within_patience("patience=0", 1000, 999));
	CHECK(is_within_patience("patience=3", 1000, 0));
}

static void test_sort_clock(void)
{
	sort_clock_t clock = { 0 };

	/* The first sort of a slurmctld goes by the time, and keeps it while the clock moves either way. */
	CHECK(sort_clock_at(&clock, 1000) == 1000);
	CHECK(sort_clock_at(&clock, 1001) == 1000 && sort_clock_at(&clock, 5000) == 1000 && sort_clock_at(&clock, 900) == 1000);
	sort_clock_end(&clock);
	sort_clock_end(&clock);
	CHECK(sort_clock_at(&clock, 1003) == 1003 && sort_clock_at(&clock, 1004) == 1003);
	sort_clock_end(&clock);
	CHECK(sort_clock_at(&clock, 0) == 0 && sort_clock_at(&clock, 7) == 0); /* a clock that was set back */
}

/* What the system refuses for a moment is tried again, though the file stays as it is; what is wrong with the file is not. */
static void test_passing_error(marks_file_t *file, const char *path, const uid_t owners[3])
{
	struct rlimit limit, none;

	put(path, HEAD GOOD "end 1\n", 0644);
	CHECK(!getrlimit(RLIMIT_NOFILE, &limit));
	none = limit;
	none.rlim_cur = 0;
	CHECK(!setrlimit(RLIMIT_NOFILE, &none));
	file->looked_ms -= 1000;
	CHECK(marks_file_refresh(file, path, owners, false) && file->count == 0 && !strcmp(file->wrong, strerror(EMFILE)));
	CHECK(!marks_file_refresh(file, path, owners, false)); /* no more often than ever */
	CHECK(!setrlimit(RLIMIT_NOFILE, &limit));
	file->looked_ms -= 1000;
	CHECK(marks_file_refresh(file, path, owners, false) && file->count == 1 && !file->wrong[0]);
	file->looked_ms -= 1000;
	CHECK(!marks_file_refresh(file, path, owners, false) && file->count == 1);
	put(path, HEAD "rubbish\nend 1\n", 0644);
	file->looked_ms -= 1000;
	CHECK(marks_file_refresh(file, path, owners, false) && file->wrong[0]);
	file->looked_ms -= 1000;
	CHECK(!marks_file_refresh(file, path, owners, false) && file->wrong[0]);
	put(path, HEAD GOOD "end 1\n", 0644);
}

static void test_file(void)
{
	const uid_t owners[3] = { getuid(), getuid(), getuid() }, others[3] = { getuid() + 1, getuid() + 1, getuid() + 1 };
	char folder[] = "/tmp/test-marks-XXXXXX", path[64], link[64];
	marks_file_t file = { 0 };

	CHECK(mkdtemp(folder) != NULL);
	(void) snprintf(path, sizeof(path), "%s/marks", folder);
	(void) snprintf(link, sizeof(link), "%s/link", folder);
	CHECK(marks_file_refresh(&file, path, owners, false) && !strcmp(file.wrong, "No such file or directory"));
	CHECK(!marks_file_refresh(&file, path, owners, false)); /* too soon */
	put(path, HEAD GOOD "end 1\n", 0644);
	CHECK(marks_file_refresh(&file, path, owners, true) && file.count == 1 && file.last_until == 2000 && !file.wrong[0]);
	file.looked_ms -= 1000;
	CHECK(!marks_file_refresh(&file, path, owners, false) && file.count == 1); /* unchanged */
	put(path, HEAD "end 0\n", 0600);
	file.looked_ms -= 1000;
	CHECK(marks_file_refresh(&file, path, owners, false) && file.count == 0 && !file.wrong[0]);
	put(path, HEAD GOOD "end 1\n", 0664);
	CHECK(marks_file_refresh(&file, path, owners, true) && file.count == 0 && strstr(file.wrong, "may write it"));
	put(path, HEAD GOOD "end 1\n", 0644);
	CHECK(marks_file_refresh(&file, path, others, true) && file.count == 0 && strstr(file.wrong, "another user"));
	put(path, HEAD "rubbish\nend 1\n", 0644);
	CHECK(marks_file_refresh(&file, path, owners, true) && file.count == 0 && !strcmp(file.wrong, "line 2 is wrong"));
	put(path, HEAD "17\n18 * 3 0 requeue 2 60 1000 2000\nend 2\n", 0644);
	CHECK(marks_file_refresh(&file, path, owners, true) && file.count == 1 && file.void_line == 2 && !file.wrong[0]);
	put(path, HEAD GOOD "end 1\n", 0644);
	CHECK(marks_file_refresh(&file, path, owners, true) && file.count == 1 && !file.void_line);
	/* A line of a TE job that came back makes no job preemptable, however long it holds. */
	put(path, HEAD "17 17 3 0 requeue 2 60 1000 99999999999\n18 * 3 0 requeue 2 60 1000 2000\nend 2\n", 0644);
	CHECK(marks_file_refresh(&file, path, owners, true) && file.count == 2 && file.last_until == 2000 && !file.wrong[0]);
	put(path, HEAD "17 17 3 0 requeue 2 60 1000 99999999999\nend 1\n", 0644);
	CHECK(marks_file_refresh(&file, path, owners, true) && file.count == 1 && file.last_until == 0 && !file.wrong[0]);
	put(path, HEAD GOOD "end 1\n", 0644);
	CHECK(!truncate(path, (off_t) MARKS_MAX_BYTES + 1));
	CHECK(marks_file_refresh(&file, path, owners, true) && file.count == 0 && strstr(file.wrong, "too large"));
	CHECK(!truncate(path, (off_t) MARKS_MAX_BYTES)); /* zeros behind a good file */
	CHECK(marks_file_refresh(&file, path, owners, true) && file.count == 0 && !strcmp(file.wrong, "line 4 is wrong"));
	put(path, HEAD GOOD "end 1\n", 0644);
	CHECK(!symlink(path, link) && marks_file_refresh(&file, link, owners, true) && file.count == 0 && file.wrong[0]);
	CHECK(marks_file_refresh(&file, folder, owners, true) && strstr(file.wrong, "no plain file"));
	CHECK(!unlink(link) && !mkfifo(link, 0600));
	CHECK(marks_file_refresh(&file, link, owners, true) && strstr(file.wrong, "no plain file")); /* does not wait */
	CHECK(marks_file_refresh(&file, path, owners, true) && file.count == 1);
	test_passing_error(&file, path, owners);
	marks_file_close(&file);
	CHECK(!unlink(link) && !unlink(path) && !rmdir(folder));
}

int main(void)
{
	test_parser();
	test_most_barred();
	test_void_lines();
	test_holds();
	test_delays();
	test_recalls();
	test_places();
	test_values();
	test_words();
	test_patience();
	test_within_patience();
	test_sort_clock();
	test_taken();
	test_given();
	test_given_tasks();
	test_given_chains();
	test_given_against_a_plain_list();
	test_file();
	puts(failed ? "test_marks: FAILED" : "test_marks: all well");
	return failed;
}
