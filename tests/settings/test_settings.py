"""The configuration: defaults, what YAML may say, and how it is refused."""

from __future__ import annotations

import re
import runpy
from dataclasses import FrozenInstanceError, fields
from fractions import Fraction
from pathlib import Path
from typing import Any

import pytest
import yaml

from usher.api import names
from usher.core import model
from usher.policies import registry
from usher.settings.loader import SettingsError, load_file, load_text, shown
from usher.settings.tree import Settings
from usher.settings.values import key_of
from usher.sim.options import KEYS

DOCS = Path(__file__).parents[2] / "docs"


def errors_of(text: str, **more: Any) -> list[str]:
    """Everything that is wrong with a text, without the name of its file."""
    with pytest.raises(SettingsError) as raised:
        load_text(text, "usher.yaml", **more)
    assert all(line.startswith("usher.yaml: ") for line in raised.value.errors)
    return [line.removeprefix("usher.yaml: ") for line in raised.value.errors]


def test_nothing_said_is_a_good_default() -> None:
    assert load_file(None) == load_text("", "empty") == load_text("engine:\nserver: {}", "half") == Settings()


def test_the_engine_has_the_same_defaults_with_and_without_a_configuration() -> None:
    assert Settings().engine.core() == model.Settings()


def test_every_setting_of_the_engine_reaches_it() -> None:
    text = """
    engine: {oversell: 1.2, reserveAfter: 1s, protectedTime: 2s, startTimeout: 3s, recoveryTimeout: 4s,
             checkTimeout: 5s, backoffBase: 6s, backoffMax: 7s, refusedBase: 8s, refusedMax: 9s, defaultPolicy: FIFO}
    """

    want = model.Settings((6, 5), 1000, 2000, 3000, 4000, 5000, 6000, 7000, 8000, 9000, "FIFO")
    assert load_text(text, "usher.yaml").engine.core() == want
    assert all(getattr(want, each.name) != getattr(model.Settings(), each.name) for each in fields(model.Settings)), (
        "a setting of the engine is missing above"
    )


def test_the_simulator_and_the_configuration_have_the_same_names() -> None:
    assert set(KEYS) <= {key_of(each.name) for each in fields(Settings().engine)}


def test_settings_cannot_be_changed() -> None:
    with pytest.raises(FrozenInstanceError):
        Settings().server.port = 1  # type: ignore[misc]


def test_the_default_plugins_are_there() -> None:
    chosen = Settings().plugins

    made = registry.plugins(chosen.share, chosen.victims, mappings=chosen.mappings, filters=chosen.filters)
    assert made.share.name == "drf"
    assert Settings().engine.default_policy in made.queue_policies


def test_labels_are_those_of_the_api() -> None:
    assert Settings().labels.queue == names.QUEUE_KEYS
    assert Settings().labels.quota == names.QUOTA_KEYS
    assert Settings().labels.priority == names.PRIORITY_KEYS
    assert Settings().labels.preemptible == names.PREEMPTIBLE_KEYS
    assert Settings().labels.min_count == names.MIN_COUNT_KEYS
    assert Settings().labels.elastic == names.ELASTIC_KEYS
    assert Settings().labels.max_execution_time == names.MAX_EXECUTION_TIME_KEYS
    assert Settings().system_namespace == names.SYSTEM_NAMESPACE


GOOD: dict[str, tuple[str, str, object]] = {
    "a rate with a point is exact": ("engine: {oversell: 1.2}", "engine.oversell", Fraction(6, 5)),
    "a rate as a text": ("engine: {oversell: '0.1'}", "engine.oversell", Fraction(1, 10)),
    "a rate as a fraction": ("engine: {oversell: 6/5}", "engine.oversell", Fraction(6, 5)),
    "a whole rate": ("engine: {oversell: 2}", "engine.oversell", Fraction(2)),
    "a duration of two units": ("capacityLossGrace: 1h30m", "capacity_loss_grace_ms", 5_400_000),
    "zero needs no unit": ("capacityLossGrace: 0", "capacity_loss_grace_ms", 0),
    "any free port": ("server: {port: 0}", "server.port", 0),
    "every address": ("server: {address: 0.0.0.0}", "server.address", "0.0.0.0"),
    "every address of version 6": ("server: {address: '::'}", "server.address", "::"),
    "null is the default": ("server: {port: null}", "server.port", 8080),
    "a list": ("managedNamespaces: [red, blue]", "managed_namespaces", ("red", "blue")),
    "an empty list of aliases": ("labels: {quota: []}", "labels.quota", ()),
    "a label without a prefix": ("labels: {queue: [queue]}", "labels.queue", ("queue",)),
    "leave running jobs alone": ("jobs: {adopt: leave}", "jobs.adopt", "leave"),
    "no event": ("events: {enabled: off}", "events.enabled", False),
}


@pytest.mark.parametrize(("text", "path", "want"), GOOD.values(), ids=GOOD)
def test_a_good_value_is_read(text: str, path: str, want: object) -> None:
    found: Any = load_text(text, "usher.yaml")
    for name in path.split("."):
        found = getattr(found, name)

    assert found == want


BAD: dict[str, tuple[str, list[str]]] = {
    "a number without a unit": (
        "election: {leaseDuration: 15}",
        ["election.leaseDuration: 15 has no unit: write 15s, 15m or 15h"],
    ),
    "no duration": (
        "capacityLossGrace: soon",
        ['capacityLossGrace: "soon" is not a duration: write 90s, 1h30m or 500ms'],
    ),
    "a negative duration": ("capacityLossGrace: -5s", ['capacityLossGrace: "-5s" is negative']),
    "too short": ("reports: {queueStatusInterval: 1ms}", ['reports.queueStatusInterval: "1ms" is shorter than 100ms']),
    "a typing mistake": ("engine: {oversel: 2}", ["engine.oversel: no such setting; did you mean oversell?"]),
    "the wrong group": ("renewDeadline: 3s", ["renewDeadline: no such setting; did you mean election.renewDeadline?"]),
    "nothing near": ("log: {colour: red}", ["log.colour: no such setting; there are format, level"]),
    "no map": ("server: 80", ["server: 80 is not a map of settings"]),
    "no map at all": ("- 1", ["[1] is not a map of settings"]),
    "not a port": ("server: {port: 65536}", ["server.port: 65536 is not between 0 and 65535"]),
    "a port as text": ("server: {port: '80'}", ['server.port: "80" is not a whole number']),
    "true is no number": ("server: {port: true}", ["server.port: true is not a whole number"]),
    "no address": (
        "server: {address: everywhere}",
        ['server.address: "everywhere" is not an IP address: write 127.0.0.1, 0.0.0.0 or ::'],
    ),
    "oversell of nothing": ("engine: {oversell: 0}", ["engine.oversell: 0 is not above 0 and at most 1000"]),
    "oversell without end": (
        "engine: {oversell: .inf}",
        ["engine.oversell: Infinity is not a number, as in 1.2 or 6/5"],
    ),
    "oversell by zero": ("engine: {oversell: 1/0}", ['engine.oversell: "1/0" is not a number, as in 1.2 or 6/5']),
    "no choice": ("jobs: {adopt: maybe}", ['jobs.adopt: "maybe" is not one of charge, leave']),
    "a choice that is a list": ("jobs: {adopt: [charge]}", ['jobs.adopt: ["charge"] is not one of charge, leave']),
    "no flag": ("server: {debug: 1}", ["server.debug: 1 is not true or false"]),
    "no list": ("managedNamespaces: red", ['managedNamespaces: "red" is not a list']),
    "no namespace": ("managedNamespaces: [Red]", ['managedNamespaces: "Red" is not the name of a namespace']),
    "twice in a list": ("managedNamespaces: [a, a]", ["managedNamespaces: a is there twice"]),
    "no label": (
        "labels: {queue: [a/b/c]}",
        ['labels.queue: "a/b/c" is not the key of a label, as in example.com/queue'],
    ),
    "no way to name a queue": ("labels: {queue: []}", ["labels.queue: at least one is needed"]),
    "one label for two things": ("labels: {quota: [x], minCount: [x]}", ["labels.minCount: x is in quota already"]),
    "a deadline after the lease": (
        "election: {renewDeadline: 15s}",
        ["election.renewDeadline: must be shorter than leaseDuration, 15s"],
    ),
    "a retry after the deadline": (
        "election: {retryPeriod: 9s}",
        ["election.retryPeriod: must be shorter than five sixths of renewDeadline, 10s"],
    ),
    "a lease of half seconds": (
        "election: {leaseDuration: 15.5s}",
        ["election.leaseDuration: 15s500ms is not in whole seconds"],
    ),
    "back-off upside down": ("engine: {backoffMax: 1s}", ["engine.backoffBase: is longer than backoffMax, 1s"]),
    "pauses upside down": ("engine: {refusedMax: 1ms}", ["engine.refusedBase: is longer than refusedMax, 1ms"]),
    "burst below rate": ("events: {burst: 1}", ["events.burst: is less than perSecond, 20"]),
    "Usher in a managed namespace": (
        "managedNamespaces: [usher-system]",
        ["managedNamespaces: usher-system is systemNamespace: Usher itself could not start"],
    ),
    "Kubernetes in a managed namespace": (
        "managedNamespaces: [red, kube-system]",
        ["managedNamespaces: kube-system is Kubernetes' own: such are never managed"],
    ),
    "a key twice": ("log: {}\nlog: {}", ['line 2: is not YAML: the key "log" is given twice']),
    "everything at once": (
        "server: {port: x, adress: y}\nlog: {level: loud}\nelection: {renewDeadline: 1m}",
        [
            'server.port: "x" is not a whole number',
            "server.adress: no such setting; did you mean address?",
            'log.level: "loud" is not one of debug, info, warning, error',
            "election.renewDeadline: must be shorter than leaseDuration, 15s",
        ],
    ),
}


@pytest.mark.parametrize(("text", "want"), BAD.values(), ids=BAD)
def test_a_bad_configuration_is_refused_with_the_path_of_each_error(text: str, want: list[str]) -> None:
    assert errors_of(text) == want


def test_what_is_not_yaml_is_refused_with_its_line() -> None:
    (line,) = errors_of("a: [1\nb: 2")

    assert line.startswith("line 2: is not YAML")


def test_names_that_nobody_has_are_refused_with_those_there_are() -> None:
    known = {"plugins.share": ["drf", "none"], "jobs.kinds": ["jobs.batch"], "engine.defaultPolicy": ["Priority"]}

    assert errors_of("plugins: {share: fair}\njobs: {kinds: [jobs.batch, pods]}", known=known) == [
        'plugins.share: "fair" is not one of drf, none',
        'jobs.kinds: "pods" is not one of jobs.batch',
    ]
    assert load_text("", "usher.yaml", known=known) == Settings()


def test_what_is_shown_is_read_back() -> None:
    text = "engine: {oversell: 6/5}\nserver: {port: 0}\njobs: {kinds: []}\ncapacityLossGrace: 1.5s"
    settings = load_text(text, "usher.yaml")

    assert settings != Settings()
    for each in (settings, Settings()):
        assert load_text(yaml.dump(shown(each)), "shown.yaml") == each


def test_an_override_wins_over_the_file() -> None:
    settings = load_text(
        "server: {port: 1, debug: true}", "usher.yaml", ["server.port=0", "managedNamespaces=[a, b]", "log.level=debug"]
    )

    assert (settings.server.port, settings.server.debug) == (0, True)
    assert settings.managed_namespaces == ("a", "b")
    assert settings.log.level == "debug"


@pytest.mark.parametrize(
    ("override", "want"),
    [
        ("server.port", '--set: "server.port" is not path=value, as in server.port=0'),
        ("server.prot=1", "--set: server.prot: no such setting; did you mean port?"),
        ("sever.port=1", "--set: sever: no such setting; did you mean server?"),
        ("server.port=x", '--set: server.port: "x" is not a whole number'),
        ("server.port.x=1", "--set: server.port.x: port is not a group of settings"),
        ("server=1", "--set: server: 1 is not a map of settings"),
        ("server.port=[", "--set: server.port: line "),
        ("election.renewDeadline=15s", "--set: election.renewDeadline: must be shorter than leaseDuration, 15s"),
    ],
)
def test_a_bad_override_says_so(override: str, want: str) -> None:
    with pytest.raises(SettingsError) as raised:
        load_file(None, [override])

    (line,) = raised.value.errors
    assert line.startswith(want)


def test_a_file_is_read_and_named_in_errors(tmp_path: Path) -> None:
    file = tmp_path / "usher.yaml"
    file.write_text("server: {port: 1}")
    assert load_file(file).server.port == 1

    file.write_text("server: {port: x}")
    with pytest.raises(SettingsError, match=re.escape(f"{file}: server.port: ")):
        load_file(file)


@pytest.mark.parametrize("content", [None, b"\xff\xfe\xfa"], ids=["not there", "not text"])
def test_a_file_that_cannot_be_read_is_an_error(tmp_path: Path, content: bytes | None) -> None:
    file = tmp_path / "usher.yaml"
    if content is not None:
        file.write_bytes(content)

    with pytest.raises(SettingsError, match="cannot be read"):
        load_file(file)


def test_the_lease_is_beside_usher_unless_told_otherwise() -> None:
    assert load_text("systemNamespace: mine", "usher.yaml").lease_namespace == "mine"
    assert load_text("election: {namespace: other}", "usher.yaml").lease_namespace == "other"


def test_the_page_has_every_setting_as_it_is_now() -> None:
    script = runpy.run_path(str(DOCS / "settings.py"))
    page = (DOCS / "settings.md").read_text()

    assert script["renewed"](page) == page, "run `make fix` (or python docs/settings.py)"
    assert page.count("\n| `") == sum(1 if not isinstance(v, dict) else len(v) for v in shown(Settings()).values())


def test_the_errors_on_the_page_are_the_real_ones() -> None:
    page = (DOCS / "settings.md").read_text()
    text = "engine: {oversel: 2, startTimeout: 5}\nelection: {renewDeadline: 20s}"

    with pytest.raises(SettingsError) as raised:
        load_text(text, "settings.yaml")
    assert f"```\n{raised.value}\n```" in page
    example = re.search(r"```yaml\n(.*?)```", page, re.DOTALL)
    assert example is not None
    assert load_text(example[1], "example").engine.oversell == Fraction(6, 5)
