/* SPDX-License-Identifier: GPL-2.0-or-later */
/* preempt/tesched: Slurm preempts the running jobs that tesched has marked, in the order of their marks, for
 * trial-and-error (TE) jobs alone. Slurm decides whether a TE job fits and where; the marks decide about victims.
 * README.md says how to build and install it, marks.h what a mark is.
 *
 * Safety: no call here takes a lock or allocates, but for the read of a new marks file (`refresh`). slurmctld calls
 * preempt_p_preemptable under its write lock for jobs, so the marks change while nothing else reads them.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <link.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "slurm/slurm.h"
#include "slurm/slurm_errno.h"
#include "src/common/log.h"
#include "src/common/uid.h"
#include "src/slurmctld/job_scheduler.h"
#include "src/slurmctld/slurmctld.h"
#include PREEMPT_HEADER /* src/slurmctld/preempt.h up to 22.05, src/interfaces/preempt.h since */

#include "marks_file.h"
#include "sort_clock.h"
#include "taken.h"

/* What taken.c, which knows nothing of Slurm, takes for the task of a job that is none. */
typedef char no_task_is_slurms[NO_TASK == NO_VAL ? 1 : -1];

#define BUILT_FOR SLURM_VERSION_NUMBER
#define PUBLIC extern __attribute__((visibility("default")))
#define TE_WORD "tesched:te"
/* For so long after it came back a TE job is given no more victims, so that the daemon has said by then what it came to: a
 * poll, and what it takes to write the marks. Slurm itself lets a job wait after its requeue, for 121 s by default. */
#define UNTIL_SAID_S 10
#define BASE_MODES (PREEMPT_MODE_SUSPEND | PREEMPT_MODE_REQUEUE | PREEMPT_MODE_CANCEL)

/* All that slurmctld defines is weak: a release that lacks one of these loads the plugin all the same, and it stays off. */
#define WEAK(symbol) extern __typeof__(symbol) symbol __attribute__((weak))
WEAK(avail_node_bitmap);
WEAK(bit_overlap_any);
WEAK(find_job_record);
WEAK(log_var);
WEAK(slurm_conf);
WEAK(slurmctld_tres_cnt);
WEAK(uid_from_string);

#pragma GCC visibility push(default)
const char plugin_name[] = "Preemption of the jobs that tesched has marked";
const char plugin_type[] = "preempt/tesched";
uint32_t plugin_version = SLURM_VERSION_NUMBER; /* until `take_release` has seen what runs */
const char tesched_built_for[] = "tesched-built-for=" SLURM_VERSION_STRING; /* `tesched doctor` reads it */
#pragma GCC visibility pop

static struct {
	char path[PATH_MAX];
	char te_qos[1024]; /* names, separated by colons */
	char te_partitions[1024];
	uid_t owner; /* besides root and SlurmUser */
	time_t read_at; /* slurm_conf.last_update */
} config;

static marks_file_t file;
static uint32_t running; /* the exact release of this slurmctld; 0 if unknown */
/* Nothing is preemptable: built for another release. No record and no setting may be read then, since each release has its
 * own layout, and the symbols above may be missing. */
static bool off = true;
static bool trusted; /* the structures have been seen to be those of the headers */
static char said[512];
static uint64_t wanted[MARKS_MAX_TRES]; /* by the job for which Slurm gathers victims; it sorts them right after that */
static size_t wanted_count;
static taken_list_t taken;
static uint32_t asking; /* the job for which Slurm gathers victims; those that it preempts right after that are for it */
static uint32_t asking_task;
static uint32_t asking_restarts;
static sort_clock_t sort_clock;
static given_list_t given;
static time_t loaded_at; /* what was before, `given` does not know */

/* Log a line unless it is the same as the last one: a pass may come here thousands of times. */
static void __attribute__((format(printf, 1, 2))) say(const char *format, ...)
{
	char line[sizeof(said)];
	va_list arguments;

	va_start(arguments, format);
	(void) vsnprintf(line, sizeof(line), format, arguments);
	va_end(arguments);
	if (!strcmp(line, said))
		return;
	memcpy(said, line, sizeof(said));
	/* Not error(): glibc has a function of that name, which would end slurmctld. */
	if (!log_var)
		return;
	if (line[0])
		log_var(LOG_LEVEL_ERROR, "%s: %s", plugin_type, line);
	else
		log_var(LOG_LEVEL_INFO, "%s: the marks of %s are in force", plugin_type, config.path);
}

static void parameter(const char *name, char *value, size_t size)
{
	copy_value(slurm_conf.slurmctld_params, name, value, size);
}

static void read_config(void)
{
	char user[256];

	config.read_at = slurm_conf.last_update;
	parameter("tesched_marks", config.path, sizeof(config.path));
	if (!config.path[0])
		(void) snprintf(config.path, sizeof(config.path), "%s", "/run/tesched/marks");
	parameter("tesched_te_qos", config.te_qos, sizeof(config.te_qos));
	parameter("tesched_te_partition", config.te_partitions, sizeof(config.te_partitions));
	parameter("tesched_marks_user", user, sizeof(user));
	if (!user[0] || uid_from_string(user, &config.owner) != SLURM_SUCCESS)
		config.owner = slurm_conf.slurm_user_id;
}

static bool expired(time_t now)
{
	if (!file.last_until || now <= file.last_until)
		return false;
	say("no job is preemptable: all marks of %s have expired; does tesched run?", config.path);
	return true;
}

/* Take notice of a new slurm.conf and of a new marks file. */
static void refresh(void)
{
	bool anew = config.read_at != slurm_conf.last_update;
	uid_t owners[3];

	if (anew)
		read_config();
	owners[0] = 0;
	owners[1] = slurm_conf.slurm_user_id;
	owners[2] = config.owner;
	if (!marks_file_refresh(&file, config.path, owners, anew))
		return;
	if (file.wrong[0])
		say("no job is preemptable: %s: %s", config.path, file.wrong);
	else if (!expired(time(NULL))) {
		if (file.void_line)
			say("line %ld of %s is wrong: its job is not preemptable", file.void_line, config.path);
		else
			say("%s", "");
	}
}

static bool is_te(const job_record_t *job, const part_record_t *partition)
{
	return has_word(job->admin_comment, TE_WORD) ||
	       (config.te_qos[0] && job->qos_ptr && has_name(config.te_qos, job->qos_ptr->name)) ||
	       (config.te_partitions[0] && partition && has_name(config.te_partitions, partition->name));
}

/* Return whether a job's record is laid out as the headers say: slurmctld finds it by the id that is read here. */
static bool looks_right(job_record_t *job)
{
	if (!trusted) {
		trusted = job->magic == JOB_MAGIC && JOB_ID(job) && find_job_record(JOB_ID(job)) == job &&
			  job->details && job->details->magic == DETAILS_MAGIC && job->part_ptr &&
			  job->part_ptr->magic == PART_MAGIC;
		off = !trusted;
		if (off)
			say("no job is preemptable: a job's record is not laid out as in the headers of %d.%02d.%d; "
			    "build the plugin from the source of this slurmctld",
			    SLURM_VERSION_MAJOR(BUILT_FOR), SLURM_VERSION_MINOR(BUILT_FOR), SLURM_VERSION_MICRO(BUILT_FOR));
	}
	return trusted;
}

/* The same of a waiting job, which says nothing of the layout while it has no partition. */
static bool waits_as_it_looks(job_record_t *job)
{
	return trusted || (job && job->details && job->part_ptr && looks_right(job));
}

static const mark_t *mark_of(const job_record_t *job)
{
	return job ? marks_find(file.marks, file.count, JOB_ID(job)) : NULL;
}

/* Return whether Slurm can do what the mark says; a job that it can't requeue it would kill. */
static bool possible(const mark_t *mark, const job_record_t *victim, const job_record_t *preemptor)
{
	if (!victim->batch_flag || !victim->details || !victim->details->requeue || victim->fed_details)
		return false;
	return !mark->suspend || ((slurm_conf.preempt_mode & PREEMPT_MODE_GANG) && victim->part_ptr && preemptor->part_ptr &&
				  preemptor->part_ptr->priority_tier > victim->part_ptr->priority_tier);
}

/* Keep what a waiting job wants on each node of CPUs, memory and, where they are in AccountingStorageTRES, GPUs. */
static void keep_wanted(const job_record_t *job)
{
	uint64_t nodes = job->tres_req_cnt && job->tres_req_cnt[TRES_ARRAY_NODE] ? job->tres_req_cnt[TRES_ARRAY_NODE] : 1;

	wanted_count = job->tres_req_cnt && slurmctld_tres_cnt <= MARKS_MAX_TRES ? (size_t) slurmctld_tres_cnt : 0;
	for (size_t i = 0; i < wanted_count; i++)
		wanted[i] = i <= TRES_ARRAY_MEM || i >= TRES_ARRAY_TOTAL_CNT ? job->tres_req_cnt[i] / nodes : 0;
}

/* Return whether a preempted job is ending on nodes that may be used then: such a node is soon free. One that takes longer
 * than Slurm waits for a silent node hangs. */
static bool is_leaving(const job_record_t *job, time_t now)
{
	return IS_JOB_COMPLETING(job) && job->node_bitmap_cg && bit_overlap_any(job->node_bitmap_cg, avail_node_bitmap) &&
	       (!slurm_conf.slurmd_timeout ||
		now - job->end_time <= (time_t) slurm_conf.kill_wait + (time_t) slurm_conf.slurmd_timeout);
}

/* Return whether a job that was preempted for this one is ending. One whose own TE job waits no more, since it has started
 * elsewhere or is cancelled, counts for the next that asks. Slurm itself waits for KillWait and MessageTimeout since it has
 * preempted a job, however long that takes to save, and however long its epilog takes. */
static bool is_being_served(const job_record_t *preemptor, time_t now)
{
	for (size_t at = 0; at < taken.count;) {
		taken_t *one = &taken.job[at++];
		const job_record_t *job = find_job_record(one->victim), *its_own = find_job_record(one->preemptor);

		if (!job || !job->preempt_time || !(IS_JOB_RUNNING(job) || IS_JOB_COMPLETING(job))) {
			taken_drop(&taken, --at);
			continue;
		}
		if (!is_leaving(job, now))
			continue;
		if ((!its_own || !IS_JOB_PENDING(its_own)) && preemptor->part_ptr && preemptor->part_ptr->node_bitmap &&
		    bit_overlap_any(job->node_bitmap_cg, preemptor->part_ptr->node_bitmap))
			one->preemptor = JOB_ID(preemptor);
		if (one->preemptor == JOB_ID(preemptor))
			return true;
	}
	return false;
}

/* Return whether jobs were preempted for this one, and how many restarts it had then. For a task that had not started yet
 * they were preempted for the record of its array, which says then which task is next; where it did not, they count for each. */
static bool had_victims(const job_record_t *job, uint32_t *restarts)
{
	return given_find(&given, JOB_ID(job), job->array_task_id, restarts) ||
	       given_find(&given, job->array_job_id, job->array_task_id, restarts) ||
	       given_find(&given, job->array_job_id, NO_TASK, restarts);
}

/* Return whether the file says of a TE job that it came back from its start, and that it waits before more are preempted. */
static bool is_delayed(const job_record_t *job, time_t now)
{
	const mark_t *line = mark_of(job);
	uint32_t restarts;

	return line && line->preemptor == JOB_ID(job) &&
	       ((had_victims(job, &restarts) && mark_delays(line, restarts, now)) || mark_recalls(line, loaded_at, now));
}

/* Return whether a TE job that had victims has come back just now, so that the file may not say yet what its run was. Slurm
 * sets its submission anew as it puts it back. */
static bool is_just_back(const job_record_t *job, time_t now)
{
	uint32_t restarts;

	return job->restart_cnt && job->details && now - job->details->submit_time < UNTIL_SAID_S &&
	       had_victims(job, &restarts) && job->restart_cnt > restarts;
}

/* Return whether a TE job is to have no victims yet, by its owner's word. */
static bool is_patient(const job_record_t *job, time_t now)
{
	return job->details && is_within_patience(job->comment, job->details->begin_time, now);
}

PUBLIC bool preempt_p_preemptable(job_record_t *victim, job_record_t *preemptor)
{
	const mark_t *mark;
	time_t now;

	if (off)
		return false;
	sort_clock_end(&sort_clock);
	if (!IS_JOB_RUNNING(victim) || !looks_right(victim))
		return false;
	refresh();
	if (!is_te(preemptor, preemptor->part_ptr) || is_te(victim, victim->part_ptr))
		return false;
	if (!(slurm_conf.preempt_mode & PREEMPT_MODE_REQUEUE)) {
		say("no job is preemptable: PreemptMode has to be REQUEUE");
		return false;
	}
	if (victim->preempt_time) /* in its grace period: else Slurm would take another one besides */
		return true;
	keep_wanted(preemptor);
	asking = JOB_ID(preemptor);
	asking_task = preemptor->array_task_id; /* of an array that waits: the task that is next */
	asking_restarts = preemptor->restart_cnt;
	now = time(NULL);
	if (expired(now) || !(mark = mark_of(victim)))
		return false;
	if (preemptor->details && now - preemptor->details->begin_time < (time_t) file.te.wait_s)
		return false;
	return !is_barred(&file.te, preemptor->user_id) && possible(mark, victim, preemptor) &&
	       mark_holds(mark, (uint32_t[]) { JOB_ID(preemptor), preemptor->array_job_id, preemptor->het_job_id },
			  victim->restart_cnt, victim->start_time, now) &&
	       !is_patient(preemptor, now) && !is_delayed(preemptor, now) && !is_just_back(preemptor, now) && !is_being_served(preemptor, now);
}

/* Return whether a waiting job comes before others. One that came back from its start, or for which no victim is to leave yet,
 * would take what a victim has freed for another TE job, which would have one more leave. `now` is the same for a whole sort. */
static bool is_ahead(const job_queue_rec_t *one, time_t now)
{
	return is_te(one->job_ptr, one->part_ptr) && !is_delayed(one->job_ptr, now) && !is_patient(one->job_ptr, now);
}

/* Order of two waiting jobs: TE jobs come first, so that no other job takes what a victim has freed. */
PUBLIC bool preempt_p_job_preempt_check(job_queue_rec_t *preemptor, job_queue_rec_t *other)
{
	time_t now;

	if (off || !waits_as_it_looks(preemptor->job_ptr))
		return false;
	now = (time_t) sort_clock_at(&sort_clock, time(NULL));
	return is_ahead(preemptor, now) && !is_ahead(other, now);
}

/* How a job is preempted. One in its grace period is requeued: Slurm kills what it is told to suspend then. */
static uint16_t mode_of(const job_record_t *job)
{
	const mark_t *mark;

	/* Slurm kills a job whose grace period ends, unless its mode is one by which it leaves. */
	if (off)
		return PREEMPT_MODE_REQUEUE;
	mark = (slurm_conf.preempt_mode & PREEMPT_MODE_GANG) && !job->preempt_time ? mark_of(job) : NULL;
	return mark && mark->suspend ? PREEMPT_MODE_SUSPEND : slurm_conf.preempt_mode & BASE_MODES;
}

static uint32_t prio_of(const job_record_t *job)
{
	const mark_t *mark;

	if (off)
		return 0;
	mark = mark_of(job);
	return job->preempt_time ? 0 : !mark ? NO_VAL : mark_place(mark, is_enough(job->tres_alloc_cnt, wanted, wanted_count));
}

/* Slurm asks for it once, as it preempts the job. */
static uint32_t grace_of(const job_record_t *job)
{
	const mark_t *mark;

	if (off)
		return 0;
	mark = mark_of(job);
	if (asking) {
		taken_add(&taken, JOB_ID(job), asking);
		given_add(&given, asking, asking_task, asking_restarts);
	}
	return mark ? mark->grace_s : 0;
}

/* Slurm asks for three functions up to 24.11 and for five from 25.05 on, and ends if it misses one: here are all of them. */
#ifdef THREE_FUNCTIONS
PUBLIC int preempt_p_get_data(job_record_t *job, slurm_preempt_data_type_t type, void *data)
{
	switch (type) { /* numbered alike in all releases that ask so */
	case PREEMPT_DATA_ENABLED:
		*(bool *) data = !off && slurm_conf.preempt_mode != PREEMPT_MODE_OFF;
		return SLURM_SUCCESS;
	case PREEMPT_DATA_MODE:
		*(uint16_t *) data = mode_of(job);
		return SLURM_SUCCESS;
	case PREEMPT_DATA_PRIO:
		*(uint32_t *) data = prio_of(job);
		return SLURM_SUCCESS;
	case PREEMPT_DATA_GRACE_TIME:
		*(uint32_t *) data = grace_of(job);
		return SLURM_SUCCESS;
	}
	return SLURM_ERROR;
}
#else
#define DATA_MODE 1 /* as the releases that ask so number it */

PUBLIC int preempt_p_get_data(job_record_t *job, int type, void *data)
{
	if (type != DATA_MODE)
		return SLURM_ERROR;
	*(uint16_t *) data = mode_of(job);
	return SLURM_SUCCESS;
}
#endif

PUBLIC uint16_t preempt_p_get_mode(job_record_t *job)
{
	return mode_of(job);
}

PUBLIC uint32_t preempt_p_get_prio(job_record_t *job)
{
	return prio_of(job);
}

PUBLIC uint32_t preempt_p_get_grace_time(job_record_t *job)
{
	return grace_of(job);
}

/* Return the version in a loaded file, if it is one of slurmctld's own plugins of this kind ("auth", "select"); 0 if not. */
static uint32_t version_in(const char *path, const char *kind)
{
	const char *slash = strrchr(path, '/'), *type;
	const uint32_t *version = NULL;
	size_t length = strlen(kind);
	void *plugin;

	if (!slash || strncmp(slash + 1, kind, length) || slash[1 + length] != '_' ||
	    !(plugin = dlopen(path, RTLD_LAZY | RTLD_NOLOAD)))
		return 0;
	type = dlsym(plugin, "plugin_type");
	if (type && !strncmp(type, kind, length) && type[length] == '/')
		version = dlsym(plugin, "plugin_version");
	(void) dlclose(plugin); /* slurmctld has it open */
	return version ? *version : 0;
}

/* Take the exact release of the running slurmctld from a plugin that it has loaded, before its loader reads ours: it compares
 * all three numbers, and slurmctld does not start with a plugin that it has refused. The dynamic linker calls this within
 * dlopen, under its own lock, so that the list of what is loaded stands still. */
static void __attribute__((constructor)) take_release(void)
{
	void *self = dlopen(NULL, RTLD_LAZY);
	struct link_map *loaded = NULL;

	if (!self)
		return;
	(void) dlinfo(self, RTLD_DI_LINKMAP, &loaded);
	for (; loaded && !running; loaded = loaded->l_next)
		if (!(running = version_in(loaded->l_name, "auth")))
			running = version_in(loaded->l_name, "select");
	(void) dlclose(self);
	if (running)
		plugin_version = running;
}

static bool has_all_symbols(void)
{
	return &avail_node_bitmap && bit_overlap_any && find_job_record && &slurm_conf && &slurmctld_tres_cnt && uid_from_string;
}

PUBLIC int init(void)
{
	loaded_at = time(NULL);
	off = running != BUILT_FOR || !has_all_symbols();
	if (!off)
		read_config();
	else if (running == BUILT_FOR)
		say("no job is preemptable: this slurmctld lacks what the plugin uses; build the plugin from its source");
	else
		say("no job is preemptable: built for Slurm %d.%02d.%d, and this is %d.%02d.%d; build the plugin from its source",
		    SLURM_VERSION_MAJOR(BUILT_FOR), SLURM_VERSION_MINOR(BUILT_FOR), SLURM_VERSION_MICRO(BUILT_FOR),
		    SLURM_VERSION_MAJOR(running), SLURM_VERSION_MINOR(running), SLURM_VERSION_MICRO(running));
	return SLURM_SUCCESS;
}

PUBLIC void fini(void)
{
	marks_file_close(&file);
}
