package console

import (
	"time"

	"github.com/schollz/progressbar/v3"
	"golang.org/x/term"
)

// Progress is a progress bar on a terminal, and silent elsewhere.
type Progress struct {
	console *Console
	bar     *progressbar.ProgressBar
	title   string
	total   int64
}

// Progress returns a progress bar that is not shown yet.
func (c *Console) Progress() *Progress { return &Progress{console: c} }

// Show updates a stage; bytes means that done and total are bytes. A total of 0 is
// unknown.
func (p *Progress) Show(title string, done, total int64, bytes bool) {
	if !term.IsTerminal(int(p.console.Stderr.Fd())) {
		return
	}
	if total <= 0 {
		total = -1
	}
	if p.bar == nil || title != p.title {
		p.End()
		p.title, p.total = title, total
		p.bar = progressbar.NewOptions64(total,
			progressbar.OptionSetDescription(title),
			progressbar.OptionSetWriter(p.console.Stderr),
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

// End removes the bar.
func (p *Progress) End() {
	if p.bar != nil {
		_ = p.bar.Finish()
		_ = p.bar.Clear()
		p.bar = nil
	}
}
