"""A content pipeline: what comes in goes through filters into a queue, and a worker takes it from there.

The documents are the paragraphs of the Markdown and text files of a folder. Filters unfold tables, take links out
and shorten. One of them fails at some documents, and they came in the wrong order. The hand-written version, a list
of filters and a loop, loses every document after the first failure, and lets halves of links through. Look for

- `@event(fold="text")`: each filter gets what the one before it has made of the text;
- `before=`, which puts `redact` before `shorten`, whichever came first;
- `errors="isolate"`: a filter that fails is logged and counted, and the text goes on without it;
- the pre hook, an input filter: it answers `Return(None)`, and nobody else sees the document;
- the queue, a real one: Redis if `redis` is installed and a server answers (at REDIS_URL, or on this machine), else
  SQLite. It may be killed at any moment and opened again: no document is lost, and none is done twice.

Run `python examples/content_pipeline.py` with aspecthook installed, with a folder of your own if you like.
"""

from __future__ import annotations

import argparse
import logging
import os
import re
import sqlite3
import sys
from collections import Counter
from collections.abc import Iterable, Sequence
from functools import partial
from math import inf
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from aspecthook import Return, event, hooks

DATA = Path(__file__).parent / "data"
LINK = re.compile(r"<https?://[^>]*>|(?<=\])\(https?://[^)]*\)")
HALF = re.compile(r"(<|\]\()https?://[^>)]*…$")
WIDTH = 140


def read(folder: Path) -> dict[str, str]:
    """Return the paragraphs and list items of all Markdown and text files."""
    documents: dict[str, str] = {}
    os.listdir(folder)  # a pattern finds nothing in a folder that is not there, and says nothing
    for path in sorted(path for end in ("md", "txt") for path in folder.rglob(f"*.{end}")):
        parts = re.split(r"\n\s*\n|\n(?=- )", path.read_text(encoding="utf-8", errors="replace").strip())
        documents |= {f"{path.relative_to(folder).as_posix()}#{n}": part for n, part in enumerate(parts, 1) if part}
    return documents


# The queues. What was put before is not put again; what a worker had claimed and not done, the next one is given.


class SqliteQueue:
    def __init__(self, path: str) -> None:
        self.db = sqlite3.connect(path, isolation_level=None)  # each statement is a transaction of its own
        try:
            self.db.execute("pragma journal_mode = wal")
            self.db.execute("pragma synchronous = normal")  # no kill loses anything; a power cut may, the newest
            self.db.execute("create table if not exists queue (key text primary key, text text, state text, words int)")
            self.db.execute("update queue set state = 'waiting' where state = 'claimed'")  # by a worker that is gone
        except sqlite3.Error:
            self.db.close()
            raise

    def put(self, key: str, text: str) -> None:
        self.db.execute("insert or ignore into queue values (?, ?, 'waiting', null)", (key, text))

    def claim(self) -> tuple[str, str] | None:
        with self.db:
            self.db.execute("begin immediate")
            select = "select key, text from queue where state = 'waiting' order by rowid limit 1"
            found: tuple[str, str] | None = self.db.execute(select).fetchone()
            if found:
                self.db.execute("update queue set state = 'claimed' where key = ?", found[:1])
        return found

    def done(self, key: str, words: int) -> None:
        self.db.execute("update queue set state = 'done', words = ? where key = ?", (words, key))

    def results(self) -> dict[str, int]:
        return dict(self.db.execute("select key, words from queue where state = 'done'"))

    def close(self, *, drop: bool = False) -> None:
        self.db.close()


class RedisQueue:
    PUT = "if redis.call('hsetnx', KEYS[1], ARGV[1], ARGV[2]) == 1 then redis.call('rpush', KEYS[2], ARGV[1]) end"

    def __init__(self, url: str, name: str) -> None:
        import redis

        self.db: Any = redis.Redis.from_url(url, decode_responses=True, socket_connect_timeout=1)
        self.texts, self.waiting, self.claimed, self.words = (f"{name}:{one}" for one in ("text", "new", "now", "done"))
        while self.db.lmove(self.claimed, self.waiting, "RIGHT", "LEFT"):  # by a worker that is gone
            pass

    def put(self, key: str, text: str) -> None:
        self.db.eval(self.PUT, 2, self.texts, self.waiting, key, text)

    def claim(self) -> tuple[str, str] | None:
        key = self.db.lmove(self.waiting, self.claimed, "LEFT", "RIGHT")
        return key and (key, self.db.hget(self.texts, key))

    def done(self, key: str, words: int) -> None:
        self.db.pipeline().hset(self.words, key, words).lrem(self.claimed, 0, key).execute()  # one transaction

    def results(self) -> dict[str, int]:
        return {key: int(words) for key, words in self.db.hgetall(self.words).items()}

    def close(self, *, drop: bool = False) -> None:
        if drop:
            self.db.delete(self.texts, self.waiting, self.claimed, self.words)
        self.db.close()


# The filters, the same for both versions, and in the order in which they came.


def shorten(text: str) -> str | None:
    return text[:WIDTH] + "…" if len(text) > WIDTH else None


def unfold(text: str) -> str | None:
    rows = [line.strip("| ").split("|") for line in text.splitlines()] if text.startswith("|") else []
    return "; ".join(f"{name.strip()}: {meaning.strip()}" for name, meaning in rows[2:]) or None  # only two columns!


def redact(text: str) -> str | None:
    return LINK.sub("(link)", text)


def show_halves(texts: Iterable[str]) -> None:
    halves = [found[0] for text in texts if (found := HALF.search(text))]
    print("  halves of links that came through:", ", ".join(halves) or "none")


# By hand: a list and a loop.


def filtered(text: str) -> str:
    for filter in (shorten, unfold, redact):
        text = filter(text) or text
    return text


def by_hand(documents: dict[str, str]) -> None:
    passed: list[str] = []
    try:
        for text in documents.values():
            passed.append(filtered(text))  # noqa: PERF401 (how far it came is what is shown)
    except Exception as error:
        key, lost = list(documents)[len(passed)], len(documents) - len(passed)
        print(f"  stopped at {key}, {error!r}\n  {lost} of {len(documents)} documents never come to the queue")
    show_halves(passed)


# With an event.


@event(fold="text", errors="isolate")
def received(text: str) -> None:
    """A document has come in; an answer takes its place."""


def too_short(text: str) -> Return[None] | None:
    return Return(None) if len(text.split()) < 3 else None


def with_an_event(documents: dict[str, str], queue: Any) -> set[str]:
    """Put what comes through into the queue, and give the keys."""
    passed, failed = dict[str, str](), list[str]()

    def note(record: logging.LogRecord) -> bool:
        failed.append(repr(record.exc_info and record.exc_info[1]))
        return False  # it is not shown

    logging.getLogger("aspecthook").addFilter(note)
    received.pre(too_short)
    received.on(shorten)
    received.on(unfold, priority="HIGH")
    received.on(redact, before="shorten")
    try:
        for key, text in documents.items():
            if (made := received(text)) is not None:
                passed[key] = made
                queue.put(key, made)
    finally:
        hooks(received).clear()
        logging.getLogger("aspecthook").removeFilter(note)
    print(f"  refused as too short: {len(documents) - len(passed)}, put into the queue: {len(passed)}")
    print(f"  went on although a filter failed: {len(failed)}", *sorted(set(failed)), sep="\n    ")
    show_halves(passed.values())
    return set(passed)


def work(queue: Any, most: float = inf) -> None:
    """Take documents out of the queue, and count their words."""
    while most > 0 and (claimed := queue.claim()):
        key, text = claimed
        queue.done(key, len(text.split()))
        most -= 1


def opener(where: str | None, folder: str) -> partial[Any]:
    """Return how to open a queue that can be opened."""
    url = where or os.environ.get("REDIS_URL", "redis://localhost")
    found = partial(RedisQueue, url, "aspecthook" if where else f"aspecthook-{os.getpid()}")
    if where and "://" not in where:
        found = partial(SqliteQueue, where)
    try:
        found().close()
    except Exception:
        if where:
            raise
        return partial(SqliteQueue, str(Path(folder, "queue.db")))  # no Redis: not installed, not there, too old
    return found


def run(documents: dict[str, str], opened: partial[Any], *, drop: bool) -> None:
    queue = opened()
    keys = with_an_event(documents, queue)
    work(queue, len(keys) // 2)
    print(f"  done: {len(queue.results())}; now the worker takes one more, and is gone")
    queue.claim()
    queue.close()
    queue = opened()
    work(queue)
    results, words = queue.results(), Counter[str]()
    for key, count in results.items():
        words[key.rpartition("#")[0]] += count
    print(f"  opened again, and done: {len(results)}; was every document? {keys <= results.keys()}")
    print("  words:", ", ".join(f"{name} {count}" for name, count in sorted(words.items())))
    queue.close(drop=drop)


def main(argv: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description="A content pipeline: filters, a queue that lasts, a worker.")
    parser.add_argument("folder", nargs="?", type=Path, default=DATA, help="where to look for .md and .txt files")
    parser.add_argument("--queue", metavar="WHERE", help="a redis:// URL, or an SQLite file, which is kept")
    options = parser.parse_args(argv)
    try:
        documents = read(options.folder)
        if not documents:
            raise ValueError("it has no paragraphs in .md and .txt files")
    except (OSError, ValueError) as error:
        sys.exit(f"content_pipeline.py: cannot use {options.folder}: {getattr(error, 'strerror', None) or error}")
    with TemporaryDirectory() as temporary:
        try:
            opened = opener(options.queue, temporary)
        except Exception as error:
            sys.exit(f"content_pipeline.py: cannot use {options.queue}: {error}")
        print(f"By hand, a list and a loop, {len(documents)} documents:")
        by_hand(documents)
        print(f"\nWith an event, and {opened.func.__name__}:")
        run(documents, opened, drop=options.queue is None)


if __name__ == "__main__":
    main()
