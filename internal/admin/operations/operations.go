// Package operations contains the use cases of running an installation: its audit log, backups,
// jobs, nodes, notifications and reports, and how to connect gateways. Package admin defines
// use cases.
package operations
