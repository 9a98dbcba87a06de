#!/bin/sh
# Makes the virtual environment in folder $1 from requirements.lock, with tesched itself installed editable. What builds
# that is in the lock file, too: nothing else is downloaded.
#
# Uses uv where it is installed, else venv and pip. PYTHON names the interpreter, 3.11 to 3.14.
set -eu
venv=$1
python=${PYTHON:-python3}
fits='import sys; sys.exit(not (3, 11) <= sys.version_info < (3, 15))'
"$python" -c "$fits" 2>/dev/null || {
    if ! command -v "$python" >/dev/null && [ "$(id -u)" -eq 0 ] && command -v apt-get >/dev/null; then
        apt-get update -q && DEBIAN_FRONTEND=noninteractive apt-get install -y -q --no-install-recommends python3 python3-venv
    fi
    "$python" -c "$fits" || {
        echo "$python is missing or not Python 3.11 to 3.14; name another one: make PYTHON=python3.12 …" >&2
        exit 2
    }
}
if command -v uv >/dev/null; then
    uv venv -q --clear --python "$python" "$venv"
    VIRTUAL_ENV=$venv uv pip install -q --require-hashes -r requirements.lock
    VIRTUAL_ENV=$venv uv pip install -q --no-build-isolation --no-deps -e .
    exit 0
fi
# Debian keeps ensurepip in a package of its own.
if ! "$python" -c 'import ensurepip' 2>/dev/null; then
    if [ "$(id -u)" -ne 0 ] || ! command -v apt-get >/dev/null; then
        echo "$python has no ensurepip: install Debian's python3-venv, or uv" >&2
        exit 2
    fi
    apt-get update -q && DEBIAN_FRONTEND=noninteractive apt-get install -y -q --no-install-recommends python3-venv
fi
"$python" -m venv --clear "$venv"
"$venv/bin/pip" install -q --require-hashes -r requirements.lock
"$venv/bin/pip" install -q --no-build-isolation --no-deps -e .
