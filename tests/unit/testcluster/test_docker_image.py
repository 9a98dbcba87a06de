"""Tags of the test images: a hash of what an image is built from. No Docker engine is needed."""

from __future__ import annotations

import re
import shutil
from pathlib import Path

import pytest
from tesched_testcluster.docker_image import CLIENTS, MAIN, REPOSITORY, TRIXIE, Image

BASE = "slurm_test_cluster/docker/base-image.sh"
IMAGES = pytest.mark.parametrize("image", [MAIN, CLIENTS, TRIXIE], ids=lambda image: image.name)
CASES = [(image, path) for image in (MAIN, CLIENTS, TRIXIE) for path in (*image.inputs, BASE)]


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    """Give a copy of all that the images are built from."""
    for _, path in CASES:
        (tmp_path / path).parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(REPOSITORY / path, tmp_path / path)
    return tmp_path


@IMAGES
def test_a_checkout_elsewhere_with_the_same_files_has_the_same_image(checkout: Path, image: Image) -> None:
    (checkout / "README.md").write_text("another one")
    assert image.tag(checkout) == image.tag()
    assert re.fullmatch(rf"{image.name}-[0-9a-f]{{12}}", image.tag())


@pytest.mark.parametrize(("image", "path"), CASES, ids=lambda value: value if isinstance(value, str) else value.name)
def test_the_tag_changes_with_each_file_that_the_image_is_built_from(checkout: Path, image: Image, path: str) -> None:
    with (checkout / path).open("a") as file:
        file.write("\n")
    assert image.tag(checkout) != image.tag()


def test_text_that_moves_from_one_file_to_the_next_changes_the_tag(checkout: Path) -> None:
    first, second = (checkout / path for path in MAIN.inputs[1:3])
    first.write_text("ab")
    second.write_text("c")
    before = MAIN.tag(checkout)
    first.write_text("a")
    second.write_text("bc")
    assert MAIN.tag(checkout) != before


@IMAGES
def test_what_a_dockerfile_copies_is_in_the_hash_and_in_the_context(image: Image) -> None:
    text = (REPOSITORY / image.dockerfile).read_text()
    copied = [word for words in re.findall(r"^COPY (?!--)(.*) \S+$", text, re.MULTILINE) for word in words.split()]
    known = {path for path in copied if path in image.inputs}
    assert known == set(image.inputs) - {image.dockerfile}
    assert set(copied) - known <= set(CLIENTS.inputs), "another stage copies it"
    sent = set((REPOSITORY / ".dockerignore").read_text().splitlines())
    assert {f"!{path}" for path in copied} <= sent


@IMAGES
def test_what_pip_installs_is_locked_or_local(image: Image) -> None:
    text = (REPOSITORY / image.dockerfile).read_text().replace("\\\n", " ")
    calls = [
        call
        for line in text.splitlines()
        for call in line.split("&&")
        if re.search(r"pip (install|download|wheel)", call)
    ]
    assert calls
    assert [call for call in calls if "--require-hashes" not in call and "--no-deps" not in call] == []
