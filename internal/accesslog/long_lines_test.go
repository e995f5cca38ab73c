package accesslog_test

import (
	"bytes"
	"strings"
	"testing"

	"github.com/stint-dev/stint/internal/accesslog"
)

// longLine is a line of Common Log Format of so many bytes, without its end.
func longLine(bytes int) string {
	return strings.Replace(common, "GET /", "GET /"+strings.Repeat("x", bytes-len(common)), 1)
}

// All readers of a log accept lines of the same length: "follow" parses them by LineParser.
func TestLongLinesAreRead(t *testing.T) {
	for name, c := range map[string]struct {
		log          string
		records, bad int64
	}{
		"the first":           {longLine(300_000) + "\n" + common + "\n", 2, 0},
		"between others":      {common + "\n" + longLine(64<<10) + "\n" + longLine(2_000_000) + "\n" + common, 4, 0},
		"the last, no end":    {common + "\n" + longLine(1_000_000), 2, 0},
		"the longest allowed": {common + "\n" + longLine(accesslog.MaxLine) + "\n" + common, 3, 0},
		"the longest, no end": {common + "\n" + longLine(accesslog.MaxLine), 2, 0},
		"a byte longer":       {common + "\n" + longLine(accesslog.MaxLine+1) + "\n" + common, 2, 1},
		"longer, no end":      {common + "\n" + longLine(accesslog.MaxLine+1), 1, 1},
		"much longer":         {common + "\n" + longLine(2*accesslog.MaxLine) + "\n" + longLine(70_000), 2, 1},
		"the first and long":  {longLine(accesslog.MaxLine) + "\n" + common, 2, 0},
	} {
		t.Run(name, func(t *testing.T) {
			for _, packed := range []bool{false, true} {
				log := []byte(c.log)
				if packed {
					log = pack(t, c.log)
				}
				reader, err := accesslog.NewReader(bytes.NewReader(log), "", accesslog.Options{})
				if err != nil {
					t.Fatal(err)
				}
				records := drain(t, reader)
				counts := reader.Counts()
				if counts.Records != c.records || counts.Bad != c.bad || c.bad > 0 && counts.First[0].Why != accesslog.ErrLongLine.Error() {
					t.Errorf("packed %t: got the counts %+v", packed, counts)
				}
				for _, r := range records {
					if r.Key.String() != "ip:192.0.2.1" || r.Status != 200 {
						t.Errorf("packed %t: read %s, status %d", packed, r.Key, r.Status)
					}
				}
			}
		})
	}
}

func TestFirstLineThatIsTooLongIsOneBadLine(t *testing.T) {
	records, counts := read(t, longLine(2*accesslog.MaxLine)+"\n"+common, accesslog.Options{Format: accesslog.CLF})
	if len(records) != 1 || counts.Bad != 1 || counts.First[0].Line != 1 {
		t.Errorf("read %d records, got the counts %+v", len(records), counts)
	}
}
