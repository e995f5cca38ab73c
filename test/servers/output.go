package servers

import (
	"bytes"
	"strings"
	"sync"
)

// Output is what a program or a log writes, read while it is written. The zero value is empty.
type Output struct {
	mu   sync.Mutex
	text bytes.Buffer
}

// Write implements io.Writer.
func (o *Output) Write(p []byte) (int, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.text.Write(p)
}

// String returns all that was written.
func (o *Output) String() string {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.text.String()
}

// Count returns how often a text was written.
func (o *Output) Count(text string) int { return strings.Count(o.String(), text) }

// Reset forgets what was written.
func (o *Output) Reset() {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.text.Reset()
}
