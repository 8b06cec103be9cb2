// "Paste your error": what is wrong, and the lines that mend it. The text stays in this page.

let pasted = null; // the text, and what `diagnose` says of it; null without one

/** Read the text again, and take over what it says of the machine. */
function readPaste() {
  const text = byId("error-text").value;
  pasted = text.trim() ? { text, ...diagnose(text) } : null;
  byId("forget").hidden = !pasted;
  if (state.listing) {
    takeOver();
    showListing();
  } else {
    showDiagnosis();
  }
}

/** Choose what the text says, also what the project knows nothing of: then the answer says so. */
function takeOver() {
  const { os, torch, libc, driver, driver_cuda, cxx11abi, gpu, ...axes } = pasted?.machine ?? {};
  const minor = torch && numbersIn(torch).slice(0, 2).join(".");
  const usesTorch = canAnswer(state.listing) && valuesOf("torch").some(({ name }) => name);
  const alike = os && !axes.system && canAnswer(state.listing)
    ? valuesOf("system").filter(({ name }) => name.startsWith(os))
    : [];
  const system = alike.length === 1 ? { system: alike[0].name } : {};
  state.pasted = { ...axes, ...system, ...(minor && usesTorch ? { torch: minor } : {}) };
  const exact = minor && usesTorch && torch !== minor ? `${torch}${localOf(axes.accelerator)}` : undefined;
  const seen = Object.entries({ libc, driver, driver_cuda, cxx11abi, torch: exact });
  state.seen = Object.fromEntries(seen.filter(([, value]) => value !== undefined));
  Object.assign(state.wanted, state.pasted, gpu ? { gpu } : {});
}

const localOf = (accelerator) => (accelerator ? `+${accelerator}` : "");

/** Show what is wrong by the text, for the project that is chosen. */
function showDiagnosis() {
  const box = byId("diagnosis");
  if (!pasted) {
    byId("diagnosed").textContent = "";
    return box.replaceChildren();
  }
  const { answer, machine } = pasted;
  const facts = machineInWords(machine);
  const known = facts ? [element("p", { className: "note" }, `It says of the machine: ${facts}.`)] : [];
  byId("diagnosed").textContent = answer
    ? `The cause is ${answer.known ? "" : "not "}known.`
    : facts ? "No error is in it that this page knows." : "This page knows none of it.";
  box.replaceChildren(answer ? answerBox(answer) : noAnswer(facts), ...known);
}

/** Return a cause, what mends it or what to look at, and the lines for it where they have to do with it. */
function answerBox(answer) {
  const { name, says, why, mend, look, quote, line } = answer;
  const helps = mend
    ? element("p", {}, element("strong", {}, "What mends it: "), ...inCode(mend), ".")
    : element("p", {}, element("strong", {}, "What mends it is not known."), " Look at ", ...inCode(look), ".");
  const parts = [
    element("h3", {}, ...inCode(sentence(says))),
    element("p", { className: "note" }, `Line ${line}: `, element("code", {}, quote)),
    ...(why ? [element("p", {}, ...inCode(sentence(why)))] : []),
    helps,
    ...(state.listing ? mending(answer) : projectHint(answer)),
  ];
  return element("article", { className: "error", "data-cause": name }, ...parts);
}

// Its first letter is large, unless it begins with a name, such as libc10.so.
const sentence = (text) => `${/^[a-z']+ /.test(text) ? text[0].toUpperCase() + text.slice(1) : text}.`;

/** Return a text, of which the parts between back quotes are code. */
const inCode = (text) => text.split("`").map((part, place) => (place % 2 ? element("code", {}, part) : part));

/** Return what is said of a text without a known cause: what there is for its machine, or what to look at. */
function noAnswer(facts) {
  const text = facts
    ? "Nothing in it is an error that this page knows."
    : "This page finds no line with an error in it.";
  const known = "It knows what pip, uv, compilers and loaders say, and what python -m torch.utils.collect_env prints.";
  return element("article", { className: "error", "data-cause": "" }, element("p", {}, `${text} ${facts ? "" : known}`));
}

function machineInWords({ system, os, torch, accelerator, python, gpu, driver, driver_cuda: cuda, libc }) {
  const parts = [
    system ?? os,
    torch && `torch ${torch}`,
    accelerator !== undefined && accelerated(accelerator),
    python && `Python ${python}`,
    gpu && `GPU of compute capability ${gpu}`,
    (driver || cuda) && `driver ${driverIn({ driver, driver_cuda: cuda })}`,
    libc,
  ];
  return parts.filter(Boolean).join(", ");
}

/** Return the lines that mend a cause, or why none is shown: a line that has nothing to do with it mends nothing. */
function mending({ lines, cuda }) {
  if (!lines || !canAnswer(state.listing)) return [];
  if (lines === "driver") return mendDriver();
  if (lines === "libraries") return [hidingBox(), ...torchBoxes()];
  const elsewhere = anotherSystem();
  if (elsewhere) return [note(elsewhere)];
  const isAbout = pasted.projects.some((name) => `${name}-`.startsWith(`${state.project}-`));
  if (pasted.projects.length && !isAbout) {
    return [note(`The text is about ${pasted.projects.join(", ")}, so no line for ${state.project} is shown.`)];
  }
  if (lines === "wheel" && !isAbout) return [note(`It does not say that it is about ${state.project}.`)];
  return linesFor(lines, cuda, isAbout);
}

/** Return the line for torch, and that for the project where the text is about it. */
function linesFor(lines, cuda, isAbout) {
  const { file, why } = answerTo(state.choice);
  const tooOld = cuda && isOlderCuda(state.choice.accelerator, cuda);
  if (!file || tooOld) {
    const reason = tooOld ? `What is selected above is not for CUDA ${cuda} or newer.` : why;
    return [element("p", { className: "why" }, reason), ...(lines === "torch" ? newerTorch(cuda) : [])];
  }
  if (pasted.text.includes(file.name)) {
    return [note("It is about the very file for what is selected above: select what the installer runs in.")];
  }
  if (!canBeNamed(file)) return [];
  return [...(lines === "torch" ? torchBoxes() : []), ...(isAbout ? [reinstallBox(file)] : [])];
}

const note = (text) => element("p", { className: "note" }, text);

/** Return why there is no line where the text comes from another system than the selected one; "" if it does not. */
function anotherSystem() {
  const { os, system } = pasted.machine;
  const theirs = system ?? os;
  if (!theirs || state.choice.system.startsWith(theirs)) return "";
  return `The text is from ${theirs}, and above ${state.choice.system} is selected: no line for that is shown.`;
}

const isOlderCuda = (label, least) => {
  const [, major, minor] = /^cu(\d+)(\d)$/.exec(label) ?? [];
  return !major || compareParts([Number(major), Number(minor)], numbersIn(least)) < 0;
};

/** Return the ways to another torch that this project has a wheel for, those for a CUDA that is new enough. */
function newerTorch(cuda) {
  const accelerators = waysOn("accelerator", ({ file, wheel }) => file && (!cuda || wheel?.cuda))
    .filter((way) => !cuda || !isOlderCuda(way.dataset.value, cuda));
  const ways = [...(cuda ? [] : waysOn("torch")), ...accelerators];
  return ways.length ? [element("p", { className: "ways" }, "There is a wheel for ", ...ways)] : [];
}

function hidingBox() {
  return commandBox({ kind: "libraries", title: "Let torch find its own libraries", text: "unset LD_LIBRARY_PATH" });
}

function torchBoxes() {
  const line = torchLine();
  if (!line) return [];
  const installer = INSTALLERS.get(state.installer === "Docker" ? "pip" : state.installer);
  return [commandBox({ kind: "torch", title: torchInWords(), text: installer.torch(line) })];
}

/** Return the line that puts the right file in the place of another; an installer's cache may hold that one. */
function reinstallBox(file) {
  const [install, index] = state.installer === "uv"
    ? [`uv pip install --reinstall-package ${state.project} --refresh-package ${state.project} --no-deps`, "--index"]
    : ["pip install --force-reinstall --no-deps --no-cache-dir", "--extra-index-url"];
  const { text } = file.name.endsWith(".whl") ? byVersion(install, index, file) : byFile(install, file);
  return commandBox({ kind: "mend", title: `This line installs ${file.name} in its place`, text });
}

/** Return the driver that the choice needs, and the choices that the present one is new enough for. */
function mendDriver() {
  const { driver, driver_cuda, ...rest } = state.seen;
  const before = state.seen;
  const present = answerTo(state.choice);
  state.seen = rest;
  const answer = answerTo(state.choice);
  state.seen = before;
  const needed = answer.file && driverFor(answer);
  const parts = needed ? [element("p", {}, `Update the driver to ${needed}.`)] : [];
  if (!driver && !driver_cuda) return parts;
  const ways = waysOn("accelerator", ({ wheel }) => wheel?.cuda); // any driver fits a wheel without CUDA
  if (present.wheel?.cuda || !ways.length) return parts;
  return [...parts, element("p", { className: "ways" }, "Or, with the driver that is here: ", ...ways)];
}

/** Return a button for the project that the text names, or the hint to pick one, where a line could mend it. */
function projectHint({ lines }) {
  if (!["wheel", "torch"].includes(lines)) return [];
  const named = projectNames().filter((project) => pasted.projects.some((name) => `${name}-`.startsWith(`${project}-`)));
  if (!named.length) return pasted.projects.length ? [] : [note("Pick the project, and a line for it is shown here.")];
  return named.map((project) => {
    const button = element("button", { type: "button" }, `Show the line for ${project}`);
    button.onclick = () => openProject(project);
    return element("p", {}, button);
  });
}

function forgetPaste() {
  byId("error-text").value = "";
  readPaste();
  byId("error-text").focus();
}
