"""The wheel and the sdist: what is in them, and that the wheel works where nothing else is installed, each extra alone.

No network is needed. The environments are empty but for the wheel, which pip installs, and what it says that it
requires, which comes from the environment of the tests.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
import tarfile
import tomllib
import zipfile
from email import message_from_bytes
from email.message import Message
from importlib import metadata
from pathlib import Path

import pytest
from packaging.requirements import Requirement

import aspecthook
from tests.docs.page import blocks

pytest.importorskip("build")
pytest.importorskip("hatchling")
pytestmark = pytest.mark.wide

ROOT = Path(__file__).parents[1]


def run(*command: object, cwd: Path, ok: bool = True) -> subprocess.CompletedProcess[str]:
    """Run a command that cannot see the checkout."""
    env = {name: value for name, value in os.environ.items() if not name.startswith(("PYTHON", "PIP_", "COV_"))}
    words = [str(one) for one in command]
    done = subprocess.run(words, cwd=cwd, env=env, capture_output=True, text=True, check=False, timeout=240)
    assert (done.returncode == 0) is ok, done.stdout + done.stderr
    return done


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Build the sdist, and the wheel from what is in the sdist."""
    folder = tmp_path_factory.mktemp("dist")
    run(sys.executable, "-m", "build", "--no-isolation", "--outdir", folder, ROOT, cwd=folder)
    return folder


def metadata_of(wheel: Path) -> Message:
    with zipfile.ZipFile(wheel) as archive:
        (name,) = (one for one in archive.namelist() if one.endswith(".dist-info/METADATA"))
        return message_from_bytes(archive.read(name))


@pytest.fixture(scope="module")
def wheel(built: Path) -> Path:
    (found,) = built.glob("*.whl")
    return found


def required(wheel: Path, extra: str) -> set[str]:
    """Return the names of the distributions that the wheel requires here, with those that they require in turn."""
    rows = metadata_of(wheel).get_all("Requires-Dist", [])
    found = set[tuple[str, str]]()
    wanted = [(row, extra) for row in rows]
    while wanted:
        row, chosen = wanted.pop()
        requirement = Requirement(row)
        if requirement.marker is not None and not requirement.marker.evaluate({"extra": chosen}):
            continue
        for more in ("", *requirement.extras):
            if (requirement.name, more) not in found:
                found.add((requirement.name, more))
                # An extra may name others of its own distribution: `aspecthook[train]`.
                ours = requirement.name == "aspecthook"
                wanted += [(one, more) for one in (rows if ours else metadata.requires(requirement.name) or [])]
    return {name for name, _ in found} - {"aspecthook"}


def environment(wheel: Path, extra: str, folder: Path) -> Path:
    """Make an environment with the wheel and what it requires with an extra; return its folder of scripts."""
    folder.mkdir()
    run(sys.executable, "-m", "venv", "--without-pip", folder, cwd=folder)
    scripts = folder / ("Scripts" if os.name == "nt" else "bin")
    pip = (sys.executable, "-m", "pip", "--python", scripts / "python", "--disable-pip-version-check")
    run(*pip, "install", "--no-index", "--no-deps", wheel, cwd=folder)
    where = run(scripts / "python", "-c", "import sysconfig; print(sysconfig.get_path('purelib'))", cwd=folder)
    for name in required(wheel, extra):
        distribution = metadata.distribution(name)
        for file in distribution.files or ():
            if ".." not in file.parts:
                copy = Path(where.stdout.strip(), file)
                copy.parent.mkdir(parents=True, exist_ok=True)
                copy.symlink_to(Path(str(distribution.locate_file(file))).resolve())
    run(*pip, "check", cwd=folder)
    return scripts


def test_the_sdist_has_what_is_in_the_repository(built: Path) -> None:
    if not (ROOT / ".git").exists():
        pytest.skip("not a checkout")
    tracked = set(run("git", "-c", "safe.directory=*", "ls-files", cwd=ROOT).stdout.splitlines())
    (sdist,) = built.glob("*.tar.gz")
    with tarfile.open(sdist) as archive:
        packed = {one.name.partition("/")[2] for one in archive.getmembers()}
    assert tracked - packed == set()
    assert "PKG-INFO" in packed


def test_what_a_package_index_shows_has_links_that_lead_somewhere_from_there(wheel: Path) -> None:
    text = str(metadata_of(wheel).get_payload())
    assert text.startswith("# aspecthook\n")
    links = re.findall(r"\]\(([^)]+)\)", text)
    assert any("/raw/main/docs/" in link for link in links) and any("/blob/main/docs/" in link for link in links)
    assert [link for link in links if not link.startswith(("https://", "#"))] == []


def test_the_wheel_has_the_package_its_data_and_the_pytest_plugin_alone(wheel: Path) -> None:
    with zipfile.ZipFile(wheel) as archive:
        names = {one for one in archive.namelist() if ".dist-info/" not in one}
    sources = {
        str(path.relative_to(ROOT).as_posix())
        for path in (ROOT / "aspecthook").rglob("*")
        if path.is_file() and path.suffix != ".pyc"
    }
    assert names == {*sources, "_aspecthook_pytest.py"}
    # An eighth of a megabyte of data is what the package may bring: the digits that `aspecthook train` learns offline.
    data = {path: path.stat().st_size for path in (ROOT / "aspecthook").rglob("*") if path.suffix in (".gz", ".html")}
    assert sum(data.values()) < 2**17


def test_the_files_of_the_project_agree_on_its_version_and_address() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    citation = (ROOT / "CITATION.cff").read_text()
    source = project["urls"]["Source"]
    assert f"\nversion: {project['version']}\n" in citation and aspecthook.__version__ == project["version"]
    assert f"\nrepository-code: {source}\n" in citation and f"`{source}`" in (ROOT / "CONTRIBUTING.md").read_text()
    for name in ("pyproject.toml", "CHANGELOG.md"):
        found = re.findall(r"https://github\.com/[\w-]+/aspecthook\b", (ROOT / name).read_text())
        assert {*found} <= {source}
    assert [url for url in project["urls"].values() if not url.startswith(source)] == []


CORE = """
import sys
from importlib import import_module

import aspecthook

for name in "weave", "events", "plugins", "record", "aspects", "testing", "training":
    import_module(f"aspecthook.{name}")
for name in aspecthook.__all__:
    getattr(aspecthook, name)

from aspecthook import Return, weave

with weave("time:sleep", pre=lambda: Return(None)):  # a C function: a proxy of wrapt
    import time
    time.sleep(3600)

from aspecthook.aspects import limited, log, timed
from aspecthook.record import Tape

with Tape().record("shlex:quote") as tape, weave("shlex:quote", aspect=timed()):
    import shlex
    shlex.quote("my file")
assert len(tape) == 1
"""

PROGRAMS = {
    "": CORE,
    "testing": """
from aspecthook import hookable
from aspecthook.testing import HookMachine, Trace, assert_order, law, run_laws

@hookable
def price(qty: int) -> int:
    return qty

@price.pre
def look(qty): ...

assert_order(price, "look", "price")
run_laws(price, lambda trace: trace.ran("look"), args=(1,))

class Shop(HookMachine):
    def make(self):
        @hookable
        def ship(order: int) -> int:
            return order
        return ship

    @law
    def nothing_runs_twice(self, trace: Trace) -> bool:
        return len(set(trace.names)) == len(trace.names)
""",
    "train": """
import numpy as np

from aspecthook.training import LrUpdaterHook, ProgressHook, ReportHook, Runner
from aspecthook.training.numpy import SGD, Linear, mse

model = Linear(3, 1)
runner = Runner(model, optimizer=SGD(model.parameters(), lr=0.1), loss=mse, max_epochs=2, work_dir="run")
for hook in LrUpdaterHook("cosine", min_lr=0.0), ProgressHook(), ReportHook():
    runner.register_hook(hook)
runner.fit([(np.ones((4, 3)), np.ones((4, 1)))] * 5)
""",
    "tensorboard": """
import numpy as np

from aspecthook.training import Runner, TensorboardLoggerHook
from aspecthook.training.numpy import SGD, Linear, mse

model = Linear(3, 1)
runner = Runner(model, optimizer=SGD(model.parameters(), lr=0.1), loss=mse, max_epochs=1, work_dir="run")
runner.register_hook(TensorboardLoggerHook(1))
runner.fit([(np.ones((4, 3)), np.ones((4, 1)))] * 5)

from pathlib import Path

assert [one.name for one in Path("run/tf_logs").iterdir()]
""",
    "trace": "from aspecthook.cli import main; assert main(['doctor']) == 0",
    "otel": """
import shlex

from aspecthook import weave
from aspecthook.aspects import span

with weave("shlex:quote", aspect=span()):
    assert shlex.split(shlex.quote("my file")) == ["my file"]
""",
    "aspects": """
import asyncio

from aspecthook import weave
from aspecthook.aspects import cached, limited, retry, timeout

calls = []

def fetch(url: str) -> str:
    calls.append(url)
    if len(calls) < 3:
        raise ConnectionError(url)
    return url

async def ask(url: str) -> str:
    await asyncio.sleep(0)
    return url

for aspect in retry(attempts=3, wait=0), cached(), limited(1000):
    weave(fetch, aspect=aspect)
weave(ask, aspect=timeout(10))
weave(ask, aspect=limited(1000))
assert fetch("a") == fetch("a") == "a" and asyncio.run(ask("b")) == "b"
""",
    "torch": """
import torch

from aspecthook import weave
from aspecthook.torch import capture

model = torch.nn.Sequential(torch.nn.Linear(2, 2))
with weave(model, "0", post=lambda result: result * 0):
    assert not model(torch.ones(1, 2)).any()
""",
}

COMMANDS = {"train": ("train", "--epochs", "1"), "trace": ("trace", "shlex:quote", "--", "program.py")}


# The extras that are for those who work on the package itself.
OWN = {"bench", "dev", "dist", "docs", "mutants", "tests", "upstream"}


def test_every_extra_is_tested_alone(wheel: Path) -> None:
    assert {"", *metadata_of(wheel).get_all("Provides-Extra", [])} - OWN == PROGRAMS.keys()


@pytest.mark.parametrize("extra", PROGRAMS, ids=lambda extra: extra or "core")
def test_an_extra_needs_nothing_but_what_it_requires(extra: str, wheel: Path, tmp_path: Path) -> None:
    if extra == "torch":
        pytest.importorskip("torch")
    scripts = environment(wheel, extra, tmp_path / "env")
    readme = next(text for language, _, text in blocks(ROOT / "README.md") if language == "python")
    (tmp_path / "readme.py").write_text(readme)
    (tmp_path / "extra.py").write_text(PROGRAMS[extra])
    (tmp_path / "program.py").write_text("import shlex\nshlex.quote('a b')\n")
    for name in "readme.py", "extra.py":
        run(scripts / "python", "-W", "error", name, cwd=tmp_path)
    place = run(scripts / "python", "-c", "import aspecthook; print(aspecthook.__file__)", cwd=tmp_path)
    assert str(tmp_path) in place.stdout
    if extra in COMMANDS:
        run(scripts / "aspecthook", *COMMANDS[extra], cwd=tmp_path)
    for other in COMMANDS.keys() - {extra}:
        if required(wheel, other) - required(wheel, extra):
            refused = run(scripts / "aspecthook", *COMMANDS[other], cwd=tmp_path, ok=False)
            assert refused.returncode == 2 and refused.stdout == ""
            assert re.fullmatch(r"aspecthook.*: (\w+) is not installed: pip install \1\n", refused.stderr)
