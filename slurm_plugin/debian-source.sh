#!/bin/sh
# Prints the folder of a configured source tree of the Slurm that is installed here, from Debian's source package of exactly
# that version. Gets it below FOLDER first if it is not there: some 10 MB, 20 s. Needs no root, and leaves apt's own lists
# and sources alone.
#
#   slurm_plugin/debian-source.sh [--or-upstream] FOLDER
#
# With --or-upstream, for tests: where a mirror lacks Debian's patches, Slurm's own source of that release does without them.
set -eu

or_upstream=
if [ "${1:-}" = --or-upstream ]; then
    or_upstream=yes
    shift
fi
folder=${1:?usage: $0 [--or-upstream] FOLDER}
keyring=/usr/share/keyrings/debian-archive-keyring.gpg

fail() {
    echo "$0: $*" >&2
    exit 1
}

command -v apt-get >/dev/null || fail "this is no Debian; say SLURM_SOURCE=FOLDER, a configured source of the running Slurm"
for program in dpkg-source gcc make; do
    command -v "$program" >/dev/null || fail "$program is missing: apt-get install dpkg-dev gcc make libc6-dev"
done
version=$(dpkg-query --show --showformat='${Version}' slurmctld) || fail "slurmctld is not installed"
mkdir -p "$folder"
folder=$(cd "$folder" && pwd)
tree=$folder/slurm-source-$version
if [ -e "$tree/.configured" ]; then
    echo "$tree"
    exit 0
fi

private=$folder/apt
mkdir -p "$private/lists/partial" "$private/cache/archives/partial"
options="[signed-by=$keyring] "
[ -e "$keyring" ] || options=
apt() {
    apt-get -q -o "Dir::State::lists=$private/lists" -o "Dir::Cache=$private/cache" -o APT::Sandbox::User=root "$@"
}
get() {
    apt -o "Dir::Etc::sourcelist=$private/sources.list" -o Dir::Etc::sourceparts=- "$@" >&2
}
archives() {
    "$@" indextargets --format "deb-src $options\$(REPO_URI) \$(RELEASE) \$(COMPONENT)" 'Created-By: Packages' |
        sort -ru >"$private/archives"
}
# One archive after the other: not every mirror has each of them whole. The main one, which sorts last, comes first.
archives apt-get
if ! [ -s "$private/archives" ]; then
    # apt names only those whose lists it has, and an image has none.
    apt update >&2 || true
    archives apt
fi
got=
download() {
    while [ -z "$got" ] && read -r archive; do
        echo "$archive" >"$private/sources.list"
        rm -rf "$tree" "$private/source"
        mkdir "$private/source"
        cd "$private/source"
        if get update && get source --download-only "$@" "slurm-wlm=$version" </dev/null; then got=yes; fi
    done <"$private/archives"
}
download
if [ -n "$got" ]; then
    dpkg-source --no-check -x ./*.dsc "$tree" >&2
else
    [ -z "$or_upstream" ] || download --tar-only
    [ -n "$got" ] || fail "no archive of this host's sources has slurm-wlm $version; say SLURM_SOURCE=FOLDER"
    mkdir "$tree"
    tar -x --strip-components=1 -C "$tree" -f ./*.orig.tar.*
fi
cd "$tree"
./configure --without-munge >configure.out 2>&1 || fail "configure failed; $tree/configure.out says why"
touch .configured
echo "$tree"
