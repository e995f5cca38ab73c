#!/usr/bin/env bash
# Renders the OpenAPI document of a node as a page, bin/api/index.html, with Redocly, which
# tools/redocly/package-lock.json pins. It needs Node.js and the npm registry.
set -euo pipefail
cd "$(dirname "$0")/.."
go=${GO:-go}

document=$(mktemp --suffix .json)
trap 'rm -f "$document"' EXIT
"$go" test ./internal/app -count 1 -run TestOpenAPIDocumentHasEveryRoute -openapi "$document"
npm --prefix tools/redocly ci --no-audit --no-fund --silent
mkdir -p bin/api
tools/redocly/node_modules/.bin/redocly build-docs --config tools/redocly/redocly.yaml --output bin/api/index.html "$document"
