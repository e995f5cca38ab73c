package breakdown

import "strings"

// The products that browsers name, the more special ones first: Edge also says that it is Chrome, and
// Chrome that it is Safari.
var browsers = []struct{ token, family string }{
	{"headlesschrome/", "headlesschrome"}, {"edg/", "edge"}, {"edga/", "edge"}, {"edgios/", "edge"}, {"edge/", "edge"},
	{"opr/", "opera"}, {"opera", "opera"}, {"vivaldi/", "vivaldi"}, {"yabrowser/", "yandex browser"}, {"samsungbrowser/", "samsung internet"},
	{"ucbrowser/", "uc browser"}, {"duckduckgo/", "duckduckgo browser"}, {"fxios/", "firefox"}, {"firefox/", "firefox"},
	{"crios/", "chrome"}, {"chromium/", "chrome"}, {"chrome/", "chrome"}, {"trident/", "internet explorer"}, {"msie ", "internet explorer"},
	{"version/", "safari"}, {"safari/", "safari"}, {"applewebkit/", "webview"}, {"gecko/", "firefox"},
}

// The parts of a name by which programs say that they are no browser.
var robotParts = []string{"bot", "spider", "crawl", "slurp", "-user", "searchbot", "externalhit", "externalagent", "fetcher", "feed", "preview", "monitor", "scan", "archive", "lighthouse", "inspectiontool"}

// Family returns the name of the program in a User-Agent header, in lower case and without
// versions: "chrome", "gptbot", "curl", "python-requests". A robot that also says that it is a
// browser is the robot.
func Family(agent string) string {
	agent = strings.ToLower(agent)
	if name := robot(agent); name != "" {
		return name
	}
	if strings.HasPrefix(agent, "mozilla/") {
		for _, b := range browsers {
			if strings.Contains(agent, b.token) {
				return b.family
			}
		}
		return mozilla
	}
	return product(agent)
}

// robot returns the name of the robot in an agent, "" for none.
func robot(agent string) string {
	for token := range strings.FieldsFuncSeq(agent, func(r rune) bool { return r == ' ' || r == ';' || r == '(' || r == ')' || r == ',' }) {
		if strings.Contains(token, "://") || strings.HasPrefix(token, "+") || strings.HasPrefix(token, "www.") || strings.Contains(token, "@") {
			continue
		}
		name, _, _ := strings.Cut(token, "/")
		for _, part := range robotParts {
			if strings.Contains(name, part) && len(name) > len("bot") {
				return product(name)
			}
		}
	}
	return ""
}

// maxProduct bounds the name of a product, in bytes.
const maxProduct = 40

// productEnds are the characters that end the name of a product, and robotEnds those that in addition
// end that of a robot.
const (
	productEnds = "/ ;([,\""
	robotEnds   = ")"
)

// The families of browsers that are not known, and of products whose name is too long.
const (
	mozilla      = "mozilla"
	otherProduct = "other"
)

// product returns the first product that an agent names, without its version.
func product(agent string) string {
	agent = strings.TrimLeft(agent, " \t\"'([")
	if end := strings.IndexAny(agent, productEnds); end >= 0 {
		agent = agent[:end]
	}
	if len(agent) > maxProduct {
		return otherProduct
	}
	if isID(agent) {
		return folded
	}
	return agent
}
