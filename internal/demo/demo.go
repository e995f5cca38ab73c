// Package demo plays a shop with its clients, for people who want to see Stint at work before they
// connect anything: visitors, an office, crawlers, customers of an API, teams that ask a language
// model, and those who attack it. Fill plays what was before, Run goes on from there.
package demo

import (
	"bytes"
	"container/heap"
	"context"
	_ "embed"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"slices"
	"sync/atomic"
	"time"

	"github.com/stint-dev/stint/internal/admin"
	"github.com/stint-dev/stint/internal/answers"
	"github.com/stint-dev/stint/internal/audit"
	"github.com/stint-dev/stint/internal/blocks"
	"github.com/stint-dev/stint/internal/catalog"
	"github.com/stint-dev/stint/internal/conditions"
	"github.com/stint-dev/stint/internal/etag"
	"github.com/stint-dev/stint/internal/gate"
	"github.com/stint-dev/stint/internal/keys"
	"github.com/stint-dev/stint/internal/offences"
	"github.com/stint-dev/stint/internal/policyfile"
	"github.com/stint-dev/stint/internal/presets"
	"github.com/stint-dev/stint/internal/profiles"
	"github.com/stint-dev/stint/internal/recorder"
	"github.com/stint-dev/stint/internal/rules"
	"github.com/stint-dev/stint/internal/sqlstore"
	"github.com/stint-dev/stint/internal/supervise"
	"github.com/stint-dev/stint/internal/timestamplog/memlog"
)

// MaxHistory is how long before the live traffic the demo begins at most.
const MaxHistory = 24 * time.Hour

//go:embed policies.yaml
var policies []byte

// Policies returns those of the demo: of the presets for a web site with logins, and its own.
func Policies() ([]*rules.Policy, error) {
	all := presets.Set{"website", "traps", "login", "ai-crawlers"}.Policies()
	own, err := policyfile.Read(bytes.NewReader(policies), "policies.yaml")
	if err != nil {
		return nil, err
	}
	for _, request := range own {
		policy, err := policyfile.Policy(request)
		if err != nil {
			return nil, err
		}
		all = append(all, policy)
	}
	return all, nil
}

// Demo is the demo's clients, and what they have not done yet. See Fill.
type Demo struct {
	began    time.Time // a whole minute, from which attacks are planned
	next     time.Time // the first minute whose requests are not waiting yet
	outcomes answers.Outcomes
	waiting  queue
	parser   keys.Parser
}

// Files are what Fill writes: the database and the snapshot of the logs of an embedded node.
type Files struct{ Database, Snapshot string }

// Fill makes a new database with the demo's policies and plays into it what was until the present. first
// creates its first credentials. The clients of the Demo that it returns go on with Run.
func Fill(ctx context.Context, f Files, now func() time.Time, history time.Duration, first func(context.Context, *sqlstore.Store) error) (*Demo, error) {
	site, err := answers.NewSite(nil)
	if err != nil {
		return nil, err
	}
	d := &Demo{began: now().Truncate(time.Minute), outcomes: answers.DefaultOutcomes(site)}
	p := &past{}
	p.now.Store(d.began.Add(-history).UnixNano())
	if p.store, err = sqlstore.New(f.Database, sqlstore.Options{Now: p.clock, AfterChange: p.refresh}); err != nil {
		return nil, err
	}
	if err = p.build(ctx, first); err == nil {
		err = p.play(ctx, d, now, f.Snapshot)
	}
	return d, errors.Join(err, p.store.Close())
}

// past is a node whose clock is that of the requests.
type past struct {
	now       atomic.Int64 // Unix nanoseconds
	store     *sqlstore.Store
	catalog   *catalog.Catalog
	log       *memlog.Log
	gate      *gate.Gate
	flusher   *recorder.Flusher
	attacks   *admin.AttackWatch
	escalated bool
}

func (p *past) clock() time.Time { return time.Unix(0, p.now.Load()).UTC() }

// build makes the node on the new database.
func (p *past) build(ctx context.Context, first func(context.Context, *sqlstore.Store) error) (err error) {
	if p.store.FirstPolicies, err = Policies(); err != nil {
		return err
	}
	if err := p.store.Prepare(ctx); err != nil {
		return err
	}
	if err := first(ctx, p.store); err != nil {
		return err
	}
	p.catalog = catalog.New(p.store, p.clock)
	if err := p.catalog.Refresh(ctx); err != nil {
		return err
	}
	const node = "demo"
	secret := func() []byte { return p.catalog.Settings().Secret }
	counter := recorder.NewRecorder(recorder.Options{Secret: secret, Node: node})
	p.flusher = recorder.NewFlusher(recorder.FlusherOptions{
		Recorder: counter, Sink: p.store.Offences, Node: node, Secret: secret, Now: p.clock, Log: slog.New(slog.DiscardHandler),
		Escalations: func() map[int64]offences.EscalationPolicy {
			return offences.EscalationsOf(p.catalog.Selector().Policies())
		},
		OnEscalation: func([]offences.EscalationEvent) { p.escalated = true },
	})
	p.log = memlog.New(memlog.Options{Now: p.clock})
	p.gate = gate.New(gate.Options{View: p.catalog, Log: p.log, Now: p.clock, Recorder: counter, Reports: counter})
	entries := &admin.Entries{Store: p.store.Entries, View: p.catalog, Offences: p.store.Offences, Now: p.clock}
	proposals := &admin.Proposals{Store: p.store.Proposals, Offences: p.store.Offences, Entries: entries, View: p.catalog, Now: p.clock}
	p.attacks = &admin.AttackWatch{Holder: node, Announce: func(context.Context, admin.AttackNews) {},
		Detection: &admin.Detection{Store: p.store.Offences, Attacks: p.store.Attacks, Lists: p.store.BlockSources, Policies: p.store.Policies, Proposals: proposals, View: p.catalog, Requests: counter, Secret: secret, Now: p.clock}}
	return p.operate(ctx)
}

func (p *past) refresh(ctx context.Context) error {
	if p.catalog == nil { // what comes first
		return nil
	}
	return p.catalog.Refresh(ctx)
}

// operate does what an operator has done by hand.
func (p *past) operate(ctx context.Context) error {
	by := audit.Actor{Kind: audit.User, Name: "maria"}
	for _, e := range []blocks.Entry{
		{Kind: blocks.Exemption, Reason: "Our own monitoring"},
		{Kind: blocks.Block, Reason: "Leaked in a public repository, owner informed"},
	} {
		text := map[blocks.Kind]string{blocks.Exemption: "ip:192.0.2.5", blocks.Block: "key:old-partner"}[e.Kind]
		pattern, err := p.catalog.Parser().Pattern(text)
		if err != nil {
			return err
		}
		e.Pattern, e.Author, e.Source = pattern, by.Name, blocks.Manual
		if _, err := p.store.Entries.Add(ctx, by, blocks.Fail, e); err != nil {
			return err
		}
	}
	_, err := p.store.Profiles.PutProfile(ctx, by, profiles.Profile{Key: "key:acme", Plan: "gold", Labels: []string{"eu"}, Note: "Renews in March"}, etag.Any)
	return err
}

// play plays the past up to now, and saves the logs.
func (p *past) play(ctx context.Context, d *Demo, now func() time.Time, snapshot string) error {
	d.parser, d.next = p.catalog.Parser(), p.clock()
	for isOver := false; !isOver; {
		minute := d.next
		d.arrive()
		end := d.next
		if present := now(); !present.After(end) {
			end, isOver = present, true
		}
		for len(d.waiting) > 0 && d.waiting[0].At.Before(end) {
			r := heap.Pop(&d.waiting).(*request)
			p.now.Store(r.At.UnixNano())
			if err := d.do(ctx, p.gate, r); err != nil {
				return err
			}
		}
		p.now.Store(end.UnixNano())
		if quiet := !isAttacked(minute, d.began); quiet && !isOver && end.Minute()%5 != 0 {
			continue // a node writes each second, which would take minutes here
		}
		if err := p.write(ctx); err != nil {
			return err
		}
	}
	if err := p.flusher.Close(ctx); err != nil {
		return err
	}
	return p.log.SaveFile(snapshot)
}

// write writes what was counted, and looks whether there is an attack.
func (p *past) write(ctx context.Context) error {
	if err := p.flusher.Flush(ctx); err != nil {
		return err
	}
	if p.escalated {
		p.escalated = false
		if err := p.catalog.Refresh(ctx); err != nil {
			return err
		}
	}
	return p.attacks.Look(ctx)
}

// Run plays the clients against a gate as time goes on, until ctx ends. What they did while the
// process slept is left out.
func (d *Demo) Run(ctx context.Context, g *gate.Gate, log *slog.Logger) {
	for {
		for !d.next.After(time.Now()) {
			d.arrive()
		}
		next := d.next
		if len(d.waiting) > 0 && d.waiting[0].At.Before(next) {
			next = d.waiting[0].At
		}
		if supervise.Sleep(ctx, time.Until(next)) != nil {
			return
		}
		if next == d.next {
			continue
		}
		r := heap.Pop(&d.waiting).(*request)
		if time.Since(r.At) > time.Minute {
			continue
		}
		if err := d.do(ctx, g, r); err != nil && ctx.Err() == nil {
			log.Warn("a client of the demo has failed", "error", err)
		}
	}
}

// arrive adds the requests of the next minute.
func (d *Demo) arrive() {
	arrivals(d.next, d.began, func(r request) { heap.Push(&d.waiting, &r) })
	d.next = d.next.Add(time.Minute)
}

// do makes one request: it asks the gate, and if it may pass, reports what the site answered.
func (d *Demo) do(ctx context.Context, g *gate.Gate, r *request) error {
	if r.Handle != "" {
		_, err := g.Settle(ctx, r.Handle, int64(r.Used))
		return err
	}
	address, err := d.parser.Key("ip:" + r.Address)
	if err != nil {
		return err
	}
	about := conditions.NewRequest(r.Path, r.method(), r.Agent, site)
	check := gate.Check{Key: address, Request: about, Source: "demo"}
	if r.Key != "" {
		if check.Key, err = d.parser.Key(r.Key); err != nil {
			return err
		}
		check.Client, check.Cost = address, r.Estimate
	}
	answer, err := g.Check(ctx, check)
	if err != nil || !answer.Allowed() {
		return err
	}
	if answer.Hold.Handle != "" {
		heap.Push(&d.waiting, &request{At: r.At.Add(r.Took), Handle: answer.Hold.Handle, Used: r.Used})
	}
	counted := []keys.Key{check.Key}
	if r.Account != "" {
		allowed, logins, err := d.logIn(ctx, g, r)
		if err != nil || !allowed {
			return err
		}
		counted = append(counted, logins...)
	}
	return d.report(ctx, g, r, about, counted)
}

// logIn asks about a login as an application does: by its address and its account at once.
func (d *Demo) logIn(ctx context.Context, g *gate.Gate, r *request) (allowed bool, counted []keys.Key, err error) {
	var checks []gate.Check
	for _, text := range []string{"login:" + r.Address, "account:" + r.Account} {
		key, err := d.parser.Key(text)
		if err != nil {
			return false, nil, err
		}
		checks, counted = append(checks, gate.Check{Key: key, Source: "demo"}), append(counted, key)
	}
	answer, err := g.DecideAll(ctx, checks)
	return err == nil && answer.Allowed(), counted, err
}

// report reports the outcomes of what the site answered, as "follow" would. counted are the request's
// key and those of its login.
func (d *Demo) report(ctx context.Context, g *gate.Gate, r *request, about *conditions.Request, counted []keys.Key) error {
	answer := answers.Answer{Time: r.At.UnixMilli(), Key: counted[0], Path: r.Path, Method: r.method(), Status: r.status()}
	d.outcomes.Learn(&answer)
	var values map[string]string
	if r.Account != "" {
		values = map[string]string{"account": r.Account}
	}
	var reports []gate.Report
	for _, name := range d.outcomes.Append(nil, &answer) {
		for i, key := range counted {
			if isLogin := name == "login_failed" || name == "login_ok"; i == 0 || isLogin {
				reports = append(reports, gate.Report{Key: key, Outcome: name, Request: about, Values: values, Source: "demo"})
			}
		}
	}
	if len(reports) == 0 {
		return nil
	}
	return g.Report(ctx, reports, make([]gate.Reported, len(reports)))
}

func (r *request) method() string {
	if r.Method == "" {
		return http.MethodGet
	}
	return r.Method
}

func (r *request) status() int {
	if r.Status == 0 {
		return http.StatusOK
	}
	return r.Status
}

// queue is a heap of requests by time.
type queue []*request

func (q queue) Len() int           { return len(q) }
func (q queue) Less(i, j int) bool { return q[i].At.Before(q[j].At) }
func (q queue) Swap(i, j int)      { q[i], q[j] = q[j], q[i] }
func (q *queue) Push(x any)        { *q = append(*q, x.(*request)) }
func (q *queue) Pop() any {
	last := len(*q) - 1
	r := (*q)[last]
	*q = slices.Delete(*q, last, last+1)
	return r
}

// Welcome writes what a person who starts the demo must know.
func Welcome(out io.Writer, pages, token string) {
	fmt.Fprintf(out, "\nThe demo protects a shop with made-up clients. Open %s: nobody on this machine is asked for a password.\nThe command line works too:  export STINT_ADMIN_TOKEN=%s\nCtrl-C ends the demo and deletes all of it.\n", pages, token)
}
