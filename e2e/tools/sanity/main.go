// Runs csi-sanity, the conformance suite of the CSI project, against the driver on its own socket.
//
// The suite knows volumes that a controller makes. This driver has inline volumes alone: the kubelet makes their ids,
// their paths and what the driver is told about the pod. So between the suite and the socket, this program does what the
// kubelet does, and nothing else.
package main

import (
	"context"
	"crypto/sha256"
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/container-storage-interface/spec/lib/go/csi"
	"github.com/kubernetes-csi/csi-test/v5/pkg/sanity"
	"github.com/onsi/ginkgo/v2"
	"google.golang.org/grpc"
)

// The name of the volume in its pod.
const volume = "sanity"

// kubelet is the kubelet of one pod with one volume.
type kubelet struct {
	sanity.DefaultIDGenerator
	dir     string
	pod     string
	context map[string]string
}

// GenerateUniqueValidVolumeID gives the only id that goes with the volume's path.
func (k *kubelet) GenerateUniqueValidVolumeID() string {
	return fmt.Sprintf("csi-%x", sha256.Sum256([]byte(k.pod+volume)))
}

// folder is where the volume appears; the kubelet makes it and removes it.
func (k *kubelet) folder() string {
	return filepath.Join(k.dir, "pods", k.pod, "volumes", "kubernetes.io~csi", volume)
}

// target is the kubelet's name for what the suite calls "target".
func target(path string) string {
	if folder, found := strings.CutSuffix(path, "/target"); found {
		return folder + "/mount"
	}
	return path
}

// call passes a call of the suite on as the kubelet would make it, or answers it where the kubelet asks no driver.
func (k *kubelet) call(
	ctx context.Context, method string, request, reply any, connection *grpc.ClientConn,
	pass grpc.UnaryInvoker, options ...grpc.CallOption,
) error {
	switch request := request.(type) {
	case *csi.CreateVolumeRequest:
		reply.(*csi.CreateVolumeResponse).Volume = &csi.Volume{
			VolumeId:      k.GenerateUniqueValidVolumeID(),
			VolumeContext: k.context,
		}
		return nil
	case *csi.DeleteVolumeRequest, *csi.ControllerGetCapabilitiesRequest:
		return nil
	case *csi.NodePublishVolumeRequest:
		request.Readonly = true
		request.TargetPath = target(request.TargetPath)
	case *csi.NodeUnpublishVolumeRequest:
		request.TargetPath = target(request.TargetPath)
	}
	err := pass(ctx, method, request, reply, connection, options...)
	// The specs of whole lives ask for a maker of volumes. Here that is the kubelet.
	if reply, is := reply.(*csi.GetPluginCapabilitiesResponse); is && err == nil && isAboutTheNode() {
		reply.Capabilities = append(reply.Capabilities, controller())
	}
	return err
}

func isAboutTheNode() bool {
	return strings.HasPrefix(ginkgo.CurrentSpecReport().FullText(), "Node Service")
}

func controller() *csi.PluginCapability {
	service := &csi.PluginCapability_Service{Type: csi.PluginCapability_Service_CONTROLLER_SERVICE}
	return &csi.PluginCapability{Type: &csi.PluginCapability_Service_{Service: service}}
}

func (k *kubelet) makeFolder(path string) (string, error) {
	return path, os.MkdirAll(path, 0o750)
}

// removeFolder fails the spec when the driver left something in the folder.
func (k *kubelet) removeFolder(path string) error {
	err := os.Remove(path)
	if err != nil {
		ginkgo.Fail(err.Error())
	}
	return err
}

func (k *kubelet) check(path string) (sanity.PathKind, error) {
	_, err := os.Lstat(target(path))
	switch {
	case err == nil:
		return sanity.PathIsDir, nil
	case os.IsNotExist(err):
		return sanity.PathIsNotFound, nil
	default:
		return "", err
	}
}

type outcome struct{ failed bool }

func (o *outcome) Fail() { o.failed = true }

func main() {
	socket := flag.String("socket", "", "the driver's socket")
	secrets := flag.String("secrets", "", "the file with the secrets of the calls, as csi-sanity reads it")
	described := flag.String("context", "", "the file with the context of the volume, a JSON object")
	var k kubelet
	flag.StringVar(&k.dir, "kubelet-dir", "", "the kubelet's folder")
	flag.StringVar(&k.pod, "pod-uid", "", "the UID of the pod")
	flag.Parse()
	text, err := os.ReadFile(*described)
	if err == nil {
		err = json.Unmarshal(text, &k.context)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "the context of the volume:", err)
		os.Exit(2)
	}
	config := sanity.NewTestConfig()
	config.Address = *socket
	config.SecretsFile = *secrets
	config.IDGen = &k
	config.TargetPath = k.folder()
	config.CreateTargetDir = k.makeFolder
	config.RemoveTargetPath = k.removeFolder
	config.CheckPath = k.check
	// Nothing is ever staged.
	config.StagingPath = ""
	config.DialOptions = append(config.DialOptions, grpc.WithUnaryInterceptor(k.call))
	var all outcome
	sanity.Test(&all, config)
	if all.failed {
		os.Exit(1)
	}
}
