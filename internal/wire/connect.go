package wire

// PathConnect is the path of what is declared here.
const PathConnect = "/v1/connect"

// Gateway is a program that uses Stint.
type Gateway struct {
	// Name is the gateway's in addresses and commands, for example "nginx".
	Name string `json:"name"`
	// Title is its name as people write it.
	Title string `json:"title"`
}

// Guide says how a gateway is connected to this installation.
type Guide struct {
	Gateway
	// Scope is the scope that its token needs.
	Scope string `json:"scope"`
	// NeedsToken reports that nothing works without a token.
	NeedsToken bool `json:"needs_token"`
	// Needs are the parts of requests that the policies of this installation look at, for example path,
	// header:accept-language: what a gateway has to send, and no more. The node finds country, asn, bot,
	// category and verified by itself.
	Needs []string `json:"needs"`
	// Steps are texts and configurations in their order.
	Steps []GuideStep `json:"steps"`
	// Token is the new token that the steps contain, omitted without one.
	Token *CreatedToken `json:"token,omitzero"`
}

// GuideStep is a text or a configuration; the other is omitted.
type GuideStep struct {
	// Text is a paragraph, with names between backquotes.
	Text string `json:"text,omitzero"`
	// Config is a configuration, to be copied.
	Config string `json:"config,omitzero"`
}

// The operations of gateways.
var (
	ListGateways = Op[None, Page[Gateway]]{
		ID: "listGateways", Route: "GET " + PathConnect, Access: "read", Tag: TagIdentities,
		Summary: "List the gateways that Stint has a configuration for.", Answer: "The gateways.",
	}
	GetGuide = Op[ByName, Guide]{
		ID: "getGuide", Route: "GET " + PathConnect + "/:name", Access: "read", Tag: TagIdentities,
		Summary: "Show how a gateway is connected to this installation.", Answer: "The configuration, without a token.",
	}
	AddGatewayToken = Op[ByName, Guide]{
		ID: "addGatewayToken", Route: "POST " + PathConnect + "/:name/token", Access: "admin", Tag: TagIdentities, Created: true,
		Summary: "Create a token for a gateway, with the least scope; its secret is shown only once.", Answer: "The configuration with the token.",
	}
)
