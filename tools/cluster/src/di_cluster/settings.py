"""What the environment says, read once."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """Where things are kept and found.

    Attributes:
        cache: folder of binaries, images and clusters (`DI_ORCHESTRATOR_CACHE`, else
            `di-orchestrator` in `XDG_CACHE_HOME`, else `~/.cache/di-orchestrator`).
        assets: folder of ready-made binaries (`KUBEBUILDER_ASSETS`), looked into first.
        search_path: `PATH`.
        cluster: the variable `CLUSTER`; "current" means the current kubeconfig's cluster.
        kubeconfig: the current kubeconfig (first of `KUBECONFIG`, else `~/.kube/config`).
        host_address: for `CLUSTER=current`, the address of this machine as its pods see it
            (`DI_CLUSTER_HOST_ADDRESS`).
        owner: (uid, gid) who asked through sudo; kubeconfigs are given to them.
    """

    cache: Path
    assets: Path | None
    search_path: str
    cluster: str
    kubeconfig: Path
    host_address: str
    owner: tuple[int, int] | None

    @classmethod
    def from_environment(cls, environment: Mapping[str, str]) -> Settings:
        home = Path(environment.get("HOME") or os.path.expanduser("~"))
        caches = Path(environment.get("XDG_CACHE_HOME") or home / ".cache")
        assets = environment.get("KUBEBUILDER_ASSETS")
        uid, gid = environment.get("SUDO_UID", ""), environment.get("SUDO_GID", "")
        kubeconfig = environment.get("KUBECONFIG", "").split(os.pathsep)[0]
        return cls(
            cache=Path(environment.get("DI_ORCHESTRATOR_CACHE") or caches / "di-orchestrator"),
            assets=Path(assets) if assets else None,
            search_path=environment.get("PATH", os.defpath),
            cluster=environment.get("CLUSTER", ""),
            kubeconfig=Path(kubeconfig) if kubeconfig else home / ".kube" / "config",
            host_address=environment.get("DI_CLUSTER_HOST_ADDRESS", ""),
            owner=(int(uid), int(gid)) if uid.isdigit() and gid.isdigit() else None,
        )
