# SPDX-License-Identifier: Apache-2.0
"""TLS in front of every API: a private CA, a certificate, and haproxy.

haproxy passes on the address of the service as the host, except to Heat, whose
links python-openstackclient follows. The version
documents of the services therefore contain addresses of the lab, of which
keystoneauth replaces all but the version. haproxy rewrites the addresses in
the header Location. It drops the region that python-heatclient sends: the
engine of Heat would use the catalogue of that region, and does not trust the
CA.
"""

import datetime
import ipaddress
import os
import re
import signal
import subprocess
import time
from contextlib import suppress
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

from hvstack.lab import constants

PORT = 13443
URL = f'https://{constants.MGMT}:{PORT}'
#: Path of each API, and the service of the lab behind it.
SERVICES = {
    'identity': 'keystone',
    'compute': 'nova',
    'placement': 'placement',
    'image': 'glance',
    'network': 'neutron',
    'orchestration': 'heat',
}
#: URL of each service type in the catalogue, below the address of haproxy.
ENDPOINTS = {
    **{path: path for path in SERVICES},
    'compute': 'compute/v2.1',
    'orchestration': 'orchestration/v1/%(tenant_id)s',
}
_HAPROXY = '/usr/sbin/haproxy'
_GLOBAL = """
global
    maxconn 200
    nbthread 1
defaults
    mode http
    timeout connect 10s
    timeout client 20m
    timeout server 20m
frontend apis
    bind {address}:{port} ssl crt {certificate}
    http-request set-header X-Forwarded-Proto https
    http-request deny deny_status 404 unless {{ path_reg ^/({paths})(/|$) }}
{rules}
"""
_RULE = r"""    use_backend {path} if {{ path_reg ^/{path}(/|$) }}
"""
#: Heat's links have the host of the request, and no path before the version.
_LINKS = """\
    use_backend orchestration if { path_reg ^/v1/[0-9a-f]{32}/stacks }
"""
_BACKEND = r"""
backend {path}
    http-request replace-path ^/{path}/?(.*) /\1
    http-request set-header Host {sent_host}
    http-request del-header X-Region-Name
    http-response replace-header Location {location}
    http-response replace-header Location {link}
    server service {host}
"""


def _write_private(path: Path, *contents: bytes) -> None:
    path.touch(mode=0o600)
    path.write_bytes(b''.join(contents))


def _key_bytes(key: ec.EllipticCurvePrivateKey) -> bytes:
    return key.private_bytes(
        serialization.Encoding.PEM,
        serialization.PrivateFormat.PKCS8,
        serialization.NoEncryption(),
    )


def _builder(
    subject: str, issuer: str, key: ec.EllipticCurvePublicKey
) -> x509.CertificateBuilder:
    def name(text: str) -> x509.Name:
        return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, text)])

    now = datetime.datetime.now(datetime.UTC)
    return (
        x509.CertificateBuilder()
        .subject_name(name(subject))
        .issuer_name(name(issuer))
        .public_key(key)
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - datetime.timedelta(hours=1))
        .not_valid_after(now + datetime.timedelta(days=7))
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(key), False)
    )


def _key_usage(**usages: bool) -> x509.KeyUsage:
    names = (
        *('digital_signature', 'content_commitment', 'key_encipherment'),
        *('data_encipherment', 'key_agreement', 'key_cert_sign', 'crl_sign'),
        *('encipher_only', 'decipher_only'),
    )
    return x509.KeyUsage(**{name: usages.get(name, False) for name in names})


def write_certificates(directory: Path, address: str) -> None:
    """Create a CA and the certificate of a server.

    :param directory: gets ``ca.pem``, the certificate of the CA, and
        ``server.pem``, the certificate and the key of the server.
    :param address: IP address of the server.
    """
    ca_name = 'Private CA of the other cloud'
    ca_key = ec.generate_private_key(ec.SECP256R1())
    ca = (
        _builder(ca_name, ca_name, ca_key.public_key())
        .add_extension(x509.BasicConstraints(ca=True, path_length=0), True)
        .add_extension(_key_usage(key_cert_sign=True, crl_sign=True), True)
        .sign(ca_key, hashes.SHA256())
    )
    key = ec.generate_private_key(ec.SECP256R1())
    alternative = x509.SubjectAlternativeName(
        [x509.IPAddress(ipaddress.ip_address(address))]
    )
    certificate = (
        _builder(address, ca_name, key.public_key())
        .add_extension(x509.BasicConstraints(ca=False, path_length=None), True)
        .add_extension(alternative, False)
        .add_extension(_key_usage(digital_signature=True), True)
        .add_extension(
            x509.ExtendedKeyUsage([ExtendedKeyUsageOID.SERVER_AUTH]), False
        )
        .add_extension(
            x509.AuthorityKeyIdentifier.from_issuer_public_key(
                ca_key.public_key()
            ),
            False,
        )
        .sign(ca_key, hashes.SHA256())
    )
    pem = serialization.Encoding.PEM
    (directory / 'ca.pem').write_bytes(ca.public_bytes(pem))
    _write_private(
        directory / 'server.pem',
        certificate.public_bytes(pem),
        _key_bytes(key),
    )


def render(
    certificate: Path,
    hosts: dict[str, str],
    address: str = constants.MGMT,
    port: int = PORT,
) -> str:
    """Return the configuration of haproxy.

    :param certificate: file with the certificate and its key.
    :param hosts: address and port of the service behind each path.
    :param address: address on which haproxy listens.
    :param port: its port.
    """
    rules = ''.join(_RULE.format(path=path) for path in hosts)
    if 'orchestration' in hosts:
        rules += _LINKS
    backends = ''.join(
        _BACKEND.format(
            path=path,
            host=host,
            sent_host=f'{address}:{port}' if path == 'orchestration' else host,
            location=f'^http://{re.escape(host)}(/.*)?$ '
            rf'https://{address}:{port}/{path}\1',
            link=rf'^(https://{re.escape(address)}:{port})(/v1/.*)$ '
            rf'\1/{path}\2',
        )
        for path, host in hosts.items()
    )
    text = _GLOBAL.format(
        address=address,
        port=port,
        certificate=certificate,
        paths='|'.join(hosts),
        rules=rules,
    )
    return text + backends


def lab_hosts() -> dict[str, str]:
    """Return address and port of the lab's service behind each path."""
    return {
        path: f'{constants.MGMT}:{constants.PORTS[service]}'
        for path, service in SERVICES.items()
    }


def start(directory: Path, text: str) -> int:
    """Start haproxy in the background; return its process ID.

    :param directory: directory for its configuration and its process ID.
    :param text: configuration.
    :raises AssertionError: haproxy rejects the configuration.
    """
    config, pid_file = directory / 'haproxy.cfg', directory / 'haproxy.pid'
    config.write_text(text, 'utf-8')
    pid_file.unlink(missing_ok=True)
    done = subprocess.run(
        [_HAPROXY, '-D', '-f', config, '-p', pid_file],
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode:
        raise AssertionError(
            f'haproxy exited with status {done.returncode}: {done.stderr}'
        )
    return int(pid_file.read_text('utf-8').split()[0])


def is_running(pid: int, directory: Path) -> bool:
    """Return whether a process is the haproxy of a directory."""
    with suppress(OSError):
        command = Path(f'/proc/{pid}/cmdline').read_bytes()
        return str(directory / 'haproxy.cfg').encode() in command
    return False


def stop(pid: int, directory: Path) -> None:
    """End haproxy, and nothing else that has its process ID by now."""
    for signum in (signal.SIGTERM, signal.SIGKILL):
        for _ in range(50):
            if not is_running(pid, directory):
                return
            with suppress(ProcessLookupError):
                os.kill(pid, signum)
            time.sleep(0.1)
