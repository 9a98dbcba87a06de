#!/bin/bash
# A training that goes as fast as the accelerator that it got: gavel_twin's.
#
#   sbatch gavel_job.sh STEPS TYPE=STEPS_PER_S,TYPE=STEPS_PER_S,… FOLDER REQUEUE_EXIT
#
# The node's name begins with the accelerator's type. On USR1 it writes how many steps it has done and exits with the
# code REQUEUE_EXIT; the next run goes on from there. FOLDER/events gets a line for each run's begin and for the
# end: seconds since 1970, job, event, type.
set -eu -o pipefail
# A notice may come before there is anything to save.
noticed=
trap 'noticed=yes' USR1
export LC_ALL=C
steps=$1 speeds=$2 folder=$3 requeue_exit=$4
type=${SLURMD_NODENAME%%-*}
speed=$(awk -v all="$speeds" -v type="$type" 'BEGIN { n = split(all, part, /[=,]/);
    for (at = 1; at < n; at += 2) if (part[at] == type) print part[at + 1] }')
mine=$folder/$SLURM_JOB_ID.steps
done_before=0
[[ -r $mine ]] && read -r done_before <"$mine"
began=$EPOCHREALTIME

say() {
    echo "$EPOCHREALTIME $SLURM_JOB_ID $1 $type" >>"$folder/events"
}

leave() {
    awk -v was="$done_before" -v from="$began" -v now="$EPOCHREALTIME" -v speed="$speed" \
        'BEGIN { printf "%.6f\n", was + (now - from) * speed }' >"$mine.new"
    mv "$mine.new" "$mine"
    say leave
    kill "$asleep" 2>/dev/null
    exit "$requeue_exit"
}

say start
left_s=$(awk -v all="$steps" -v was="$done_before" -v speed="$speed" \
    'BEGIN { left = (all - was) / speed; printf "%.3f\n", (left > 0 ? left : 0) }')
sleep "$left_s" &
asleep=$!
trap leave USR1
[[ -z $noticed ]] || leave
wait "$asleep"
say done
