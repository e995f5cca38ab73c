// Package email sends notifications by SMTP.
package email

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net/url"
	"strconv"
	"strings"
	"time"
	"unicode"

	"github.com/wneessen/go-mail"

	"github.com/stint-dev/stint/internal/notify"
)

// sendTimeout bounds one conversation with the server.
const sendTimeout = 20 * time.Second

// Options make a Channel.
type Options struct {
	// URL is smtp://user:password@host:587 (STARTTLS required),
	// smtps://...:465 (TLS from the start), or smtp+plain:// without TLS, for
	// a relay on this machine.
	URL  string
	From string
	To   []string
}

// Channel sends mail.
type Channel struct {
	client   *mail.Client
	from     string
	to       []string
	password string
}

// New returns the channel, or an error in one line that holds no secret.
func New(o Options) (*Channel, error) {
	u, err := url.Parse(o.URL)
	if err != nil || u.Hostname() == "" {
		return nil, errors.New("the SMTP URL is none; write smtp://user:password@host:587")
	}
	options := []mail.Option{mail.WithTimeout(sendTimeout)}
	switch u.Scheme {
	case "smtp":
		options = append(options, mail.WithTLSPolicy(mail.TLSMandatory), mail.WithPort(587))
	case "smtps":
		options = append(options, mail.WithSSL(), mail.WithPort(465))
	case "smtp+plain":
		options = append(options, mail.WithTLSPolicy(mail.NoTLS), mail.WithPort(25))
	default:
		return nil, errors.New("the SMTP URL must begin with smtp://, smtps:// or smtp+plain://")
	}
	if u.Port() != "" {
		port, err := strconv.Atoi(u.Port())
		if err != nil {
			return nil, errors.New("the SMTP URL has a bad port")
		}
		options = append(options, mail.WithPort(port))
	}
	c := &Channel{from: o.From, to: o.To}
	if u.User != nil {
		c.password, _ = u.User.Password()
		options = append(options, mail.WithUsername(u.User.Username()), mail.WithPassword(c.password),
			mail.WithSMTPAuth(mail.SMTPAuthAutoDiscover))
	}
	if c.client, err = mail.NewClient(u.Hostname(), options...); err != nil {
		return nil, fmt.Errorf("the SMTP settings: %w", err)
	}
	// The addresses are tried now, so that a typo is found at the start.
	if _, err := c.compose(notify.Message{}); err != nil {
		return nil, err
	}
	return c, nil
}

// Name returns "email".
func (*Channel) Name() string { return "email" }

// Send mails m. The error is permanent if the server refuses m permanently.
func (c *Channel) Send(ctx context.Context, m notify.Message) error {
	message, err := c.compose(m)
	if err != nil {
		return notify.Permanent(err)
	}
	err = c.client.DialAndSendWithContext(ctx, message)
	if err == nil {
		return nil
	}
	var refused *mail.SendError
	permanent := errors.As(err, &refused) && !refused.IsTemp() && refused.Reason != mail.ErrConnCheck
	if c.password != "" {
		err = errors.New(strings.ReplaceAll(err.Error(), c.password, "xxxxx"))
	}
	if permanent {
		return notify.Permanent(err)
	}
	return err
}

func (c *Channel) compose(m notify.Message) (*mail.Msg, error) {
	message := mail.NewMsg()
	if err := message.From(c.from); err != nil {
		return nil, fmt.Errorf("the sender %q is no address of mail", c.from)
	}
	if len(c.to) == 0 {
		return nil, errors.New("no receiver of mail is named")
	}
	if err := message.To(c.to...); err != nil {
		return nil, fmt.Errorf("a receiver among %q is no address of mail", c.to)
	}
	message.Subject("[Stint] " + oneLine(m.Subject))
	message.SetDate()
	message.SetMessageID()
	message.SetBodyString(mail.TypeTextPlain, body(m))
	for _, n := range m.Items {
		if n.Page != nil {
			if err := message.AttachReader("report.html", bytes.NewReader(n.Page)); err != nil {
				return nil, fmt.Errorf("attach the report: %w", err)
			}
		}
	}
	return message, nil
}

func body(m notify.Message) string {
	var b strings.Builder
	for _, n := range m.Items {
		fmt.Fprintf(&b, "%s\n%s\n%s\n\n", oneLine(n.Subject), n.At.UTC().Format("Mon 2 Jan 2006, 15:04:05 UTC"), printable(n.Text))
	}
	if m.Total > len(m.Items) {
		fmt.Fprintf(&b, "and %d more like these.\n\n", m.Total-len(m.Items))
	}
	if m.Link != "" {
		b.WriteString(m.Link + "\n\n")
	}
	fmt.Fprintf(&b, "-- \nStint, node %s\n", oneLine(m.Node))
	return b.String()
}

// printable draws what cannot be seen or changes direction as its code point,
// U+202E for example.
func printable(s string) string {
	var b strings.Builder
	for _, r := range s {
		if r != '\n' && !unicode.IsPrint(r) {
			fmt.Fprintf(&b, "U+%04X", r)
			continue
		}
		b.WriteRune(r)
	}
	return b.String()
}

func oneLine(s string) string { return printable(strings.ReplaceAll(s, "\n", " ")) }
