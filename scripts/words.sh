#!/usr/bin/env bash
# Fails if more lines contain a retired word than scripts/retired-words.max allows.
# scripts/retired-words.txt has one pattern per line: former names, and phrases that
# are not plain English; see "Language" in CONTRIBUTING.md. The limit only goes down.
# With -v it prints every line found.
set -euo pipefail
cd "$(dirname "$0")/.."
max=$(cat scripts/retired-words.max)
# In the C locale the search takes a seventh of the time.
found() { LC_ALL=C git grep -nE -f scripts/retired-words.txt -- '*.go' '*.lua' '*.sql' '*.html' '*.js' '*.css' '*.md' '*.txtar' ':!scripts' ':!CHANGELOG.md' ':!*.min.js' || true; }
[ "${1:-}" = -v ] && found
count=$(found | wc -l)
if [ "$count" -gt "$max" ]; then
	echo "words: $count lines contain retired words, $max are allowed. Added by the last commit and the work tree:" >&2
	{ git diff HEAD~1 --unified=0 -- ':!scripts' 2>/dev/null || git diff --unified=0 -- ':!scripts'; } | grep -E '^\+' | grep -nE -f scripts/retired-words.txt | head -20 >&2 || true
	exit 1
fi
[ "$count" -eq "$max" ] || echo "words: $count lines contain retired words; lower scripts/retired-words.max from $max to $count"
