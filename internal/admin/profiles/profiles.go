// Package profiles contains the use cases of the profiles of keys: plans, labels, notes and own
// limits, one by one and from files.
package profiles

import (
	"context"
	"errors"
	"io"
	"strings"
	"time"

	"github.com/stint-dev/stint/internal/admin"
	"github.com/stint-dev/stint/internal/etag"
	"github.com/stint-dev/stint/internal/fault"
	"github.com/stint-dev/stint/internal/keys"
	"github.com/stint-dev/stint/internal/paging"
	"github.com/stint-dev/stint/internal/profilelist"
	"github.com/stint-dev/stint/internal/profiles"
	"github.com/stint-dev/stint/internal/rules"
	"github.com/stint-dev/stint/internal/wire"
)

// Profiles is the use case of the profiles of keys: plans, labels, notes and own limits.
type Profiles struct {
	View  View
	Store profiles.Store
	Now   func() time.Time
}

// View is the node's copy of the policies and of the settings for parsing keys.
type View interface {
	Parser() keys.Parser
	Selector() *rules.Selector
}

// The formats of files of keys.
const (
	CSV  = profilelist.CSV
	JSON = profilelist.JSON
)

// DetectFormat returns a file's format by its name or, if the name is inconclusive, by its
// first bytes.
func DetectFormat(name string, head []byte) admin.FileFormat { return profilelist.Detect(name, head) }

// SplitLabels splits a text into labels, separated by spaces, commas or semicolons.
func SplitLabels(text string) []string { return profilelist.SplitLabels(text) }

func (u *Profiles) parse(text string) (string, error) {
	k, err := fault.ReadKey(admin.FilterReading(u.View), "key", text)
	return k.String(), err
}

// profileFault converts an error of a field of a profile to a fault.
func profileFault(err error) error {
	var wrong *profiles.FieldError
	if errors.As(err, &wrong) {
		return fault.Field(wrong.Field, "%s", wrong.Problem)
	}
	return err
}

// Find returns the profile of a key. The error is a NotFound fault if there is none.
func (u *Profiles) Find(ctx context.Context, key string) (*profiles.Profile, error) {
	parsed, err := u.parse(key)
	if err != nil {
		return nil, err
	}
	p, err := u.Store.FindProfile(ctx, parsed)
	if err == nil && p == nil {
		err = fault.New(fault.NotFound, "The key %q has no plan, labels, note or limit.", parsed)
	}
	return p, err
}

// FindByKeys returns the existing profiles of canonical keys.
func (u *Profiles) FindByKeys(ctx context.Context, all []string) (map[string]*profiles.Profile, error) {
	found, err := u.Store.FindProfilesByKey(ctx, all)
	byKey := make(map[string]*profiles.Profile, len(found))
	for _, p := range found {
		byKey[p.Key] = p
	}
	return byKey, err
}

// List returns one page of profiles.
func (u *Profiles) List(ctx context.Context, f profiles.Filter) (paging.Page[*profiles.Profile], error) {
	f.At = u.Now()
	return u.Store.FindProfiles(ctx, f)
}

// PlanUse is the number of keys with a plan, and the policy that selects keys by the plan.
type PlanUse struct {
	profiles.PlanCount
	Policy string // "" for none
}

// Plans returns the use of each plan, the one with the most keys first.
func (u *Profiles) Plans(ctx context.Context) ([]PlanUse, error) {
	counts, err := u.Store.CountPlans(ctx)
	if err != nil {
		return nil, err
	}
	selector := u.View.Selector()
	all := make([]PlanUse, len(counts))
	for i, count := range counts {
		all[i].PlanCount = count
		all[i].Policy = policyOf(selector, count.Plan)
	}
	return all, nil
}

// policyOf returns the policy that selects keys by a plan, "" for none.
func policyOf(selector *rules.Selector, plan string) string {
	who := rules.Subject{Plan: plan}
	by, _ := selector.Matched(who)
	if policy, _ := selector.Select(who); policy != nil && rules.IsPlan(by) {
		return policy.Name
	}
	return ""
}

// Put replaces the plan, the labels and the note of a key whose profile has the ETag of the
// request. It keeps the limit.
func (u *Profiles) Put(ctx context.Context, by admin.Caller, r wire.ProfileRequest) (*profiles.Profile, error) {
	parsed, err := u.parse(r.Key)
	if err != nil {
		return nil, err
	}
	p := profiles.Profile{Key: parsed, Plan: r.Plan, Labels: r.Labels, Note: r.Note}
	if err := p.Normalize(); err != nil {
		return nil, profileFault(err)
	}
	if p.IsZero() {
		return nil, fault.Field("plan", "is missing, and so are labels and note; send one of them, or delete the profile of the key")
	}
	return u.Store.PutProfile(ctx, by.Actor, p, etag.Tag(r.IfMatch))
}

// Delete deletes the profile of a key, including its limit, if it has the ETag of the request.
func (u *Profiles) Delete(ctx context.Context, by admin.Caller, r wire.DeleteProfileRequest) (wire.None, error) {
	parsed, err := u.parse(r.Key)
	if err != nil {
		return wire.None{}, err
	}
	_, err = u.Store.DeleteProfile(ctx, by.Actor, parsed, etag.Tag(r.IfMatch))
	return wire.None{}, err
}

// SetLimit sets or replaces the own limit of a key. Until it expires or is ended, its rules
// replace those of the key's policy.
func (u *Profiles) SetLimit(ctx context.Context, by admin.Caller, r wire.OwnLimitRequest) (*profiles.Profile, error) {
	parsed, err := u.parse(r.Key)
	if err != nil {
		return nil, err
	}
	now := u.Now()
	l := &profiles.Limit{Reason: r.Reason}
	if l.Expires, err = admin.ExpiryOf(r.ExpiresIn, r.ExpiresAt).At(now); err != nil {
		return nil, err
	}
	if l.Rules, err = rules.ParseStack(r.Rules); err != nil {
		return nil, fault.Field("rules", "are wrong: %s", err)
	}
	if err := l.Check(now); err != nil {
		return nil, profileFault(err)
	}
	return u.Store.PutLimit(ctx, by.Actor, parsed, l)
}

// EndLimit ends a key's own limit.
func (u *Profiles) EndLimit(ctx context.Context, by admin.Caller, r wire.EndLimitRequest) (*profiles.Profile, error) {
	parsed, err := u.parse(r.Key)
	if err != nil {
		return nil, err
	}
	if err := fault.CheckLine("reason", r.Reason, profiles.MaxReason); err != nil {
		return nil, err
	}
	return u.Store.EndLimit(ctx, by.Actor, parsed, strings.TrimSpace(r.Reason))
}

// Export writes the profiles that a filter selects in the format of Import. It reads page by
// page, so that a slow reader keeps no transaction open.
func (u *Profiles) Export(ctx context.Context, w io.Writer, f profiles.Filter, format admin.FileFormat) error {
	out := profilelist.NewWriter(w, format)
	f.Limit, f.Cursor, f.Uncounted = 1000, "", true
	for {
		page, err := u.List(ctx, f)
		if err != nil {
			return err
		}
		for _, p := range page.Items {
			if err := out.Write(p, u.Now()); err != nil {
				return err
			}
		}
		if f.Cursor = page.Next; f.Cursor == "" {
			return out.Close()
		}
	}
}
