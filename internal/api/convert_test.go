package api

import (
	"slices"
	"testing"
	"time"

	"github.com/stint-dev/stint/internal/algorithms"
	"github.com/stint-dev/stint/internal/rules"
	"github.com/stint-dev/stint/internal/wire"
)

func TestOptionsThatMeanTheSameAreEqual(t *testing.T) {
	written := algorithms.Options{WindowStart: algorithms.WindowClock, Variant: algorithms.VariantMeter}
	if got := fromOptions(written); got != (wire.PolicyOptions{}) {
		t.Errorf("defaults that are written out are shown: %+v", got)
	}
}

// Package wire imports no package of ours, so it has names and units of its own.
func TestTheWireHasTheNamesAndUnitsOfTheDomain(t *testing.T) {
	names := []string{algorithms.OptionBurst, algorithms.OptionCountRefused, algorithms.OptionWindowStart, algorithms.OptionVariant}
	if got := wire.OptionNames(); !slices.Equal(got, names) {
		t.Errorf("the options are %q, want %q", got, names)
	}
	for _, d := range []time.Duration{
		time.Millisecond, 1500 * time.Millisecond, time.Second, 90 * time.Second, time.Minute, 61 * time.Minute, time.Hour,
		36 * time.Hour, 24 * time.Hour, 7 * 24 * time.Hour, 31 * 24 * time.Hour,
	} {
		if got, want := wire.Duration(d).String(), rules.FormatWindow(d); got != want {
			t.Errorf("%v is written as %s, want %s", d, got, want)
		}
	}
}
