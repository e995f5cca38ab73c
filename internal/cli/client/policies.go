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

// Policies calls the operations that take policies.
type Policies struct{ conn *conn }

// Put creates a policy if expect is empty, or replaces it if that is its ETag. A policy that
// newly refuses every request of a broad pattern needs its name as confirm.
func (p Policies) Put(ctx context.Context, policy wire.PolicyRequest, expect string, confirm string) (*wire.Policy, error) {
	return call[wire.Policy](ctx, p.conn, request{
		method: http.MethodPut, path: policyPath(policy.Name), query: param("confirm", confirm), header: ifMatch(expect), body: policy,
	})
}

// applyQuery returns the parameters of a plan and of its application.
func applyQuery(prune, shadow bool) url.Values {
	return url.Values{"prune": {strconv.FormatBool(prune)}, "shadow": {strconv.FormatBool(shadow)}}
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
