package algorithms

// TimestampLog is the name of the default algorithm.
const TimestampLog = "timestamp_log"

var timestampLog = Algorithm{
	Name:  TimestampLog,
	Title: "timestamp log",
	Summary: "Keeps the time of each allowed request, in 4 to 10 bytes, and is exact: " +
		"never more than N in any window, and never a needless refusal.",
	Exact: true,
}
