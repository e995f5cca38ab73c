package api

import (
	"github.com/stint-dev/stint/internal/algorithms"
	"github.com/stint-dev/stint/internal/wire"
)

// fromAlgorithm returns an algorithm as the API shows it.
func fromAlgorithm(a *algorithms.Algorithm) wire.Algorithm {
	return wire.Algorithm{Name: a.Name, Title: a.Title, Summary: a.Summary, Exact: a.Exact, Options: append([]string{}, a.Options...)}
}

// fromOptions returns options as the API shows them.
func fromOptions(o algorithms.Options) wire.PolicyOptions { return wire.PolicyOptions(o.Canonical()) }
