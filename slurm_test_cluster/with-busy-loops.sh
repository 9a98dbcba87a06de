#!/usr/bin/env bash
# with-busy-loops.sh N COMMAND...: run the command beside N busy loops, which end with it. For tests of what waits for a
# time where it should wait for a condition.
set -euo pipefail
loops=$1
shift
pids=()
trap 'kill "${pids[@]}" 2>/dev/null || true' EXIT
for ((i = 0; i < loops; i++)); do
    (while :; do :; done) &
    pids+=($!)
done
"$@"
