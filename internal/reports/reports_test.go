package reports_test

import (
	"bytes"
	"context"
	"encoding/csv"
	"errors"
	"maps"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/go-json-experiment/json"

	"github.com/stint-dev/stint/internal/admin"
	"github.com/stint-dev/stint/internal/audit"
	"github.com/stint-dev/stint/internal/blocks"
	"github.com/stint-dev/stint/internal/keys"
	"github.com/stint-dev/stint/internal/offences"
	"github.com/stint-dev/stint/internal/profiles"
	"github.com/stint-dev/stint/internal/reports"
	"github.com/stint-dev/stint/internal/rules"
	"github.com/stint-dev/stint/internal/sqlstore"
	"github.com/stint-dev/stint/test/servers"
	"github.com/stint-dev/stint/test/storetest"
)

func TestMain(m *testing.M) { servers.Main(m) }

const hostile = `token:=<script>"&` + "\u202e" + `,x`

type view struct{ selector *rules.Selector }

func (v view) Selector() *rules.Selector        { return v.selector }
func (v view) Blocks() *blocks.Set              { return blocks.NewSet() }
func (v view) Profiles() *profiles.Set          { return profiles.NewSet() }
func (v view) Subject(k keys.Key) rules.Subject { return rules.Subject{Key: k} }

// fill counts two days of refusals: yesterday ten of k:old and seven of a
// hostile key, the day before four of k:old.
func fill(t *testing.T, s *sqlstore.Store, now time.Time) {
	t.Helper()
	at := func(ago time.Duration, key string, n int64) offences.Offence {
		ms := now.Add(-ago).Truncate(time.Minute).UnixMilli()
		var mac [10]byte
		copy(mac[:], key)
		return offences.Offence{Minute: ms, Policy: 1, Key: key, MAC: mac, RefusedBy: "20/1m", Count: n, First: offences.Refusal{At: ms + 1}, Last: offences.Refusal{At: ms + 2}}
	}
	b := &offences.Batch{ID: "b", Offences: []offences.Offence{at(20*time.Hour, hostile, 7), at(22*time.Hour, "k:old", 10), at(40*time.Hour, "k:old", 4)}}
	for _, o := range b.Offences {
		b.Totals = append(b.Totals, offences.Totals{Minute: o.Minute, Policy: 1, Counts: offences.Counts{Limited: o.Count, Allowed: 100}})
		b.Keys = append(b.Keys, offences.KeyTraffic{Minute: o.Minute, Policy: 1, Key: o.Key, Allowed: 3, Refused: o.Count})
	}
	if _, err := s.Offences.Flush(t.Context(), b, offences.Evaluation{Now: now}); err != nil {
		t.Fatal(err)
	}
}

func build(t *testing.T, url string, kind reports.Kind) (*sqlstore.Store, *reports.Document) {
	t.Helper()
	s, builder, now := newBuilder(t, url)
	d, err := builder.Build(t.Context(), kind, now)
	if err != nil {
		t.Fatal(err)
	}
	return s, d
}

func newBuilder(t *testing.T, url string) (*sqlstore.Store, *reports.Builder, time.Time) {
	t.Helper()
	now := time.Date(2026, 3, 4, 12, 0, 0, 0, time.UTC)
	clock := now.Add(-18 * time.Hour)
	s, err := sqlstore.Open(t.Context(), url, sqlstore.Options{Now: func() time.Time { return clock }})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.Close() })
	fill(t, s, now)
	p, err := keys.Parser{}.Pattern("k:old")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := s.Entries.Add(context.Background(), audit.SystemActor("escalation"), blocks.Fail, blocks.Entry{Kind: blocks.Block, Pattern: p, Source: blocks.Automatic, Expires: clock.Add(time.Hour)}); err != nil {
		t.Fatal(err)
	}
	stack, err := rules.ParseStack([]string{"20/1m", "800/1d"})
	if err != nil {
		t.Fatal(err)
	}
	policy := &rules.Policy{ID: 1, Name: "default", Mode: rules.Enforce, Rules: stack}
	known := view{rules.NewSelector([]*rules.Policy{policy})}
	clockNow := func() time.Time { return now }
	builder := &reports.Builder{Store: s.Reports, Counts: s.Offences, View: known, Now: clockNow,
		Detection: &admin.Detection{Store: s.Offences, View: known, Now: clockNow}, Proposals: &admin.Proposals{Store: s.Proposals}}
	return s, builder, now
}

func TestBuildTodayCoversTheHoursSoFarAndIsNotSaved(t *testing.T) {
	storetest.OnBothURLs(t, func(t *testing.T, url string) {
		s, builder, now := newBuilder(t, url)
		builder.Now = func() time.Time { return now.Add(-19*time.Hour - 30*time.Minute) } // 16:30 of the day before
		d, err := builder.BuildToday(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		if d.ID != reports.Today || d.From.Format(time.RFC3339) != "2026-03-03T00:00:00Z" || d.To.Format(time.RFC3339) != "2026-03-03T16:31:00Z" {
			t.Errorf("BuildToday: got the document %s, from %s to %s", d.ID, d.From, d.To)
		}
		if d.Totals.Limited != 17 || len(d.Top) != 2 || len(d.Traffic) != 17 || d.Traffic[16].Limited != 7 {
			t.Errorf("BuildToday: got the totals %+v, the top %+v, the traffic %+v", d.Totals, d.Top, d.Traffic)
		}
		if d.Before != nil { // k:old offended at 20:00 of the day before, which is later in the day
			t.Errorf("BuildToday: the day before is %+v, want nil", d.Before)
		}
		builder.Now = func() time.Time { return now.Add(-12 * time.Hour) } // midnight
		if d, err = builder.BuildToday(t.Context()); err != nil || d.Totals.Limited != 0 || len(d.Traffic) != 1 {
			t.Errorf("BuildToday at midnight: got %+v, %v", d, err)
		}
		if kept, _, err := s.Reports.FindDocuments(t.Context(), "", "", 0); err != nil || len(kept) != 0 {
			t.Errorf("FindDocuments: got %+v, %v", kept, err)
		}
	})
}

func TestDailyReportCoversTheDayAndTheDayBefore(t *testing.T) {
	storetest.OnBothURLs(t, func(t *testing.T, url string) {
		s, d := build(t, url, reports.Daily)
		if d.From.Format(time.DateOnly) != "2026-03-03" || d.Totals.Limited != 17 || d.Totals.Allowed != 200 || d.Totals.Offenders != 2 {
			t.Errorf("got %+v", d)
		}
		if d.Before == nil || d.Before.Limited != 4 {
			t.Errorf("the day before is %+v", d.Before)
		}
		if len(d.Top) != 2 || d.Top[0].Key != "k:old" || d.Top[0].Offences != 10 || d.Top[0].RefusedBy != "20/1m" || d.Top[0].Policy != "default" || d.Top[0].RefusedRatio != 10.0/13 {
			t.Errorf("top offenders are %+v", d.Top)
		}
		if d.NewKeys != 1 || len(d.New) != 1 || d.New[0].Key != hostile {
			t.Errorf("new offenders are %d, %+v", d.NewKeys, d.New)
		}
		if d.Blocks != (reports.Blocks{Made: 1, Automatic: 1, Expired: 1}) {
			t.Errorf("blocks are %+v", d.Blocks)
		}
		if len(d.Rules) != 1 || d.Rules[0].Refused != 17 || len(d.Silent) != 1 || d.Silent[0].Rule != "800/1d" {
			t.Errorf("rules are %+v and %+v", d.Rules, d.Silent)
		}
		if len(d.Traffic) != 24 || d.Traffic[14].Limited != 10 || d.Traffic[16].Limited != 7 {
			t.Errorf("traffic is %+v", d.Traffic)
		}
		if len(d.Attention) != 1 || !strings.Contains(d.Attention[0], "4.2 times") {
			t.Errorf("attention is %q", d.Attention)
		}
		kept, _, err := s.Reports.FindDocuments(t.Context(), reports.Daily, "", 0)
		if err != nil || len(kept) != 1 || kept[0].ID != d.ID {
			t.Fatalf("FindDocuments: got %+v, %v", kept, err)
		}
		again, err := s.Reports.FindDocumentByID(t.Context(), d.ID)
		if err != nil || again.Totals != d.Totals || again.Top[0] != d.Top[0] {
			t.Errorf("FindDocumentByID: got %+v, %v", again, err)
		}
		// A document for the same day replaces it and keeps its id.
		made := *d
		made.ID, made.Attention = "", []string{"written again"}
		if err := s.Reports.PutDocument(t.Context(), &made); err != nil || made.ID != d.ID {
			t.Fatalf("PutDocument again: got the id %s, want %s: %v", made.ID, d.ID, err)
		}
		if again, err := s.Reports.FindDocumentByID(t.Context(), d.ID); err != nil || again.ID != d.ID || again.Attention[0] != "written again" {
			t.Errorf("FindDocumentByID after PutDocument: got %+v, %v", again, err)
		}
	})
}

func TestReportCountsChallengedRequests(t *testing.T) {
	storetest.OnBothURLs(t, func(t *testing.T, url string) {
		s, builder, now := newBuilder(t, url)
		minute := now.Add(-20 * time.Hour).Truncate(time.Minute).UnixMilli()
		b := &offences.Batch{ID: "challenged", Totals: []offences.Totals{{Minute: minute, Policy: 1, Counts: offences.Counts{Challenged: 5}}}}
		if _, err := s.Offences.Flush(t.Context(), b, offences.Evaluation{Now: now}); err != nil {
			t.Fatal(err)
		}
		d, err := builder.Build(t.Context(), reports.Daily, now)
		if err != nil {
			t.Fatal(err)
		}
		if d.Totals.Challenged != 5 || d.Totals.Refused() != 17+5 || d.Traffic[16].Challenged != 5 || d.Traffic[16].Limited != 7 {
			t.Errorf("got %+v and %+v", d.Totals, d.Traffic[16])
		}
		var csv strings.Builder
		if err := reports.WriteCSV(&csv, d); err != nil || !strings.Contains(csv.String(), "totals,Challenged,,,5,") || !strings.Contains(csv.String(), "challenged,2026-03-03T16:00:00Z,,,5,") {
			t.Errorf("%v:\n%s", err, csv.String())
		}
	})
}

// What a shadow policy would have refused was allowed: no consumer may count it as refused.
func TestReportKeepsShadowRefusalsApart(t *testing.T) {
	storetest.OnBothURLs(t, func(t *testing.T, url string) {
		s, builder, now := newBuilder(t, url)
		minute := now.Add(-20 * time.Hour).Truncate(time.Minute).UnixMilli()
		at := offences.Refusal{At: minute + 1}
		b := &offences.Batch{ID: "shadow", Totals: []offences.Totals{{Minute: minute, Policy: 1, Counts: offences.Counts{ShadowAllowed: 10, ShadowLimited: 90}}},
			Offences: []offences.Offence{{Minute: minute, Policy: 1, Key: "k:tried", MAC: [10]byte{9}, Kind: offences.Shadow, RefusedBy: "5/1m", Count: 90, First: at, Last: at}}}
		if _, err := s.Offences.Flush(t.Context(), b, offences.Evaluation{Now: now}); err != nil {
			t.Fatal(err)
		}
		d, err := builder.Build(t.Context(), reports.Daily, now)
		if err != nil {
			t.Fatal(err)
		}
		if len(d.Rules) != 1 || d.Rules[0].Rule != "20/1m" || d.Rules[0].Refused != 17 || d.Totals.Refused() != 17 || d.Totals.ShadowLimited != 90 {
			t.Errorf("the report says that %+v refused, of %+v, want 17 by 20/1m", d.Rules, d.Totals)
		}
		if len(d.Shadow) != 1 || d.Shadow[0].WouldRefuse != 90 || d.Shadow[0].Refused != 0 || d.Shadow[0].Ratio != 0 {
			t.Errorf("the rules in shadow mode are %+v, want one that would have refused 90", d.Shadow)
		}
		var csv, page strings.Builder
		if err := errors.Join(reports.WriteCSV(&csv, d), reports.WriteHTML(&page, d)); err != nil {
			t.Fatal(err)
		}
		if !strings.Contains(csv.String(), "shadow rules,shadow,default,5/1m,90,1 key") || strings.Contains(csv.String(), "\nrules,shadow,") {
			t.Errorf("the CSV is\n%s", csv.String())
		}
		refused, shadow, _ := strings.Cut(page.String(), "Rules in shadow mode")
		if strings.Contains(refused, "<td class=\"key\">5/1m</td>") || !strings.Contains(shadow, "<td class=\"key\">5/1m</td><td>default</td><td class=\"n\">90</td>") {
			t.Error("the printable page counts the rule 5/1m in shadow mode as one that refused")
		}
	})
}

func TestReportSumsBlocksOfPolicy(t *testing.T) {
	storetest.OnBothURLs(t, func(t *testing.T, url string) {
		s, builder, now := newBuilder(t, url)
		minute := now.Add(-20 * time.Hour).Truncate(time.Minute).UnixMilli()
		b := &offences.Batch{ID: "blocks"}
		for i := range 30 {
			key := "ip:192.0.2." + strconv.Itoa(i)
			var mac [10]byte
			copy(mac[:], key)
			b.Offences = append(b.Offences, offences.Offence{Minute: minute, Policy: 1, Key: key, MAC: mac, Kind: offences.Blocked,
				RefusedBy: "block-" + strconv.Itoa(i), Count: 100, First: offences.Refusal{At: minute + 1}, Last: offences.Refusal{At: minute + 2}})
			b.Totals = append(b.Totals, offences.Totals{Minute: minute, Policy: 1, Counts: offences.Counts{Blocked: 100}})
		}
		if _, err := s.Offences.Flush(t.Context(), b, offences.Evaluation{Now: now}); err != nil {
			t.Fatal(err)
		}
		d, err := builder.Build(t.Context(), reports.Daily, now)
		if err != nil {
			t.Fatal(err)
		}
		if len(d.Rules) != 2 || d.Rules[0].Kind != "blocked" || d.Rules[0].Rule != "" || d.Rules[0].Refused != 3000 || d.Rules[0].Keys != 30 ||
			d.Rules[1].Rule != "20/1m" || d.Rules[1].Refused != 17 {
			t.Errorf("rules are %+v, want all blocks together before the rule 20/1m", d.Rules)
		}
	})
}

func TestWeeklyReportCoversTheWeekBefore(t *testing.T) {
	from, to := reports.Weekly.Period(time.Date(2026, 3, 4, 12, 0, 0, 0, time.UTC))
	if from.Format(time.DateOnly) != "2026-02-23" || to.Format(time.DateOnly) != "2026-03-02" {
		t.Errorf("got %s to %s", from, to)
	}
	from, to = reports.Weekly.Period(time.Date(2026, 3, 2, 0, 0, 0, 0, time.UTC)) // a Monday
	if from.Format(time.DateOnly) != "2026-02-23" || to.Format(time.DateOnly) != "2026-03-02" {
		t.Errorf("on Monday: %s to %s", from, to)
	}
}

// A new offender has no figure that nobody counted, such as "allowed":0.
func TestNewOffendersHaveOnlyWhatIsKnown(t *testing.T) {
	_, d := build(t, filepath.Join(t.TempDir(), "stint.db"), reports.Daily)
	var text bytes.Buffer
	if err := reports.WriteJSON(&text, d); err != nil {
		t.Fatal(err)
	}
	var got struct {
		New []map[string]any `json:"new_offenders"`
	}
	if err := json.Unmarshal(text.Bytes(), &got); err != nil || len(got.New) != 1 {
		t.Fatalf("got %+v, %v", got, err)
	}
	if names := slices.Sorted(maps.Keys(got.New[0])); !slices.Equal(names, []string{"first", "key", "last", "offences"}) {
		t.Errorf("a new offender has the fields %q", names)
	}
}

func TestDocumentIsEscapedInEveryFormat(t *testing.T) {
	_, d := build(t, filepath.Join(t.TempDir(), "stint.db"), reports.Daily)
	d.Top[1].RefusedBy = "=cmd()"
	d.Rules = []reports.Rule{{Kind: "rule", Rule: "1/s", Keys: 1}, {Kind: "rule", Rule: "2/s", Keys: 2}}
	var text bytes.Buffer
	if err := reports.WriteJSON(&text, d); err != nil {
		t.Fatal(err)
	}
	var back reports.Document
	if err := json.Unmarshal(text.Bytes(), &back); err != nil || back.Top[1].Key != hostile {
		t.Errorf("the JSON reads back as %+v, %v", back.Top, err)
	}
	text.Reset()
	if err := reports.WriteCSV(&text, d); err != nil {
		t.Fatal(err)
	}
	rows, err := csv.NewReader(&text).ReadAll()
	if err != nil {
		t.Fatal(err)
	}
	found := false
	var keyCounts []string
	for _, row := range rows {
		if row[0] == "rules" {
			keyCounts = append(keyCounts, row[5])
		}
		found = found || row[0] == "top offenders" && row[1] == hostile && row[3] == "'=cmd()" && row[4] == "7"
	}
	if !found || len(keyCounts) < 2 || keyCounts[0] != "1 key" || keyCounts[1] != "2 keys" {
		t.Errorf("the CSV is %q", rows)
	}
	var page bytes.Buffer
	if err := reports.WriteHTML(&page, d); err != nil {
		t.Fatal(err)
	}
	html := page.String()
	for _, want := range []string{"Tue 3 Mar 2026", "token:=&lt;script&gt;", "[U&#43;202E]", "<polygon points=", "4.2 times", "800/1d of default"} {
		if !strings.Contains(html, want) {
			t.Errorf("the page does not contain %q", want)
		}
	}
	for _, bad := range []string{"<script", "http://", "https://", "ZgotmplZ", "src=", "\u202e"} {
		if strings.Contains(html, bad) {
			t.Errorf("the page contains %q", bad)
		}
	}
}
