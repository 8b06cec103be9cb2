// "Paste your error": what is wrong, and the lines that mend it. The text stays in this page.

let pasted = null; // what `diagnose` says of the text; null without one

/** Read the text again, and take over what it says of the machine. */
function readPaste() {
  const text = byId("error-text").value;
  pasted = text.trim() ? diagnose(text) : null;
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
  const { torch, libc, driver, driver_cuda, cxx11abi, gpu, ...axes } = pasted?.machine ?? {};
  const minor = torch && numbersIn(torch).slice(0, 2).join(".");
  const usesTorch = canAnswer(state.listing) && valuesOf("torch").some(({ name }) => name);
  state.pasted = { ...axes, ...(minor && usesTorch ? { torch: minor } : {}) };
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
  const { errors, machine } = pasted;
  const facts = machineInWords(machine);
  const known = facts ? [element("p", { className: "note" }, `It says of the machine: ${facts}.`)] : [];
  const parts = errors.length ? errors.map(errorBox) : [noError(facts)];
  byId("diagnosed").textContent = errors.length
    ? `${errors.length === 1 ? "One thing is" : `${errors.length} things are`} wrong.`
    : facts ? "No error is in it that this page knows." : "This page knows none of it.";
  box.replaceChildren(...parts, ...known, ...(state.listing ? [] : [projectHint()]));
}

function errorBox({ name, title, why, mend }) {
  const lines = state.listing ? mending(mend) : [];
  const parts = [element("h3", {}, title), element("p", {}, why), ...lines];
  return element("article", { className: "error", "data-rule": name, "data-mend": mend }, ...parts);
}

/** Return what is said of a text without a known error: the answer for its machine, or what is known at all. */
function noError(facts) {
  const known = [...RULES.map(({ name }) => name), "and what python -m torch.utils.collect_env prints"];
  const text = facts
    ? "Nothing in it is an error that this page knows."
    : `This page knows none of it. It knows: ${known.join("; ")}.`;
  const verdict = facts && state.listing ? mending("wheel") : [];
  return element("article", { className: "error", "data-rule": "" }, element("p", {}, text), ...verdict);
}

function machineInWords({ system, torch, accelerator, python, gpu, driver, driver_cuda: cuda, libc }) {
  const parts = [
    system,
    torch && `torch ${torch}`,
    accelerator !== undefined && accelerated(accelerator),
    python && `Python ${python}`,
    gpu && `GPU of compute capability ${gpu}`,
    (driver || cuda) && `driver ${driverIn({ driver, driver_cuda: cuda })}`,
    libc,
  ];
  return parts.filter(Boolean).join(", ");
}

/** Return the lines that mend an error, or why none does. */
function mending(mend) {
  if (!canAnswer(state.listing)) return [];
  if (mend === "driver") return mendDriver();
  const answer = answerTo(state.choice);
  if (!mend) return [];
  if (mend === "libraries") return [hidingBox(), ...torchBoxes()];
  if (!answer.file) return [element("p", { className: "why" }, answer.why), ...(mend === "torch" ? newerTorch() : [])];
  if (!canBeNamed(answer.file)) return [];
  return [...(mend === "torch" ? torchBoxes() : []), reinstallBox(answer.file)];
}

/** Return the ways to another torch that this project has a wheel for. */
function newerTorch() {
  const ways = [...waysOn("torch"), ...waysOn("accelerator")];
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
  return commandBox({ kind: "mend", title: `This line mends it, with ${file.name}`, text });
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
  const parts = [element("p", {}, needed ? `Update the driver to ${needed}.` : "Update the driver.")];
  if (!driver && !driver_cuda) return parts;
  const ways = waysOn("accelerator", ({ wheel }) => wheel?.cuda); // any driver fits a wheel without CUDA
  if (present.wheel?.cuda || !ways.length) return parts;
  return [...parts, element("p", { className: "ways" }, "Or, with the driver that is here: ", ...ways)];
}

/** Return a button for the project that the text names, or the hint to pick one. */
function projectHint() {
  const { project } = pasted;
  if (!projectNames().includes(project)) {
    return element("p", { className: "note" }, "Pick the project, and the line that mends it is shown here.");
  }
  const button = element("button", { type: "button" }, `Show the line for ${project}`);
  button.onclick = () => openProject(project);
  return element("p", {}, button);
}

function forgetPaste() {
  byId("error-text").value = "";
  readPaste();
  byId("error-text").focus();
}
