#!/usr/bin/env bash
# Installs the programs that the tests start (redis-server, Postgres, pgbouncer, Chromium for the
# pages, gateways, a shared cache, CrowdSec, Prometheus, and the languages and frameworks that the clients are tested with), as
# root on Debian or Ubuntu. Otherwise it prints what to install and fails. It
# returns at once if nothing is missing.
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
	have chromium-headless-shell || have chromium || have chromium-browser || have google-chrome || have google-chrome-stable || have chrome ||
		[ -x "/Applications/Google Chrome.app/Contents/MacOS/Google Chrome" ]
}

root="$(cd "$(dirname "$0")/.." && pwd)"

# npm installs the versions that package-lock.json names. npm ci would refuse where a
# registry lacks the optional packages of other platforms.
install_frameworks() {
	local folder
	for folder in clients/node test/doors/crowdsec test/doors/signer; do
		cd "$root/$folder"
		[ node_modules/.package-lock.json -nt package-lock.json ] && continue
		echo "installing the packages of $folder" >&2
		npm install --no-save --silent --no-audit --no-fund
		touch node_modules/.package-lock.json
	done
}

# CrowdSec, its bouncers and Prometheus are unpacked, not installed: their packages start
# services. So is WordPress, whose package brings a web server.
cache="${XDG_CACHE_HOME:-$HOME/.cache}"

# unpack FOLDER PACKAGE... unpacks Debian packages into a folder, once.
unpack() {
	local folder=$1 package
	shift
	[ -e "$folder/complete" ] && return
	have apt-get || return 0 # the tests say what they lack
	echo "unpacking $* into $folder" >&2
	mkdir -p "$folder"
	cd "$folder"
	[ "$(id -u)" -ne 0 ] || apt-get -qq update || true # the lists may be recent enough
	apt-get -qq download "$@"
	for package in *.deb; do
		dpkg -x "$package" .
		rm "$package"
	done
	touch complete
}

unpack_all() {
	unpack "${STINT_CROWDSEC:-$cache/stint-crowdsec}" crowdsec crowdsec-firewall-bouncer crowdsec-custom-bouncer
	unpack "${STINT_WORDPRESS:-$cache/stint-wordpress}" wordpress
	have prometheus && have promtool || unpack "${STINT_PROMETHEUS:-$cache/stint-prometheus}" prometheus
}

check_node() {
	node -e 'process.exit(process.versions.node.split(".")[0] < 20 ? 1 : 0)' && return
	echo "the tests need Node.js 20 or later, this is $(node --version): install it from nodejs.org" >&2
	exit 1
}

# Debian's packages of Python are for Debian's Python, whichever else is in the PATH.
python=/usr/bin/python3
[ -x "$python" ] || python=python3

missing=()
have "$python" || missing+=(python3)
have mypy || missing+=(mypy)
for module in limits flask flask_limiter django starlette fastapi httpx; do
	"$python" -c "import $module" 2>/dev/null || missing+=("python3-${module//_/-}")
done
have redis-server || have valkey-server || missing+=(redis-server)
have_postgres || missing+=(postgresql)
have pgbouncer || [ -x /usr/sbin/pgbouncer ] || missing+=(pgbouncer)
have_chromium || missing+=(chromium)

for gateway in nginx haproxy caddy; do
	have "$gateway" || [ -x "/usr/sbin/$gateway" ] || missing+=("$gateway")
done
have varnishd || [ -x /usr/sbin/varnishd ] || missing+=(varnish)
have fail2ban-server || missing+=(fail2ban)
have groff || missing+=(groff-base)
[ -x /usr/sbin/rsyslogd ] || missing+=(rsyslog)
find /usr/lib -path '*rsyslog/lmnsd_ossl.so' 2>/dev/null | grep -q . || missing+=(rsyslog-openssl)
have logrotate || [ -x /usr/sbin/logrotate ] || missing+=(logrotate)
if [ "$(uname)" = Linux ]; then
	have nft || [ -x /usr/sbin/nft ] || missing+=(nftables)
	have ip || [ -x /usr/sbin/ip ] || missing+=(iproute2)
fi

have ipset || [ -x /usr/sbin/ipset ] || missing+=(ipset)
have iptables || [ -x /usr/sbin/iptables ] || missing+=(iptables)
have nft || [ -x /usr/sbin/nft ] || missing+=(nftables)
have node || missing+=(nodejs)
have npm || missing+=(npm)

have php || missing+=(php-cli)
ls /usr/sbin/php-fpm* >/dev/null 2>&1 || missing+=(php-fpm)
have ruby || missing+=(ruby)
have curl || missing+=(curl)
php_modules=$(php -m 2>/dev/null || true)
for module in mysqli psr xml; do
	grep -qx "$module" <<<"$php_modules" && continue
	case $module in
	mysqli) missing+=(php-mysql) ;;
	*) missing+=("php-$module") ;;
	esac
done
php -r 'require "Nyholm/Psr7/autoload.php";' >/dev/null 2>&1 || missing+=(php-nyholm-psr7)
have mariadbd || [ -x /usr/sbin/mariadbd ] || missing+=(mariadb-server-core)
have my_print_defaults || missing+=(mariadb-client-core) # which mariadb-install-db calls

# test/firewall asks the kernel for the same.
if [ "$(uname)" = Linux ] && [ "$(id -u)" -ne 0 ] && ! unshare --user --map-current-user --keep-caps --net true 2>/dev/null; then
	echo "the kernel refuses network namespaces to $(id -un): test/firewall is left out; run it as root" >&2
fi

if [ ${#missing[@]} -eq 0 ]; then
	check_node
	install_frameworks
	unpack_all
	exit 0
fi

# Debian's Chromium without windows shows pages for half of the processor time.
choose_chromium() {
	! apt-cache show chromium-headless-shell >/dev/null 2>&1 || missing=("${missing[@]/%chromium/chromium-headless-shell}")
}

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
	choose_chromium
	apt-get -qq install -y --no-install-recommends "${missing[@]}" >/dev/null
	check_node
	install_frameworks
	unpack_all
	exit 0
fi

how="macOS: brew install redis postgresql@17 pgbouncer and brew install --cask chromium"
if have apt-get; then
	choose_chromium
	how="an administrator runs: sudo apt-get install --no-install-recommends ${missing[*]}"
fi
echo "the tests need ${missing[*]}: $how" >&2
exit 1
