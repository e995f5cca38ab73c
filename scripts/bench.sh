#!/usr/bin/env bash
# Measures Stint in comparison with an empty handler and an empty Redis script, and
# writes docs/BENCHMARKS.md. It takes about half an hour and needs an idle machine.
set -euo pipefail
cd "$(dirname "$0")/.."

if ! command -v wrk >/dev/null; then
  echo "wrk is not installed: apt-get install wrk, or brew install wrk" >&2
  exit 1
fi
mkdir -p docs
STINT_BENCH_REPORT="$PWD/docs/BENCHMARKS.md" \
  go test -run '^$' -bench '^BenchmarkStint$' -benchtime 1x -timeout 60m -v ./test/bench
