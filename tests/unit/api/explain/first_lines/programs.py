"""Programs that fail: the line of their log that has the cause."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

from di_api.explain import Facts
from tests.unit.api.explain.cluster import POD, condition, failed, pod, seen, time
from tests.unit.api.explain.first_lines.case import Case

_OTHER: Final = "cartpole-learner-1"
_PODS: Final = (POD, _OTHER)
_TRACEBACK: Final = "Traceback (most recent call last):"
_TRAIN: Final = '  File "/app/train.py", line 12, in <module>'
_BUS: Final = "RuntimeError: DataLoader worker (pid 125) is killed by signal: Bus error. "
_TORCHRUN: Final = (
    "E1104 10:01:12.113000 7 torch/distributed/elastic/multiprocessing/api.py:882] failed "
    "(exitcode: 1) local_rank: 0 (pid: 12) of binary: /usr/local/bin/python",
    _TRACEBACK,
    '  File "/usr/local/bin/torchrun", line 8, in <module>',
    "    sys.exit(main())",
    "torch.distributed.elastic.multiprocessing.errors.ChildFailedError: ",
    "============================================================",
    "train.py FAILED",
    "------------------------------------------------------------",
    "Failures:",
    "  <NO_OTHER_FAILURES>",
    "------------------------------------------------------------",
    "Root Cause (first observed failure):",
    "[0]:",
    "  time      : 2026-03-01_10:01:12",
    "  host      : cartpole-learner-0.cartpole",
    "  rank      : 0 (local_rank: 0)",
    "  exitcode  : 1 (pid: 12)",
    "  error_file: <N/A>",
    "  traceback : To enable traceback see: https://pytorch.org/docs/stable/elastic/errors.html",
    "============================================================",
)


def ended(*lines: str, code: int = 1, reason: str = "Error", **container: Any) -> Facts:
    """A job that has failed, with the log of its pod."""
    told = f"1 pod failed, all 3 restarts are used; pod {POD} failed first: exit code {code}"
    over = failed(code, reason, **({"spec": {"containers": [container]}} if container else {}))
    return seen("Failed", "JobFailed", told, over, logs={POD: [*lines]} if lines else {})


def replaced(lines: Sequence[str], code: int = 1) -> Facts:
    """A job whose pod failed and was replaced: the operator's message has its last lines."""
    words = " / ".join(line.strip() for line in lines[-3:])
    told = f"restart 1 of 3; pod {POD} failed first: exit code {code}; its last lines: {words}"
    return seen("Restarting", "JobRestarting", told, pod())


def _looped(*lines: str) -> Facts:
    last = {"exitCode": 1, "reason": "Error"}
    back_off = ("CrashLoopBackOff", "back-off 5m0s restarting failed container=di-container")
    waits = pod(phase="Running", node="gpu-1", waiting=back_off, last=last, restarts=6)
    told = f"1 of 1 pod cannot run, {POD} first: container di-container ended with exit code 1"
    return seen("Running", "CrashLoopBackOff", told, waits, logs={POD: [*lines]})


_MODULE: Final = "ModuleNotFoundError: No module named 'torch'"
_RESOLVED: Final = "socket.gaierror: [Errno -2] Name or service not known"
_CONNECT: Final = "import socket; socket.create_connection(('learner-0.nowhere', 80))"


def _failed_together() -> Facts:
    """A group that runs again after both of its pods failed in one second."""
    words = "error_file: <N/A> / traceback : Signal 9 (SIGKILL) received ..."
    told = f"2 pods failed, restart 2 of 99; pod {_OTHER} failed first: exit code 1"
    before = condition("Restarting", value=False, message=f"{told}; its last lines: {words}", at=46)
    lost = [{"pod": each, "time": time(46), "exitCode": 1, "reason": "Error"} for each in _PODS]
    runs = [pod(each, phase="Running", node="gpu-1", ready=True) for each in _PODS]
    status = {"restarts": 2, "replicas": 2, "readyReplicas": 2, "failures": lost}
    return seen("Running", "", "", *runs, conditions=[before], status=status)


CASES: Final[Mapping[str, Case]] = {
    "module": Case(
        facts=ended(_TRACEBACK, '  File "<string>", line 1, in <module>', _MODULE), says=(_MODULE,)
    ),
    "module-and-the-pod-is-replaced": Case(
        facts=replaced([_TRACEBACK, '  File "<string>", line 1, in <module>', _MODULE]),
        says=(_MODULE,),
    ),
    "module-in-a-crash-loop": Case(facts=_looped(_TRACEBACK, _TRAIN, _MODULE), says=(_MODULE,)),
    "module-with-lines-after-it": Case(
        facts=ended(_TRACEBACK, _TRAIN, "    import torch", _MODULE, "", "wandb: waiting ..."),
        says=(_MODULE,),
    ),
    "name": Case(
        facts=ended(
            _TRACEBACK,
            '  File "<string>", line 1, in <module>',
            '  File "/usr/lib/python3.11/socket.py", line 827, in create_connection',
            "    for res in getaddrinfo(host, port, 0, SOCK_STREAM):",
            _RESOLVED,
            name="di-container",
            command=["python3", "-c", _CONNECT],
        ),
        says=("learner-0.nowhere", "could not be resolved", _RESOLVED),
    ),
    "name-in-the-message": Case(
        facts=ended(
            _TRACEBACK,
            _TRAIN,
            "requests.exceptions.ConnectionError: HTTPConnectionPool(host='hub.rl', port=80): Max "
            'retries exceeded with url: / (Caused by NameResolutionError("Failed to resolve '
            "'hub.rl' ([Errno -2] Name or service not known)\"))",
        ),
        says=("could not be resolved", "hub.rl"),
    ),
    "shared-memory": Case(
        facts=ended(
            "ERROR: Unexpected bus error encountered in worker. This might be caused by "
            "insufficient shared memory (shm).",
            _TRACEBACK,
            _TRAIN,
            _BUS,
            "",
            "The above exception was the direct cause of the following exception:",
            "",
            _TRACEBACK,
            _TRAIN,
            "RuntimeError: DataLoader worker (pid(s) 125) exited unexpectedly",
        ),
        says=("killed by signal: Bus error",),
        thread="https://github.com/pytorch/pytorch/issues/16979",
    ),
    "memory-of-a-gpu": Case(
        facts=ended(
            _TRACEBACK,
            _TRAIN,
            "torch.cuda.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB. GPU 0 "
            "has a total capacity of 79.25 GiB of which 960.00 KiB is free.",
        ),
        says=("torch.cuda.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB",),
        thread="https://github.com/huggingface/text-generation-inference/issues/1687",
    ),
    "old-driver": Case(
        facts=ended(
            "I1127 13:49:05.000000 17418 Util.cpp:166] commandline: --trainer_count=10",
            "F1127 13:49:06.743296 17418 hl_cuda_device.cc:565] Check failed: cudaSuccess == "
            "cudaStat (0 vs. 35) Cuda Error: CUDA driver version is insufficient for CUDA runtime "
            "version",
            "*** Check failure stack trace: ***",
            "    @     0x7f0b3c  google::LogMessage::Fail()",
            "    @     0x7f0b40  google::LogMessage::SendToLog()",
            code=134,
        ),
        says=("CUDA driver version is insufficient for CUDA runtime version",),
        thread="https://github.com/PaddlePaddle/Paddle/issues/14625",
    ),
    "segmentation-fault": Case(
        facts=ended(code=139),
        says=("exit code 139", "SIGSEGV"),
        thread="https://github.com/kubeflow/pipelines/issues/686",
    ),
    "killed-without-a-reason": Case(
        facts=ended("step 12", code=137),
        says=("exit code 137", "SIGKILL"),
    ),
    "torchrun": Case(
        facts=ended(
            _TRACEBACK,
            _TRAIN,
            "torch.distributed.DistBackendError: NCCL error in: ProcessGroupNCCL.cpp:1970, "
            "unhandled system error, NCCL version 2.20.5",
            *_TORCHRUN,
        ),
        says=("DistBackendError: NCCL error in: ProcessGroupNCCL.cpp:1970",),
        thread="https://github.com/pytorch/pytorch/issues/121209",
    ),
    "torchrun-without-the-child": Case(
        facts=ended(*_TORCHRUN), says=("ChildFailedError", "rank 0")
    ),
    "torchrun-of-a-killed-process": Case(
        facts=ended(*(line.replace("exitcode  : 1", "exitcode  : -9") for line in _TORCHRUN)),
        says=("ChildFailedError", "rank 0", "SIGKILL"),
    ),
    "torchrun-of-a-killed-process-before-a-restart": Case(
        facts=replaced(
            [
                "  exitcode  : -9 (pid: 12)",
                "  error_file: <N/A>",
                "  traceback : Signal 9 (SIGKILL) received by PID 12",
            ]
        ),
        says=("Signal 9 (SIGKILL) received by PID 12",),
        never=("traceback",),
    ),
    "two-pods-failed-in-one-second": Case(
        facts=_failed_together(),
        says=(f"the program of {_OTHER} failed", "exit code 1", "SIGKILL"),
        never=(POD,),
    ),
    "no-kernel": Case(
        facts=ended(
            _TRACEBACK,
            _TRAIN,
            "RuntimeError: CUDA error: no kernel image is available for execution on the device",
            "CUDA kernel errors might be asynchronously reported at some other API call, so the "
            "stacktrace below might be incorrect.",
            "For debugging consider passing CUDA_LAUNCH_BLOCKING=1.",
        ),
        says=("RuntimeError: CUDA error: no kernel image is available for execution",),
    ),
    "syntax": Case(
        facts=ended(
            '  File "/app/train.py", line 3',
            "    lr = = 1",
            "         ^",
            "SyntaxError: invalid syntax",
        ),
        says=("SyntaxError: invalid syntax",),
    ),
    "arguments": Case(
        facts=ended(
            "usage: train.py [-h] [--lr LR]",
            "train.py: error: unrecognized arguments: --learning-rate 0.1",
            code=2,
        ),
        says=("train.py: error: unrecognized arguments: --learning-rate 0.1",),
    ),
    "no-script": Case(
        facts=ended(
            "python3: can't open file '/app/train.py': [Errno 2] No such file or directory", code=2
        ),
        says=("can't open file '/app/train.py'",),
    ),
    "shell": Case(facts=ended("sh: 1: trian: not found", code=127), says=("trian: not found",)),
    "checkpoint-not-writable": Case(
        facts=ended(
            _TRACEBACK,
            _TRAIN,
            "PermissionError: [Errno 13] Permission denied: '/checkpoints/3.part'",
        ),
        says=("PermissionError: [Errno 13] Permission denied: '/checkpoints/3.part'",),
    ),
    "port-in-use": Case(
        facts=ended(
            _TRACEBACK,
            _TRAIN,
            "RuntimeError: The server socket has failed to listen on any local network address. "
            "port: 29500, useIpv6: false, code: -98, name: EADDRINUSE, message: address already in "
            "use",
        ),
        says=("port: 29500", "address already in use"),
    ),
    "value-in-a-chained-error": Case(
        facts=ended(
            _TRACEBACK,
            _TRAIN,
            "KeyError: 'reward'",
            "",
            "During handling of the above exception, another exception occurred:",
            "",
            _TRACEBACK,
            _TRAIN,
            "ValueError: bad batch",
        ),
        says=("ValueError: bad batch", "KeyError: 'reward'"),
    ),
    "exception-group": Case(
        facts=ended(
            "  + Exception Group Traceback (most recent call last):",
            '  |   File "/app/train.py", line 12, in <module>',
            "  | ExceptionGroup: unhandled errors in a TaskGroup (1 sub-exception)",
            "  +-+---------------- 1 ----------------",
            "    | Traceback (most recent call last):",
            '    |   File "/app/train.py", line 9, in collect',
            "    | ConnectionRefusedError: [Errno 111] Connect call failed ('10.0.0.7', 80)",
            "    +------------------------------------",
        ),
        says=("ConnectionRefusedError: [Errno 111]",),
    ),
    "go-panic": Case(
        facts=ended(
            "panic: runtime error: index out of range [3] with length 3",
            "",
            "goroutine 1 [running]:",
            "main.main()",
            "\t/app/main.go:7 +0x1d",
            "exit status 2",
            code=2,
        ),
        says=("panic: runtime error: index out of range [3] with length 3",),
    ),
    "nothing-in-the-log": Case(facts=ended(code=3), says=("exit code 3",)),
    "only-progress-in-the-log": Case(
        facts=ended("step 61", "step 62", code=3), says=("exit code 3",)
    ),
    "out-of-memory": Case(
        facts=ended(code=137, reason="OOMKilled"), says=("ran out of memory", POD)
    ),
}
