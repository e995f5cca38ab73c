// Package answers says what the answers of a site mean: the outcomes of requests, by their status,
// method and path, and by what the site has shown of itself, such as which programs it runs and how it answers
// what it does not have. Logs that are read and reports that a server receives go by the same.
package answers

import (
	"errors"
	"fmt"
	"path"
	"slices"
	"strconv"
	"strings"
	"sync"

	"github.com/stint-dev/stint/internal/conditions"
	"github.com/stint-dev/stint/internal/escape"
	"github.com/stint-dev/stint/internal/keys"
)

// Answer is the answer of a site to a request.
type Answer struct {
	Key keys.Key // of the client
	// Path and Method are of the request, "" if they are not known. The path may be a whole target with its
	// query.
	Path, Method string
	Status       int   // 0 if it is not known
	Time         int64 // Unix milliseconds
	IsNoRequest  bool  // what the client sent is no request of HTTP
}

// NotHTTP is the outcome of what is no request of HTTP: the beginning of TLS, SSH or RDP, or a command.
const NotHTTP = "not_http"

// Outcomes derives the outcomes of requests from their answers, by their status, method and path. A
// request may have several outcomes, each once.
type Outcomes []Outcome

// Outcome is one outcome and the answers that mean it.
type Outcome struct {
	Name     string
	Method   string // in upper case, "" for any
	Statuses []int
	paths    conditions.When // zero for any
	// notes is where the paths with this outcome are noted, and needs where the path has to be noted
	// for it; nil for nowhere.
	notes, needs *pathSet
	// isForm leaves out what programs send to the path of their form once somebody is logged in.
	isForm bool
	// site is what is known of the site, nil for nothing.
	site *Site
	// of says by site which requests have the outcome; nil if the status does.
	of func(*Site, *Answer) bool
}

// maxOutcomes bounds how many outcomes may be named.
const maxOutcomes = 32

// DefaultOutcomes returns what the usual statuses mean: something that is missing or forbidden, a
// request that is malformed, and at the paths of login forms a login that failed or succeeded. A form
// that is shown again is a failure where the application is known to do that. What else a form answers
// is a success, but only once the same path has refused a login: a page that answers everything alike
// would otherwise forgive the failures at another form. site says which requests are probes, and
// which clients browse; nil for none.
func DefaultOutcomes(site *Site) Outcomes {
	paths := pathsOfLogins()
	logins, forms, others := paths[0], paths[1], paths[2]
	refusing := &pathSet{}
	all := Outcomes{
		{Name: conditions.NotFound, Statuses: []int{404, 410}},
		{Name: "forbidden", Statuses: []int{403}},
		{Name: NotHTTP, of: func(_ *Site, r *Answer) bool { return r.IsNoRequest }},
		{Name: "bad_request", Statuses: []int{400, 405, 414}},
		{Name: LoginFailed, Method: post, Statuses: []int{401, 403, 422}, paths: logins, notes: refusing},
		{Name: LoginFailed, Method: post, Statuses: []int{200}, paths: forms, notes: refusing, isForm: true, site: site},
		{Name: loginOK, Method: post, Statuses: []int{302, 303}, paths: logins, needs: refusing},
		{Name: loginOK, Method: post, Statuses: []int{200, 201, 204}, paths: others, needs: refusing},
	}
	if site != nil {
		all = append(all, Outcome{Name: Probe, site: site, of: (*Site).isProbe}, Outcome{Name: Browsed, site: site, of: (*Site).hasBrowsed})
	}
	return all
}

// pathsOfLogins are those of all logins, of forms that are shown again, and of logins that are not.
var pathsOfLogins = sync.OnceValue(func() [3]conditions.When {
	return [...]conditions.When{pathsOf("@logins"), pathsOf("@login-forms", "not /api/*", "not */api/*"), pathsOf("@logins", "not @login-forms")}
})

// Learn takes the answer to a request into account, whether or not it has an outcome.
func (all Outcomes) Learn(r *Answer) {
	if site := all.Site(); site != nil {
		site.Learn(r)
	}
}

// Site returns what probes are recognized by, nil if they are not.
func (all Outcomes) Site() *Site {
	if at := slices.IndexFunc(all, func(o Outcome) bool { return o.site != nil }); at >= 0 {
		return all[at].site
	}
	return nil
}

// pathSet is the paths that an outcome was seen at, at most maxPaths of them. It is safe for concurrent
// use.
type pathSet struct {
	mu    sync.Mutex
	paths map[string]bool
}

// maxPaths bounds a pathSet. Clients choose the paths: one more takes the place of any other, and a form
// that is in use is soon among them again.
const maxPaths = 256

func (s *pathSet) add(target string) {
	p := conditions.NormalizePath(target)
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.paths == nil {
		s.paths = map[string]bool{}
	}
	for other := range s.paths {
		if len(s.paths) < maxPaths || s.paths[p] {
			break
		}
		delete(s.paths, other)
	}
	s.paths[p] = true
}

func (s *pathSet) has(target string) bool {
	p := conditions.NormalizePath(target)
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.paths[p]
}

const (
	// LoginFailed is the outcome of a login that was refused.
	LoginFailed = "login_failed"

	loginOK = "login_ok"
	post    = "POST"
)

// pathsOf returns conditions of the path, which are part of the program.
func pathsOf(texts ...string) conditions.When {
	when, err := conditions.Parse(conditions.Texts{"path": texts})
	if err != nil {
		panic(err)
	}
	return when
}

// maxShown bounds what a message quotes, in bytes.
const maxShown = 120

func clip(text string) string { return escape.Clip(text, maxShown) }

// ParsePaths parses a pattern of the path. Its error is about "a pattern that".
func ParsePaths(pattern string) (conditions.When, error) {
	paths, err := conditions.Parse(conditions.Texts{"path": {pattern}})
	var invalid *conditions.Error
	if errors.As(err, &invalid) {
		err = errors.New("has a path that " + invalid.Problem)
	}
	return paths, err
}

// ParseOutcomes reads texts such as "404=not_found", "POST 401,403=login_failed" and
// "POST /login* 200=login_failed": a method if only it counts, a pattern of the path as in
// conditions if only such paths count, statuses, and the outcome.
func ParseOutcomes(texts []string) (Outcomes, error) {
	if len(texts) > maxOutcomes {
		return nil, fmt.Errorf("%d outcomes are too many; at most %d are allowed", len(texts), maxOutcomes)
	}
	all := Outcomes{}
	for _, text := range texts {
		o, err := parseOutcome(text)
		if err != nil {
			return nil, fmt.Errorf("the outcome %q %w", clip(text), err)
		}
		all = append(all, o)
	}
	return all, nil
}

func parseOutcome(text string) (o Outcome, err error) {
	at := strings.LastIndexByte(text, '=')
	if at < 0 {
		return o, errors.New("has no equals sign; write for example 404=not_found, POST 401,403=login_failed or 'POST /login* 200=login_failed'")
	}
	o.Name = strings.TrimSpace(text[at+1:])
	if err := conditions.CheckOutcome(o.Name); err != nil {
		return o, err
	}
	words := strings.Fields(strings.ReplaceAll(text[:at], ", ", ","))
	if len(words) == 0 {
		words = []string{""}
	}
	answers, words := words[len(words)-1], words[:len(words)-1]
	if n := len(words); n > 0 && strings.ContainsAny(words[n-1][:1], "/*") {
		if o.paths, err = ParsePaths(words[n-1]); err != nil {
			return o, err
		}
		words = words[:n-1]
	}
	if len(words) > 1 {
		return o, errors.New("has more than a method, a path and statuses before the equals sign")
	}
	if len(words) == 1 {
		o.Method = strings.ToUpper(words[0])
	}
	for _, digits := range strings.Split(answers, ",") {
		status, err := strconv.Atoi(digits)
		if err != nil || status < 100 || status > 599 {
			return o, errors.New("needs statuses from 100 to 599 before the equals sign, for example 404, POST 401,403 or 'POST /login* 200'")
		}
		o.Statuses = append(o.Statuses, status)
	}
	return o, nil
}

// isInside reports whether r may be a request of somebody who is logged in: phpMyAdmin and Adminer have one path for
// their form and for all that follows it, with the database, the table or the page in the query. Anybody can
// write such a query: if something is known of the site, the client must be known too.
func (o *Outcome) isInside(r *Answer) bool {
	if !saysInside(r.Path) {
		return false
	}
	a := classify(r.Path)
	return a.form != "" && (o.site == nil || o.site.isInside(a.form, r))
}

func saysInside(target string) bool {
	_, query, _ := strings.Cut(target, "?")
	for parameter := range strings.SplitSeq(query, "&") {
		switch name, value, _ := strings.Cut(parameter, "="); name {
		case "ajax_request", "db", "table", "sql", "username":
			return true
		case "route":
			return value != "/" && !strings.EqualFold(value, "%2F")
		}
	}
	return false
}

// Append appends the names of the outcomes of r to names. An asset, favicon or robots.txt that is missing
// or forbidden has none, unless an outcome names its path: browsers ask for them by themselves.
func (all Outcomes) Append(names []string, r *Answer) []string {
	if r.Status == 0 {
		return names
	}
	isMissingAsset := (r.Status == 404 || r.Status == 410 || r.Status == 403 && !strings.EqualFold(r.Method, post)) && isAsset(r.Path)
	first := len(names)
	for i := range all {
		o := &all[i]
		switch {
		case o.of != nil:
			if o.of(o.site, r) {
				names = append(names, o.Name)
			}
		case !slices.Contains(o.Statuses, r.Status), o.Method != "" && !strings.EqualFold(o.Method, r.Method), slices.Contains(names[first:], o.Name):
		case o.paths.IsZero() && isMissingAsset:
		case !o.paths.IsZero() && (r.Path == "" || !o.paths.Meets(conditions.NewRequest(r.Path, "", "", ""))):
		case o.needs != nil && !o.needs.has(r.Path), o.isForm && o.isInside(r):
		default:
			if o.notes != nil {
				o.notes.add(r.Path)
			}
			names = append(names, o.Name)
		}
	}
	return names
}

// assets are the extensions of what pages load by themselves.
var assets = map[string]bool{
	".avif": true, ".bmp": true, ".css": true, ".eot": true, ".gif": true, ".ico": true, ".jpeg": true, ".jpg": true, ".js": true, ".map": true,
	".mjs": true, ".mp3": true, ".mp4": true, ".otf": true, ".png": true, ".svg": true, ".ttf": true, ".webm": true, ".webmanifest": true,
	".webp": true, ".woff": true, ".woff2": true,
}

// isAsset reports whether a browser may ask for a target without its user.
func isAsset(target string) bool {
	spelled, _, _ := strings.Cut(strings.ToLower(target), "?")
	if strings.Contains(spelled, ";") || strings.Contains(spelled, "%3b") {
		return false // programs that know no parameters of segments read another extension
	}
	p := strings.ToLower(conditions.NormalizePath(target))
	return p == "/robots.txt" || assets[path.Ext(p)] && !isDisguised(p)
}

// scripts are the extensions of programs, which some servers run whatever follows.
var scripts = map[string]bool{
	".action": true, ".ashx": true, ".asmx": true, ".asp": true, ".aspx": true, ".cfm": true, ".cgi": true, ".do": true, ".fcgi": true, ".jsp": true,
	".jspx": true, ".phar": true, ".php": true, ".php3": true, ".php4": true, ".php5": true, ".php7": true, ".php8": true, ".phtml": true, ".pl": true,
	".py": true, ".rb": true, ".sh": true,
}

// isDisguised reports whether a path with the extension of an asset leads to something else,
// through a script or a hidden file.
func isDisguised(p string) bool {
	folder, last := path.Split(p)
	for segment := range strings.SplitSeq(folder, "/") {
		if scripts[path.Ext(segment)] || strings.HasPrefix(segment, ".") && segment != ".well-known" {
			return true
		}
	}
	return strings.HasPrefix(last, ".")
}
