package detection

import (
	"fmt"
	"testing"
)

// The presets reach the goals of every site, also with seeds that are not published.
func TestPresetsReachTheirGoalsOnOtherSites(t *testing.T) {
	for _, site := range Sites() {
		t.Run(site.Name, func(t *testing.T) {
			for seed := range uint64(3) {
				t.Run(fmt.Sprint("seed ", seed+1), func(t *testing.T) {
					day := site.Day(seed + 1)
					refused, _, err := stint(site.Presets...)(t.Context(), day)
					if err != nil {
						t.Fatal(err)
					}
					scores := scoreParts(day, refused)
					for _, p := range site.Parts {
						if s := scores[p.Name]; s.clients == 0 || !p.isReached(s) {
							t.Errorf("%s: %d of %d clients are caught, %d of %d requests refused, want %s", p.Name, s.caught, s.clients, s.refused, s.requests, p.goal())
						}
					}
				})
			}
		})
	}
}

// The preset ssh blocks clients that guess the passwords of a server, by the own filter of fail2ban, and none that
// mistype.
func TestGuessersOfSSHAreCaught(t *testing.T) {
	for seed := range uint64(3) {
		day := sshDay(seed + 1)
		refused, _, err := stintSSH(t.Context(), day)
		if err != nil {
			t.Fatal(err)
		}
		scores := scoreParts(day, refused)
		for _, p := range sshParts {
			if s := scores[p.Name]; s.clients == 0 || !p.isReached(s) {
				t.Errorf("seed %d, %s: %d of %d clients are caught, %d of %d requests refused, want %s", seed+1, p.Name, s.caught, s.clients, s.refused, s.requests, p.goal())
			}
		}
	}
}
