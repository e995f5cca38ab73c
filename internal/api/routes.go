package api

import (
	"net/http"

	v1 "github.com/stint-dev/stint/internal/api/v1"
	"github.com/stint-dev/stint/internal/httpserver"
	"github.com/stint-dev/stint/internal/identity"
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
		policy                     = v1.PathPolicies + "/:name"
		block                      = v1.PathBlocks + "/:id"
		exemption                  = v1.PathExemptions + "/:id"
		token                      = v1.PathTokens + "/:id"
		user                       = v1.PathUsers + "/:id"
		proposal                   = v1.PathProposals + "/:id"
	)
	return []route{
		onChecks(post, v1.PathCheck, identity.Check, s.handleCheck, opCheck),
		onChecks(post, v1.PathBatch, identity.Check, s.handleBatch, opBatch),
		onChecks(del, v1.PathReservations+"/:handle", identity.Check, s.cancelReservation, opGiveBack),
		onChecks(get, "/livez", identity.Public, s.handleLive, nil),
		onChecks(get, "/readyz", identity.Public, s.handleReady, nil),

		onAdmin(get, "/livez", identity.Public, s.handleLive, opLive),
		onAdmin(get, "/readyz", identity.Public, s.handleReady, opReady),
		onAdmin(get, "/openapi.json", identity.Public, s.handleOpenAPI, nil),
		onAdmin(get, v1.PathNodes, identity.Read, s.listNodes, opListNodes),
		onAdmin(get, v1.PathWhoami, identity.Read, s.handleWhoami, opWhoami),

		onAdmin(get, v1.PathAlgorithms, identity.Read, s.listAlgorithms, opListAlgorithms),
		onAdmin(get, v1.PathPolicies, identity.Read, s.listPolicies, opListPolicies),
		onAdmin(get, policy, identity.Read, s.getPolicy, opGetPolicy),
		onAdmin(get, policy+"/versions", identity.Read, s.listPolicyVersions, opPolicyVersions),
		onAdmin(put, policy, identity.Admin, s.putPolicy, opPutPolicy),
		onAdmin(del, policy, identity.Admin, s.deletePolicy, opDeletePolicy),

		onAdmin(get, v1.PathBlocks, identity.Read, s.listBlocks, opListBlocks),
		onAdmin(post, v1.PathBlocks, identity.Operate, s.addBlock, opAddBlock),
		onAdmin(get, block, identity.Read, s.getBlock, opGetBlock),
		onAdmin(patch, block, identity.Operate, s.changeBlock, opChangeBlock),
		onAdmin(del, block, identity.Operate, s.liftBlock, opLiftBlock),

		onAdmin(get, v1.PathExemptions, identity.Read, s.listExemptions, opListExemptions),
		onAdmin(post, v1.PathExemptions, identity.Operate, s.addExemption, opAddExemption),
		onAdmin(get, exemption, identity.Read, s.getExemption, opGetExemption),
		onAdmin(patch, exemption, identity.Operate, s.changeExemption, opChangeExemption),
		onAdmin(del, exemption, identity.Operate, s.removeExemption, opRemoveExemption),

		onAdmin(get, v1.PathKeys, identity.Read, s.explainKey, opExplainKey),
		onAdmin(del, v1.PathKeys, identity.Operate, s.resetKey, opResetKey),
		onAdmin(get, v1.PathNotes, identity.Read, s.listNotes, opListNotes),
		onAdmin(post, v1.PathNotes, identity.Operate, s.addNote, opAddNote),
		onAdmin(del, v1.PathNotes+"/:id", identity.Operate, s.deleteNote, opDeleteNote),

		onAdmin(get, v1.PathTokens, identity.Admin, s.listTokens, opListTokens),
		onAdmin(post, v1.PathTokens, identity.Admin, s.addToken, opAddToken),
		onAdmin(get, token, identity.Admin, s.getToken, opGetToken),
		onAdmin(patch, token, identity.Admin, s.changeToken, opChangeToken),
		onAdmin(post, token+"/rotate", identity.Admin, s.rotateToken, opRotateToken),
		onAdmin(del, token, identity.Admin, s.revokeToken, opRevokeToken),

		onAdmin(get, v1.PathUsers, identity.Admin, s.listUsers, opListUsers),
		onAdmin(post, v1.PathUsers, identity.Admin, s.addUser, opAddUser),
		onAdmin(get, user, identity.Admin, s.getUser, opGetUser),
		onAdmin(patch, user, identity.Admin, s.changeUser, opChangeUser),
		onAdmin(put, user+"/password", identity.Admin, s.setPassword, opSetPassword),
		onAdmin(del, user, identity.Admin, s.deleteUser, opDeleteUser),

		onAdmin(get, v1.PathAudit, identity.Read, s.listAudit, opListAudit),
		onAdmin(get, v1.PathAudit+"/export", identity.Read, s.exportAudit, opExportAudit),
		onAdmin(get, v1.PathAudit+"/verify", identity.Read, s.verifyAudit, opVerifyAudit),
		onAdmin(get, v1.PathAudit+"/:id", identity.Read, s.getAuditEntry, opGetAudit),

		onAdmin(get, v1.PathOffenders, identity.Read, s.listOffenders, opListOffenders),
		onAdmin(get, v1.PathOffenders+"/export", identity.Read, s.exportOffenders, opExportOffenders),
		onAdmin(get, v1.PathOffenders+"/timeline", identity.Read, s.keyTimeline, opKeyTimeline),
		onAdmin(get, v1.PathOffences+"/:id", identity.Read, s.getOffence, opGetOffence),
		onAdmin(get, v1.PathTraffic, identity.Read, s.getTraffic, opGetTraffic),
		onAdmin(get, v1.PathAttack, identity.Read, s.getAttack, opGetAttack),
		onAdmin(get, v1.PathTraffic+"/rules", identity.Read, s.getRuleTotals, opRuleTotals),
		onAdmin(get, v1.PathEscalations+"/events", identity.Read, s.listEscalationEvents, opEscalationEvents),
		onAdmin(get, v1.PathEscalations+"/paused", identity.Read, s.listEscalationPauses, opEscalationPauses),
		onAdmin(post, v1.PathEscalations+"/:name/resume", identity.Operate, s.resumeEscalation, opResumeEscalation),
		onAdmin(get, v1.PathProposals, identity.Read, s.listProposals, opListProposals),
		onAdmin(get, proposal, identity.Read, s.getProposal, opGetProposal),
		onAdmin(post, proposal+"/accept", identity.Operate, s.acceptProposal, opAcceptProposal),
		onAdmin(post, proposal+"/dismiss", identity.Operate, s.dismissProposal, opDismissProposal),

		onAdmin(get, v1.PathReports, identity.Read, s.listReports, opListReports),
		onAdmin(post, v1.PathReports, identity.Operate, s.writeReport, opWriteReport),
		onAdmin(get, v1.PathReports+"/:id", identity.Read, s.getReport, opGetReport),

		onAdmin(get, v1.PathBackup, identity.Admin, s.handleBackup, opBackup),
		streamed(post, v1.PathRestore, identity.Admin, s.handleRestore, opRestore),
	}
}
