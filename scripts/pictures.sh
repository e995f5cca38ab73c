#!/usr/bin/env bash
# Makes the pictures of docs/images from "stint-server demo": needs chromium-headless-shell and pngquant.
set -euo pipefail
cd "$(dirname "$0")/.."
folder=$(mktemp -d)
trap 'kill -INT "$demo" 2>/dev/null; wait "$demo" 2>/dev/null; rm -rf "$folder"' EXIT
demo=
"${GO:-go}" build -o "$folder/stint-server" ./cmd/server
"$folder/stint-server" demo --listen 127.0.0.1:0 --admin-listen 127.0.0.1:0 >"$folder/out" & demo=$!
until grep -q Ctrl-C "$folder/out"; do kill -0 "$demo"; sleep 0.2; done
pages=$(sed -n 's|^ *admin *\(http://[0-9.:]*\).*|\1|p' "$folder/out")
sleep 70 # the rates of the overview are those of the last minute
picture() { # NAME PATH SIZE
	chromium-headless-shell --no-sandbox --hide-scrollbars --virtual-time-budget=8000 --window-size="$3" --screenshot="$folder/$1.png" "$pages$2" 2>/dev/null
	pngquant --force --skip-if-larger --output "docs/images/$1.png" 64 "$folder/$1.png"
}
picture overview / 1280,1000
picture key '/key?key=ip:203.0.113.70' 1100,900
picture block '/blocks/new?pattern=ip:203.0.113.64/27&reason=scraping' 1100,900
ls -l docs/images
