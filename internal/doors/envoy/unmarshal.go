package envoy

import (
	"unicode/utf8"

	"google.golang.org/grpc/encoding"
	protocodec "google.golang.org/grpc/encoding/proto"
	"google.golang.org/grpc/mem"
	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
)

// unmarshal decodes a request. Envoy copies headers of its client into descriptors, also those
// that are not UTF-8, which strings of protobuf must be, and it allows a request if the response
// is an error. Strings that are not UTF-8 are therefore read as Latin-1.
func unmarshal(b []byte, m proto.Message) error {
	err := proto.Unmarshal(b, m)
	if err == nil {
		return nil
	}
	readable, failed := withUTF8(b, m.ProtoReflect().Descriptor(), maxDepth)
	if failed != nil {
		return err
	}
	return proto.Unmarshal(readable, m)
}

// maxDepth is up to which depth of messages strings may be other than UTF-8. Metadata, which Envoy
// sends to ext_authz, may be nested deeper.
const maxDepth = 8

// withUTF8 returns a message in which strings that were not UTF-8 are, down to a depth. The error is
// that of a malformed message.
func withUTF8(b []byte, d protoreflect.MessageDescriptor, depth int) ([]byte, error) {
	if depth == 0 {
		return b, nil
	}
	readable := make([]byte, 0, len(b))
	for len(b) > 0 {
		number, kind, tag := protowire.ConsumeTag(b)
		if tag < 0 {
			return nil, protowire.ParseError(tag)
		}
		length := protowire.ConsumeFieldValue(number, kind, b[tag:])
		if length < 0 {
			return nil, protowire.ParseError(length)
		}
		field := d.Fields().ByNumber(number)
		if field == nil || kind != protowire.BytesType {
			readable = append(readable, b[:tag+length]...)
			b = b[tag+length:]
			continue
		}
		value, _ := protowire.ConsumeBytes(b[tag:])
		var err error
		switch field.Kind() {
		case protoreflect.StringKind:
			value = asUTF8(value)
		case protoreflect.MessageKind:
			value, err = withUTF8(value, field.Message(), depth-1)
		default: // bytes and packed numbers
		}
		if err != nil {
			return nil, err
		}
		readable = protowire.AppendBytes(append(readable, b[:tag]...), value)
		b = b[tag+length:]
	}
	return readable, nil
}

// asUTF8 returns text if it is UTF-8, otherwise text read as Latin-1.
func asUTF8(text []byte) []byte {
	if utf8.Valid(text) {
		return text
	}
	var readable []byte
	for _, c := range text {
		readable = utf8.AppendRune(readable, rune(c))
	}
	return readable
}

// codec makes grpc-go decode requests by unmarshal, and encode answers into buffers of their own
// size: those of its pool take a mebibyte for an answer of 33 KiB.
type codec struct{ encoding.CodecV2 }

func newCodec() codec { return codec{encoding.GetCodecV2(protocodec.Name)} }

// Marshal implements encoding.CodecV2.
func (c codec) Marshal(v any) (mem.BufferSlice, error) {
	if m, is := v.(proto.Message); is {
		b, err := proto.Marshal(m)
		return mem.BufferSlice{mem.SliceBuffer(b)}, err
	}
	return c.CodecV2.Marshal(v)
}

// Unmarshal implements encoding.CodecV2.
func (c codec) Unmarshal(data mem.BufferSlice, v any) error {
	if m, is := v.(proto.Message); is {
		return unmarshal(data.Materialize(), m)
	}
	return c.CodecV2.Unmarshal(data, v)
}
