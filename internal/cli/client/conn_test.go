package client

import (
	"context"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/iotest"

	"github.com/stint-dev/stint/internal/wire"
)

func TestUnreachableReportsChangesThatMayBeSaved(t *testing.T) {
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		conn, _, err := w.(http.Hijacker).Hijack()
		if err == nil {
			conn.Close()
		}
	}))
	c, err := New(server.URL, "", "")
	if err != nil {
		t.Fatal(err)
	}
	change := func() error {
		_, err := Call(t.Context(), c, wire.AddToken, wire.TokenRequest{Name: "ci"})
		return err
	}
	_, read := Items(t.Context(), c, wire.ListTokens, wire.TokenList{})
	_, check := c.Checks.Check(t.Context(), wire.CheckRequest{Key: "a"})
	sent := change()
	file := func() io.Reader { return strings.NewReader("192.0.2.1") }
	imported := func(dryRun bool) error {
		_, err := Upload(t.Context(), c, wire.ImportBlocks, wire.BlockImport{EntryImport: wire.EntryImport{DryRun: dryRun}}, file(), "text/plain")
		return err
	}
	profiles := func(dryRun bool) error {
		_, err := Upload(t.Context(), c, wire.ImportProfiles, wire.ProfileImportOf{DryRun: dryRun}, file(), "text/csv")
		return err
	}
	restore := func(dryRun bool) error {
		_, err := Upload(t.Context(), c, wire.RestoreBackup, wire.Restoration{DryRun: dryRun}, file(), wire.BackupType)
		return err
	}
	imports, profileImports, restores := imported(false), profiles(false), restore(false)
	wouldImport, wouldImportProfiles, wouldRestore := imported(true), profiles(true), restore(true)
	_, applies := Call(t.Context(), c, wire.ApplyPolicies, wire.PolicyApplication{})
	_, plan := Call(t.Context(), c, wire.PlanPolicies, wire.PolicyPlanOf{})
	_, explain := Call(t.Context(), c, wire.ExplainDraft, wire.PolicyDraft{Policy: "a"})
	_, try := Call(t.Context(), c, wire.TryPolicy, wire.PolicyTrialOf{Policy: "a"})
	_, backtest := Backtest(t.Context(), c, wire.PolicyRequest{Name: "a"}, "log", file())
	_, preview := Call(t.Context(), c, wire.PreviewBlock, wire.PreviewRequest{Pattern: "192.0.2.1"})
	_, report := c.Checks.Report(t.Context(), wire.OutcomeReport{Key: "a"})
	_, cancelled := c.Checks.Cancel(t.Context(), "a")
	server.Close()
	for name, test := range map[string]struct {
		err       error
		maybeDone bool
	}{
		"a change": {sent, true}, "a read": {read, false}, "a check": {check, false}, "a change that was not sent": {change(), false},
		"an import": {imports, true}, "an import of profiles": {profileImports, true}, "a restore": {restores, true}, "an apply": {applies, true},
		"a dry run of an import": {wouldImport, false}, "of profiles": {wouldImportProfiles, false}, "of a restore": {wouldRestore, false}, "a plan": {plan, false},
		"an explanation": {explain, false}, "a trial": {try, false}, "a backtest": {backtest, false}, "a preview": {preview, false},
		"a report": {report, false}, "a cancellation": {cancelled, false},
	} {
		var unreachable *Unreachable
		if !errors.As(test.err, &unreachable) || unreachable.MaybeDone != test.maybeDone || strings.Contains(test.err.Error(), "may have been saved") != test.maybeDone {
			t.Errorf("%s: got %v, want MaybeDone %v", name, test.err, test.maybeDone)
		}
	}
}

// TestInterruptedChangeMayBeSaved interrupts requests after the server has received them: the server
// continues with them.
func TestInterruptedChangeMayBeSaved(t *testing.T) {
	received := make(chan struct{})
	server := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body) // before that net/http does not see that the client has gone
		received <- struct{}{}
		<-r.Context().Done()
	}))
	defer server.Close()
	c, err := New(server.URL, "", "")
	if err != nil {
		t.Fatal(err)
	}
	interrupted := func(call func(ctx context.Context) error) error {
		ctx, interrupt := context.WithCancel(t.Context())
		go func() {
			<-received
			interrupt()
		}()
		return call(ctx)
	}
	change := interrupted(func(ctx context.Context) error {
		_, err := Call(ctx, c, wire.AddToken, wire.TokenRequest{Name: "ci"})
		return err
	})
	if !errors.Is(change, context.Canceled) || !strings.Contains(change.Error(), "may have been saved") {
		t.Errorf("an interrupted change: got %v", change)
	}
	read := interrupted(func(ctx context.Context) error {
		_, err := Items(ctx, c, wire.ListTokens, wire.TokenList{})
		return err
	})
	if !errors.Is(read, context.Canceled) || strings.Contains(read.Error(), "may have been saved") {
		t.Errorf("an interrupted read: got %v", read)
	}
}

// TestCutAnswerIsIncomplete reads an export that the server cuts.
func TestCutAnswerIsIncomplete(t *testing.T) {
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		_, _ = io.WriteString(w, "pattern,reason\n")
		_ = http.NewResponseController(w).Flush()
		panic(http.ErrAbortHandler)
	}))
	defer server.Close()
	c, err := New(server.URL, "", "")
	if err != nil {
		t.Fatal(err)
	}
	body, err := Open(t.Context(), c, wire.ExportBlocks, wire.BlockExport{})
	if err != nil {
		t.Fatal(err)
	}
	defer body.Close()
	if text, err := io.ReadAll(body); !errors.Is(err, io.ErrUnexpectedEOF) || !strings.HasPrefix(err.Error(), "the server's answer is incomplete: ") {
		t.Errorf("read %q, %v", text, err)
	}
}

// TestUnreadStreamChangesNothing sends what ends with an error: the server gets an incomplete
// request, from which it changes nothing.
func TestUnreadStreamChangesNothing(t *testing.T) {
	server := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		if _, err := io.Copy(io.Discard, r.Body); err == nil {
			t.Error("the server got a whole request")
		}
	}))
	defer server.Close()
	c, err := New(server.URL, "", "")
	if err != nil {
		t.Fatal(err)
	}
	broken := errors.New("input/output error")
	_, err = Upload(t.Context(), c, wire.ImportBlocks, wire.BlockImport{}, io.MultiReader(strings.NewReader("192.0.2.1\n"), iotest.ErrReader(broken)), "text/plain")
	if !errors.Is(err, broken) || errors.As(err, new(*Unreachable)) || strings.Contains(err.Error(), "may have been saved") {
		t.Errorf("a file that cannot be read: got %v", err)
	}
}
