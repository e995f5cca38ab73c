//go:build race

package logtest

// raceDetector says that the race detector is on.
const raceDetector = true
