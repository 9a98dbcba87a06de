#!/bin/bash
# A job of benchmarks.twin: job.sh of the test cluster, which is beside its events, as fast as the nodes that it got. Its arguments are job.sh's.
#
# FOLDER/paces says how fast (`pace_lines`): for each type of nodes, in order, "type LAST_NODE", for each job "NAME FEWEST
# SPEED …", a speed for each type. A second of work on the fewest nodes takes FEWEST / (nodes * speed) seconds, on the
# slowest of its nodes. Without that file it takes TICK_S, as job.sh has it.
# FOLDER/runs.log gets a line for each run: job, the seconds of a tick, and of an array's task its name (120_4).
set -u
export LC_ALL=C
tick_s=$2 folder=$6
if [[ -s $folder/paces ]]; then
    nodes=$SLURMD_NODENAME
    ((SLURM_JOB_NUM_NODES > 1)) && nodes=$(scontrol show hostnames "$SLURM_JOB_NODELIST" | tr '\n' ' ')
    tick_s=$(awk -v job="$SLURM_JOB_NAME" -v nodes="$nodes" '
        $1 == "type" { last[++types] = $2 }
        $1 == job {
            count = split(nodes, node, " ")
            slowest = 1
            for (at = 1; at <= count; at++) {
                type = 1
                while (substr(node[at], 2) + 0 > last[type]) type++
                if ($(2 + type) < slowest) slowest = $(2 + type)
            }
            printf "%.4f\n", $2 / (count * slowest)
            exit
        }' "$folder/paces")
fi
echo "$SLURM_JOB_ID $tick_s ${SLURM_ARRAY_JOB_ID:+${SLURM_ARRAY_JOB_ID}_$SLURM_ARRAY_TASK_ID}" >>"$folder/runs.log"
set -- "$1" "$tick_s" "${@:3}"
. "$folder/job.sh"
