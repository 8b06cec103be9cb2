// The choice of a wheel for a machine: the twin of `choose` in ci_tools/install/fatwheel_backend.py, which is what
// `pip install` of a smart sdist asks. A test holds both to the same answer and the same sentences: change both.

const OLD_MANYLINUX = { manylinux1: [2, 5], manylinux2010: [2, 12], manylinux2014: [2, 17] }; // PEP 600

/** Return the wheel of a lock that serves a machine best, null if none does, and for each why it is taken or not. */
function chooseWheel(lock, facts) {
  const judged = lock.wheels.map((wheel) => ({ wheel, why: refuseWheel(wheel, facts) }));
  const fitting = judged.filter(({ why }) => !why).map(({ wheel }) => ({ wheel, rank: rankOf(wheel, facts) }));
  const best = fitting.reduce((a, b) => (a === null || compareParts(a.rank, b.rank) < 0 ? b : a), null);
  const taken = best ? best.wheel : null;
  const sayWhy = ({ wheel, why }) => (taken && wheel.file === taken.file ? "taken" : why || "fits, but less closely");
  return { wheel: taken, rows: judged.map((each) => [each.wheel.file, sayWhy(each)]) };
}

/** Return a key by which the closest wheel is the largest: native before pure, then what was built for its CUDA. */
function rankOf(wheel, facts) {
  const wanted = wantedCuda(facts).cuda;
  const own = wheel.cuda;
  const near = own && wanted
    ? [wheel.serves.includes(wanted), compareParts(numbersIn(own), numbersIn(wanted)) <= 0, numbersIn(own)]
    : [false, false, []];
  const [interpreter, abi, platform] = tagsOf(wheel.file);
  const tier = [Boolean(wheel.cuda || wheel.rocm || wheel.xpu || wheel.other), platform !== "any"];
  const exact = [!abi.startsWith("none"), interpreter.startsWith("cp")];
  return [...tier, near, numbersIn(wheel.torch ? wheel.torch[0] : "0"), ...exact, wheel.file];
}

/** Compare two values as Python compares tuples: part by part, and a shorter one before those that it begins. */
function compareParts(a, b) {
  if (!Array.isArray(a)) return a < b ? -1 : Number(a > b);
  for (let place = 0; place < Math.min(a.length, b.length); place += 1) {
    const found = compareParts(a[place], b[place]);
    if (found) return found;
  }
  return a.length - b.length;
}

/** Return why a wheel does not fit a machine, or "" if it does. */
function refuseWheel(wheel, facts) {
  for (const check of [refusePython, refusePlatform, refuseAccelerator, refuseTorch, refuseGpu]) {
    const why = check(wheel, facts);
    if (why) return why;
  }
  return "";
}

/** Return the three tags in a wheel's file name: Python, ABI, platform. */
function tagsOf(file) {
  return file.slice(0, -".whl".length).split("-").slice(-3);
}

function refusePython(wheel, facts) {
  const [interpreters, abis] = tagsOf(wheel.file);
  const own = numbersIn(facts.python);
  const fits = (interpreter) => abis.split(".").some((abi) => fitsPython(interpreter, abi, own, facts));
  if (interpreters.split(".").some(fits)) return "";
  const shown = `${facts.implementation} ${facts.python}${facts.free_threaded ? "t" : ""}`;
  return `it is for ${interpreters}-${abis}, and this is ${shown}`;
}

function fitsPython(interpreter, abi, own, facts) {
  const found = /^(py|cp)(\d)(\d*)$/.exec(interpreter);
  if (!found || Number(found[2]) !== own[0]) return false;
  const minor = Number(found[3] || 0);
  if (found[1] === "py") return abi === "none" && minor <= own[1];
  if (facts.implementation !== "cpython") return false;
  if (abi === "abi3") return !facts.free_threaded && minor <= own[1];
  if (abi === "abi3t") return facts.free_threaded && minor <= own[1]; // PEP 803: from 3.15 on
  return minor === own[1] && ["none", `cp${own[0]}${own[1]}${facts.free_threaded ? "t" : ""}`].includes(abi);
}

function refusePlatform(wheel, facts) {
  const platforms = tagsOf(wheel.file)[2];
  if (platforms.split(".").some((name) => fitsPlatform(name, facts))) return "";
  return `it is for ${platforms}, and this is ${facts.platform}${facts.libc ? ` with ${facts.libc}` : ""}`;
}

function fitsPlatform(name, facts) {
  if (name === "any" || name === facts.platform) return true;
  const [libc, version = ""] = facts.libc.split(" ");
  const isOldEnough = (needs) => compareParts(needs, numbersIn(version)) <= 0;
  const linux = /^(many|musl)linux_(\d+)_(\d+)_(\w+)$/.exec(name);
  const old = /^(manylinux1|manylinux2010|manylinux2014)_(\w+)$/.exec(name);
  if (linux) {
    const wanted = { many: "glibc", musl: "musl" }[linux[1]];
    const needs = [Number(linux[2]), Number(linux[3])];
    return facts.platform === `linux_${linux[4]}` && libc === wanted && isOldEnough(needs);
  }
  if (old) return facts.platform === `linux_${old[2]}` && libc === "glibc" && isOldEnough(OLD_MANYLINUX[old[1]]);
  const [mac, here] = [name, facts.platform].map((text) => /^macosx_(\d+)_(\d+)_(\w+)$/.exec(text));
  if (!mac || !here) return false;
  const [needs, has] = [mac, here].map((found) => [Number(found[1]), Number(found[2])]);
  return [here[3], "universal2"].includes(mac[3]) && compareParts(needs, has) <= 0;
}

/** Return the CUDA version to install for, and what says so; null with the reason why there is none. */
function wantedCuda(facts) {
  if (facts.asked_cuda) {
    if (facts.asked_cuda.toLowerCase() === "none") return { cuda: null, source: "you asked for none" };
    return { cuda: facts.asked_cuda, source: "what you asked for" };
  }
  if (facts.torch) {
    if (facts.torch_cuda) return { cuda: facts.torch_cuda, source: `torch ${facts.torch}` };
    return { cuda: null, source: `torch ${facts.torch} is a build without CUDA` };
  }
  if (facts.driver_cuda) return { cuda: facts.driver_cuda, source: `the driver, of CUDA ${facts.driver_cuda}` };
  return { cuda: null, source: "neither torch nor an NVIDIA driver is here, and CUDA is never guessed" };
}

function refuseAccelerator(wheel, facts) {
  for (const [wanted, name, found] of [[wheel.rocm, "ROCm", facts.torch_rocm], [wheel.xpu, "XPU", facts.torch_xpu]]) {
    if (wanted && found === null) {
      return `it is for ${name}, and ${facts.torch ? `torch ${facts.torch}` : "no torch"} is here`;
    }
  }
  if (wheel.rocm && compareParts(numbersIn(wheel.rocm), numbersIn(facts.torch_rocm ?? "").slice(0, 2))) {
    return `it is for ROCm ${wheel.rocm}, and torch ${facts.torch} has ${facts.torch_rocm}`;
  }
  const [, label] = (facts.torch ?? "").split("+");
  if (wheel.other && label !== wheel.other) { // an accelerator that only a label of torch shows
    return `it is for ${wheel.other}, and ${facts.torch ? `torch ${facts.torch}` : "no torch"} is here`;
  }
  if (!wheel.cuda) return "";
  const { cuda, source } = wantedCuda(facts);
  if (cuda === null) return `it is for CUDA ${wheel.cuda}: ${source}`;
  const [own, theirs] = [numbersIn(wheel.cuda)[0], numbersIn(cuda)[0]];
  const isFromDriver = !facts.asked_cuda && !facts.torch; // a driver runs what was built for older CUDA too
  if (own > theirs || (own < theirs && !isFromDriver)) {
    return `it is for CUDA ${wheel.cuda}, and ${source} has CUDA ${cuda}`;
  }
  return "";
}

function refuseTorch(wheel, facts) {
  if (!wheel.torch || !facts.torch) return "";
  const [lowest, below] = wheel.torch;
  if (lowest.includes(".dev")) { // a nightly has no range
    return facts.torch.split("+")[0] === lowest ? "" : `it is for torch ${lowest}, and torch ${facts.torch} is here`;
  }
  const here = numbersIn(facts.torch.split("+")[0]).slice(0, 2);
  if (compareParts(here, numbersIn(lowest)) < 0 || (below && compareParts(here, numbersIn(below)) >= 0)) {
    const range = below ? `from ${lowest} to below ${below}` : `${lowest} or newer`;
    return `it is for torch ${range}, and torch ${facts.torch} is here`;
  }
  if (wheel.cxx11abi !== null && facts.cxx11abi !== null && wheel.cxx11abi !== facts.cxx11abi) {
    const [own, theirs] = [wheel.cxx11abi, facts.cxx11abi].map((cxx11) => `_GLIBCXX_USE_CXX11_ABI=${Number(cxx11)}`);
    return `it is for a torch with the C++ ABI ${own}, and this one has ${theirs}`;
  }
  return "";
}

function refuseGpu(wheel, facts) {
  if (!wheel.cuda) return "";
  const here = facts.gpus.join(" ");
  const codes = codesOf(wheel, facts.gpus);
  if (facts.gpus.length && !codes.some(Boolean) && wheel.archs.length) {
    return `it has no kernel for the GPU here, ${here}, but for ${wheel.archs.join(" ")}`;
  }
  if (codes.includes("sass") || !codes.length) {
    return refuseDriver(wheel, facts, `${numbersIn(wheel.cuda)[0]}.0`, wheel.driver.sass, "");
  }
  return refuseDriver(wheel, facts, wheel.cuda, wheel.driver.ptx, `, since it has only PTX for the GPU here, ${here}`);
}

/** Return which code of a wheel each GPU runs, for each architecture. */
function codesOf(wheel, gpus) {
  return gpus.flatMap((gpu) => wheel.archs.map((arch) => codeOf(arch, gpu)));
}

/** Return which code of an architecture a GPU runs: sass, ptx or none (""). */
function codeOf(arch, gpu) {
  const found = /^(\d+)\.(\d+)([af]?)(\+PTX)?$/.exec(arch);
  if (!found) return "";
  const [own, here] = [[Number(found[1]), Number(found[2])], numbersIn(gpu)];
  if (found[3] === "a") return compareParts(own, here) ? "" : "sass"; // for no other capability
  const isOlder = compareParts(own, here) <= 0;
  if (own[0] === here[0] && isOlder) return "sass";
  return found[4] && !found[3] && isOlder ? "ptx" : "";
}

/** Return why the driver is too old; "" if it is not, or if there is none: wheels are installed without one too. */
function refuseDriver(wheel, facts, cuda, number, why) {
  const needs = `CUDA ${wheel.cuda} needs driver ${number || `of CUDA ${cuda}`} or newer${why}`;
  const isOlder = (has, wanted) => compareParts(numbersIn(has), numbersIn(wanted)) < 0;
  if (facts.driver_cuda) {
    const here = facts.driver || `of CUDA ${facts.driver_cuda}`;
    return isOlder(facts.driver_cuda, cuda) ? `${needs}; driver ${here} is here` : "";
  }
  return facts.driver && number && isOlder(facts.driver, number) ? `${needs}; driver ${facts.driver} is here` : "";
}

function numbersIn(version) {
  return (version.match(/\d+/g) ?? []).map(Number);
}
