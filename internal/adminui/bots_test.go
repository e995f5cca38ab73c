package adminui_test

import (
	"net/http"
	"testing"
)

// What is decided beside those who lie must not concern the bot that they say to be, and what concerns all
// that say to be a bot asks before it is done.
func TestBotsAreDecidedByWhatSelectsThem(t *testing.T) {
	n := newNode(t)
	olu := n.as(t, "olu")
	page := olu.get("/bots").is(http.StatusOK).says("openai/gptbot").says("40 requests").says("claimed").says("spoofed").says("robots.txt")
	page.holds(`href="/blocks/new?pattern=bot%3Aopenai%2Fgptbot%2Fclaimed"`).holds(`href="/blocks/new?pattern=bot%3Abing%2Fbingbot%2Fspoofed"`).holds(`href="/blocks/new?pattern=bot%3Agoogle%2Fgooglebot"`)
	page.holds(`href="/exemptions/new?pattern=bot%3Agoogle%2Fgooglebot"`).lacks(`/exemptions/new?pattern=bot%3Aopenai`).lacks(`/exemptions/new?pattern=bot%3Abing`)
	page.holds(`href="/new-policy?match=category%3Aai-training"`).holds(`href="/traffic?is=bot%3Dopenai%2Fgptbot&amp;last=24h"`)
	olu.get("/traffic?is=bot%3Dopenai%2Fgptbot&last=24h").is(http.StatusOK).says("Bot is openai/gptbot")
	n.as(t, "vic").get("/bots").is(http.StatusOK).says("openai/gptbot").lacks("/blocks/new")
	olu.get("/bots?last=2d").is(http.StatusUnprocessableEntity)
	preview := olu.get("/blocks/new?pattern=category%3Aai-training").is(http.StatusOK)
	preview.says("all requests that are identified as it").says("This is broad:").holds(`data-confirm="category:ai-training"`).lacks("No key in it was seen").lacks("1 key")
	const ignores = "came although the robots.txt below names it"
	olu.get("/bots").lacks(ignores)
	n.block(t, "category:ai-training", "no training", "jo", "manual", 0)
	olu.get("/bots").says("User-agent: gptbot").says(ignores).lacks("User-agent: *")
}
