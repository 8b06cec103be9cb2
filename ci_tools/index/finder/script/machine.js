// A machine: the facts that the choice asks for, from what a visitor selects and from what a paste says.

const PLATFORMS = {
  "linux-x86_64": "linux_x86_64",
  "linux-arm64": "linux_aarch64",
  "windows-x86_64": "win_amd64",
  "windows-arm64": "win_arm64",
  "macos-arm64": "macosx_0_0_arm64",
  "macos-x86_64": "macosx_0_0_x86_64",
};

// Compute capabilities, the products people know them by, and how tools name these. The first that matches counts.
// Source: NVIDIA, "CUDA GPU Compute Capability"; Tegra as in fatwheel_backend.py.
const GPUS = [
  { capability: "12.1", label: "DGX Spark", pattern: /\bGB10\b|DGX Spark/i },
  { capability: "12.0", label: "RTX 50, RTX PRO Blackwell", pattern: /RTX 50\d\d|RTX PRO \d+ .*Blackwell/i },
  { capability: "11.0", label: "Jetson Thor", pattern: /\bThor\b/i },
  { capability: "10.3", label: "B300, GB300", pattern: /\bG?B300\b/i },
  { capability: "10.0", label: "B200, GB200", pattern: /\bG?B[12]00\b/i },
  { capability: "9.0", label: "H100, H200, GH200", pattern: /\bG?H(?:20|[128]00)\b/i },
  { capability: "8.9", label: "RTX 40, L4, L40, RTX Ada", pattern: /RTX 40\d\d|\bL40?S?\b|Ada Generation/i },
  { capability: "8.7", label: "Jetson Orin", pattern: /\bOrin\b/i },
  { capability: "8.0", label: "A100, A30", pattern: /\bA(?:100|800|30)\b/i },
  { capability: "8.6", label: "RTX 30, A10, A40, RTX A", pattern: /RTX 30\d\d|RTX A\d{3,4}|\bA(?:10G?|2|16|40)\b/i },
  { capability: "7.5", label: "T4, RTX 20, GTX 16", pattern: /\bT4\b|RTX 20\d\d|GTX 16\d\d|Quadro RTX|TITAN RTX/i },
  { capability: "7.2", label: "Jetson Xavier", pattern: /\bXavier\b/i },
  { capability: "7.0", label: "V100, Titan V", pattern: /\bV100\b|TITAN V\b/i },
  { capability: "6.1", label: "GTX 10, P40, P4", pattern: /GTX 10\d\d|TITAN Xp?\b|\bP40?\b|Quadro P\d{3,4}/i },
  { capability: "6.0", label: "P100", pattern: /\bP100\b/i },
];

/** Return the facts of a machine as the choice takes them. What is seen counts more than what is assumed. */
function factsOf({ system, accelerator, torch, python, gpu }, seen, files) {
  const [, cuda] = /^cu(\d+\d)$/.exec(accelerator) ?? [];
  const version = cuda && `${cuda.slice(0, -1)}.${cuda.slice(-1)}`;
  const [, rocm] = /^rocm([\d.]+)$/.exec(accelerator) ?? [];
  const build = torch && `${seen.torch ?? torch}${accelerator && !seen.torch ? `+${accelerator}` : ""}`;
  return {
    implementation: "cpython",
    python: python.replace(/t$/, ""),
    free_threaded: python.endsWith("t"),
    ...assumedSystem(system, seen, files),
    torch: build || null,
    torch_cuda: (torch && version) || null,
    torch_rocm: (torch && rocm) || null,
    torch_xpu: torch && accelerator === "xpu" ? "xpu" : null,
    cxx11abi: seen.cxx11abi ?? null,
    driver: seen.driver ?? null,
    driver_cuda: seen.driver_cuda ?? null,
    gpus: gpu ? [gpu] : [],
    asked_cuda: torch ? null : version ?? "none",
  };
}

/** Return a system's tag and C library: nobody is asked for their versions, so they are new enough for every file. */
function assumedSystem(system, seen, files) {
  const platform = own(PLATFORMS, system) ?? system.replace(/-/g, "_");
  const newest = (pattern, least) => files
    .flatMap((file) => [...file.matchAll(pattern)].map((found) => [Number(found[1]), Number(found[2])]))
    .reduce((a, b) => (compareParts(a, b) < 0 ? b : a), least);
  if (platform.startsWith("linux")) {
    return { platform, libc: seen.libc ?? `glibc ${newest(/manylinux_(\d+)_(\d+)_/g, [2, 28]).join(".")}` };
  }
  if (!platform.startsWith("macosx")) return { platform, libc: "" };
  return { platform: platform.replace("0_0", newest(/macosx_(\d+)_(\d+)_/g, [11, 0]).join("_")), libc: "" };
}

/** Return why PyTorch has no such build, as far as this page knows; "" if it has one. */
function torchGap({ system, accelerator, torch, python }, labelOf) {
  const release = own(TORCHES, torch);
  if (!release) return "";
  const pythons = own(release.pythons, system);
  if (pythons && python && !pythons.includes(python)) {
    return `PyTorch ${torch} has no build for Python ${python}; it has them for ${listed(pythons)}.`;
  }
  if (!accelerator) return "";
  const kind = (label) => /^[a-z]*/.exec(label)[0];
  if (system.startsWith("macos")) return `PyTorch has no build for ${labelOf(accelerator)} on macOS.`;
  const alike = (own(release.builds, system) ?? []).filter((label) => kind(label) === kind(accelerator));
  if (!alike.length || alike.includes(accelerator)) return "";
  return `PyTorch has no ${torch} for ${labelOf(accelerator)}; it has it for ${listed(alike.map(labelOf))}.`;
}

/** Return a value of a table, unless its name is one that every object has. */
function own(table, name) {
  return Object.hasOwn(table, name) ? table[name] : undefined;
}

function listed(texts) {
  const last = texts.length - 1;
  return last > 0 ? `${texts.slice(0, last).join(", ")} and ${texts[last]}` : texts.join("");
}

/** Return a label of an accelerator in words, CUDA 13.0, where the data of a project has none for it. */
function accelerated(label) {
  const cuda = /^cu(\d+)(\d)$/.exec(label);
  if (cuda) return `CUDA ${cuda[1]}.${cuda[2]}`;
  return label.startsWith("rocm") ? `ROCm ${label.slice(4)}` : { "": "no CUDA", xpu: "Intel XPU" }[label] ?? label;
}

// ---- what a paste says of a machine

// Each reader returns some facts from a match in the text: the first one that matches says them.
const READERS = [
  { pattern: /PyTorch version\s*:\s*(\d+\.\d+\S*)/, read: ([, torch]) => readTorch(torch) },
  { pattern: /torch\.__version__[^\n]*\n?\D{0,12}(\d+\.\d+\.\d+[^\s'"]*)/, read: ([, torch]) => readTorch(torch) },
  { pattern: /^Name: torch\r?\nVersion: (\S+)/m, read: ([, torch]) => readTorch(torch) },
  {
    pattern: /CUDA used to build PyTorch\s*:\s*(\d+)\.(\d)/,
    read: ([, major, minor]) => ({ accelerator: `cu${major}${minor}` }),
  },
  { pattern: /ROCM used to build PyTorch\s*:\s*(\d+\.\d+)/, read: ([, rocm]) => ({ accelerator: `rocm${rocm}` }) },
  { pattern: /CUDA used to build PyTorch\s*:\s*(?:None|Could not collect)/, read: () => ({ accelerator: "" }) },
  {
    pattern: /Python version\s*:\s*(\d+\.\d+)[^\n]*/,
    read: ([line, python]) => ({ python: `${python}${/free-threading/.test(line) ? "t" : ""}` }),
  },
  { pattern: /\.cpython-(\d)(\d+)(t?)-/, read: ([, major, minor, t]) => ({ python: `${major}.${minor}${t}` }) },
  { pattern: /\.cp(\d)(\d+)(t?)-win/, read: ([, major, minor, t]) => ({ python: `${major}.${minor}${t}` }) },
  { pattern: /[/\\]python(\d\.\d+t?)[/\\](?:site|dist)-packages/i, read: ([, python]) => ({ python }) },
  { pattern: /Python platform\s*:\s*(\S+)/, read: ([, name]) => ({ system: readSystem(name) }) },
  { pattern: /\b(x86_64|aarch64)-linux-gnu\b/, read: ([, machine]) => ({ system: readSystem(`linux-${machine}`) }) },
  { pattern: /\bneed ['(]*(arm64|x86_64)/, read: ([, machine]) => ({ system: `macos-${machine}` }) },
  { pattern: /You're on macOS \(\W?macosx_\d+_\d+_(arm64|x86_64)/, read: ([, mac]) => ({ system: `macos-${mac}` }) },
  {
    pattern: /\bdlopen\(|\.dylib\b|-darwin\.so|flat namespace|\/opt\/homebrew|xcrun: |\bmacOS \d/,
    read: () => ({ os: "macos" }),
  },
  { pattern: /-win_amd64\.pyd|\b[A-Z]:\\|PS [A-Z]:/, read: () => ({ system: "windows-x86_64" }) },
  { pattern: /Libc version\s*:\s*glibc-(\d+\.\d+)/, read: ([, glibc]) => ({ libc: `glibc ${glibc}` }) },
  { pattern: /with-glibc(\d+\.\d+)/, read: ([, glibc]) => ({ libc: `glibc ${glibc}` }) },
  {
    pattern: /version '?GLIBC_(\d+)\.(\d+)'? not found/, // so it is older
    read: ([, major, minor]) => ({ libc: `glibc ${major}.${minor - 1}` }),
  },
  { pattern: /Nvidia driver version\s*:\s*(\d+\.[\d.]+)/, read: ([, driver]) => ({ driver }) },
  {
    pattern: /Driver Version:\s*(\d+\.[\d.]+)\s+CUDA Version:\s*(\d+\.\d+)/,
    read: ([, driver, cuda]) => ({ driver, driver_cuda: cuda }),
  },
  {
    pattern: /\(found version (\d+)(\d\d)0\)/,
    read: ([, major, minor]) => ({ driver_cuda: `${Number(major)}.${Number(minor)}` }),
  },
  { pattern: /CUDA capability sm_(\d+)(\d)[af]?\b/, read: ([, major, minor]) => ({ gpu: `${major}.${minor}` }) },
  { pattern: /which is of (?:cuda )?capability (\d+\.\d)/, read: ([, gpu]) => ({ gpu }) },
  {
    pattern: /used to compile\s*PyTorch \((\d+)\.(\d)\)/,
    read: ([, major, minor]) => ({ accelerator: `cu${major}${minor}` }),
  },
  { pattern: /\bGPU \d+\s*:\s*([^\n(]+)/, read: ([, name]) => readGpu(name) },
  { pattern: /(?:NVIDIA (?:GeForce|RTX|Tesla)|Quadro|Tesla) [^|\n]{2,40}/i, read: ([name]) => readGpu(name) },
];

/** Return what a text says of a machine: some of system, accelerator, torch, python, gpu, libc and drivers. */
function readMachine(text) {
  const found = {};
  for (const { pattern, read } of READERS) {
    const match = pattern.exec(text);
    if (!match) continue;
    for (const [name, value] of Object.entries(read(match))) if (value !== undefined) found[name] ??= value;
  }
  return found;
}

/** Return the facts in a version of torch: 2.10.0+cu130. */
function readTorch(torch) {
  const [version, local] = torch.split("+");
  const labels = local === undefined ? {} : { accelerator: local === "cpu" ? "" : local };
  return /^(cpu|cu\d+|rocm[\d.]+|xpu)$/.test(local ?? "cpu") ? { torch: version, ...labels } : { torch: version };
}

function readSystem(name) {
  const text = name.toLowerCase();
  const os = ["linux", "windows", "macos"].find((each) => text.startsWith(each));
  const machine = /aarch64|arm64/.test(text) ? "arm64" : "x86_64";
  return os && `${os}-${machine}`;
}

function readGpu(name) {
  return { gpu: GPUS.find(({ pattern }) => pattern.test(name))?.capability };
}
