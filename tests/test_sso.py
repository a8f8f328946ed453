"""Single sign-on with real clients: behind a proxy that authenticates, and with JWTs."""

from __future__ import annotations

import base64
import json
import os
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest
import requests
import yaml
from cryptography.hazmat.primitives.asymmetric import padding, rsa
from cryptography.hazmat.primitives.hashes import SHA256

from support import ports, proxy, tokens
from support.plane import REPOSITORY, MakePlane, binary
from support.ray_cluster import BIN, clean_environment
from support.waiting import PATIENCE, wait_until

PROGRAM = """
import ray_multicluster_scheduler as rms
with rms.initialize_scheduler_environment():
    job = rms.submit_job("echo from the SDK", submission_id="by-sdk")
    rms.wait_for_all_jobs([job])
    print([job.submission_id for job in rms.list_jobs()])
"""
PROXY = {
    "from": [f"{proxy.SOURCE}/32"],
    "user_header": "X-Forwarded-Email",
    "groups_header": "X-Forwarded-Groups",
    "roles": {"admin": ["platform"], "submit": ["quants"]},
}
USERS = {
    "secret-of-zorro": ("zorro@example.com", "staff,quants"),
    "secret-of-root": ("root@example.com", "platform"),
    "secret-of-guest": ("guest@example.com", "staff"),
}


class Issuer:
    """An identity provider: one RSA key, its public half in a file."""

    def __init__(self, folder: Path):
        self._key = rsa.generate_private_key(public_exponent=65537, key_size=2048)
        number = self._key.public_key().public_numbers().n
        jwk = {"kty": "RSA", "alg": "RS256", "use": "sig", "kid": "k1", "e": "AQAB"}
        jwk["n"] = _text(number.to_bytes(256, "big"))
        self.file = folder / "jwks.json"
        self.file.write_text(json.dumps({"keys": [jwk]}))

    def jwt(self, user: str, lives: float = 600, **claims: Any) -> str:
        header = {"alg": "RS256", "typ": "JWT", "kid": "k1"}
        payload = {"iss": "https://issuer.example", "aud": "ray", "sub": user, **claims}
        payload["exp"] = time.time() + lives
        message = ".".join(_text(json.dumps(part).encode()) for part in (header, payload))
        signature = self._key.sign(message.encode(), padding.PKCS1v15(), SHA256())
        return f"{message}.{_text(signature)}"


def _text(data: bytes) -> str:
    return base64.urlsafe_b64encode(data).rstrip(b"=").decode()


def _programs(address: str, token: str, folder: Path) -> None:
    """The stock CLI of Ray, our SDK and our command, each with this token."""
    env = {**clean_environment(folder), "RAY_MULTICLUSTER_ADDRESS": address}
    env["PYTHONPATH"] = os.pathsep.join([str(REPOSITORY / "python"), *sys.path])
    env.update(RAY_MULTICLUSTER_TOKEN=token, RAY_ADDRESS=address)
    env["RAY_JOB_HEADERS"] = json.dumps(tokens.headers(token))

    def run(*command: str) -> str:
        done = subprocess.run(
            command, env=env, capture_output=True, text=True, timeout=120 * PATIENCE, check=False
        )
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout

    ray_job = [str(BIN / "ray"), "job"]
    submitted = run(*ray_job, "submit", "--submission-id", "by-ray", "--", "echo", "from", "Ray")
    assert "from Ray" in submitted, "the log came over a web socket"
    assert "by-ray" in run(*ray_job, "list")
    assert run(sys.executable, "-c", PROGRAM).splitlines()[-1] == "['by-sdk', 'by-ray']"
    assert "from the SDK" in run(str(binary()), "logs", "by-sdk", "--follow")


@pytest.mark.skipif(sys.platform != "linux", reason="other addresses of loopback are set up there")
def test_programs_work_behind_a_proxy_that_authenticates(
    make_plane: MakePlane, tmp_path: Path
) -> None:
    plane = make_plane(lambda pool: pool.sso.update(trusted_proxy=PROXY), healthy=False)
    with proxy.signing_on(plane.port, USERS) as address:

        def ask(secret: str, path: str, **more: str) -> requests.Response:
            headers = {**tokens.headers(secret), **more}
            return requests.get(address + path, headers=headers, timeout=30)

        who = ask("secret-of-zorro", "/v1/version").json()
        assert (who["owner"], who["role"]) == ("zorro@example.com", "submit")
        _programs(address, "secret-of-zorro", tmp_path)
        assert ask("secret-of-root", "/v1/jobs/by-ray").json()["owner"] == "zorro@example.com"
        assert "in no group that has a role" in ask("secret-of-guest", "/v1/jobs").json()["message"]
        claims = {"X-Forwarded-Email": "root@example.com", "X-Forwarded-Groups": "platform"}
        assert ask("guess", "/v1/jobs", **claims).status_code == 401, "the proxy dropped them"

    for _ in range(3):
        spoofed = requests.get(plane.address + "/v1/jobs", headers=claims, timeout=30)
        assert spoofed.status_code == 401
    told = [line for line in plane.output().splitlines() if "ignored a sign-on header" in line]
    assert len(told) == 1, "once a minute"
    assert "127.0.0.1" in told[0]
    assert "root@example.com" not in told[0]

    plane.pool.sso["trusted_proxy"] = {**PROXY, "from": ["127.0.0.1/32"]}
    plane.pool.write(plane.config)

    def is_admin() -> bool:
        return requests.get(plane.address + "/v1/jobs", headers=claims, timeout=30).ok

    wait_until(is_admin, "the changed file is in force", 30)


def test_programs_work_with_jwts(make_plane: MakePlane, tmp_path: Path) -> None:
    issuer = Issuer(tmp_path)
    entry = {"issuer": "https://issuer.example", "audience": "ray", "jwks": str(issuer.file)}
    entry.update(groups_claim="groups", roles={"submit": ["quants"]})
    plane = make_plane(lambda pool: pool.sso.update(jwt=[entry]), healthy=False)
    jwt = issuer.jwt("system:serviceaccount:airflow:worker", groups=["quants"])
    _programs(plane.address, jwt, tmp_path)

    def ask(token: str) -> requests.Response:
        return plane.request("GET", "/v1/jobs/by-sdk", headers=tokens.headers(token))

    assert ask(jwt).json()["owner"] == "system:serviceaccount:airflow:worker"
    assert ask(issuer.jwt("diego", groups=["quants"])).status_code == 404, "another owner's job"
    assert "it has expired" in ask(issuer.jwt("diego", lives=-60)).json()["message"]
    root = tokens.create(plane, "root", "admin")
    assert ask(root).ok, "tokens of ours work beside JWTs"
    assert jwt not in plane.output()


AWAY = {"name": "away", "head_address": "127.0.0.1:1", "dashboard": "http://127.0.0.1:1"}


def _serve(folder: Path, listen: str, *more: str) -> list[str]:
    config = ["--config", str(folder / "cluster.yaml"), "--state-dir", str(folder / "state")]
    return [str(binary()), "serve", *config, "--listen", listen, *more]


def test_another_address_needs_no_insecure_with_single_sign_on(tmp_path: Path) -> None:
    config = tmp_path / "cluster.yaml"
    command = _serve(tmp_path, f"0.0.0.0:{ports.a_port()}")
    env = clean_environment(tmp_path)
    config.write_text(yaml.safe_dump({"clusters": [AWAY]}))
    refused = subprocess.run(command, env=env, capture_output=True, text=True, check=False)
    assert refused.returncode != 0
    assert "configure trusted_proxy or jwt" in refused.stderr
    config.write_text(yaml.safe_dump({"clusters": [AWAY], "trusted_proxy": PROXY}))
    with subprocess.Popen(command, env=env, stdout=subprocess.PIPE, text=True) as plane:
        assert plane.stdout is not None
        try:
            assert "is ready" in plane.stdout.readline()
        finally:
            plane.terminate()


def test_a_control_plane_of_one_user_signs_on_no_other(tmp_path: Path) -> None:
    port = ports.a_port()
    everyone = {"from": ["127.0.0.1"], "user_header": "X-User", "default_role": "admin"}
    (tmp_path / "cluster.yaml").write_text(
        yaml.safe_dump({"clusters": [AWAY], "trusted_proxy": everyone})
    )
    command = _serve(tmp_path, f"127.0.0.1:{port}", "--own-token")
    env = clean_environment(tmp_path)
    with subprocess.Popen(command, env=env, stdout=subprocess.PIPE, text=True) as plane:
        assert plane.stdout is not None
        try:
            assert "is ready" in plane.stdout.readline()
            url = f"http://127.0.0.1:{port}/v1/jobs"
            assert requests.get(url, headers={"X-User": "root"}, timeout=30).status_code == 401
            own = tokens.headers((tmp_path / "state/own-token").read_text().strip())
            assert requests.get(url, headers=own, timeout=30).ok
        finally:
            plane.terminate()
