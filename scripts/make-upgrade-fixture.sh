#!/usr/bin/env bash
# Replaces the fixture of test/upgrade by the data of a version, a tag or commit of this
# repository, which that version's own program writes. Run it after a release:
#   scripts/make-upgrade-fixture.sh v1.2.3
set -euo pipefail

[ $# = 1 ] || { echo "usage: $0 VERSION" >&2; exit 2; }
cd "$(dirname "$0")/.."
GO="${GO:-go}"
program=$(bash scripts/build-version.sh "$1")
rm -rf test/upgrade/testdata
"$GO" test ./test/upgrade -run '^$' -bench '^BenchmarkMakeFixture$' -benchtime 1x -count 1 -v -args -old "$program" -version "$1" -make "$PWD/test/upgrade/testdata/$1"
ls -l "test/upgrade/testdata/$1"
