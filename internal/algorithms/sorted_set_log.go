package algorithms

// SortedSetLog is the name of the log that Redis keeps in a sorted set.
const SortedSetLog = "sorted_set_log"

var sortedSetLog = Algorithm{
	Name:  SortedSetLog,
	Title: "sorted set log",
	Summary: "The timestamp log as many articles write it, a sorted set of requests: as exact, at several times the memory. " +
		"With count_refused, refused requests count too.",
	Exact:   true,
	Options: []string{OptionCountRefused},
}
