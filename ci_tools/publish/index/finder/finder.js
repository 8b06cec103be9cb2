"use strict";

// The page knows the names of the projects. All that it shows of one comes from finder/PROJECT.js, a script that calls
// `finder`: a page that was opened from a folder may load nothing else. Names and reasons were written by others, so
// they become text, never markup.

const ROOT = rootOf(document.baseURI);
const AXES = [
  { name: "system", legend: "System" },
  { name: "accelerator", legend: "Accelerator" },
  { name: "torch", legend: "torch" },
  { name: "python", legend: "Python" },
];
const INSTALLERS = {
  pip: {
    install: "pip install",
    index: "--extra-index-url",
    note: "pip asks your other indexes too, and may take a package of this name from there.",
  },
  uv: {
    install: "uv pip install",
    index: "--index",
    note: "uv takes a project from the first index that has it, and asks this one first.",
  },
};
const ORIGINS = new Map([
  ["added", "added to this index, not built by Fatwheel"],
  ["adopted", "in this index before Fatwheel, not built by it"],
]);
const PROJECT = /^[A-Za-z0-9]([A-Za-z0-9._-]*[A-Za-z0-9])?$/;
const PIN = /^[A-Za-z0-9.!+_-]+$/;
const SHA256 = /^[0-9a-f]{64}$/;
const NEEDS_NO_QUOTES = /^[\w@%+=:,./-]+$/;
const NEEDS_ESCAPE = /[^\w.~:/?#@%=+,[\]-]/g; // in an address that goes to a shell
const SHORT_LIST = 8; // projects that need no filter
const COPIED_FOR = 2000; // milliseconds

const state = {
  project: "", // as the list names it
  listings: null, // of its versions, the newest first; null until its data is there
  listing: null, // of the chosen version
  wanted: {}, // what was chosen on each axis
  choice: {}, // the same, apart from an accelerator that the system cannot have
  installer: "pip",
};

const byId = (id) => document.getElementById(id);

// ---- addresses

/** Return the address of the folder that a page is in, without the password that it may have been opened with. */
function rootOf(address) {
  const root = new URL(".", address);
  root.username = "";
  root.password = "";
  return root;
}

/** Return an address as a URL; null where it is none of the web or of a folder. */
function resolved(address) {
  try {
    const url = new URL(address, ROOT);
    return ["http:", "https:", "file:"].includes(url.protocol) ? url : null;
  } catch {
    return null;
  }
}

// ---- elements

/** Return a new element; a property that is undefined is left out. */
function element(tag, properties = {}, ...children) {
  const made = document.createElement(tag);
  for (const [name, value] of Object.entries(properties)) {
    if (value === undefined) continue;
    if (name in made) made[name] = value;
    else made.setAttribute(name, value);
  }
  made.append(...children.filter((child) => child !== ""));
  return made;
}

/** Return a link to an address of the web or of a folder; to anything else, the text alone. */
function link(address, text) {
  const url = resolved(address);
  return url ? element("a", { href: url.href }, text) : element("span", {}, text);
}

// ---- the data of a project

/** Load the data of a project; the same one twice is read twice, since it may have been published anew. */
function load(project) {
  const script = element("script", { src: new URL(`finder/${encodeURIComponent(project)}.js`, ROOT).href });
  const ended = (what) => {
    script.remove();
    if (state.project === project && !state.listings) say(`What ${project} has cannot be read: ${what}.`);
  };
  script.onload = () => ended(`finder/${project}.js is not whole`);
  script.onerror = () => ended(`finder/${project}.js is not there`);
  document.head.append(script);
}

/** Take the data of a project; the script that holds it calls this. */
function finder(data) {
  if (data.project !== state.project || state.listings) return;
  state.listings = data.listings.map((listing) => decoded(listing, data));
  if (!state.listings.length) return say(`${data.project} has no files here yet.`);
  say("");
  readFragment();
  showVersions();
  showListing();
}

/** Return a listing with its combinations looked up: the values of each axis, and what there is for each four. */
function decoded(listing, data) {
  const answers = new Map();
  const seen = AXES.map(() => new Map());
  const grid = data.grids[listing.grid];
  for (let place = 0; place < grid.length; place += 4) {
    const fixed = [data.systems[grid[place]], data.accelerators[grid[place + 1]], twice(data.torches[grid[place + 2]])];
    data.rows[grid[place + 3]].forEach((outcome, python) => {
      if (outcome < 0) return;
      const values = [...fixed, twice(data.pythons[python])];
      values.forEach(([name, label], axis) => seen[axis].set(name, label));
      const [file, text] = listing.outcomes[outcome];
      answers.set(key(values.map(([name]) => name)), { file: listing.files[file], why: data.texts[text] });
    });
  }
  return { ...listing, answers, axes: seen.map(ordered) };
}

const twice = (name) => [name, name];
const key = (names) => JSON.stringify(names);

/** Return the values of an axis: systems as they come, all others by number, and what has no name last. */
function ordered(labels, axis) {
  const values = [...labels].map(([name, label]) => ({ name, label }));
  const compare = new Intl.Collator("en", { numeric: true }).compare;
  return axis === 0 ? values : values.sort((a, b) => (a.name === "") - (b.name === "") || compare(a.name, b.name));
}

// ---- choosing

/** Return what the listing has for a choice: a file, or why there is none. */
function answerTo(choice) {
  return state.listing.answers.get(key(AXES.map(({ name }) => choice[name])));
}

const hasFile = (choice) => Boolean(answerTo(choice)?.file);

/** Return the values of an axis, by its name. */
const valuesOf = (name) => state.listing.axes[AXES.findIndex((axis) => axis.name === name)];

const labelOf = (name, value) => valuesOf(name).find((each) => each.name === value)?.label ?? value;

/** Return every combination the listing speaks of, as choices. */
function combinations() {
  return [...state.listing.answers.keys()].map((text) => {
    const names = JSON.parse(text);
    return Object.fromEntries(AXES.map(({ name }, place) => [name, names[place]]));
  });
}

/** Return the system this browser runs on, as far as it says, else the first there is. */
function ownSystem() {
  const said = `${navigator.platform} ${navigator.userAgent}`.toLowerCase();
  const os = said.includes("win") && !said.includes("darwin") ? "windows" : said.includes("mac") ? "macos" : "linux";
  const machine = os === "macos" || /aarch64|arm64|armv8/.test(said) ? "arm64" : "x86_64";
  const names = valuesOf("system").map(({ name }) => name);
  return names.find((name) => name === `${os}-${machine}`) ?? names.find((name) => name.startsWith(os)) ?? names[0];
}

/** Return the best combination among those a test lets through: with a file, accelerated, of the newest. */
function best(test) {
  const place = (choice, name) => valuesOf(name).findIndex((value) => value.name === choice[name]);
  const worth = (choice) => [
    hasFile(choice),
    choice.accelerator.startsWith("cu"),
    choice.accelerator !== "",
    place(choice, "accelerator"),
    place(choice, "torch"),
    !choice.python.endsWith("t"), // free-threaded
    place(choice, "python"),
  ].map(Number);
  const compare = (a, b) => a.reduce((found, value, at) => found || b[at] - value, 0);
  const found = combinations().filter(test).map((choice) => ({ choice, worth: worth(choice) }));
  return found.sort((a, b) => compare(a.worth, b.worth))[0]?.choice;
}

/** Make a choice from what is wanted, where the listing knows it, and the best of the rest. */
function settle() {
  const { wanted } = state;
  for (const { name } of AXES) {
    if (valuesOf(name).some((value) => value.name === wanted[name])) continue;
    wanted[name] = name === "system" ? ownSystem() : best(agreesBefore(name))?.[name] ?? valuesOf(name)[0]?.name;
  }
  state.choice = { ...wanted };
}

/** Return a test: whether a combination is what is wanted on every axis before one. */
function agreesBefore(axis) {
  const before = AXES.slice(0, AXES.findIndex(({ name }) => name === axis));
  return (choice) => before.every(({ name }) => choice[name] === state.wanted[name]);
}

/** Choose a value on an axis. */
function choose(axis, value) {
  state.choice = after(axis, value);
  state.wanted[axis] = value;
  showChoice();
}

/** Return the choice that a value on an axis leads to: a system comes with an accelerator that it can have. */
function after(axis, value) {
  if (axis !== "system") return { ...state.choice, [axis]: value };
  const choice = { ...state.wanted, [axis]: value };
  const same = combinations().filter((each) => each.system === value);
  if (same.some((each) => each.accelerator === choice.accelerator)) return choice;
  const others = (each) => each.system === value && each.torch === choice.torch && each.python === choice.python;
  return { ...choice, accelerator: (best(others) ?? same[0])?.accelerator ?? choice.accelerator };
}

// ---- the address: a link to a choice can be shared

/** Take over what the address says. */
function readFragment() {
  const said = new URLSearchParams(location.hash.slice(1));
  const { listings } = state;
  const newest = listings.find((listing) => !listing.pre && !isYanked(listing)) ?? listings[0];
  state.listing = listings.find(({ version }) => version === said.get("version")) ?? newest;
  for (const { name } of AXES) if (said.has(name)) state.wanted[name] = said.get(name);
  if (Object.hasOwn(INSTALLERS, said.get("installer"))) state.installer = said.get("installer");
}

const isYanked = (listing) => listing.files.every(({ yanked }) => yanked !== undefined);

function writeFragment() {
  const { project, listing, choice, installer } = state;
  const known = listing.answers.size ? choice : {};
  const said = new URLSearchParams({ project, version: listing.version, ...known, installer });
  history.replaceState(null, "", `#${said}`);
}

// ---- commands

/** Return an argument as the shell of the chosen system takes it. */
function quoted(text) {
  if (NEEDS_NO_QUOTES.test(text)) return text;
  return state.choice.system?.startsWith("windows") ? `"${text}"` : `'${text}'`;
}

/** Return an address in which nothing means anything to a shell. */
function addressOf(path) {
  const escaped = (letter) => `%${letter.charCodeAt(0).toString(16).toUpperCase().padStart(2, "0")}`;
  return resolved(path).href.replace(NEEDS_ESCAPE, escaped);
}

/** Return the command that takes a file by its version, from the index folder that lists it. */
function byVersion({ folder = "", pin }) {
  const { install, index } = INSTALLERS[state.installer];
  const address = addressOf(folder ? `${encodeURIComponent(folder)}/` : "./");
  return [install, index, quoted(address), quoted(`${state.project}==${pin}`)].join(" ");
}

/** Return the command that takes this very file and no other. */
function byFile({ address, sha256 }) {
  const { install } = INSTALLERS[state.installer];
  return `${install} ${quoted(`${state.project} @ ${addressOf(address)}#sha256=${sha256}`)}`;
}

/** Whether nothing in a command for a file could mean something to a shell. */
function canBeNamed({ pin = "", sha256, address }) {
  return PROJECT.test(state.project) && PIN.test(pin) && SHA256.test(sha256) && resolved(address) !== null;
}

/** Return a command with a button that copies it. */
function commandBox(title, text) {
  const words = text.match(/'[^']*'|"[^"]*"|\S+/g).map((word) => element("span", {}, word));
  const code = element("code", {}, ...words.flatMap((word, place) => (place ? [" ", word] : [word])));
  const button = element("button", { type: "button", className: "copy", "aria-label": `Copy: ${title}` }, "Copy");
  button.onclick = () => copy(text, code, button);
  return element("div", { className: "command" }, element("h4", {}, title), element("pre", {}, code), button);
}

/** Copy a text; where the browser keeps the clipboard to itself, select the text instead. */
async function copy(text, shown, button) {
  let done = true;
  try {
    await navigator.clipboard.writeText(text);
  } catch {
    getSelection().selectAllChildren(shown);
    done = document.execCommand("copy");
  }
  button.textContent = done ? "Copied" : "Selected";
  byId("copied").textContent = done ? "The command is copied." : "The command is selected: copy it now.";
  setTimeout(() => {
    button.textContent = "Copy";
    byId("copied").textContent = "";
  }, COPIED_FOR);
}

// ---- what the page shows

function say(text) {
  byId("notice").textContent = text;
}

/** Show a project, without what is not known of it yet. */
function showProject(project) {
  Object.assign(state, { project, listings: null, listing: null, wanted: {}, choice: {} });
  for (const id of ["choices", "result", "shelf"]) byId(id).hidden = true;
  byId("finder").hidden = false;
  byId("finder-title").textContent = project;
  markProject();
  say("Reading what there is …");
  load(project);
}

/** Mark the project in the list. */
function markProject() {
  for (const each of byId("projects").querySelectorAll("a")) {
    if (each.textContent === state.project) each.setAttribute("aria-current", "true");
    else each.removeAttribute("aria-current");
  }
}

function showVersions() {
  const options = state.listings.map((listing, place) => {
    const notes = [place ? "" : "newest", listing.pre ? "pre-release" : "", isYanked(listing) ? "yanked" : ""];
    const note = notes.filter(Boolean).join(", ");
    return element("option", { value: listing.version }, listing.version, note && ` (${note})`);
  });
  byId("version").replaceChildren(...options);
}

/** Show the chosen listing: its axes, the answer, and all its files. */
function showListing() {
  const { listing } = state;
  byId("version").value = listing.version;
  byId("choices").hidden = false;
  settle();
  byId("axes").replaceChildren(...AXES.flatMap(({ name, legend }) => axisOf(name, legend)));
  byId("shelf").hidden = false;
  showChoice();
}

/** Return the radio buttons of an axis; none where there is nothing to choose. */
function axisOf(name, legend) {
  const values = valuesOf(name);
  if (values.every((value) => value.name === "")) return [];
  const chips = values.map((value) => chip(name, value.name, value.label || "any", () => choose(name, value.name)));
  return [group(legend, name, chips)];
}

function group(legend, name, chips) {
  const inner = element("div", { className: "chips" }, ...chips);
  return element("fieldset", { id: `axis-${name}` }, element("legend", {}, legend), inner);
}

/** Return a radio button with its label. */
function chip(name, value, label, chosen) {
  const input = element("input", { type: "radio", name, value });
  input.onchange = chosen;
  const mark = element("span", { className: "unseen" });
  return element("label", { className: "chip" }, input, element("span", {}, label, mark));
}

/** Check and mark every radio button, and answer the choice. */
function showChoice() {
  const { choice, listing } = state;
  for (const input of byId("axes").querySelectorAll("input")) {
    input.checked = choice[input.name] === input.value;
    const leadsToFile = hasFile(input.checked ? choice : after(input.name, input.value));
    input.parentElement.classList.toggle("none", !leadsToFile);
    input.parentElement.querySelector(".unseen").textContent = leadsToFile ? "" : ", no wheel";
  }
  byId("result").hidden = !listing.answers.size;
  if (listing.answers.size) showAnswer(answerTo(choice));
  showFiles();
  writeFragment();
}

function showAnswer(answer) {
  const file = answer?.file;
  byId("result").classList.toggle("none", !file);
  byId("result-title").textContent = file ? "Your wheel" : "No wheel";
  byId("verdict").textContent = file ? `${file.name} is for ${chosen()}.` : `There is no wheel for ${chosen()}.`;
  byId("answer").replaceChildren(...(file ? found(file, answer.why) : missing(answer)));
}

/** Return the choice in words. */
function chosen() {
  const { system, accelerator, torch, python } = state.choice;
  const parts = [labelOf("system", system), accelerator && labelOf("accelerator", accelerator)];
  return [...parts, torch && `torch ${torch}`, python && `Python ${python}`].filter(Boolean).join(", ");
}

/** Return what to do with a file that was found, and what is in it. */
function found(file, why) {
  return [
    yankOf(file),
    group("Install with", "installer", Object.keys(INSTALLERS).map(installerChip)),
    ...commandsFor(file),
    torchNote(),
    element("h4", {}, "What is in it"),
    factsOf(file, why),
  ].filter((part) => part !== "");
}

function installerChip(name) {
  const made = chip("installer", name, name, () => {
    state.installer = name;
    showChoice();
    byId("answer").querySelector("input:checked").focus();
  });
  made.querySelector("input").checked = state.installer === name;
  return made;
}

function yankOf({ yanked }) {
  if (yanked === undefined) return "";
  return element("p", { className: "warning" }, element("strong", {}, "Withdrawn by its makers. "), yanked);
}

/** Return the commands that install a file; an sdist by its version would be another file. */
function commandsFor(file) {
  if (!canBeNamed(file)) return [element("p", { className: "warning" }, "Its name is none that a command can carry.")];
  const exact = commandBox("This very file, checked by its hash", byFile(file));
  if (!file.name.endsWith(".whl")) return [exact];
  const note = `${INSTALLERS[state.installer].note} The second command takes this file or none.`;
  return [commandBox("From this index", byVersion(file)), exact, element("p", { className: "note" }, note)];
}

function torchNote() {
  const { torch, accelerator } = state.choice;
  if (!torch) return "";
  const build = accelerator ? `torch ${torch} for ${labelOf("accelerator", accelerator)}` : `torch ${torch}`;
  const note = `Install ${build} first: where it is missing, the command may bring another.`;
  return element("p", { className: "note" }, note);
}

/** Return why there is no file, and the changes of one choice that lead to one. */
function missing(answer) {
  const why = answer?.why || "The project was not asked to have one.";
  const ways = AXES.flatMap(({ name }) => waysOn(name));
  const parts = [element("p", { className: "why" }, why)];
  if (!ways.length) return parts;
  return [...parts, element("h4", {}, "There is one for"), element("p", { className: "ways" }, ...ways)];
}

function waysOn(name) {
  const values = valuesOf(name).filter((value) => hasFile({ ...state.choice, [name]: value.name }));
  return values.map(({ name: value, label }) => {
    const kind = { torch: "torch ", python: "Python " }[name] ?? "";
    const button = element("button", { type: "button" }, `${kind}${label}`);
    button.onclick = () => {
      choose(name, value);
      byId(`axis-${name}`).querySelector("input:checked").focus();
    };
    return button;
  });
}

/** Return what is known of a file. */
function factsOf(file, why = "") {
  const facts = [
    ["GPU architectures", (file.archs ?? []).join(", ")],
    ["NVIDIA driver", driverOf(file)],
    ["Trial", file.gpu],
    ["Python", file.requires_python],
    ["Toolchain", file.toolchain],
    ["Origin", ORIGINS.get(file.origin)],
    ["Built from", file.commit && `commit ${file.commit}`],
    ["Size", sizeOf(file.size)],
    ["Published", file.uploaded && element("time", { dateTime: file.uploaded }, file.uploaded.slice(0, 10))],
    ["SHA-256", element("code", {}, file.sha256)],
    ["Provenance", file.provenance && link(file.provenance, "attestation")],
    ["File", link(file.address, file.name)],
    ["Why", why],
  ];
  const known = facts.filter(([, value]) => value);
  return element("dl", {}, ...known.map(([name, value]) => fact(name, value)));
}

const fact = (name, value) => element("div", {}, element("dt", {}, name), element("dd", {}, value));

function driverOf({ driver, ptx_driver: newer }) {
  if (!driver) return "";
  const later = newer ? `; ${newer} or newer on GPUs newer than those above, which compile its PTX` : "";
  return `${driver} or newer${later}`;
}

function sizeOf(bytes) {
  const units = ["bytes", "KiB", "MiB", "GiB"];
  const power = Math.min(Math.floor(Math.log2(Math.max(bytes, 1)) / 10), units.length - 1);
  return `${(bytes / 1024 ** power).toFixed(power ? 1 : 0)} ${units[power]}`;
}

/** Show all files of the listing; what was open stays open. */
function showFiles() {
  const opened = [...byId("files").querySelectorAll("details[open]")].map((each) => each.dataset.name);
  const files = state.listing.files.map(fileOf);
  for (const each of files) each.open = opened.includes(each.dataset.name);
  byId("files").replaceChildren(...files);
}

/** Return a file that opens to what is known of it. */
function fileOf(file) {
  const badge = file.yanked === undefined ? "" : element("span", { className: "badge" }, "withdrawn");
  const summary = element("summary", {}, element("code", {}, file.name), " ", badge, ` ${sizeOf(file.size)}`);
  const opened = element("div", {}, yankOf(file), ...commandsFor(file).filter(isCommand), factsOf(file));
  return element("details", { "data-name": file.name }, summary, opened);
}

const isCommand = (part) => !part.classList.contains("note");

// ---- the list of projects

/** Turn the list into a choice, with a filter where it is long. */
function showProjects() {
  const items = [...byId("projects").children];
  const names = items.map((item) => item.textContent);
  byId("lead").textContent = items.length
    ? "Pick a project and what you have; copy the command that installs the right wheel."
    : "This index has no project yet.";
  byId("picker").hidden = items.length < 2;
  byId("folders").parentElement.hidden = !byId("folders").children.length;
  byId("filter").hidden = items.length < SHORT_LIST;
  byId("filter-text").oninput = () => filter(items, names);
  byId("projects").onclick = pick;
  byId("version").onchange = (event) => {
    state.listing = state.listings.find(({ version }) => version === event.target.value);
    showListing();
  };
  byId("choices").onsubmit = (event) => event.preventDefault();
  addEventListener("hashchange", () => openNamed(names));
  openNamed(names);
}

function filter(items, names) {
  const wanted = byId("filter-text").value.trim().toLowerCase().replace(/[-_.]+/g, "-");
  items.forEach((item, place) => {
    item.hidden = !names[place].includes(wanted);
  });
  const left = items.filter((item) => !item.hidden).length;
  byId("filter-count").textContent = wanted ? `${left} of ${items.length}` : "";
}

/** Pick a project by its link, unless the visitor wants the link elsewhere. */
function pick(event) {
  const anchor = event.target.closest("a");
  if (!anchor || event.button || event.ctrlKey || event.metaKey || event.shiftKey || event.altKey) return;
  event.preventDefault();
  history.pushState(null, "", `#${new URLSearchParams({ project: anchor.textContent })}`);
  showProject(anchor.textContent);
  byId("finder-title").focus();
  byId("finder").scrollIntoView();
}

/** Show the project that the address names, or the only one. */
function openNamed(names) {
  const said = new URLSearchParams(location.hash.slice(1)).get("project");
  const project = names.includes(said) ? said : names.length === 1 ? names[0] : "";
  if (project) return showProject(project);
  state.project = "";
  byId("finder").hidden = true;
  markProject();
}

showProjects();
