"""Settings of any service: variables, flags, defaults, one message for all mistakes."""

from __future__ import annotations

from typing import Any

import pytest
from marshmallow import fields, validate

from di_service.settings import (
    Address,
    AddressesField,
    AddressField,
    ObjectField,
    ReferenceField,
    Setting,
    SettingsError,
    name_field,
    read_settings,
    refuse_to_start,
)

SETTINGS = (
    Setting("bind", AddressField(load_default=Address(host="::", port=80)), "where to listen"),
    Setting("others", AddressesField(load_default=()), "where else"),
    Setting("owner", ReferenceField(load_default=None), "whose it is"),
    Setting("extra", ObjectField(load_default=dict), "100 % of the rest"),
    Setting("name", name_field(required=True), "how it is called"),
    Setting("count", fields.Integer(load_default=3, validate=validate.Range(1, 9)), "how many"),
)
HOME = Setting("home", fields.String(load_default=None), "where it lives")


def read(*argv: str, **environ: str) -> dict[str, Any]:
    return read_settings(
        SETTINGS,
        program="thing",
        about="Does things.",
        prefix="DI_THING_",
        argv=argv,
        environ={"DI_THING_NAME": "a", **environ},
        unprefixed=[HOME],
    )


def test_missing_and_empty_variables_have_their_defaults() -> None:
    assert read(DI_THING_COUNT="", COUNT="4", PATH="/bin") == {
        "bind": Address(host="::", port=80),
        "others": (),
        "owner": None,
        "extra": {},
        "name": "a",
        "count": 3,
        "home": None,
    }


def test_values_are_read_by_type_and_flags_override_variables() -> None:
    values = read(
        *("--count", "5", "--bind", "[::1]:9"),
        DI_THING_COUNT="4",
        DI_THING_OTHERS="a:1, b:2",
        DI_THING_OWNER="ns/x",
        DI_THING_EXTRA='{"a": []}',
        HOME="/home",
    )
    assert (values["count"], str(values["bind"])) == (5, "[::1]:9")
    assert [str(each) for each in values["others"]] == ["a:1", "b:2"]
    assert (values["owner"], values["extra"], values["home"]) == (("ns", "x"), {"a": []}, "/home")


@pytest.mark.parametrize(
    ("variable", "value"),
    [
        ("BIND", "80"),
        ("BIND", ":80"),
        ("BIND", "host:"),
        ("BIND", "host:65536"),
        ("BIND", "host:٣"),
        ("OTHERS", "a:1,,b:2"),
        ("OWNER", "x"),
        ("OWNER", "a/b/c"),
        ("EXTRA", "[1]"),
        ("EXTRA", "[" * 100_000),
        ("NAME", "../etc"),
        ("NAME", ""),
        ("COUNT", "10"),
        ("COUNT", "many"),
    ],
)
def test_a_bad_value_is_refused_by_the_name_of_its_variable(variable: str, value: str) -> None:
    with pytest.raises(SettingsError, match=f"^DI_THING_{variable}="):
        read(**{f"DI_THING_{variable}": value})


def test_all_mistakes_are_named_at_once() -> None:
    with pytest.raises(SettingsError, match=r"DI_THING_BIND='x'.*; DI_THING_COUNT='0'"):
        read(DI_THING_BIND="x", DI_THING_COUNT="0")


def test_help_names_the_variable_and_the_default(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        read("--help")
    assert ended.value.code == 0
    said = " ".join(capsys.readouterr().out.split())
    assert "--bind TEXT where to listen; default: [::]:80 [DI_THING_BIND]" in said
    assert "--owner TEXT whose it is [DI_THING_OWNER]" in said
    assert "100 % of the rest [DI_THING_EXTRA]" in said
    assert "--home TEXT where it lives [HOME]" in said


def test_a_service_that_cannot_start_prints_why_and_exits_with_2(
    capsys: pytest.CaptureFixture[str],
) -> None:
    with pytest.raises(SystemExit) as ended:
        refuse_to_start("thing", SettingsError("DI_THING_COUNT='0': too few"))
    assert ended.value.code == 2
    assert capsys.readouterr().err == "thing: DI_THING_COUNT='0': too few\n"
