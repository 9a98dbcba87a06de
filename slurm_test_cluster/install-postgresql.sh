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
# No cluster of the system's own: the tests make theirs.
settings=/etc/postgresql-common/createcluster.conf
if [ "$(id -u)" -eq 0 ] && [ ! -e "$settings" ]; then
    mkdir -p "$(dirname "$settings")"
    echo 'create_main_cluster = false' >"$settings"
fi
"$(dirname "$0")/apt-install.sh" "No PostgreSQL server (initdb) is installed" postgresql
