"""The form on a made-up plane: what it sends, a zip to work in, a job like another one."""

from __future__ import annotations

import io
import zipfile
from typing import Any

import pytest
from playwright.sync_api import expect

from support.console import OpenConsole
from support.made_up import GIB, MadeUp, Refused, job

LOOKS: dict[str, dict[str, Any]] = {
    "light": {"color_scheme": "light"},
    "dark": {"color_scheme": "dark"},
    "phone": {"viewport": {"width": 390, "height": 844}, "has_touch": True},
    "chinese": {"locale": "zh-CN"},
}


def a_zip() -> bytes:
    made = io.BytesIO()
    with zipfile.ZipFile(made, "w") as file:
        file.writestr("train.py", "print('hello')")
    return made.getvalue()


# Once: it has the time in it.
ZIP = a_zip()


def absent(*_: object) -> None:
    raise Refused(404, "not_found", "no such package")


def any_package(plane: MadeUp) -> None:
    """None is there yet, and all are accepted."""
    answer = plane.answer

    def with_packages(method: str, path: str, query: dict[str, list[str]], body: Any) -> Any:
        if path.startswith("/api/packages/"):
            return {} if method == "PUT" else absent()
        return answer(method, path, query, body)

    plane.answer = with_packages  # type: ignore[method-assign]


def test_the_form_sends_environment_needs_and_a_zip(
    made_up: MadeUp, open_console: OpenConsole
) -> None:
    made_up.jobs = [job("made")]
    any_package(made_up)
    console = open_console(made_up)
    page = console.open("#/submit")
    page.get_by_label("Command").fill("python train.py")
    page.get_by_label("ID", exact=True).fill("made")
    page.locator("[name=cpus]").fill("8")
    page.get_by_text("Files and environment").click()
    page.locator("[name=vars]").fill("MODE=nightly\nURL=http://a?b=c")
    page.locator("[name=env]").fill('{"pip": ["pandas"]')
    expect(page.get_by_text("runtime_env is not JSON")).to_be_visible()
    page.get_by_role("button", name="Submit").click()
    assert made_up.sent("POST", "/v1/jobs") == [], "a field that cannot be read is not sent"
    page.locator("[name=env]").fill('{"pip": ["pandas"]}')
    expect(page.get_by_text("runtime_env is not JSON")).to_be_hidden()
    package = {"name": "code.zip", "mimeType": "application/zip", "buffer": ZIP}
    page.locator("[name=workingDir]").set_input_files(package)  # type: ignore[arg-type]
    page.get_by_text("Reserved for the command itself").click()
    page.locator("[name=ownCpus]").fill("1")
    with console.expecting("404"):
        page.get_by_role("button", name="Submit").click()
        expect(page.get_by_role("heading", name="made")).to_be_visible()
    assert made_up.sent("PUT", "/api/packages/gcs/*") == [ZIP]
    (sent,) = made_up.sent("POST", "/v1/jobs")
    env = sent.pop("runtime_env")
    assert env.pop("working_dir").startswith("gcs://_ray_pkg_")
    assert env == {"pip": ["pandas"], "env_vars": {"MODE": "nightly", "URL": "http://a?b=c"}}
    assert sent == {
        "entrypoint": "python train.py",
        "id": "made",
        "needs": {"CPU": 8},
        "entrypoint_num_cpus": 1,
    }


def test_what_is_no_zip_is_not_uploaded(made_up: MadeUp, open_console: OpenConsole) -> None:
    page = open_console(made_up).open("#/submit")
    page.get_by_label("Command").fill("true")
    page.get_by_text("Files and environment").click()
    text = {"name": "code.zip", "mimeType": "application/zip", "buffer": b"no zip"}
    page.locator("[name=workingDir]").set_input_files(text)  # type: ignore[arg-type]
    page.get_by_role("button", name="Submit").click()
    expect(page.get_by_role("alert")).to_contain_text("code.zip is not a zip file")
    assert all("what-if" in each for each in made_up.posted())


def fill(plane: MadeUp) -> None:
    plane.jobs = [
        job(
            "nightly",
            "failed",
            entrypoint="python train.py --epochs 40",
            demand={"CPU": 8, "memory": 4 * GIB},
            reserves={"CPU": 1, "memory": 4 * GIB},
            tags=["linux", "nightly"],
            priority=5,
        ),
        # The id that it gives to a job without one.
        job("generated", "queued"),
    ]
    env_vars = {"MODE": "nightly", "API_TOKEN": "<redacted>"}
    plane.details["nightly"] = {"runtime_env": {"pip": ["pandas"], "env_vars": env_vars}}


def test_a_job_is_submitted_again_like_another_one(
    made_up: MadeUp, open_console: OpenConsole
) -> None:
    fill(made_up)
    page = open_console(made_up).open("#/jobs/nightly")
    page.get_by_role("link", name="Submit one like this").click()
    expect(page.get_by_label("Command")).to_have_value("python train.py --epochs 40")
    expect(page.locator("[data-secrets]")).to_contain_text("API_TOKEN")
    page.locator("[name=vars]").fill("MODE=weekly\nAPI_TOKEN=s3cret")
    page.get_by_role("button", name="Submit").click()
    page.wait_for_function("!location.hash.startsWith('#/submit')")
    (sent,) = made_up.sent("POST", "/v1/jobs")
    assert sent == {
        "entrypoint": "python train.py --epochs 40",
        "runtime_env": {
            "pip": ["pandas"],
            "env_vars": {"MODE": "weekly", "API_TOKEN": "s3cret"},
        },
        "needs": {"CPU": 8},
        "entrypoint_num_cpus": 1,
        "entrypoint_memory": 4 * GIB,
        "tags": ["linux", "nightly"],
        "priority": 5,
    }


@pytest.mark.parametrize("look", LOOKS)
def test_the_form_fits_in_every_look(made_up: MadeUp, open_console: OpenConsole, look: str) -> None:
    fill(made_up)
    console = open_console(made_up, **LOOKS[look])
    page = console.open("#/submit?like=nightly")
    expect(page.locator("[data-secrets]")).to_be_visible()
    console.fits(f"submit-like-{look}")
