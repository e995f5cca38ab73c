#!/usr/bin/env bash
# Lints the Helm chart and renders it as installed by default and with everything on. It
# fails too if a node refuses the variables or accepts them without the stores, or if the
# chart renders without a Secret, with an unknown value or with a name that Kubernetes
# refuses. helm is pinned in tools/helm, a module of its own.
set -euo pipefail
cd "$(dirname "$0")/.."
chart=$PWD/deploy/helm/stint
helm() { CGO_ENABLED=0 "${GO:-go}" tool -C tools/helm helm "$@"; }

helm lint --strict "$chart" --set existingSecret=stint
default=$(helm template stint "$chart" --set existingSecret=stint)
# A node takes the environment, with a Secret as INSTALL.md makes it.
secret=$(mktemp -d)
trap 'rm -rf "$secret"' EXIT
echo redis://redis:6379/0 >"$secret/redis-url"
echo postgres://stint:password@postgres:5432/stint >"$secret/database-url"
od -An -N32 -tx1 /dev/urandom | tr -d ' \n' >"$secret/admin-token"
echo '{}' >"$secret/stint.yaml"
mapfile -t variables < <(sed -nE 's/^ *- \{name: (STINT_[A-Z_]+), value: "?([^"]*)"?\}$/\1=\2/p' <<<"$default")
variables=("${variables[@]//\/run\/secrets\/stint/$secret}")
((${#variables[@]} > 5)) || { echo "verify-helm: the chart sets ${#variables[@]} variables" >&2; exit 1; }
check() { env "${variables[@]}" CREDENTIALS_DIRECTORY="$secret" "${GO:-go}" run ./cmd/server config check "$secret/stint.yaml" 2>&1; }
said=$(check) || { echo "verify-helm: $said" >&2; exit 1; }
if grep '^hint:' <<<"$said" >&2; then exit 1; fi
# Several nodes without shared stores would each count on their own, and lose all with their pods.
rm "$secret/redis-url" "$secret/database-url"
if check >/dev/null; then
  echo "verify-helm: a node takes a Secret without redis-url and database-url" >&2
  exit 1
fi
all=$(helm template stint "$chart" --set existingSecret=stint --set autoscaling.enabled=true \
  --set serviceMonitor.enabled=true --set serviceMonitor.tokenSecret.name=token --set serviceMonitor.tlsConfig.serverName=stint \
  --set tls.checkSecret=checks --set tls.adminSecret=admin --set grpc=true \
  --set-json 'settings={"max-memory":100000000000,"trusted-proxies":["10.0.0.0/8","192.0.2.1"],"allowed-hosts":["stint.example.com"]}' \
  --set-json 'networkPolicy.adminFrom=[{"podSelector":{}}]')
for kind in Deployment Service PodDisruptionBudget NetworkPolicy HorizontalPodAutoscaler ServiceMonitor; do
  grep -q "^kind: $kind\$" <<<"$all" || { echo "verify-helm: no $kind is rendered" >&2; exit 1; }
done
for text in 'STINT_MAX_MEMORY, value: "100000000000"' 'STINT_TRUSTED_PROXIES, value: "10.0.0.0/8,192.0.2.1"' 'STINT_GRPC_LISTEN' 'name: grpc, port: 8082' '{port: checks}, {port: grpc}' \
  'stint.default.svc,' 'stint-admin.default.svc.cluster.local,stint.example.com"' 'jobLabel: app.kubernetes.io/name' 'serverName: stint'; do
  grep -qF "$text" <<<"$all" || { echo "verify-helm: the chart renders no $text" >&2; exit 1; }
done
if helm template stint "$chart" >/dev/null 2>&1; then
  echo "verify-helm: the chart renders without existingSecret" >&2
  exit 1
fi
for value in replicaCount=3 tls.adminsecret=admin networkPolicy.adminTo=null settings.listen=:80; do
  if helm template stint "$chart" --set existingSecret=stint --set "$value" >/dev/null 2>&1; then
    echo "verify-helm: the chart accepts $value, which it does not know or sets itself" >&2
    exit 1
  fi
done
if helm template stint "$chart" --set existingSecret=stint --set tls.checkSecret=null --set tls.adminSecret=null \
  --set serviceMonitor.enabled=true --set serviceMonitor.tokenSecret.name=token | grep -i 'scheme: https' >&2; then
  echo "verify-helm: without certificates the probes or Prometheus use TLS" >&2
  exit 1
fi
# Kubernetes kills what has not stopped then, with all that it has not written yet.
for timeout in 10s 60s; do
  helm template stint "$chart" --set existingSecret=stint --set settings.drain-timeout=$timeout | grep "terminationGracePeriodSeconds: $((${timeout%s} + 30))\$" >/dev/null ||
    { echo "verify-helm: a node that drains for $timeout has not 30 s more to stop" >&2; exit 1; }
done
# The longest name of a release.
long=$(helm template "$(printf 'a%.0s' {1..53})" "$chart" --set existingSecret=stint --set settings.redis-url=redis://redis)
if grep -E '^  name: .{64,}$' <<<"$long" >&2; then
  echo "verify-helm: names of more than 63 bytes" >&2
  exit 1
fi
if grep STINT_REDIS_URL_FILE <<<"$long" >&2; then
  echo "verify-helm: redis-url is set twice" >&2
  exit 1
fi
echo "verify-helm: passed"
