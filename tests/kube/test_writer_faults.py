"""No write is lost and none is done twice: hundreds of objects, numbered writes, and faults by a seeded chance."""

import asyncio
import random
from collections import defaultdict

import pytest
from clients import MAPS, ConfigMap, config_map, connected

from usher.devcluster import Kubectl
from usher.devcluster.clusters import Cluster
from usher.kube.writer import Writer, WriterSettings
from usher.kube.writes import Done, Outcome, Superseded, Verb, Write
from usher.testing.proxy import CUT, LOSE_ANSWER, Answer, Fault, Passed, Proxy

GUARDED = 3
FAULTS: list[Fault] = [Answer(429), *[Answer(500), Answer(503), Answer(504), CUT, LOSE_ANSWER, LOSE_ANSWER] * 4]
SETTINGS = WriterSettings(backoff_first_s=0.01, backoff_max_s=0.05, throttle_s=0.02, patience_s=240)


class Chance:
    """One request in four meets a fault: writes of any kind, and the reads that look for what happened."""

    def __init__(self, seed: int) -> None:
        self._random = random.Random(seed)
        self.given = 0

    def __call__(self, request: Passed) -> Fault | None:
        if self._random.random() > 0.25:
            return None
        self.given += 1
        return self._random.choice(FAULTS)


async def life_of(writer: Writer, name: str, namespace: str) -> list[Outcome[ConfigMap]]:
    """Create an object; change it a few times, each guarded by the version before; then a burst of which one counts."""

    def write(verb: Verb, body: object, guard: str | None = None, kind: str | None = None) -> Write[ConfigMap]:
        return Write(resource=MAPS, verb=verb, name=name, namespace=namespace, body=body, guard=guard, coalesce=kind)

    outcomes: list[Outcome[ConfigMap]] = [await writer.submit(write(Verb.CREATE, config_map(name, guarded="0")))]
    for number in range(1, GUARDED + 1):
        last = outcomes[-1]
        assert isinstance(last, Done), f"{name}: {last}"
        assert last.object is not None
        version = last.object.metadata.resource_version
        outcomes.append(await writer.submit(write(Verb.PATCH, {"data": {"guarded": str(number)}}, guard=version)))
    burst = [write(Verb.PATCH, {"data": {"burst": str(number)}}, kind="burst") for number in range(5)]
    return outcomes + list(await asyncio.gather(*map(writer.submit, burst)))


@pytest.mark.parametrize(("seed", "objects"), [(1, 300), (2, 60), (3, 60)])
async def test_no_write_is_lost_and_none_is_done_twice(
    control_plane: Cluster, kubectl: Kubectl, seed: int, objects: int
) -> None:
    assert kubectl.namespace
    names = [f"object-{number}" for number in range(objects)]
    chance = Chance(seed)
    async with (
        Proxy.to(control_plane) as proxy,
        connected(proxy.kubeconfig) as client,
        Writer(client, settings=SETTINGS) as writer,
    ):
        proxy.decide(chance)
        lives = await asyncio.gather(*(life_of(writer, name, kubectl.namespace) for name in names))
        proxy.behave()
        after = {each.metadata.name: each for each in (await client.list(MAPS, kubectl.namespace)).items}

    assert chance.given > objects
    assert set(after) - {"kube-root-ca.crt"} == set(names)
    for name, outcomes in zip(names, lives, strict=True):
        assert after[name].data == {"guarded": str(GUARDED), "burst": "4"}, name
        assert all(isinstance(each, Done) for each in outcomes[: GUARDED + 1]), outcomes
        assert all(isinstance(each, Done | Superseded) for each in outcomes[GUARDED + 1 :]), outcomes
        assert isinstance(outcomes[-1], Done)
        assert outcomes[-1].object is not None
        assert outcomes[-1].object.data == after[name].data

    # What the server accepted, as the proxy saw it: every guarded write once and in order, the burst in order.
    accepted: dict[str, list[tuple[str, int]]] = defaultdict(list)
    for request in proxy.writes:
        if request.status in (200, 201):
            name = request.json["metadata"]["name"] if request.method == "POST" else request.path.rsplit("/", 1)[-1]
            accepted[name] += [(key, int(value)) for key, value in request.json["data"].items()]
    for name in names:
        assert [n for key, n in accepted[name] if key == "guarded"] == list(range(GUARDED + 1)), accepted[name]
        burst = [n for key, n in accepted[name] if key == "burst"]
        assert burst == sorted(burst)
        assert burst[-1] == 4
