"""The guard of a package, with real installers: the command that it names mends what it complains about."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import zipfile
from collections.abc import Callable, Mapping
from importlib.metadata import distribution
from pathlib import Path

import pytest

from ci_tools import install
from ci_tools.machine.storage import sha256_of
from tests.builders.smart_sdists import environ_of, locked, smart_sdist
from tests.builders.wheels import library, linked, make
from tests.servers.assets import assets
from tests.servers.package_index import over_http
from tests.servers.prepared import ROOT, TORCH, run_prepared
from tests.servers.uploads import UV

pytestmark = pytest.mark.slow

GUARD = Path(install.__file__).with_name("guard.py").read_bytes()
LOADING = """
import sys
import torch
from ci_tools.install import guard
try:
    with guard.for_this_torch("demo"):
        torch.ops.load_library(sys.argv[1])
except ImportError as error:
    print(error)
"""
DEMO = 'from _demo_guard import for_this_torch\nwith for_this_torch("demo"):\n    kind = "cu{}"\n'


def install_torch(site: Path, cuda: str) -> None:
    """Put a torch that is only its version into an environment."""
    (site / "torch").mkdir(exist_ok=True)
    text = f"__version__ = '2.11.0+cu{cuda.replace('.', '')}'\ncuda = '{cuda}'\nhip = None\n"
    (site / "torch/version.py").write_text(text)
    (site / "torch/__init__.py").write_text("from torch import version\n__version__ = version.__version__\n")


def install_pip(env: Path, site: Path) -> None:
    """Put the pip of this Python into an environment: a new one would be compiled first, which takes longer."""
    (site / "pip").symlink_to(Path(str(distribution("pip").locate_file("pip"))))
    script = env / "bin/pip"
    script.write_text(f"#!{env}/bin/python\nimport sys\nfrom pip._internal.cli.main import main\nsys.exit(main())\n")
    script.chmod(0o755)


def say(words: list[str], environ: Mapping[str, str]) -> str:
    """Return what a command says, whether it fails or not."""
    done = subprocess.run(words, env=environ, capture_output=True, text=True, check=False)
    return done.stdout + done.stderr


@pytest.mark.parametrize("client", ["pip", "uv"])
def test_the_command_that_it_names_installs_the_wheel_that_fits(client: str, tmp_path: Path) -> None:
    env = tmp_path / "env"
    subprocess.run([UV, "venv", "--quiet", "--python", sys.executable, env], check=True)
    (site,) = env.glob("lib/python*/site-packages")
    install_pip(env, site)
    with assets(tmp_path / "assets") as server, over_http(tmp_path / "index") as url:
        wheels = [
            (make(tmp_path / "assets", f"demo-1.0+cu{label}-py3-none-any.whl",
                  {"demo.py": DEMO.format(label).encode(), "_demo_guard.py": GUARD}), cuda)
            for label, cuda in (("128", "12.8"), ("130", "13.0"))
        ]  # fmt: skip
        made = smart_sdist([locked(wheel, server.url, cuda=cuda) for wheel, cuda in wheels], tmp_path)
        page = tmp_path / "index/simple/demo/index.html"
        page.parent.mkdir(parents=True)
        made.rename(page.with_name(made.name))
        page.write_text(f'<a href="{made.name}#sha256={sha256_of(page.with_name(made.name))}">{made.name}</a>')
        environ = environ_of(tmp_path, {
            "PIP_INDEX_URL": f"{url}/simple/", "PIP_CACHE_DIR": str(tmp_path / "pip"), "VIRTUAL_ENV": str(env),
            "UV_DEFAULT_INDEX": f"{url}/simple/", "PYTHONDONTWRITEBYTECODE": "1", "UV_CACHE_DIR": str(tmp_path / "uv"),
            "PATH": f"{env / 'bin'}:{Path(UV).parent}:/usr/bin:/bin",
        })  # fmt: skip
        importing = [str(env / "bin/python"), "-c", "import demo; print(demo.kind)"]
        first = {"pip": "pip install demo", "uv": "DEMO_FOR_TORCH=2.11.0+cu128 uv pip install demo"}[client]
        install_torch(site, "12.8")
        said = say(["sh", "-c", first], environ)
        assert say(importing, environ).strip() == "cu128", said
        install_torch(site, "13.0")
        broken = say(importing, environ)
        assert "demo is for CUDA 12.8, and torch 2.11.0+cu130 has CUDA 13.0. " in broken
        commands = re.findall(r"`([^`]*)`", broken)
        (command,) = (one for one in commands if f"{client} " in one.replace("uv pip", "uv"))
        said = say(["sh", "-c", command], environ)
        assert say(importing, environ).strip() == "cu130", said


@pytest.mark.parametrize(
    ("made", "reason"),
    [
        pytest.param(
            lambda: library("void of_another_torch(void); void init(void) { of_another_torch(); }\n"),
            "undefined symbol: of_another_torch",
            id="symbol",
        ),
        pytest.param(
            lambda: linked("int unused;\n", "-Wl,--no-as-needed", needs="libcudart.so.99"),
            "libcudart.so.99: cannot open shared object file",
            id="library",
        ),
    ],
)
def test_a_library_that_torch_cannot_load_is_explained(made: Callable[[], bytes], reason: str, tmp_path: Path) -> None:
    path = tmp_path / "library.so"
    path.write_bytes(made())
    done = run_prepared(["-c", LOADING, str(path)], env={**os.environ, "PYTHONPATH": str(ROOT)}, program=TORCH)
    assert done.returncode == 0, done.stderr
    assert reason in done.stdout
    assert done.stdout.startswith("demo does not fit the torch here: ")
    assert "Choose again: `pip install --force-reinstall " in done.stdout


@pytest.mark.parametrize(
    ("requires", "wanted"),
    [
        pytest.param("torch>=2.10,<2.11", "torch>=2.10,<2.11", id="a-range"),
        pytest.param("torch-geometric", "torch", id="another-project"),
        pytest.param('torch>=2.10 ; python_version >= "3.10"', "torch>=2.10", id="a-marker"),
    ],
)
def test_a_missing_torch_is_named_with_what_installs_it(requires: str, wanted: str, tmp_path: Path) -> None:
    files = {"my_demo/__init__.py": b"from my_demo import _guard\n", "my_demo/_guard.py": GUARD}
    wheel = make(tmp_path, "my_demo-1.0-py3-none-any.whl", files, f"Requires-Dist: {requires}\n")
    with zipfile.ZipFile(wheel) as archive:
        archive.extractall(tmp_path / "site")
    code = f"import sys; sys.path.insert(0, {str(tmp_path / 'site')!r}); import my_demo"
    done = subprocess.run([sys.executable, "-ISc", code], capture_output=True, text=True, check=False)
    assert done.stderr.splitlines()[-1] == (
        f'ImportError: my_demo needs torch, which is missing: `pip install "{wanted}"`, or `uv pip install "{wanted}"`.'
    )
