// Package openid logs people in with an OpenID Connect provider: the authorization code flow
// with PKCE. It stores the state of a login in progress only in the browser's cookie, so that
// every node can finish a login that another node began.
package openid

import (
	"errors"
	"fmt"
	"net/netip"
	"net/url"
	"slices"
	"strings"

	"github.com/stint-dev/stint/internal/identity"
)

// CallbackPath is the path to which the provider redirects browsers.
const CallbackPath = "/login/oidc/callback"

// Settings are the provider and this client's registration. An empty Issuer means no provider.
type Settings struct {
	Issuer       string // exactly as in the provider's metadata
	ClientID     string
	ClientSecret string
	RedirectURL  string // URL of this server, ending in CallbackPath
	Scopes       []string
	GroupsClaim  string
	NameClaim    string
	Roles        RoleMap
	Label        string // of the button
}

// Enabled reports whether there is a provider.
func (s *Settings) Enabled() bool { return s.Issuer != "" }

// maxLabel bounds the label of the button, in bytes.
const maxLabel = 60

// Validate returns an error of one line if s cannot be used.
func (s *Settings) Validate() error {
	if !s.Enabled() {
		if s.ClientID != "" || s.ClientSecret != "" || len(s.Roles) > 0 {
			return errors.New("--oidc-issuer is missing, but other settings of OpenID Connect are given; name the provider, for example https://id.example.com")
		}
		return nil
	}
	if err := checkURL("--oidc-issuer", s.Issuer); err != nil {
		return err
	}
	switch {
	case s.ClientID == "":
		return errors.New("--oidc-client-id is missing: the id that the provider gave this client")
	case s.ClientSecret == "":
		return errors.New("STINT_OIDC_CLIENT_SECRET is missing: the secret that the provider gave this client; a file may hold it, see --oidc-client-secret-file")
	case s.RedirectURL == "":
		return errors.New("--oidc-redirect-url is missing: where people reach the admin pages, for example https://stint.example.com" + CallbackPath + "; or give --notify-pages-url")
	case len(s.Roles) == 0:
		return errors.New("--oidc-roles is missing: the role of each group, for example stint-admins=admin; staff=viewer")
	case !slices.Contains(s.Scopes, "openid"):
		return errors.New("--oidc-scopes: must contain openid")
	case s.GroupsClaim == "" || s.NameClaim == "":
		return errors.New("--oidc-groups-claim and --oidc-name-claim must name a claim")
	case s.Label == "" || len(s.Label) > maxLabel:
		return fmt.Errorf("--oidc-label: must be 1 to %d bytes", maxLabel)
	}
	if err := checkURL("--oidc-redirect-url", s.RedirectURL); err != nil {
		return err
	}
	if u, _ := url.Parse(s.RedirectURL); u.Path != CallbackPath {
		return fmt.Errorf("--oidc-redirect-url: must end in %s, for example https://stint.example.com%s", CallbackPath, CallbackPath)
	}
	return nil
}

// checkURL returns an error unless text is an https URL, or http on this machine.
func checkURL(name, text string) error {
	u, err := url.Parse(text)
	if err != nil || u.Host == "" || u.User != nil || u.RawQuery != "" || u.Fragment != "" || strings.ContainsAny(text, "?#") {
		return fmt.Errorf("%s: must be a URL without user, query and fragment, for example https://id.example.com", name)
	}
	if u.Scheme == "https" || u.Scheme == "http" && isLoopback(u.Hostname()) {
		return nil
	}
	return fmt.Errorf("%s: must begin with https://; http:// is allowed on a loopback address only", name)
}

func isLoopback(host string) bool {
	addr, err := netip.ParseAddr(host)
	return host == "localhost" || err == nil && addr.Unmap().IsLoopback()
}

// RoleMap maps groups to roles.
type RoleMap []GroupRole

// GroupRole is the role of one group of the provider.
type GroupRole struct {
	Group string
	Role  identity.Role
}

// ParseRoleMap parses "group=role" pairs separated by semicolons. A group may contain "=" and
// commas, as LDAP names do. "" is the empty map.
func ParseRoleMap(text string) (RoleMap, error) {
	var all RoleMap
	for part := range strings.SplitSeq(text, ";") {
		if part = strings.TrimSpace(part); part == "" {
			continue
		}
		at := strings.LastIndexByte(part, '=')
		group, role := strings.TrimSpace(part[:max(at, 0)]), identity.Role(strings.TrimSpace(part[at+1:]))
		if group == "" || role.Access() == "" {
			return nil, fmt.Errorf("must be group=role with semicolons between, where a role is viewer, operator or admin, for example stint-admins=admin; staff=viewer; got %q", part)
		}
		if slices.ContainsFunc(all, func(g GroupRole) bool { return g.Group == group }) {
			return nil, fmt.Errorf("the group %q is given twice; give it one role", group)
		}
		all = append(all, GroupRole{group, role})
	}
	return all, nil
}

// String returns the map in the syntax of ParseRoleMap.
func (m RoleMap) String() string {
	parts := make([]string, len(m))
	for i, g := range m {
		parts[i] = g.Group + "=" + string(g.Role)
	}
	return strings.Join(parts, "; ")
}

// RoleOf returns the highest role of the groups, "" for none.
func (m RoleMap) RoleOf(groups []string) (highest identity.Role) {
	for _, g := range m {
		if slices.Contains(groups, g.Group) && (highest == "" || g.Role.Access().Grants(highest.Access())) {
			highest = g.Role
		}
	}
	return highest
}
