package escape

import "strconv"

// maxLog is how many bytes of a text a log or message holds.
const maxLog = 300

// Log returns text for a log line or a message: everything but printable ASCII is
// escaped, and more than 300 bytes are cut.
func Log(text string) string {
	quoted := strconv.QuoteToASCII(Clip(text, maxLog))
	return quoted[1 : len(quoted)-1]
}
