#!/bin/sh
# Installs Prometheus and promtool for the tests, from Debian's own package; each test starts a private one.
set -eu
if command -v prometheus >/dev/null && command -v promtool >/dev/null; then
    echo "Prometheus for the tests is installed: $(prometheus --version 2>&1 | head -n 1)"
    exit 0
fi
"$(dirname "$0")/apt-install.sh" "No Prometheus (prometheus, promtool) is installed" prometheus
