#!/usr/bin/env bash
# Builds the site of the documents in bin/docs/VERSION by VitePress, which tools/docs/package-lock.json pins. It needs Node.js and the
# npm registry. The site loads nothing from other hosts.
set -euo pipefail
cd "$(dirname "$0")/.."
version=${1:-$(git describe --tags --always --dirty)}
[[ $version =~ ^[A-Za-z0-9][A-Za-z0-9._+-]*$ ]] || { echo "build-docs: $version is no version" >&2; exit 2; }
export STINT_DOCS_VERSION=$version STINT_DOCS_OUT=$PWD/bin/docs/$version
# Below tools/docs, where the pages find the modules of VitePress.
export STINT_DOCS_SOURCE=$PWD/tools/docs/.source STINT_DOCS_CACHE=$PWD/tools/docs/.cache
rm -rf "$STINT_DOCS_SOURCE" "$STINT_DOCS_OUT"
mkdir -p "$STINT_DOCS_SOURCE"
trap 'rm -rf "$STINT_DOCS_SOURCE" "$STINT_DOCS_CACHE"' EXIT
git ls-files '*.md' 'docs/images/*' ':!tools' ':!migrations' ':!web' ':!.github' | tar -c -T - | tar -x -C "$STINT_DOCS_SOURCE"
npm --prefix tools/docs ci --no-audit --no-fund --silent
tools/docs/node_modules/.bin/vitepress build tools/docs
if grep -rlE '(src|href)="https?://[^"]+\.(js|css|woff2?)"' --include '*.html' "$STINT_DOCS_OUT"; then
	echo "build-docs: these pages load something from another host" >&2
	exit 1
fi
echo "The site is in bin/docs/$version."
