"""Follows the quota kinds of others: each is on while its CRD is there, and comes on when it appears.

The rule: absence is no error. The CRD of each kind is watched by its name; while it is established, an informer follows
its objects as any other kind's. When it goes, its objects are gone. A kind that we may not read is off, and is
complained about.
"""

import asyncio
import logging
from collections.abc import Callable, Sequence
from typing import Any, Final, Self

from msgspec import Struct, field

from usher.api.meta import ObjectMeta
from usher.api.shapes import Api
from usher.kube.client import Client
from usher.kube.errors import Forbidden, KubeError, NotFound
from usher.kube.informer import Informer
from usher.kube.resource import Resource
from usher.kube.store import Deleted, Delta
from usher.quotas.objects import ElasticQuota, ElasticQuotaTree
from usher.runtime.objects import PodCondition

log = logging.getLogger("usher.sources")


class CrdVersion(Api, frozen=True, kw_only=True):
    name: str = ""
    served: bool = False


class CrdSpec(Api, frozen=True, kw_only=True):
    versions: tuple[CrdVersion, ...] = ()


class CrdStatus(Api, frozen=True, kw_only=True):
    conditions: tuple[PodCondition, ...] = ()


class CrdObject(Api, frozen=True, kw_only=True):
    """A CustomResourceDefinition: which versions it serves, and whether it does."""

    metadata: ObjectMeta = ObjectMeta()
    spec: CrdSpec = field(default_factory=CrdSpec)
    status: CrdStatus = field(default_factory=CrdStatus)

    def serves(self, version: str) -> bool:
        ready = any(each.type == "Established" and each.status == "True" for each in self.status.conditions)
        return ready and any(each.name == version and each.served for each in self.spec.versions)


CRDS: Final = Resource(
    "apiextensions.k8s.io", "v1", "customresourcedefinitions", "CustomResourceDefinition", False, CrdObject
)
ELASTIC_QUOTAS: Final = Resource(
    "scheduling.sigs.k8s.io", "v1alpha1", "elasticquotas", "ElasticQuota", True, ElasticQuota
)
ELASTIC_QUOTA_TREES: Final = Resource(
    "scheduling.sigs.k8s.io", "v1beta1", "elasticquotatrees", "ElasticQuotaTree", True, ElasticQuotaTree
)
OPTIONAL: Final[tuple[Resource[Any], ...]] = (ELASTIC_QUOTAS, ELASTIC_QUOTA_TREES)

KINDS_OF: Final = {
    "queuequotas": "QueueQuota",
    "elasticquotas": "ElasticQuota",
    "elasticquotatrees": "ElasticQuotaTree",
    "resourcequotas": "ResourceQuota",
}
"""By what the settings call them."""

See = Callable[[str, Any, bool], None]
Hear = Callable[[Callable[[Any, bool], None], Sequence[Delta[Any]]], None]
Complain = Callable[[str, KubeError], None]


class Source(Struct):
    """One kind, and its informer while it is on."""

    resource: Resource[Any]
    settled: asyncio.Event = field(default_factory=asyncio.Event)
    """It is known whether the kind is there, and if so, its objects were listed."""
    informer: Informer[Any] | None = None


class Sources:
    """All optional kinds; `async with` follows them."""

    def __init__(self, client: Client, plurals: Sequence[str], see: See, hear: Hear, complain: Complain) -> None:
        self._client = client
        self._see = see
        self._hear = hear
        self._complain = complain
        self._sources = [Source(each) for each in OPTIONAL if each.plural in plurals]
        self._tasks: list[asyncio.Task[None]] = []

    async def __aenter__(self) -> Self:
        self._tasks = [asyncio.ensure_future(self._keep(each)) for each in self._sources]
        return self

    async def __aexit__(self, *error: object) -> None:
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    async def list_once(self) -> None:
        """Take in what is there now, and follow none of it."""
        for source in self._sources:
            try:
                found = await self._client.list(CRDS, field_selector=_name_of(source.resource))
                if any(each.serves(source.resource.version) for each in found.items):
                    informer: Informer[Any] = Informer(self._client, source.resource)
                    await informer.list_once()
                    source.informer = informer
            except NotFound:
                continue  # its CRD has gone meanwhile
            except Forbidden as error:
                self._cannot(source, error)

    async def settled(self) -> None:
        """Wait until it is known what is there."""
        for source in self._sources:
            await source.settled.wait()

    def unsettled(self) -> list[str]:
        return [each.resource.plural for each in self._sources if not each.settled.is_set()]

    def on(self) -> list[tuple[Informer[Any], Callable[[Any, bool], None]]]:
        """The informers of the kinds that are there, and who hears what they bring."""
        return [(each.informer, self._seer(each)) for each in self._sources if each.informer is not None]

    def _seer(self, source: Source) -> Callable[[Any, bool], None]:
        return lambda found, gone: self._see(source.resource.kind, found, gone)

    async def _keep(self, source: Source) -> None:
        """Follow the CRD, and the kind while there is one; what goes wrong is tried again."""
        while True:
            try:
                await self._follow_crd(source)
            except Exception:
                log.exception("following %s broke off; it is taken up again", source.resource.plural)
                await asyncio.sleep(1.0)

    async def _follow_crd(self, source: Source) -> None:
        resource = source.resource
        changed = asyncio.Event()
        crd: Informer[CrdObject] = Informer(
            self._client,
            CRDS,
            field_selector=_name_of(resource),
            on_problem=lambda error: self._cannot(source, error),
        )
        crd.listen(lambda _: changed.set())

        def served() -> bool:
            return any(each.serves(resource.version) for each in crd.store.list())

        async with crd:
            await crd.synced.wait()
            while True:
                changed.clear()
                if served():
                    await self._follow_kind(source, changed, served)
                else:
                    source.settled.set()
                    await changed.wait()

    async def _follow_kind(self, source: Source, changed: asyncio.Event, served: Callable[[], bool]) -> None:
        """While its CRD is there."""
        log.info("%s are quotas from now on", source.resource.plural)
        see = self._seer(source)
        informer: Informer[Any] = Informer(
            self._client, source.resource, on_problem=lambda error: self._cannot(source, error)
        )
        informer.listen(lambda deltas: self._hear(see, deltas))
        async with informer:
            source.informer = informer
            synced = asyncio.ensure_future(informer.synced.wait())
            synced.add_done_callback(lambda _: source.settled.set() if informer.synced.is_set() else None)
            try:
                while served():
                    await changed.wait()
                    changed.clear()
            finally:
                synced.cancel()
                source.informer = None
        log.info("%s are not installed any more", source.resource.plural)
        self._hear(see, [Deleted(key, found) for key, found in informer.store.items()])

    def _cannot(self, source: Source, error: KubeError) -> None:
        self._complain(source.resource.plural, error)
        if isinstance(error, Forbidden):
            source.settled.set()


def _name_of(resource: Resource[Any]) -> str:
    """A selector of its CRD."""
    return f"metadata.name={resource.plural}.{resource.group}"
