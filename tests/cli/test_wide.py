"""Programs that nobody here wrote, traced while they do their work: they do it as ever, and their calls are seen."""

from __future__ import annotations

import json
import re
import signal
import subprocess
import sys
import time
import zipfile
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from urllib.error import HTTPError, URLError
from urllib.request import urlopen

import pytest

from aspecthook.record import Tape, read

from .conftest import Run, environment

pytestmark = pytest.mark.wide


@contextmanager
def serving(folder: Path, *words: str, ready: str) -> Iterator[tuple[str, Callable[..., Tape]]]:
    """Run a server under `aspecthook trace`; yield its address, and what ends it and returns what was recorded.

    It is ended once so many calls of a function were shown: a call may end after its answer has come.
    """
    said = folder / "said.txt"
    command = [sys.executable, "-m", "aspecthook", "trace", "-o", "calls.jsonl", "--lines", "0", *words]
    with said.open("w") as output:
        process = subprocess.Popen(
            command, cwd=folder, env=environment({"PYTHONUNBUFFERED": "1"}), stdout=output, stderr=output
        )

    def end(function: str = "", count: int = 0) -> Tape:
        while said.read_text().count(f"{function}(") < count:
            time.sleep(0.02)
        process.send_signal(signal.SIGTERM)
        process.wait(60)
        return read(folder / "calls.jsonl")

    try:
        while (match := re.search(ready, said.read_text())) is None:
            if process.poll() is not None:
                pytest.fail(said.read_text())
            time.sleep(0.02)
        yield f"http://127.0.0.1:{match[1]}", end
    finally:
        process.kill()
        process.wait()


def get(url: str) -> tuple[int, bytes]:
    for _ in range(200):
        try:
            with urlopen(url, timeout=30) as answer:
                return answer.status, answer.read()
        except HTTPError as error:
            with error:
                return error.code, error.read()
        except URLError:  # the worker that will answer has not started yet
            time.sleep(0.05)
    pytest.fail(f"{url} does not answer")


def test_http_server_answers_requests(tmp_path: Path) -> None:
    (tmp_path / "page.txt").write_text("tea")
    target = "http.server:SimpleHTTPRequestHandler.*"
    words = ("--lines", "50", target, "--", "-m", "http.server", "0", "--bind", "127.0.0.1")
    with serving(tmp_path, *words, ready=r"http://127.0.0.1:(\d+)") as (url, end):
        answers = [get(f"{url}/{name}") for name in ("page.txt", "none.txt", "page.txt")]
        tape = end("SimpleHTTPRequestHandler.do_GET", 3)
    assert [status for status, _ in answers] == [200, 404, 200] and answers[0][1] == b"tea"
    requests = tape.calls("SimpleHTTPRequestHandler.do_GET")
    assert len(requests) == 3 and len({call.thread for call in requests}) == 3
    assert [len(call.children) for call in requests] == [2, 1, 2]  # send_head, and copyfile where there is a file


def test_pip_looks_at_a_wheel(aspecthook: Run, tmp_path: Path) -> None:
    wheel = tmp_path / "tea-1.0-py3-none-any.whl"
    with zipfile.ZipFile(wheel, "w") as archive:
        archive.writestr("tea.py", "")
        archive.writestr("tea-1.0.dist-info/METADATA", "Metadata-Version: 2.1\nName: tea\nVersion: 1.0\n")
        archive.writestr("tea-1.0.dist-info/WHEEL", "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n")
        archive.writestr("tea-1.0.dist-info/RECORD", "")
    install = ("-m", "pip", "install", "--dry-run", "--no-index", "--no-deps", wheel)
    target = "pip._internal.operations.*:RequirementPreparer.*"
    done = aspecthook("trace", target, "-o", "calls.jsonl", "--", *install)
    assert done.returncode == 0, done.stderr
    assert "Would install tea-1.0" in done.stdout
    call = read(tmp_path / "calls.jsonl").find("RequirementPreparer.prepare_linked_requirement")
    assert call.ended and call.exc is None and "InstallRequirement" in call.shown_arguments()["req"]


def test_pytest_runs_a_suite(aspecthook: Run, python: Run, tmp_path: Path) -> None:
    (tmp_path / "shop.py").write_text("def price(item): return {'tea': 3.5}[item]\n")
    (tmp_path / "test_shop.py").write_text(
        "import pytest, warnings\nfrom shop import price\n"
        "def test_tea(): assert price('tea') == 3.5\n"
        "def test_milk(): assert price('milk') == 1\n"
    )
    flags = (
        "-p",
        "no:cacheprovider",
        "-p",
        "no:aspecthook",
        "-p",
        "no:asyncio",
        "-p",
        "no:aspectlib",
        "-W",
        "error",
        "-q",
        "test_shop.py",
    )
    alone = python("-m", "pytest", *flags)
    traced = aspecthook("trace", "shop:*", "--", "pytest", *flags)

    def timeless(text: str) -> str:
        return re.sub(r"in \d+\.\d+s", "", text)

    assert (traced.returncode, timeless(traced.stdout)) == (1, timeless(alone.stdout))
    assert "shop:price(item='milk') raised KeyError: 'milk'" in traced.stderr


def test_fastapi_under_uvicorn_answers_requests_at_once(tmp_path: Path) -> None:
    pytest.importorskip("fastapi")
    pytest.importorskip("uvicorn")
    (tmp_path / "shop.py").write_text("""
import asyncio
from fastapi import FastAPI

app = FastAPI()

async def price(item: int) -> int:
    await asyncio.sleep(0.01)
    return item * 2

@app.get("/{item}")
async def show(item: int) -> int:
    return await price(item)
""")
    words = ("shop:*", "--", "uvicorn", "shop:app", "--port", "0")
    with serving(tmp_path, *words, ready=r"running on http://127.0.0.1:(\d+)") as (url, end):
        with ThreadPoolExecutor(8) as pool:
            answers = [*pool.map(lambda item: get(f"{url}/{item}"), range(40))]
        tape = end()
    assert [json.loads(body) for _, body in answers] == [item * 2 for item in range(40)]
    calls = {call.shown_arguments()["item"]: call for call in tape.calls("shop:show")}
    assert len(calls) == 40
    for item, call in calls.items():  # each inside its own request, however they took turns
        (inner,) = call.children
        assert inner.shown_arguments() == {"item": item} and inner.shown_result() == str(int(item) * 2)


def test_uvicorn_traces_its_workers(tmp_path: Path) -> None:
    pytest.importorskip("uvicorn")
    (tmp_path / "shop.py").write_text("""
async def app(scope, receive, send):
    if scope["type"] == "http":
        await send({"type": "http.response.start", "status": 200, "headers": []})
        await send({"type": "http.response.body", "body": b"tea"})
""")
    words = ("shop:*", "--", "uvicorn", "shop:app", "--port", "0", "--workers", "2", "--lifespan", "off")
    with serving(tmp_path, *words, ready=r"running on http://127.0.0.1:(\d+)") as (url, end):
        assert get(url) == (200, b"tea")
        tape = end()
    (call,) = tape.calls("shop:app")
    assert call.ended and call.exc is None


def test_gunicorn_traces_its_workers(tmp_path: Path) -> None:
    pytest.importorskip("gunicorn")
    (tmp_path / "shop.py").write_text("def app(environ, start):\n    start('200 OK', [])\n    return [b'tea']\n")
    words = ("shop:*", "--", "gunicorn", "shop:app", "--bind", "127.0.0.1:0", "--workers", "2")
    with serving(tmp_path, *words, ready=r"Listening at: http://127.0.0.1:(\d+)") as (url, end):
        assert {get(url) for _ in range(5)} == {(200, b"tea")}
        tape = end()
    assert len(tape.calls("shop:app")) == 5


def test_the_workers_of_a_dask_cluster_are_traced(aspecthook: Run, tmp_path: Path) -> None:
    pytest.importorskip("distributed")
    (tmp_path / "shop.py").write_text("def price(n): return n * 2\n")
    (tmp_path / "app.py").write_text("""
from distributed import Client, LocalCluster
import shop

if __name__ == "__main__":
    with LocalCluster(n_workers=2, threads_per_worker=1, processes=True, dashboard_address=None) as cluster:
        with Client(cluster) as client:
            print(client.gather(client.map(shop.price, range(4))))
""")
    done = aspecthook("trace", "shop:*", "-o", "calls.jsonl", "--", "app.py")
    assert (done.returncode, done.stdout) == (0, "[0, 2, 4, 6]\n"), done.stderr
    calls = read(tmp_path / "calls.jsonl").calls("shop:price")
    assert sorted(call.shown_result() for call in calls) == ["0", "2", "4", "6"]
    assert all(call.ended for call in calls)


def test_django_answers_its_own_client(aspecthook: Run, tmp_path: Path) -> None:
    pytest.importorskip("django")
    (tmp_path / "views.py").write_text("""
from django.http import HttpResponse

def show(request, item):
    return HttpResponse(item.upper())
""")
    (tmp_path / "site_of_shop.py").write_text("""
import sys, types
import django
from django.conf import settings
from django.test import Client
from django.urls import path

settings.configure(ROOT_URLCONF="urls", ALLOWED_HOSTS=["*"], SECRET_KEY="none")
django.setup()
import views
sys.modules["urls"] = types.ModuleType("urls")
sys.modules["urls"].urlpatterns = [path("<item>", views.show)]
client = Client()
print([client.get(f"/{name}").content for name in ("tea", "milk")])
""")
    targets = ("views:*", "django.core.handlers.base:BaseHandler.get_response")
    done = aspecthook("trace", *targets, "-o", "calls.jsonl", "--", "site_of_shop.py")
    assert (done.returncode, done.stdout) == (0, "[b'TEA', b'MILK']\n"), done.stderr
    views = read(tmp_path / "calls.jsonl").calls("views:show")
    assert [call.shown_arguments()["item"] for call in views] == ["'tea'", "'milk'"]
    assert {call.parent.name for call in views if call.parent is not None} == {"BaseHandler.get_response"}


def test_a_session_of_sqlalchemy_shows_its_statements(aspecthook: Run, tmp_path: Path) -> None:
    pytest.importorskip("sqlalchemy")
    (tmp_path / "shop.py").write_text("""
from sqlalchemy import create_engine, select
from sqlalchemy.orm import DeclarativeBase, Mapped, Session, mapped_column

class Base(DeclarativeBase): ...

class Item(Base):
    __tablename__ = "items"
    name: Mapped[str] = mapped_column(primary_key=True)

engine = create_engine("sqlite://")
Base.metadata.create_all(engine)
with Session(engine) as session:
    session.add(Item(name="tea"))
    session.commit()
    print(session.scalars(select(Item.name)).all())
""")
    targets = ("sqlalchemy.engine.default:DefaultDialect.do_execute", "sqlalchemy.orm.session:Session.commit")
    done = aspecthook("trace", *targets, "-o", "calls.jsonl", "--", "shop.py")
    assert (done.returncode, done.stdout) == (0, "['tea']\n"), done.stderr
    tape = read(tmp_path / "calls.jsonl")
    insert = tape.find("Session.commit").children[0]
    assert "INSERT INTO items" in insert.shown_arguments()["statement"]
    assert "SELECT items.name" in tape.last.shown_arguments()["statement"]


@pytest.mark.torch
def test_each_rank_of_torchrun_is_traced(aspecthook: Run, tmp_path: Path) -> None:
    pytest.importorskip("torch")
    (tmp_path / "train.py").write_text("import os\n\ndef step(rank): return rank\n\nstep(int(os.environ['RANK']))\n")
    words = ("torchrun", "--standalone", "--nproc-per-node", 2, "train.py")
    done = aspecthook("trace", "__main__:step", "-o", "calls.jsonl", "--", *words)
    assert done.returncode == 0, done.stderr
    calls = read(tmp_path / "calls.jsonl").calls("step")
    assert sorted(call.arguments["rank"] for call in calls) == ["0", "1"]
    assert len({call.process for call in calls}) == 2
