#!/usr/bin/env bash
# Checks the workflows of GitHub Actions with actionlint, which is pinned in
# tools/actionlint, a module of its own, and that it finds a mistake at all.
set -euo pipefail
cd "$(dirname "$0")/.."
lint() { "${GO:-go}" tool -C tools/actionlint actionlint -color=false "$@"; }

lint "$PWD"/.github/workflows/*.yml
broken=$(mktemp --suffix .yml)
trap 'rm -f "$broken"' EXIT
sed 's/runs-on:/run-on:/' .github/workflows/ci.yml >"$broken"
if lint "$broken" >/dev/null; then
  echo "verify-workflows: actionlint accepts a workflow without runs-on" >&2
  exit 1
fi
# Every target of make that a workflow runs exists.
grep -ohE '\bmake [a-z][a-z-]+' .github/workflows/*.yml .ci/run | sed 's/make //' | sort -u | while read -r target; do
  grep -q "^$target:" Makefile || { echo "verify-workflows: make has no target $target" >&2; exit 1; }
done
# Without this, checkout leaves a token in .git/config for all that the job runs.
for file in .github/workflows/*.yml; do
  if [ "$(grep -c 'uses: actions/checkout@' "$file")" != "$(grep -c 'persist-credentials: false' "$file")" ]; then
    echo "verify-workflows: a checkout of $file keeps its credentials" >&2
    exit 1
  fi
done
# What publishes a release, with programs that only say their arguments: the text is the section
# of the version, and a version such as 1.2.3-rc.1 does not become the latest one.
publish() {
  (
    cd "$(mktemp -d)"
    printf '# Changelog\n\n## [Unreleased]\n\n- Later.\n\n## [%s] - 2026-11-23\n\n- This.\n\n## [1.0.0] - 2026-11-22\n\n- Before.\n' "${TAG#v}" >CHANGELOG.md
    gh() { echo "gh $*"; }
    skopeo() { cat >/dev/null; }
    export -f gh skopeo
    GH_TOKEN=none GITHUB_ACTOR=actor GITHUB_REPOSITORY=stint-dev/stint bash -eo pipefail -c "$script" </dev/null
    grep -q This notes.md && ! grep -E 'Later|Before' notes.md
    rm -r "$PWD"
  )
}
script=$(awk '/- name: Publish/ { found = 1 } found && text { sub(/^ {10}/, ""); print } found && /run: \|/ { text = 1 }' .github/workflows/release.yml)
for release in "v1.2.3 " "v1.2.3-rc.1 --prerelease "; do
  export TAG=${release%% *}
  want="gh release create $TAG --verify-tag ${release#* }--title $TAG --notes-file notes.md bin/dist/*"
  said=$(publish) && [ "$said" = "$want" ] || { echo "verify-workflows: publishing $TAG runs: $said, want: $want" >&2; exit 1; }
done
echo "verify-workflows: passed"
