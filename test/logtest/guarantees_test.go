package logtest

import (
	"go/doc/comment"
	"go/parser"
	"go/token"
	"regexp"
	"strings"
	"testing"
)

// TestEveryGuaranteeQuotesTestsOfTheSuite reads the package comment of
// timestamplog: each numbered guarantee must quote a test of this suite, and
// every quoted name must be one.
func TestEveryGuaranteeQuotesTestsOfTheSuite(t *testing.T) {
	file, err := parser.ParseFile(token.NewFileSet(), "../../internal/timestamplog/timestamplog.go", nil, parser.ParseComments|parser.PackageClauseOnly)
	if err != nil {
		t.Fatal(err)
	}
	names := suiteNames()
	quoted := regexp.MustCompile(`"([^"]+)"`)
	guarantees := 0
	var p comment.Parser
	for _, block := range p.Parse(file.Doc.Text()).Content {
		text := string(new(comment.Printer).Text(&comment.Doc{Content: []comment.Block{block}}))
		list, isList := block.(*comment.List)
		if !isList {
			checkQuoted(t, names, quoted, text)
			continue
		}
		for _, item := range list.Items {
			guarantees++
			text := string(new(comment.Printer).Text(&comment.Doc{Content: item.Content}))
			if checkQuoted(t, names, quoted, text) == 0 {
				t.Errorf("guarantee %s quotes no test, want at least one: %s", item.Number, text)
			}
		}
	}
	if guarantees < 8 {
		t.Errorf("found %d numbered guarantees, want at least 8", guarantees)
	}
}

// checkQuoted returns how many test names a text quotes. Quotations that begin
// with a capital letter are titles.
func checkQuoted(t *testing.T, names map[string]bool, quoted *regexp.Regexp, text string) (found int) {
	t.Helper()
	for _, m := range quoted.FindAllStringSubmatch(strings.Join(strings.Fields(text), " "), -1) {
		if strings.ToLower(m[1][:1]) != m[1][:1] {
			continue
		}
		if found++; !names[m[1]] {
			t.Errorf("package timestamplog quotes %q, want a test of the suite", m[1])
		}
	}
	return found
}

// suiteNames returns the names of all tests of the suite.
func suiteNames() map[string]bool {
	names := map[string]bool{}
	for _, group := range append(exactContracts(), counterContracts(), refusedCount(), distinctContracts(), pointContracts(), holdContracts(), amountCharges()) {
		for _, c := range group {
			names[c.name] = true
		}
	}
	return names
}
