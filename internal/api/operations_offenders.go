package api

import (
	"net/http"

	"github.com/stint-dev/stint/internal/wire"
)

var (
	spanQuery = []Param{
		{Name: "last", Doc: "The span that ends now, for example 15m, 24h or 7d; 1h where no span is named."},
		{Name: "from", Doc: "RFC 3339; the span begins here."},
		{Name: "to", Doc: "RFC 3339; the span ends before this; now where it is left out."},
	}
	policyParam   = Param{Name: "policy", Doc: "Only under the policy of this name."}
	offenderQuery = append([]Param{
		policyParam,
		{Name: "pattern", Doc: "Only keys that this pattern selects."},
		{Name: "source", Doc: "Only keys refused for this source."},
		{Name: "search", Doc: "Only keys that hold this text, without case."},
		{Name: "rule", Doc: "Only offences by this rule or block."},
		{Name: "not_rule", Doc: "No offences by this rule or block."},
		{Name: "least", Doc: "Only keys with at least so many offences.", Integer: true},
		{Name: "shadow", Doc: "true asks for what shadow policies would have refused.", Enum: []string{"true", "false"}},
		{Name: "sort", Doc: "The order; most offences first where it is left out.", Enum: []string{"offences", "last", "first", "key"}},
	}, spanQuery...)
)

var (
	opListOffenders = &Operation{
		ID: "listOffenders", Tag: "offenders", Summary: "Who offended, how often, and whether it is dealt with.",
		Query: append([]Param{cursorParam, limitParam,
			{Name: "points", Doc: "Divide the span into so many parts and give the offences of each, 1 to 120.", Integer: true}}, offenderQuery...),
		Answers: ok("One page of the report.", wire.OffenderReport{}),
	}
	opExportOffenders = &Operation{
		ID: "exportOffenders", Tag: "offenders", Summary: "The whole report as a file.",
		Query:   append([]Param{{Name: "format", Doc: "json where it is left out.", Enum: []string{"json", "csv"}}}, offenderQuery...),
		Answers: []Answer{{Status: http.StatusOK, Doc: "Every row.", Types: []string{"application/json", "text/csv"}}},
	}
	opKeyTimeline = &Operation{
		ID: "keyTimeline", Tag: "offenders", Summary: "What one key did over a span.",
		Query: append([]Param{
			{Name: "key", Doc: "The key, for example ip:203.0.113.7.", Required: true},
			{Name: "points", Doc: "How many parts the span is divided into, 1 to 1440; 60 where it is left out.", Integer: true},
		}, spanQuery...),
		Answers: ok("Its offences over time and what its escalation did.", wire.Timeline{}),
	}
	opGetOffence = &Operation{
		ID: "getOffence", Tag: "offenders", Summary: "What is known under the id that a refused answer carried.",
		Answers: ok("The story in one sentence, then in detail.", wire.OffenceRecord{}),
	}
	opGetTraffic = &Operation{
		ID: "getTraffic", Tag: "offenders", Summary: "Checks over time, allowed and refused.",
		Query:   append([]Param{policyParam, {Name: "step", Doc: "How long each part is, whole minutes such as 1m or 1h."}}, spanQuery...),
		Answers: ok("The traffic of each part of the span.", wire.Traffic{}),
	}
	opRuleTotals = &Operation{
		ID: "ruleTotals", Tag: "offenders", Summary: "Which rules refused most, and which refused nobody.",
		Query: spanQuery, Answers: ok("Every rule and block that refused, and the rules that did not.", wire.Page[wire.RuleTotal]{}),
	}
	opEscalationEvents = &Operation{
		ID: "listEscalationEvents", Tag: "offenders", Summary: "What escalations did: automatic blocks, and those that a shadow policy would have made.",
		Query:   append([]Param{policyParam, {Name: "key", Doc: "Only about this key."}, limitParam}, spanQuery...),
		Answers: ok("The events, the newest first.", wire.Page[wire.EscalationEvent]{}),
	}
	opEscalationPauses = &Operation{
		ID: "listPausedEscalations", Tag: "offenders", Summary: "Escalations that stopped because they would have blocked too many.",
		Answers: ok("The paused escalations.", wire.Page[wire.EscalationPause]{}),
	}
	opResumeEscalation = &Operation{
		ID: "resumeEscalation", Tag: "offenders", Summary: "Let the paused escalation of a policy go on.",
		Answers: []Answer{{Status: http.StatusNoContent, Doc: "It goes on."}},
	}
	opListProposals = &Operation{
		ID: "listProposals", Tag: "offenders", Summary: "Ranges in which many offended, waiting for a decision.",
		Query:   []Param{{Name: "state", Doc: "Which to list; open where it is left out.", Enum: []string{"open", "all"}}, limitParam},
		Answers: ok("The proposals, the newest first.", wire.Page[wire.Proposal]{}),
	}
	opGetProposal = &Operation{
		ID: "getProposal", Tag: "offenders", Summary: "One proposal with its evidence.",
		Answers: ok("The proposal.", wire.Proposal{}),
	}
	opAcceptProposal = &Operation{
		ID: "acceptProposal", Tag: "offenders", Summary: "Block the range of a proposal.", Body: wire.AcceptProposalRequest{}, BodyOptional: true,
		Answers: ok("The accepted proposal with its block's id.", wire.Proposal{}),
	}
	opDismissProposal = &Operation{
		ID: "dismissProposal", Tag: "offenders", Summary: "Close a proposal; its range is left alone for a day.", Body: wire.EndRequest{}, BodyOptional: true,
		Answers: ok("The dismissed proposal.", wire.Proposal{}),
	}
)

var (
	opListReports = &Operation{
		ID: "listReports", Tag: "reports", Summary: "The daily and weekly reports.",
		Query:   []Param{{Name: "kind", Doc: "Only reports of this kind.", Enum: []string{"daily", "weekly"}}, limitParam},
		Answers: ok("The reports, the newest period first.", wire.Page[wire.Report]{}),
	}
	opWriteReport = &Operation{
		ID: "writeReport", Tag: "reports", Summary: "Write the report of the last whole day or week now.", Body: wire.ReportRequest{},
		Answers: []Answer{{Status: http.StatusCreated, Doc: "The report that was written.", Body: wire.Report{}}},
	}
	opGetReport = &Operation{
		ID: "getReport", Tag: "reports", Summary: "One report as JSON, CSV or a page that can be mailed or printed.",
		Query:   []Param{{Name: "format", Doc: "json where it is left out.", Enum: []string{"json", "csv", "html"}}},
		Answers: []Answer{{Status: http.StatusOK, Doc: "The report.", Types: []string{"application/json", "text/csv", "text/html"}}},
	}
)
