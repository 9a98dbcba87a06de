#!/bin/sh
# Installs what the local test cluster needs (slurmctld, slurmd, Slurm's commands, munge; slurmdbd and MariaDB for a cluster
# with accounting) from Debian's own packages, and
# what tests need besides: the Lua libraries of systemd/job_submit.lua, and the tools that the tests of the unit files
# and manual pages ask (systemd-analyze, groff; systemd does not run for that), and what `make plugin` builds with.
#
#   sudo slurm_test_cluster/install-slurm.sh
#
# Does nothing if all is there. No daemon is started or enabled to run now: the test cluster starts its own, as any user.
set -eu

packages="slurmctld slurmd slurmdbd slurm-client slurm-wlm-basic-plugins mariadb-server-core mariadb-client-core munge lua-posix lua-socket systemd groff-base gcc libc6-dev make dpkg-dev"
programs="slurmctld slurmd slurmdbd sacctmgr mariadbd mariadb-install-db mariadb munged sbatch scontrol sinfo squeue scancel systemd-analyze systemd-sysusers groff gcc make dpkg-source"
# below slurmctld's Lua's folder; Debian's slurmctld has Lua 5.1
lua_libraries="posix.so socket/unix.so"

PATH=$PATH:/usr/local/sbin:/usr/sbin:/sbin
missing=
for program in $programs; do
    command -v "$program" >/dev/null || missing="$missing $program"
done
for library in $lua_libraries; do
    there=
    for file in /usr/lib*/lua/5.1/"$library" /usr/lib/*/lua/5.1/"$library"; do
        [ ! -e "$file" ] || there=yes
    done
    [ -n "$there" ] || missing="$missing lua/5.1/$library"
done
if [ -z "$missing" ]; then
    echo "Slurm for the test cluster is installed: $(slurmctld -V)"
    exit 0
fi
# shellcheck disable=SC2086 # a list of words
"$(dirname "$0")/apt-install.sh" "Missing:$missing (the Docker cluster needs none of it: slurm_test_cluster/README.md)" $packages
echo "Installed: $(slurmctld -V)"
