#!/usr/bin/env bash
# The checks of a release: those of verify.sh, and govulncheck. govulncheck
# needs its database of vulnerabilities; where that cannot be reached the
# release is not checked, and this fails. GOVULNDB names a mirror.
set -euo pipefail
cd "$(dirname "$0")/.."
go=${GO:-go}
[ "${1:-}" = --only-vulnerabilities ] || bash scripts/verify.sh

db=${GOVULNDB:-https://vuln.go.dev}
echo "verify-release: known vulnerabilities, by $db"
log=$(mktemp)
trap 'rm -f "$log"' EXIT
if "$go" tool -modfile=tools/go.mod govulncheck -db "$db" ./... >"$log" 2>&1; then
  cat "$log"
  echo "verify-release: no known vulnerability is called"
  exit
fi
cat "$log"
# go tool turns every failure into the exit code 1: govulncheck's words tell which it was.
if grep -qE '^Your code is affected by [1-9]' "$log"; then
  echo "verify-release: FAILED, the code calls what is known to be vulnerable; upgrade what is named above" >&2
  exit 3
fi
echo "verify-release: FAILED, the code was NOT checked for known vulnerabilities: govulncheck could not finish, as it says above." >&2
echo "verify-release: it needs its database; run this where that can be reached, or set GOVULNDB to a mirror (https:// or file://)." >&2
exit 1
