"""A SYCL compiler of parts of the package index, in place of icpx, which no index has.

Device code is compiled by DPC++ itself: the library libsycl-jit of `intel-sycl-rt`, through the runtime's own interface
for source text (sycl_ext_oneapi_kernel_compiler_sycl). Host code is compiled by g++ with the SYCL headers of the same
package. What is ours is the program that stands between them. It embeds the SPIR-V with the descriptor that icpx
writes, and the runtime accepts it: it registers the image, finds the kernel and runs it, on a CPU by `intel-opencl-rt`.
"""

from __future__ import annotations

import os
import subprocess
from collections.abc import Mapping
from pathlib import Path

# The folder that `pip install --prefix FOLDER intel-sycl-rt==2026.2.0 intel-opencl-rt==2026.2.0` filled: 1.5 GB.
PREFIX = Path(os.environ.get("FATWHEEL_TEST_SYCL") or "/nowhere").expanduser()
WHY = "FATWHEEL_TEST_SYCL names no folder with intel-sycl-rt and intel-opencl-rt"
VERSION = "2026.2"
COMPILE_DEVICE_CODE = r"""
#define SYCL_DISABLE_FSYCL_SYCLHPP_WARNING
#include <fstream>
#include <iostream>
#include <sstream>
#include <sycl/sycl.hpp>
namespace experimental = sycl::ext::oneapi::experimental;

int main(int, char **argv) {
  std::stringstream text;
  text << std::ifstream(argv[1]).rdbuf();
  sycl::queue queue;
  auto source = experimental::create_kernel_bundle_from_source(queue.get_context(),
                                                               experimental::source_language::sycl, text.str());
  std::string log;
  try {
    experimental::build(source, experimental::properties{experimental::save_log(&log)});
  } catch (const sycl::exception &error) {
    std::cerr << error.what() << log;
    return 1;
  }
}
"""
REGISTER = """\
asm(".section \\"__CLANG_OFFLOAD_BUNDLE__sycl-spir64\\",\\"a\\"\\n.balign 16\\n"
    "code: .incbin \\"{code}\\"\\nend:\\n.previous\\n");
extern const unsigned char code[] __attribute__((visibility("hidden"))), end[] __attribute__((visibility("hidden")));
struct kernel {{ void *address; const char *name; unsigned long size; int flags, reserved; }};
static struct kernel kernels[] = {{ {kernels} }};
static struct {{
  unsigned short version; unsigned char kind, form;
  const char *target, *compile, *link;
  const unsigned char *start, *end;
  void *first, *last, *properties, *properties_end;
}} image = {{ 3, 4, 0, "spir64", "", "", code, end, kernels, kernels + {count}, 0, 0 }};
static struct {{ unsigned short version, count; void *images, *first, *last; }} images = {{ 1, 1, &image, 0, 0 }};
extern void __sycl_register_lib(void *), __sycl_unregister_lib(void *);
__attribute__((constructor)) static void add(void) {{ __sycl_register_lib(&images); }}
__attribute__((destructor)) static void drop(void) {{ __sycl_unregister_lib(&images); }}
asm(".section .tgtimg,\\"aw\\"\\n.quad code, {size}\\n.previous\\n");
"""
# It knows what a setup.py calls: one source into one object.
DRIVER = """#!{python} -I
import os, re, subprocess, sys, tempfile
PREFIX, PROGRAM, TEMPLATE, VARIABLES = {prefix!r}, {program!r}, {template!r}, {variables!r}
asked = sys.argv[1:]
if "--version" in asked:
    print("Intel(R) oneAPI DPC++/C++ Compiler {version}.0 (its library libsycl-jit, driven by a test)")
    sys.exit()
host = ["g++", "-std=c++17", f"-I{{PREFIX}}/include", "-DSYCL_DISABLE_FSYCL_SYCLHPP_WARNING"]
rest = [word for word in asked if not word.startswith(("-fsycl", "-std="))]
sources = [word for word in rest if word.endswith(".sycl")]
if not sources:
    sys.exit(subprocess.call([*host, *rest]))
with tempfile.TemporaryDirectory() as folder:
    variables = {{**os.environ, **VARIABLES, "SYCL_DUMP_IMAGES": "1", "SYCL_CACHE_PERSISTENT": "0"}}
    done = subprocess.run([PROGRAM, os.path.abspath(sources[0])], cwd=folder, env=variables)
    if done.returncode:
        sys.exit(done.returncode)
    code = os.path.join(folder, "sycl_spir64.spv")
    with open(code, "rb") as file:
        content = file.read()
    names = sorted(set(re.findall(rb"__sycl_kernel_\\w+", content)))
    kernels = ", ".join(f'{{{{0, "{{name.decode()}}", 0, 0, 0}}}}' for name in names)
    text = TEMPLATE.format(code=code, kernels=kernels, count=len(names), size=len(content))
    words = [word for word in rest if word != sources[0] and not word.startswith("-I")]
    done = subprocess.run(["gcc", "-x", "c", *words, "-"], input=text.encode())
    sys.exit(done.returncode)
"""


def is_there() -> bool:
    """Whether this machine has the packages."""
    return (PREFIX / "lib/libsycl-jit.so").is_file() and (PREFIX / "lib/libintelocl.so").is_file()


def run_variables() -> Mapping[str, str]:
    """Return the variables with which a process finds the runtime of SYCL and, as its device, this machine's CPU."""
    lib = PREFIX / "lib"
    return {"LD_LIBRARY_PATH": str(lib), "OCL_ICD_FILENAMES": str(lib / "libintelocl.so")}


def install_compiler(folder: Path, python: str) -> Path:
    """Write the compiler into a folder that looks like that of oneAPI; return it, for CMPLR_ROOT."""
    home = folder / "compiler" / VERSION
    (home / "bin").mkdir(parents=True)
    for name in ("include", "lib"):
        (home / name).symlink_to(PREFIX / name)
    program = home / "bin/compile-device-code"
    flags = ["-std=c++17", f"-I{PREFIX}/include", f"-L{PREFIX}/lib", "-x", "c++", "-", "-lsycl"]
    subprocess.run(["g++", *flags, "-o", str(program)], input=COMPILE_DEVICE_CODE.encode(), check=True)
    text = DRIVER.format(
        python=python,
        prefix=str(PREFIX),
        program=str(program),
        template=REGISTER,
        variables=dict(run_variables()),
        version=VERSION,
    )
    (home / "bin/icpx").write_text(text, encoding="utf-8")
    (home / "bin/icpx").chmod(0o755)
    return home
