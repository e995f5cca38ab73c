#!/usr/bin/env bash
# Measures what tracing costs a check while it is off, in two ways. BenchmarkTracingOff of
# internal/httpserver is the cost of its calls alone, whose share of a plain check it prints.
# BenchmarkServed of internal/api runs with the code of this checkout, and with its calls of
# tracing removed by an overlay of the compiler. Both run in turn, and so does the former once
# more, which shows the noise: beside other work it is far more than what is sought. It prints
# for each case the least processor time of a check, and the ratios of the least and of the
# medians of the rounds. ROUNDS is how many there are.
set -euo pipefail
cd "$(dirname "$0")/.."
go=${GO:-go}
rounds=${ROUNDS:-15}
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT

# without FILE EXPRESSION... writes a file without some of its lines, and fails where one is
# not there any more.
without() {
	local file=$1 text
	shift
	mkdir -p "$dir/$(dirname "$file")"
	text=$(cat "$file")
	local expression changed
	for expression; do
		changed=$(perl -0pe "$expression" <<<"$text")
		[ "$changed" != "$text" ] || { echo "bench-tracing: $file has nothing for $expression" >&2; exit 1; }
		text=$changed
	done
	printf '%s\n' "$text" >"$dir/$file"
	printf '%s"%s": "%s"' "${separator-}" "$PWD/$file" "$dir/$file" >>"$dir/replace"
	separator=', '
}
without internal/httpserver/route.go 's/\t+s\.endTrace\(c, r\)\n//' \
	's/\t+if s\.o\.Tracer != nil \|\| [^\n]*\n\t+s\.trace\(c, r\)\n\t+\}\n//' \
	's/\tc\.Parent, c\.Span, c\.traced = tracing\.Parent\{\}, nil, nil\n//' 's/\t"[^"\n]*internal\/tracing"\n//'
without internal/httpserver/access_log.go 's/, TraceID: c\.Span\.Parent\(\)\.TraceID\(\)//' 's/, trace: c\.TraceID\(\),/,/'
without internal/httpserver/call.go 's/\tif c\.traced != nil \{\n\t\treturn c\.traced\n\t\}\n//'
without internal/httpserver/fast.go 's/ && s\.o\.Tracer == nil//'
echo "{\"Replace\": {$(cat "$dir/replace")}}" >"$dir/overlay.json"

"$go" test -c -o "$dir/off" ./internal/api
"$go" test -c -overlay "$dir/overlay.json" -o "$dir/absent" ./internal/api
cp "$dir/off" "$dir/again"

calls=$("$go" test ./internal/httpserver -run '^$' -bench '^BenchmarkTracingOff$' -benchtime 3000x -count 3 |
	awk '/^BenchmarkTracingOff/ { for (i = 2; i < NF; i++) if ($(i + 1) == "tracing-ns" && (!least || $i < least)) least = $i } END { print least }')

cases='BenchmarkServed/^(allowed|allowed_plain|limited_plain)$'
for _ in $(seq "$rounds"); do
	for program in off absent again; do
		(cd internal/api && "$dir/$program" -test.run '^$' -test.bench "$cases" -test.benchtime 50000x) |
			awk -v program="$program" '/^BenchmarkServed/ { for (i = 2; i < NF; i++) if ($(i + 1) == "least-cpu-ns/op") { sub(/-[0-9]+$/, "", $1); print $1, program, $i } }' >>"$dir/measured"
	done
done
sort -k3,3n "$dir/measured" | awk -v calls="$calls" '$1 ~ /allowed_plain$/ {
	printf "calls of tracing: %.1f ns, %.2f%% of the %.0f ns of an allowed check off the fast path; none on it\n", calls, 100 * calls / $3, $3; exit }'
sort -k1,1 -k2,2 -k3,3n "$dir/measured" | awk '
	{ id = $1 " " $2; names[$1]; n[id]++; value[id, n[id]] = $3 }
	function least(id) { return value[id, 1] }
	function median(id,   m) { m = n[id]; return (value[id, int((m + 1) / 2)] + value[id, int((m + 2) / 2)]) / 2 }
	END {
		for (name in names) {
			off = name " off"; absent = name " absent"; again = name " again"
			printf "%s: %.0f ns off, %.0f ns absent; off/absent %.3f by the least, %.3f by the median; off/off %.3f and %.3f (%d rounds)\n", name,
				least(off), least(absent), least(off) / least(absent), median(off) / median(absent), least(off) / least(again), median(off) / median(again), n[off]
		}
	}' | sort
