package sources

import (
	"cmp"
	"context"
	_ "embed"
	"slices"
	"time"

	"go.yaml.in/yaml/v3"

	"github.com/stint-dev/stint/internal/admin"
	"github.com/stint-dev/stint/internal/blocklist"
	"github.com/stint-dev/stint/internal/blocks"
	"github.com/stint-dev/stint/internal/wire"
)

// known is a list of the catalogue.
type known struct {
	Name, Title, URL, License, Advice, Column, Header string
	As                                                blocks.ListUse
	Every                                             time.Duration
}

//go:embed catalogue.yaml
var catalogueText []byte

var catalogue = readCatalogue()

func readCatalogue() (all []known) {
	if err := yaml.Unmarshal(catalogueText, &all); err != nil {
		panic("the catalogue of lists: " + err.Error()) // a test reads it
	}
	return all
}

func knownByName(name string) *known {
	at := slices.IndexFunc(catalogue, func(k known) bool { return k.Name == name })
	if at < 0 {
		return nil
	}
	return &catalogue[at]
}

// fillFrom sets what a request leaves out to what the catalogue says of the list.
func fillFrom(l *blocks.List, k *known) {
	l.URL, l.Column = k.URL, cmp.Or(l.Column, k.Column)
	l.As, l.Every = cmp.Or(l.As, k.As), cmp.Or(l.Every, k.Every)
}

func setDefaults(l *blocks.List) {
	l.As, l.Every, l.Format = cmp.Or(l.As, blocks.AsBlock), cmp.Or(l.Every, defaultEvery), cmp.Or(l.Format, string(blocklist.Auto))
}

// Catalogue returns the lists of the catalogue.
func (s *Sources) Catalogue(ctx context.Context, _ admin.Caller, _ wire.None) (wire.Page[wire.KnownList], error) {
	all, err := s.Store.FindLists(ctx, false)
	if err != nil {
		return wire.Page[wire.KnownList]{}, err
	}
	return wire.WholePage(catalogue, func(k known) wire.KnownList {
		return wire.KnownList{
			Name: k.Name, Title: k.Title, URL: k.URL, As: string(k.As), Every: wire.Duration(k.Every), Column: k.Column, License: k.License, Advice: k.Advice,
			Header: k.Header, Added: slices.ContainsFunc(all, func(l blocks.List) bool { return l.URL == k.URL }),
		}
	}), nil
}
