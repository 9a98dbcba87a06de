#!/bin/sh
# Installs these Debian packages, as root; no service of theirs is started.
#
#   slurm_test_cluster/apt-install.sh WHAT PACKAGE...
#
# WHAT is what they are for, in words, for the message where they cannot be installed.
set -eu
what=$1
shift
if ! command -v apt-get >/dev/null; then
    echo "$what: this is no Debian (there is no apt-get). Install what Debian has as '$*' in this system's way." >&2
    exit 1
fi
if [ "$(id -u)" -ne 0 ]; then
    echo "$what: only root can install that. Ask an administrator for 'apt-get install --no-install-recommends $*'." >&2
    exit 1
fi
# Debian's packages start their services on install, which would fail or, worse, run. 101 says no. A guard that is there
# already (in containers it often is) stays.
guard=/usr/sbin/policy-rc.d
if [ ! -e "$guard" ]; then
    trap 'rm -f "$guard"' EXIT
    trap 'exit 130' INT TERM
    printf '#!/bin/sh\nexit 101\n' >"$guard"
    chmod 755 "$guard"
fi
export DEBIAN_FRONTEND=noninteractive
# A fresh container has no package lists, and old lists name packages that are gone.
apt-get install -y -q --no-install-recommends "$@" || {
    apt-get update -q
    apt-get install -y -q --no-install-recommends "$@"
}
