package api

import (
	"github.com/stint-dev/stint/internal/blocks"
	"net/http"

	"github.com/stint-dev/stint/internal/httpserver"
	"github.com/stint-dev/stint/internal/identity"
	"github.com/stint-dev/stint/internal/wire"
)

// route is one row of the table of the API.
type route struct {
	httpserver.Route
	// Operation describes the route in openapi.json, nil to leave it out.
	Operation *Operation
}

func onChecks(method, path string, access identity.Access, h httpserver.Handler, o *Operation) route {
	return route{httpserver.Route{Listener: httpserver.Checks, Method: method, Path: path, Access: access, Handler: h}, o}
}

func onAdmin(method, path string, access identity.Access, h httpserver.Handler, o *Operation) route {
	return route{httpserver.Route{Listener: httpserver.Admin, Method: method, Path: path, Access: access, Handler: h}, o}
}

// streamed is onAdmin for a handler that reads its body as it arrives.
func streamed(method, path string, access identity.Access, h httpserver.Handler, o *Operation) route {
	r := onAdmin(method, path, access, h, o)
	r.Streams = true
	return r
}

// table returns every route of the REST API.
func (s *API) table() []route {
	const (
		get, post, put, patch, del = http.MethodGet, http.MethodPost, http.MethodPut, http.MethodPatch, http.MethodDelete
		policy                     = wire.PathPolicies + "/:name"
		block                      = wire.PathBlocks + "/:id"
		exemption                  = wire.PathExemptions + "/:id"
		token                      = wire.PathTokens + "/:id"
		user                       = wire.PathUsers + "/:id"
		proposal                   = wire.PathProposals + "/:id"
	)
	return []route{
		onChecks(post, wire.PathCheck, identity.Check, s.handleCheck, opCheck),
		onChecks(post, wire.PathBatch, identity.Check, s.handleBatch, opBatch),
		onChecks(del, wire.PathReservations+"/:handle", identity.Check, s.cancelReservation, opGiveBack),
		onChecks(get, "/livez", identity.Public, s.handleLive, nil),
		onChecks(get, "/readyz", identity.Public, s.handleReady, nil),

		onAdmin(get, "/livez", identity.Public, s.handleLive, opLive),
		onAdmin(get, "/readyz", identity.Public, s.handleReady, opReady),
		onAdmin(get, "/openapi.json", identity.Public, s.handleOpenAPI, nil),
		onAdmin(get, wire.PathNodes, identity.Read, s.listNodes, opListNodes),
		onAdmin(get, wire.PathWhoami, identity.Read, s.handleWhoami, opWhoami),

		onAdmin(get, wire.PathAlgorithms, identity.Read, s.listAlgorithms, opListAlgorithms),
		onAdmin(get, wire.PathPolicies, identity.Read, s.listPolicies, opListPolicies),
		onAdmin(get, policy, identity.Read, s.getPolicy, opGetPolicy),
		onAdmin(get, policy+"/versions", identity.Read, s.listPolicyVersions, opPolicyVersions),
		onAdmin(put, policy, identity.Admin, s.putPolicy, opPutPolicy),
		onAdmin(del, policy, identity.Admin, s.deletePolicy, opDeletePolicy),

		onAdmin(get, wire.PathBlocks, identity.Read, ofKind(blocks.Block, s.listEntries), opListBlocks),
		onAdmin(post, wire.PathBlocks, identity.Operate, ofKind(blocks.Block, s.addEntry), opAddBlock),
		onAdmin(get, block, identity.Read, ofKind(blocks.Block, s.getEntry), opGetBlock),
		onAdmin(patch, block, identity.Operate, ofKind(blocks.Block, s.changeEntry), opChangeBlock),
		onAdmin(del, block, identity.Operate, ofKind(blocks.Block, s.endEntry), opEndBlock),
		onAdmin(post, block+"/restore", identity.Operate, ofKind(blocks.Block, s.restoreEntry), opRestoreBlock),

		onAdmin(get, wire.PathExemptions, identity.Read, ofKind(blocks.Exemption, s.listEntries), opListExemptions),
		onAdmin(post, wire.PathExemptions, identity.Operate, ofKind(blocks.Exemption, s.addEntry), opAddExemption),
		onAdmin(get, exemption, identity.Read, ofKind(blocks.Exemption, s.getEntry), opGetExemption),
		onAdmin(patch, exemption, identity.Operate, ofKind(blocks.Exemption, s.changeEntry), opChangeExemption),
		onAdmin(del, exemption, identity.Operate, ofKind(blocks.Exemption, s.endEntry), opEndExemption),
		onAdmin(post, exemption+"/restore", identity.Operate, ofKind(blocks.Exemption, s.restoreEntry), opRestoreExemption),

		onAdmin(get, wire.PathKeys, identity.Read, s.explainKey, opExplainKey),
		onAdmin(del, wire.PathKeys, identity.Operate, s.resetKey, opResetKey),
		onAdmin(get, wire.PathNotes, identity.Read, s.listNotes, opListNotes),
		onAdmin(post, wire.PathNotes, identity.Operate, s.addNote, opAddNote),
		onAdmin(del, wire.PathNotes+"/:id", identity.Operate, s.deleteNote, opDeleteNote),

		onAdmin(get, wire.PathTokens, identity.Admin, s.listTokens, opListTokens),
		onAdmin(post, wire.PathTokens, identity.Admin, s.addToken, opAddToken),
		onAdmin(get, token, identity.Admin, s.getToken, opGetToken),
		onAdmin(patch, token, identity.Admin, s.changeToken, opChangeToken),
		onAdmin(post, token+"/rotate", identity.Admin, s.rotateToken, opRotateToken),
		onAdmin(del, token, identity.Admin, s.revokeToken, opRevokeToken),

		onAdmin(get, wire.PathUsers, identity.Admin, s.listUsers, opListUsers),
		onAdmin(post, wire.PathUsers, identity.Admin, s.addUser, opAddUser),
		onAdmin(get, user, identity.Admin, s.getUser, opGetUser),
		onAdmin(patch, user, identity.Admin, s.changeUser, opChangeUser),
		onAdmin(put, user+"/password", identity.Admin, s.setPassword, opSetPassword),
		onAdmin(del, user, identity.Admin, s.deleteUser, opDeleteUser),

		onAdmin(get, wire.PathAudit, identity.Read, s.listAudit, opListAudit),
		onAdmin(get, wire.PathAudit+"/export", identity.Read, s.exportAudit, opExportAudit),
		onAdmin(get, wire.PathAudit+"/verify", identity.Read, s.verifyAudit, opVerifyAudit),
		onAdmin(get, wire.PathAudit+"/:id", identity.Read, s.getAuditEntry, opGetAudit),

		onAdmin(get, wire.PathOffenders, identity.Read, s.listOffenders, opListOffenders),
		onAdmin(get, wire.PathOffenders+"/export", identity.Read, s.exportOffenders, opExportOffenders),
		onAdmin(get, wire.PathOffenders+"/timeline", identity.Read, s.keyTimeline, opKeyTimeline),
		onAdmin(get, wire.PathOffences+"/:id", identity.Read, s.getOffence, opGetOffence),
		onAdmin(get, wire.PathTraffic, identity.Read, s.getTraffic, opGetTraffic),
		onAdmin(get, wire.PathAttack, identity.Read, s.getAttack, opGetAttack),
		onAdmin(get, wire.PathTraffic+"/rules", identity.Read, s.getRuleTotals, opRuleTotals),
		onAdmin(get, wire.PathEscalations+"/events", identity.Read, s.listEscalationEvents, opEscalationEvents),
		onAdmin(get, wire.PathEscalations+"/paused", identity.Read, s.listEscalationPauses, opEscalationPauses),
		onAdmin(post, wire.PathEscalations+"/:name/resume", identity.Operate, s.resumeEscalation, opResumeEscalation),
		onAdmin(get, wire.PathProposals, identity.Read, s.listProposals, opListProposals),
		onAdmin(get, proposal, identity.Read, s.getProposal, opGetProposal),
		onAdmin(post, proposal+"/accept", identity.Operate, s.acceptProposal, opAcceptProposal),
		onAdmin(post, proposal+"/dismiss", identity.Operate, s.dismissProposal, opDismissProposal),

		onAdmin(get, wire.PathReports, identity.Read, s.listReports, opListReports),
		onAdmin(post, wire.PathReports, identity.Operate, s.writeReport, opWriteReport),
		onAdmin(get, wire.PathReports+"/:id", identity.Read, s.getReport, opGetReport),

		onAdmin(get, wire.PathBackup, identity.Admin, s.handleBackup, opBackup),
		streamed(post, wire.PathRestore, identity.Admin, s.handleRestore, opRestore),
	}
}
