package geoip

import (
	"errors"
	"fmt"
	"io"
	"strconv"
	"strings"

	"github.com/oschwald/maxminddb-golang/v2"

	"github.com/stint-dev/stint/internal/escape"
	"github.com/stint-dev/stint/internal/keys"
	"github.com/stint-dev/stint/internal/wholefile"
)

// maxFileSize bounds what is read into memory of one file.
const maxFileSize = 2 << 30

// maxName is the longest name of a network, in bytes.
const maxName = 100

// file is what was read of one file.
type file struct {
	FileInfo
	spans [2][]span // of IPv4 and IPv6
	// names are those of autonomous systems.
	names map[uint32]string
	// origins are those of the records, by where these are in the file.
	origins map[uintptr]keys.Origin
}

// record is what is read of a record, in the layouts of GeoLite2 and GeoIP2, of DB-IP and
// of IPinfo.
type record struct {
	Country           any    `maxminddb:"country"` // an object with iso_code, a code, or a name beside country_code
	RegisteredCountry any    `maxminddb:"registered_country"`
	CountryCode       any    `maxminddb:"country_code"`
	Number            uint32 `maxminddb:"autonomous_system_number"`
	Organization      string `maxminddb:"autonomous_system_organization"`
	Traits            struct {
		Number       uint32 `maxminddb:"autonomous_system_number"`
		Organization string `maxminddb:"autonomous_system_organization"`
	} `maxminddb:"traits"`
	ASN    any `maxminddb:"asn"` // AS64500
	ASName any `maxminddb:"as_name"`
	Name   any `maxminddb:"name"`
}

func (r *record) country() keys.Country {
	for _, given := range []any{r.CountryCode, r.Country, r.RegisteredCountry} {
		if object, is := given.(map[string]any); is {
			given = object["iso_code"]
		}
		text, _ := given.(string)
		if c, is := keys.ParseCountry(text); is {
			return c
		}
	}
	return keys.Country{}
}

func (r *record) asn() (number uint32, name string) {
	switch {
	case r.Number != 0:
		return r.Number, r.Organization
	case r.Traits.Number != 0:
		return r.Traits.Number, r.Traits.Organization
	}
	var text string
	switch asn := r.ASN.(type) {
	case string:
		text = strings.TrimPrefix(strings.ToUpper(asn), "AS")
	case uint64:
		text = strconv.FormatUint(asn, 10)
	}
	n, err := strconv.ParseUint(text, 10, 32)
	if err != nil || n == 0 {
		return 0, ""
	}
	name, _ = r.ASName.(string)
	if name == "" {
		name, _ = r.Name.(string)
	}
	return uint32(n), name
}

// readFile reads a whole file, so that a corrupt one is found now and not by a check. It
// is not mapped: a file that is written over in place would end the process.
func readFile(path, name string) (*file, error) {
	data, err := readBounded(path)
	if err != nil {
		return nil, err
	}
	reader, err := maxminddb.OpenBytes(data)
	if err != nil {
		return nil, fmt.Errorf("is not a MaxMind DB file: %s", clean(err.Error()))
	}
	f := &file{
		FileInfo: FileInfo{Name: name, Kind: clean(reader.Metadata.DatabaseType), Built: reader.Metadata.BuildTime().UTC()},
		names:    map[uint32]string{}, origins: map[uintptr]keys.Origin{},
	}
	known := false
	left := maxLeaves(reader.Metadata.NodeCount)
	for result := range reader.Networks(maxminddb.IncludeNetworksWithoutData()) {
		if left--; left < 0 {
			return nil, errors.New("is corrupt: its tree has far more networks than nodes")
		}
		if !result.Found() && result.Err() == nil {
			continue
		}
		o, err := f.originOf(result)
		if err != nil {
			return nil, fmt.Errorf("is corrupt: %s", clean(err.Error()))
		}
		known = known || o != keys.Origin{}
		family, s := spanOf(result.Prefix())
		s.origin = o
		f.spans[family] = appendSpan(f.spans[family], s)
	}
	if !known {
		return nil, errors.New("has neither countries nor autonomous systems; use a file such as GeoLite2-Country or GeoLite2-ASN")
	}
	f.origins = nil
	return f, nil
}

// maxLeaves returns how many networks, those without data included, are read of a file with
// so many nodes. A tree has one more than it has nodes, and somewhat more where a writer
// has joined parts that are alike. Where both sides of each node lead to the next one, 128
// nodes have 2^128 networks, which would take all memory.
func maxLeaves(nodes uint) int { return 4 * (int(nodes) + 1) }

func readBounded(path string) ([]byte, error) {
	in, err := wholefile.OpenRegular(path)
	if err != nil {
		return nil, errors.Unwrap(err)
	}
	defer in.Close()
	info, err := in.Stat()
	switch {
	case err != nil:
		return nil, errors.Unwrap(err)
	case info.Size() > maxFileSize:
		return nil, fmt.Errorf("has more than %d MiB", maxFileSize>>20)
	}
	return io.ReadAll(io.LimitReader(in, maxFileSize))
}

// originOf decodes each record once: most are those of many networks.
func (f *file) originOf(result maxminddb.Result) (keys.Origin, error) {
	if err := result.Err(); err != nil {
		return keys.Origin{}, err
	}
	if known, is := f.origins[result.Offset()]; is {
		return known, nil
	}
	var r record
	var otherType maxminddb.UnmarshalTypeError
	if err := result.Decode(&r); err != nil && !errors.As(err, &otherType) {
		return keys.Origin{}, err
	}
	o := keys.Origin{Country: r.country()}
	name := ""
	if o.ASN, name = r.asn(); o.ASN != 0 && f.names[o.ASN] == "" {
		f.names[o.ASN] = clean(name)
	}
	f.origins[result.Offset()] = o
	return o, nil
}

// clean removes what a name of a file must not bring to logs and terminals.
func clean(name string) string {
	name = strings.Map(func(r rune) rune {
		if r < ' ' || r == 0x7f || !strconv.IsPrint(r) {
			return -1
		}
		return r
	}, strings.ToValidUTF8(name, ""))
	return strings.TrimSpace(escape.Clip(name, maxName))
}
