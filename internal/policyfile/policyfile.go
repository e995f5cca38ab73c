// Package policyfile reads and writes policies as files that people keep under
// version control: YAML, of which JSON is a part.
//
//	policies:
//	  - name: default
//	    match: ["*"]
//	    rules: [1/1s, 20/1m]
//	    mode: enforce
//	    on_failure: local
//	    algorithm: timestamp_log
package policyfile

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"reflect"
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"

	"github.com/stint-dev/stint/internal/wholefile"
	"github.com/stint-dev/stint/internal/wire"
)

// MaxSize bounds a file, in bytes.
const MaxSize = 4 << 20

type file struct {
	Policies []wire.PolicyRequest `yaml:"policies"`
}

// Read reads the policies of a file: a list under "policies", or one policy by
// itself. They are returned in canonical form with every default filled in. Errors
// contain name, and the line if it is known, unless they are those of r.
func Read(r io.Reader, name string) ([]wire.PolicyRequest, error) {
	text, err := wholefile.ReadFrom(r, name, MaxSize)
	if err != nil {
		return nil, err
	}
	read, lines, err := parse(text)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	seen := map[string]bool{}
	var all []wire.PolicyRequest
	for i, p := range read {
		request, err := Canonical(p)
		if err == nil && seen[p.Name] {
			err = errors.New("name occurs a second time in the file")
		}
		if err != nil {
			return nil, fmt.Errorf("%s:%d: policy %q: %w", name, lines[i], p.Name, err)
		}
		seen[p.Name] = true
		all = append(all, request)
	}
	return all, nil
}

// parse decodes the file strictly and finds the line of each policy.
func parse(text []byte) (all []wire.PolicyRequest, lines []int, err error) {
	var root yaml.Node
	documents := yaml.NewDecoder(bytes.NewReader(text))
	switch err := documents.Decode(&root); {
	case errors.Is(err, io.EOF):
		return nil, nil, errors.New("the file is empty; write policies: with a list below it")
	case err != nil:
		return nil, nil, plainError(err)
	}
	if err := documents.Decode(new(yaml.Node)); !errors.Is(err, io.EOF) {
		return nil, nil, errors.New("the file has more than one YAML document; put all policies into one")
	}
	top := root.Content[0]
	if top.Kind != yaml.MappingNode {
		return nil, nil, fmt.Errorf("line %d: the file must begin with policies: and a list below it", top.Line)
	}
	if err := findEmptyItem(top, ""); err != nil {
		return nil, nil, err
	}
	list := valueOf(top, "policies")
	items := []*yaml.Node{top}
	if list != nil {
		items = list.Content
	}
	for _, item := range items {
		if err := checkEscalation(valueOf(item, "escalation")); err != nil {
			return nil, nil, err
		}
	}
	if list == nil {
		var one wire.PolicyRequest
		err := strictly(text, &one)
		return []wire.PolicyRequest{one}, []int{top.Line}, err
	}
	if list.ShortTag() == "!!null" { // perhaps not finished; applied with --prune it would delete all policies
		return nil, nil, fmt.Errorf("line %d: policies has no value; write a list below it, or policies: [] for none", list.Line)
	}
	var f file
	if err := strictly(text, &f); err != nil {
		return nil, nil, err
	}
	for _, item := range list.Content {
		lines = append(lines, item.Line)
	}
	return f.Policies, lines, nil
}

// findEmptyItem returns an error for the first item without a value in a list below node, the value
// of the field name. The decoder would leave it out.
func findEmptyItem(node *yaml.Node, name string) error {
	for i, child := range node.Content {
		value := child
		if value.Kind == yaml.AliasNode {
			value = value.Alias
		}
		below := name
		switch {
		case node.Kind == yaml.SequenceNode && value.ShortTag() == "!!null":
			return fmt.Errorf("line %d: item %d of %s is empty", child.Line, i+1, name)
		case node.Kind == yaml.MappingNode && i%2 == 1:
			below = node.Content[i-1].Value
		}
		if err := findEmptyItem(child, below); err != nil {
			return err
		}
	}
	return nil
}

// checkEscalation returns an error for the first duration of an escalation that cannot be read: the decoder
// would not say which. node may be nil.
func checkEscalation(node *yaml.Node) error {
	for field := range reflect.TypeFor[wire.Escalation]().Fields() {
		name := field.Tag.Get("yaml")
		if field.Type != reflect.TypeFor[wire.Duration]() || node == nil {
			continue
		}
		if value := valueOf(node, name); value != nil && value.Kind == yaml.ScalarNode {
			if err := new(wire.Duration).UnmarshalText([]byte(value.Value)); err != nil {
				return fmt.Errorf("line %d: escalation.%s %w", value.Line, name, err)
			}
		}
	}
	return nil
}

func valueOf(mapping *yaml.Node, name string) *yaml.Node {
	for i := 0; i+1 < len(mapping.Content); i += 2 {
		if mapping.Content[i].Value == name {
			return mapping.Content[i+1]
		}
	}
	return nil
}

func strictly(text []byte, into any) error {
	decoder := yaml.NewDecoder(bytes.NewReader(text))
	decoder.KnownFields(true)
	if err := decoder.Decode(into); err != nil {
		return plainError(err)
	}
	return nil
}

// plainError writes a YAML error on one line and without Go's type names.
func plainError(err error) error {
	var many *yaml.TypeError
	if errors.As(err, &many) {
		err = errors.New(strings.Join(many.Errors, "; "))
	}
	text := strings.TrimPrefix(err.Error(), "yaml: ")
	text = strings.NewReplacer(
		" not found in type wire.PolicyRequest", " is not a field of a policy",
		" not found in type policyfile.file", " is not a field of a policy file; the only one is policies",
		" not found in type wire.Escalation", " is not a field of an escalation",
		" not found in type wire.PolicyOptions", " is not an option of an algorithm",
		" not found in type wire.PolicyWhen", " is not a condition",
		"into []wire.PolicyRequest", "into a list of policies",
		"into wire.PolicyRequest", "into a policy",
		"into wire.Escalation", "into an escalation",
		"into wire.PolicyOptions", "into options",
		"into wire.PolicyWhen", "into conditions",
		"into []string", "into a list of strings",
		"!!", "",
	).Replace(text)
	return errors.New(text)
}

// Write writes policies as Read reads them, sorted by name, so that the same
// policies always make the same file.
func Write(w io.Writer, policies []wire.PolicyRequest) error {
	f := file{slices.Clone(policies)}
	slices.SortFunc(f.Policies, func(a, b wire.PolicyRequest) int { return strings.Compare(a.Name, b.Name) })
	encoder := yaml.NewEncoder(w)
	encoder.SetIndent(2)
	if err := encoder.Encode(f); err != nil {
		return fmt.Errorf("writing policies: %w", err)
	}
	return encoder.Close()
}
