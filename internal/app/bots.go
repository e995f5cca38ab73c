package app

import (
	"context"
	"io"
	"path/filepath"
	"time"

	"github.com/stint-dev/stint/internal/bots"
	"github.com/stint-dev/stint/internal/gate"
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

// buildBots builds what identifies and counts bots. It needs the verifier and the lists.
func (a *App) buildBots() {
	a.bots = &bots.Directory{Verifier: a.crawlers, Lists: a.botLists, Began: time.Now()}
	a.botCounts = &bots.Counts{File: filepath.Join(a.settings.DataDir, "bot-counts.json")}
	if err := a.botCounts.Load(); err != nil {
		a.log.Warn("the counts of bots cannot be read and begin at zero", "error", err)
	}
}

// fetchBotKeys fetches the keys of bots that sign, when they come.
func (a *App) fetchBotKeys(ctx context.Context) {
	if a.settings.FetchBotKeys {
		a.botLists.Run(ctx)
	}
}

// saveBotCounts saves the counts of bots now and then, and when the node stops.
func (a *App) saveBotCounts(ctx context.Context) {
	save := func(context.Context) {
		if err := a.botCounts.Save(); err != nil {
			a.log.Warn("the counts of bots cannot be written", "error", err)
		}
	}
	every(botCountsInterval, save)(ctx)
	save(ctx)
}

const botCountsInterval = 5 * time.Minute

// botRecorder counts the checks of bots.
type botRecorder struct{ counts *bots.Counts }

// Record implements gate.Recorder.
func (r botRecorder) Record(d *gate.Decision) {
	if bot := d.Check.Bot(); bot.Agent != nil && !d.IsAdditional {
		r.counts.Add(bot, d.At, d.Outcome != gate.Allowed)
	}
}
