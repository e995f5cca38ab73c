package firewall

import (
	"fmt"
	"net"
	"os/exec"
	"strings"
	"testing"
	"time"

	"github.com/stint-dev/stint/test/servers"
)

// peer is another machine: a network namespace that is connected to that of the tests.
type peer struct {
	*testing.T
	pid string // of a process in it
}

// The addresses of the tests' end of the connection, and of the peer's.
const (
	hereIPv4, peerIPv4 = "192.0.2.1", "192.0.2.2"
	hereIPv6, peerIPv6 = "2001:db8::1", "2001:db8::2"
)

func newPeer(t *testing.T) *peer {
	t.Helper()
	c := exec.Command("unshare", "--net", "sleep", "infinity")
	if err := c.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = c.Process.Kill() // it runs until then
		_ = c.Wait()
	})
	p := &peer{T: t, pid: fmt.Sprint(c.Process.Pid)}
	// unshare becomes sleep once it has its namespace.
	own := p.run("readlink", "/proc/self/ns/net")
	for deadline := time.Now().Add(maxWait); p.run("readlink", "/proc/"+p.pid+"/ns/net") == own; time.Sleep(10 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatal("unshare made no second namespace")
		}
	}
	p.run("ip", "link", "add", "stint0", "type", "veth", "peer", "name", "stint1", "netns", p.pid)
	p.run("ip", "address", "add", hereIPv4+"/24", "dev", "stint0")
	p.run("ip", "address", "add", hereIPv6+"/64", "dev", "stint0", "nodad")
	p.run("ip", "link", "set", "stint0", "up")
	p.inside("ip", "address", "add", peerIPv4+"/24", "dev", "stint1")
	p.inside("ip", "address", "add", peerIPv6+"/64", "dev", "stint1", "nodad")
	p.inside("ip", "link", "set", "stint1", "up")
	t.Cleanup(func() { p.run("ip", "link", "delete", "stint0") })
	return p
}

func (p *peer) run(name string, args ...string) string {
	p.Helper()
	text, err := exec.Command(name, args...).CombinedOutput()
	if err != nil {
		p.Fatalf("%s %v: %v: %s", name, args, err, text)
	}
	return string(text)
}

func (p *peer) inside(args ...string) { p.Helper(); p.run("nsenter", p.enter(args)...) }

func (p *peer) enter(args []string) []string {
	return append([]string{"--net", "--target", p.pid}, args...)
}

// connects reports whether the peer can open a connection to a server within some
// seconds. The text is the error; it is empty if nothing answered.
func (p *peer) connects(to, seconds string) (bool, string) {
	p.Helper()
	host, port, err := net.SplitHostPort(to)
	if err != nil {
		p.Fatal(err)
	}
	const shell = `exec 3<>"/dev/tcp/$0/$1" && read -r line <&3 && echo "$line"`
	text, err := exec.Command("nsenter", p.enter([]string{"timeout", seconds, "bash", "-c", shell, host, port})...).CombinedOutput()
	return err == nil && strings.TrimSpace(string(text)) == "hello", string(text)
}

// serve answers every connection to a port of an address with a line, and returns the host:port.
func serve(t *testing.T, address string) string {
	t.Helper()
	return servers.ListenOn(t, address, func(c net.Conn) {
		fmt.Fprintln(c, "hello")
		c.Close()
	})
}

func TestPacketsOfBlockedAddressesAreRefused(t *testing.T) {
	s, p := newSite(t), newPeer(t)
	ipv4, ipv6 := serve(t, hereIPv4), serve(t, hereIPv6)
	await := func(to string, want bool) {
		t.Helper()
		s.until(fmt.Sprintf("connections: %v", want), func() bool { got, _ := p.connects(to, "1"); return got == want })
	}
	await(ipv4, true)
	await(ipv6, true)
	s.start()
	block := s.add("blocks", "ip:192.0.2.0/24", "")
	await(ipv4, false)
	await(ipv6, true)
	s.add("blocks", "ip:"+peerIPv6, "") // its /64
	await(ipv6, false)

	// The machine reaches itself under a blocked address of its own.
	own, err := net.DialTimeout("tcp", ipv4, maxWait)
	if err != nil {
		t.Errorf("a connection over loopback: got %v", err)
	} else {
		own.Close()
	}

	exempt := s.add("exemptions", "ip:"+peerIPv4, "")
	await(ipv4, true)
	s.end("exemptions", exempt)
	await(ipv4, false)
	s.end("blocks", block)
	await(ipv4, true)
	await(ipv6, false)

	s.stop()
	s.start("--reject")
	if got, text := p.connects(ipv6, "60"); got || text == "" {
		t.Errorf("a connection with --reject: got %v, %q, want an error from the firewall", got, text)
	}
	s.stop()
	s.once("--remove")
	await(ipv6, true)
}
