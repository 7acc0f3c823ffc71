package main

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"net"
	"os"
	"strings"

	"google.golang.org/grpc/credentials"
)

// roots reads the file for each new connection, so that a renewed authority needs no restart.
type roots struct {
	credentials.TransportCredentials
	file, name string
}

func trusting(file, name string) credentials.TransportCredentials {
	none := &tls.Config{RootCAs: x509.NewCertPool(), ServerName: name}
	return &roots{credentials.NewTLS(none), file, name}
}

func (roots *roots) ClientHandshake(ctx context.Context, authority string, connection net.Conn) (net.Conn, credentials.AuthInfo, error) {
	text, err := os.ReadFile(roots.file)
	if err != nil {
		return nil, nil, err
	}
	pool := x509.NewCertPool()
	if !pool.AppendCertsFromPEM(text) {
		return nil, nil, fmt.Errorf("%s holds no certificate", roots.file)
	}
	now := credentials.NewTLS(&tls.Config{RootCAs: pool, ServerName: roots.name})
	return now.ClientHandshake(ctx, authority, connection)
}

func (roots *roots) Clone() credentials.TransportCredentials {
	return trusting(roots.file, roots.name)
}

// tokenFile shows the token that a file holds at the time of each call: the kubelet renews it.
type tokenFile string

func (file tokenFile) GetRequestMetadata(context.Context, ...string) (map[string]string, error) {
	token, err := os.ReadFile(string(file))
	if err != nil {
		return nil, err
	}
	return map[string]string{"authorization": "Bearer " + strings.TrimSpace(string(token))}, nil
}

// RequireTransportSecurity keeps the token off connections without TLS.
func (tokenFile) RequireTransportSecurity() bool { return true }
