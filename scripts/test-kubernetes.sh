#!/usr/bin/env bash
# Installs the Helm chart into the API server of Kubernetes, changes everything in it, goes back
# and uninstalls it. Nothing is run: there are no nodes (tools/kubernetes). It fails too if the API
# server warns, as of unknown fields and of pods that the Pod Security Standard "restricted" forbids.
# ServiceMonitor is not part of Kubernetes; make verify-release only renders it.
set -euo pipefail
cd "$(dirname "$0")/.."
chart=$PWD/deploy/helm/stint
go=${GO:-go}
"$go" mod verify -C tools/kubernetes
version=$("$go" list -C tools/kubernetes -m -f '{{.Version}}' k8s.io/kubernetes)
IFS=. read -r major minor _ <<<"${version#v}"
version_package=k8s.io/component-base/version
"$go" build -C tools/kubernetes -o ../../bin/kubernetes \
  -ldflags "-s -w -X $version_package.gitVersion=$version -X $version_package.gitMajor=$major -X $version_package.gitMinor=$minor" .

folder=$(mktemp -d)
bin/kubernetes "$folder" >"$folder/log" 2>&1 &
server=$!
trap 'kill "$server" 2>/dev/null || true; wait "$server" 2>/dev/null || true; rm -rf "$folder"' EXIT
export KUBECONFIG=$folder/kubeconfig HELM_CACHE_HOME=$folder/helm HELM_CONFIG_HOME=$folder/helm HELM_DATA_HOME=$folder/helm
fail() { echo "test-kubernetes: $1" >&2; exit 1; }
# Helm's output of a command; it fails at a warning.
helm() {
  local said
  said=$(CGO_ENABLED=0 "$go" tool -C tools/helm helm "$@" --namespace stint 2>&1) || fail "helm $1: $said"
  if grep -i warning <<<"$said" >&2; then fail "helm $1: the API server warns"; fi
  echo "$said"
}
url=
ask() { curl -sS --fail-with-body --cacert "$folder/certificates/apiserver.crt" -H "Authorization: Bearer $token" "$@"; }
for _ in $(seq 120); do
  kill -0 "$server" 2>/dev/null || { tail -5 "$folder/log" >&2; fail "the API server has ended"; }
  if [ -s "$KUBECONFIG" ]; then
    url=$(sed -nE 's/.*server: "([^"]+)".*/\1/p' "$KUBECONFIG") token=$(sed -nE 's/.*token: ([^}]+)\}.*/\1/p' "$KUBECONFIG")
    [ "$(ask "$url/readyz" 2>/dev/null)" = ok ] && break
  fi
  sleep 1
done
[ "$(ask "$url/readyz")" = ok ] || fail "the API server is not ready after two minutes"

ask "$url/api/v1/namespaces" -H 'Content-Type: application/json' -o "$folder/answer" -d '{"apiVersion":"v1","kind":"Namespace","metadata":{"name":"stint","labels":
  {"pod-security.kubernetes.io/enforce":"restricted","pod-security.kubernetes.io/warn":"restricted"}}}'
# The names of what there is of a kind, by its path.
names() { ask "$url/$1" | tr -d ' \n' | grep -oE '"metadata":\{"name":"[^"]+"' | sed -E 's/.*"([^"]+)"$/\1/' | sort | tr '\n' ' '; }
expect() { [ "$(names "$1")" = "$2" ] || fail "of $1 there is \"$(names "$1")\", want \"$2\""; }
deployments=apis/apps/v1/namespaces/stint/deployments
scalers=apis/autoscaling/v2/namespaces/stint/horizontalpodautoscalers

helm install stint "$chart" --set existingSecret=stint >/dev/null
expect $deployments "stint "
expect api/v1/namespaces/stint/services "stint stint-admin "
expect apis/policy/v1/namespaces/stint/poddisruptionbudgets "stint "
expect apis/networking.k8s.io/v1/namespaces/stint/networkpolicies "stint "
helm upgrade stint "$chart" --set existingSecret=stint --set autoscaling.enabled=true --set tls.checkSecret=checks \
  --set tls.adminSecret=admin --set grpc=true --set settings.drain-timeout=60s \
  --set-json 'networkPolicy.adminFrom=[{"podSelector":{}}]' --set-json 'networkPolicy.checksFrom=[{"namespaceSelector":{}}]' >/dev/null
expect $scalers "stint "
helm rollback stint 1 >/dev/null
expect $scalers ""
helm uninstall stint >/dev/null
expect $deployments ""
long=$(printf 'a%.0s' {1..53})
helm install "$long" "$chart" --set existingSecret=stint >/dev/null
helm uninstall "$long" >/dev/null

# What the chart must never have is refused or warned of.
cp -r "$chart" "$folder/chart"
sed -i 's/^      automountServiceAccountToken: false/&\n      automountServiceAcountToken: false/' "$folder/chart/templates/deployment.yaml"
(helm install misspelt "$folder/chart" --set existingSecret=stint) >/dev/null 2>&1 && fail "a field that does not exist is accepted"
cp "$chart/templates/deployment.yaml" "$folder/chart/templates/deployment.yaml"
sed -i 's/runAsNonRoot: true/runAsNonRoot: false/' "$folder/chart/templates/deployment.yaml"
(helm install root "$folder/chart" --set existingSecret=stint) >/dev/null 2>&1 && fail "a pod that may run as root is accepted without a warning"
echo "test-kubernetes: passed on Kubernetes $version"
