#!/usr/bin/env bash
# Runs the tests of the clients for Node.js, Python and PHP, tries our Go client's middleware with net/http, chi, echo and gin, generates clients from a
# node's openapi.json by oapi-codegen, openapi-typescript and
# @hey-api/openapi-ts, compiles them, and runs the same script of calls with each. It needs
# Node.js, the npm registry and the Go module proxy.
set -euo pipefail
cd "$(dirname "$0")/.."
go=${GO:-go}
dir=$(mktemp -d)
node=
trap '[ -z "$node" ] || { kill "$node"; wait "$node" || true; }; rm -rf "$dir"' EXIT

echo "test-clients: Node.js, Python and PHP"
bash scripts/setup-tests.sh
if ! { command -v javac && command -v rustc; } >/dev/null; then apt-get -qq install -y default-jdk-headless rustc; fi
STINT_TEST_ALL_LANGUAGES=1 "$go" test -count 1 ./test/clients

echo "test-clients: net/http, chi, echo and gin"
"$go" test -C tools/frameworks -count 1 .

echo "test-clients: a node"
"$go" build -o "$dir/stint-server" ./cmd/server
export STINT_ADMIN_TOKEN=b1e4adca9f5c1b7d2830694ef1a5c3d7
"$dir/stint-server" --listen 127.0.0.1:0 --admin-listen 127.0.0.1:0 --data-dir "$dir/data" --log-level error >"$dir/out" &
node=$!
for _ in $(seq 60); do
	STINT_CHECK_URL=$(sed -n 's/^ *checks  *\(http:[^ ]*\).*/\1/p' "$dir/out")
	STINT_ADMIN_URL=$(sed -n 's/^ *admin  *\(http:[^ ]*\).*/\1/p' "$dir/out")
	[ -z "$STINT_ADMIN_URL" ] || break
	sleep 1
done
export STINT_CHECK_URL STINT_ADMIN_URL
curl --fail --silent --show-error --retry 10 --retry-all-errors --output "$dir/openapi.json" "$STINT_ADMIN_URL/openapi.json"

echo "test-clients: oapi-codegen"
cp -r tools/clients/go "$dir/go"
mkdir "$dir/go/stint"
(cd "$dir/go" && "$go" tool oapi-codegen -config oapi-codegen.yaml "$dir/openapi.json" && "$go" run .)

echo "test-clients: openapi-typescript and hey-api"
cd tools/clients/node
npm ci --no-audit --no-fund --silent
rm -rf generated out
npx openapi-typescript "$dir/openapi.json" --output generated/schema.d.ts
npx openapi-ts --input "$dir/openapi.json" --output generated/hey-api --client @hey-api/client-fetch --silent
npx tsc
node out/openapi-typescript.js
node out/hey-api.js
