// Package e2e_test runs the built programs as operators do: real node
// processes on real Redis and Postgres servers, spoken to over HTTP alone.
package e2e_test
