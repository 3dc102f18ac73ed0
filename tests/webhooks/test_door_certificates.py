"""When certificates are renewed, and that everybody who was trusted stays trusted meanwhile."""

from __future__ import annotations

import base64
import datetime as dt
from pathlib import Path

import pytest
from cryptography import x509

from usher.webhooks.certificates import (
    Bundle,
    Due,
    Lifetimes,
    due,
    expires,
    from_folder,
    from_secret,
    renewed,
    secret_data,
)

DAY = dt.timedelta(days=1)
LIVES = Lifetimes(90 * DAY, 365 * DAY, 30 * DAY)
NOW = dt.datetime(2031, 5, 1, tzinfo=dt.UTC)
HOSTS = ("usher-webhook.usher-system.svc", "127.0.0.1")
FIRST = renewed(None, Due.AUTHORITY, HOSTS, LIVES, NOW)


def authorities(bundle: Bundle) -> list[x509.Certificate]:
    return x509.load_pem_x509_certificates(bundle.authorities)


@pytest.mark.parametrize(
    ("days", "want"),
    [(0, Due.NOTHING), (59, Due.NOTHING), (60, Due.CERTIFICATE), (334, Due.CERTIFICATE), (335, Due.AUTHORITY)],
)
def test_each_is_renewed_before_it_expires(days: int, want: Due) -> None:
    bundle = FIRST if days < 300 else renewed(FIRST, Due.CERTIFICATE, HOSTS, LIVES, NOW + 250 * DAY)

    assert due(bundle, HOSTS, LIVES, NOW + days * DAY) is want


def test_another_host_needs_another_certificate() -> None:
    assert due(FIRST, (*HOSTS, "usher.example.com"), LIVES, NOW) is Due.CERTIFICATE
    assert due(FIRST, HOSTS[:1], LIVES, NOW) is Due.NOTHING


@pytest.mark.parametrize("field", ["authorities", "authority_key", "certificate"])
def test_what_cannot_be_read_is_made_anew(field: str) -> None:
    broken = {name: getattr(FIRST, name) for name in Bundle.__dataclass_fields__} | {field: b"rubbish"}

    assert due(Bundle(**broken), HOSTS, LIVES, NOW) is Due.AUTHORITY
    assert due(renewed(Bundle(**broken), Due.AUTHORITY, HOSTS, LIVES, NOW), HOSTS, LIVES, NOW) is Due.NOTHING


def test_a_renewed_certificate_has_the_same_authority() -> None:
    second = renewed(FIRST, Due.CERTIFICATE, HOSTS, LIVES, NOW + 60 * DAY)

    assert second.authorities == FIRST.authorities
    assert second.certificate != FIRST.certificate
    assert expires(second) == NOW + 150 * DAY


def test_a_certificate_does_not_outlive_its_authority() -> None:
    second = renewed(FIRST, Due.CERTIFICATE, HOSTS, LIVES, NOW + 330 * DAY)

    assert expires(second) == NOW + 365 * DAY


def test_a_renewed_authority_keeps_those_before_it_until_they_expire() -> None:
    second = renewed(FIRST, Due.AUTHORITY, HOSTS, LIVES, NOW + 335 * DAY)
    third = renewed(second, Due.AUTHORITY, HOSTS, LIVES, NOW + 366 * DAY)

    assert authorities(second)[1:] == authorities(FIRST)
    assert authorities(third)[1:] == authorities(second)[:1]
    assert second.trusts(FIRST)
    assert not FIRST.trusts(second)
    x509.load_pem_x509_certificate(second.certificate).verify_directly_issued_by(authorities(second)[0])


def test_a_bundle_survives_its_secret() -> None:
    data = secret_data(FIRST)

    assert from_secret(data) == FIRST
    assert from_secret({}) is None
    assert from_secret({**data, "tls.key": "?"}) is None
    assert base64.b64decode(data["ca.crt"]) == FIRST.authorities


def test_files_of_somebody_else_are_read_as_they_are(tmp_path: Path) -> None:
    (tmp_path / "tls.crt").write_bytes(FIRST.certificate)
    (tmp_path / "tls.key").write_bytes(FIRST.key)

    assert from_folder(tmp_path).authorities == b""
    (tmp_path / "ca.crt").write_bytes(FIRST.authorities)
    assert from_folder(tmp_path) == Bundle(FIRST.authorities, b"", FIRST.certificate, FIRST.key)
