package client

import (
	"context"
	"io"
	"mime/multipart"
	"net/http"
	"net/url"
	"strconv"

	"github.com/go-json-experiment/json"

	"github.com/stint-dev/stint/internal/wire"
)

// AnyState is the ETag for a change of a policy in any state.
const AnyState = "*"

// Policies manages policies and their versions.
type Policies struct{ conn *conn }

// Algorithms returns the algorithms that a policy can use.
func (p Policies) Algorithms(ctx context.Context) ([]wire.Algorithm, error) {
	return items[wire.Algorithm](ctx, p.conn, get(wire.PathAlgorithms))
}

// Presets returns the policy files that Stint ships.
func (p Policies) Presets(ctx context.Context) ([]wire.Preset, error) {
	return items[wire.Preset](ctx, p.conn, get(wire.PathPresets))
}

// PreviewPreset returns what the traps of a preset would have caught. last is the time range,
// the server's default if it is empty.
func (p Policies) PreviewPreset(ctx context.Context, name, last string) (*wire.PresetPreview, error) {
	r := get(wire.PathPresets + "/" + url.PathEscape(name) + "/preview").with(param("last", last))
	r.slow = true
	return call[wire.PresetPreview](ctx, p.conn, r)
}

// List returns the policies whose name or pattern contains search, all for "".
func (p Policies) List(ctx context.Context, search string) ([]wire.Policy, error) {
	return items[wire.Policy](ctx, p.conn, get(wire.PathPolicies).with(param("search", search)))
}

// Get returns the current version of a policy.
func (p Policies) Get(ctx context.Context, name string) (*wire.Policy, error) {
	return call[wire.Policy](ctx, p.conn, get(policyPath(name)))
}

// Put creates a policy if expect is empty, or replaces it if that is its ETag. A policy that
// newly refuses every request of a broad pattern needs its name as confirm.
func (p Policies) Put(ctx context.Context, policy wire.PolicyRequest, expect string, confirm string) (*wire.Policy, error) {
	return call[wire.Policy](ctx, p.conn, request{
		method: http.MethodPut, path: policyPath(policy.Name), query: param("confirm", confirm), header: ifMatch(expect), body: policy,
	})
}

// Delete deletes a policy if its ETag is expect. confirm is as in Put, for the policy that the
// keys then fall under.
func (p Policies) Delete(ctx context.Context, name string, expect string, confirm string) error {
	return p.conn.do(ctx, request{method: http.MethodDelete, path: policyPath(name), query: param("confirm", confirm), header: ifMatch(expect)}, nil)
}

// Versions returns the versions of a policy, newest first.
func (p Policies) Versions(ctx context.Context, name string) ([]wire.Policy, error) {
	return items[wire.Policy](ctx, p.conn, get(policyPath(name)+"/versions"))
}

// Rollback replaces a policy whose ETag is expect by an earlier version, the one before the
// newest for 0. confirm is as in Put.
func (p Policies) Rollback(ctx context.Context, name string, version int64, expect string, confirm string) (*wire.Policy, error) {
	return call[wire.Policy](ctx, p.conn, request{
		method: http.MethodPost, path: policyPath(name) + "/rollback", query: param("confirm", confirm), header: ifMatch(expect), body: wire.PolicyRollback{Version: version},
	})
}

// CompareDraft compares a policy with its draft.
func (p Policies) CompareDraft(ctx context.Context, name string) (*wire.DraftComparison, error) {
	return call[wire.DraftComparison](ctx, p.conn, get(policyPath(name)+"/draft"))
}

// Promote puts the draft of a policy, whose ETag is expect, in force. confirm is as in Put.
func (p Policies) Promote(ctx context.Context, name, expect, confirm string) (*wire.Policy, error) {
	return call[wire.Policy](ctx, p.conn, request{method: http.MethodPost, path: policyPath(name) + "/promote", query: param("confirm", confirm), header: ifMatch(expect)})
}

// Rename renames a policy whose ETag is expect.
func (p Policies) Rename(ctx context.Context, name, to, expect string) (*wire.Policy, error) {
	return call[wire.Policy](ctx, p.conn, request{method: http.MethodPost, path: policyPath(name) + "/rename", header: ifMatch(expect), body: wire.PolicyRename{Name: to}})
}

// applyQuery returns the parameters of a plan and of its application.
func applyQuery(prune, shadow bool) url.Values {
	return url.Values{"prune": {strconv.FormatBool(prune)}, "shadow": {strconv.FormatBool(shadow)}}
}

// Diff compares two versions of a policy. from is 0 for no policy, before the first version.
func (p Policies) Diff(ctx context.Context, name string, from, to int64) (*wire.PolicyDiff, error) {
	query := url.Values{"from": {strconv.FormatInt(from, 10)}, "to": {strconv.FormatInt(to, 10)}}
	return call[wire.PolicyDiff](ctx, p.conn, get(policyPath(name)+"/diff").with(query))
}

// Explain says in words what a policy does.
func (p Policies) Explain(ctx context.Context, name string) (*wire.PolicyExplanation, error) {
	return call[wire.PolicyExplanation](ctx, p.conn, get(policyPath(name)+"/explain"))
}

// ExplainDraft says in words what a policy would do, and what saving it would change.
func (p Policies) ExplainDraft(ctx context.Context, draft wire.PolicyRequest) (*wire.PolicyExplanation, error) {
	return call[wire.PolicyExplanation](ctx, p.conn, ask(policyPath(draft.Name)+"/explain", draft))
}

// Try replays recorded traffic through a policy that is not saved. last is the time range, the
// server's default if it is empty.
func (p Policies) Try(ctx context.Context, draft wire.PolicyRequest, last string) (*wire.PolicyTrial, error) {
	r := ask(policyPath(draft.Name)+"/try", draft).with(param("last", last))
	r.slow = true
	return call[wire.PolicyTrial](ctx, p.conn, r)
}

// Backtest replays an access log through a policy that is not saved. name is the name of the
// log in errors.
func (p Policies) Backtest(ctx context.Context, draft wire.PolicyRequest, name string, log io.Reader) (*wire.PolicyTrial, error) {
	from, into := io.Pipe()
	defer from.Close() // ends the writer
	form := multipart.NewWriter(into)
	go func() { into.CloseWithError(writeTrial(form, draft, name, log)) }()
	return call[wire.PolicyTrial](ctx, p.conn, request{
		method: http.MethodPost, path: policyPath(draft.Name) + "/backtest", stream: from, media: form.FormDataContentType(), slow: true, readOnly: true,
	})
}

func writeTrial(form *multipart.Writer, draft wire.PolicyRequest, name string, log io.Reader) error {
	text, err := json.Marshal(draft)
	if err == nil {
		err = form.WriteField("policy", string(text))
	}
	if err != nil {
		return err
	}
	part, err := form.CreateFormFile("log", name)
	if err != nil {
		return err
	}
	if _, err := io.Copy(part, log); err != nil {
		return err
	}
	return form.Close()
}

// Export returns all policies as a file in a format, json or yaml. The caller closes it.
func (p Policies) Export(ctx context.Context, format string) (io.ReadCloser, error) {
	return p.conn.openBody(ctx, get(wire.PathPolicySet).with(param("format", format)))
}

// Plan returns what Apply would change. It changes nothing.
func (p Policies) Plan(ctx context.Context, file wire.PolicyFileRequest, prune, shadow bool) (*wire.PolicyPlan, error) {
	return call[wire.PolicyPlan](ctx, p.conn, ask(wire.PathPolicySet+"/plan", file).with(applyQuery(prune, shadow)))
}

// Apply makes the policies equal to a file, all or nothing. Policies that newly refuse
// every request of a broad pattern need confirm.
func (p Policies) Apply(ctx context.Context, file wire.PolicyFileRequest, prune, shadow bool, confirm string) (*wire.PolicyPlan, error) {
	query := applyQuery(prune, shadow)
	if confirm != "" {
		query.Set("confirm", confirm)
	}
	return call[wire.PolicyPlan](ctx, p.conn, post(wire.PathPolicySet, file).with(query))
}

func policyPath(name string) string { return wire.PathPolicies + "/" + url.PathEscape(name) }

// ifMatch returns the header that names the state to replace: none for "", and any for
// AnyState.
func ifMatch(expect string) map[string]string {
	if expect == "" {
		return nil
	}
	return map[string]string{wire.IfMatch: quotedTag(expect)}
}
