package sqlstore

import (
	"fmt"
	"slices"
	"strings"
)

// Place names the database without any credential, the same for every node
// that uses it by the same URL.
func (s *Store) Place() string {
	if s.place.dialect != &postgres {
		return "sqlite:" + s.place.target
	}
	config, err := postgresConfig(s.place.target)
	if err != nil {
		return "postgres:" // New has read the same URL
	}
	hosts := []string{fmt.Sprintf("%s:%d", config.Host, config.Port)}
	for _, other := range config.Fallbacks {
		hosts = append(hosts, fmt.Sprintf("%s:%d", other.Host, other.Port))
	}
	slices.Sort(hosts)
	return "postgres:" + strings.Join(slices.Compact(hosts), ",") + "/" + config.Database + "?" + config.RuntimeParams["search_path"]
}
