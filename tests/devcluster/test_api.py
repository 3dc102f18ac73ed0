"""What makes the control plane a real one: RBAC, service accounts, CRDs with rules, webhooks, watch-list."""

import asyncio
import base64
import json
import ssl
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, ClassVar

import pytest

from usher.devcluster import Kubectl, KubectlError
from usher.devcluster.clusters import Cluster
from usher.testing import eventually


async def test_the_server_and_kubectl_say_the_pinned_version(control_plane: Cluster) -> None:
    versions = json.loads(await control_plane.kubectl("version", "-o", "json"))

    assert versions["clientVersion"]["gitVersion"] == "v1.36.4"
    assert versions["serverVersion"]["gitVersion"] == "v1.36.4"
    assert versions["serverVersion"]["minor"] == "36"


async def test_a_service_account_is_refused_what_rbac_denies_it(kubectl: Kubectl) -> None:
    await kubectl("create", "serviceaccount", "reader")
    await kubectl("create", "role", "reads-pods", "--verb=get,list", "--resource=pods")
    await kubectl(
        "create", "rolebinding", "reader", "--role=reads-pods", f"--serviceaccount={kubectl.namespace}:reader"
    )
    token = (await kubectl("create", "token", "reader")).strip()
    # The admin's certificate would win over a token: this kubeconfig has none.
    config = json.loads(kubectl.kubeconfig.read_text())
    config["users"][0]["user"] = {"token": token}
    stolen = kubectl.kubeconfig.parent / f"{kubectl.namespace}.kubeconfig"
    stolen.write_text(json.dumps(config))
    reader = Kubectl(kubectl.program, stolen, kubectl.namespace)

    assert (await reader.get("pods"))["items"] == []
    with pytest.raises(
        KubectlError, match=r'cannot list resource "pods" in API group "" in the namespace "kube-system"'
    ):
        await reader.within("kube-system").get("pods")
    with pytest.raises(KubectlError, match=r'serviceaccount:.*:reader" cannot create resource "configmaps"'):
        await reader("create", "configmap", "mine")


async def test_nobody_gets_in_without_credentials(control_plane: Cluster) -> None:
    config = json.loads(control_plane.kubeconfig.read_text())
    config["users"][0]["user"] = {"token": "made-up"}
    nobody = control_plane.directory / "nobody.kubeconfig"
    nobody.write_text(json.dumps(config))

    with pytest.raises(KubectlError, match="must be logged in"):
        await Kubectl(control_plane.kubectl.program, nobody).get("nodes")


async def test_a_crd_with_a_cel_rule_refuses_a_bad_object(kubectl: Kubectl) -> None:
    plural = f"ranges{kubectl.namespace[-6:]}" if kubectl.namespace else ""
    group = "tests.usher.dev"
    limits = {"type": "object", "properties": {"min": {"type": "integer"}, "max": {"type": "integer"}}}
    rule = {"rule": "self.min <= self.max", "message": "min must not be above max"}
    schema = {"type": "object", "properties": {"spec": {**limits, "x-kubernetes-validations": [rule]}}}
    names = {"plural": plural, "singular": plural[:-1], "kind": plural.title()}
    version = {"name": "v1", "served": True, "storage": True, "schema": {"openAPIV3Schema": schema}}
    crd = {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": f"{plural}.{group}"},
        "spec": {"group": group, "scope": "Namespaced", "names": names, "versions": [version]},
    }
    await kubectl.apply(crd)
    await kubectl("wait", "--for=condition=Established", f"crd/{plural}.{group}", "--timeout=30s")

    def made(name: str, low: int, high: int) -> dict[str, Any]:
        body = {"min": low, "max": high}
        return {"apiVersion": f"{group}/v1", "kind": plural.title(), "metadata": {"name": name}, "spec": body}

    async def is_served() -> bool:
        return plural in await kubectl("api-resources", f"--api-group={group}")

    try:
        await eventually(is_served)
        await kubectl.apply(made("good", 1, 2))
        with pytest.raises(KubectlError, match="min must not be above max"):
            await kubectl.apply(made("bad", 3, 2))
        assert [each["metadata"]["name"] for each in (await kubectl.get(f"{plural}.{group}"))["items"]] == ["good"]
    finally:
        await kubectl("delete", "crd", f"{plural}.{group}", "--wait=false")


class Labeller(BaseHTTPRequestHandler):
    """A mutating webhook that gives every object the label `seen: yes`."""

    reviews: ClassVar[list[str]] = []

    def do_POST(self) -> None:
        review = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        self.reviews.append(review["request"]["name"])
        patch = [{"op": "add", "path": "/metadata/labels", "value": {"seen": "yes"}}]
        encoded = base64.b64encode(json.dumps(patch).encode()).decode()
        response = {"uid": review["request"]["uid"], "allowed": True, "patchType": "JSONPatch", "patch": encoded}
        answer = json.dumps(
            {"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "response": response}
        ).encode()
        self.send_response(200)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(answer)))
        self.end_headers()
        self.wfile.write(answer)

    def log_message(self, format: str, *args: Any) -> None:  # noqa: A002 - the base class calls it so
        """Say nothing."""


@contextmanager
def served(cluster: Cluster, name: str) -> Iterator[str]:
    """Serve the webhook on loopback with a certificate of the cluster's own authority; where it answers."""
    identity = cluster.authority.identity(name, "webhook")
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(identity.certificate, identity.key)
    server = ThreadingHTTPServer(("127.0.0.1", 0), Labeller)
    server.socket = context.wrap_socket(server.socket, server_side=True)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    try:
        yield f"https://127.0.0.1:{server.server_address[1]}/mutate"
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


async def test_a_mutating_webhook_served_on_loopback_is_called(control_plane: Cluster, kubectl: Kubectl) -> None:
    name = str(kubectl.namespace)
    with served(control_plane, name) as url:
        bundle = base64.b64encode(control_plane.authority.certificate.read_bytes()).decode()
        webhook = {
            "name": "labels.usher.dev",
            "admissionReviewVersions": ["v1"],
            "sideEffects": "None",
            "clientConfig": {"url": url, "caBundle": bundle},
            "namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": name}},
            "rules": [
                {"apiGroups": [""], "apiVersions": ["v1"], "operations": ["CREATE"], "resources": ["configmaps"]}
            ],
        }
        kind = {"apiVersion": "admissionregistration.k8s.io/v1", "kind": "MutatingWebhookConfiguration"}
        await kubectl.apply({**kind, "metadata": {"name": name}, "webhooks": [webhook]})
        try:

            async def is_called() -> bool:
                await kubectl("delete", "configmap", "probe", "--ignore-not-found")
                await kubectl("create", "configmap", "probe")
                return (await kubectl.get("configmap", "probe"))["metadata"].get("labels") == {"seen": "yes"}

            await eventually(is_called)
            assert "probe" in Labeller.reviews
        finally:
            await kubectl("delete", "mutatingwebhookconfiguration", name)


async def test_watch_list_streams_what_exists_and_then_a_bookmark(kubectl: Kubectl) -> None:
    await kubectl("create", "configmap", "first")
    await kubectl("create", "configmap", "second")
    query = (
        "watch=true&sendInitialEvents=true&resourceVersionMatch=NotOlderThan&allowWatchBookmarks=true&timeoutSeconds=2"
    )

    answer = await kubectl("get", "--raw", f"/api/v1/namespaces/{kubectl.namespace}/configmaps?{query}")

    events = [json.loads(line) for line in answer.splitlines()]
    names = [each["object"]["metadata"]["name"] for each in events if each["type"] == "ADDED"]
    assert set(names) >= {"first", "second"}
    bookmark = events[len(names)]
    assert bookmark["type"] == "BOOKMARK"
    assert bookmark["object"]["metadata"]["annotations"] == {"k8s.io/initial-events-end": "true"}


async def test_every_node_is_alive_by_its_lease(control_plane: Cluster) -> None:
    nodes = (await control_plane.kubectl.get("nodes"))["items"]

    async def all_have_one() -> bool:
        leases = (await control_plane.kubectl.within("kube-node-lease").get("leases"))["items"]
        return {each["metadata"]["name"] for each in leases} == {each["metadata"]["name"] for each in nodes}

    await eventually(all_have_one)
    assert {each["status"]["allocatable"]["nvidia.com/gpu"] for each in nodes} == {"2"}


async def test_kubectl_calls_run_side_by_side(control_plane: Cluster) -> None:
    answers = await asyncio.gather(*(control_plane.kubectl("get", "--raw", "/readyz") for _ in range(3)))

    assert answers == ["ok"] * 3
