"""The digits that come with the package, and that a model learns them."""

from __future__ import annotations

import gzip
import hashlib
from importlib.resources import files

import numpy as np
import pytest

from aspecthook import HookOptionError
from aspecthook.training.data import load_digits

DATA = files("aspecthook.training") / "data"


def test_the_digits_match_their_description() -> None:
    packed, text = (DATA / "digits.csv.gz").read_bytes(), (DATA / "digits.txt").read_text()
    assert len(packed) < 200_000
    for content in (packed, gzip.decompress(packed)):
        assert hashlib.sha256(content).hexdigest() in text
    for said in ("Alpaydin", "Kaynak", "UCI", "CC BY 4.0", "https://doi.org/10.24432/C50P49", "scikit-learn"):
        assert said in text


def test_the_digits_are_those_of_the_test_set_of_uci() -> None:
    """UCI tells how many there are of each."""
    (images, labels), (_, other_labels) = load_digits("train"), load_digits("test")
    counts = np.bincount(np.concatenate([labels, other_labels]))
    assert counts.tolist() == [178, 182, 177, 183, 181, 182, 181, 179, 174, 180]
    assert set(np.unique(images * 16).tolist()) == set(range(17))


def test_the_parts_are_stratified() -> None:
    (images, labels), (others, other_labels) = load_digits("train"), load_digits("test")
    assert images.shape == (1442, 8, 8) and others.shape == (355, 8, 8)
    assert images.dtype == np.float32 and labels.dtype == np.int64 and labels.shape == (1442,)
    share = np.bincount(other_labels) / (np.bincount(labels) + np.bincount(other_labels))
    assert share.min() > 0.19 and share.max() <= 0.2


def test_the_split_is_fixed() -> None:
    """Were it another one, no accuracy could be compared with one of last year."""
    images, labels = load_digits("test")
    assert (labels[:12].tolist(), hashlib.sha256(images.tobytes()).hexdigest()[:16]) == SPLIT
    images[:] = 0
    assert load_digits("test")[0].any(), "each call gives arrays of its own"


SPLIT = ([2, 7, 0, 8, 0, 5, 8, 9, 5, 1, 2, 2], "9757a541bb14d01e")


def test_an_unknown_split_is_refused() -> None:
    with pytest.raises(HookOptionError, match="'train' or 'test'"):
        load_digits("val")  # type: ignore[arg-type]
