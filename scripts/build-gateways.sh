#!/usr/bin/env bash
# Builds the gateways that no Debian package has in the version under test, from the
# Go module proxy, and prints the folder that holds them. It takes minutes the first time
# and returns at once if both are there. STINT_GATEWAYS names another folder.
set -euo pipefail

CADDY=v2.11.9
TRAEFIK=v3.6.12

GO="${GO:-go}"
dir="${STINT_GATEWAYS:-${XDG_CACHE_HOME:-$HOME/.cache}/stint-gateways}"
mkdir -p "$dir"

caddy="$dir/caddy-$CADDY"
if [ ! -x "$caddy" ]; then
	echo "building Caddy $CADDY" >&2
	GOBIN="$dir/building" nice -n 10 "$GO" install "github.com/caddyserver/caddy/v2/cmd/caddy@$CADDY"
	mv "$dir/building/caddy" "$caddy"
fi

# The replace directives of Traefik's go.mod forbid go install.
traefik="$dir/traefik-$TRAEFIK"
if [ ! -x "$traefik" ]; then
	echo "building Traefik $TRAEFIK" >&2
	module=$(cd "$dir" && "$GO" mod download -json "github.com/traefik/traefik/v3@$TRAEFIK" | sed -n 's/^\t"Dir": "\(.*\)",$/\1/p')
	(cd "$module" && nice -n 10 "$GO" build -o "$dir/building/traefik" ./cmd/traefik)
	mv "$dir/building/traefik" "$traefik"
fi
rm -rf "$dir/building"
echo "$dir"
