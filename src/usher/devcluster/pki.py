"""Certificates for one control plane: an authority of its own, and what it signs.

Every connection of the control plane is TLS with certificates from here, and identities are client certificates, so
that RBAC has users and groups to decide about. The authority and the service account key are kept in the cluster's
directory: a control plane that starts again on the same data accepts the credentials it gave out before.
"""

import datetime
import ipaddress
from dataclasses import dataclass
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

LIFETIME = datetime.timedelta(days=365)
SKEW = datetime.timedelta(hours=1)
SERVER_NAMES = ("localhost", "kubernetes", "kubernetes.default", "kubernetes.default.svc")
SERVER_ADDRESSES = ("127.0.0.1", "127.64.0.1")


@dataclass(frozen=True)
class Identity:
    """A certificate and its key, as files."""

    certificate: Path
    key: Path


class Authority:
    """A certificate authority in a directory: made there the first time, read from there later."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self.certificate = directory / "ca.crt"
        self.key = directory / "ca.key"
        directory.mkdir(parents=True, exist_ok=True, mode=0o700)
        if not self.key.exists():
            self._create()
        self._certificate = x509.load_pem_x509_certificate(self.certificate.read_bytes())
        key = serialization.load_pem_private_key(self.key.read_bytes(), None)
        assert isinstance(key, ec.EllipticCurvePrivateKey)
        self._key = key

    def identity(self, name: str, user: str, group: str = "") -> Identity:
        """Sign a certificate that serves on loopback and, as a client, is `user` in `group`."""
        key = ec.generate_private_key(ec.SECP256R1())
        attributes = [x509.NameAttribute(NameOID.ORGANIZATION_NAME, group)] if group else []
        subject = x509.Name([*attributes, x509.NameAttribute(NameOID.COMMON_NAME, user)])
        names: list[x509.GeneralName] = [x509.DNSName(host) for host in SERVER_NAMES]
        names += [x509.IPAddress(ipaddress.ip_address(address)) for address in SERVER_ADDRESSES]
        usage = [ExtendedKeyUsageOID.SERVER_AUTH, ExtendedKeyUsageOID.CLIENT_AUTH]
        builder = (
            _builder(subject, self._certificate.subject, key, self._key)
            .add_extension(x509.SubjectAlternativeName(names), critical=False)
            .add_extension(x509.ExtendedKeyUsage(usage), critical=False)
            .add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
        )
        made = Identity(self.directory / f"{name}.crt", self.directory / f"{name}.key")
        made.certificate.write_bytes(builder.sign(self._key, hashes.SHA256()).public_bytes(serialization.Encoding.PEM))
        _write_key(made.key, key)
        return made

    def service_account_key(self) -> Path:
        """The key that signs service account tokens."""
        path = self.directory / "service-accounts.key"
        if not path.exists():
            _write_key(path, ec.generate_private_key(ec.SECP256R1()))
        return path

    def _create(self) -> None:
        key = ec.generate_private_key(ec.SECP256R1())
        name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "usher-devcluster")])
        builder = (
            _builder(name, name, key, key)
            .add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
            .add_extension(_signs_certificates(), critical=True)
        )
        self.certificate.write_bytes(builder.sign(key, hashes.SHA256()).public_bytes(serialization.Encoding.PEM))
        _write_key(self.key, key)


def _builder(
    subject: x509.Name, issuer: x509.Name, key: ec.EllipticCurvePrivateKey, signer: ec.EllipticCurvePrivateKey
) -> x509.CertificateBuilder:
    """What every certificate has; the key identifiers are there because Python 3.13 and later insist on them."""
    now = datetime.datetime.now(datetime.UTC)
    return (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(issuer)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - SKEW)
        .not_valid_after(now + LIFETIME)
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(key.public_key()), critical=False)
        .add_extension(x509.AuthorityKeyIdentifier.from_issuer_public_key(signer.public_key()), critical=False)
    )


def _signs_certificates() -> x509.KeyUsage:
    return x509.KeyUsage(
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


def _write_key(path: Path, key: ec.EllipticCurvePrivateKey) -> None:
    path.touch(mode=0o600)
    sec1 = serialization.PrivateFormat.TraditionalOpenSSL  # the only one that the API server takes for token keys
    path.write_bytes(key.private_bytes(serialization.Encoding.PEM, sec1, serialization.NoEncryption()))
