#!/bin/sh
# Prints the krew manifest of a release: manifest.sh FOLDER_URI ARCHIVE...
# An archive is named kubectl-connectors_OS_ARCH.tar.gz and holds the program kubectl-connectors at its top. A program for
# Linux is static: it runs under every libc.
set -eu

if [ $# -lt 2 ]; then
    echo "usage: manifest.sh FOLDER_URI ARCHIVE..." >&2
    exit 2
fi
folder=$1
shift
manifest=$(cat "$(dirname "$0")/connectors.yaml"; echo "  platforms:")
for archive in "$@"; do
    name=$(basename "$archive")
    platform=${name#kubectl-connectors_}
    platform=${platform%.tar.gz}
    os=${platform%_*}
    arch=${platform#*_}
    if [ "$name" != "kubectl-connectors_${os}_${arch}.tar.gz" ]; then
        echo "$name: name an archive kubectl-connectors_OS_ARCH.tar.gz" >&2
        exit 2
    fi
    if ! tar -tzf "$archive" kubectl-connectors >/dev/null 2>&1; then
        echo "$name: holds no program kubectl-connectors" >&2
        exit 2
    fi
    # The path of its loader is in each program that is not static.
    if [ "$os" = linux ] && tar -xOzf "$archive" kubectl-connectors | grep -aqE '/ld(-linux|-musl|64)?[-a-z0-9_]*\.so\.[0-9]'; then
        echo "$name: its program needs the libraries of one system: build it for $arch-unknown-linux-musl" >&2
        exit 2
    fi
    digest=$(sha256sum "$archive")
    manifest="$manifest
  - selector: {matchLabels: {os: $os, arch: $arch}}
    uri: $folder/$name
    sha256: \"${digest%% *}\"
    bin: kubectl-connectors
    files: [{from: kubectl-connectors, to: .}]"
done
printf '%s\n' "$manifest"
