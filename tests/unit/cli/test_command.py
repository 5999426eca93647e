"""The command itself: its words, its errors, its exit codes, how soon it is there."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import threading
from contextlib import suppress
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import yaml
from rich.console import Console

from di_cli import main
from di_cli.access.kubeconfig import context_names, read_access
from di_cli.durations import read_duration
from di_cli.exit_codes import ExitCode
from di_cli.live.screen import show
from di_cli.session import open_session
from di_orchestrator import __version__
from tests.unit.cli.conftest import JOBS, Di, install, job

ROOT = Path(__file__).resolve().parents[3]


def test_every_command_has_one_line_of_help(di: Di) -> None:
    text = di("--help").out
    for name in main.COMMANDS:
        assert re.search(rf"^  {name} +[A-Z]", text, re.MULTILINE), name
        if name != "run":
            assert di(name, "--help").out.startswith(f"Usage: di {name}")


def test_the_help_lists_commands_in_groups_on_one_line_each(di: Di) -> None:
    lines = di("--help").lines
    titles = [line.removesuffix(":") for line in lines if re.fullmatch(r"[A-Z][A-Za-z, ]+:", line)]
    assert titles == ["Options", *main.SECTIONS]
    after = lines[lines.index(f"{titles[1]}:") :]
    shown = [found[1] for line in after if (found := re.match(r"  ([a-z-]+) +[A-Z]", line))]
    assert shown == list(main.COMMANDS)
    # A line that was too long would go on below, with blanks in place of a name.
    assert not [line for line in after if line.startswith("   ")]


def test_the_version_is_printed(di: Di) -> None:
    assert di("--version").out == f"di {__version__}\n"


@pytest.mark.proves("cli.md#versions")
def test_version_shows_the_services_the_api_and_kubernetes(di: Di) -> None:
    install(di)
    group = {"metadata": {}, "versions": [{"version": "v2alpha1"}, {"version": "v1alpha2"}]}
    di.world.put("/apis/diengine.opendilab.org", group)
    assert di("version").lines == [
        f"di          {__version__}",
        "services    operator 0.1.0, server 0.1.0, webhook 0.1.0",
        "DIJob       v2alpha1, v1alpha2",
        "Kubernetes  v1.33.0",
    ]
    assert json.loads(di("version", "-o", "json").out)["dijob"] == ["v2alpha1", "v1alpha2"]
    assert di("version", "--client").lines == [f"di          {__version__}"]


def test_version_shows_what_cannot_be_read_with_the_reason(di: Di) -> None:
    for namespace in ("", "namespaces/di-system/"):
        path = f"/apis/apps/v1/{namespace}deployments"
        di.world.refusals["GET", path] = {"code": 403, "message": "deployments is forbidden"}
    said = di("version")
    assert said.lines[1:3] == [
        "services    not known: deployments is forbidden",
        "DIJob       not installed",
    ]
    assert said.code == ExitCode.DONE


def test_version_without_a_cluster_shows_that_of_di_and_fails(
    di: Di, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    raw = yaml.safe_load(di.world.kubeconfig(tmp_path / "away").read_text())
    raw["clusters"][0]["cluster"]["server"] = "http://127.0.0.1:9"
    (tmp_path / "away").write_text(json.dumps(raw))
    monkeypatch.setenv("KUBECONFIG", str(tmp_path / "away"))
    said = di("version")
    assert said.lines[0] == f"di          {__version__}"
    assert said.code == ExitCode.UNAVAILABLE
    assert said.err.splitlines()[-1] == "  try: di version --client"
    monkeypatch.setenv("KUBECONFIG", str(tmp_path / "none"))
    said = di("version")
    assert said.lines == [f"di          {__version__}"]
    assert (said.code, "the kubeconfig cannot be used" in said.err) == (ExitCode.NOT_FOUND, True)


def test_a_usage_error_names_the_right_usage(di: Di) -> None:
    said = di("lst")
    assert said.code == ExitCode.USAGE
    assert "No such command 'lst'" in said.err
    assert said.err.splitlines()[-1] == "  try: di list"
    assert di("nothing").err.splitlines()[-1] == "  try: di --help"
    assert "Traceback" not in said.err
    missing = di("get")
    assert missing.err.splitlines() == ["error: Missing argument 'JOB...'.", "  try: di get --help"]


@pytest.mark.parametrize("before", [("-n", "team"), ("--namespace=team",)])
def test_the_namespace_may_stand_before_the_command(di: Di, before: tuple[str, ...]) -> None:
    di.world.put(f"{JOBS.replace('/rl/', '/team/')}/elsewhere", job("elsewhere", "Running"))
    di.job()
    assert "elsewhere" in di(*before, "list").out
    assert "elsewhere" not in di(*before, "list", "-n", "rl").out


def test_a_context_before_the_command_is_used(di: Di) -> None:
    assert "no context 'no-such'" in di("--context", "no-such", "list").err


def test_an_option_that_the_command_does_not_have_is_refused_before_it(di: Di) -> None:
    said = di("-n", "team", "run", "train.py")
    assert (said.code, said.err.splitlines()[0]) == (
        ExitCode.USAGE,
        "error: Invalid value: di run has no --namespace",
    )


@pytest.mark.parametrize(
    ("text", "seconds"),
    [("90", 90), ("0.5", 0.5), ("90s", 90), ("1m30s", 90), ("1.5h", 5400), ("2d", 172800)],
)
def test_a_duration_may_have_units(text: str, seconds: float) -> None:
    assert read_duration(text) == seconds


def test_a_wrong_duration_is_refused_with_the_right_forms(di: Di) -> None:
    di.job()
    for text in ("soon", "5 minutes", "-1", "1e3", ""):
        said = di("wait", "cartpole", f"--timeout={text}")
        assert said.code == ExitCode.USAGE
        assert "give seconds, or units such as 90s, 1m30s, 2h" in said.err


def test_wait_takes_a_duration_with_a_unit(di: Di) -> None:
    di.job()
    said = di("wait", "cartpole", "--timeout", "10ms")
    assert said.code == ExitCode.TIMED_OUT
    assert "is not phase=Succeeded after 0.01 s" in said.err


def test_an_internal_error_is_reported_in_three_lines(
    di: Di, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("di_cli.views.selection.row", lambda *_: 1 / 0)
    di.job()
    said = di("list")
    assert said.code == ExitCode.FAILED
    assert len(said.err.splitlines()) == 3
    assert said.err.startswith("error: a mistake of di itself: ZeroDivisionError")


def test_an_unreachable_api_server_is_reported(
    di: Di, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    raw = yaml.safe_load(di.world.kubeconfig(tmp_path / "away").read_text())
    raw["clusters"][0]["cluster"]["server"] = "http://127.0.0.1:9"
    (tmp_path / "away").write_text(json.dumps(raw))
    monkeypatch.setenv("KUBECONFIG", str(tmp_path / "away"))
    said = di("list")
    assert said.code == ExitCode.UNAVAILABLE
    assert said.err.startswith("error: DIJob rl: the API server does not answer")
    assert len(said.err.splitlines()) == 3


def test_an_unknown_context_is_reported_with_the_known_ones(di: Di) -> None:
    said = di("list", "--context", "prod")
    assert said.code == ExitCode.NOT_FOUND
    assert "no context 'prod'; contexts there: test" in said.err


@pytest.mark.parametrize("text", ["a: [", "- 1", "contexts: 3", "\x00"])
def test_a_broken_kubeconfig_is_reported(
    di: Di, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, text: str
) -> None:
    (tmp_path / "broken").write_text(text)
    monkeypatch.setenv("KUBECONFIG", str(tmp_path / "broken"))
    said = di("list")
    assert said.err.splitlines()[0] == "error: the kubeconfig cannot be used"
    assert str(tmp_path / "broken") in said.err
    assert context_names() == []


def test_kubeconfigs_are_merged_as_kubectl_does(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The first file with a name wins; paths are relative to their file."""
    first, second = tmp_path / "first", tmp_path / "second"
    for folder in (first, second):
        folder.mkdir()
        (folder / "token").write_text(f"{folder.name}\n")
    (first / "config").write_text(
        yaml.safe_dump(
            {
                "current-context": "one",
                "contexts": [{"name": "one", "context": {"cluster": "c", "user": "u"}}],
                "users": [{"name": "u", "user": {"tokenFile": "token"}}],
            }
        )
    )
    context = {"cluster": "c", "user": "u", "namespace": "rl"}
    (second / "config").write_text(
        yaml.safe_dump(
            {
                "current-context": "two",
                "clusters": [{"name": "c", "cluster": {"server": "https://example/"}}],
                "contexts": [{"name": name, "context": context} for name in ("one", "two")],
                "users": [{"name": "u", "user": {"tokenFile": "token"}}],
            }
        )
    )
    files = [str(first / "config"), str(tmp_path / "missing"), str(second / "config")]
    monkeypatch.setenv("KUBECONFIG", os.pathsep.join(files))
    found = read_access()
    assert (found.context, found.namespace) == ("one", "default")
    assert (found.config.server, found.config.authorization()) == (
        "https://example",
        "Bearer first",
    )
    assert read_access("two").namespace == "rl"
    assert context_names() == ["one", "two"]


def test_an_exec_plugin_gives_the_token(
    di: Di, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    credential = {
        "apiVersion": "client.authentication.k8s.io/v1",
        "kind": "ExecCredential",
        "status": {"token": "of-plug-in"},
    }
    plugin = {
        "apiVersion": credential["apiVersion"],
        "command": sys.executable,
        "args": ["-c", f"print({json.dumps(json.dumps(credential))})"],
        "interactiveMode": "Never",
    }
    raw = yaml.safe_load(di.world.kubeconfig(tmp_path / "exec").read_text())
    raw["users"][0]["user"] = {"exec": plugin}
    (tmp_path / "exec").write_text(yaml.safe_dump(raw))
    monkeypatch.setenv("KUBECONFIG", str(tmp_path / "exec"))
    assert read_access().config.authorization() == "Bearer of-plug-in"


_SLOW = ("kubernetes", "aiohttp", "marshmallow", "rich", "requests", "structlog", "numpy")
"""Each of these takes a tenth of a second or more, which a person would notice."""


def _imported(code: str, *arguments: str) -> set[str]:
    """The modules that a process has imported at its end."""
    code = f"{code}; print('imported', *sys.modules)"
    done = subprocess.run(
        [sys.executable, "-c", f"import sys, di_cli.main as m; {code}", *arguments],
        capture_output=True,
        text=True,
        check=True,
        timeout=60,
    )
    (line,) = (line for line in done.stdout.splitlines() if line.startswith("imported "))
    return set(line.split()[1:])


def test_no_command_imports_slow_packages() -> None:
    """Of all but `watch`, which draws, and before they do anything."""
    found = _imported("[m._command(name) for name in m.COMMANDS if name != 'watch']")
    assert not found.intersection(_SLOW)
    assert not [name for name in found if name.startswith(("di_operator", "di_local"))]


def test_the_list_of_commands_imports_none_of_them() -> None:
    found = _imported("m.run(['--help'])")
    commands = {f"di_cli.commands.{module}" for module, _ in main.COMMANDS.values()}
    assert not found & commands
    assert not found.intersection(("di_kube.sync", "di_api.explain", "yaml", *_SLOW))


@pytest.mark.parametrize("words", [["queue"], ["simulate", "-f", "cartpole"]])
def test_a_forecast_imports_the_allocator_only(di: Di, words: list[str]) -> None:
    """Not what the operator decides about pods, and not what makes them."""
    di.node("gpu-1", 8)
    di.job("waits", "Pending")
    found = _imported("m.run(sys.argv[1:])", *words)
    assert "di_operator.allocator.forecast.what_if" in found
    assert not found.intersection(_SLOW)
    decisions = ("lifecycle.observed.snapshot", "lifecycle.vocabulary.decision")
    others = (*decisions, "builders.metadata", "config")
    assert not found.intersection(f"di_operator.{name}" for name in others)


@pytest.mark.proves("cli.md#exit-codes/*")
def test_the_document_has_every_exit_code(di: Di) -> None:
    text = (ROOT / "docs/reference/cli.md").read_text()
    found = re.findall(r"^\| (\d+) \| (.+) \|$", text, re.MULTILINE)
    assert found == [(str(int(code)), code.meaning) for code in ExitCode]


def test_every_command_is_in_the_documents() -> None:
    text = (ROOT / "docs/reference/cli.md").read_text()
    for name in main.COMMANDS:
        assert f"$ di {name}" in text, name


def test_shells_complete_commands_jobs_and_contexts(
    di: Di, monkeypatch: pytest.MonkeyPatch
) -> None:
    di.job()
    di.job("pong")
    assert completed(monkeypatch, di.capture, "di lis") == ["list"]
    assert completed(monkeypatch, di.capture, "di get car") == ["cartpole"]
    assert completed(monkeypatch, di.capture, "di list --context te") == ["test"]
    di.world.refusals["GET", JOBS] = {"code": 403}
    assert completed(monkeypatch, di.capture, "di get car") == []


def completed(monkeypatch: pytest.MonkeyPatch, capture: Any, line: str) -> list[str]:
    """What bash is offered at the end of a line."""
    words = line.split()
    capture.readouterr()
    with monkeypatch.context() as patch, suppress(SystemExit):
        patch.setenv("_DI_COMPLETE", "complete_bash")
        patch.setenv("COMP_WORDS", line)
        patch.setenv("COMP_CWORD", str(len(words) - 1))
        patch.setattr("sys.argv", ["di"])
        main.main()
    found: list[str] = capture.readouterr().out.split()
    return found


@pytest.mark.proves("cli.md#inside-pods")
def test_kubectl_gets_the_pod_the_container_and_the_context(
    di: Di, monkeypatch: pytest.MonkeyPatch
) -> None:
    di.job()
    di.pod("cartpole", "learner", 0, 0, phase="Succeeded")
    di.pod("cartpole", "collector", 0, 1)
    di.pod("cartpole", "collector", 1, 2)
    became: list[Any] = []
    monkeypatch.setattr("shutil.which", lambda _: "/bin/kubectl")
    monkeypatch.setattr("os.execv", lambda *words: became.append(words))

    def child(words: list[str], **_: Any) -> Any:
        became.append((words[0], ["kubectl", *words[1:]]))
        return SimpleNamespace(returncode=0, stdout=b"")

    monkeypatch.setattr("di_cli.commands.kubectl.subprocess.run", child)
    common = ["kubectl", "--context", "test", "--namespace", "rl"]
    own = ["--container", "di-container"]
    di("exec", "cartpole", "--", "ls", "-l")
    di("exec", "cartpole", "-r", "2", "--", "ls", "-t", "x")
    di("attach", "cartpole", "-t", "collector")
    di("cp", "cartpole:/tmp/x", ".")
    di("port-forward", "cartpole", "8080:22270", "--rank", "2")
    assert became == [
        ("/bin/kubectl", [*common, *words])
        for words in (
            ["exec", "cartpole-collector-0", *own, "--", "ls", "-l"],
            ["exec", "cartpole-collector-1", *own, "--", "ls", "-t", "x"],
            ["attach", "cartpole-collector-0", *own],
            ["cp", "cartpole-collector-0:/tmp/x", "./x", *own],
            ["port-forward", "cartpole-collector-1", "8080:22270"],
        )
    ]
    assert di("exec", "cartpole", "-t", "learner").err.splitlines() == [
        "error: dijob/cartpole has no such pod that runs",
        "  cartpole-learner-0 is Succeeded",
        "  try: di describe cartpole",
    ]
    monkeypatch.setattr("shutil.which", lambda _: None)
    assert "kubectl is not on the PATH" in di("attach", "cartpole").err
    assert di("cp", "a", "b").code == ExitCode.USAGE


@pytest.mark.parametrize(
    ("told", "kubectls", "code"),
    [
        ("tar: /nope: Cannot stat: No such file or directory\n", 2, ExitCode.NOT_FOUND),
        ("tar: /nope: No such file or directory\n", 0, ExitCode.NOT_FOUND),
        ("tar: /x: Cannot open: Permission denied\n", 0, ExitCode.FAILED),
        ("error: nope doesn't exist in local filesystem\n", 1, ExitCode.NOT_FOUND),
        ('exec: "tar": executable file not found in $PATH\n', 126, ExitCode.FAILED),
        ("tar: write error: No space left on device\n", 2, ExitCode.FAILED),
        ("tar: Removing leading `/' from member names\n", 0, ExitCode.DONE),
    ],
)
def test_a_failed_copy_has_an_exit_code_of_di(
    di: Di, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, *, told: str, kubectls: int, code: int
) -> None:
    di.job()
    di.pod("cartpole", "learner", 0, 0)
    (tmp_path / "told").write_text(told)
    program = tmp_path / "kubectl"
    program.write_text(f"#!/bin/sh\n/bin/cat '{tmp_path}/told'\nexit {kubectls}\n")
    program.chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path))
    said = di("cp", "cartpole:/nope", str(tmp_path / "x"))
    assert said.code == code
    assert told.strip() in said.err


@pytest.mark.parametrize(
    ("last", "code"),
    [
        ("Removing leading `/' from member names\n", ExitCode.DONE),
        ("/x: Cannot open: Permission denied\n", ExitCode.FAILED),
        ("", ExitCode.FAILED),
    ],
)
def test_a_copy_whose_message_is_cut_off_is_made_again(
    di: Di, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, *, last: str, code: int
) -> None:
    di.job()
    di.pod("cartpole", "learner", 0, 0)
    (tmp_path / "last").write_text(last)
    program = tmp_path / "kubectl"
    program.write_text(
        f"#!/bin/sh\nprintf 'tar: '\ntest -e '{tmp_path}/again' && /bin/cat '{tmp_path}/last'\n"
        f": > '{tmp_path}/again'\n"
    )
    program.chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path))
    said = di("cp", "cartpole:/x", str(tmp_path / "x"))
    assert (said.code, f"tar: {last}" in said.err) == (code, True)


@pytest.mark.parametrize(
    ("words", "right"),
    [
        (["exec", "cartpole", "--", "ls"], "exec"),
        (["attach", "cartpole"], "attach"),
        (["cp", "cartpole:/x", "."], "exec"),
        (["port-forward", "cartpole", "8080"], "portforward"),
    ],
)
def test_without_the_right_kubectl_is_not_started(
    di: Di, monkeypatch: pytest.MonkeyPatch, words: list[str], right: str
) -> None:
    di.job()
    di.pod("cartpole", "learner", 0, 0)
    path = "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews"
    di.world.put(path, {"metadata": {}, "status": {"allowed": False, "reason": "no role"}})
    monkeypatch.setattr("os.execv", lambda *_: pytest.fail("kubectl was started"))
    said = di(*words)
    assert said.code == ExitCode.NOT_ALLOWED
    assert said.err.splitlines()[0] == (
        f"error: you are not allowed to create pods/{right} in namespace rl"
    )
    asked = [body["spec"]["resourceAttributes"] for method, _, body in di.world.requests if body]
    assert {each["subresource"] for each in asked} == {right}
    assert {each["verb"] for each in asked} == {"create", "get"}


def test_run_needs_the_package_di_local(di: Di, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("di_cli.commands.run.local.find_spec", lambda _: None)
    said = di("run", "job.yaml", "--help")
    assert said.err.splitlines() == [
        "error: di run needs the package di-local, which is not installed",
        "  try: pip install './sdk[local]' in a clone of the repository; with a cluster: di submit",
    ]
    words: list[Any] = []

    def local_main(argv: list[str]) -> int:
        words.append(argv)
        return 3

    local = SimpleNamespace(main=local_main, read_arguments=lambda _: None)
    monkeypatch.setattr("di_cli.commands.run.local.find_spec", lambda _: object())
    monkeypatch.setattr("di_cli.commands.run.local.import_module", lambda _: local)
    assert di("run", "job.yaml", "--learners", "2", "-f", "--", "--lr", "1").code == 3
    assert words == [["run", "job.yaml", "--learners", "2", "-f", "--", "--lr", "1"]]


def test_the_live_table_follows_a_job_until_it_has_ended(di: Di) -> None:
    di.job()
    console = Console(record=True, width=100, force_terminal=True)
    with open_session() as session:
        thread = threading.Thread(
            target=show,
            args=(session,),
            kwargs={"namespace": "rl", "name": "cartpole", "console": console},
        )
        thread.start()
        di.job(phase="Succeeded")
        thread.join(60)
    assert not thread.is_alive()
    shown = console.export_text()
    assert "Succeeded" in shown
    assert "▇▇▇▇▇▁▁▁  62%" in shown
