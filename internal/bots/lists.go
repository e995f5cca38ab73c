package bots

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/stint-dev/stint/internal/atomicfile"
)

const (
	maxListBytes = 4 << 20
	maxPrefixes  = 50_000 // of one list
	// minDropped is how many prefixes a list may always lose: a short one may change as a whole.
	minDropped = 4
)

// Download fetches a list unless it is the one with that ETag, in which case body is nil.
type Download func(ctx context.Context, url, etag string) (body io.ReadCloser, newETag string, err error)

// Lists are the addresses that operators publish for their bots, and the keys by which these sign. The
// last good copy of each list is a file in a folder, from which a node begins and where an operator may
// put it by hand.
type Lists struct {
	folder   string
	download Download
	now      func() time.Time
	mu       sync.Mutex // held while lists change
	current  atomic.Pointer[map[string]*list]
	fetches  fetches
}

// list is one published list, of addresses or of keys.
type list struct {
	ListState
	etag     string
	modified time.Time // of its file when that was read or written, zero for none
	content
}

// content is what a list has.
type content struct {
	prefixes []netip.Prefix // sorted, and no two overlap
	keys     signingKeys    // by their thumbprints
}

// ListState is the state of a list.
type ListState struct {
	URL      string
	File     string // the name of its file
	Prefixes int
	Keys     int       // by which requests are signed, of a list of keys
	Fetched  time.Time // when it was last read from its publisher or from its file, zero for never
	// Problem is why the last fetch changed nothing, "" for none.
	Problem string
	// IsIgnored reports that its keys are too old to verify anybody, as KeysBelievedFor says.
	IsIgnored bool
}

// NewLists returns the lists of all agents with what the files in folder have. download nil fetches
// nothing.
func NewLists(folder string, download Download, now func() time.Time) *Lists {
	l := &Lists{folder: folder, download: download, now: now}
	all := map[string]*list{}
	for _, a := range Agents() {
		urls := a.Lists
		if a.Keys != "" {
			urls = append(slices.Clone(urls), a.Keys+keysPath)
		}
		for _, url := range urls {
			if all[url] == nil {
				all[url] = l.load(url)
			}
		}
	}
	l.fetches.waiting = make(chan string, len(all))
	l.current.Store(&all)
	return l
}

// fileOf returns the name of the file of a list: the last part of its address, and enough of a hash that
// no two are the same.
func fileOf(url string) string {
	sum := sha256.Sum256([]byte(url))
	base := strings.TrimSuffix(url, keysPath)
	base = base[strings.LastIndexByte(base, '/')+1:]
	return strings.TrimSuffix(base, ".json") + "-" + hex.EncodeToString(sum[:3]) + ".json"
}

func (l *Lists) load(url string) *list {
	one := &list{ListState: ListState{URL: url, File: fileOf(url)}}
	file, err := os.Open(filepath.Join(l.folder, one.File))
	if err != nil {
		if !errors.Is(err, fs.ErrNotExist) {
			one.Problem = err.Error()
		}
		return one
	}
	defer file.Close()
	info, err := file.Stat()
	if err == nil {
		one.content, err = readContent(url, file)
	}
	if err != nil {
		one.Problem = fmt.Sprintf("the file %s cannot be read: %s", one.File, err)
		return one
	}
	one.Prefixes, one.Keys, one.modified = len(one.prefixes), len(one.keys), info.ModTime()
	if one.Fetched = info.ModTime(); one.Fetched.After(l.now()) { // whatever the file says, it is not of the future
		one.Fetched = l.now()
	}
	return one
}

func readContent(url string, r io.Reader) (c content, err error) {
	if strings.HasSuffix(url, keysPath) {
		c.keys, err = readKeys(r)
	} else {
		c.prefixes, err = readPrefixes(r)
	}
	return c, err
}

// Reread reads the files that are others than those that were read or written last: an operator may put
// one into the folder, or delete it, at any time. A file that cannot be read changes nothing.
func (l *Lists) Reread() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.reread()
}

// reread is Reread. l.mu is held.
func (l *Lists) reread() {
	next := maps.Clone(*l.current.Load())
	for url, before := range next {
		info, err := os.Stat(filepath.Join(l.folder, before.File))
		isDeleted := errors.Is(err, fs.ErrNotExist) && !before.modified.IsZero()
		if err != nil && !isDeleted || err == nil && info.ModTime().Equal(before.modified) {
			continue
		}
		after := l.load(url)
		if after.Problem != "" {
			kept := *before
			kept.Problem = after.Problem
			if info != nil { // it was there when it was read
				kept.modified = info.ModTime()
			}
			after = &kept
		}
		next[url] = after
	}
	l.current.Store(&next)
}

// published is a list as operators publish it: {"prefixes":[{"ipv4Prefix":"192.0.2.0/24"}]}, or with
// ips and ip_address.
type published struct {
	Prefixes []struct {
		IPv4 string `json:"ipv4Prefix"`
		IPv6 string `json:"ipv6Prefix"`
	} `json:"prefixes"`
	IPs []struct {
		Address string `json:"ip_address"`
	} `json:"ips"`
}

// readPrefixes reads a list whole. Prefixes so short that no operator has them are refused with the list.
func readPrefixes(r io.Reader) ([]netip.Prefix, error) {
	text, err := io.ReadAll(io.LimitReader(r, maxListBytes+1))
	if err != nil {
		return nil, err
	}
	if len(text) > maxListBytes {
		return nil, fmt.Errorf("it is longer than %d bytes", maxListBytes)
	}
	var p published
	if err := json.Unmarshal(text, &p); err != nil {
		return nil, errors.New("it is no JSON object with prefixes")
	}
	var texts []string
	for _, one := range p.Prefixes {
		texts = append(texts, cmp.Or(one.IPv4, one.IPv6))
	}
	for _, one := range p.IPs {
		texts = append(texts, one.Address)
	}
	if len(texts) == 0 || len(texts) > maxPrefixes {
		return nil, fmt.Errorf("it has %d prefixes; 1 to %d are expected", len(texts), maxPrefixes)
	}
	all := make([]netip.Prefix, len(texts))
	for i, text := range texts {
		prefix, err := netip.ParsePrefix(text)
		if err != nil {
			var address netip.Addr
			if address, err = netip.ParseAddr(text); err == nil {
				prefix = netip.PrefixFrom(address, address.BitLen())
			}
		}
		switch least := map[bool]int{true: 8, false: 16}[prefix.Addr().Is4()]; {
		case err != nil:
			return nil, fmt.Errorf("prefix %d is none", i+1)
		case prefix.Bits() < least || !isPublic(prefix.Addr()):
			return nil, fmt.Errorf("prefix %d is not one of the public Internet, or shorter than /%d", i+1, least)
		}
		all[i] = prefix.Masked()
	}
	slices.SortFunc(all, func(a, b netip.Prefix) int { return cmp.Or(a.Addr().Compare(b.Addr()), a.Bits()-b.Bits()) })
	// Of prefixes that overlap, one contains the other, which comes behind it.
	apart := all[:0]
	for _, p := range all {
		if n := len(apart); n == 0 || !apart[n-1].Contains(p.Addr()) {
			apart = append(apart, p)
		}
	}
	return apart, nil
}

// contains reports whether any prefix contains an address. No two overlap.
func (l *list) contains(address netip.Addr) bool {
	at, _ := slices.BinarySearchFunc(l.prefixes, address, func(p netip.Prefix, a netip.Addr) int {
		if p.Addr().Compare(a) <= 0 {
			return -1
		}
		return 1
	})
	return at > 0 && l.prefixes[at-1].Contains(address)
}

// has reports whether all lists of an agent are known, and that it has some.
func (l *Lists) has(a *Agent) bool {
	if l == nil {
		return false
	}
	all := *l.current.Load()
	return len(a.Lists) > 0 && !slices.ContainsFunc(a.Lists, func(url string) bool { return len(all[url].prefixes) == 0 })
}

// ask returns what the lists of an agent say of an address: nothing while one of them is not known.
func (l *Lists) ask(a *Agent, address netip.Addr) answered {
	if l == nil || len(a.Lists) == 0 {
		return unknown
	}
	all, answer := *l.current.Load(), no
	for _, url := range a.Lists {
		switch one := all[url]; {
		case len(one.prefixes) == 0:
			answer = unknown
		case one.contains(address):
			return yes
		}
	}
	return answer
}

// States returns the state of each list, by address.
func (l *Lists) States() []ListState {
	if l == nil {
		return nil
	}
	var all []ListState
	now := l.now()
	for _, one := range *l.current.Load() {
		state := one.ListState
		state.IsIgnored = one.isIgnored(now)
		all = append(all, state)
	}
	slices.SortFunc(all, func(a, b ListState) int { return strings.Compare(a.URL, b.URL) })
	return all
}

// Pull fetches all lists. A list that cannot be fetched or read, or that lost more than half of its
// prefixes, stays what it was. The result describes what changed; the error names what failed.
func (l *Lists) Pull(ctx context.Context) (result string, err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.reread() // a list whose file was deleted begins again
	next, changed, failed := map[string]*list{}, 0, []string{}
	for _, state := range l.States() {
		before := (*l.current.Load())[state.URL]
		after := l.pull(ctx, before)
		if ctx.Err() != nil {
			return "", ctx.Err()
		}
		next[state.URL] = after
		if !slices.Equal(before.prefixes, after.prefixes) || !before.keys.equal(after.keys) {
			changed++
		}
		if after.Problem != "" {
			failed = append(failed, after.File+": "+after.Problem)
		}
	}
	l.current.Store(&next)
	result = fmt.Sprintf("read %d lists, %d of them changed", len(next)-len(failed), changed)
	if len(failed) > 0 {
		return result, fmt.Errorf("%d of %d lists stayed as they were: %s", len(failed), len(next), strings.Join(failed[:min(len(failed), 3)], "; "))
	}
	return result, nil
}

func (l *Lists) pull(ctx context.Context, before *list) *list {
	after := *before
	after.Problem = ""
	fail := func(err error) *list {
		kept := *before
		kept.Problem = err.Error()
		return &kept
	}
	if l.download == nil {
		return fail(errors.New("this node fetches nothing"))
	}
	body, etag, err := l.download(ctx, before.URL, before.etag)
	if err != nil {
		return fail(err)
	}
	after.Fetched = l.now()
	if body == nil {
		l.touch(&after)
		return &after
	}
	defer body.Close()
	found, err := readContent(before.URL, body)
	if err != nil {
		return fail(err)
	}
	if lost := len(before.prefixes) - len(found.prefixes); lost > minDropped && 2*lost > len(before.prefixes) {
		return fail(fmt.Errorf("it has %d prefixes instead of %d; if that is right, delete the file and fetch again", len(found.prefixes), len(before.prefixes)))
	}
	after.content, after.Prefixes, after.Keys, after.etag = found, len(found.prefixes), len(found.keys), etag
	if err := l.save(&after); err != nil {
		after.Problem = err.Error()
	}
	return &after
}

// save writes the last good copy.
func (l *Lists) save(one *list) error {
	if l.folder == "" {
		return nil
	}
	text, err := one.content.text()
	if err != nil {
		return err
	}
	if err := os.MkdirAll(l.folder, 0o700); err != nil {
		return err
	}
	file := filepath.Join(l.folder, one.File)
	if err := atomicfile.WriteFile(file, text, 0o600); err != nil {
		return err
	}
	l.touch(one)
	return nil
}

// touch has the file of a list say when it was fetched, for the next start.
func (l *Lists) touch(one *list) {
	if l.folder == "" {
		return
	}
	file := filepath.Join(l.folder, one.File)
	if err := os.Chtimes(file, time.Time{}, one.Fetched); err != nil { // it counts as older than it is
		return
	}
	if info, err := os.Stat(file); err == nil {
		one.modified = info.ModTime()
	}
}

// text returns the list in the form in which operators publish.
func (c content) text() ([]byte, error) {
	if c.keys != nil {
		return c.keys.text()
	}
	type row struct {
		IPv4 string `json:"ipv4Prefix,omitempty"`
		IPv6 string `json:"ipv6Prefix,omitempty"`
	}
	rows := make([]row, len(c.prefixes))
	for i, p := range c.prefixes {
		if p.Addr().Is4() {
			rows[i].IPv4 = p.String()
		} else {
			rows[i].IPv6 = p.String()
		}
	}
	return json.Marshal(map[string]any{"prefixes": rows})
}
