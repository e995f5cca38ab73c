package doors

import (
	"encoding/json"
	"testing"

	authzv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/http/ext_authz/v3"
	"go.yaml.in/yaml/v3"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/types/descriptorpb"
	"google.golang.org/protobuf/types/known/anypb"
)

// No test runs Envoy, but Envoy's own types read the configurations of its filter ext_authz. Those of
// its rate limit filter and its clusters need modules that nothing else here does.
func TestEnvoyConfigurationsOfExtAuthzHaveEnvoysTypes(t *testing.T) {
	for n, into := range map[int]interface {
		proto.Message
		ValidateAll() error // applies the rules that Envoy applies at its start
	}{3: new(authzv3.ExtAuthz), 4: new(authzv3.ExtAuthzPerRoute), 5: new(authzv3.ExtAuthz), 6: new(authzv3.ExtAuthz), 7: new(authzv3.ExtAuthz), 8: new(authzv3.ExtAuthz)} {
		text := configuration(t, gateway{page: "envoy.md", language: "yaml"}, n)
		fields := map[string]any{}
		if err := yaml.Unmarshal([]byte(text), &fields); err != nil {
			t.Fatalf("%v in\n%s", err, text)
		}
		if filters, is := fields["typed_per_filter_config"].(map[string]any); is {
			fields = map[string]any{"typed_config": filters["envoy.filters.http.ext_authz"]}
		}
		var message proto.Message = into
		if typed, is := fields["typed_config"].(map[string]any); is {
			fields, message = typed, new(anypb.Any)
		} else if service, is := fields["http_service"].(map[string]any); is { // the page shows only what differs from the minimal configuration
			service["server_uri"] = map[string]any{"uri": "http://127.0.0.1:8080", "cluster": "stint_http", "timeout": "0.25s"}
		}
		encoded, err := json.Marshal(fields)
		if err != nil {
			t.Fatal(err)
		}
		if err := protojson.Unmarshal(encoded, message); err != nil {
			t.Errorf("%v in\n%s", err, text)
			continue
		}
		if wrapped, is := message.(*anypb.Any); is {
			if err := wrapped.UnmarshalTo(into); err != nil {
				t.Errorf("%v in\n%s", err, text)
			}
		}
		if err := into.ValidateAll(); err != nil {
			t.Errorf("%v in\n%s", err, text)
		}
		for _, name := range deprecated(into.ProtoReflect()) {
			t.Errorf("Envoy warns that %s is deprecated:\n%s", name, text)
		}
	}
}

// deprecated returns the fields that are set in a message and deprecated by Envoy.
func deprecated(m protoreflect.Message) (names []protoreflect.FullName) {
	m.Range(func(field protoreflect.FieldDescriptor, value protoreflect.Value) bool {
		if options, is := field.Options().(*descriptorpb.FieldOptions); is && options.GetDeprecated() {
			names = append(names, field.FullName())
		}
		if field.Message() != nil && !field.IsList() && !field.IsMap() {
			names = append(names, deprecated(value.Message())...)
		}
		return true
	})
	return names
}
