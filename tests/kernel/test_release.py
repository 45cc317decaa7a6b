import pytest

from trackbed.kernel.release import MOVE_TO_INDEX, PARENT_DEVICE, explain_old_kernel, parse_release


@pytest.mark.parametrize(
    ("text", "version"),
    [
        pytest.param("5.14.0-503.11.1.el9_5.x86_64", (5, 14), id="RHEL 9"),
        pytest.param("5.10.0-32-amd64", (5, 10), id="Debian 11"),
        pytest.param("6.12-rc1", (6, 12), id="a release candidate"),
        pytest.param("", (0, 0), id="unknown"),
    ],
)
def test_a_release_is_read_as_a_version(text: str, version: tuple[int, int]) -> None:
    assert parse_release(text) == version


def test_an_old_kernel_is_named_with_the_feature_that_it_lacks() -> None:
    message = "this kernel is 5.10.0-32-amd64, and a feature needs Linux 5.14"
    assert explain_old_kernel("5.10.0-32-amd64", PARENT_DEVICE, "a feature") == message


@pytest.mark.parametrize("release", ["5.14.0-1", "6.8.0-51-generic", "unknown"])
def test_a_kernel_that_has_the_feature_or_is_unknown_is_no_reason(release: str) -> None:
    assert explain_old_kernel(release, MOVE_TO_INDEX, "a feature") == ""
