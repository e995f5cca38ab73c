package api

import (
	"slices"
	"testing"
	"time"

	"github.com/stint-dev/stint/internal/algorithms"
	"github.com/stint-dev/stint/internal/rules"
	"github.com/stint-dev/stint/internal/wire"
)

func TestFromOptionsOmitsDefaults(t *testing.T) {
	written := algorithms.Options{WindowStart: algorithms.WindowClock, Variant: algorithms.VariantMeter}
	if got := fromOptions(written); got != (wire.PolicyOptions{}) {
		t.Errorf("fromOptions of defaults = %+v, want none", got)
	}
}

// Package wire imports no package of ours, so it has names and units of its own.
func TestWireMatchesNamesAndUnitsOfDomain(t *testing.T) {
	names := []string{algorithms.OptionBurst, algorithms.OptionCountRefused, algorithms.OptionWindowStart, algorithms.OptionVariant}
	if got := wire.OptionNames(); !slices.Equal(got, names) {
		t.Errorf("OptionNames() = %q, want %q", got, names)
	}
	for _, d := range []time.Duration{
		time.Millisecond, 1500 * time.Millisecond, time.Second, 90 * time.Second, time.Minute, 61 * time.Minute, time.Hour,
		36 * time.Hour, 24 * time.Hour, 7 * 24 * time.Hour, 31 * 24 * time.Hour,
	} {
		if got, want := wire.Duration(d).String(), rules.FormatWindow(d); got != want {
			t.Errorf("%v is formatted as %s, want %s", d, got, want)
		}
	}
}
