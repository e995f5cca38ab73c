#!/usr/bin/env bash
# Installs the programs that the tests start (redis-server, Postgres, Chromium for the
# pages, and gateways), as root on Debian or Ubuntu. On other systems it prints
# what to install and fails. It returns at once if nothing is missing.
set -euo pipefail

have() { command -v "$1" >/dev/null 2>&1; }

have_postgres() {
	have initdb && return
	local candidate
	for candidate in /usr/lib/postgresql/*/bin/initdb /usr/pgsql-*/bin/initdb \
		/opt/homebrew/opt/postgresql*/bin/initdb /usr/local/opt/postgresql*/bin/initdb; do
		[ -x "$candidate" ] && return
	done
	return 1
}

have_chromium() {
	have chromium || have chromium-browser || have google-chrome || have google-chrome-stable || have chrome ||
		[ -x "/Applications/Google Chrome.app/Contents/MacOS/Google Chrome" ]
}

missing=()
have redis-server || have valkey-server || missing+=(redis-server)
have_postgres || missing+=(postgresql)
have_chromium || missing+=(chromium)

for gateway in nginx haproxy caddy; do
	have "$gateway" || [ -x "/usr/sbin/$gateway" ] || missing+=("$gateway")
done
have fail2ban-server || missing+=(fail2ban)

[ ${#missing[@]} -eq 0 ] && exit 0

if have apt-get && [ "$(id -u)" -eq 0 ]; then
	echo "installing ${missing[*]}" >&2
	export DEBIAN_FRONTEND=noninteractive
	# The packages must not start servers: the tests start their own.
	if [ ! -e /usr/sbin/policy-rc.d ]; then
		printf '#!/bin/sh\nexit 101\n' >/usr/sbin/policy-rc.d
		chmod +x /usr/sbin/policy-rc.d
		trap 'rm -f /usr/sbin/policy-rc.d' EXIT
	fi
	apt-get -qq update
	apt-get -qq install -y --no-install-recommends "${missing[@]}" >/dev/null
	exit 0
fi

echo "the tests need ${missing[*]}: install them (Debian: sudo apt-get install ${missing[*]}; macOS: brew install redis postgresql@17 and brew install --cask chromium)" >&2
exit 1
