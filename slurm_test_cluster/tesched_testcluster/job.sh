#!/bin/bash
# A batch job that works in ticks, keeps its place in a checkpoint and writes down what happens to it. It traps a signal,
# and is the exception: what a test gets without asking for it by name (on_notice) is ordinary.sh.
#
#   sbatch job.sh TICKS TICK_S ON_NOTICE CHECKPOINT_S CHECKPOINT_EVERY FOLDER REQUEUE_EXIT
#
# TICKS             work to do, over all its runs
# TICK_S            seconds of one tick
# ON_NOTICE         what it does when it gets USR1, which its comment declares:
#                     exit      writes a checkpoint, then exits with the site's RequeueExit code
#                     requeue   writes a checkpoint, then puts itself back in the queue
#                     stay      writes a checkpoint, then works on until it is ended
#                     finish    writes a checkpoint, then exits 0 as if it had finished
#                     ignore    works on, without a checkpoint
#                   or, where no signal is declared:
#                     term      gets TERM, as Slurm sends it to each job that it puts back: writes a checkpoint, then
#                               exits; KillWait must be longer than CHECKPOINT_S, however busy the machine is
# CHECKPOINT_S      seconds that writing a checkpoint takes
# CHECKPOINT_EVERY  ticks between checkpoints that nobody asked for; 0 for none
# FOLDER            holds events.log, to which every job appends, and a checkpoint (the ticks done) of each
#                   and, for as long as no job of a kind may end, a file hold-KIND (hold-be for jobs named be-...);
#                   for as long as no checkpoint of such a job may be complete, a file saving-KIND
# REQUEUE_EXIT      exit code that makes Slurm put the job back in the queue
#
# A line of events.log: seconds since 1970, job id, job name, event, ticks done, restarts, node. Events: start, restart,
# notice, checkpoint, leave, done. It needs nothing but bash, and scontrol for `requeue`: no srun.
set -u
export LC_ALL=C

notice=0
ticks=$1 tick_s=$2 on_notice=$3 checkpoint_s=$4 checkpoint_every=$5 folder=$6 requeue_exit=$7
checkpoint=$folder/$SLURM_JOB_ID.checkpoint
kind=${SLURM_JOB_NAME%%-*}
if [[ $on_notice == term ]]; then trap 'notice=1' TERM; else trap 'notice=1' USR1; fi

ticks_done=0
if [[ -r $checkpoint ]]; then
    read -r ticks_done <"$checkpoint"
fi

# One short write in append mode: lines of many jobs do not mix.
say() {
    echo "$EPOCHREALTIME $SLURM_JOB_ID $SLURM_JOB_NAME $1 $ticks_done ${SLURM_RESTART_COUNT:-0} $SLURMD_NODENAME" \
        >>"$folder/events.log"
}

# Sleep in the background: bash runs a trap while it waits, but not while it runs a program. Status 0 if it slept it all.
pause() {
    sleep "$1" &
    wait $!
}

save() {
    pause "$checkpoint_s"
    while [[ -e $folder/saving-$kind ]]; do pause 0.1; done
    echo "$ticks_done" >"$checkpoint.new"
    mv "$checkpoint.new" "$checkpoint"
    say checkpoint
}

leave() {
    say leave
    exit "$1"
}

heed() {
    notice=0
    say notice
    [[ $on_notice == ignore ]] && return
    save
    case $on_notice in
        exit | term) leave "$requeue_exit" ;;
        finish) leave 0 ;;
        requeue)
            say leave
            scontrol requeue "$SLURM_JOB_ID" || exit 1
            # Slurm ends it now; there is nothing left to do.
            while :; do pause 60; done
            ;;
    esac
}

if [[ -n ${SLURM_RESTART_COUNT:-} ]]; then say restart; else say start; fi
while ((ticks_done < ticks)); do
    if pause "$tick_s"; then
        # A test may keep all jobs of a kind from their last tick: however slow the machine is, none ends before its time.
        if ((ticks_done + 1 < ticks)) || [[ ! -e $folder/hold-$kind ]]; then ((ticks_done += 1)); fi
        if ((checkpoint_every > 0 && ticks_done % checkpoint_every == 0)); then save; fi
    fi
    if ((notice)); then heed; fi
done
say done
