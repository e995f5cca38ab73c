package keys

import (
	"slices"
	"strings"
)

// prefixTree stores values by text and finds those whose text a key begins with. It is a radix
// tree: a look-up follows the bytes of the key, and its cost does not depend on how many
// different lengths the texts have. One table per length would need up to 512 look-ups. The zero
// value is empty.
//
// Fast path. Plain version: a table per length, in prefixtree_test.go. Benchmark:
// BenchmarkPrefixes, 17 times faster with prefixes of 200 lengths, 1.2 times with networks.
type prefixTree[T any] struct {
	root prefixNode[T]
	size int
}

// prefixNode represents a common beginning of all texts below it. Only the root may have neither
// a value nor two children.
type prefixNode[T any] struct {
	text  string
	value *T         // value of text, nil if text is only a common beginning
	below *branch[T] // nil for a leaf, as most nodes are
}

// branch has the children of a node, of which there is at least one.
type branch[T any] struct {
	firsts   string          // for each child, its first byte after the text of the node
	children []prefixNode[T] // in the order of firsts
}

// child returns the child whose text key may begin with. It compares only the length and the
// first byte.
func (n *prefixNode[T]) child(key string) *prefixNode[T] {
	if n.below == nil || len(key) <= len(n.text) {
		return nil
	}
	at := strings.IndexByte(n.below.firsts, key[len(n.text)])
	if at < 0 || len(n.below.children[at].text) > len(key) {
		return nil
	}
	return &n.below.children[at]
}

// shared returns the length of the common beginning of key and the deepest node on its path. Each
// text on a path begins with the one before, so this one comparison is enough for all nodes on
// the path.
func (t *prefixTree[T]) shared(key string) int {
	n := &t.root
	for next := n.child(key); next != nil; next = n.child(key) {
		n = next
	}
	return commonLength(n.text, key)
}

func commonLength(a, b string) int {
	n := min(len(a), len(b))
	for i := range n {
		if a[i] != b[i] {
			return i
		}
	}
	return n
}

// match is one text that a key begins with.
type match[T any] struct {
	length int // of the text
	value  *T
}

// matching appends the value of every text that key begins with, the shortest first.
func (t *prefixTree[T]) matching(key string, found []match[T]) []match[T] {
	key = key[:t.shared(key)]
	for n := &t.root; n != nil; n = n.child(key) {
		if n.value != nil {
			found = append(found, match[T]{len(n.text), n.value})
		}
	}
	return found
}

// get returns the value of exactly this text, nil if there is none.
func (t *prefixTree[T]) get(text string) *T {
	n := &t.root
	for next := n.child(text); next != nil; next = n.child(text) {
		n = next
	}
	if n.text != text {
		return nil
	}
	return n.value
}

// set stores value for text, and replaces an earlier value.
func (t *prefixTree[T]) set(text string, value *T) {
	if t.root.insert(text, value) {
		t.size++
	}
}

// insert inserts text at or below n, whose text it begins with, and reports whether it is new.
func (n *prefixNode[T]) insert(text string, value *T) bool {
	if len(text) == len(n.text) {
		isNew := n.value == nil
		n.value = value
		return isNew
	}
	at := -1
	if n.below != nil {
		at = strings.IndexByte(n.below.firsts, text[len(n.text)])
	}
	if at < 0 {
		n.adopt(prefixNode[T]{text: text, value: value})
		return true
	}
	child := &n.below.children[at]
	if common := commonLength(child.text, text); common < len(child.text) {
		lower := *child
		*child = prefixNode[T]{text: text[:common]}
		child.adopt(lower)
	}
	return child.insert(text, value)
}

func (n *prefixNode[T]) adopt(child prefixNode[T]) {
	if n.below == nil {
		n.below = &branch[T]{}
	}
	n.below.firsts += child.text[len(n.text) : len(n.text)+1]
	n.below.children = append(n.below.children, child)
}

// delete removes text and reports whether it was there.
func (t *prefixTree[T]) delete(text string) bool {
	if !t.root.remove(text) {
		return false
	}
	t.size--
	return true
}

// remove removes text at or below n, and merges or removes nodes that are no longer needed.
func (n *prefixNode[T]) remove(text string) bool {
	if len(text) == len(n.text) {
		found := n.value != nil && n.text == text
		if found {
			n.value = nil
		}
		return found
	}
	child := n.child(text)
	if child == nil || !child.remove(text) {
		return false
	}
	switch {
	case child.value != nil:
	case child.below == nil:
		n.disown(child.text[len(n.text)])
	case len(child.below.children) == 1:
		*child = child.below.children[0]
	}
	return true
}

func (n *prefixNode[T]) disown(first byte) {
	if len(n.below.children) == 1 {
		n.below = nil
		return
	}
	at := strings.IndexByte(n.below.firsts, first)
	n.below.firsts = n.below.firsts[:at] + n.below.firsts[at+1:]
	n.below.children = slices.Delete(n.below.children, at, at+1)
}

// after calls yield for every text after last in ascending order, and also for last if included
// is set. It stops if yield returns false, and reports whether it did not stop.
func (n *prefixNode[T]) after(last string, included bool, yield func(string, *T) bool) bool {
	if n.text < last && !strings.HasPrefix(last, n.text) {
		return true // and so are all texts below
	}
	if n.value != nil && (n.text > last || included && n.text == last) && !yield(n.text, n.value) {
		return false
	}
	if n.below == nil {
		return true
	}
	var room [256]byte
	firsts := append(room[:0], n.below.firsts...)
	slices.Sort(firsts)
	for _, first := range firsts {
		if !n.below.children[strings.IndexByte(n.below.firsts, first)].after(last, included, yield) {
			return false
		}
	}
	return true
}
