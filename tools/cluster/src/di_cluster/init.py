"""Process 1 of a cluster's box: prepares its mounts and network, then reaps orphans.

Run as a file (`python -I init.py PREPARED_FILE COMPLETE_FILE`) inside new pid, mount and net
namespaces. It uses the standard library only: it is not to depend on how the package is installed.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

# Folders that containerd, the kubelet and the CNI plugins insist on, wherever their own are.
PRIVATE_FOLDERS = (
    "/run/netns",
    "/run/containerd",
    "/var/lib/cni",
    "/var/lib/kubelet",
    "/var/log/containers",
    "/usr/libexec/kubernetes",
)

# The kubelet writes these to the kernel, where they would hold for the whole machine and outlive
# the cluster. It gets files of its own that already hold what it wants.
KUBELET_SYSCTLS = {
    "vm/overcommit_memory": "1",
    "vm/panic_on_oom": "0",
    "kernel/panic": "10",
    "kernel/panic_on_oops": "1",
    "kernel/keys/root_maxkeys": "1000000",
    "kernel/keys/root_maxbytes": "25000000",
}

# The line on standard input that says that the box is joined to the host.
COMPLETE = "complete\n"

NODE_BRIDGE = "di-nodes"


def prepare() -> None:
    """Make the box's private mounts, its bridge and its forwarding."""
    # Containers' mounts must reach the runtime; nothing reaches the machine, because the box's
    # mount namespace was made private before.
    _run("mount", "--make-rshared", "/")
    for folder in PRIVATE_FOLDERS:
        Path(folder).mkdir(parents=True, exist_ok=True)
        _run("mount", "-t", "tmpfs", "tmpfs", folder)
    sysctls = Path("/run/netns/.sysctl")
    sysctls.mkdir()
    for name, value in KUBELET_SYSCTLS.items():
        kernel = Path("/proc/sys", name)
        if not kernel.exists():
            continue
        private = sysctls / name.replace("/", ".")
        private.write_text(value + "\n")
        _run("mount", "--bind", str(private), str(kernel))
    _run("ip", "link", "set", "lo", "up")
    Path("/proc/sys/net/ipv4/ip_forward").write_text("1")
    bridge_filter = Path("/proc/sys/net/bridge/bridge-nf-call-iptables")
    if bridge_filter.exists():  # absent until br_netfilter is loaded
        bridge_filter.write_text("1")
    _run("ip", "link", "add", NODE_BRIDGE, "type", "bridge")
    _run("ip", "link", "set", NODE_BRIDGE, "up")


def reap_forever() -> None:
    """Collect the orphans of all daemons; container shims re-parent to process 1."""
    signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGCHLD})
    while True:
        try:
            while os.waitpid(-1, os.WNOHANG)[0]:
                pass
        except ChildProcessError:
            pass
        signal.sigwait({signal.SIGCHLD})


def _run(*argv: str) -> None:
    subprocess.run(argv, check=True, timeout=30)


def main() -> None:
    prepared, complete = Path(sys.argv[1]), Path(sys.argv[2])
    prepare()
    prepared.touch()
    # Whoever made the box says so when it is complete. If they die before, this is the end of
    # their pipe, and the half-made box goes away by itself.
    if sys.stdin.readline() == COMPLETE:
        complete.touch()
        reap_forever()


if __name__ == "__main__":
    main()
