// Package httpserver holds what every listener needs before a request reaches
// a handler: framing that cannot be read in two ways, bounded bodies, the
// client's address behind proxies, and the host names that are answered.
package httpserver
