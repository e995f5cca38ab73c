package client

import (
	"context"
	"io"
	"mime/multipart"

	"github.com/go-json-experiment/json"

	"github.com/stint-dev/stint/internal/wire"
)

// AnyState is the ETag for a change of a policy in any state.
const AnyState = "*"

// Backtest replays an access log through a policy that is not saved. name is the name of the
// log in errors.
func Backtest(ctx context.Context, c *Client, draft wire.PolicyRequest, name string, log io.Reader) (wire.PolicyTrial, error) {
	from, into := io.Pipe()
	defer from.Close() // ends the writer
	form := multipart.NewWriter(into)
	go func() { into.CloseWithError(writeTrial(form, draft, name, log)) }()
	return Upload(ctx, c, wire.BacktestPolicy, wire.PolicyBacktestOf{Policy: draft.Name}, from, form.FormDataContentType())
}

func writeTrial(form *multipart.Writer, draft wire.PolicyRequest, name string, log io.Reader) error {
	text, err := json.Marshal(draft)
	if err == nil {
		err = form.WriteField("policy", string(text))
	}
	if err != nil {
		return err
	}
	part, err := form.CreateFormFile("log", name)
	if err != nil {
		return err
	}
	if _, err := io.Copy(part, log); err != nil {
		return err
	}
	return form.Close()
}
