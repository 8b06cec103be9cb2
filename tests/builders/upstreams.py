"""Repositories and sdists of the shape of those that our recipes name, for builds of the recipes as they stand.

Each is a folder of tests/samples/upstreams: what upstream's build asks for, in our words, and kernels that add numbers.
A folder that its .gitmodules names becomes a repository of its own. Git finds them all under upstream's addresses.
"""

from __future__ import annotations

import configparser
import shutil
import tarfile
from collections.abc import Iterator
from pathlib import Path

from tests.builders.sources import committed, git

SAMPLES = Path(__file__).parents[1] / "samples" / "upstreams"


def make_repository(recipe: str, tag: str, folder: Path) -> dict[str, Path]:
    """Make the repositories of a recipe's upstream below `folder`, the first with a tag; return each submodule's too.

    The keys are the addresses of the submodules, and "" for the repository itself.
    """
    root = shutil.copytree(SAMPLES / recipe, folder / recipe)
    found = {"": root}
    modules = dict(_list_submodules(root))
    for path, address in modules.items():
        found[address] = folder / path.replace("/", "-")
        shutil.move(root / path, found[address])
        committed(found[address])
    git(root, "init", "--quiet")
    git(root, "add", ".")
    for path, address in modules.items():  # the commit that the repository pins, as `git submodule add` notes it
        pinned = git(found[address], "rev-parse", "HEAD")
        git(root, "update-index", "--add", "--cacheinfo", f"160000,{pinned},{path}")
    git(root, "commit", "--quiet", "--message=source")
    git(root, "tag", tag)
    return found


def _list_submodules(root: Path) -> Iterator[tuple[str, str]]:
    """Yield the path and the address of each submodule that .gitmodules names."""
    read = configparser.ConfigParser()
    read.read_string((root / ".gitmodules").read_text(encoding="utf-8") if (root / ".gitmodules").exists() else "")
    for section in read.sections():
        yield read[section]["path"], read[section]["url"]


def git_variables(address: str, repositories: dict[str, Path]) -> dict[str, str]:
    """Return variables that let git find repositories of this machine under upstream's addresses; "" is `address`."""
    settings = [("protocol.file.allow", "always")]
    settings += [(f"url.{path.as_uri()}.insteadOf", elsewhere or address) for elsewhere, path in repositories.items()]
    numbered = dict(enumerate(settings))
    keys = {f"GIT_CONFIG_KEY_{number}": key for number, (key, _) in numbered.items()}
    values = {f"GIT_CONFIG_VALUE_{number}": value for number, (_, value) in numbered.items()}
    return {"GIT_CONFIG_COUNT": str(len(settings)), **keys, **values}


def pack_sdist(recipe: str, stem: str, folder: Path) -> bytes:
    """Return the sdist of a recipe's upstream, with the setup.cfg that setuptools adds to each."""
    root = shutil.copytree(SAMPLES / recipe, folder / stem)
    name, _, version = stem.rpartition("-")
    fields = f"Metadata-Version: 2.1\nName: {name.replace('_', '-')}\nVersion: {version}\n"
    (root / "PKG-INFO").write_text(fields, encoding="utf-8")
    (root / "setup.cfg").write_text("[egg_info]\ntag_build = \ntag_date = 0\n\n", encoding="utf-8")
    packed = folder / f"{stem}.tar.gz"
    with tarfile.open(packed, "w:gz") as archive:
        archive.add(root, stem)
    return packed.read_bytes()
