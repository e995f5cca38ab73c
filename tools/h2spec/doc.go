// Package h2spec is a module of its own for the program that tries the gRPC listener against
// what HTTP/2 says of servers, so that it does not enter Stint's own module.
package h2spec
