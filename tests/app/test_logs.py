"""What the process says on standard error."""

from __future__ import annotations

import io
import json
import logging
from collections.abc import Iterator

import pytest

from usher.app import logs
from usher.settings.tree import Log


@pytest.fixture(autouse=True)
def as_before() -> Iterator[None]:
    root, ours = logging.getLogger(), logging.getLogger("usher")
    handlers, level, our_level = list(root.handlers), root.level, ours.level
    yield
    root.handlers[:] = handlers
    root.setLevel(level)
    ours.setLevel(our_level)


def test_json_is_one_object_per_line_with_what_was_given_beside_it() -> None:
    stream = io.StringIO()
    logs.set_up(Log(format="json"), stream)

    logging.getLogger("usher.test").info("leading in epoch %d", 3, extra={"epoch": 3})
    logging.getLogger("usher.test").debug("not at this level")
    logging.getLogger("other").info("not of others")

    lines = [json.loads(line) for line in stream.getvalue().splitlines()]
    assert [line.pop("time")[-6:] for line in lines] == ["+00:00"]
    assert lines == [{"level": "info", "logger": "usher.test", "message": "leading in epoch 3", "epoch": 3}]


def test_an_error_stays_on_its_line() -> None:
    stream = io.StringIO()
    logs.set_up(Log(format="json"), stream)

    try:
        raise ValueError("two\nlines")
    except ValueError:
        logging.getLogger("usher.test").exception("it broke")

    (line,) = stream.getvalue().splitlines()
    assert "ValueError: two\nlines" in json.loads(line)["error"]


def test_text_is_for_people() -> None:
    stream = io.StringIO()
    logs.set_up(Log(level="debug"), stream)

    logging.getLogger("usher.test").debug("hello")

    assert stream.getvalue().endswith("DEBUG   usher.test: hello\n")
