package envoy

import (
	"context"
	"errors"
	"time"

	commonv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/common/ratelimit/v3"
	ratelimitv3 "github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3"
	"google.golang.org/grpc"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protodesc"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/reflect/protoregistry"
	"google.golang.org/protobuf/types/descriptorpb"
	"google.golang.org/protobuf/types/dynamicpb"
	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/stint-dev/stint/internal/fault"
	"github.com/stint-dev/stint/internal/gate"
	"github.com/stint-dev/stint/internal/wire"
)

// Kuadrant's gateways ask a service of their own: CheckRateLimit, which charges nothing; Report, which refuses
// nothing; and Reserve and Commit for amounts that are known only afterwards, which are Stint's holds.
const (
	kuadrantPackage = "kuadrant.service.ratelimit.v1"
	kuadrantService = kuadrantPackage + ".RateLimitService"
	rlsPackage      = ".envoy.service.ratelimit.v3."
)

// defaultHold is for how long a Reserve without a ttl holds, if the policy does not say so.
const defaultHold = time.Minute

// kuadrant describes the service, whose messages are those of Envoy's service and four of its own.
var kuadrant = describeKuadrant()

// describeKuadrant registers the file, so that reflection describes the service too.
func describeKuadrant() protoreflect.FileDescriptor {
	field := func(name string, number int32, kind descriptorpb.FieldDescriptorProto_Type, message string) *descriptorpb.FieldDescriptorProto {
		f := &descriptorpb.FieldDescriptorProto{Name: &name, Number: &number, Type: &kind, Label: descriptorpb.FieldDescriptorProto_LABEL_OPTIONAL.Enum()}
		if message != "" {
			f.TypeName = &message
		}
		return f
	}
	message := func(name string, fields ...*descriptorpb.FieldDescriptorProto) *descriptorpb.DescriptorProto {
		return &descriptorpb.DescriptorProto{Name: &name, Field: fields}
	}
	method := func(name, in, out string) *descriptorpb.MethodDescriptorProto {
		return &descriptorpb.MethodDescriptorProto{Name: &name, InputType: &in, OutputType: &out}
	}
	const text, number = descriptorpb.FieldDescriptorProto_TYPE_STRING, descriptorpb.FieldDescriptorProto_TYPE_UINT64
	const of = descriptorpb.FieldDescriptorProto_TYPE_MESSAGE
	descriptors := func() *descriptorpb.FieldDescriptorProto {
		f := field("descriptors", 2, of, ".envoy.extensions.common.ratelimit.v3.RateLimitDescriptor")
		f.Label = descriptorpb.FieldDescriptorProto_LABEL_REPEATED.Enum()
		return f
	}
	own := "." + kuadrantPackage + "."
	file, err := protodesc.NewFile(&descriptorpb.FileDescriptorProto{
		Name: proto.String("kuadrant/service/ratelimit/v1/service.proto"), Package: proto.String(kuadrantPackage), Syntax: proto.String("proto3"),
		Dependency: []string{ratelimitv3.File_envoy_service_ratelimit_v3_rls_proto.Path(), commonv3.File_envoy_extensions_common_ratelimit_v3_ratelimit_proto.Path(), durationpb.File_google_protobuf_duration_proto.Path()},
		MessageType: []*descriptorpb.DescriptorProto{
			message("ReserveRequest", field("domain", 1, text, ""), descriptors(), field("amount", 3, number, ""), field("ttl", 4, of, ".google.protobuf.Duration")),
			message("ReserveResponse", field("code", 1, descriptorpb.FieldDescriptorProto_TYPE_ENUM, rlsPackage+"RateLimitResponse.Code"), field("reservation_id", 2, text, "")),
			message("CommitRequest", field("domain", 1, text, ""), descriptors(), field("reservation_id", 3, text, ""), field("actual_amount", 4, number, "")),
			message("CommitResponse", field("reservation_released", 1, descriptorpb.FieldDescriptorProto_TYPE_BOOL, "")),
		},
		Service: []*descriptorpb.ServiceDescriptorProto{{Name: proto.String("RateLimitService"), Method: []*descriptorpb.MethodDescriptorProto{
			method("CheckRateLimit", rlsPackage+"RateLimitRequest", rlsPackage+"RateLimitResponse"),
			method("Report", rlsPackage+"RateLimitRequest", rlsPackage+"RateLimitResponse"),
			method("Reserve", own+"ReserveRequest", own+"ReserveResponse"),
			method("Commit", own+"CommitRequest", own+"CommitResponse"),
		}}},
	}, protoregistry.GlobalFiles)
	if err == nil {
		err = protoregistry.GlobalFiles.RegisterFile(file)
	}
	if err != nil {
		panic(err) // the description above is wrong, which every test finds
	}
	return file
}

// registerKuadrant adds the service to the gRPC server.
func (s *Server) registerKuadrant() {
	s.grpc.RegisterService(&grpc.ServiceDesc{
		ServiceName: kuadrantService, HandlerType: (*any)(nil), Metadata: kuadrant.Path(),
		Methods: []grpc.MethodDesc{
			unaryMethod("CheckRateLimit", func() *ratelimitv3.RateLimitRequest { return new(ratelimitv3.RateLimitRequest) }, (*Server).checkRateLimit),
			unaryMethod("Report", func() *ratelimitv3.RateLimitRequest { return new(ratelimitv3.RateLimitRequest) }, (*Server).reportUsage),
			unaryMethod("Reserve", func() *dynamicpb.Message { return kuadrantMessage("ReserveRequest") }, (*Server).reserve),
			unaryMethod("Commit", func() *dynamicpb.Message { return kuadrantMessage("CommitRequest") }, (*Server).commit),
		},
	}, s)
}

// unaryMethod describes a method of the Kuadrant service.
func unaryMethod[In, Out proto.Message](name string, make func() In, answer func(*Server, context.Context, In) (Out, error)) grpc.MethodDesc {
	return grpc.MethodDesc{MethodName: name, Handler: func(server any, ctx context.Context, decode func(any) error, intercept grpc.UnaryServerInterceptor) (any, error) {
		q, s := make(), server.(*Server)
		if err := decode(q); err != nil {
			return nil, err
		}
		info := &grpc.UnaryServerInfo{Server: server, FullMethod: "/" + kuadrantService + "/" + name}
		return intercept(ctx, q, info, func(ctx context.Context, q any) (any, error) { return answer(s, ctx, q.(In)) })
	}}
}

func kuadrantMessage(name protoreflect.Name) *dynamicpb.Message {
	return dynamicpb.NewMessage(kuadrant.Messages().ByName(name))
}

// fieldOf returns a field of one of the service's own messages.
func fieldOf(m protoreflect.Message, name protoreflect.Name) protoreflect.Value {
	return m.Get(m.Descriptor().Fields().ByName(name))
}

func setField(m *dynamicpb.Message, name protoreflect.Name, value any) {
	m.Set(m.Descriptor().Fields().ByName(name), protoreflect.ValueOf(value))
}

// limitsOf returns the domain and the descriptors of a Reserve or a Commit, which have the numbers
// of those of Envoy's service.
func limitsOf(q *dynamicpb.Message) (*ratelimitv3.RateLimitRequest, error) {
	raw, err := proto.Marshal(q)
	if err != nil {
		return nil, err
	}
	all := new(ratelimitv3.RateLimitRequest)
	if err := proto.Unmarshal(raw, all); err != nil {
		return nil, err
	}
	return &ratelimitv3.RateLimitRequest{Domain: all.GetDomain(), Descriptors: all.GetDescriptors()}, nil
}

// checkRateLimit says whether one more request would be allowed, and charges nothing. It ignores the hits.
func (s *Server) checkRateLimit(ctx context.Context, q *ratelimitv3.RateLimitRequest) (*ratelimitv3.RateLimitResponse, error) {
	return s.kuadrantLimit(ctx, q, func(c *gate.Check) { c.Cost, c.Peek, c.ChargeAlways = 1, true, false })
}

// reportUsage charges what was used, also beyond a limit of requests as far as it fits, and refuses nothing.
func (s *Server) reportUsage(ctx context.Context, q *ratelimitv3.RateLimitRequest) (*ratelimitv3.RateLimitResponse, error) {
	a, err := s.kuadrantLimit(ctx, q, func(c *gate.Check) { c.ChargeAlways = !c.Peek })
	if err == nil && a.GetOverallCode() == codeOver {
		a.OverallCode = codeOK
	}
	return a, err
}

func (s *Server) kuadrantLimit(ctx context.Context, q *ratelimitv3.RateLimitRequest, set func(*gate.Check)) (*ratelimitv3.RateLimitResponse, error) {
	if q.GetDomain() == "" { // as Limitador answers it
		return &ratelimitv3.RateLimitResponse{OverallCode: ratelimitv3.RateLimitResponse_UNKNOWN}, nil
	}
	l, err := s.readLimits(q)
	if err != nil {
		return nil, err
	}
	for i := range l.checks {
		set(&l.checks[i])
	}
	all, err := s.decide(ctx, l.checks)
	if err != nil {
		return nil, err
	}
	return s.limitAnswer(l.of, &all), nil
}

// reserve holds an amount for all descriptors, until it is committed or expires. An amount of 0 holds
// nothing, and asks whether anything is left.
func (s *Server) reserve(ctx context.Context, q *dynamicpb.Message) (*dynamicpb.Message, error) {
	answer := kuadrantMessage("ReserveResponse")
	say := func(code ratelimitv3.RateLimitResponse_Code, id string) (*dynamicpb.Message, error) {
		setField(answer, "code", code.Number())
		if id != "" {
			setField(answer, "reservation_id", id)
		}
		return answer, nil
	}
	limits, err := limitsOf(q)
	if err != nil {
		return nil, err
	}
	if limits.GetDomain() == "" {
		return say(ratelimitv3.RateLimitResponse_UNKNOWN, "")
	}
	l, err := s.readLimits(limits)
	if err != nil {
		return nil, err
	}
	amount := min(fieldOf(q, "amount").Uint(), wire.MaxAmount)
	caller, _ := ctx.Value(callerKey{}).(string)
	for i := range l.checks {
		c := &l.checks[i]
		c.Caller, c.Source = caller, "kuadrant"
		c.Cost, c.Peek, c.ChargeAlways = int(max(1, amount)), amount == 0, false //nolint:gosec // bounded
		if amount > 0 {
			c.Hold, c.HoldElse = holdTime(q), defaultHold
		}
	}
	all, err := s.decide(ctx, l.checks)
	if err != nil {
		return nil, err
	}
	if !all.Allowed() {
		return say(codeOver, "")
	}
	return say(codeOK, all.Hold.Handle)
}

// holdTime returns the ttl of a Reserve, which is bounded as every hold is, and 0 if it has none.
func holdTime(q *dynamicpb.Message) time.Duration {
	if !q.Has(q.Descriptor().Fields().ByName("ttl")) {
		return 0
	}
	d := fieldOf(q, "ttl").Message()
	seconds := min(max(fieldOf(d, "seconds").Int(), 0), int64(wire.MaxHold.Std()/time.Second))
	ttl := time.Duration(seconds)*time.Second + time.Duration(fieldOf(d, "nanos").Int())
	return min(max(ttl, wire.MinHold.Std()), wire.MaxHold.Std()).Truncate(time.Millisecond)
}

// commit settles a reservation with what was used. The same commit again changes nothing. Without a
// reservation of this installation it reports what was used. One that expired is charged by what its
// policy has not kept already, as long as the log knows it: after that it looks like one that was committed.
func (s *Server) commit(ctx context.Context, q *dynamicpb.Message) (*dynamicpb.Message, error) {
	answer := kuadrantMessage("CommitResponse")
	used := min(fieldOf(q, "actual_amount").Uint(), wire.MaxAmount)
	if id := fieldOf(q, "reservation_id").String(); id != "" {
		_, err := s.o.Limits.Settle(ctx, id, int64(used)) //nolint:gosec // bounded
		var mistake *fault.Error
		switch {
		case err == nil:
			setField(answer, "reservation_released", true)
			return answer, nil
		case !errors.As(err, &mistake):
			return nil, err
		case mistake.Code == fault.Settled, mistake.Code == fault.Expired:
			return answer, nil
		case mistake.Code != fault.NotFound:
			return nil, err
		}
	}
	if used == 0 {
		return answer, nil
	}
	limits, err := limitsOf(q)
	if err != nil {
		return nil, err
	}
	_, err = s.kuadrantLimit(ctx, limits, func(c *gate.Check) {
		c.Cost, c.Peek, c.ChargeAlways = int(used), false, true //nolint:gosec // bounded
	})
	return answer, err
}
