#!/usr/bin/env bash
# The checks before a release: verify.sh, lint-openapi.sh, verify-helm.sh, the test of deploy/compose, the modules of the release tools and
# govulncheck. It fails if the vulnerability database is unreachable, because the release is unchecked then.
# GOVULNDB names a mirror of the database.
set -euo pipefail
cd "$(dirname "$0")/.."
go=${GO:-go}
if [ "${1:-}" != --only-vulnerabilities ]; then
  bash scripts/verify.sh
  bash scripts/lint-openapi.sh
  bash scripts/verify-helm.sh
  bash scripts/build-docs.sh
  "$go" test -C tools/compose -count 1 .
  for module in tools/dist tools/helm tools/peers tools/h2spec tools/clients/go tools/compose tools/actionlint tools/frameworks tools/libraries; do "$go" mod verify -C "$module"; done
fi

db=${GOVULNDB:-https://vuln.go.dev}
echo "verify-release: known vulnerabilities, from $db"
log=$(mktemp)
trap 'rm -f "$log"' EXIT
if "$go" tool -modfile=tools/go.mod govulncheck -db "$db" ./... >"$log" 2>&1; then
  cat "$log"
  echo "verify-release: no known vulnerability is called"
  exit
fi
cat "$log"
# go tool exits with 1 for every failure; govulncheck's output shows which it was.
if grep -qE '^Your code is affected by [1-9]' "$log"; then
  echo "verify-release: FAILED, the code calls vulnerable functions; upgrade the modules named above" >&2
  exit 3
fi
echo "verify-release: FAILED, the code was NOT checked for known vulnerabilities: govulncheck did not finish, see its output above." >&2
echo "verify-release: it needs its database; run this on a machine that can reach it, or set GOVULNDB to a mirror (https:// or file://)." >&2
exit 1
