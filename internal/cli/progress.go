package cli

import (
	"time"

	"github.com/schollz/progressbar/v3"
	"golang.org/x/term"
)

// progress is a progress bar on a terminal, and silent elsewhere.
type progress struct {
	a     *app
	bar   *progressbar.ProgressBar
	title string
	total int64
}

func (a *app) progress() *progress { return &progress{a: a} }

// show updates a stage; bytes means that done and total are bytes. A total of 0 is
// unknown.
func (p *progress) show(title string, done, total int64, bytes bool) {
	if !term.IsTerminal(int(p.a.sys.Stderr.Fd())) {
		return
	}
	if total <= 0 {
		total = -1
	}
	if p.bar == nil || title != p.title {
		p.end()
		p.title, p.total = title, total
		p.bar = progressbar.NewOptions64(total,
			progressbar.OptionSetDescription(title),
			progressbar.OptionSetWriter(p.a.sys.Stderr),
			progressbar.OptionShowBytes(bytes),
			progressbar.OptionShowCount(),
			progressbar.OptionThrottle(100*time.Millisecond),
			progressbar.OptionFullWidth(),
			progressbar.OptionClearOnFinish(),
		)
	}
	if total != p.total {
		p.total = total
		p.bar.ChangeMax64(total)
	}
	// The bar fails only if the terminal is gone.
	_ = p.bar.Set64(done)
}

// end removes the bar.
func (p *progress) end() {
	if p.bar != nil {
		_ = p.bar.Finish()
		_ = p.bar.Clear()
		p.bar = nil
	}
}
