package wire

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
