// Command kubernetes runs the API server of Kubernetes with its etcd, for make test-kubernetes.
// There are no nodes and no controllers: it checks and stores objects, and runs none. It is in a
// module of its own, so that none of it enters Stint's.
//
//	kubernetes FOLDER
//
// It listens on loopback, keeps all data in FOLDER, and writes FOLDER/kubeconfig, by which a client
// may do anything, before it answers.
package main

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"net"
	"net/url"
	"os"
	"path/filepath"
	"strconv"
	"time"

	"go.etcd.io/etcd/server/v3/embed"
	"k8s.io/component-base/cli"
	"k8s.io/kubernetes/cmd/kube-apiserver/app"
)

func main() {
	if len(os.Args) != 2 {
		fmt.Fprintln(os.Stderr, "usage: kubernetes FOLDER")
		os.Exit(2)
	}
	code, err := run(os.Args[1])
	if err != nil {
		fmt.Fprintln(os.Stderr, "kubernetes:", err)
	}
	os.Exit(code)
}

// run returns the exit code.
func run(folder string) (int, error) {
	etcd, err := startEtcd(folder)
	if err != nil {
		return 1, err
	}
	defer etcd.Close()
	port, err := freePort()
	if err != nil {
		return 1, err
	}
	key, err := newKey(filepath.Join(folder, "accounts.key"))
	if err != nil {
		return 1, err
	}
	token, certificates := rand.Text(), filepath.Join(folder, "certificates")
	tokens := filepath.Join(folder, "tokens.csv")
	if err := os.WriteFile(tokens, []byte(token+",admin,1,system:masters\n"), 0o600); err != nil {
		return 1, err
	}
	config := fmt.Sprintf(kubeconfig, filepath.Join(certificates, "apiserver.crt"), port, token)
	if err := os.WriteFile(filepath.Join(folder, "kubeconfig"), []byte(config), 0o600); err != nil {
		return 1, err
	}
	server := app.NewAPIServerCommand()
	server.SetContext(context.Background())
	server.SetArgs([]string{
		"--etcd-servers", etcd.Config().ListenClientUrls[0].String(),
		"--bind-address", "127.0.0.1", "--secure-port", strconv.Itoa(port), "--cert-dir", certificates,
		"--advertise-address", "192.0.2.1", // of the Service kubernetes; loopback is refused
		"--service-cluster-ip-range", "10.0.0.0/24",
		"--service-account-key-file", key, "--service-account-signing-key-file", key, "--service-account-issuer", "https://kubernetes.invalid",
		"--token-auth-file", tokens, "--authorization-mode", "RBAC",
		"--disable-admission-plugins", "ServiceAccount", // whose objects a controller creates
	})
	return cli.Run(server), nil
}

const kubeconfig = `apiVersion: v1
kind: Config
clusters: [{name: test, cluster: {certificate-authority: %s, server: "https://127.0.0.1:%d"}}]
users: [{name: admin, user: {token: %s}}]
contexts: [{name: test, context: {cluster: test, user: admin}}]
current-context: test
`

func startEtcd(folder string) (*embed.Etcd, error) {
	c := embed.NewConfig()
	c.Dir, c.LogLevel = filepath.Join(folder, "etcd"), "error"
	for _, urls := range []*[]url.URL{&c.ListenClientUrls, &c.ListenPeerUrls} {
		port, err := freePort()
		if err != nil {
			return nil, err
		}
		*urls = []url.URL{{Scheme: "http", Host: net.JoinHostPort("127.0.0.1", strconv.Itoa(port))}}
	}
	c.AdvertiseClientUrls, c.AdvertisePeerUrls = c.ListenClientUrls, c.ListenPeerUrls
	c.InitialCluster = c.InitialClusterFromName(c.Name)
	etcd, err := embed.StartEtcd(c)
	if err != nil {
		return nil, err
	}
	select {
	case <-etcd.Server.ReadyNotify():
		return etcd, nil
	case <-time.After(time.Minute):
		etcd.Close()
		return nil, errors.New("etcd is not ready after a minute")
	}
}
