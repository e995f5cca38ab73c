#!/usr/bin/env bash
# Measures Stint in comparison with an empty handler and an empty Redis script, and
# writes docs/BENCHMARKS.md. It takes about half an hour and needs an idle machine.
set -euo pipefail
cd "$(dirname "$0")/.."

mkdir -p docs
STINT_BENCH_REPORT="$PWD/docs/BENCHMARKS.md" \
  go test -run '^$' -bench '^BenchmarkStint$' -benchtime 1x -timeout 60m -v ./test/bench
