package envoy

import (
	"bytes"
	"strings"
	"testing"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	authv3 "github.com/envoyproxy/go-control-plane/envoy/service/auth/v3"
	ratelimitv3 "github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3"
	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/structpb"
)

// latin1 replaces each "?" in a message by an "é" that is not UTF-8.
func latin1(message []byte) []byte { return bytes.ReplaceAll(message, []byte("?"), []byte{0xe9}) }

// Envoy allows a request if the response is an error. A client must not reach that by a header
// that is not UTF-8, which Envoy copies into a descriptor.
func TestDescriptorThatIsNotUTF8IsLimited(t *testing.T) {
	n := newNode(t, logs{})
	c := newRawClient(t, n.address)
	for range 5 {
		c.add(methods[0], latin1(limitRequest(t, 0, user("alice"), user("caf?"))), tokenMetadata, rightToken)
	}
	c.send()
	messages := map[uint32]string{}
	over := 0
	for range 5 {
		id, status, text := c.next(messages)
		if status != "0" {
			t.Fatalf("got the status %s %s", status, text)
		}
		var answer ratelimitv3.RateLimitResponse
		if err := proto.Unmarshal([]byte(messages[id][5:]), &answer); err != nil {
			t.Fatal(err)
		}
		if answer.GetOverallCode() == codeOver {
			over++
		}
	}
	if over == 0 || over == 5 {
		t.Errorf("%d of 5 calls are over the limit", over)
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	if !strings.Contains(strings.Join(n.charged, " "), "caf%C3%A9") {
		t.Errorf("the descriptor was not charged: %q", n.charged)
	}
}

// The metadata of a JWT are nested as deeply as its claims.
func TestDeepMetadataLeaveOtherStringsReadable(t *testing.T) {
	claims := map[string]any{}
	for range maxDepth {
		claims = map[string]any{"nested": claims}
	}
	metadata, err := structpb.NewStruct(claims)
	if err != nil {
		t.Fatal(err)
	}
	message, err := proto.Marshal(&authv3.CheckRequest{Attributes: &authv3.AttributeContext{
		Request:         &authv3.AttributeContext_Request{Http: &authv3.AttributeContext_HttpRequest{Path: "/caf?"}},
		MetadataContext: &corev3.Metadata{FilterMetadata: map[string]*structpb.Struct{"envoy.filters.http.jwt_authn": metadata}},
	}})
	if err != nil {
		t.Fatal(err)
	}
	q := new(authv3.CheckRequest)
	if err := unmarshal(latin1(message), q); err != nil || q.GetAttributes().GetRequest().GetHttp().GetPath() != "/café" {
		t.Errorf("got %v, %v", q, err)
	}
}

func TestUnmarshalRefusesMalformedMessages(t *testing.T) {
	field := func(number protowire.Number, value []byte) []byte {
		return protowire.AppendBytes(protowire.AppendTag(nil, number, protowire.BytesType), value)
	}
	deep := field(3, []byte{0xe9})
	for range maxDepth {
		deep = field(6, field(1, deep)) // a list with one value
	}
	for name, row := range map[string]struct {
		message []byte
		to      proto.Message
	}{
		"a tag":            {[]byte{0xff}, new(ratelimitv3.RateLimitRequest)},
		"a length":         {[]byte{0x0a, 5, 'a'}, new(ratelimitv3.RateLimitRequest)},
		"an inner message": {field(2, []byte{0xff}), new(ratelimitv3.RateLimitRequest)},
		"deep":             {deep, new(structpb.Value)},
	} {
		if err := unmarshal(row.message, row.to); err == nil {
			t.Errorf("%s: unmarshal returned no error", name)
		}
	}
}
