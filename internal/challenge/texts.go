package challenge

import "strings"

// texts are what the pages say in one language. %s is replaced as the field says.
type texts struct {
	Language string

	ChallengeTitle, ChallengeLead string
	Working                       string // while the browser works
	Wait                          string // for those without JavaScript; %s is a number of seconds
	Continue                      string // the link after that wait
	Slow                          string // leads to the same link for those with JavaScript

	ExpiredTitle, ExpiredLead string
	CookiesTitle, CookiesLead string
	Again                     string // a link

	LimitedTitle, LimitedLead         string
	BlockedTitle, BlockedLead         string
	UnavailableTitle, UnavailableLead string
	NotByPage                         string // a challenge that this request cannot be shown
	Until                             string // %s is a time, %s how long that is
	Forever                           string
	Second, Seconds, Minutes, Hours   string // %s is a number
	Reference                         string // before the id of the refusal
	Contact                           string // before whom to ask
}

// languages are all texts, the first for everybody who asks for none of them.
var languages = []*texts{
	{
		Language:       "en",
		ChallengeTitle: "One moment", ChallengeLead: "Many requests come from where you are, so this site checks that you use a browser before it answers.",
		Working: "Checking your browser. This takes about a second and goes on by itself.",
		Wait:    "Your browser runs no JavaScript. Please wait %s seconds; the page then goes on by itself.", Continue: "Continue",
		Slow:         "If nothing happens after %s seconds:",
		ExpiredTitle: "This check has expired", ExpiredLead: "Please open the page that you wanted again.",
		CookiesTitle: "Cookies are needed",
		CookiesLead:  "You passed the check, but your browser did not keep the cookie that says so. Allow cookies for this site, and use it by https. The cookie is used for nothing else.",
		Again:        "Try again",
		LimitedTitle: "Too many requests", LimitedLead: "More requests came from you, or from where you are, than this site answers.",
		BlockedTitle: "Access is blocked", BlockedLead: "This site does not answer requests from you, or from where you are.",
		UnavailableTitle: "Please try again", UnavailableLead: "This site cannot decide about your request at the moment.",
		NotByPage: "Open the page in a browser to solve a short check.",
		Until:     "You can try again at %s, in %s.", Forever: "No end is set.",
		Second: "1 second", Seconds: "%s seconds", Minutes: "%s minutes", Hours: "%s hours",
		Reference: "Reference", Contact: "Questions",
	},
	{
		Language:       "de",
		ChallengeTitle: "Einen Moment", ChallengeLead: "Von dort, wo Sie sind, kommen viele Anfragen. Darum prüft diese Website vor der Antwort, ob Sie einen Browser benutzen.",
		Working: "Ihr Browser wird geprüft. Das dauert etwa eine Sekunde und geht von selbst weiter.",
		Wait:    "Ihr Browser führt kein JavaScript aus. Bitte warten Sie %s Sekunden; dann geht es von selbst weiter.", Continue: "Weiter",
		Slow:         "Falls nach %s Sekunden nichts geschieht:",
		ExpiredTitle: "Diese Prüfung ist abgelaufen", ExpiredLead: "Bitte öffnen Sie die gewünschte Seite noch einmal.",
		CookiesTitle: "Cookies werden gebraucht",
		CookiesLead:  "Sie haben die Prüfung bestanden, aber Ihr Browser hat das Cookie nicht behalten, das dies belegt. Erlauben Sie Cookies für diese Website, und rufen Sie sie über https auf. Das Cookie dient nur diesem Zweck.",
		Again:        "Noch einmal versuchen",
		LimitedTitle: "Zu viele Anfragen", LimitedLead: "Von Ihnen oder von dort, wo Sie sind, kamen mehr Anfragen, als diese Website beantwortet.",
		BlockedTitle: "Zugriff gesperrt", BlockedLead: "Diese Website beantwortet keine Anfragen von Ihnen oder von dort, wo Sie sind.",
		UnavailableTitle: "Bitte noch einmal versuchen", UnavailableLead: "Diese Website kann gerade nicht über Ihre Anfrage entscheiden.",
		NotByPage: "Öffnen Sie die Seite in einem Browser, um eine kurze Prüfung zu lösen.",
		Until:     "Sie können es um %s wieder versuchen, in %s.", Forever: "Ein Ende ist nicht festgelegt.",
		Second: "1 Sekunde", Seconds: "%s Sekunden", Minutes: "%s Minuten", Hours: "%s Stunden",
		Reference: "Kennung", Contact: "Fragen",
	},
}

// textsOf returns the texts of the first known language that a client accepts.
func textsOf(accepted string) *texts {
	for tag := range strings.SplitSeq(accepted, ",") {
		tag, _, _ = strings.Cut(strings.TrimSpace(tag), ";")
		primary, _, _ := strings.Cut(strings.ToLower(tag), "-")
		for _, t := range languages {
			if t.Language == primary {
				return t
			}
		}
	}
	return languages[0]
}
