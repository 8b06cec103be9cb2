// What goes wrong with wheels for torch, by the words that people see. A rule has the pattern of these words, and reads
// from the match what is wrong (`title`), why (`why`), and which lines mend it:
//   wheel      this package's line, since the file that is installed is another than it should be
//   torch      the line for torch, then this package's
//   driver     no line: the driver's number, or torch for an older CUDA
//   libraries  the line for torch, and the variable that hides its libraries
//   ""         no line helps
// Whatever it says besides of the machine (`seen`) counts in the choice.

const CUDA_LIBRARIES = "cudart|cublas|cublasLt|cufft|curand|cusolver|cusparse|cusparseLt|cudnn|nvrtc|nccl|nvJitLink";
const TAGS = {
  linux: "Linux",
  manylinux: "Linux",
  musllinux: "Alpine Linux",
  win: "Windows",
  macosx: "macOS",
  any: "any system",
};
const TORCH_SYMBOL = /^_*ZN?[VKTSI]*N?K?(2at|3c10|5torch|6caffe2)/;
const NEW_STRING = /__cxx11|B5cxx11/;
const OLD_STRING = /^_Z\w*?(?:RKSs|ESs|PSs|SsS)/;
const FIRST_NEW_ABI = [2, 7]; // of torch's wheels for Linux: publish/wheel_facts.py

const NOT_FOUND = /a version that satisfies the requirement ([\w.-]+)([^\s(]*).*?\(from versions: ([^)\n]*)/;
const NO_MATCH = /No matching distribution found for ([\w.-]+)(\S*)/;
const MISMATCH = /CUDA version \(([\d.]+)\) mismatches the version that was used to compile\s+PyTorch \((\d+)\.(\d)/;
const UNSUPPORTED = /([^\s/\\'"]{5,200})\.whl is not a supported wheel on this platform/;
const LONGEST_LINE = 1000; // characters of a line, and
const MAX_LINES = 5000; // lines that are read: a pattern may take long for a text that was made to keep it busy

const RULES = [
  {
    name: "undefined symbol",
    pattern: /undefined symbol:?\s*(_?\w+)(?:[,@]?\s*version (\S+))?|symbol not found in flat namespace\s*\(?'?(\w+)/i,
    read: ([, symbol, version, flat], machine) => readSymbol(symbol ?? flat, version ?? "", machine),
  },
  {
    name: "DLL load failed",
    pattern: /DLL load failed while importing (\w+)[^\n]*specified procedure could not be found/i,
    read: ([, name]) => ({
      title: `${name} was built for another torch than the one that is installed.`,
      why: "Windows finds torch's libraries, but not a function that the file wants of them.",
      mend: "wheel",
    }),
  },
  {
    name: "GPU unknown to torch",
    pattern: /([^\n:]{0,80}) with CUDA capability sm_(\d+) is not compatible with the current PyTorch/,
    read: ([, gpu, sm]) => ({
      title: `Your torch has no code for ${gpu.trim() || "this GPU"} (sm_${sm}).`,
      why: "A torch for a newer CUDA has it. Nothing that is built on torch can run before that.",
      mend: "torch",
    }),
  },
  {
    name: "no kernel image",
    pattern: /no kernel image is available/i,
    read: (_, machine) => ({
      title: "What is installed has no code for your GPU.",
      why: machine.gpu
        ? `It was compiled for other GPUs than yours, of compute capability ${machine.gpu}.`
        : "It was compiled for other GPUs than yours. Select your GPU above to see which wheel has code for it.",
      mend: "wheel",
    }),
  },
  {
    name: "no such version, by pip",
    pattern: new RegExp(`${NOT_FOUND.source}|${NO_MATCH.source}`),
    read: ([, name, spec, versions, other, itsSpec]) => readMissing(name ?? other, spec ?? itsSpec, versions ?? ""),
  },
  {
    name: "no such version, by uv",
    pattern: /Because (?:only )?([\w.-]+?)(==[\w.+!-]+)? has no wheels with a matching ([\w ]+?)\s+tag/,
    read: ([, name, spec, tag]) => ({
      title: `There is no file of ${name}${spec ?? ""} for your ${/platform/.test(tag) ? "system" : "Python"}.`,
      why: "uv found the version, but each of its files is for another one.",
      mend: name === "torch" ? "torch" : "wheel",
    }),
  },
  {
    name: "no such version in an index, by uv",
    pattern: /Because (?:there (?:is|are) no versions? of ([\w-]+)|([\w-]+) was not found in the package registry)/,
    read: ([, name, unknown]) => readMissing(name ?? unknown, "", ""),
  },
  {
    name: "a library of the driver",
    pattern: /libcuda\.so(?:\.1)?: cannot open shared object|Found no NVIDIA driver on your system/,
    read: () => ({
      title: "There is no NVIDIA driver here.",
      why: "libcuda.so.1 belongs to the driver, not to a wheel. In a container, start it with --gpus all.",
      mend: "driver",
    }),
  },
  {
    name: "a library of CUDA",
    pattern: new RegExp(`lib(${CUDA_LIBRARIES})\\.so\\.(\\d+)[\\d.]*: cannot open shared object`),
    read: ([, name, major]) => ({
      title: Number(major) > 9 && name !== "cudnn" && name !== "nccl"
        ? `It was built for CUDA ${major}, and the torch here brings no CUDA ${major}.`
        : `It wants lib${name}.so.${major}, and the torch here does not bring it.`,
      why: "torch brings CUDA's libraries along; the file of this package has to be the one for the same CUDA.",
      mend: "torch",
    }),
  },
  {
    name: "a library of torch",
    pattern: /lib(c10|torch)(_cuda|_hip)?\w*\.so: cannot open shared object/,
    read: ([, , accelerator]) => ({
      title: accelerator
        ? `It was built for a torch with ${accelerator === "_cuda" ? "CUDA" : "ROCm"}, and yours has none.`
        : "It cannot find torch.",
      why: accelerator
        ? "What is installed is a torch for the CPU."
        : "torch is not installed, or not imported before it.",
      mend: "torch",
    }),
  },
  {
    name: "driver too old",
    pattern: /CUDA driver version is insufficient|NVIDIA driver on your system is too old|cudaErrorInsufficientDriver/,
    read: (_, machine) => ({
      title: "The NVIDIA driver is too old for the CUDA of your torch.",
      why: machine.driver || machine.driver_cuda
        ? `It is ${driverIn(machine)}.`
        : "nvidia-smi says which driver it is.",
      mend: "driver",
    }),
  },
  {
    name: "wheel for another machine",
    pattern: UNSUPPORTED,
    read: ([, name]) => ({
      title: `That file is for ${tagsInWords(`${name}.whl`)}, and your pip is of another.`,
      why: "`python -m pip --version` says which Python it is, `python -m pip debug --verbose` which tags it takes.",
      mend: /^torch-/.test(name) ? "torch" : "wheel",
    }),
  },
  {
    name: "glibc too old",
    pattern: /version [`'"‘“]?GLIBC_(\d+)\.(\d+)['"’”]? not found/,
    read: ([, major, minor], machine) => ({
      title: `It needs glibc ${major}.${minor}, and your system has an older one${inBrackets(machine.libc)}.`,
      why: "The system's C library cannot be replaced. A wheel that was built on an older system helps.",
      mend: "wheel",
      seen: { libc: machine.libc ?? `glibc ${major}.${Number(minor) - 1}` },
    }),
  },
  {
    name: "libstdc++ too old",
    pattern: /version [`'"‘“]?(GLIBCXX|CXXABI)_([\d.]+)['"’”]? not found/,
    read: ([, kind, version]) => ({
      title: `The libstdc++ that is found first is too old: it has no ${kind}_${version}.`,
      why: "In conda, libstdcxx-ng of conda-forge brings a newer one; else the system's has to be updated.",
      mend: "",
    }),
  },
  {
    name: "torch without CUDA",
    pattern: /Torch not compiled with CUDA enabled/,
    read: () => ({ title: "Your torch is a build for the CPU.", why: "It has no CUDA in it.", mend: "torch" }),
  },
  {
    name: "compiled, with another CUDA",
    pattern: MISMATCH,
    read: ([, nvcc, major, minor]) => ({
      title: `It is being compiled, with the compiler of CUDA ${nvcc} for a torch of CUDA ${major}.${minor}.`,
      why: "A wheel that is built already needs no compiler.",
      mend: "wheel",
      seen: { accelerator: `cu${major}${minor}` },
    }),
  },
  {
    name: "compiled, without a compiler",
    pattern: /CUDA_HOME environment variable is not set|nvcc was not found/,
    read: () => ({
      title: "It is being compiled, and there is no CUDA compiler.",
      why: "pip took the source, since it saw no wheel that fits. A wheel that is built already needs no compiler.",
      mend: "torch",
    }),
  },
  {
    name: "compiled, without torch",
    pattern: /No module named ['"]?torch['"]?/,
    read: () => ({
      title: "It is being compiled, or imported, where there is no torch.",
      why: "pip compiles in an environment of its own, which does not have your torch. A wheel is not compiled.",
      mend: "torch",
    }),
  },
];

/** Return what is wrong by a rule, with its name, for each rule that knows words of a text; and what is seen in it. */
function diagnose(pasted) {
  const lines = pasted.split("\n", MAX_LINES).map((line) => line.slice(0, LONGEST_LINE));
  const text = lines.join("\n");
  const machine = readMachine(text);
  const errors = [];
  for (const { name, pattern, read } of RULES) {
    const match = pattern.exec(text);
    if (!match) continue;
    const { seen = {}, ...error } = read(match, machine);
    for (const [fact, value] of Object.entries(seen)) machine[fact] ??= value;
    if (!errors.some(({ title }) => title === error.title)) errors.push({ name, ...error });
  }
  return { machine, errors, project: projectIn(text) };
}

function readSymbol(symbol, version, machine) {
  if (new RegExp(`^(__)?(${CUDA_LIBRARIES})|^lib(${CUDA_LIBRARIES})`, "i").test(symbol) || /^lib/.test(version)) {
    return {
      title: "torch finds another CUDA library than the one it brings.",
      why: `${symbol} is not in the ${version || "library"} that is found first; LD_LIBRARY_PATH may name it.`,
      mend: "libraries",
    };
  }
  if (/^_?Py/.test(symbol)) {
    return {
      title: "It was built for another Python.",
      why: `${symbol} is a function of Python that the one running it does not have.`,
      mend: "wheel",
    };
  }
  if (/^aoti_torch_|^torch_/.test(symbol)) {
    const why = `${symbol} came into torch later than yours.`;
    return { title: "It was built for a newer torch.", why, mend: "torch" };
  }
  if (!TORCH_SYMBOL.test(symbol)) {
    return {
      title: "A part of it is missing in the file that is installed.",
      why: `${symbol} is neither a function of torch nor of CUDA: it was left out when this file was built.`,
      mend: "wheel",
    };
  }
  return { ...readAbi(symbol, machine), mend: "wheel" };
}

/** Return what a missing function of torch tells: the two C++ ABIs write a std::string differently. */
function readAbi(symbol, machine) {
  const here = machine.torch ? `torch ${machine.torch}` : "the torch that is installed";
  const isNew = machine.torch && compareParts(numbersIn(machine.torch).slice(0, 2), FIRST_NEW_ABI) >= 0;
  if (NEW_STRING.test(symbol) && !isNew) {
    return {
      title: `It was built for another torch than ${here}, or for the other C++ ABI.`,
      why: "It wants the new C++ ABI (_GLIBCXX_USE_CXX11_ABI=1). torch's wheels for Linux have it from 2.7 on.",
      ...(machine.torch ? { seen: { cxx11abi: false } } : {}),
    };
  }
  if (OLD_STRING.test(symbol)) {
    return {
      title: `It was built for another torch than ${here}, or for the other C++ ABI.`,
      why: "It wants the old C++ ABI (_GLIBCXX_USE_CXX11_ABI=0), which torch's wheels for Linux had up to 2.6.",
    };
  }
  return {
    title: `It was built for another torch than ${here}.`,
    why: "torch's C++ functions change from version to version, and it wants one that is not there.",
  };
}

function readMissing(name, spec, versions) {
  const isNone = !versions || versions.trim() === "none";
  const what = `${name}${spec}`;
  const local = /\+(cu\d+|cpu|rocm[\d.]+|xpu)/.exec(spec);
  const minor = /==(\d+\.\d+)/.exec(spec);
  const seen = name !== "torch" ? {} : {
    ...(minor ? { torch: minor[1] } : {}),
    ...(local ? { accelerator: local[1] === "cpu" ? "" : local[1] } : {}),
  };
  return {
    title: isNone
      ? `The index has no file of ${what} for your Python and system.`
      : `The index has no ${what}, but others.`,
    why: local
      ? "A version with a + lies in an index of its own, which the line has to name."
      : "An installer sees only the files for its own Python and system, and only in the indexes that it is told of.",
    mend: name === "torch" ? "torch" : "wheel",
    seen,
  };
}

/** Return the project that a text is about, by the file or module that fails; "" if it names none. */
function projectIn(text) {
  const found = /(?:^|\s)([\w.]{1,100})-\d[^\s/\\]{5,200}\.whl is not a supported/.exec(text)
    ?? /site-packages[/\\](\w{1,100})[/\\][^\n]*undefined symbol/.exec(text)
    ?? /(?:requirement|distribution found for) ([\w.-]{1,100})/.exec(text)
    ?? /site-packages[/\\]((?!torch[/\\])\w{1,100})[/\\]/.exec(text);
  return found ? found[1].toLowerCase().replace(/[-_.]+/g, "-") : "";
}

function tagsInWords(file) {
  const [pythons, , platforms] = tagsOf(file);
  const inWords = (tag) => tag.replace(/^cp(\d)(\d+)$/, "Python $1.$2").replace(/^py\d$/, "any Python");
  const python = pythons.split(".").map(inWords);
  const [platform] = platforms.split(".");
  const machine = /(x86_64|amd64|aarch64|arm64|i686|universal2|win32)$/.exec(platform)?.[1] ?? "";
  return `${listed(python)} on ${own(TAGS, /^[a-z]+/.exec(platform)?.[0]) ?? platform} ${machine}`.trim();
}

function driverIn({ driver, driver_cuda: cuda }) {
  return [driver, cuda && `${driver ? "(" : ""}of CUDA ${cuda}${driver ? ")" : ""}`].filter(Boolean).join(" ");
}

function inBrackets(text) {
  return text ? ` (${text})` : "";
}
