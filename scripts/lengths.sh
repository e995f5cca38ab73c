#!/usr/bin/env bash
# Warns of Go files above 800 lines. It never fails: one concept in one long file that is
# read from top to bottom is better than five that must be read together.
set -euo pipefail
cd "$(dirname "$0")/.."
git ls-files '*.go' | grep -v _test.go | xargs wc -l |
	awk '$2 != "total" && $1 > 800 { printf "lengths: %s has %d lines; does it still hold one concept?\n", $2, $1 }'
