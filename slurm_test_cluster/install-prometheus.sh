#!/bin/sh
# Installs Prometheus and promtool for the tests, from Debian's own package; each test starts a private one.
set -eu
if command -v prometheus >/dev/null && command -v promtool >/dev/null; then
    echo "Prometheus for the tests is installed: $(prometheus --version 2>&1 | head -n 1)"
    exit 0
fi
if [ "$(id -u)" -ne 0 ] || ! command -v apt-get >/dev/null; then
    echo "No Prometheus (prometheus, promtool) is installed. Ask an administrator for Debian's 'prometheus' package." >&2
    exit 1
fi
# Debian's package starts a Prometheus of the system's own, on all addresses. 101 says no. A guard that is there stays.
guard=/usr/sbin/policy-rc.d
if [ ! -e "$guard" ]; then
    trap 'rm -f "$guard"' EXIT
    trap 'exit 130' INT TERM
    printf '#!/bin/sh\nexit 101\n' >"$guard"
    chmod 755 "$guard"
fi
export DEBIAN_FRONTEND=noninteractive
apt-get install -y -q --no-install-recommends prometheus || {
    apt-get update -q
    apt-get install -y -q --no-install-recommends prometheus
}
