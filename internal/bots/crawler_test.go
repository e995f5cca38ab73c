package bots

import (
	"testing"

	"github.com/stint-dev/stint/internal/conditions"
)

// A crawler that is verified asks for what others link to; one that fetches what people name to it, or that only says to be a
// crawler, answers for what it asks for.
func TestCrawlersAreVerifiedAndFollowLinks(t *testing.T) {
	for _, test := range []struct {
		agent, verified string
		want            bool
	}{
		{"Googlebot/2.1", conditions.ByDNS, true}, {"GPTBot/1.2", conditions.ByList, true}, {"AhrefsBot/7.0", conditions.BySignature, true},
		{"Googlebot/2.1", conditions.Claimed, false}, {"Googlebot/2.1", conditions.Spoofed, false},
		{"ChatGPT-User/1.0", conditions.ByList, false}, {"Discordbot/2.0", conditions.ByList, false},
	} {
		i := Identity{Agent: FindByAgent(conditions.NewRequest("/", "GET", test.agent, "")), Verified: test.verified}
		if i.Agent == nil || i.IsCrawler() != test.want {
			t.Errorf("%+v: got %v, want %v", test, i.IsCrawler(), test.want)
		}
	}
}
