package keys

import (
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
	if !root && n.value == nil && len(n.children) < 2 {
		t.Fatalf("the node %q has no value and %d children", n.text, len(n.children))
	}
	if len(n.firsts) != len(n.children) {
		t.Fatalf("the node %q has %d first bytes and %d children", n.text, len(n.firsts), len(n.children))
	}
	for i := range n.children {
		child := &n.children[i]
		if !strings.HasPrefix(child.text, n.text) || child.text[len(n.text)] != n.firsts[i] {
			t.Fatalf("the node %q is below %q at %q", child.text, n.text, n.firsts[i])
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
