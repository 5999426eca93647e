"""The command `di-cluster`."""

from __future__ import annotations

import argparse
import os
import shutil
import sys
from collections.abc import Sequence
from pathlib import Path

from di_cluster.builds.binaries import COMPONENTS
from di_cluster.cluster import Cluster
from di_cluster.current import CurrentCluster
from di_cluster.errors import ClusterError
from di_cluster.reporter import Reporter
from di_cluster.settings import Settings

# Commands that make namespaces, mounts or devices, or write where root has written.
_PRIVILEGED = {"up", "down", "build-image", "load-image", "add-nodes", "exec"}


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command; returns the exit code (1 for anything that a person has to act on)."""
    arguments = _parser().parse_args(argv)
    settings = Settings.from_environment(os.environ)
    reporter = Reporter(sys.stderr)
    try:
        if settings.cluster == "current":
            return _run_current(arguments, CurrentCluster(settings=settings, reporter=reporter))
        cluster = Cluster(
            arguments.name,
            profile=getattr(arguments, "profile", "control-plane"),
            nodes=getattr(arguments, "nodes", 1),
            api_server_args=getattr(arguments, "api_server_arg", ()),
            feature_gates=getattr(arguments, "feature_gate", ()),
            settings=settings,
            reporter=reporter,
        )
        if arguments.command in _PRIVILEGED and os.geteuid() != 0:
            if arguments.command == "up":
                cluster.prepare()  # building needs no root, and the cache stays the user's
            _become_root(settings)
        return _run(arguments, cluster)
    except ClusterError as error:
        print(f"di-cluster: {error}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        print("di-cluster: interrupted; `di-cluster up` goes on, `down` cleans up", file=sys.stderr)
        return 130


def _run(arguments: argparse.Namespace, cluster: Cluster) -> int:
    command: str = arguments.command
    match command:
        case "up":
            cluster.up()
        case "down":
            cluster.down(purge=arguments.purge)
        case "build-image":
            _build_image(arguments, cluster)
        case "load-image":
            for tag in arguments.tags:
                cluster.load_image(cluster.images.find(tag))
        case "add-nodes":
            cluster.add_nodes(arguments.count, gpus=arguments.gpus, cpus=arguments.cpus)
        case "exec":
            print(cluster.run_in_box(arguments.argv, seconds=3600), end="")
        case _:
            return _show(arguments, cluster)
    return 0


def _show(arguments: argparse.Namespace, cluster: Cluster) -> int:
    """The commands that only look."""
    command: str = arguments.command
    match command:
        case "status":
            return _print_status(cluster)
        case "list":
            for name in cluster.all_names():
                print(name)
        case "kubeconfig":
            if not cluster.kubeconfig.exists():
                raise ClusterError(f"there is no cluster {cluster.name}")
            print(cluster.kubeconfig)
        case "binary":
            print(cluster.binary(arguments.program))
        case _:
            raise AssertionError(f"no such command: {command}")
    return 0


def _build_image(arguments: argparse.Namespace, cluster: Cluster | CurrentCluster) -> None:
    image = cluster.build_image(
        arguments.context,
        arguments.tag,
        dockerfile=arguments.file,
        build_args=_build_args(arguments.build_arg),
    )
    print(f"{image.reference} {image.image_id}")


def _run_current(arguments: argparse.Namespace, cluster: CurrentCluster) -> int:
    """The same commands for the current kubeconfig's cluster, as far as they make sense."""
    command: str = arguments.command
    match command:
        case "up" | "status":
            cluster.up()
        case "down":
            cluster.down()
        case "kubeconfig":
            print(cluster.kubeconfig)
        case "build-image":
            _build_image(arguments, cluster)
        case "load-image":
            for tag in arguments.tags:
                cluster.load_tag(tag)
        case _:
            raise ClusterError(f"CLUSTER=current: {command} is for di-cluster's own clusters")
    return 0


def _print_status(cluster: Cluster) -> int:
    """One line for each daemon; the exit code is 1 unless all of them run."""
    statuses = cluster.status()
    if not cluster.is_up:
        print(f"cluster {cluster.name} is down")
        return 1
    versions = ", ".join(f"{each.name} {each.version}" for each in COMPONENTS)
    print(f"cluster {cluster.name}: {cluster.addresses}; pinned {versions}")
    print(f"{'PROCESS':26}{'PID':>8}{'MEMORY':>12}{'CPU':>10}{'UP':>10}")
    for each in statuses:
        if each.pid is None:
            print(f"{each.name:26}{'dead':>8}")
        else:
            print(
                f"{each.name:26}{each.pid:>8}{each.memory / (1 << 20):>8.0f} MiB"
                f"{each.cpu_seconds:>8.1f} s{each.age_seconds:>8.0f} s"
            )
    total = sum(each.memory for each in statuses) / (1 << 20)
    print(f"{'total':34}{total:>8.0f} MiB")
    return 0 if all(each.pid is not None for each in statuses) else 1


def _build_args(words: Sequence[str]) -> dict[str, str]:
    """NAME=VALUE words as a mapping.

    Raises:
        ClusterError: a word has no "=".
    """
    arguments = {}
    for word in words:
        name, equals, value = word.partition("=")
        if not equals or not name:
            raise ClusterError(f"--build-arg {word}: must be NAME=VALUE")
        arguments[name] = value
    return arguments


def _become_root(settings: Settings) -> None:
    """Run this very command again with sudo, with the same cache; returns only by an error.

    Raises:
        ClusterError: there is no sudo.
    """
    sudo = shutil.which("sudo")
    if sudo is None:
        raise ClusterError(
            "root is needed for namespaces, mounts and network devices, and there is no sudo: "
            "run it as root"
        )
    environment = [f"DI_ORCHESTRATOR_CACHE={settings.cache}", f"PATH={settings.search_path}"]
    if settings.assets is not None:
        environment.append(f"KUBEBUILDER_ASSETS={settings.assets}")
    command = [sys.executable, "-m", "di_cluster.main", *sys.argv[1:]]
    os.execv(sudo, [sudo, "env", *environment, *command])


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="di-cluster", description="A real Kubernetes on one machine."
    )
    commands = parser.add_subparsers(dest="command", required=True, metavar="COMMAND")
    common = argparse.ArgumentParser(add_help=False)
    common.add_argument("--name", default="default", help="which cluster (default: %(default)s)")

    def command(name: str, text: str) -> argparse.ArgumentParser:
        return commands.add_parser(name, parents=[common], help=text, description=text)

    up = command("up", "bring a cluster up; starts only what does not run")
    up.add_argument("--profile", choices=["control-plane", "node"], default="node")
    up.add_argument("--nodes", type=int, default=1, help="real nodes (default: %(default)s)")
    up.add_argument(
        "--api-server-arg",
        action="append",
        default=[],
        metavar="--FLAG=VALUE",
        help="a further argument of kube-apiserver (may be repeated)",
    )
    up.add_argument(
        "--feature-gate",
        action="append",
        default=[],
        metavar="NAME",
        help="a feature of Kubernetes that is not on by itself (may be repeated)",
    )
    down = command("down", "end a cluster; nothing of it stays running")
    down.add_argument("--purge", action="store_true", help="forget certificates and images too")
    command("status", "processes, memory and times; exit code 1 unless all run")
    command("list", "names of all clusters")
    command("kubeconfig", "print the path of the kubeconfig")
    binary = command("binary", "print the path of a program, building it if needed")
    binary.add_argument("program", help="kubectl, helm, etcd, kwok, ...")
    build = command("build-image", "build an image without a registry or a daemon")
    build.add_argument("tag")
    build.add_argument("context", type=Path)
    build.add_argument("-f", "--file", type=Path, help="the Dockerfile")
    build.add_argument("--build-arg", action="append", default=[], metavar="NAME=VALUE")
    load = command("load-image", "put built images on every node")
    load.add_argument("tags", nargs="+", metavar="TAG")
    add = command("add-nodes", "add simulated nodes")
    add.add_argument("count", type=int)
    add.add_argument("--gpus", type=int, default=0, help="GPUs of each (default: %(default)s)")
    add.add_argument("--cpus", type=int, default=32, help="cores of each (default: %(default)s)")
    run = command("exec", "run a program inside the cluster's namespaces")
    run.add_argument("argv", nargs=argparse.REMAINDER, metavar="PROGRAM ...")
    return parser


if __name__ == "__main__":
    sys.exit(main())
