// Command gubernator runs one node of Gubernator, the only one of its cluster, so that it owns
// every key and answers from its memory. It traces nothing. Its own command looks for others
// on every interface of the machine.
package main

import (
	"context"
	"log"
	"os"
	"strconv"

	"github.com/gubernator-io/gubernator/v2"
	"github.com/sirupsen/logrus"
)

func main() {
	overHTTP, address := os.Args[1], os.Args[2]
	keys, err := strconv.Atoi(os.Args[3])
	if err != nil {
		log.Fatal(err)
	}
	logger := logrus.New()
	logger.SetLevel(logrus.ErrorLevel)
	node, err := gubernator.SpawnDaemon(context.Background(), gubernator.DaemonConfig{
		HTTPListenAddress: overHTTP, GRPCListenAddress: address, AdvertiseAddress: address,
		CacheSize: keys, PeerDiscoveryType: "none", Logger: logger,
	})
	if err != nil {
		log.Fatal(err)
	}
	node.SetPeers([]gubernator.PeerInfo{{HTTPAddress: overHTTP, GRPCAddress: address}})
	select {}
}
