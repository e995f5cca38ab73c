"""Decides requests as fail2ban would: its own filters, failure counts and dates, on the
clock of the requests. Reads one request a line (Unix seconds, address, method, path,
status, agent, 1 for a failed login; separated by tabs) and writes 1 for each that is
refused, because its address is banned, and 0 for each that is served and logged. With the
argument sshd the path is a line of sshd's log."""
import logging
import sys
import time

sys.path.insert(0, "/usr/lib/python3/dist-packages")
from fail2ban.client.filterreader import FilterReader
from fail2ban.server.failmanager import FailManager
from fail2ban.server.filter import Filter
from fail2ban.server.mytime import MyTime
from fail2ban.server.ticket import FailTicket

logging.getLogger("fail2ban").setLevel(logging.CRITICAL)

# The jails that Debian's jail.conf has for a web server's logs, with its maxretry, findtime
# and bantime.
JAILS = [("nginx-http-auth", 5, 600, 600), ("nginx-botsearch", 2, 600, 600), ("nginx-bad-request", 5, 600, 600),
         ("apache-badbots", 1, 600, 48 * 3600), ("php-url-fopen", 5, 600, 600)]


class NoJail:
    """What a filter asks of its jail."""
    name, database, filter = "jail", None, None

    def __getattr__(self, name):
        return None


class Jail:
    def __init__(self, name, maxretry, findtime, bantime):
        self.filter = Filter(NoJail())
        self.filter.checkFindTime = False
        self.failures = FailManager()
        self.failures.setMaxRetry(maxretry)
        self.failures.setMaxTime(findtime)
        self.bantime = bantime
        reader = FilterReader(name, name, {}, basedir="/etc/fail2ban")
        if not reader.read():
            raise SystemExit("the filter %s cannot be read" % name)
        reader.getOptions({})
        for command in reader.convert():
            texts = command[3] if isinstance(command[3], list) else [command[3]]
            for text in texts:
                if command[2] == "addfailregex":
                    self.filter.addFailRegex(text)
                elif command[2] == "addignoreregex":
                    self.filter.addIgnoreRegex(text)
                elif command[2] == "prefregex":
                    self.filter.prefRegex = text
                elif command[2] == "maxlines":
                    self.filter.setMaxLines(int(text))

    def sees(self, line, now):
        """Returns whether the line leads to a ban."""
        for found in self.filter.processLine(line, now):
            if self.failures.addFailure(FailTicket(found[1], now, data=found[3])) >= self.failures.getMaxRetry():
                self.failures.toBan(found[1])
                return True
        return False


def main():
    is_sshd = sys.argv[1:] == ["sshd"]
    jails = [Jail("sshd", 5, 600, 600)] if is_sshd else [Jail(*j) for j in JAILS]
    banned = {}
    out = []
    for text in sys.stdin:
        at, address, method, path, status, agent, failed = text.rstrip("\n").split("\t")
        now = float(at)
        MyTime.setTime(now)
        if banned.get(address, 0) > now:
            out.append("1")
            continue
        out.append("0")
        day = time.strftime("%d/%b/%Y:%H:%M:%S +0000", time.gmtime(now))
        access = ("%s - - [" % address, day, '] "%s %s HTTP/1.1" %s 512 "-" "%s"' % (method, path, status, agent))
        lines = [access]
        if is_sshd:
            day, _, text = path.partition(" ")
            lines = [("", day, " " + text)]
        elif failed == "1":
            day = time.strftime("%Y/%m/%d %H:%M:%S", time.gmtime(now))
            lines.append(("", day, ' [error] 7#7: *1 user "x": password mismatch, client: %s, server: site, request: "%s %s HTTP/1.1", host: "site"' % (address, method, path)))
        for jail in jails:
            for line in lines:
                if jail.sees(line, now):
                    banned[address] = max(banned.get(address, 0), now + jail.bantime)
    sys.stdout.write("\n".join(out) + "\n")


main()
