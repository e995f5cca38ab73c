package client

import (
	"context"
	"io"
	"net/url"
	"reflect"
	"strconv"
	"strings"

	"github.com/stint-dev/stint/internal/wire"
)

// pageSize is the number of items to request at a time, the API's maximum.
const pageSize = 1000

// Call calls an operation and returns its answer.
func Call[In, Out any](ctx context.Context, c *Client, op wire.Op[In, Out], in In) (Out, error) {
	out := new(Out)
	var into any = out
	if reflect.TypeFor[Out]() == reflect.TypeFor[wire.None]() {
		into = nil
	}
	err := c.conn.do(ctx, requestOf(op, in), into)
	return *out, err
}

// Items returns the items of a list that is sent as one page.
func Items[In, T any](ctx context.Context, c *Client, op wire.Op[In, wire.Page[T]], in In) ([]T, error) {
	page, err := Call(ctx, c, op, in)
	return page.Items, err
}

// Pages reads the pages of a list up to limit items, all for 0.
func Pages[In, T any](ctx context.Context, c *Client, op wire.Op[In, wire.Page[T]], in In, limit int) (Listing[T], error) {
	return PagesOf[T](ctx, c, op, in, limit)
}

// PagesOf is Pages for an operation whose answer says more than a page.
func PagesOf[T, In, Out any](ctx context.Context, c *Client, op wire.Op[In, Out], in In, limit int) (Listing[T], error) {
	return pages[T](ctx, c.conn, requestOf(op, in), limit)
}

// Open opens the answer of an operation that sends a file. The caller closes it.
func Open[In any](ctx context.Context, c *Client, op wire.Op[In, wire.File], in In) (io.ReadCloser, error) {
	return c.conn.openBody(ctx, requestOf(op, in))
}

// Upload calls an operation whose body is a file of a media type.
func Upload[In, Out any](ctx context.Context, c *Client, op wire.Op[In, Out], in In, file io.Reader, media string) (Out, error) {
	r := requestOf(op, in)
	r.stream, r.media, r.slow = file, media, true
	out := new(Out)
	err := c.conn.do(ctx, r, out)
	return *out, err
}

// requestOf returns the request that calls an operation.
func requestOf[In, Out any](op wire.Op[In, Out], in In) request {
	method, path, _ := strings.Cut(op.Route, " ")
	r := request{method: method, query: url.Values{}, header: map[string]string{}, slow: op.Slow, readOnly: op.ReadOnly}
	params, hasBody := wire.ParamsOf(reflect.TypeFor[In]())
	for _, p := range params {
		text := p.Of(reflect.ValueOf(in))
		switch p.In {
		case "path":
			path = strings.Replace(path, ":"+p.Name, url.PathEscape(text), 1)
		case "query":
			if text != "" || p.Required { // an empty one is another mistake than none
				r.query.Set(p.Name, text)
			}
		case "header":
			switch {
			case p.Name != wire.IfMatch:
				r.header[p.Name] = text
			case text != "":
				r.header[p.Name] = quotedTag(text)
			}
		}
	}
	r.path = path
	r.readOnly = r.readOnly || r.query.Get("dry_run") == "true"
	if hasBody {
		r.body = wire.BodyOf(reflect.ValueOf(in)).Interface()
	}
	return r
}

// quotedTag returns an ETag as headers have it.
func quotedTag(tag string) string {
	if tag == AnyState {
		return tag
	}
	return strconv.Quote(tag)
}

// pages reads the pages of a list up to limit items, all for 0.
func pages[T any](ctx context.Context, c *conn, r request, limit int) (Listing[T], error) {
	found := Listing[T]{Total: -1}
	for {
		size := pageSize
		if limit > 0 {
			size = min(size, limit-len(found.Items))
		}
		r.query.Set("limit", strconv.Itoa(size))
		page, err := call[wire.Page[T]](ctx, c, r)
		if err != nil {
			return found, err
		}
		found.Items = append(found.Items, page.Items...)
		if page.Total != nil {
			found.Total = *page.Total
		}
		found.More = page.NextCursor != ""
		if !found.More || limit > 0 && len(found.Items) >= limit {
			return found, nil
		}
		r.query.Set("cursor", string(page.NextCursor))
	}
}
