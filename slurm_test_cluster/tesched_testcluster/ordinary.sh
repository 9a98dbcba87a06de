#!/bin/bash
# A batch job that works in ticks and traps nothing, as most users write them: a later run begins at its beginning.
#
#   sbatch ordinary.sh TICKS TICK_S ... FOLDER ...    (the arguments of job.sh, of which it takes no others)
#
# While FOLDER has a file hold-KIND (hold-be for jobs named be-...), no job of that kind ends.
set -u
export LC_ALL=C
ticks=$1 tick_s=$2 folder=$6

say() {
    echo "$EPOCHREALTIME $SLURM_JOB_ID $SLURM_JOB_NAME $1 $ticks_done ${SLURM_RESTART_COUNT:-0} $SLURMD_NODENAME" \
        >>"$folder/events.log"
}

ticks_done=0
if [[ -n ${SLURM_RESTART_COUNT:-} ]]; then say restart; else say start; fi
while ((ticks_done < ticks)); do
    sleep "$tick_s"
    if ((ticks_done + 1 < ticks)) || [[ ! -e $folder/hold-${SLURM_JOB_NAME%%-*} ]]; then ((ticks_done += 1)); fi
done
say done
