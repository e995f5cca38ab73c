package backtest_test

import (
	"context"
	"fmt"
	"strings"
	"testing"

	"github.com/stint-dev/stint/internal/accesslog"
	"github.com/stint-dev/stint/internal/backtest"
	"github.com/stint-dev/stint/internal/keys"
	"github.com/stint-dev/stint/internal/presets"
)

// asks returns requests of one address, a second apart.
func asks(t *testing.T, address string, n int, request func(i int) accesslog.Record) []accesslog.Record {
	t.Helper()
	key, err := keys.Parser{}.Key("ip:" + address)
	if err != nil {
		t.Fatal(err)
	}
	all := make([]accesslog.Record, n)
	for i := range all {
		all[i] = request(i)
		all[i].Key, all[i].Cost, all[i].Time, all[i].Method = key, 1, int64(i)*1000, "GET"
	}
	return all
}

func websiteReport(t *testing.T, records []accesslog.Record) *backtest.Report {
	t.Helper()
	preset, _ := presets.Find("website")
	report, err := backtest.Run(context.Background(), accesslog.Slice(records), backtest.Options{Plan: backtest.PoliciesPlan(preset.Policies)})
	if err != nil {
		t.Fatal(err)
	}
	return report
}

// What the requests of an edge of a content delivery network show is charged to nobody, and the edge is
// never blocked; another address that asks the same is.
func TestEdgesGetNoPoints(t *testing.T) {
	scans := func(i int) accesslog.Record { return accesslog.Record{Path: fmt.Sprintf("/gone-%d", i), Status: 404} }
	if report := websiteReport(t, asks(t, "172.71.10.20", 40, scans)); report.Refused != 0 {
		t.Errorf("an edge: %d of 40 are refused", report.Refused)
	}
	if report := websiteReport(t, asks(t, "198.51.100.7", 40, scans)); report.Refused < 30 {
		t.Errorf("a client: %d of 40 are refused", report.Refused)
	}
}

// A refused address that many people share is shown as one, and a scanner that names many agents is not.
func TestSharedAddressesAreShown(t *testing.T) {
	office := asks(t, "198.51.100.8", 90, func(i int) accesslog.Record {
		r := accesslog.Record{Path: fmt.Sprintf("/page-%d", i), Status: 200, Agent: fmt.Sprintf("Browser/%d", i%10)}
		if i < 10 {
			r.Path, r.Status = fmt.Sprintf("/gone-%d", i), 404
		}
		return r
	})
	scanner := asks(t, "198.51.100.9", 90, func(i int) accesslog.Record {
		return accesslog.Record{Path: fmt.Sprintf("/gone-%d", i), Status: 404, Agent: fmt.Sprintf("Browser/%d", i%10)}
	})
	for _, test := range []struct {
		records []accesslog.Record
		want    bool
	}{{office, true}, {scanner, false}} {
		report := websiteReport(t, test.records)
		if len(report.Offenders) != 1 || report.Offenders[0].IsShared != test.want {
			t.Errorf("got the offenders %+v, want one that is shared: %v", report.Offenders, test.want)
		} else if text := strings.Join(report.Offenders[0].Lines(), "\n"); strings.Contains(text, "many people share") != test.want {
			t.Errorf("got %q", text)
		}
	}
}
