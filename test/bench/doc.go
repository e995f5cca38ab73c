// Package bench measures Stint as a whole, beside the most that the machine
// gives: an empty HTTP handler and an empty Redis script, in the same run.
// `make bench` runs it and writes docs/BENCHMARKS.md; no test of it runs
// otherwise. Every load is bounded.
package bench
