package accesslog

import (
	"errors"
	"fmt"
	"strings"

	"github.com/stint-dev/stint/internal/answers"
	"github.com/stint-dev/stint/internal/conditions"
)

// Scopes says which scope a caller would have said of the requests of a log, by their
// method and path. The first that fits counts.
type Scopes []Scope

// Scope is a scope and the requests that are in it.
type Scope struct {
	Name   string
	Method string // in upper case, "" for any
	paths  conditions.When
}

// maxScopes bounds how many scopes may be named.
const maxScopes = 32

// ParseScopes reads texts such as "/login=login" and "POST /api/session*=login": a method
// if only it counts, a pattern of the path as in conditions, and the scope.
func ParseScopes(texts []string) (Scopes, error) {
	if len(texts) > maxScopes {
		return nil, fmt.Errorf("%d scopes are too many; at most %d are allowed", len(texts), maxScopes)
	}
	var all Scopes
	for _, text := range texts {
		s, err := parseScope(text)
		if err != nil {
			return nil, fmt.Errorf("the scope %q %w", clip(text), err)
		}
		all = append(all, s)
	}
	return all, nil
}

func parseScope(text string) (Scope, error) {
	at := strings.LastIndexByte(text, '=')
	if at < 0 {
		return Scope{}, errors.New("has no equals sign; write for example /login=login or POST /login=login")
	}
	s := Scope{Name: strings.TrimSpace(text[at+1:])}
	if err := conditions.CheckScope(s.Name); err != nil {
		return s, err
	}
	pattern := strings.TrimSpace(text[:at])
	if method, path, found := strings.Cut(pattern, " "); found && !strings.HasPrefix(method, "/") {
		s.Method, pattern = strings.ToUpper(method), strings.TrimSpace(path)
	}
	var err error
	s.paths, err = answers.ParsePaths(pattern)
	return s, err
}

// Of returns the scope of a request, "" for none. about are its attributes, nil for none.
func (all Scopes) Of(r *Record, about *conditions.Request) string {
	for i := range all {
		if s := &all[i]; about != nil && (s.Method == "" || strings.EqualFold(s.Method, r.Method)) && s.paths.Meets(about) {
			return s.Name
		}
	}
	return ""
}
