#!/bin/sh
# Puts the kept copy of preempt_tesched.so in the place of the installed one wherever the two differ: slurmctld does not start
# if the file is missing or damaged. slurmctld.service calls it before each start (slurmctld-tesched.conf).
#
#   keep-plugin /usr/lib/slurm/preempt_tesched.so
#
# The copy and its checksum are in this script's own folder; `make install-keeper` puts them there.
set -u

installed=${1:?usage: $0 INSTALLED}
cd "$(dirname "$0")" || exit 1

if ! sha256sum --check --status preempt_tesched.so.sha256; then
    echo "$0: $PWD/preempt_tesched.so is damaged, so $installed is left as it is; install both anew" >&2
    exit 1
fi
cmp -s preempt_tesched.so "$installed" && exit 0
# A rename: a slurmctld that runs has the old file mapped, and would die of one that is written in place.
if install -m 0644 preempt_tesched.so "$installed.new" && sync "$installed.new" && mv -T "$installed.new" "$installed"; then
    echo "$0: $installed was missing or differed from the kept copy, and is the kept copy now" >&2
else
    rm -f "$installed.new"
    echo "$0: $installed is missing or differs from the kept copy, and could not be replaced: slurmctld may not start" >&2
    exit 1
fi
