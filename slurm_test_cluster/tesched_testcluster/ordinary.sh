#!/bin/bash
# A batch job that works in ticks and traps nothing, as most users write them: a later run begins at its beginning.
#
#   sbatch ordinary.sh TICKS TICK_S ... FOLDER REQUEUE_EXIT REQUEUES REQUEUE_AFTER    (the first seven as of job.sh)
#
# Each of its first REQUEUES runs ends after REQUEUE_AFTER ticks with REQUEUE_EXIT, so that Slurm requeues it.
# While FOLDER has a file hold-KIND (hold-be for jobs named be-...), no job of that kind ends.
set -u
export LC_ALL=C
ticks=$1 tick_s=$2 folder=$6 requeue_exit=$7 requeues=$8 requeue_after=$9

say() {
    echo "$EPOCHREALTIME $SLURM_JOB_ID $SLURM_JOB_NAME $1 $ticks_done ${SLURM_RESTART_COUNT:-0} $SLURMD_NODENAME" \
        >>"$folder/events.log"
}

ticks_done=0
if [[ -n ${SLURM_RESTART_COUNT:-} ]]; then say restart; else say start; fi
while ((ticks_done < ticks)); do
    if ((${SLURM_RESTART_COUNT:-0} < requeues && ticks_done == requeue_after)); then
        say leave
        exit "$requeue_exit"
    fi
    # At its end the signal may reach the sleep first: what was cut short is no work done.
    sleep "$tick_s" || continue
    if ((ticks_done + 1 < ticks)) || [[ ! -e $folder/hold-${SLURM_JOB_NAME%%-*} ]]; then ((ticks_done += 1)); fi
done
say done
