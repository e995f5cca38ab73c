package app

import (
	"context"
	"io"
	"path/filepath"
	"time"

	"github.com/stint-dev/stint/internal/bots"
	"github.com/stint-dev/stint/internal/notify/egress"
)

// botListsOf returns the lists of addresses and keys that operators of bots publish, as far as the data
// directory has them.
func botListsOf(s Settings) *bots.Lists {
	client := egress.New(egress.Options{AllowPrivate: s.Notify.AllowPrivate, Timeout: time.Minute})
	download := func(ctx context.Context, url, etag string) (io.ReadCloser, string, error) {
		answer, err := client.Fetch(ctx, egress.Fetch{URL: url, ETag: etag})
		if err != nil {
			return nil, "", err
		}
		if answer.IsSame {
			return nil, etag, answer.Body.Close()
		}
		return answer.Body, answer.ETag, nil
	}
	return bots.NewLists(filepath.Join(s.DataDir, "bots"), download, time.Now)
}

// buildBots builds what identifies bots. It needs the verifier and the lists.
func (a *App) buildBots() {
	a.bots = &bots.Directory{Verifier: a.crawlers, Lists: a.botLists, Began: time.Now()}
	if a.settings.SiteHosts.String() != "" {
		a.bots.IsOurs = a.settings.SiteHosts.Lists
	}
}

// fetchBotKeys fetches the keys of bots that sign, when they come.
func (a *App) fetchBotKeys(ctx context.Context) {
	if a.settings.FetchBotKeys {
		a.botLists.Run(ctx)
	}
}
