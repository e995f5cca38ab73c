package api

import (
	"context"
	"io"
)

// What follows is for the front ends that put their routes beside these ones.

// StatusOf returns the HTTP status that err is answered with.
func StatusOf(err error) int { return problemOf(err).Status }

// Stream answers with what write writes, as it comes, as a file of that name.
func Stream(c *Call, contentType, filename string, write func(ctx context.Context, w io.Writer) error) error {
	return stream(c, contentType, filename, write)
}
