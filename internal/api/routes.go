package api

import (
	"errors"
	"fmt"
	"net/http"
	"runtime/debug"

	"github.com/gofiber/fiber/v2"

	v1 "github.com/stint-dev/stint/internal/api/v1"
	"github.com/stint-dev/stint/internal/audit"
	"github.com/stint-dev/stint/internal/httpserver"
	"github.com/stint-dev/stint/internal/identity"
)

// Listener is where a route is reached.
type Listener int

// The listeners.
const (
	Admin  Listener = iota // what operators use
	Checks                 // what clients use
)

// Handler answers one request. An error becomes a problem.
type Handler func(c *Call) error

// Route is one row of the table of all routes: who may do what is said here
// and nowhere else.
type Route struct {
	Listener Listener
	Method   string
	Path     string // fiber's, for example /v1/blocks/:id
	// Access is the least that a role or scope must give.
	Access  identity.Access
	Handler Handler
	// Failed answers an error where a problem would not do, for pages; nil
	// otherwise.
	Failed func(c *Call, err error) error
	// Operation describes the route in openapi.json, nil to leave it out.
	Operation *Operation
}

// table returns every route of the REST API.
func (s *Server) table() []Route {
	const (
		get, post, put, patch, del = http.MethodGet, http.MethodPost, http.MethodPut, http.MethodPatch, http.MethodDelete
		policy                     = v1.PathPolicies + "/:name"
		block                      = v1.PathBlocks + "/:id"
		exemption                  = v1.PathExemptions + "/:id"
		token                      = v1.PathTokens + "/:id"
		user                       = v1.PathUsers + "/:id"
		proposal                   = v1.PathProposals + "/:id"
	)
	return []Route{
		{Checks, post, v1.PathCheck, identity.Check, s.handleCheck, nil, opCheck},
		{Checks, post, v1.PathBatch, identity.Check, s.handleBatch, nil, opBatch},
		{Checks, del, v1.PathReservations + "/:handle", identity.Check, s.cancelReservation, nil, opGiveBack},
		{Checks, get, "/livez", identity.Public, s.handleLive, nil, nil},
		{Checks, get, "/readyz", identity.Public, s.handleReady, nil, nil},

		{Admin, get, "/livez", identity.Public, s.handleLive, nil, opLive},
		{Admin, get, "/readyz", identity.Public, s.handleReady, nil, opReady},
		{Admin, get, "/openapi.json", identity.Public, s.handleOpenAPI, nil, nil},
		{Admin, get, v1.PathNodes, identity.Read, s.listNodes, nil, opListNodes},
		{Admin, get, v1.PathWhoami, identity.Read, s.handleWhoami, nil, opWhoami},

		{Admin, get, v1.PathAlgorithms, identity.Read, s.listAlgorithms, nil, opListAlgorithms},
		{Admin, get, v1.PathPolicies, identity.Read, s.listPolicies, nil, opListPolicies},
		{Admin, get, policy, identity.Read, s.getPolicy, nil, opGetPolicy},
		{Admin, get, policy + "/versions", identity.Read, s.listPolicyVersions, nil, opPolicyVersions},
		{Admin, put, policy, identity.Admin, s.putPolicy, nil, opPutPolicy},
		{Admin, del, policy, identity.Admin, s.deletePolicy, nil, opDeletePolicy},

		{Admin, get, v1.PathBlocks, identity.Read, s.listBlocks, nil, opListBlocks},
		{Admin, post, v1.PathBlocks, identity.Operate, s.addBlock, nil, opAddBlock},
		{Admin, get, block, identity.Read, s.getBlock, nil, opGetBlock},
		{Admin, patch, block, identity.Operate, s.changeBlock, nil, opChangeBlock},
		{Admin, del, block, identity.Operate, s.liftBlock, nil, opLiftBlock},

		{Admin, get, v1.PathExemptions, identity.Read, s.listExemptions, nil, opListExemptions},
		{Admin, post, v1.PathExemptions, identity.Operate, s.addExemption, nil, opAddExemption},
		{Admin, get, exemption, identity.Read, s.getExemption, nil, opGetExemption},
		{Admin, patch, exemption, identity.Operate, s.changeExemption, nil, opChangeExemption},
		{Admin, del, exemption, identity.Operate, s.removeExemption, nil, opRemoveExemption},

		{Admin, get, v1.PathKeys, identity.Read, s.explainKey, nil, opExplainKey},
		{Admin, del, v1.PathKeys, identity.Operate, s.resetKey, nil, opResetKey},
		{Admin, get, v1.PathNotes, identity.Read, s.listNotes, nil, opListNotes},
		{Admin, post, v1.PathNotes, identity.Operate, s.addNote, nil, opAddNote},
		{Admin, del, v1.PathNotes + "/:id", identity.Operate, s.deleteNote, nil, opDeleteNote},

		{Admin, get, v1.PathTokens, identity.Admin, s.listTokens, nil, opListTokens},
		{Admin, post, v1.PathTokens, identity.Admin, s.addToken, nil, opAddToken},
		{Admin, get, token, identity.Admin, s.getToken, nil, opGetToken},
		{Admin, patch, token, identity.Admin, s.changeToken, nil, opChangeToken},
		{Admin, post, token + "/rotate", identity.Admin, s.rotateToken, nil, opRotateToken},
		{Admin, del, token, identity.Admin, s.revokeToken, nil, opRevokeToken},

		{Admin, get, v1.PathUsers, identity.Admin, s.listUsers, nil, opListUsers},
		{Admin, post, v1.PathUsers, identity.Admin, s.addUser, nil, opAddUser},
		{Admin, get, user, identity.Admin, s.getUser, nil, opGetUser},
		{Admin, patch, user, identity.Admin, s.changeUser, nil, opChangeUser},
		{Admin, put, user + "/password", identity.Admin, s.setPassword, nil, opSetPassword},
		{Admin, del, user, identity.Admin, s.deleteUser, nil, opDeleteUser},

		{Admin, get, v1.PathAudit, identity.Read, s.listAudit, nil, opListAudit},
		{Admin, get, v1.PathAudit + "/export", identity.Read, s.exportAudit, nil, opExportAudit},
		{Admin, get, v1.PathAudit + "/verify", identity.Read, s.verifyAudit, nil, opVerifyAudit},
		{Admin, get, v1.PathAudit + "/:id", identity.Read, s.getAuditEntry, nil, opGetAudit},

		{Admin, get, v1.PathOffenders, identity.Read, s.listOffenders, nil, opListOffenders},
		{Admin, get, v1.PathOffenders + "/export", identity.Read, s.exportOffenders, nil, opExportOffenders},
		{Admin, get, v1.PathOffenders + "/timeline", identity.Read, s.keyTimeline, nil, opKeyTimeline},
		{Admin, get, v1.PathOffences + "/:id", identity.Read, s.getOffence, nil, opGetOffence},
		{Admin, get, v1.PathTraffic, identity.Read, s.getTraffic, nil, opGetTraffic},
		{Admin, get, v1.PathTraffic + "/rules", identity.Read, s.getRuleTotals, nil, opRuleTotals},
		{Admin, get, v1.PathEscalations + "/events", identity.Read, s.listEscalationEvents, nil, opEscalationEvents},
		{Admin, get, v1.PathEscalations + "/paused", identity.Read, s.listEscalationPauses, nil, opEscalationPauses},
		{Admin, post, v1.PathEscalations + "/:name/resume", identity.Operate, s.resumeEscalation, nil, opResumeEscalation},
		{Admin, get, v1.PathProposals, identity.Read, s.listProposals, nil, opListProposals},
		{Admin, get, proposal, identity.Read, s.getProposal, nil, opGetProposal},
		{Admin, post, proposal + "/accept", identity.Operate, s.acceptProposal, nil, opAcceptProposal},
		{Admin, post, proposal + "/dismiss", identity.Operate, s.dismissProposal, nil, opDismissProposal},

		{Admin, get, v1.PathReports, identity.Read, s.listReports, nil, opListReports},
		{Admin, post, v1.PathReports, identity.Operate, s.writeReport, nil, opWriteReport},
		{Admin, get, v1.PathReports + "/:id", identity.Read, s.getReport, nil, opGetReport},

		{Admin, get, v1.PathBackup, identity.Admin, s.handleBackup, nil, opBackup},
		{Admin, post, v1.PathRestore, identity.Admin, s.handleRestore, nil, opRestore},
	}
}

// register puts every row of the table on its application.
func (s *Server) register() {
	taken := map[string]bool{}
	streams := map[string]bool{}
	for _, name := range append(ownStreams, s.Streams...) {
		streams[name] = true
	}
	for i := range s.routes {
		r := &s.routes[i]
		name := fmt.Sprint(r.Listener, r.Method, r.Path)
		if taken[name] {
			panic("two routes claim " + r.Method + " " + r.Path)
		}
		taken[name] = true
		app := s.admin
		if r.Listener == Checks {
			app = s.check
		}
		handler := s.handle(r, streams[r.Method+" "+r.Path])
		delete(streams, r.Method+" "+r.Path)
		app.Add(r.Method, r.Path, handler)
		if r.Method == http.MethodGet {
			app.Add(http.MethodHead, r.Path, handler)
		}
	}
	for name := range streams {
		panic("no route " + name + " could stream its body")
	}
}

// ownStreams are the routes of the table whose handlers read their body as it
// arrives.
var ownStreams = []string{http.MethodPost + " " + v1.PathBlockImport, http.MethodPost + " " + v1.PathRestore}

// hostsOf returns the names under which a row is answered, nil for any. Probes
// are answered under any name: they tell nothing, and load balancers use their
// own.
func (s *Server) hostsOf(r *Route) *httpserver.AllowedHosts {
	switch {
	case r.Path == "/livez" || r.Path == "/readyz":
		return nil
	case r.Listener == Checks:
		return s.CheckHosts
	}
	return s.AdminHosts
}

// handle wraps a row: who asks, may they, and what becomes of errors and
// panics. Unless the row streams, its handler gets a body that has come whole
// and is bounded.
func (s *Server) handle(r *Route, streams bool) fiber.Handler {
	hosts := s.hostsOf(r)
	return func(fc *fiber.Ctx) (err error) {
		c := s.calls.Get().(*Call)
		defer s.release(c)
		c.Ctx, c.server = fc, s
		defer func() { s.logAccess(c, r) }()
		defer func() {
			if cause := recover(); cause != nil {
				err = fmt.Errorf("panic: %v\n%s", cause, debug.Stack())
			}
			if err != nil {
				err = s.failed(c, r, err)
			}
		}()
		c.Address = s.Clients.Of(fc.Context())
		c.RequestID = takeRequestID(fc)
		c.setHeader(requestIDHeader, append(c.header[:0], c.RequestID...))
		c.setHeader(cacheControlHeader, noStore)
		c.setHeader(contentTypeOptionsHeader, noSniff)
		err = s.authorize(c, r)
		if hosts != nil && !c.hasToken() && !hosts.Allows(fc.Context()) {
			return errHost(fc)
		}
		if err != nil {
			return err
		}
		if !streams && fc.Request().IsBodyStream() {
			if _, err := readBody(fc, adminBody); err != nil {
				return err
			}
		}
		return r.Handler(c)
	}
}

// hasToken reports whether the request carries a token that is good. No page of
// another site can send one, whatever name it has for this machine.
func (c *Call) hasToken() bool { return c.Principal != nil && c.Principal.Kind == audit.Token }

func errHost(c *fiber.Ctx) error {
	return fiber.NewError(http.StatusMisdirectedRequest, "This node does not answer under the host name "+
		plain(string(c.Request().Host()))+". Use its address, or start it with --allowed-hosts and that name.")
}

// failed answers an error at once, so that the log shows the answer's status.
func (s *Server) failed(c *Call, r *Route, err error) error {
	var raised *fiber.Error // of HTTP itself: no page tells of it
	if r.Failed != nil && !errors.As(err, &raised) {
		if err = r.Failed(c, err); err == nil {
			return nil
		}
	}
	return s.fail(c.Ctx, err)
}

// maxBuffer is the largest answer whose buffer is kept for the next call.
const maxBuffer = 1 << 20

func (s *Server) release(c *Call) {
	c.Ctx, c.Principal, c.RequestID = nil, nil, ""
	c.checks.clear()
	s.calls.Put(c)
}

// clear forgets what the check handlers used and keeps its memory, unless it
// was much.
func (k *checkScratch) clear() {
	if cap(k.buffer) > maxBuffer {
		k.buffer = nil
	}
	clear(k.inputs)
	clear(k.problems)
	clear(k.checks)
	clear(k.decisions)
	clear(k.errs)
	*k = checkScratch{
		inputs: k.inputs[:0], problems: k.problems[:0], checks: k.checks[:0],
		decisions: k.decisions[:0], errs: k.errs[:0], buffer: k.buffer[:0],
	}
}
