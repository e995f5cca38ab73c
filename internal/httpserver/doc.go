// Package httpserver is the HTTP layer that all front ends share: listeners with
// strict framing and cheap deadlines, the client's address behind proxies, allowed
// host names, bodies with limits, credentials, the table of routes, problems, the
// access log and streams.
package httpserver
