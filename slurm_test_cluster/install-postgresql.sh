#!/bin/sh
# Installs a PostgreSQL server for the tests, from Debian's own packages; they start a private one each.
set -eu
for bin in /usr/lib/postgresql/*/bin/initdb; do
    if [ -x "$bin" ]; then
        echo "PostgreSQL for the tests is installed: $("$bin" --version)"
        exit 0
    fi
done
if command -v initdb >/dev/null; then
    exit 0
fi
if [ "$(id -u)" -ne 0 ] || ! command -v apt-get >/dev/null; then
    echo "No PostgreSQL server (initdb) is installed. Ask an administrator for Debian's 'postgresql' package." >&2
    exit 1
fi
export DEBIAN_FRONTEND=noninteractive
# No cluster of the system's own: the tests make theirs.
mkdir -p /etc/postgresql-common
[ -e /etc/postgresql-common/createcluster.conf ] || echo 'create_main_cluster = false' >/etc/postgresql-common/createcluster.conf
apt-get install -y -q --no-install-recommends postgresql || {
    apt-get update -q
    apt-get install -y -q --no-install-recommends postgresql
}
