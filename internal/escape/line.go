package escape

import "strings"

// maxLine bounds what OneLine returns of a text.
const maxLine = 200 // bytes

// OneLine returns a text, such as a server's error, as one line that Clip keeps to 200 bytes. Each
// run of white space becomes a space, and bytes that are no UTF-8 become question marks.
func OneLine(text string) string {
	return Clip(strings.Join(strings.Fields(strings.ToValidUTF8(text, "?")), " "), maxLine)
}
