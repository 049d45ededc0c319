"""The tests that Keras ships of its callbacks, run with ours; `upstream` says which of them are expected to fail."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

import pytest

# A wheel of Keras brings its tests; KERAS_TESTS names the folder of a checkout where it does not.
found = find_spec("keras")
if found is None or found.origin is None:
    pytest.skip("Keras is not installed", allow_module_level=True)
if find_spec("torch") is None:
    pytest.skip("PyTorch, Keras's back end here, is not installed", allow_module_level=True)
FOLDER = Path(os.environ.get("KERAS_TESTS") or Path(found.origin).parent / "src" / "callbacks")
LEFT_OUT = {
    "backup_and_restore_test.py": "ours saves runs of a Runner",
    "orbax_checkpoint_test.py": "we have no OrbaxCheckpoint",
    "remote_monitor_test.py": "we have no RemoteMonitor",
    "swap_ema_weights_test.py": "we have no SwapEMAWeights",
    "tensorboard_test.py": "it reads with TensorFlow what was written",
}
FILES = [str(path) for path in sorted(FOLDER.glob("*_test.py")) if path.name not in LEFT_OUT]
pytestmark = [pytest.mark.torch, pytest.mark.wide]


@pytest.mark.skipif(not FILES, reason=f"{FOLDER} has no tests; set KERAS_TESTS to keras/src/callbacks of a checkout")
def test_our_callbacks_pass_the_tests_of_keras(tmp_path: Path) -> None:
    root = Path(__file__).parents[3]
    plain = ["-c", os.devnull, "--rootdir", str(tmp_path), "-p", "no:cacheprovider", "-W", "ignore", "-q", "-rfEX"]
    ended = subprocess.run(
        [sys.executable, "-m", "pytest", "-p", "tests.training.keras.upstream", *plain, *FILES],
        cwd=tmp_path,
        env={
            **os.environ,
            "KERAS_BACKEND": "torch",
            "PYTHONPATH": f"{root}{os.pathsep}{os.environ.get('PYTHONPATH', '')}",
        },
        capture_output=True,
        text=True,
        check=False,
    )
    assert ended.returncode == 0, ended.stdout + ended.stderr
    passed = re.search(r"(\d+) passed", ended.stdout)
    assert passed and int(passed[1]) >= 30, ended.stdout
