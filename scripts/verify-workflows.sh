#!/usr/bin/env bash
# Checks the workflows of GitHub Actions with actionlint, which is pinned in
# tools/actionlint, a module of its own, and that it finds a mistake at all.
set -euo pipefail
cd "$(dirname "$0")/.."
lint() { "${GO:-go}" tool -C tools/actionlint actionlint -color=false "$@"; }

lint "$PWD"/.github/workflows/*.yml
broken=$(mktemp --suffix .yml)
trap 'rm -f "$broken"' EXIT
sed 's/runs-on:/run-on:/' .github/workflows/ci.yml >"$broken"
if lint "$broken" >/dev/null; then
  echo "verify-workflows: actionlint accepts a workflow without runs-on" >&2
  exit 1
fi
# Every target of make that a workflow runs exists.
grep -ohE '\bmake [a-z][a-z-]+' .github/workflows/*.yml .ci/run | sed 's/make //' | sort -u | while read -r target; do
  grep -q "^$target:" Makefile || { echo "verify-workflows: make has no target $target" >&2; exit 1; }
done
echo "verify-workflows: passed"
