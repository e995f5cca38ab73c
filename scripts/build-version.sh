#!/usr/bin/env bash
# Builds the server of a tag or commit of this repository once and prints its path.
# STINT_VERSIONS names another folder than the user's cache.
set -euo pipefail

[ $# = 1 ] || { echo "usage: $0 VERSION" >&2; exit 2; }
cd "$(dirname "$0")/.."
GO="${GO:-go}"
commit=$(git rev-parse --verify --quiet "$1^{commit}") || { echo "the history has no version $1; fetch it with: git fetch --tags --unshallow" >&2; exit 1; }
dir="${STINT_VERSIONS:-${XDG_CACHE_HOME:-$HOME/.cache}/stint-versions}/$commit"
if [ ! -x "$dir/server" ]; then
	echo "building version $1" >&2
	source=$(mktemp -d)
	trap 'rm -rf "$source"' EXIT
	git archive "$commit" | tar -x -C "$source"
	mkdir -p "$dir"
	# Versions have no git history there to stamp.
	(cd "$source" && nice -n 10 "$GO" build -buildvcs=false -trimpath -o "$dir/building" ./cmd/server)
	mv "$dir/building" "$dir/server"
fi
echo "$dir/server"
