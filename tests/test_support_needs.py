"""What happens where the machine cannot have a test device."""

from __future__ import annotations

import pytest

from tests.support.needs import program, unavailable


def test_skips_loudly_and_fails_in_ci(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("CI", raising=False)
    with (
        pytest.warns(UserWarning, match="TEST DEVICE NOT AVAILABLE"),
        pytest.raises(pytest.skip.Exception, match="no namespaces"),
    ):
        unavailable("no namespaces")
    monkeypatch.setenv("CI", "true")
    with pytest.raises(pytest.fail.Exception, match="no namespaces"):
        unavailable("no namespaces")


def test_a_missing_program_names_its_package(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CI", "true")
    assert program("sh", "dash").endswith("/sh")
    with pytest.raises(pytest.fail.Exception, match="apt-get install some-package"):
        program("no-such-program", "some-package")
