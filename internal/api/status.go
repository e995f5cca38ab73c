package api

// StatusOf returns the HTTP status that err is answered with, for front ends
// that write the answer's body themselves.
func StatusOf(err error) int { return problemOf(err).Status }
