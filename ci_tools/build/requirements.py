"""Installs what a build requires, torch in parts or as a whole, and checks that it is the torch of the job's cells."""

from __future__ import annotations

import ast
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from ci_tools import catalog as catalogs
from ci_tools.build.bench.copies import Copies
from ci_tools.build.bench.resolved import list_report
from ci_tools.build.sdk.lending import InstallPlace, lend_torch
from ci_tools.build.sdk.torch_choice import Wanted, find_torch
from ci_tools.build.sdk.torch_parts import name_accelerator
from ci_tools.catalog.accelerators.cuda import CUDA
from ci_tools.errors import FatwheelError, MachineError
from ci_tools.machine.context import Outside
from ci_tools.machine.package_index import add_indexes
from ci_tools.machine.process import clean_environment
from ci_tools.machine.python import PACKAGES, Environment, identity
from ci_tools.machine.runner import host
from ci_tools.model.plan import Job, JobKind, Plan
from ci_tools.model.platforms import Accelerator, AcceleratorKind
from ci_tools.model.request import BuildTorch
from ci_tools.model.versions import Minor, name_of_required, parse_requirement, parse_specifiers
from ci_tools.source.project_file import ProjectFile

if TYPE_CHECKING:
    from ci_tools.plan.make import Planned

OF_HOSTS = ("linux-", "windows-amd64")
CPU = "cpu"
NIGHTLY = re.compile(r"\.dev\d+$")
WHOSE = {CPU: "CPU", "cu": "CUDA", "rocm": "ROCm", "xpu": "XPU"}


class Expected(NamedTuple):
    """The torch that a build may have: the start of its version, and its accelerator; an empty field allows any."""

    version: str = ""
    label: str = ""  # cu130, rocm7.1, xpu, cpu


class Needs(NamedTuple):
    """Build requirements beyond the project's own, the version pins of all of them, and which torch may be there."""

    unsaid: tuple[str, ...] = ()
    pins: tuple[str, ...] = ()
    torch: Expected = Expected()  # with another torch, the wheel would be for another torch or accelerator
    parts: bool = False  # whether the build gets the parts of torch that compiling needs
    preferred: str = ""  # the label of the torch to take if any will do
    drops: tuple[str, ...] = ()  # the names of requirements that are not installed
    speaks_for: Accelerator | None = None  # the CUDA that those parts are to answer for, whatever torch they are of
    indexes: tuple[str, ...] = ()  # where a nightly of torch is, beside the places that pip looks at
    exact: tuple[str, ...] = ()  # all that a repeated build installs, whatever pip would choose

    def install(self, requirements: Iterable[str], isolated: Environment, place: InstallPlace) -> None:
        """Install build requirements within the pins and the config's constraints, and of torch its parts if so set.

        Raises MachineError if the torch would be another than the job's.
        """
        variables = add_indexes(isolated.variables, self.indexes)
        dropped = set(map(canonicalize_name, self.drops))
        wanted = {one for one in (*requirements, *self.unsaid) if name_of_required(one) not in dropped}
        if self.parts:
            wanted = self._lend_torch(wanted, isolated, place, variables)
        if not wanted:
            return
        if self.exact:
            wanted = {line for line in self.exact if not (self.parts and _torch_requirement(line))}
        arguments: list[str | Path] = ["--no-deps"] if self.exact else []  # the exact list has them all
        for option, lines in {"-r": sorted(wanted), "-c": () if self.exact else self.pins}.items():
            path = place.scratch / f"requirements{option}.txt"
            path.write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
            arguments += [option, path]
        more = ("-c", place.constraints) if place.constraints and not self.exact else ()

        def install() -> None:
            isolated.install(*arguments, *more, *list_report(isolated), variables=variables)

        if place.installations:
            asked = (*sorted(wanted), "-c", *self.pins, *_lines(place.constraints), *self.indexes)
            place.installations.fill(isolated, asked, install)
        else:
            install()
        require_torch(isolated, self.torch, variables)  # pip may have replaced it

    def _lend_torch(
        self, requirements: set[str], isolated: Environment, place: InstallPlace, variables: Mapping[str, str]
    ) -> set[str]:
        """Put a build torch into the environment if a requirement names torch; return what is left to install."""
        others = {line for line in requirements if not _torch_requirement(line)}
        wanted = self.choose_torch(requirements, isolated.python, place.constraints)
        return others | {*lend_torch(wanted, isolated, place, variables, self.speaks_for)} if wanted else others

    def choose_torch(self, requirements: Iterable[str], python: Path, constraints: Path | None) -> Wanted | None:
        """Return which torch a build gets the parts of; None if no requirement names torch."""
        of_torch = [found for line in requirements if (found := _torch_requirement(line))]
        if not any(one.marker is None or one.marker.evaluate() for one in of_torch):
            return None
        said = [one.specifier for one in (*of_torch, *_of_torch([*self.pins, *_lines(constraints), *self.exact]))]
        specifiers = parse_specifiers(",".join(filter(None, map(str, said))))
        return Wanted(specifiers, self.torch.label, identity(python), self.preferred)


def refuse_other_torch(job: Job, python: Path, planned: Planned, outside: Outside) -> None:
    """Raise MachineError if a job's build would get a torch for another accelerator; fetch the one that it gets.

    Nothing has been compiled by then. Requirements that only the running backend names come later.
    """
    plan, tree = planned.plan, planned.tree
    needs, own = needs_of_job(job, plan), plan.request.build.constraints
    requirements = [*ProjectFile(plan.request, tree).build_requires(), *job.build_requires]
    dropped = {canonicalize_name(name) for name in job.drops}
    kept = [line for line in requirements if name_of_required(line) not in dropped]
    wanted = needs.choose_torch(kept, python, tree.root / own if own else None) if needs.parts else None
    if wanted and wanted.label:
        variables = clean_environment(outside.environ, dict(job.env))
        try:
            environ = {**variables, **add_indexes(variables, needs.indexes)}
            find_torch(wanted, planned.catalog, outside, environ)
        except FatwheelError as error:
            error.message = f"{job.name}: {error.message}"
            raise


def needs_of_job(job: Job, plan: Plan) -> Needs:
    """Return what a job's build needs beside the project's own requirements."""
    pins = (f"torch=={job.exact_torch or job.torch.pin}",) if job.torch else ()
    kind = job.accelerator.kind if job.accelerator else None
    preferred = job.accelerator.label if job.accelerator else ""
    expected, is_cuda = torch_of_job(job), kind == CUDA
    return Needs(
        (*job.build_requires,),
        pins,
        expected,
        takes_parts(plan, kind),
        preferred,
        job.drops,
        job.accelerator if is_cuda and not expected.label else None,
        _list_indexes(job.torch, plan),
        plan.request.run.requires,
    )


def job_of_sdist(plan: Plan) -> Job | None:
    """Return the job whose conditions the sdist's build gets: a native one, for CUDA if there is any.

    A setup.py names its kernels only to a build for CUDA, and setuptools packs the sources that it names.
    """
    native = [job for job in plan.jobs if job.kind is JobKind.NATIVE and job.platform]
    known = [job for job in native if job.accelerator is None or job.accelerator.kind == CUDA]
    return min(
        known, key=lambda job: (job.accelerator is None, not str(job.platform).startswith("linux")), default=None
    )


def needs_of_sdist(plan: Plan) -> Needs:
    """Return the needs of an sdist's build: those of a wheel's build, since it runs the same code."""
    told = job_of_sdist(plan)
    torch = (told and told.torch) or next((job.torch for job in plan.jobs if job.torch), None)
    unsaid = sorted({name for job in plan.jobs for name in job.build_requires})
    pins = (f"torch=={torch.pin}",) if torch else ()
    expected = Expected(str(torch)) if torch and torch.nightly else Expected()
    parts = takes_parts(plan, None)
    speaks_for = told.accelerator if told else None
    return Needs(tuple(unsaid), pins, expected, parts, speaks_for=speaks_for, indexes=_list_indexes(torch, plan))


def _list_indexes(torch: Minor | None, plan: Plan) -> tuple[str, ...]:
    """Return the indexes of a nightly, which the project's own catalog names."""
    return catalogs.load(plan.request.catalog).torch[torch].indexes if torch and torch.nightly else ()


def takes_parts(plan: Plan, kind: AcceleratorKind | None) -> bool:
    """Whether builds for an accelerator on this machine get the parts of torch; else they get a whole torch."""
    return (
        plan.request.build.torch is BuildTorch.PARTS
        and (kind is None or kind.has_parts)
        and host().startswith(OF_HOSTS)
    )


def _lines(path: Path | None) -> Iterator[str]:
    if path:
        yield from path.read_text(encoding="utf-8", errors="replace").splitlines()


def _of_torch(lines: Iterable[str]) -> Iterator[Requirement]:
    for line in lines:
        # what pip takes for a comment (COMMENT_RE of its req_file.py)
        found = _torch_requirement(re.sub(r"(^|\s)#.*", "", line).strip())
        if found and (found.marker is None or found.marker.evaluate()):
            yield found


def _torch_requirement(line: str) -> Requirement | None:
    """Return a requirement of torch itself from an index, or None."""
    if name_of_required(line) != "torch":
        return None
    found = parse_requirement(line)
    return None if found.url else found


class _Torch(NamedTuple):
    """An installed torch: its version with the local part, and its accelerator."""

    version: str
    label: str

    @property
    def public(self) -> str:
        """The version without its local part."""
        return self.version.partition("+")[0]


def torch_of_job(job: Job) -> Expected:
    """Return the torch that a job's cells name.

    The headers of the stable ABI are the same for every accelerator, so that only the version matters for them.
    For ROCm, torch also translates the sources of an extension (hipify), so the build always needs a ROCm torch.
    """
    kind = job.accelerator.kind if job.accelerator else None
    is_stable = job.torch is not None and not job.requires_torch
    is_told = job.torch is not None or job.accelerator is not None
    by_version = not is_told or (is_stable and not (kind and kind.needs_whole_torch))
    label = "" if by_version else job.accelerator.label if job.accelerator else CPU
    return Expected(str(job.torch) if job.torch else "", label)


def require_torch(environment: Environment, expected: Expected, variables: Mapping[str, str] | None = None) -> None:
    """Raise MachineError if the environment has another torch than the expected one; `variables` are for pip.

    If pip installed the right release for another accelerator, it is run again with the right local version:
    of the wheels on all indexes pip prefers the highest local version, so that cu130 hides cu126.
    """
    found = _find_torch(environment.path)
    if found is None or _fits(found, expected):
        return
    if _is_release(found, expected):
        try:
            environment.install(f"torch=={found.public}+{expected.label}", variables=variables)
        except FatwheelError as error:
            raise _other(found, expected) from error
        found = _find_torch(environment.path)
    if found and not _fits(found, expected):
        raise _other(found, expected)


def _fits(found: _Torch, expected: Expected) -> bool:
    label = found.label or CPU
    return _is_release(found, expected) and (not expected.label or f"{label}.".startswith(f"{expected.label}."))


def _is_release(found: _Torch, expected: Expected) -> bool:
    if NIGHTLY.search(found.public):  # pip takes one by itself where an index has nothing else
        return found.public == expected.version
    return not expected.version or f"{found.public}.".startswith(f"{expected.version}.")


def _other(found: _Torch, expected: Expected) -> MachineError:
    wanted = f"{expected.version or 'one'} for {expected.label}" if expected.label else expected.version
    # On PyPI there are no local versions, so that the version may not say the accelerator.
    whose_found = f" for {found.label}" if found.label and found.label not in found.version else ""
    msg = f"the build would get torch {found.version}{whose_found}, expected {wanted}"
    kind = re.sub(r"[\d.]+$", "", expected.label)
    whose = f"{WHOSE[kind]} wheels" if kind else f"torch {expected.version}"
    where = "in the shell or in the platform's `env`"
    hint = f"let pip find upstream's: PIP_EXTRA_INDEX_URL names the index of its {whose}, {where}"
    return MachineError(msg, hint=hint, page="how-to/choose-a-toolchain.md#which-torch-a-build-gets")


# ---------------------------------------------------------------- the installed torch


def installed_version(environment: Environment) -> str:
    """Return the version of an environment's torch with its local part, or "" if it has none."""
    found = _find_torch(environment.path)
    return found.version if found else ""


def torch_headers(environment: Environment) -> Path | None:
    """Return the folder of the headers of an environment's torch, or None if it has none."""
    found = (path for pattern in PACKAGES for path in environment.path.glob(f"{pattern}/torch/include"))
    return next(found, None)


def provide_headers(fetch: Callable[[], Path], isolated: Environment, folder: Path, copies: Copies) -> None:
    """Put torch's headers into `folder`: those of the torch in a build's environment, or else fetched ones."""
    if own := torch_headers(isolated):
        folder.symlink_to(own)
    else:
        copies.put(folder, fetch())


def _find_torch(environment: Path) -> _Torch | None:
    """Return an environment's torch, or None if it has none; torch is not imported."""
    folders = (folder for pattern in PACKAGES for folder in environment.glob(pattern))
    return next((torch for folder in folders for torch in _torches(folder)), None)


def _torches(packages: Path) -> Iterator[_Torch]:
    for found in packages.glob("torch-*.dist-info"):
        version = found.name.removeprefix("torch-").removesuffix(".dist-info")
        said = _constants(packages / "torch" / "version.py")
        version = said.get("__version__") or version
        local = version.partition("+")[2]
        none = CPU if "cuda" in said else local  # upstream's says None of it
        yield _Torch(version, name_accelerator(said, local) or none)


def _constants(path: Path) -> dict[str, str]:
    """Return the string constants of a module by name; any other constant is ""."""
    try:
        module = ast.parse(path.read_text(encoding="utf-8"))  # read, not run
    except (OSError, ValueError, SyntaxError):
        return {}
    found = {}
    for node in module.body:
        if isinstance(node, (ast.AnnAssign, ast.Assign)) and isinstance(node.value, ast.Constant):
            name = ast.unparse(node.target if isinstance(node, ast.AnnAssign) else node.targets[0])
            found[name] = node.value.value if isinstance(node.value.value, str) else ""
    return found
