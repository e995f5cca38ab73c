package main

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"
)

// bootSystemd runs the machine's systemd as the first process of namespaces of its own. Its root is the
// machine's, but what is written stays in the folder $0. The mounts are shared, since systemd hands credentials
// to a unit through them.
const bootSystemd = `set -e
mount --make-rprivate /
mount -t tmpfs tmpfs "$0"
mkdir "$0/changes" "$0/work" "$0/root"
mount -t overlay overlay -o "lowerdir=/,upperdir=$0/changes,workdir=$0/work" "$0/root"
cd "$0/root"
mount -t proc proc proc
mount -t sysfs sysfs sys
mount -t cgroup2 cgroup2 sys/fs/cgroup
for folder in dev run tmp; do mount -t tmpfs -o mode=755 tmpfs $folder; done
mkdir dev/pts dev/shm
for device in null zero full random urandom tty; do : > dev/$device; mount --bind /dev/$device dev/$device; done
mount -t devpts -o newinstance,ptmxmode=0666,mode=620 devpts dev/pts
ln -s pts/ptmx dev/ptmx
ip link set lo up
pivot_root . .
umount -l .
exec env -i container=stint PATH=/usr/sbin:/usr/bin:/sbin:/bin chroot . sh -c \
	'mount --make-rshared / && exec /lib/systemd/systemd --system --unit=basic.target --log-target=console'`

// testSystemd lives with the package as an operator does, under a systemd that starts, sandboxes and stops its units.
func testSystemd(t *testing.T, out string) {
	var console bytes.Buffer
	boot := exec.Command("unshare", "--pid", "--mount", "--ipc", "--uts", "--cgroup", "--net", "--fork", "--kill-child", "sh", "-c", bootSystemd, t.TempDir())
	boot.Stdout, boot.Stderr = &console, &console
	if err := boot.Start(); err != nil {
		t.Fatal(err)
	}
	ended := make(chan error, 1)
	go func() { ended <- boot.Wait() }()
	t.Cleanup(func() {
		_ = boot.Process.Kill() // its namespaces end with it
		<-ended
	})
	inside := func(script string) *exec.Cmd {
		child, _ := os.ReadFile(fmt.Sprintf("/proc/%d/task/%[1]d/children", boot.Process.Pid)) // without it nsenter fails
		c := exec.Command("nsenter", "--target", strings.TrimSpace(string(child)), "--mount", "--pid", "--ipc", "--uts", "--cgroup", "--net", "--root", "--wd",
			"env", "-i", "PATH=/usr/sbin:/usr/bin:/sbin:/bin", "DEBIAN_FRONTEND=noninteractive", "sh", "-c", script)
		return c
	}
	do := func(script string) string {
		t.Helper()
		text, err := inside(script).CombinedOutput()
		if err != nil {
			journal, _ := inside("journalctl --unit stint --output cat --lines 20").CombinedOutput()
			t.Fatalf("%s: %v\n%s\n%s\n%s", script, err, text, journal, console.String())
		}
		return strings.TrimSpace(string(text))
	}
	await := func(script string) {
		t.Helper()
		for end := time.Now().Add(time.Minute); inside(script).Run() != nil; time.Sleep(50 * time.Millisecond) {
			if time.Now().After(end) {
				do(script)
			}
		}
	}
	await("systemctl is-active basic.target")
	deb, err := os.Open(find(t, out, ".deb"))
	if err != nil {
		t.Fatal(err)
	}
	defer deb.Close()
	copied := inside("cat > /stint.deb")
	copied.Stdin = deb
	if err := copied.Run(); err != nil {
		t.Fatal(err)
	}

	do("dpkg --install /stint.deb && ! systemctl is-active stint")
	do("head -c 32 /dev/urandom | base64 -w 0 > /etc/stint/admin-token && chmod 600 /etc/stint/admin-token")
	do(`mkdir /etc/systemd/system/stint.service.d && printf '[Service]\nLoadCredential=admin-token:/etc/stint/admin-token\n' > /etc/systemd/system/stint.service.d/token.conf && systemctl daemon-reload`)
	do("systemctl enable --now stint.socket stint")
	healthy := "stint-server health --config /etc/stint/stint.yaml"
	await(healthy)
	do("stint-admin whoami --token-file /etc/stint/admin-token")

	// A reload refuses wrong settings, takes right ones, and the node goes on.
	pid := do("systemctl show --property MainPID --value stint")
	do("echo 'log-levl: debug' >> /etc/stint/stint.yaml && systemctl reload stint")
	await("journalctl --unit stint --output cat | grep 'the settings were not read again'")
	do("sed -i 's/^log-levl/log-level/' /etc/stint/stint.yaml && systemctl reload stint")
	await("journalctl --unit stint --output cat | grep 'changed=log-level'")
	if now := do("systemctl show --property MainPID --value stint"); now != pid {
		t.Errorf("after a reload the node is process %s, before it was %s", now, pid)
	}

	// An upgrade and a restart refuse no check while systemd keeps the socket.
	checks := inside(`until [ -e /end ]; do stint-admin check ip:192.0.2.1 > /dev/null || echo "exit code $?"; echo checked; done`)
	var answers bytes.Buffer
	checks.Stdout, checks.Stderr = &answers, &answers
	if err := checks.Start(); err != nil {
		t.Fatal(err)
	}
	do("dpkg --install /stint.deb")
	await(healthy)
	upgraded := do("systemctl show --property MainPID --value stint")
	do("systemctl restart stint")
	await(healthy)
	do("touch /end")
	if err := checks.Wait(); err != nil || strings.ReplaceAll(answers.String(), "checked\n", "") != "" || answers.Len() == 0 {
		t.Errorf("checks during an upgrade and a restart: %v: %s", err, answers.String())
	}
	if upgraded == pid {
		t.Error("the upgrade did not restart the node")
	}

	do("systemctl stop stint.socket stint && journalctl --unit stint --output cat | grep -q 'msg=stopped'")
	if result := do("systemctl show --property Result --property ExecMainStatus stint"); result != "Result=success\nExecMainStatus=0" {
		t.Errorf("the stop ended with %s", result)
	}
	do("systemctl start stint && dpkg --remove stint && ! systemctl is-active stint stint.socket && ! ls /etc/systemd/system/*.wants/stint*")
}
