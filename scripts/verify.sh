#!/usr/bin/env bash
# The checks that need no network except the module proxy: the modules match
# go.sum, no more retired words are used, the workflows are valid, and the linter
# finds nothing, also in the format of the modules below tools. It
# also writes a CycloneDX bill of materials for each program to bin/sbom/. The
# tools are those that tools/go.mod pins.
set -euo pipefail
cd "$(dirname "$0")/.."
go=${GO:-go}
tool() { "$go" tool -modfile=tools/go.mod "$@"; }

echo "verify: modules"
"$go" mod verify
"$go" mod verify -modfile=tools/go.mod
"$go" mod verify -modfile=tools/gotestsum/go.mod

echo "verify: words and lengths"
bash scripts/lengths.sh
bash scripts/words.sh

echo "verify: workflows"
GO="$go" bash scripts/verify-workflows.sh

echo "verify: format"
unformatted=$(git ls-files -z '*.go' | xargs -0 "$("$go" env GOROOT)/bin/gofmt" -l)
[ -z "$unformatted" ] || { printf 'verify: gofmt would change these:\n%s\n' "$unformatted" >&2; exit 1; }

echo "verify: lint"
tool golangci-lint run ./...

echo "verify: bills of materials"
version=$(git describe --tags --always --dirty 2>/dev/null || echo unknown)
mkdir -p bin/sbom
for program in server admin; do
  # The bill covers the built program: exactly the modules linked into it.
  "$go" build -trimpath -o "bin/stint-$program" "./cmd/$program"
  file=bin/sbom/stint-$program.cdx.json
  tool cyclonedx-gomod bin -json -std -licenses -version "$version" -output "$file" "bin/stint-$program" 2>bin/sbom/log ||
    { cat bin/sbom/log >&2; exit 1; }
  grep -q '"bomFormat": "CycloneDX"' "$file" || { echo "verify: $file is not a CycloneDX document" >&2; exit 1; }
  # Every linked module must be in the bill.
  "$go" version -m "bin/stint-$program" | awk '$1 == "dep" { print $2 }' | while read -r module; do
    grep -qF "\"name\": \"$module\"" "$file" || { echo "verify: $file does not name $module" >&2; exit 1; }
  done
  echo "  $file: $(grep -c '"bom-ref"' "$file") components"
done
rm -f bin/sbom/log
echo "verify: passed"
