package keys

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"
)

// TestPrefixTreeIsNoLargerThanItsTexts checks that the memory of an index follows
// its patterns when these are added and removed.
func TestPrefixTreeIsNoLargerThanItsTexts(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var tree prefixTree[int]
		model := map[string]*int{}
		text := rapid.StringOfN(rapid.SampledFrom([]rune("ab")), 0, 8, -1)
		for range rapid.IntRange(0, 60).Draw(t, "steps") {
			at := text.Draw(t, "text")
			if rapid.Bool().Draw(t, "set") {
				model[at] = new(int)
				tree.set(at, model[at])
			} else {
				_, known := model[at]
				if tree.delete(at) != known {
					t.Fatalf("delete(%q) does not return %v", at, known)
				}
				delete(model, at)
			}
		}
		if tree.size != len(model) {
			t.Fatalf("the size is %d, want %d", tree.size, len(model))
		}
		for at, value := range model {
			if tree.get(at) != value {
				t.Fatalf("the value of %q is not the one set", at)
			}
		}
		checkShape(t, &tree.root, true)
		if seen := countValues(&tree); seen != len(model) {
			t.Fatalf("%d values are ranged over in order, want %d", seen, len(model))
		}
		last, behind, want := text.Draw(t, "last"), 0, 0
		for at := range model {
			if at > last {
				want++
			}
		}
		tree.root.after(last, false, func(string, *int) bool { behind++; return true })
		if behind != want {
			t.Fatalf("%d texts are behind %q, want %d", behind, last, want)
		}
	})
}

func checkShape(t *rapid.T, n *prefixNode[int], root bool) {
	below := n.below
	if below == nil {
		below = &branch[int]{}
	} else if len(below.children) == 0 {
		t.Fatalf("the node %q has an empty branch", n.text)
	}
	if !root && n.value == nil && len(below.children) < 2 {
		t.Fatalf("the node %q has no value and %d children", n.text, len(below.children))
	}
	if len(below.firsts) != len(below.children) {
		t.Fatalf("the node %q has %d first bytes and %d children", n.text, len(below.firsts), len(below.children))
	}
	for i := range below.children {
		child := &below.children[i]
		if !strings.HasPrefix(child.text, n.text) || child.text[len(n.text)] != below.firsts[i] {
			t.Fatalf("the node %q is below %q at %q", child.text, n.text, below.firsts[i])
		}
		checkShape(t, child, false)
	}
}

func countValues(tree *prefixTree[int]) (n int) {
	last := ""
	tree.root.after("", true, func(text string, _ *int) bool {
		if n++; n > 1 && text <= last {
			return false
		}
		last = text
		return true
	})
	return n
}

// lengthTables is the plain version of prefixTree: a table for each length of its texts.
type lengthTables[T any] struct {
	lengths []int // in ascending order
	tables  map[int]map[string]*T
}

func (l *lengthTables[T]) set(text string, value *T) {
	if at, has := slices.BinarySearch(l.lengths, len(text)); !has {
		l.lengths = slices.Insert(l.lengths, at, len(text))
	}
	if l.tables == nil {
		l.tables = map[int]map[string]*T{}
	}
	if l.tables[len(text)] == nil {
		l.tables[len(text)] = map[string]*T{}
	}
	l.tables[len(text)][text] = value
}

func (l *lengthTables[T]) matching(key string, found []match[T]) []match[T] {
	for _, length := range l.lengths {
		if length > len(key) {
			break
		}
		if value := l.tables[length][key[:length]]; value != nil {
			found = append(found, match[T]{length, value})
		}
	}
	return found
}

func TestPrefixTreeMatchesWhatItsPlainVersionMatches(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var tree prefixTree[int]
		var plain lengthTables[int]
		text := rapid.StringOfN(rapid.SampledFrom([]rune("ab")), 0, 8, -1)
		for _, at := range rapid.SliceOf(text).Draw(t, "texts") {
			value := new(int)
			tree.set(at, value)
			plain.set(at, value)
		}
		key := text.Draw(t, "key")
		if got, want := tree.matching(key, nil), plain.matching(key, nil); !slices.Equal(got, want) {
			t.Fatalf("got %v, want %v", got, want)
		}
	})
}

// BenchmarkPrefixes finds the texts that keys begin with, among the whole bytes of IPv4 networks
// and among prefixes of 200 lengths.
func BenchmarkPrefixes(b *testing.B) {
	const n = 10_000
	random := rand.New(rand.NewPCG(1, 2))
	network := func() string {
		return string([]byte{byte(random.IntN(100)), byte(random.IntN(256)), byte(random.IntN(256)), byte(random.IntN(256))})
	}
	prefix := func() string { return fmt.Sprintf("token:%x", random.Uint64()) + strings.Repeat("x", random.IntN(200)) }
	for _, texts := range []struct {
		name string
		key  func() string
		cut  func(string) string
	}{
		{"networks", network, func(key string) string { return key[:2+random.IntN(3)] }},
		{"prefixes", prefix, func(key string) string { return key }},
	} {
		var tree prefixTree[int]
		var plain lengthTables[int]
		all := make([]string, n)
		for i := range all {
			key := texts.key()
			text := texts.cut(key)
			tree.set(text, &i)
			plain.set(text, &i)
			all[i] = key
		}
		for _, version := range []struct {
			name     string
			matching func(string, []match[int]) []match[int]
		}{{"tree", tree.matching}, {"plain", plain.matching}} {
			b.Run(texts.name+"/"+version.name, func(b *testing.B) {
				var room [20]match[int]
				for i := range b.N {
					if len(version.matching(all[i%n], room[:0])) == 0 {
						b.Fatal("nothing was found")
					}
				}
			})
		}
	}
}
