#!/bin/sh
# headers.sh DIRECTORY [VERSION]: fetches the headers for drivers, which Debian's libdpdk-dev leaves out, from the Debian source package
# of this version; by default that of which the installed library was built. They are not part of this repository.
set -eu
directory=$1
headers="lib/ethdev/ethdev_driver.h lib/ethdev/ethdev_vdev.h lib/eal/include/dev_driver.h drivers/bus/vdev/bus_vdev_driver.h"

version=${2:-$(dpkg-query --show --showformat='${source:Version}' libdpdk-dev)} || {
    echo "there is no library of DPDK to build with: install the Debian package libdpdk-dev" >&2
    exit 1
}
if [ "$(cat "$directory/version" 2>/dev/null)" = "$version" ]; then exit 0; fi

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
chmod 755 "$work"
mkdir -p "$work/lists/partial" "$work/archives/partial"
# The machine's own sources of packages, as sources of source packages, in lists of our own.
apt-get indextargets --format 'deb-src $(REPO_URI) $(RELEASE) $(COMPONENT)' 'Created-By: Packages' 'Label: Debian' >"$work/sources"
apt-get indextargets --format 'deb-src $(REPO_URI) $(RELEASE) $(COMPONENT)' 'Created-By: Packages' 'Label: Debian-Security' >>"$work/sources"
sort -u "$work/sources" >"$work/sources.list"
apt() {
    apt-get -q -o Dir::Etc::SourceList="$work/sources.list" -o Dir::Etc::SourceParts=/dev/null -o Dir::State::Lists="$work/lists" \
        -o Dir::Cache="$work" -o Acquire::Languages=none "$@" >"$work/said" 2>&1 || {
        cat "$work/said" >&2
        echo "the headers of DPDK's drivers can't be fetched; \`apt-get update\` may help" >&2
        exit 1
    }
}
apt update
cd "$work"
apt source --download-only "dpdk=$version"

for header in $headers; do
    name=$(basename "$header")
    tar -xOf "$work"/dpdk_*.orig.tar.* --wildcards "*/$header" >"$work/$name"
    test -s "$work/$name"
done
mkdir -p "$directory"
for header in $headers; do mv "$work/$(basename "$header")" "$directory/"; done
echo "$version" >"$directory/version"
