// Command dist builds a release of Stint from a checkout: archives, packages for Debian
// and Red Hat, an OCI image, bills of materials, checksums and their provenance, signed
// if STINT_RELEASE_KEY is set. Two runs on one commit
// write the same bytes: the version and all times are those of the commit.
package main

import (
	"bytes"
	"cmp"
	"context"
	"crypto/sha256"
	"debug/buildinfo"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"time"
)

// platform is an operating system and an architecture as Go names them.
type platform struct{ os, arch string }

// release is what is built.
type release struct {
	root    string // of the checkout
	out     string // the folder of the files
	version string // SemVer without v
	commit  string
	date    time.Time // of the commit

	helpFolder string   // the manual pages and, by the name of the shell, the completions
	manuals    []string // the pages' paths in it, in order
}

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	root := flag.String("root", ".", "the checkout")
	out := flag.String("out", "", "the folder to write, which is emptied first (default ROOT/bin/dist)")
	platforms := flag.String("platforms", "linux/amd64,linux/arm64,darwin/amd64,darwin/arm64", "what to build for")
	flag.Parse()
	r := &release{root: *root, out: cmp.Or(*out, filepath.Join(*root, "bin", "dist"))}
	if err := r.build(ctx, strings.Split(*platforms, ",")); err != nil {
		fmt.Fprintln(os.Stderr, "dist:", err)
		os.Exit(1)
	}
}

func (r *release) build(ctx context.Context, names []string) error {
	key, err := releaseKey(os.Getenv(keyVariable))
	if err != nil {
		return err
	}
	for _, path := range []*string{&r.root, &r.out} {
		full, err := filepath.Abs(*path)
		if err != nil {
			return err
		}
		*path = full
	}
	say("The release is built in %s: compiling takes minutes for each platform.", r.out)
	if err := os.RemoveAll(r.out); err != nil {
		return err
	}
	temporary, err := os.MkdirTemp("", "stint-dist")
	if err != nil {
		return err
	}
	defer os.RemoveAll(temporary)
	if err := r.checkOut(ctx, filepath.Join(temporary, "checkout")); err != nil {
		return err
	}
	programs := filepath.Join(temporary, "programs")
	if err := os.MkdirAll(r.out, 0o755); err != nil {
		return err
	}
	say("Writing the manual pages and completions")
	if err := r.writeHelp(ctx, temporary); err != nil {
		return fmt.Errorf("the manual pages and completions: %w", err)
	}
	var images []builtImage
	for i, name := range names {
		system, arch, _ := strings.Cut(name, "/")
		p := platform{system, arch}
		dir := filepath.Join(programs, system+"_"+arch)
		say("Compiling stint-server and stint-admin for %s (%d of %d)", name, i+1, len(names))
		if err := r.compile(ctx, p, dir); err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
		if i == 0 {
			if err := r.readBuild(filepath.Join(dir, "stint-server")); err != nil {
				return err
			}
			say("This is Stint %s, commit %s of %s", r.version, r.commit, r.date.Format(time.DateOnly))
			if err := r.checkNamed(); err != nil {
				return err
			}
			say("Writing the bills of materials")
			if err := r.billsOfMaterials(ctx, dir); err != nil {
				return err
			}
		}
		say("Packing for %s", name)
		if err := r.archive(p, dir); err != nil {
			return fmt.Errorf("the archive for %s: %w", name, err)
		}
		if p.os != "linux" {
			continue
		}
		if err := r.packages(p, dir); err != nil {
			return fmt.Errorf("the packages for %s: %w", name, err)
		}
		image, err := r.image(p, dir)
		if err != nil {
			return fmt.Errorf("the image for %s: %w", name, err)
		}
		images = append(images, builtImage{p, image})
	}
	if len(images) > 0 {
		if err := r.writeImages(images); err != nil {
			return err
		}
	}
	say("Writing the provenance and the checksums")
	if err := r.prove(key); err != nil {
		return fmt.Errorf("the provenance: %w", err)
	}
	if err := r.checksums(); err != nil {
		return err
	}
	if err := r.signChecksums(key); err != nil {
		return err
	}
	say("The release is in %s", r.out)
	return nil
}

// say prints a line with the time, by which one sees what takes long.
func say(format string, args ...any) {
	fmt.Printf(time.Now().Format(time.TimeOnly)+" "+format+"\n", args...)
}

// checkOut clones the checkout and goes on there: a release is that of a commit, without
// the builder's changes and files, and the Go command does not read git's data in
// a worktree.
func (r *release) checkOut(ctx context.Context, to string) error {
	if changes, err := exec.CommandContext(ctx, "git", "-C", r.root, "status", "--porcelain").Output(); err == nil && len(changes) > 0 {
		fmt.Fprintln(os.Stderr, "dist: the checkout has changes, which are not in the release")
	}
	clone := exec.CommandContext(ctx, "git", "clone", "--quiet", "--shared", r.root, to)
	clone.Stderr = os.Stderr
	if err := clone.Run(); err != nil {
		return fmt.Errorf("%s is not a git checkout: %w", r.root, err)
	}
	r.root = to
	return nil
}

// compile builds both programs into a folder.
func (r *release) compile(ctx context.Context, p platform, dir string) error {
	// The version, the commit and its date are what the Go command takes from git.
	build := exec.CommandContext(ctx, "go", "build", "-buildvcs=true", "-trimpath", "-ldflags=-s -w -buildid=", "-pgo=cmd/stint-server/release.pgo",
		"-o", dir+string(filepath.Separator), "./cmd/stint-server", "./cmd/stint-admin")
	build.Dir = r.root
	build.Env = append(os.Environ(), "GOOS="+p.os, "GOARCH="+p.arch, "CGO_ENABLED=0", "GOWORK=off")
	build.Stdout, build.Stderr = os.Stdout, os.Stderr
	return build.Run()
}

// readBuild reads from a program of which commit it is.
func (r *release) readBuild(program string) error {
	info, err := buildinfo.ReadFile(program)
	if err != nil {
		return err
	}
	r.version = strings.TrimPrefix(info.Main.Version, "v")
	for _, s := range info.Settings {
		switch s.Key {
		case "vcs.revision":
			r.commit = s.Value
		case "vcs.time":
			if r.date, err = time.Parse(time.RFC3339, s.Value); err != nil {
				return err
			}
		}
	}
	if r.commit == "" || r.date.IsZero() || r.version == "" || r.version == "(devel)" {
		return errors.New("the Go command read no commit from git")
	}
	r.date = r.date.UTC()
	return nil
}

// untagged are the ends of versions that the Go command makes of commits without a tag.
var untagged = regexp.MustCompile(`[-.]\d{14}-[0-9a-f]{12}(\+dirty)?$`)

// checkNamed fails unless the changelog has a section of the version, and the chart and the
// compose file take its image, if the version is a tag's.
func (r *release) checkNamed() error {
	if untagged.MatchString(r.version) {
		return nil
	}
	for file, line := range map[string]string{
		"CHANGELOG.md": "## [" + r.version + "] - ", "deploy/helm/stint/Chart.yaml": "appVersion: \"" + r.version + "\"\n",
		"deploy/compose/compose.yaml": "  image: ${STINT_IMAGE:-ghcr.io/stint-dev/stint:" + r.version + "}\n",
	} {
		text, err := os.ReadFile(r.path(file))
		if err != nil {
			return err
		}
		if !bytes.Contains(text, []byte("\n"+line)) {
			return fmt.Errorf("%s has no line that begins with %s", file, line)
		}
	}
	return nil
}

// path returns the path of a file in the checkout.
func (r *release) path(name string) string { return filepath.Join(r.root, filepath.FromSlash(name)) }

// checksums writes SHA256SUMS, as sha256sum -c reads it.
func (r *release) checksums() error {
	files, err := os.ReadDir(r.out)
	if err != nil {
		return err
	}
	var lines []string
	for _, f := range files {
		content, err := os.ReadFile(filepath.Join(r.out, f.Name()))
		if err != nil {
			return err
		}
		lines = append(lines, fmt.Sprintf("%x  %s\n", sha256.Sum256(content), f.Name()))
		fmt.Printf("%8d KiB  %s\n", len(content)>>10, f.Name())
	}
	slices.SortFunc(lines, func(a, b string) int { return cmp.Compare(a[64:], b[64:]) })
	return os.WriteFile(filepath.Join(r.out, "SHA256SUMS"), []byte(strings.Join(lines, "")), 0o644)
}
