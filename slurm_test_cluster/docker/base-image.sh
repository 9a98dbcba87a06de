#!/bin/sh
# Makes sure that there is an image `debian:SUITE`, on which a Dockerfile beside this script builds.
#
#   slurm_test_cluster/docker/base-image.sh [SUITE]     # forky, if none is named
#
# Does nothing if the image is there, pulls it where an image registry can be reached, and otherwise makes it of this
# host's own Debian mirror with debootstrap; that way needs root on a Debian host. What such a host has set up for its
# packages (mirror, certificates, pip's settings) goes into the image, so that the Dockerfile need not know of it.
#
# TESCHED_DEBIAN_MIRROR names another mirror than the host's.
set -eu

suite=${1:-forky}
image=debian:$suite
pull_timeout_s=60

say() {
    if [ -t 1 ]; then echo "$*"; fi
}

fail() {
    echo "$0: $*" >&2
    exit 1
}

command -v docker >/dev/null || fail "docker is not installed"
docker version --format '{{.Server.Version}}' >/dev/null || fail "no Docker engine answers"
if docker image inspect "$image" >/dev/null 2>&1; then
    say "$image is there"
    exit 0
fi
say "pulling $image"
if timeout "$pull_timeout_s" docker pull --quiet "$image" >/dev/null 2>&1; then
    say "pulled $image"
    exit 0
fi

command -v apt-get >/dev/null || fail "$image cannot be pulled, and only a Debian host can make it (there is no apt-get)"
[ "$(id -u)" -eq 0 ] || fail "$image cannot be pulled, and only root can make it"
if ! command -v debootstrap >/dev/null; then
    say "installing debootstrap"
    apt-get install -y -qq --no-install-recommends debootstrap >/dev/null || {
        apt-get update -qq
        apt-get install -y -qq --no-install-recommends debootstrap >/dev/null
    }
fi

mirror=${TESCHED_DEBIAN_MIRROR:-}
if [ -z "$mirror" ]; then
    # The suite of the host's own release, not its updates: `bookworm`, without a dash.
    # shellcheck disable=SC2016 # apt fills this in
    mirror=$(apt-get indextargets --format '$(ORIGIN) $(CODENAME) $(REPO_URI)' 'Created-By: Packages' |
        awk '$1 == "Debian" && $2 !~ /-/ { print $3; exit }')
    [ -n "$mirror" ] || fail "apt names no mirror of Debian; set TESCHED_DEBIAN_MIRROR"
fi

# The script of a suite that is younger than debootstrap is the same as sid's.
script=/usr/share/debootstrap/scripts/$suite
[ -e "$script" ] || script=/usr/share/debootstrap/scripts/sid

work=$(mktemp -d "${TMPDIR:-/var/tmp}/tesched-base-image.XXXXXX")
root=$work/root
clean_up() {
    # debootstrap leaves these behind if it is interrupted; what is still mounted must not be removed with the rest.
    for mounted in $(awk -v root="$root/" 'index($2, root) == 1 { print $2 }' /proc/mounts | sort -r); do
        umount "$mounted"
    done
    rm -rf --one-file-system "$work"
}
trap clean_up EXIT
trap 'exit 130' INT
trap 'exit 143' TERM

say "making $image with debootstrap: a minute or two"
keyring=/usr/share/keyrings/debian-archive-keyring.gpg
if ! debootstrap --variant=minbase --keyring="$keyring" "$suite" "$root" "$mirror" "$script" >"$work/log" 2>&1; then
    tail -n 20 "$work/log" >&2
    fail "debootstrap failed"
fi

rm -f "$root/etc/apt/sources.list"
cat >"$root/etc/apt/sources.list.d/debian.sources" <<END
Types: deb
URIs: $mirror
Suites: $suite
Components: main
Signed-By: /usr/share/keyrings/debian-archive-keyring.gpg
END
# As in the images of Debian's own: packages do not start their services, and apt keeps no archives.
printf '#!/bin/sh\nexit 101\n' >"$root/usr/sbin/policy-rc.d"
chmod 755 "$root/usr/sbin/policy-rc.d"
echo 'DPkg::Post-Invoke { "rm -f /var/cache/apt/archives/*.deb || true"; };' >"$root/etc/apt/apt.conf.d/docker-clean"
echo 'Acquire::Languages "none";' >"$root/etc/apt/apt.conf.d/docker-no-languages"
# How the host's apt reaches that mirror (a proxy), and whether it takes a mirror that is no longer kept up to date.
apt-config dump Acquire::http Acquire::https Acquire::Check-Valid-Until Acquire::Check-Date \
    >"$root/etc/apt/apt.conf.d/90host"
# What the host was told to trust. The image trusts it once it installs ca-certificates.
if [ -d /usr/local/share/ca-certificates ]; then
    mkdir -p "$root/usr/local/share/ca-certificates"
    cp -rL /usr/local/share/ca-certificates/. "$root/usr/local/share/ca-certificates/"
fi
if [ -e /etc/pip.conf ]; then
    cp -L /etc/pip.conf "$root/etc/pip.conf"
fi
# It names name servers of the host; Docker gives each container its own.
: >"$root/etc/resolv.conf"

tar -C "$root" --numeric-owner --exclude='./dev/*' --exclude='./proc/*' --exclude='./sys/*' \
    --exclude='./var/cache/apt/*' --exclude='./var/lib/apt/lists/*' -c . |
    docker import --change 'CMD ["bash"]' --message "debootstrap $suite" - "$image" >/dev/null
say "made $image"
