"""Whole libraries woven while they do a real job, the hooks taken off in random order beside other patchers."""

from __future__ import annotations

import io
import random
import sys
from collections.abc import Callable
from types import BuiltinFunctionType, FunctionType
from typing import Any, NamedTuple
from unittest import mock

import pytest
import wrapt

from aspecthook import WeaveError, Weaving, weave

from .snapshot import Snapshot


class Library(NamedTuple):
    """What is imported, whose functions are woven, and a job that gives the same each time."""

    imports: tuple[str, ...]
    packages: tuple[str, ...]
    job: Callable[[], object]


def click() -> object:
    import click
    from click.testing import CliRunner

    @click.group()
    def cli() -> None: ...

    @cli.command()
    @click.option("--times", default=2, type=click.IntRange(0, 5), help="how many")
    @click.argument("name")
    def greet(times: int, name: str) -> None:
        click.secho(f"hi {name} " * times, fg="red")

    calls = (["greet", "--times", "3", "ann"], ["greet", "--help"], ["greet", "--times", "9", "ann"], ["--help"])
    done = [CliRunner().invoke(cli, call) for call in calls]
    return [(one.exit_code, one.output) for one in done]


def pydantic() -> object:
    import pydantic

    class Tea(pydantic.BaseModel):
        name: str
        price: float = pydantic.Field(gt=0)

        @pydantic.field_validator("name")
        @classmethod
        def short(cls, value: str) -> str:
            return value.strip()

    try:
        Tea.model_validate({"name": 3, "price": -1})
    except pydantic.ValidationError as error:
        return error.error_count(), Tea(name=" green ", price="3").model_dump_json(), Tea.model_json_schema()


def attrs() -> object:
    import attrs

    @attrs.define(order=True)
    class Tea:
        name: str = attrs.field(validator=attrs.validators.instance_of(str))
        price: float = attrs.field(default=1.0, converter=float)
        tags: list[str] = attrs.field(factory=list)

    with pytest.raises(TypeError):
        Tea(3)  # type: ignore[arg-type]
    green = Tea("green", 3)
    return attrs.asdict(green), repr(attrs.evolve(green, tags=["x"])), Tea("black") < green, len(attrs.fields(Tea))


def sqlalchemy() -> object:
    import sqlalchemy as sa

    engine = sa.create_engine("sqlite://")
    table = sa.Table("tea", sa.MetaData(), sa.Column("name", sa.String), sa.Column("price", sa.Integer))
    try:
        with engine.begin() as connection:
            table.create(connection)
            connection.execute(table.insert(), [{"name": "green", "price": 3}, {"name": "black", "price": 2}])
            query = sa.select(table.c.name, sa.func.max(table.c.price)).group_by(table.c.name).order_by(table.c.name)
            return (
                str(query),
                [tuple(row) for row in connection.execute(query)],
                sa.inspect(connection).get_table_names(),
            )
    finally:
        engine.dispose()


def stdlib() -> object:
    import argparse
    import ast
    import base64
    import configparser
    import csv
    import difflib
    import fractions
    import statistics
    import textwrap

    parser = argparse.ArgumentParser(prog="tea", description="Tea.")
    parser.add_argument("--price", type=int, default=3)
    config = configparser.ConfigParser()
    config.read_string("[tea]\nname = green\nprice = ${name}")
    return (
        parser.parse_args(["--price", "4"]).price,
        parser.format_help(),
        list(csv.DictReader(io.StringIO("name,price\ngreen,3"))),
        dict(config["tea"]),
        ast.unparse(ast.parse("x = [y for y in z if y]")),
        textwrap.fill("green tea " * 20, 40),
        list(difflib.unified_diff(["green"], ["black"])),
        str(fractions.Fraction("1/3") + 1),
        statistics.quantiles([1, 2, 3, 4]),
        base64.b85encode(b"tea"),
    )


STDLIB = ("argparse", "ast", "base64", "configparser", "csv", "difflib", "fractions", "statistics", "textwrap")
LIBRARIES = {
    "click": Library(("click", "click.testing"), ("click",), click),
    "pydantic": Library(("pydantic",), ("pydantic",), pydantic),
    "attrs": Library(("attrs",), ("attr", "attrs"), attrs),
    "sqlalchemy": Library(("sqlalchemy",), ("sqlalchemy.engine", "sqlalchemy.pool", "sqlalchemy.util"), sqlalchemy),
    "stdlib": Library(STDLIB, STDLIB, stdlib),
}


@pytest.fixture(params=LIBRARIES)
def library(request: pytest.FixtureRequest) -> Library:
    found = LIBRARIES[request.param]
    for name in found.imports:
        pytest.importorskip(name)
    found.job()  # what it loads and caches as it first runs is there before the snapshot
    found.job()
    return found


def weave_all(library: Library, hook: Callable[[], None], *, deep: bool = False) -> list[Weaving]:
    """Weave every public function of a library, module by module; `deep` also what begins with an underscore."""
    made: list[Weaving] = []
    names = ["*", "_*", "*._*", "*.__*__", "_*.*"] if deep else ["*"]
    for package in library.packages:
        for module in sorted(sys.modules):
            if module == package or module.startswith(f"{package}."):
                for name in names:
                    try:
                        made.append(weave(f"{module}:{name}", pre=hook))
                    except WeaveError as error:  # it only passes on what other modules define
                        if "chooses nothing" not in str(error) and "immutable" not in str(error):
                            raise
    return made


def remove_all(weavings: list[Weaving], order: random.Random) -> None:
    order.shuffle(weavings)
    for weaving in weavings:
        weaving.remove()


@pytest.mark.parametrize("deep", [False, True])
def test_a_whole_library_works_with_hooks_on_and_is_as_it_was_when_they_are_off(library: Library, deep: bool) -> None:
    expected = library.job()
    calls: list[int] = []
    before = Snapshot(*library.packages)
    weavings = weave_all(library, lambda: calls.append(1), deep=deep)
    try:
        assert library.job() == expected
        assert before.looks() == []
        assert sum(len(weaving.hooks) for weaving in weavings) >= 20
    finally:
        remove_all(weavings, random.Random(1))
    assert calls
    assert before.differences() == []
    called = len(calls)
    assert library.job() == expected
    assert len(calls) == called, "hooks that were removed still run"


@pytest.mark.parametrize("seed", range(2))
def test_weavings_come_off_beside_mock_and_wrapt_in_any_order(library: Library, seed: int) -> None:
    """Each step weaves a part, or takes one off, or has somebody else's wrapper put on or taken off in the middle."""
    order = random.Random(seed)
    expected = library.job()
    before = Snapshot(*library.packages)
    spots = [
        (module, name)
        for module_name, module in before.modules.items()
        for name, value in before.spaces[module_name]
        if isinstance(value, (FunctionType, BuiltinFunctionType)) and not name.startswith("__")
    ]
    weavings = weave_all(library, lambda: None)
    upon: list[Weaving] = []  # woven on the wrappers of others, who put the original over them again
    patches: list[Callable[[], None]] = []
    try:
        for module, name in order.sample(spots, min(12, len(spots))):
            patches.append(order.choice([by_mock, by_wrapt])(module, name))
            if order.random() < 0.5:
                order.choice(weavings).remove()
            if order.random() < 0.5:
                upon.append(weave(f"{module.__name__}:{name}", post=lambda: None))
        assert library.job() == expected
    finally:
        # The wrappers of one name must come off as they went on, or they themselves leave each other behind.
        steps: list[Callable[[], None]] = [weaving.remove for weaving in weavings + upon]
        order.shuffle(steps)
        for undo in patches:
            steps.insert(order.randrange(len(steps) + 1), undo)
        for step in steps:
            step()
    assert {weaving.state for weaving in weavings} == {"removed"}
    assert {weaving.state for weaving in upon} <= {"removed", "displaced"}
    assert before.differences() == []
    assert library.job() == expected


def by_mock(module: Any, name: str) -> Callable[[], None]:
    patch = mock.patch.object(module, name, wraps=getattr(module, name))
    patch.start()
    return patch.stop


def by_wrapt(module: Any, name: str) -> Callable[[], None]:
    held = vars(module)[name]
    wrapt.wrap_function_wrapper(module, name, lambda wrapped, _, args, kwargs: wrapped(*args, **kwargs))
    return lambda: setattr(module, name, held)
