"""The command `di-cluster`."""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Sequence

from di_cluster.cluster import Cluster
from di_cluster.errors import ClusterError
from di_cluster.reporter import Reporter
from di_cluster.settings import Settings


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command; returns the exit code."""
    arguments = _parser().parse_args(argv)
    settings = Settings.from_environment(os.environ)
    reporter = Reporter(sys.stderr)
    cluster = Cluster(
        arguments.name,
        profile=getattr(arguments, "profile", "control-plane"),
        nodes=getattr(arguments, "nodes", 1),
        api_server_args=getattr(arguments, "api_server_arg", ()),
        settings=settings,
        reporter=reporter,
    )
    try:
        match arguments.command:
            case "up":
                cluster.up()
            case "down":
                cluster.down(purge=arguments.purge)
            case "kubeconfig":
                print(cluster.kubeconfig)
            case "status":
                for each in cluster.status():
                    print(each)
    except ClusterError as error:
        print(f"di-cluster: {error}", file=sys.stderr)
        return 1
    return 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="di-cluster", description=__doc__)
    commands = parser.add_subparsers(dest="command", required=True)
    common = argparse.ArgumentParser(add_help=False)
    common.add_argument("--name", default="default")
    up = commands.add_parser("up", parents=[common])
    up.add_argument("--profile", choices=["control-plane", "node"], default="node")
    up.add_argument("--nodes", type=int, default=1)
    up.add_argument("--api-server-arg", action="append", default=[])
    down = commands.add_parser("down", parents=[common])
    down.add_argument("--purge", action="store_true")
    commands.add_parser("kubeconfig", parents=[common])
    commands.add_parser("status", parents=[common])
    return parser


if __name__ == "__main__":
    sys.exit(main())
