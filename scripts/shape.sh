#!/usr/bin/env bash
# Fails if a type, file, package or template line is larger than allowed; see
# tools/shape. scripts/shape.txt lists the exceptions, which only go down:
# scripts/shape.sh -write lowers them to the measured sizes.
set -euo pipefail
cd "$(dirname "$0")/.."
root=$PWD
exec "${GO:-go}" run -C tools ./shape "$@" "$root" "$root/scripts/shape.txt"
