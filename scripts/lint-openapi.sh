#!/usr/bin/env bash
# Lints the OpenAPI document of a running node with Redocly, which
# tools/redocly/package-lock.json pins. It needs Node.js and the npm registry.
set -euo pipefail
cd "$(dirname "$0")/.."
go=${GO:-go}

document=$(mktemp --suffix .json)
trap 'rm -f "$document"' EXIT
echo "lint-openapi: the document of a node"
"$go" test ./internal/app -count 1 -run TestOpenAPIDocumentHasEveryRoute -openapi "$document"
npm --prefix tools/redocly ci --no-audit --no-fund --silent
tools/redocly/node_modules/.bin/redocly lint --config tools/redocly/redocly.yaml "$document"
