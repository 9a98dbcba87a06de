/* SPDX-License-Identifier: GPL-2.0-or-later */
/* The marks file: text that says which running jobs may be preempted. Knows nothing of Slurm, so that it can be fuzzed.
 *
 *     tesched-marks 1
 *     wait 2
 *     barred 1000
 *     17 * 3 0 requeue 2 60 1790000000 1790003600
 *     18 41 4 30 requeue 2 60 1790000000 1790003600
 *     end 2
 *
 * A line is: job id, preemptor (a job id, or * for any TE job), order (lowest first), grace period in seconds, mode
 * (requeue or suspend), limit of restarts, least run time in seconds, earliest and latest time (Unix seconds).
 * A line whose preemptor is its own job marks no victim. It is of a TE job that came back from its start without a useful
 * run: until its latest time no job is preempted for it, if one was in or after its run with as many restarts as `order`
 * says. Its limit of restarts is 0, so that a plugin that does not know such lines takes it for a mark that never holds:
 *     41 41 0 0 requeue 0 0 1790000000 1790003600
 * Its earliest time is when the last victim in one of these runs left, as far as the daemon knows, or 0. It counts where the
 * plugin was loaded later: slurmctld has been restarted since, and has forgotten its victims. The daemon keeps it for a day; a backup
 * controller that takes over has loaded the plugin long before, and neither knows of victims nor takes any from the file.
 * The line `wait`, which may be left out, says for how many seconds a TE job awaits room that comes free by itself.
 * A line `barred` is a user whose TE jobs preempt no job, by user id; such lines come first, ascending.
 * One blank between two fields; numbers are decimal digits; lines ascend by job id; `end` has the number of marks.
 * A line of a mark that differs from this, or is not above the one before, is void: its job has no mark, the others have
 * theirs, and the log names the first such line. Anything else that differs (a rule, which begins with a letter; the
 * first line; `end`, which counts void lines, too) voids the file: no rule is lost, and no part is taken for the whole.
 */
#ifndef TESCHED_MARKS_H
#define TESCHED_MARKS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* No file larger than this is read: 250,000 marks of the longest kind. */
#define MARKS_MAX_BYTES ((size_t) 24 << 20)
#define MARKS_MAX_COUNT ((size_t) 250000)
#define MARKS_MAX_BARRED 256
#define MARKS_MAX_WAIT_S 3600
#define MARKS_MAX_ORDER 2000000000
#define MARKS_MAX_TRES 64
#define MARKS_MAX_COMMENT 1024
#define MARKS_MAX_GRACE_S (7 * 24 * 3600)

typedef struct {
	uint32_t job_id;
	uint32_t preemptor; /* a job id; 0: any TE job */
	uint32_t prio;
	uint32_t grace_s;
	uint32_t max_restarts; /* at this many it is not preempted */
	uint32_t least_run_s;
	int64_t after;
	int64_t until;
	bool suspend; /* else requeue */
} mark_t;

typedef struct {
	uint32_t wait_s;
	uint32_t user[MARKS_MAX_BARRED]; /* that are barred */
	size_t count;
} te_rules_t;

/* Read a marks file's text into `marks`, which has room for `room` of them, and `te`; `void_line` is the first line that
 * is void, 0 if none is. Return the count of marks; -n if line n voids the file, among them one for which there is no
 * room. Neither allocates nor reads beyond `size`. */
extern long marks_parse(const char *text, size_t size, mark_t *marks, size_t room, te_rules_t *te, long *void_line);

/* Return whether TE jobs of this user preempt no job. */
extern bool is_barred(const te_rules_t *te, uint32_t user);

/* Return the mark of a job, NULL if it has none. */
extern const mark_t *marks_find(const mark_t *marks, size_t count, uint32_t job_id);

/* Return whether a line, NULL if there is none, keeps its TE job from further victims: the last were given to it when it had
 * been restarted `given` times. */
extern bool mark_delays(const mark_t *line, uint32_t given, int64_t now);

/* Return whether a line, NULL if there is none, keeps its TE job from further victims by one that left before the plugin was
 * loaded. */
extern bool mark_recalls(const mark_t *line, int64_t loaded, int64_t now);

/* Return how much room the text needs at most. */
extern size_t marks_lines(const char *text, size_t size);

/* Return whether a mark holds now: for this preemptor (its job id, that of its array and that of its heterogeneous job),
 * and for a job that began at `began` after so many restarts. */
extern bool mark_holds(const mark_t *mark, const uint32_t preemptor[3], uint32_t restarts, int64_t began, int64_t now);

/* Return whether what a job holds is as much of each resource as another one wants; false if either is not known. */
extern bool is_enough(const uint64_t *held, const uint64_t *wanted, size_t count);

/* Return a marked job's place in Slurm's order, lowest first and never 0: jobs that are enough alone by their order, then
 * the others by their order backwards, largest first with FitGpp's, so that few of them do. */
extern uint32_t mark_place(const mark_t *mark, bool enough);

/* Return whether a list of words, separated by blanks, commas or semicolons, has this one; `text` may be NULL. */
extern bool has_word(const char *text, const char *word);

/* Return for how many seconds after it became eligible a TE job has no victims, by its owner's word in the job's comment
 * (`patience=300` or `tesched:patience=300`, rounded up); 0 if it says nothing that can be read. Of several such words the last
 * counts. Reads MARKS_MAX_COMMENT bytes at most: Slurm asks for each running job, and in each comparison of a sort. */
extern uint32_t patience_of(const char *comment);

/* Return whether a TE job that became eligible at `began` is to have no victims yet by its comment. One that says nothing is not,
 * even where `now` is before `began`. */
extern bool is_within_patience(const char *comment, int64_t began, int64_t now);

/* Copy the value of `name` in a list such as "a,b=1,c=2", empty if it is not there or too long; `text` may be NULL. */
extern void copy_value(const char *text, const char *name, char *value, size_t size);

/* Return whether one of the names of `list`, separated by colons, is this one; both may be NULL. */
extern bool has_name(const char *list, const char *name);

#endif
