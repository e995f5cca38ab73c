// Package email sends notifications by SMTP.
package email

import (
	"bytes"
	"cmp"
	"context"
	"crypto/tls"
	"encoding/base64"
	"errors"
	"fmt"
	"net"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/wneessen/go-mail"

	"github.com/stint-dev/stint/internal/escape"
	"github.com/stint-dev/stint/internal/notify"
)

// sendTimeout bounds one SMTP session.
const sendTimeout = 20 * time.Second

// Options configure a Channel.
type Options struct {
	// URL is smtp://user:password@host:587 (STARTTLS required), smtps://...:465 (TLS from the
	// start), or smtp+plain:// without TLS, for a relay on this machine.
	URL  string
	From string
	To   []string
	// DialContext connects to the server; nil allows any address.
	DialContext func(ctx context.Context, network, address string) (net.Conn, error)
}

// The errors of New for an invalid sender and for invalid recipients.
var (
	ErrSender     = errors.New("the sender is not a mail address")
	ErrRecipients = errors.New("name one or more recipients, each by a mail address")
)

// Channel sends mail.
type Channel struct {
	client  *mail.Client
	from    string
	to      []string
	secrets *strings.Replacer // hides the password in errors, nil if there is none
}

// New returns the channel. Its error is one line and contains no secret.
func New(o Options) (*Channel, error) {
	u, err := url.Parse(o.URL)
	if err != nil || u.Hostname() == "" {
		return nil, errors.New("the SMTP URL is none; write smtp://user:password@host:587")
	}
	options := []mail.Option{mail.WithTimeout(sendTimeout)}
	port := u.Port()
	switch u.Scheme {
	case "smtp":
		port = cmp.Or(port, "587")
		options = append(options, mail.WithTLSPolicy(mail.TLSMandatory))
	case "smtps":
		port = cmp.Or(port, "465")
	case "smtp+plain":
		port = cmp.Or(port, "25")
		options = append(options, mail.WithTLSPolicy(mail.NoTLS))
	default:
		return nil, errors.New("the SMTP URL must begin with smtp://, smtps:// or smtp+plain://")
	}
	dial := mail.DialContextFunc((&net.Dialer{}).DialContext)
	if o.DialContext != nil {
		dial = o.DialContext
	}
	dial = bounded(toServer(dial, net.JoinHostPort(u.Hostname(), port)))
	if u.Scheme == "smtps" {
		// Dial adds TLS itself. This policy makes the library accept that.
		dial = overTLS(dial, u.Hostname())
		options = append(options, mail.WithTLSPolicy(mail.TLSOpportunistic))
	}
	options = append(options, mail.WithDialContextFunc(dial))
	number, err := strconv.Atoi(port)
	if err != nil {
		return nil, errors.New("the SMTP URL has a bad port")
	}
	options = append(options, mail.WithPort(number))
	c := &Channel{from: o.From, to: o.To}
	if u.User != nil {
		password, _ := u.User.Password()
		c.secrets = hiding(u.User.Username(), password)
		options = append(options, mail.WithUsername(u.User.Username()), mail.WithPassword(password),
			mail.WithSMTPAuth(mail.SMTPAuthAutoDiscover))
	}
	if c.client, err = mail.NewClient(u.Hostname(), options...); err != nil {
		return nil, fmt.Errorf("the SMTP settings: %w", err)
	}
	// Compose a message now, so that a typo in an address is found at the start.
	if _, err := c.compose(notify.Message{}); err != nil {
		return nil, err
	}
	return c, nil
}

// hiding returns a replacer that hides a password in the forms in which it is sent, since a
// server may repeat them: unencoded, as in LOGIN, and with the user as in PLAIN. It is nil
// without a password.
func hiding(user, password string) *strings.Replacer {
	if password == "" {
		return nil
	}
	var pairs []string
	for _, plain := range []string{"\x00" + user + "\x00" + password, user + "\x00" + user + "\x00" + password, password} {
		for _, form := range []*base64.Encoding{base64.StdEncoding, base64.RawStdEncoding} {
			pairs = append(pairs, form.EncodeToString([]byte(plain)), "xxxxx")
		}
	}
	return strings.NewReplacer(append(pairs, password, "xxxxx")...)
}

// toServer returns dial with the address of the server. That of the library has no brackets around
// an IPv6 address.
func toServer(dial mail.DialContextFunc, address string) mail.DialContextFunc {
	return func(ctx context.Context, network, _ string) (net.Conn, error) { return dial(ctx, network, address) }
}

// overTLS returns dial with TLS from the start of the connection.
func overTLS(dial mail.DialContextFunc, host string) mail.DialContextFunc {
	return func(ctx context.Context, network, address string) (net.Conn, error) {
		plain, err := dial(ctx, network, address)
		if err != nil {
			return nil, err
		}
		secured := tls.Client(plain, &tls.Config{ServerName: host, MinVersion: tls.VersionTLS12})
		if err := secured.HandshakeContext(ctx); err != nil {
			_ = plain.Close() // the handshake's error matters
			return nil, err
		}
		return secured, nil
	}
}

// maxAnswers bounds what is read from a server in one session. A session takes a few KiB, but
// the library buffers a line of any length.
const maxAnswers = 512 << 10

var errTooLong = errors.New("the mail server sends more than a mail server has to say")

// bounded returns dial with connections from which at most maxAnswers bytes are read.
func bounded(dial mail.DialContextFunc) mail.DialContextFunc {
	return func(ctx context.Context, network, address string) (net.Conn, error) {
		conn, err := dial(ctx, network, address)
		if err != nil {
			return nil, err
		}
		return &boundedConn{conn, maxAnswers}, nil
	}
}

type boundedConn struct {
	net.Conn
	left int
}

// Read implements net.Conn.
func (c *boundedConn) Read(p []byte) (int, error) {
	if c.left <= 0 {
		return 0, errTooLong
	}
	n, err := c.Conn.Read(p[:min(len(p), c.left)])
	c.left -= n
	return n, err
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
	if err == nil || message.IsDelivered() { // the error then only concerns the end of the session
		return nil
	}
	permanent := isPermanent(err)
	if c.secrets != nil {
		err = errors.New(c.secrets.Replace(err.Error()))
	}
	if permanent {
		return notify.Permanent(err)
	}
	return err
}

// isPermanent reports whether the server will always refuse the message, or the message can
// never be accepted. A broken connection means neither, although go-mail regards every error as
// permanent that does not begin with a 4.
func isPermanent(err error) bool {
	refused, is := errors.AsType[*mail.SendError](err)
	if !is {
		return false
	}
	switch refused.Reason {
	case mail.ErrGetSender, mail.ErrGetRcpts, mail.ErrNoUnencoded:
		return true
	}
	return refused.ErrorCode() >= 500
}

// maxSubject keeps the header within 998 bytes, the longest line that servers accept: a subject
// without spaces is not folded into several.
const maxSubject = 500

func (c *Channel) compose(m notify.Message) (*mail.Msg, error) {
	message := mail.NewMsg()
	if err := message.From(c.from); err != nil {
		return nil, fmt.Errorf("%w: %q", ErrSender, c.from)
	}
	if len(c.to) == 0 {
		return nil, ErrRecipients
	}
	if err := message.To(c.to...); err != nil {
		return nil, fmt.Errorf("%w: %q", ErrRecipients, c.to)
	}
	message.Subject("[Stint] " + m.Title(maxSubject, oneLine))
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
		fmt.Fprintf(&b, "%s\n%s\n%s\n\n", oneLine(n.Subject), n.At.UTC().Format("Mon 2 Jan 2006, 15:04:05 UTC"), escape.Visible(n.Text))
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

func oneLine(s string) string { return escape.Visible(strings.ReplaceAll(s, "\n", " ")) }
