package keys

import (
	"slices"
	"strings"
)

// prefixTree keeps values by texts and finds those whose text a key begins
// with. It is a radix tree: a look-up follows the key's bytes and costs the
// same however many distinct lengths the texts have, where a table per length
// costs one look-up for each of up to 512 lengths. The zero value is empty.
type prefixTree[T any] struct {
	root prefixNode[T]
	size int
}

// prefixNode represents a text that all texts below it begin with. Only the
// root may have neither a value nor two children.
type prefixNode[T any] struct {
	text     string
	value    *T              // kept with text, nil if text only leads on
	firsts   string          // of each child, its first byte behind text
	children []prefixNode[T] // in the order of firsts
}

// child returns the child whose text key may begin with, judged by its length
// and first byte alone.
func (n *prefixNode[T]) child(key string) *prefixNode[T] {
	if len(key) <= len(n.text) {
		return nil
	}
	at := strings.IndexByte(n.firsts, key[len(n.text)])
	if at < 0 || len(n.children[at].text) > len(key) {
		return nil
	}
	return &n.children[at]
}

// shared returns how many bytes of key the deepest node on its path has in
// common with it. The texts on a path begin with one another, so this one
// comparison proves all of them that are no longer.
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

// matching appends every text that key begins with, the shortest first.
func (t *prefixTree[T]) matching(key string, found []match[T]) []match[T] {
	key = key[:t.shared(key)]
	for n := &t.root; n != nil; n = n.child(key) {
		if n.value != nil {
			found = append(found, match[T]{len(n.text), n.value})
		}
	}
	return found
}

// get returns what is kept with exactly this text, nil if nothing is.
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

// set keeps value with text, in place of what was there.
func (t *prefixTree[T]) set(text string, value *T) {
	if t.root.insert(text, value) {
		t.size++
	}
}

// insert works at or below n, whose text begins the given one, and reports
// whether that is new.
func (n *prefixNode[T]) insert(text string, value *T) bool {
	if len(text) == len(n.text) {
		isNew := n.value == nil
		n.value = value
		return isNew
	}
	at := strings.IndexByte(n.firsts, text[len(n.text)])
	if at < 0 {
		n.adopt(prefixNode[T]{text: text, value: value})
		return true
	}
	child := &n.children[at]
	if common := commonLength(child.text, text); common < len(child.text) {
		lower := *child
		*child = prefixNode[T]{text: text[:common]}
		child.adopt(lower)
	}
	return child.insert(text, value)
}

func (n *prefixNode[T]) adopt(child prefixNode[T]) {
	n.firsts += child.text[len(n.text) : len(n.text)+1]
	n.children = append(n.children, child)
}

// delete forgets text and reports whether it was there.
func (t *prefixTree[T]) delete(text string) bool {
	if !t.root.remove(text) {
		return false
	}
	t.size--
	return true
}

// remove works at or below n and puts the nodes on its way back into their
// shortest form.
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
	case len(child.children) == 0:
		n.disown(child.text[len(n.text)])
	case len(child.children) == 1:
		*child = child.children[0]
	}
	return true
}

func (n *prefixNode[T]) disown(first byte) {
	at := strings.IndexByte(n.firsts, first)
	n.firsts = n.firsts[:at] + n.firsts[at+1:]
	n.children = slices.Delete(n.children, at, at+1)
}

// after calls yield for every text behind last, and for last itself where
// included is set, in their order until it returns false, and reports whether it
// never did.
func (n *prefixNode[T]) after(last string, included bool, yield func(string, *T) bool) bool {
	if n.text < last && !strings.HasPrefix(last, n.text) {
		return true // so is every text below
	}
	if n.value != nil && (n.text > last || included && n.text == last) && !yield(n.text, n.value) {
		return false
	}
	var room [256]byte
	firsts := append(room[:0], n.firsts...)
	slices.Sort(firsts)
	for _, first := range firsts {
		if !n.children[strings.IndexByte(n.firsts, first)].after(last, included, yield) {
			return false
		}
	}
	return true
}
