#!/usr/bin/env bash
# Measures Stint beside an empty handler and an empty Redis script, and writes
# docs/BENCHMARKS.md. Takes about eleven minutes; wants a machine that does nothing else.
set -euo pipefail
cd "$(dirname "$0")/.."

if ! command -v wrk >/dev/null; then
  echo "wrk is not installed: apt-get install wrk, or brew install wrk" >&2
  exit 1
fi
mkdir -p docs
STINT_BENCH_REPORT="$PWD/docs/BENCHMARKS.md" \
  go test -run '^$' -bench '^BenchmarkStint$' -benchtime 1x -timeout 60m -v ./test/bench
