// Package operations holds the use cases of running an installation: its audit log,
// backups, jobs, nodes, notifications and reports, and how gateways are connected to it.
// Package admin says what a use case is.
package operations
