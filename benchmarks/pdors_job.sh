#!/bin/bash
# A training that goes as fast as the nodes that it got allow: pdors_slurm's.
#
#   sbatch pdors_job.sh SAMPLES SAMPLE_S BATCH GRADIENT_MB RACK_MB_PER_S FAR_MB_PER_S NODES_PER_RACK FOLDER
#
# Nodes are n1, n2, …; the first NODES_PER_RACK are a rack, the next so many another. Each is a worker. The time of a
# batch is its samples divided among the workers, and the exchange of gradients within a rack, or between racks.
# FOLDER/events gets a line for its begin and for its end: seconds since 1970, job, event, nodes, racks.
set -eu -o pipefail
export LC_ALL=C
samples=$1 sample_s=$2 batch=$3 gradient_mb=$4 rack_mb_per_s=$5 far_mb_per_s=$6 per_rack=$7 folder=$8

nodes=0
racks=
for node in $(scontrol show hostnames "$SLURM_JOB_NODELIST"); do
    nodes=$((nodes + 1))
    rack=$(((${node#n} - 1) / per_rack))
    [[ $racks == *":$rack:"* ]] || racks+=":$rack:"
done
count=$(grep -o ':[0-9]*:' <<<"$racks" | wc -l)

say() {
    echo "$EPOCHREALTIME $SLURM_JOB_ID $1 $nodes $count" >>"$folder/events"
}

say start
sleep "$(awk -v v="$samples" -v tau="$sample_s" -v f="$batch" -v g="$gradient_mb" -v near="$rack_mb_per_s" \
    -v far="$far_mb_per_s" -v w="$nodes" -v racks="$count" \
    'BEGIN { b = racks > 1 ? far : near; printf "%.3f", v * (tau + w * 2 * g / (b * f)) / w }')"
say done
