"""The certificates of the review server: an authority of our own, what it signs, and when either must be renewed.

Pure but for the making of keys: the time is an argument. A renewed authority keeps the ones before it in its bundle
until they expire, so that whoever still serves an old certificate stays trusted. Replicas share a bundle through a
Secret; `usher.app.doors` reads and writes it.
"""

from __future__ import annotations

import base64
import binascii
import datetime as dt
import ipaddress
import ssl
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import Enum
from pathlib import Path
from typing import Final

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

from usher.kube.credentials import load_pair

SKEW: Final = dt.timedelta(hours=1)
"""Clocks may differ by so much."""
AUTHORITIES_MAX: Final = 5
FIELDS: Final = ("ca.crt", "ca.key", "tls.crt", "tls.key")


@dataclass(frozen=True, slots=True)
class Lifetimes:
    certificate: dt.timedelta
    authority: dt.timedelta
    renew_before: dt.timedelta


@dataclass(frozen=True, slots=True)
class Bundle:
    """Everything as PEM. `authorities` has the one that signs first, then those that are still trusted."""

    authorities: bytes
    authority_key: bytes
    certificate: bytes
    key: bytes

    def trusts(self, other: Bundle) -> bool:
        """Whether who trusts this bundle trusts the certificate of another."""
        return _first(other.authorities) in _split(self.authorities)


class Due(Enum):
    """What must be made anew."""

    NOTHING = 0
    CERTIFICATE = 1
    AUTHORITY = 2


def due(bundle: Bundle | None, hosts: Sequence[str], lifetimes: Lifetimes, now: dt.datetime) -> Due:
    """What of a bundle is used up, or does not serve these hosts. What cannot be read is made anew as a whole."""
    if bundle is None:
        return Due.AUTHORITY
    try:
        authority = x509.load_pem_x509_certificate(_first(bundle.authorities))
        served = x509.load_pem_x509_certificate(bundle.certificate)
        names = served.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
        _signer(bundle)
        served.verify_directly_issued_by(authority)
    except Exception:  # whatever is wrong with it: it is of no use
        return Due.AUTHORITY
    if authority.not_valid_after_utc - now <= lifetimes.renew_before:
        return Due.AUTHORITY
    found = {str(each.value) for each in names}
    if served.not_valid_after_utc - now <= lifetimes.renew_before or not found.issuperset(hosts):
        return Due.CERTIFICATE
    return Due.NOTHING


def renewed(bundle: Bundle | None, what: Due, hosts: Sequence[str], lifetimes: Lifetimes, now: dt.datetime) -> Bundle:
    """A bundle in which that is new."""
    if bundle is None or what is Due.AUTHORITY:
        key, authority = _authority(now, lifetimes.authority)
        earlier = [] if bundle is None else [each for each in _split(bundle.authorities) if _alive(each, now)]
        authorities = b"".join([authority, *earlier][:AUTHORITIES_MAX])
    else:
        key, authorities = _signer(bundle), bundle.authorities
    issuer = x509.load_pem_x509_certificate(_first(authorities))
    until = min(now + lifetimes.certificate, issuer.not_valid_after_utc)
    own, certificate = _serving(issuer, key, hosts, now, until)
    return Bundle(authorities, _private(key), certificate, _private(own))


def expires(bundle: Bundle) -> dt.datetime:
    """When its certificate does."""
    return x509.load_pem_x509_certificate(bundle.certificate).not_valid_after_utc


def secret_data(bundle: Bundle) -> dict[str, str]:
    """A bundle as the data of a Secret."""
    values = (bundle.authorities, bundle.authority_key, bundle.certificate, bundle.key)
    return {name: base64.b64encode(value).decode() for name, value in zip(FIELDS, values, strict=True)}


def from_secret(data: Mapping[str, str]) -> Bundle | None:
    """The bundle in a Secret; None if it holds none."""
    try:
        return Bundle(*(base64.b64decode(data[name], validate=True) for name in FIELDS))
    except (KeyError, TypeError, binascii.Error):
        return None


def from_folder(folder: Path) -> Bundle:
    """What somebody else keeps in files; raises OSError. Without `ca.crt` there is nothing to be told to the server."""
    authority = folder / "ca.crt"
    return Bundle(
        authority.read_bytes() if authority.exists() else b"",
        b"",
        (folder / "tls.crt").read_bytes(),
        (folder / "tls.key").read_bytes(),
    )


def context() -> ssl.SSLContext:
    """For a server that has no certificate yet."""
    made = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    made.minimum_version = ssl.TLSVersion.TLSv1_2
    return made


def load(into: ssl.SSLContext, bundle: Bundle) -> None:
    """Let a server that may be running present this certificate from now on; raises ssl.SSLError and changes nothing if
    key and certificate do not fit."""
    load_pair(into, bundle.certificate, bundle.key)


# -- making -----------------------------------------------------------------------------------------------------------


def _authority(now: dt.datetime, lifetime: dt.timedelta) -> tuple[ec.EllipticCurvePrivateKey, bytes]:
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, f"usher-webhook-ca-{int(now.timestamp())}")])
    usage = x509.KeyUsage(
        digital_signature=True,
        key_cert_sign=True,
        crl_sign=True,
        content_commitment=False,
        key_encipherment=False,
        data_encipherment=False,
        key_agreement=False,
        encipher_only=False,
        decipher_only=False,
    )
    builder = (
        _builder(name, name, key, key, now, now + lifetime)
        .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
        .add_extension(usage, critical=True)
    )
    return key, builder.sign(key, hashes.SHA256()).public_bytes(serialization.Encoding.PEM)


def _serving(
    issuer: x509.Certificate,
    signer: ec.EllipticCurvePrivateKey,
    hosts: Sequence[str],
    now: dt.datetime,
    until: dt.datetime,
) -> tuple[ec.EllipticCurvePrivateKey, bytes]:
    key = ec.generate_private_key(ec.SECP256R1())
    subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "usher-webhook")])
    builder = (
        _builder(subject, issuer.subject, key, signer, now, until)
        .add_extension(x509.SubjectAlternativeName([_general(host) for host in hosts]), critical=False)
        .add_extension(x509.ExtendedKeyUsage([ExtendedKeyUsageOID.SERVER_AUTH]), critical=False)
        .add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
    )
    return key, builder.sign(signer, hashes.SHA256()).public_bytes(serialization.Encoding.PEM)


def _builder(
    subject: x509.Name,
    issuer: x509.Name,
    key: ec.EllipticCurvePrivateKey,
    signer: ec.EllipticCurvePrivateKey,
    now: dt.datetime,
    until: dt.datetime,
) -> x509.CertificateBuilder:
    return (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(issuer)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - SKEW)
        .not_valid_after(until)
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(key.public_key()), critical=False)
        .add_extension(x509.AuthorityKeyIdentifier.from_issuer_public_key(signer.public_key()), critical=False)
    )


def _general(host: str) -> x509.GeneralName:
    try:
        return x509.IPAddress(ipaddress.ip_address(host))
    except ValueError:
        return x509.DNSName(host)


def _private(key: ec.EllipticCurvePrivateKey) -> bytes:
    return key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )


def _signer(bundle: Bundle) -> ec.EllipticCurvePrivateKey:
    key = serialization.load_pem_private_key(bundle.authority_key, None)
    if not isinstance(key, ec.EllipticCurvePrivateKey):
        raise ValueError("the key of the authority is of another kind")
    return key


def _split(pem: bytes) -> list[bytes]:
    end = b"-----END CERTIFICATE-----\n"
    return [part + end for part in pem.replace(b"\r\n", b"\n").split(end) if part.strip()]


def _first(pem: bytes) -> bytes:
    return next(iter(_split(pem)), b"")


def _alive(pem: bytes, now: dt.datetime) -> bool:
    try:
        return x509.load_pem_x509_certificate(pem).not_valid_after_utc > now
    except ValueError:
        return False
