package main

import (
	"bytes"
	"encoding/pem"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/layout"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/tarball"
	"github.com/google/go-containerregistry/pkg/v1/types"
	"golang.org/x/crypto/x509roots/fallback/bundle"
)

// imageUser is the number of the user in the image and of its group.
const imageUser = 65532

type builtImage struct {
	platform platform
	image    v1.Image
}

// image returns the image for a platform: from scratch, with both programs, the roots of
// certificates, and a user who owns the data folder and nothing else.
func (r *release) image(p platform, dir string) (v1.Image, error) {
	var programs [2][]byte
	for i, name := range []string{"stint-server", "stint-admin"} {
		var err error
		if programs[i], err = os.ReadFile(filepath.Join(dir, name)); err != nil {
			return nil, err
		}
	}
	text, err := r.tarOf([]entry{
		{name: "etc/", mode: 0o755},
		{name: "etc/group", mode: 0o644, content: fmt.Appendf(nil, "stint:x:%d:\n", imageUser)},
		{name: "etc/passwd", mode: 0o644, content: fmt.Appendf(nil, "stint:x:%d:%d:Stint:/var/lib/stint:/sbin/nologin\n", imageUser, imageUser)},
		{name: "etc/ssl/", mode: 0o755},
		{name: "etc/ssl/certs/", mode: 0o755},
		{name: "etc/ssl/certs/ca-certificates.crt", mode: 0o644, content: roots()},
		{name: "tmp/", mode: 0o1777},
		{name: "usr/", mode: 0o755},
		{name: "usr/bin/", mode: 0o755},
		{name: "usr/bin/stint-admin", mode: 0o755, content: programs[1]},
		{name: "usr/bin/stint-server", mode: 0o755, content: programs[0]},
		{name: "var/", mode: 0o755},
		{name: "var/lib/", mode: 0o755},
		{name: "var/lib/stint/", mode: 0o700, owner: imageUser},
	})
	if err != nil {
		return nil, err
	}
	layer, err := tarball.LayerFromOpener(func() (io.ReadCloser, error) { return io.NopCloser(bytes.NewReader(text)), nil }, tarball.WithMediaType(types.OCILayer))
	if err != nil {
		return nil, err
	}
	base := mutate.MediaType(mutate.ConfigMediaType(empty.Image, types.OCIConfigJSON), types.OCIManifestSchema1)
	image, err := mutate.Append(base, mutate.Addendum{Layer: layer, History: v1.History{Created: v1.Time{Time: r.date}, CreatedBy: "tools/dist", Comment: "Stint " + r.version}})
	if err != nil {
		return nil, err
	}
	return mutate.ConfigFile(image, r.imageConfig(image, p))
}

func (r *release) imageConfig(image v1.Image, p platform) *v1.ConfigFile {
	file, err := image.ConfigFile()
	if err != nil {
		file = &v1.ConfigFile{}
	}
	file = file.DeepCopy()
	file.Created, file.OS, file.Architecture = v1.Time{Time: r.date}, p.os, p.arch
	file.Config = v1.Config{
		User:       fmt.Sprintf("%d:%d", imageUser, imageUser),
		Entrypoint: []string{"/usr/bin/stint-server"},
		// Who publishes these says with STINT_CHECK_AUTH whether checks need a token, and
		// gives certificates or STINT_ADMIN_INSECURE: without, the node refuses to start.
		// Imports and uploads are kept in temporary files, for which a read-only root has no room.
		Env:          []string{"PATH=/usr/bin", "TMPDIR=/var/lib/stint", "STINT_LISTEN=0.0.0.0:8080", "STINT_ADMIN_LISTEN=0.0.0.0:8081", "STINT_DATA_DIR=/var/lib/stint"},
		ExposedPorts: map[string]struct{}{"8080/tcp": {}, "8081/tcp": {}},
		Volumes:      map[string]struct{}{"/var/lib/stint": {}},
		WorkingDir:   "/var/lib/stint", StopSignal: "SIGTERM",
		Healthcheck: &v1.HealthConfig{Test: []string{"CMD", "/usr/bin/stint-server", "health"}, Interval: 10 * time.Second, Timeout: 6 * time.Second, StartPeriod: 10 * time.Second, Retries: 3},
		Labels: map[string]string{
			"org.opencontainers.image.title": "Stint", "org.opencontainers.image.version": r.version, "org.opencontainers.image.revision": r.commit,
			"org.opencontainers.image.created": r.date.Format(time.RFC3339), "org.opencontainers.image.licenses": "MIT",
			"org.opencontainers.image.source": "https://github.com/stint-dev/stint",
		},
	}
	return file
}

// roots returns Mozilla's roots of certificates, of the version in go.mod.
func roots() []byte {
	var out bytes.Buffer
	for root := range bundle.Roots() {
		if root.Constraint == nil {
			_ = pem.Encode(&out, &pem.Block{Type: "CERTIFICATE", Bytes: root.Certificate}) // a buffer takes all
		}
	}
	return out.Bytes()
}

// writeImages writes the images as one OCI layout in a tar, which docker load, podman
// load, skopeo and crane read.
func (r *release) writeImages(images []builtImage) error {
	index := mutate.IndexMediaType(empty.Index, types.OCIImageIndex)
	for _, i := range images {
		index = mutate.AppendManifests(index, mutate.IndexAddendum{Add: i.image, Descriptor: v1.Descriptor{
			MediaType: types.OCIManifestSchema1, Platform: &v1.Platform{OS: i.platform.os, Architecture: i.platform.arch},
		}})
	}
	dir, err := os.MkdirTemp("", "stint-image")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	path, err := layout.Write(dir, empty.Index)
	if err != nil {
		return err
	}
	if err := path.AppendIndex(index, layout.WithAnnotations(map[string]string{
		"org.opencontainers.image.ref.name": r.version, "io.containerd.image.name": "docker.io/library/stint:" + r.version,
	})); err != nil {
		return err
	}
	var entries []entry
	err = filepath.WalkDir(dir, func(file string, d fs.DirEntry, err error) error {
		if err != nil || file == dir {
			return err
		}
		name, err := filepath.Rel(dir, file)
		if err != nil {
			return err
		}
		if d.IsDir() {
			entries = append(entries, entry{name: filepath.ToSlash(name) + "/", mode: 0o755})
			return nil
		}
		content, err := os.ReadFile(file)
		entries = append(entries, entry{name: filepath.ToSlash(name), mode: 0o644, content: content})
		return err
	})
	if err != nil {
		return err
	}
	text, err := r.tarOf(entries)
	if err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(r.out, fmt.Sprintf("stint_%s_oci.tar", r.version)), text, 0o644)
}
