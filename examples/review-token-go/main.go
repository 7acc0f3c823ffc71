// A service in front of a tool's API: it lets a request through when the pod that sent it may use the connector now.
//
// The pod shows the token that the kubelet gave it for the audience `connectors.alauda.io`. The evaluation
// service names the pod behind the token, and says whether that pod may use the connector. Only an explicit
// yes is a yes: a refusal, an error and silence are not.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"log"
	"net"
	"net/http"
	"strings"
	"time"

	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc"
	"google.golang.org/grpc/status"

	"connectors.alauda.io/examples/review-token-go/evaluationv1"
)

// Errors with this domain come from the evaluation service itself, and carry one word as their reason.
const domain = "connectors.alauda.io"

// How long one request waits for an answer. The service has the API server look at the token each time.
const patience = 10 * time.Second

func main() {
	listen := flag.String("listen", "127.0.0.1:8080", "where requests for the tool arrive")
	namespace := flag.String("namespace", "", "the connector's namespace")
	connector := flag.String("connector", "", "the connector's name")
	url := flag.String("evaluation", "evaluation-service.connectors-system.svc:8443", "host:port of the evaluation service")
	name := flag.String("server-name", "", "the name in its certificate, where that is not the host (a port-forward)")
	roots := flag.String("roots", "/etc/connectors/ca/ca.crt", "file with the roots to trust, in PEM")
	token := flag.String("token", "/var/run/secrets/connectors-evaluation/token", "file with a token for the audience connectors-evaluation")
	flag.Parse()

	// The client has read no token and called no server yet. One connection serves all requests, and is made
	// again when it is lost.
	connection, err := grpc.NewClient(*url,
		grpc.WithTransportCredentials(trusting(*roots, *name)),
		grpc.WithPerRPCCredentials(tokenFile(*token)),
	)
	if err != nil {
		log.Fatal(err)
	}
	gate := &gate{
		evaluation: evaluationv1.NewEvaluationClient(connection),
		connector:  &evaluationv1.Connector{Namespace: *namespace, Name: *connector},
	}
	server := &http.Server{
		Handler:           gate.before(http.HandlerFunc(tool)),
		ReadHeaderTimeout: 5 * time.Second,
	}
	listener, err := net.Listen("tcp", *listen)
	if err != nil {
		log.Fatal(err)
	}
	log.Printf("listening on %s", listener.Addr())
	log.Fatal(server.Serve(listener))
}

// Your tool, or a proxy to it.
func tool(answer http.ResponseWriter, request *http.Request) {
	fmt.Fprintf(answer, "%s may use the connector\n", request.Header.Get("X-Pod"))
}

type gate struct {
	evaluation evaluationv1.EvaluationClient
	connector  *evaluationv1.Connector
}

// Refusals of one request.
var (
	errNoToken  = errors.New("show your pod's token for the audience connectors.alauda.io as `Authorization: Bearer …`")
	errBadToken = errors.New("the token is not valid, not for the audience connectors.alauda.io, or not a pod's")
	errDenied   = errors.New("this pod may not use the connector now")
)

// before lets a request through to the next handler when its pod may use the connector.
func (gate *gate) before(next http.Handler) http.Handler {
	return http.HandlerFunc(func(answer http.ResponseWriter, request *http.Request) {
		pod, err := gate.review(request.Context(), request.Header.Get("Authorization"))
		switch {
		case err == nil:
			// Replaces the value that the caller sent under that name. The tool must not see the token.
			request.Header.Set("X-Pod", pod)
			request.Header.Del("Authorization")
			next.ServeHTTP(answer, request)
		case errors.Is(err, errNoToken), errors.Is(err, errBadToken):
			answer.Header().Set("WWW-Authenticate", "Bearer")
			http.Error(answer, err.Error(), http.StatusUnauthorized)
		case errors.Is(err, errDenied):
			http.Error(answer, err.Error(), http.StatusForbidden)
		default:
			// The reason for a failed call is for the operators of this service, not for its callers.
			log.Printf("cannot review a token: %v", err)
			answer.Header().Set("Retry-After", "5")
			http.Error(answer, "access cannot be checked at the moment", http.StatusServiceUnavailable)
		}
	})
}

// review gives the namespace and name of the pod behind a token that may use the connector.
func (gate *gate) review(ctx context.Context, authorization string) (string, error) {
	scheme, token, found := strings.Cut(authorization, " ")
	if !found || !strings.EqualFold(scheme, "Bearer") || token == "" {
		return "", errNoToken
	}
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	// Ask for each request and keep no answer: the pod may be gone, or its approval withdrawn, a moment later.
	answer, err := gate.evaluation.ReviewToken(ctx, &evaluationv1.ReviewTokenRequest{
		Token:      token,
		Connector:  gate.connector,
		Permission: "apis",
		// A verb of your choice, as your policies name them; a mount asks for `*`.
		Verb: "*",
	})
	if err != nil {
		if strings.HasPrefix(reason(err), "SUBJECT_TOKEN_") {
			return "", errBadToken
		}
		return "", err
	}
	switch answer.GetAnswer().GetDecision() {
	case evaluationv1.AccessDecision_ACCESS_DECISION_ALLOWED_STANDING,
		evaluationv1.AccessDecision_ACCESS_DECISION_ALLOWED_POD:
		return answer.GetSubject().GetNamespace() + "/" + answer.GetPod().GetName(), nil
	default: // also a word that this program does not know
		return "", errDenied
	}
}

// reason is the service's own word for its refusal; none when another component on the way refused.
func reason(err error) string {
	for _, detail := range status.Convert(err).Details() {
		if info, ok := detail.(*errdetails.ErrorInfo); ok && info.GetDomain() == domain {
			return info.GetReason()
		}
	}
	return ""
}
