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
if ! command -v apt-get >/dev/null; then
    echo "Missing:$missing. This is no Debian (there is no apt-get): install slurmctld, slurmd, Slurm's commands and" >&2
    echo "munge in this system's way, or use the Docker cluster (slurm_test_cluster/README.md)." >&2
    exit 1
fi
if [ "$(id -u)" -ne 0 ]; then
    echo "Missing:$missing. Only root can install them: run 'sudo $0', or ask an administrator for" >&2
    echo "'apt-get install --no-install-recommends $packages'. Afterwards the cluster needs no root." >&2
    exit 1
fi

# Debian's packages start their services on install, and munge, slurmctld and slurmd would fail or, worse, run. 101 says
# no. A guard that is there already (in containers it often is) stays.
guard=/usr/sbin/policy-rc.d
if [ ! -e "$guard" ]; then
    trap 'rm -f "$guard"' EXIT
    trap 'exit 130' INT TERM
    printf '#!/bin/sh\nexit 101\n' >"$guard"
    chmod 755 "$guard"
fi

export DEBIAN_FRONTEND=noninteractive
# A fresh container has no package lists, and old lists name packages that are gone.
# shellcheck disable=SC2086 # a list of words
apt-get install -y -q --no-install-recommends $packages || {
    apt-get update -q
    apt-get install -y -q --no-install-recommends $packages
}
echo "Installed: $(slurmctld -V)"
