#!/usr/bin/env bash
# Fails when the tree holds more retired words than scripts/retired-words.max
# allows. They are words that a reader has to decode and names that have a common
# term; CONTRIBUTING.md says how they are replaced. The ceiling only
# ever goes down. With -v it prints every place.
set -euo pipefail
cd "$(dirname "$0")/.."
max=$(cat scripts/retired-words.max)
found() { git grep -nE -f scripts/retired-words.txt -- '*.go' '*.lua' '*.sql' '*.html' '*.js' '*.css' '*.md' '*.txtar' ':!scripts' ':!CHANGELOG.md' || true; }
[ "${1:-}" = -v ] && found
count=$(found | wc -l)
if [ "$count" -gt "$max" ]; then
	echo "words: $count lines hold retired words, $max are allowed. Those that the last commit and the work tree added:" >&2
	{ git diff HEAD~1 --unified=0 -- ':!scripts' 2>/dev/null || git diff --unified=0 -- ':!scripts'; } | grep -E '^\+' | grep -nE -f scripts/retired-words.txt | head -20 >&2 || true
	exit 1
fi
[ "$count" -eq "$max" ] || echo "words: $count lines hold retired words; lower scripts/retired-words.max from $max to $count"
