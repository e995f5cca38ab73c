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

	CaptchaLead       string
	CaptchaScript     string // for those without JavaScript
	CaptchaSolved     string
	CaptchaFailed     string
	CaptchaUnverified string
	CaptchaBroken     string // %s is the host of the widget
	CaptchaStopped    string // the same for a widget of Stint's own
	CaptchaForeign    string // %s is the host of the widget
	CaptchaSample     string // in place of the widget; %s is its provider
	// AltchaWords are the words of ALTCHA's widget, nil for its own.
	AltchaWords map[string]string

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
		Slow:              "If nothing happens after %s seconds:",
		CaptchaLead:       "Many requests come from where you are, so this site asks you to show that you are a person before it answers.",
		CaptchaScript:     "This check needs JavaScript. Allow it for this site, and open the page again.",
		CaptchaSolved:     "Thank you. The page goes on by itself.",
		CaptchaFailed:     "Your answer was not accepted. Please solve the check once more.",
		CaptchaUnverified: "Your answer cannot be verified at the moment, for a reason that is not yours.",
		CaptchaBroken:     "The check from %s does not work here. Allow it in your browser or network, and reload the page.",
		CaptchaStopped:    "The check does not work here. Reload the page, or use a newer browser and https.",
		CaptchaForeign:    "The check comes from %s, which thereby learns your address.",
		CaptchaSample:     "Here visitors solve the captcha of %s.",
		ExpiredTitle:      "This check has expired", ExpiredLead: "Please open the page that you wanted again.",
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
		Slow:              "Falls nach %s Sekunden nichts geschieht:",
		CaptchaLead:       "Von dort, wo Sie sind, kommen viele Anfragen. Bitte zeigen Sie darum, dass Sie ein Mensch sind; dann antwortet diese Website.",
		CaptchaScript:     "Diese Prüfung braucht JavaScript. Erlauben Sie es für diese Website, und öffnen Sie die Seite noch einmal.",
		CaptchaSolved:     "Danke. Es geht von selbst weiter.",
		CaptchaFailed:     "Ihre Antwort wurde nicht angenommen. Bitte lösen Sie die Prüfung noch einmal.",
		CaptchaUnverified: "Ihre Antwort lässt sich gerade nicht überprüfen. Das liegt nicht an Ihnen.",
		CaptchaBroken:     "Die Prüfung von %s funktioniert hier nicht. Erlauben Sie sie in Ihrem Browser oder Netz, und laden Sie die Seite neu.",
		CaptchaStopped:    "Die Prüfung funktioniert hier nicht. Laden Sie die Seite neu, oder benutzen Sie einen neueren Browser und https.",
		CaptchaForeign:    "Die Prüfung kommt von %s und teilt dorthin Ihre Adresse mit.",
		CaptchaSample:     "Hier lösen Besucher das Captcha von %s.",
		AltchaWords: map[string]string{
			"ariaLinkLabel": "Altcha (offizielle Website)", "error": "Die Prüfung ist fehlgeschlagen. Bitte versuchen Sie es später noch einmal.",
			"expired": "Die Prüfung ist abgelaufen. Bitte versuchen Sie es noch einmal.", "label": "Ich bin kein Roboter", "loading": "Wird geladen …", "reload": "Neu laden",
			"verify": "Prüfen", "verificationRequired": "Bitte lösen Sie die Prüfung.", "verified": "Geprüft", "verifying": "Wird geprüft …", "waitAlert": "Die Prüfung läuft. Bitte warten Sie.",
			"footer": `Geschützt durch <a href="https://altcha.org/" target="_blank" aria-label="Altcha (offizielle Website)">ALTCHA</a>`,
			"cancel": "Abbrechen", "enterCode": "Code eingeben", "enterCodeAria": "Code eingeben, den Sie hören", "enterCodeFromImage": "Code aus dem Bild eingeben", "getAudioChallenge": "Code anhören",
		},
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
