"""`check cluster` tells when the credentials of a kubeconfig expire."""

import base64
import json
from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
import yaml
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec

from function.cli.live import find_token_expiry
from tests.cli.api import ApiServer, serving
from tests.cli.process import run
from tests.cli.test_check_cluster import SOUND

LATER = datetime(2126, 1, 2, 3, 4, 5, tzinfo=UTC)


def encode(claims: object) -> str:
    """Return a JSON web token without a signature."""
    parts = (base64.urlsafe_b64encode(json.dumps(part).encode()).decode().rstrip("=") for part in ({}, claims))
    return ".".join((*parts, "signature"))


@pytest.mark.parametrize(
    ("token", "expiry"),
    [
        (encode({"exp": int(LATER.timestamp())}), LATER),
        (encode({"exp": LATER.timestamp() + 0.5}), LATER),
        (encode({"iss": "kubernetes/serviceaccount"}), None),  # of a Secret: it never expires
        (encode({"exp": "tomorrow"}), None),
        (encode({"exp": 10**30}), None),
        (encode([]), None),
        ("a.b.c", None),
        ("let-me-in", None),
        ("", None),
    ],
)
def test_reads_when_a_token_expires(token: str, expiry: datetime | None) -> None:
    assert find_token_expiry(token) == expiry


def issue(expiry: datetime) -> dict[str, str]:
    """Return the entries of a kubeconfig for a client certificate."""
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, "modelplane")])
    certificate = (
        x509.CertificateBuilder(name, name, key.public_key(), 1)
        .not_valid_before(datetime(2026, 1, 1, tzinfo=UTC))
        .not_valid_after(expiry)
        .sign(key, hashes.SHA256())
    )
    pem = serialization.Encoding.PEM
    private = key.private_bytes(pem, serialization.PrivateFormat.PKCS8, serialization.NoEncryption())
    return {
        "client-certificate-data": base64.b64encode(certificate.public_bytes(pem)).decode(),
        "client-key-data": base64.b64encode(private).decode(),
    }


def check(folder: Path, user: Mapping[str, object]) -> dict[str, Any] | None:
    """Return the line about the credentials of a user of a sound cluster."""
    with serving(ApiServer(paths=dict(SOUND))) as server:
        file = Path(server.kubeconfig(folder))
        config = yaml.safe_load(file.read_text())
        config["users"][0]["user"] = user
        file.write_text(yaml.safe_dump(config))
        done = run("check", "cluster", "--kubeconfig", str(file), "-o", "json")
    lines: list[dict[str, Any]] = json.loads(done.stdout)
    return next((line for line in lines if line["check"] == "credentials"), None)


def test_tells_when_a_token_expires(tmp_path: Path) -> None:
    line = check(tmp_path, {"token": encode({"exp": int(LATER.timestamp())})})
    assert line
    assert (line["state"], line["found"]) == ("ok", "expire at 2126-01-02T03:04:05Z")


def test_tells_when_a_certificate_expires(tmp_path: Path) -> None:
    line = check(tmp_path, issue(LATER))
    assert line
    assert (line["state"], line["found"]) == ("ok", "expire at 2126-01-02T03:04:05Z")


def test_warns_two_weeks_before(tmp_path: Path) -> None:
    soon = datetime.now(UTC) + timedelta(days=13)
    line = check(tmp_path, {"token": encode({"exp": int(soon.timestamp())})})
    assert line
    assert line["state"] == "warning"
    assert "docs/kubeconfig.md" in line["todo"]


def test_says_nothing_of_what_does_not_expire(tmp_path: Path) -> None:
    assert check(tmp_path, {"token": "let-me-in"}) is None


def test_says_nothing_of_credentials_that_a_program_renews(tmp_path: Path) -> None:
    answer = {
        "apiVersion": "client.authentication.k8s.io/v1",
        "kind": "ExecCredential",
        "status": {"token": encode({"exp": int(LATER.timestamp())})},
    }
    program = {"apiVersion": answer["apiVersion"], "command": "echo", "args": [json.dumps(answer)]}
    assert check(tmp_path, {"exec": program}) is None
