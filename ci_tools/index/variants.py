"""Wheel variants: CUDA wheels that an installer selects by the driver and the GPU it finds.

A variant is a copy of a wheel under its plain version, with its requirements in `variant.json` and a label in its file
name. PEP 825 (https://peps.python.org/pep-0825/) defines the format, and its successor, PEP 850, how a machine's
properties are found. Both are drafts, so nothing here is done unless a config asks for it.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from ci_tools.formats.relabel import write_plain
from ci_tools.index.file_names import project_and_version, variant_label
from ci_tools.index.pages import VARIANTS
from ci_tools.index.units import Item, JobEntry
from ci_tools.machine.storage import fill_once, refuse_change, sha256_of
from ci_tools.model.versions import CudaArch

if TYPE_CHECKING:
    from ci_tools.catalog import Catalog
    from ci_tools.index.manifest import Manifest

SCHEMA = "https://variants-schema.wheelnext.dev/peps/850/v0.2.0.json"  # the draft that uv 0.13 knows
NVIDIA = "nvidia"
# The plugins that detect a machine's properties, by namespace. uv runs no plugin: it has this one built in.
PROVIDERS: Mapping[str, Mapping[str, object]] = {
    NVIDIA: {
        "plugin-api": "nvidia_variant_provider.plugin:NvidiaVariantPlugin",
        "requires": ["nvidia-variant-provider"],
    }
}
DRIVER, ARCH = "cuda_version_lower_bound", "sm_arch"
# Code for exactly this chip runs on every GPU that reports sm_90, because there is no 9.1.
NO_OTHER_OF_ITS_KIND = "90a"


class Variant(NamedTuple):
    """The label and properties of a variant: `nvidia :: sm_arch :: 90_real`."""

    label: str
    properties: tuple[str, ...]


def variant_of(made: JobEntry, catalog: Catalog) -> Variant | None:
    """Return the variant of a job's wheels; None if the drafts cannot express their requirements."""
    cuda = next((cuda for cuda in catalog.cuda if made.accelerator == f"cu{cuda.digits}"), None)
    if cuda is None:
        return None
    archs = [CudaArch.parse(arch) for arch in made.archs]
    values = [(DRIVER, str(cuda)), *((ARCH, value) for arch in archs for value in _values(arch))]
    # A label has the same properties in all wheels of a version, but platforms differ in their architectures.
    label = "_".join([made.accelerator, *(part for arch in archs for part in _label_parts(arch))])
    return Variant(label, tuple(sorted({f"{NVIDIA} :: {feature} :: {value}" for feature, value in values})))


def _values(arch: CudaArch) -> Iterator[str]:
    """Yield the provider's names of an architecture, which are CMake's."""
    name = arch.sm.removeprefix("sm_")
    yield f"{name}_real"
    if name == NO_OTHER_OF_ITS_KIND:
        yield f"{arch.capability.digits}_real"
    if arch.ptx:
        yield f"{name}_virtual"


def _label_parts(arch: CudaArch) -> Iterator[str]:
    yield arch.sm.replace("_", "")
    if arch.ptx:
        yield arch.compute.replace("compute_", "ptx")


# ---------------------------------------------------------------- the documents


def dumps(variants: Iterable[Variant]) -> bytes:
    """Return variants as JSON: one for its wheel's `variant.json`, or all of a version for its index."""
    tables = {variant.label: _table(variant) for variant in sorted(variants)}
    spaces = sorted({namespace for table in tables.values() for namespace in table})
    document = {
        "$schema": SCHEMA,
        "default-priorities": {"namespace": spaces},
        "providers": {namespace: PROVIDERS.get(namespace, {}) for namespace in spaces},
        "variants": tables,
    }
    return (json.dumps(document, indent=1) + "\n").encode()


def _table(variant: Variant) -> dict[str, dict[str, list[str]]]:
    """Return a variant's properties by namespace and feature."""
    table: dict[str, dict[str, list[str]]] = {}
    for text in variant.properties:
        namespace, feature, value = text.split(" :: ")
        table.setdefault(namespace, {}).setdefault(feature, []).append(value)
    return table


def documents(manifest: Manifest) -> dict[str, bytes]:
    """Return the `{name}-{version}-variants.json` of every version of a project with variants, by its name."""
    found: dict[str, set[Variant]] = {}
    for file in manifest.files.values():
        if file.variant:
            name = f"{'-'.join(file.name.split('-')[:2])}-variants.json"
            found.setdefault(name, set()).add(Variant(variant_label(file.name), file.variant))
    return {name: dumps(variants) for name, variants in sorted(found.items())}


# ---------------------------------------------------------------- the wheels


def variants_of(items: Iterable[Item], folder: Path, catalog: Catalog, say: Callable[[str], None]) -> tuple[Item, ...]:
    """Return the variants of a release's CUDA wheels, building the missing ones in `folder`.

    A wheel for only one torch has no variant: the drafts cannot express that, and a wheel for another torch would be
    selected. Raises Rejected if a wheel cannot be made into a variant.
    """
    return tuple(_write_variant(item, variant, folder, say) for item, variant in _select_variants(items, catalog))


def _select_variants(items: Iterable[Item], catalog: Catalog) -> Iterator[tuple[Item, Variant]]:
    for item in items:
        variant = variant_of(item.made, catalog) if item.made else None
        if item.made and variant and project_and_version(item.name)[1].local in {None, item.made.accelerator}:
            yield item, variant


def _write_variant(item: Item, variant: Variant, folder: Path, say: Callable[[str], None]) -> Item:
    document = dumps([variant])
    project, version, *tags = item.name.removesuffix(".whl").split("-")
    name = "-".join([project, version.partition("+")[0], *tags, variant.label]) + ".whl"

    def fill(empty: Path) -> None:
        refuse_change(item.path, item.sha256)
        write_plain(item.path, empty / name, {"variant.json": document})

    # The same wheel and the same rules give the same file.
    path = fill_once(folder / f"{item.sha256[:16]}-{variant.label}", fill, say) / name
    return Item(
        path, sha256_of(path), path.stat().st_size, item.made, VARIANTS, variant=variant.properties, gpu=item.gpu
    )
