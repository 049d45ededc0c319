"""What is redacted is in no output, and texts of values are short whatever the values are."""

from __future__ import annotations

import dataclasses
import itertools
import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from aspecthook import HookOptionError
from aspecthook._values import Redaction, Shortener
from aspecthook.record import read, record

FORMATS = (".jsonl", ".json")


class Refused(Exception):
    pass


@dataclasses.dataclass
class Account:
    user: str
    token: str


def login(user, token):
    return check(token) or Account(user, token)


def check(value, *more, **named):
    if more:
        raise Refused(f"not {value!r}: {more}", value)


def post(body, account, headers):
    return body


def relay(*parts):
    raise Refused(post("".join(parts), None, None))


def send(headers, body=None):
    return [headers, body, *headers.values()]


def run(secret, path):
    """Pass a secret on in every way, and return all that is written and shown of it."""
    texts = []
    live = path / "live.jsonl"
    options = {"redact": ("tok*", "Authorization")}
    with record(login, check, send, post, **options) as tape, record(login, check, send, post, to=live, **options):
        login("ann", secret)
        for call in (
            lambda: check(1, token=secret),
            lambda: check(secret, secret, token=secret),
            lambda: send({"Authorization": secret}, body=secret),
            lambda: send({"other": {"token": [secret]}}, body=[secret]),
            lambda: check(f"Bearer {secret}", token=secret),
            lambda: check(secret.encode(), token=secret),
            lambda: post(secret[::-1], Account("ann", secret[::-1]), [{"authorization": secret}]),
        ):
            try:
                call()
            except Refused:
                pass
    for suffix in FORMATS:
        tape.save(path / f"saved{suffix}")
        texts.append((path / f"saved{suffix}").read_text())
    again = read(live)
    texts += [live.read_text(), str(tape), str(again), repr(list(tape)), repr(list(again)), str(tape.functions())]
    texts += [json.dumps([call.shown_arguments() for call in tape]), str([call.shown_error() for call in tape])]
    return texts


# Long enough and odd enough to be found again: with quotes, escapes, letters of other scripts.
secrets = st.text(st.sampled_from("aZ9'\"\\\n\té😀-_/ "), min_size=4, max_size=200).map(lambda one: f"S3{one}cr3t")


@given(secret=secrets)
def test_a_secret_is_in_no_output(secret, tmp_path_factory):
    texts = run(secret, tmp_path_factory.mktemp("out"))
    forms = {secret, secret[::-1], repr(secret)[1:-1], ascii(secret)[1:-1], json.dumps(secret)[1:-1]}
    forms |= {repr(secret.encode())[2:-1], *(json.dumps(one)[1:-1] for one in forms)}
    # Nor the part of it that would be left of a text that is cut.
    forms |= {one[:12] for one in forms if len(one) > 12}
    for text, form in itertools.product(texts, forms):
        assert form not in text
    assert sum("<redacted>" in text for text in texts) >= 6


def test_redaction_by_a_predicate_on_name_and_value(tmp_path):
    with record(login, check, redact=lambda name, value: isinstance(value, str) and value.startswith("sk-")) as tape:
        login("sk-12345", "other")
        check("other", key="sk-12345")
    assert tape.find("login").arguments == {"user": "<redacted>", "token": "other"}
    assert tape.last.arguments == {"value": "other", "more": (), "named": {"key": "<redacted>"}}
    assert "sk-12345" not in str(tape)


def test_results_and_errors_are_redacted_by_these_names():
    with record(relay, post, redact="result") as tape, pytest.raises(Refused):
        relay("se", "cret")
    assert tape.find("relay").shown_error() == ("Refused", "<redacted>")  # before the result of `post` is asked for
    with record(login, check, redact=("result", "error")) as tape:
        login("ann", "1234567")
        with pytest.raises(Refused):
            check("one", "two")
    assert tape.find("login").result == "<redacted>"
    assert tape.calls("check")[-1].shown_error() == ("Refused", "<redacted>")
    assert str(tape.calls("check")[-1]).endswith("raised Refused: <redacted>")
    with record(check, redact="error") as tape, pytest.raises(Refused):
        check("one", "two")
    assert tape.last.shown_error() == ("Refused", "<redacted>")


@pytest.mark.parametrize("second", ["abcd-TOP", "bcd-TOP"])
def test_of_two_secrets_that_overlap_nothing_is_shown(second):
    with record(login, check, redact="token") as tape:
        login("ann", "abcd")
        login("ann", second)
        check("abcd-TOP")
    assert tape.last.shown_arguments()["value"] == "'<redacted>'"


@pytest.mark.parametrize("redact", [3, ("token", 3)])
def test_what_is_no_name_is_refused(redact):
    with pytest.raises(HookOptionError, match="redact=3: give names such as 'token', or a predicate"):
        record(login, redact=redact)


class Rude:
    def __repr__(self):
        raise RuntimeError("no")


class Loud(list):
    pass


@dataclasses.dataclass
class Box:
    items: list


looked = itertools.count()


class Item:
    def __repr__(self):
        next(looked)
        return "item"


@pytest.mark.parametrize(
    "value",
    [
        [Item()] * 1_000_000,
        Loud([Item()] * 1_000_000),
        tuple([Item()] * 1_000_000),
        dict.fromkeys(range(1_000_000), Item()),
        {Item() for _ in range(10_000)},
        Box([Item()] * 1_000_000),
        {"inner": [Box([Item()] * 1_000_000)]},
        "x" * 100_000_000,
        b"x" * 100_000_000,
        10**5_000,
        Rude(),
        [Rude()],
        Refused("x" * 100_000_000),
    ],
    ids=lambda value: type(value).__name__,
)
def test_no_text_is_made_of_what_is_huge_or_raises(value):
    first = next(looked)
    text = Shortener(Redaction(None)).text(value)
    assert 0 < len(text) < 500 and next(looked) - first < 50
