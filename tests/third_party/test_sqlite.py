"""sqlite3 and SQLAlchemy woven: statements seen, timed and changed, on databases in memory and in files."""

from __future__ import annotations

import sqlite3
import sqlite3.dump
import sys
from collections.abc import Iterator
from pathlib import Path
from time import perf_counter
from typing import Any

import pytest

from aspecthook import Args, Return, WeaveError, hooks, weave

from .snapshot import Snapshot, no_trace_left

# sqlite3


class Ledger(sqlite3.Connection):
    """The class that `sqlite3.Connection` itself, a C type, is woven by."""


@pytest.fixture
def ledger() -> Iterator[sqlite3.Connection]:
    connection = sqlite3.connect(":memory:", factory=Ledger)
    try:
        connection.execute("create table tea (name text, price integer)")
        yield connection
    finally:
        connection.close()


def test_connect_is_seen_under_every_name_that_modules_have_for_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # `inspect.signature` puts this into the modules of C functions, as it reads their defaults; it must not stay.
    monkeypatch.delitem(vars(sys.modules["_sqlite3"]), "__builtins__", raising=False)
    paths: list[object] = []
    early = sqlite3.dbapi2.connect
    with no_trace_left("sqlite3", "_sqlite3"):
        with weave("sqlite3:connect", pre=lambda args: paths.append(args[0])) as weaving:
            assert sqlite3.connect is sqlite3.dbapi2.connect
            assert hooks(sqlite3.dbapi2.connect) is weaving.mounts[0]
            for connect in (sqlite3.connect, sqlite3.dbapi2.connect):
                connect(tmp_path / "tea.db").close()
        assert sqlite3.connect is early
        sqlite3.connect(":memory:").close()
    assert paths == [tmp_path / "tea.db"] * 2


def test_a_post_hook_prepares_every_connection() -> None:
    def rows(result: sqlite3.Connection) -> None:
        result.row_factory = sqlite3.Row

    with no_trace_left("sqlite3", "_sqlite3"):
        with weave("sqlite3:connect", post=rows):
            connection = sqlite3.connect(":memory:")
        try:
            assert connection.execute("select 1 as one").fetchone()["one"] == 1
        finally:
            connection.close()


def test_methods_of_the_immutable_connection_are_refused_and_a_subclass_is_named() -> None:
    with no_trace_left("sqlite3", "_sqlite3"), pytest.raises(WeaveError, match="immutable.* weave a subclass of Conn"):
        weave("sqlite3:Connection.execute", pre=lambda: None)


def test_statements_are_seen_and_timed_on_a_subclass(ledger: sqlite3.Connection) -> None:
    timed: list[tuple[str, float]] = []

    def time(args: tuple[Any, ...]) -> Iterator[None]:
        start = perf_counter()
        yield
        timed.append((args[1], perf_counter() - start))

    with no_trace_left(__name__, "sqlite3"):
        with weave(f"{__name__}:Ledger.execute", around=time):
            ledger.execute("insert into tea values (?, ?)", ("green", 3))
            assert ledger.execute("select price from tea").fetchall() == [(3,)]
        ledger.execute("select 1")
        assert "execute" not in vars(Ledger)  # inherited again
    assert [statement for statement, _ in timed] == ["insert into tea values (?, ?)", "select price from tea"]
    assert all(seconds >= 0 for _, seconds in timed)


def test_an_exception_hook_answers_for_a_statement_that_fails(ledger: sqlite3.Connection) -> None:
    with no_trace_left(__name__, "sqlite3"):
        with weave(f"{__name__}:Ledger.execute", exception={sqlite3.OperationalError: lambda: Return(None)}):
            assert ledger.execute("select * from coffee") is None
            with pytest.raises(sqlite3.ProgrammingError):
                ledger.execute("select ?", ())
        with pytest.raises(sqlite3.OperationalError, match="no such table"):
            ledger.execute("select * from coffee")


def test_an_item_hook_redacts_what_a_dump_gives(ledger: sqlite3.Connection) -> None:
    ledger.execute("insert into tea values ('green', 3)")
    plain = list(ledger.iterdump())
    with no_trace_left("sqlite3"):
        # The method is C code, which looks the Python function up when it is called.
        with weave("sqlite3.dump:_iterdump", item=lambda item: item.replace("'green'", "'?'")):
            assert list(ledger.iterdump()) == [line.replace("'green'", "'?'") for line in plain]
        assert list(ledger.iterdump()) == plain
    assert any("'green'" in line for line in plain)


# SQLAlchemy


@pytest.fixture
def engine() -> Iterator[Any]:
    sqlalchemy = pytest.importorskip("sqlalchemy")
    engine = sqlalchemy.create_engine("sqlite://")
    try:
        use(engine)  # what SQLAlchemy loads and caches as it first runs is there before the snapshots
        yield engine
    finally:
        engine.dispose()


def use(engine: Any) -> list[str]:
    import sqlalchemy as sa

    table = sa.Table("tea", sa.MetaData(), sa.Column("name", sa.String), sa.Column("price", sa.Integer))
    with engine.begin() as connection:
        table.create(connection)
        connection.execute(table.insert(), [{"name": "green", "price": 3}, {"name": "black", "price": 2}])
        found = connection.execute(sa.select(table.c.name).where(table.c.price > 2)).scalars().all()
        table.drop(connection)
    return list(found)


def kinds(statements: list[str]) -> list[str]:
    return [statement.split()[0] for statement in statements if not statement.startswith("PRAGMA")]


def test_the_statements_of_sqlalchemy_are_seen_and_timed(engine: Any) -> None:
    seen: list[str] = []
    timed: list[float] = []

    def time() -> Iterator[None]:
        start = perf_counter()
        yield
        timed.append(perf_counter() - start)

    with no_trace_left("sqlalchemy"):
        with (
            weave("sqlalchemy.engine.default:DefaultDialect.do_execute", pre=lambda statement: seen.append(statement)),
            weave("sqlalchemy.engine.default:DefaultDialect.do_execute*", around=time),
            weave(
                "sqlalchemy.engine.default:DefaultDialect.do_executemany", pre=lambda parameters: seen.append("MANY")
            ),
        ):
            assert use(engine) == ["green"]
        use(engine)
    assert kinds(seen) == ["CREATE", "MANY", "SELECT", "DROP"]
    assert len(timed) == len(seen)
    assert all(seconds >= 0 for seconds in timed)


def test_statement_changed_by_a_pre_hook_is_run_by_sqlite(engine: Any) -> None:
    ran: list[str] = []
    with engine.connect() as connection:
        connection.connection.driver_connection.set_trace_callback(ran.append)
        with no_trace_left("sqlalchemy"):
            with weave(
                "sqlalchemy.engine.default:DefaultDialect.do_execute",
                pre=lambda statement: Args(statement=f"{statement} /* from here */"),
            ):
                connection.exec_driver_sql("select 1")
            connection.exec_driver_sql("select 2")
        connection.connection.driver_connection.set_trace_callback(None)
    # SQLAlchemy begins a transaction of its own; only what is asked for is of interest.
    assert [one for one in ran if one.startswith("select")] == ["select 1 /* from here */", "select 2"]


def test_hooks_on_the_dialect_of_sqlite_are_no_hooks_of_other_dialects(engine: Any) -> None:
    default = pytest.importorskip("sqlalchemy.engine.default").DefaultDialect
    dialect = type(engine.dialect)
    namespace = list(vars(dialect).items())
    seen: list[str] = []

    class Cursor:
        def execute(self, statement: str, parameters: object) -> None:
            ran.append(statement)

    ran: list[str] = []
    with no_trace_left("sqlalchemy"):
        target = f"{dialect.__module__}:{dialect.__qualname__}.do_execute"
        with weave(target, pre=lambda statement: seen.append(statement)):
            assert list(vars(dialect).items()) == namespace  # it inherits the method, and does so still
            use(engine)
            default().do_execute(Cursor(), "select 3", ())
    assert kinds(seen) == ["CREATE", "SELECT", "DROP"]
    assert ran == ["select 3"]


def test_a_session_of_the_orm_works_as_before_with_hooks_on_its_methods(engine: Any) -> None:
    orm = pytest.importorskip("sqlalchemy.orm")
    import sqlalchemy as sa

    class Base(orm.DeclarativeBase):
        pass

    table = type(
        "Tea",
        (Base,),
        {
            "__tablename__": "teas",
            "__module__": __name__,
            "name": orm.mapped_column(sa.String, primary_key=True),
        },
    )

    def work() -> list[str]:
        Base.metadata.create_all(engine)
        with orm.Session(engine) as session:
            session.add_all([table(name="green"), table(name="black")])
            session.commit()
            found = [one.name for one in session.scalars(sa.select(table).order_by(table.name))]
        Base.metadata.drop_all(engine)
        return found

    expected = work()
    flushed: list[int] = []
    before = Snapshot("sqlalchemy")
    with weave("sqlalchemy.orm.session:Session.flush", always=lambda: flushed.append(1)):
        assert work() == expected == ["black", "green"]
    assert flushed
    assert before.differences() == []
    Base.registry.dispose()
