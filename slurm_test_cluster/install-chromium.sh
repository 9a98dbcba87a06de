#!/bin/sh
# Installs a Chromium and its driver for the tests of the live page, from Debian's own packages; each test starts a
# private one, without a window.
set -eu
if command -v chromium >/dev/null && command -v chromedriver >/dev/null; then
    echo "Chromium for the tests is installed: $(chromium --version 2>/dev/null)"
    exit 0
fi
"$(dirname "$0")/apt-install.sh" "No Chromium (chromium, chromedriver) is installed" chromium chromium-driver
