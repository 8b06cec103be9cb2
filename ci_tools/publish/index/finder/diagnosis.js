"use strict";

// What a pasted text says: an error of an import or an installation, or the output of `python -m
// torch.utils.collect_env`. Everything happens in the page; the text is sent nowhere. A cause has a sign, by which a
// text is known to have it, what it means, and what mends it; the more telling come first.

const CUDA_LIBRARY =
  /lib(?:cudart|cublas(?:Lt)?|cufft|curand|cusolver|cusparse(?:Lt)?|nvrtc|nvJitLink|cupti)\.so\.(\d+)/;
const CAUSES = [
  {
    name: "the GPU is newer than torch",
    sign: /with CUDA capability (sm_\d+\w?) is not compatible with the current PyTorch installation/,
    what: ([, architecture]) => `torch itself has no code for this GPU (${architecture}).`,
    mend: () => "Install a newer torch, for a newer CUDA version, first; then the wheel for that torch.",
  },
  {
    name: "no code for the GPU",
    sign: /no kernel image is available|invalid device function/i,
    what: () => "The library was loaded, and has no code for this GPU.",
    mend: () => "Look at “GPU architectures” below: the wheel has to name yours, or an older one with +PTX.",
  },
  {
    name: "the driver is too old for PTX",
    sign: /PTX was compiled with an unsupported toolchain|UNSUPPORTED_PTX_VERSION/i,
    what: () => "The code for this GPU has to be compiled by the driver, which is older than the CUDA of the wheel.",
    mend: () =>
      "Upgrade the NVIDIA driver, or choose an older CUDA version, or a wheel that names your GPU without +PTX.",
  },
  {
    name: "the driver is too old",
    sign: /driver version is insufficient|driver on your system is too old(?: \(found version (\d+)\))?/i,
    what: ([, found]) =>
      `The NVIDIA driver is too old for the CUDA of torch${found ? `: it knows CUDA ${cudaOf(found)}` : ""}.`,
    mend: () => "Upgrade the driver, or install a torch for an older CUDA version, and then the wheel for that torch.",
  },
  {
    name: "torch has another CUDA",
    sign: new RegExp(`${CUDA_LIBRARY.source}\\S*: cannot open shared object`),
    what: ([, major]) => `The wheel needs the libraries of CUDA ${major}, and the torch here did not bring them.`,
    mend: ([, major]) =>
      `Choose the wheel for the CUDA version of your torch; or install a torch for CUDA ${major} first.`,
  },
  {
    name: "torch is another build",
    sign: /lib(?:torch|c10)\w*\.so: cannot open shared object/,
    what: () => "The wheel is for another build of torch, or torch was not imported before it.",
    mend: () => "Choose the torch that you have, by version and CUDA, and install that wheel.",
  },
  {
    name: "CUDA libraries of two versions",
    sign: /undefined symbol: (?:__)?(?:nccl|cublas|cudnn|cusparse|nvJitLink)\w*|symbol \w+ version lib(?:cu|nv)\w+\.so\.\d+ not defined/,
    what: () =>
      "CUDA libraries of two versions are mixed: another package has replaced some of those that torch needs.",
    mend: () => "Install torch again in a new environment, and this project after it.",
  },
  {
    name: "the C++ ABI is another",
    sign: /undefined symbol: \w*__cxx1112basic_string/,
    what: () =>
      "The wheel was compiled for another torch: the symbol has the new C++ ABI, which torch before 2.7 lacks on Linux.",
    mend: () => "Choose the torch that you have, and install that wheel; or upgrade torch first.",
  },
  {
    name: "torch is another version",
    sign: /undefined symbol: _ZNK?(?:2at|3c10|5torch)\w*|(?:symbol not found|Symbol not found).*(?:_ZNK?(?:2at|3c10|5torch))/,
    what: () => "The wheel was compiled for another version of torch than the one here.",
    mend: () => "Choose the torch that you have, and install that wheel.",
  },
  {
    name: "Windows finds no library",
    sign: /DLL load failed while importing (\w+)/,
    what: ([, module]) =>
      `A library that ${module} needs is not here, or is of another version: mostly torch or its CUDA.`,
    mend: () => "Choose the torch that you have, by version and CUDA, and install that wheel.",
  },
  {
    name: "Linux is too old",
    sign: /version [`'‘](GLIBC_[\d.]+)['’] not found/,
    what: ([, wanted]) => `The wheel was built on a newer Linux: it needs ${wanted.replace("_", " ")}.`,
    mend: () =>
      "Choose a wheel whose name says an older one, such as manylinux_2_28; or use a newer Linux, as in a container.",
  },
  {
    name: "the C++ library is too old",
    sign: /version [`'‘]((?:GLIBCXX|CXXABI)_[\d.]+)['’] not found/,
    what: ([, wanted]) => `The C++ library that was found, libstdc++, is too old: it lacks ${wanted}.`,
    mend: () =>
      "In a conda environment, install libstdcxx-ng; otherwise use a newer Linux, or a wheel for an older one.",
  },
  {
    name: "the wheel is for another Python or system",
    sign: /([\w.+!]+-[\w.+!]+(?:-\d\w*)?-([\w.]+)-[\w.]+-([\w.]+)\.whl) is not a supported wheel/,
    what: ([, , python, system]) => `That file is for ${pythonsOf(python)} on ${systemOf(system)}.`,
    mend: () => "Choose your own Python and system below.",
  },
  {
    name: "the nvcc is another",
    sign: /detected CUDA version \(([\d.]+)\) mismatches the version that was used to compile\s+PyTorch \(([\d.]+)\)/,
    what: ([, nvcc, torch]) => `It was being compiled, with CUDA ${nvcc}, for a torch of CUDA ${torch}.`,
    mend: ([, , torch]) => `A wheel for CUDA ${torch} needs no compiling: take the command below.`,
    wanted: ([, , torch]) => ({ accelerator: `cu${torch.replace(".", "")}` }),
  },
  {
    name: "no nvcc",
    sign: /nvcc was not found|CUDA_HOME (?:environment variable )?is not set|nvcc['’]?: No such file/i,
    what: () => "It was being compiled, and the CUDA compiler is not here.",
    mend: () => "A wheel needs no compiling: take the command below.",
  },
  {
    name: "torch is not seen while building",
    sign: /No module named ['"]torch['"][^]*(?:get_requires_for_build|build_meta|build-isolation)|(?:get_requires_for_build|Getting requirements to build|no-build-isolation)[^]*No module named ['"]torch['"]/,
    what: () => "It was being compiled in an environment of its own, which does not have your torch.",
    mend: () => "A wheel needs no compiling: take the command below.",
  },
  {
    name: "no torch",
    sign: /No module named ['"]torch['"]/,
    what: () => "torch is not installed in the environment that runs this.",
    mend: () => "Install torch there first, and then the wheel for it.",
  },
  {
    name: "no such file for this machine",
    sign: /No matching distribution found for (\S+)|Could not find a version that satisfies the requirement (\S+)|has no wheels with a matching (?:Python|platform)|No solution found when resolving/,
    what: ([, first, second]) =>
      `The index that was asked has no ${first ?? second ?? "file"} for this Python and system, or does not have that version.`,
    mend: () => "The command below names the index, and a version that it has.",
  },
  {
    name: "other bytes",
    sign: /DO NOT MATCH THE HASHES|Hash mismatch for/i,
    what: () => "What came is not what the lock or the link says.",
    mend: () => "Do not install it. Compare the hash with the one below, and tell the project.",
  },
  {
    name: "the system's own Python",
    sign: /externally-managed-environment/,
    what: () => "This Python belongs to the operating system, which does not let pip change it.",
    mend: () => "Make an environment first: python3 -m venv .venv, and then .venv/bin/pip in place of pip.",
  },
  {
    name: "torch without CUDA",
    sign: /Torch not compiled with CUDA enabled/,
    what: () => "The torch here is a build without CUDA.",
    mend: () => "Install a torch for your CUDA version first, and then the wheel for it.",
  },
];

/** Return the CUDA version in a driver's number: 11040 is 11.4. */
function cudaOf(number) {
  return `${Math.floor(number / 1000)}.${Math.floor((number % 1000) / 10)}`;
}

/** Return the Pythons of a wheel's tag in words. */
function pythonsOf(tag) {
  const named = tag.split(".").map((one) => one.match(/^(?:cp|py)(\d)(\d*)$/));
  return named.every(Boolean)
    ? `Python ${named.map(([, major, minor]) => (minor ? `${major}.${minor}` : major)).join(" and ")}`
    : tag;
}

/** Return the system of a wheel's tag in words. */
function systemOf(tag) {
  const system = {
    win: "Windows",
    macosx: "macOS",
    manylinux: "Linux",
    linux: "Linux",
    musllinux: "Linux with musl",
    any: "any system",
  };
  const start = Object.keys(system).find((each) => tag.startsWith(each));
  const machine = /aarch64|arm64/.test(tag) ? " on ARM64" : /x86_64|amd64/.test(tag) ? " on x86_64" : "";
  return start ? `${system[start]}${machine}` : tag;
}

/** Return what a text says of the machine, as values of the axes. */
function environmentIn(text) {
  const said = (pattern) => text.match(pattern)?.[1];
  const torch = said(/PyTorch version\s*:\s*(\d+\.\d+\S*)/);
  const cuda = said(/CUDA used to build PyTorch\s*:\s*(\d+\.\d+)/) ?? said(/PyTorch version\s*:\s*\S+\+cu(\d+)/);
  const rocm = said(/ROCM used to build PyTorch\s*:\s*(\d+\.\d+)/);
  const python =
    said(/Python version\s*:\s*(\d+\.\d+)/) ??
    said(/\.cpython-(\d\d+t?)-/)?.replace(/^(\d)/, "$1.") ??
    said(/[/\\]python(\d\.\d+t?)[/\\](?:site|dist)-packages/i);
  const free = /Python version\s*:.*free-threading/.test(text) ? "t" : "";
  const accelerator = cuda
    ? `cu${cuda.replace(".", "")}`
    : rocm
      ? `rocm${rocm}`
      : torch?.endsWith("+cpu")
        ? ""
        : undefined;
  return known({
    system: systemIn(text),
    accelerator,
    torch: torch?.match(/^\d+\.\d+/)[0],
    python: python && python + free,
  });
}

function systemIn(text) {
  const os = /(?:^|\n)\s*OS\s*:.*Windows|win_amd64|win32/.test(text)
    ? "windows"
    : /(?:^|\n)\s*OS\s*:.*macOS|macosx_|darwin\.so/.test(text)
      ? "macos"
      : /(?:^|\n)\s*OS\s*:.*\(|linux-gnu|linux_|\/lib\S*\.so/.test(text)
        ? "linux"
        : "";
  if (!os) return undefined;
  const machine = os === "macos" || /aarch64|arm64/i.test(text) ? "arm64" : "x86_64";
  return `${os}-${os === "macos" && /\(x86_64\)|macosx_\w+x86_64/.test(text) ? "x86_64" : machine}`;
}

const known = (values) => Object.fromEntries(Object.entries(values).filter(([, value]) => value !== undefined));

/** Return what a pasted text means: its causes, and what it says of the machine. */
function diagnose(text) {
  const first = CAUSES.map((cause) => ({ cause, match: text.match(cause.sign) })).find(({ match }) => match);
  if (!first) return { causes: [], machine: environmentIn(text) };
  const { cause, match } = first;
  const told = { name: cause.name, what: cause.what(match), mend: cause.mend(match) };
  const fromFile = cause.name === "the wheel is for another Python or system"; // its tags are not those of the machine
  return { causes: [told], machine: { ...(fromFile ? {} : environmentIn(text)), ...cause.wanted?.(match) } };
}
