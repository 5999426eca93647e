"""Templates that no API server takes as a pod, and odd ones that it does.

Each is what differs from a good template: in its metadata, its spec, and its first container.
"""

from __future__ import annotations

from types import MappingProxyType
from typing import Any, Final

from tests.unit.api.jobs import Job, template

REQUIRED: Final = "requiredDuringSchedulingIgnoredDuringExecution"
PREFERRED: Final = "preferredDuringSchedulingIgnoredDuringExecution"


def affine(**requirement: Any) -> Job:
    terms = {"nodeSelectorTerms": [{"matchExpressions": [requirement]}]}
    return {"spec": {"affinity": {"nodeAffinity": {REQUIRED: terms}}}}


def mounting(*mounts: Job) -> Job:
    volumes = [{"name": "data", "emptyDir": {}}]
    return {"spec": {"volumes": volumes}, "container": {"volumeMounts": list(mounts)}}


def resources(**fields: Any) -> Job:
    return {"container": {"resources": fields}}


def devices(*paths: str) -> Job:
    """A container with a block device of one volume at several paths."""
    volumes = [{"name": "data", "persistentVolumeClaim": {"claimName": "data"}}]
    found = [{"name": "data", "devicePath": path} for path in paths]
    return {"spec": {"volumes": volumes}, "container": {"volumeDevices": found}}


GPU: Final = "nvidia.com/gpu"
SPREAD: Final = MappingProxyType(
    {"maxSkew": 1, "topologyKey": "zone", "whenUnsatisfiable": "DoNotSchedule"}
)
BAD: Final = MappingProxyType[str, Job](
    {
        "label with at sign": {"metadata": {"labels": {"user": "alice@example.com"}}},
        "label of 64": {"metadata": {"labels": {"image": "a" * 64}}},
        "label key": {"metadata": {"labels": {"-bad": "x"}}},
        "label prefix": {"metadata": {"labels": {"Example.org/a": "x"}}},
        "two slashes": {"metadata": {"labels": {"example.org/a/b": "x"}}},
        "annotation key": {"metadata": {"annotations": {"a b": "x"}}},
        "selector key": {"spec": {"nodeSelector": {"gpu type": "a"}}},
        "selector value": {"spec": {"nodeSelector": {"gpu": "A100/80 GB"}}},
        "affinity value": affine(key="gpu", operator="In", values=["a b/c"]),
        "affinity key": affine(key="g p u", operator="Exists"),
        "affinity without values": affine(key="gpu", operator="In", values=[]),
        "affinity with values": affine(key="gpu", operator="Exists", values=["a"]),
        "affinity weight": {
            "spec": {"affinity": {"nodeAffinity": {PREFERRED: [{"weight": 0, "preference": {}}]}}}
        },
        "toleration": {"spec": {"tolerations": [{"key": "a", "operator": "Exists", "value": "x"}]}},
        "toleration key": {"spec": {"tolerations": [{"key": "a b", "operator": "Exists"}]}},
        "toleration without key": {"spec": {"tolerations": [{"operator": "Equal", "value": "x"}]}},
        "toleration value": {"spec": {"tolerations": [{"key": "a", "value": "x y"}]}},
        "toleration seconds": {
            "spec": {
                "tolerations": [{"key": "a", "operator": "Exists", "tolerationSeconds": 5}],
            }
        },
        "port name": {"container": {"ports": [{"name": "a" * 16, "containerPort": 80}]}},
        "port name of digits": {"container": {"ports": [{"name": "80", "containerPort": 80}]}},
        "port twice": {
            "container": {
                "ports": [{"name": "a", "containerPort": 80}, {"name": "a", "containerPort": 81}]
            }
        },
        "port number": {"container": {"ports": [{"containerPort": 70000}]}},
        "port zero": {"container": {"ports": [{"containerPort": 0}]}},
        "host port": {"container": {"ports": [{"containerPort": 80, "hostPort": 70000}]}},
        "mount without volume": mounting({"name": "nope", "mountPath": "/x"}),
        "mount without path": mounting({"name": "data", "mountPath": ""}),
        "mount twice": mounting(*[{"name": "data", "mountPath": "/x"}] * 2),
        "mount above": mounting({"name": "data", "mountPath": "/x", "subPath": "../a"}),
        "mount of both": mounting(
            {"name": "data", "mountPath": "/x", "subPath": "a", "subPathExpr": "b"}
        ),
        "variable without name": {"container": {"env": [{"name": "", "value": "x"}]}},
        "variable with equals": {"container": {"env": [{"name": "a=b", "value": "x"}]}},
        "variable of two sources": {
            "container": {
                "env": [
                    {
                        "name": "a",
                        "valueFrom": {
                            "fieldRef": {"fieldPath": "metadata.name"},
                            "configMapKeyRef": {"name": "a", "key": "b"},
                        },
                    }
                ]
            }
        },
        "variable of no source": {"container": {"env": [{"name": "a", "valueFrom": {}}]}},
        "variable of a value and a source": {
            "container": {
                "env": [
                    {
                        "name": "a",
                        "value": "x",
                        "valueFrom": {"fieldRef": {"fieldPath": "metadata.name"}},
                    }
                ]
            }
        },
        "no deadline": {"spec": {"activeDeadlineSeconds": 0}},
        "request without limit": resources(requests={GPU: 1}),
        "request below limit": resources(requests={GPU: 1}, limits={GPU: 2}),
        "half a device": resources(limits={GPU: "0.5"}),
        "no number of devices": resources(limits={GPU: "all"}),
        "resource name": resources(limits={"g p u/x": 1}),
        "claims without claim": resources(claims=[{"name": "gpu"}]),
        "two sources": {
            "spec": {"volumes": [{"name": "a", "emptyDir": {}, "hostPath": {"path": "/"}}]}
        },
        "volume name": {"spec": {"volumes": [{"name": "A_b", "emptyDir": {}}]}},
        "container name": {"container": {"name": "A_b"}},
        "containers of one name": {"spec": {"containers": [{"name": "a", "image": "b"}] * 2}},
        "init containers of one name": {
            "spec": {"initContainers": [{"name": "a", "image": "b"}] * 2}
        },
        "gate twice": {"spec": {"schedulingGates": [{"name": "example.org/a"}] * 2}},
        "pod's claim twice": {
            "spec": {"resourceClaims": [{"name": "gpu", "resourceClaimName": "gpu"}] * 2}
        },
        "container's claim twice": {
            "spec": {"resourceClaims": [{"name": "gpu", "resourceClaimName": "gpu"}]},
            "container": {"resources": {"claims": [{"name": "gpu"}] * 2}},
        },
        "spread twice": {"spec": {"topologySpreadConstraints": [{**SPREAD}] * 2}},
        "device twice": devices(*["/dev/a"] * 2),
        "device's volume twice": devices("/dev/a", "/dev/b"),
        "names twice": {"spec": {"initContainers": [{"name": "di-container", "image": "a"}]}},
        "probe without handler": {"container": {"livenessProbe": {"periodSeconds": 5}}},
        "probe of two handlers": {
            "container": {"readinessProbe": {"exec": {"command": ["a"]}, "tcpSocket": {"port": 80}}}
        },
        "probe with a negative period": {
            "container": {"startupProbe": {"tcpSocket": {"port": 80}, "periodSeconds": -1}}
        },
        "hook of two handlers": {
            "container": {
                "lifecycle": {"preStop": {"exec": {"command": ["a"]}, "sleep": {"seconds": 1}}}
            }
        },
        "hook without handler": {"container": {"lifecycle": {"preStop": {}}}},
    }
)
MEANINGLESS: Final = MappingProxyType[str, Job](
    {"negative grace": {"spec": {"terminationGracePeriodSeconds": -5}}}
)
"""What an API server takes against its own documentation, for pods of long ago."""
ODD: Final = MappingProxyType[str, Job](
    {
        "labels": {"metadata": {"labels": {"a": "", "example.org/A_b.c": "x.Y_z-1"}}},
        "annotation in capitals": {
            "metadata": {"annotations": {"Example.org/A": "any text @ all"}}
        },
        "selector": {"spec": {"nodeSelector": {"gpu.example.org/type": "A100-80GB"}}},
        "greater": affine(key="gpu", operator="Gt", values=["8"]),
        "exists": affine(key="gpu", operator="Exists"),
        "one of some": affine(key="gpu", operator="In", values=["A100", "H100"]),
        "tolerates all": {"spec": {"tolerations": [{"operator": "Exists"}]}},
        "toleration": {
            "spec": {
                "tolerations": [
                    {"key": "a", "value": "b", "effect": "NoExecute", "tolerationSeconds": 5},
                    {"key": "a", "operator": "Equal", "effect": "NoSchedule"},
                ]
            }
        },
        "ports without names": {
            "container": {"ports": [{"containerPort": 1}, {"containerPort": 2}]}
        },
        "port number twice": {"container": {"ports": [{"containerPort": 1}] * 2}},
        "host and pull secret twice": {
            "spec": {
                "hostAliases": [{"ip": "10.0.0.1", "hostnames": ["a"]}] * 2,
                "imagePullSecrets": [{"name": "a"}] * 2,
            }
        },
        "spread over two keys": {
            "spec": {
                "topologySpreadConstraints": [{**SPREAD}, {**SPREAD, "topologyKey": "host"}],
            }
        },
        "device": devices("/dev/a"),
        "port name": {"container": {"ports": [{"name": "a-1", "containerPort": 65535}]}},
        "mounts": mounting(
            {"name": "data", "mountPath": "/x", "subPath": "a..b/c"},
            {"name": "data", "mountPath": "/y"},
            {"name": "data", "mountPath": "/z", "subPathExpr": "$(HOSTNAME)"},
        ),
        "variables": {
            "container": {
                "env": [
                    {"name": "a.b-C_1", "value": ""},
                    {"name": "A", "valueFrom": {"fieldRef": {"fieldPath": "metadata.name"}}},
                    {"name": "A", "value": "twice"},
                ]
            }
        },
        "devices": resources(requests={GPU: "2"}, limits={GPU: 2}),
        "half of what Kubernetes counts": resources(
            requests={"a.kubernetes.io/b": "0.5"}, limits={"a.kubernetes.io/b": "0.5"}
        ),
        "shares of a node": resources(
            requests={"cpu": "0.5", "hugepages-2Mi": "2Mi"},
            limits={"hugepages-2Mi": "2Mi", "cpu": 1},
        ),
        "volume without source": {"spec": {"volumes": [{"name": "a"}]}},
        "probe": {
            "container": {
                "livenessProbe": {"tcpSocket": {"port": 80}, "initialDelaySeconds": 0},
                "lifecycle": {"preStop": {"sleep": {"seconds": 1}}},
            }
        },
        "no grace": {"spec": {"terminationGracePeriodSeconds": 0}},
    }
)


def of_case(case: Job) -> Job:
    """The template of a case."""
    found = template()
    found["metadata"] = case.get("metadata", {})
    found["spec"] |= case.get("spec", {})
    found["spec"]["containers"][0] |= case.get("container", {})
    return found
