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
const ORIGINS = new Map([
  ["added", "added to this index, not built by Fatwheel"],
  ["adopted", "in this index before Fatwheel, not built by it"],
]);
const SHORT_LIST = 8; // projects that need no filter
const COPIED_FOR = 2000; // milliseconds
const ALIKE = 0.4; // of two names: the share of their pairs of letters that both have

const state = {
  project: "", // as the list names it
  listings: null, // of its versions, the newest first; null until its data is there
  listing: null, // of the chosen version
  wanted: {}, // what was chosen on each axis
  choice: {}, // the same, apart from an accelerator that the system cannot have
  installer: "pip",
  isPicked: false, // whether the project was picked on this page, and is not there yet
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
  if (state.isPicked) byId("finder").scrollIntoView(); // now that the page is long enough
  state.isPicked = false;
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

// ---- boxes

/** Return a text with a button that copies it: a command, whose words are broken at spaces, or lines as they are. */
function commandBox(title, text) {
  const words = text.match(/'[^']*'|"[^"]*"|\S+/g).map((word) => element("span", {}, word));
  const broken = words.flatMap((word, place) => (place ? [" ", word] : [word]));
  const code = element("code", {}, ...(text.includes("\n") ? [text] : broken));
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
  byId("copied").textContent = done ? "It is copied." : "It is selected: copy it now.";
  setTimeout(() => {
    button.textContent = "Copy";
    byId("copied").textContent = "";
  }, COPIED_FOR);
}

// ---- what the page shows

function say(text) {
  byId("notice").textContent = text;
}

/** Show what a pasted text means, and choose what it says of the machine. */
function showDiagnosis() {
  const text = byId("pasted").value.trim();
  const { causes, machine } = diagnose(text);
  const parts = causes.map(({ what, mend }) => element("p", {}, element("strong", {}, what), ` ${mend}`));
  const said = Object.entries(machine).map(([axis, value]) => adopt(axis, value));
  if (said.length) parts.push(element("p", {}, `The text says: ${said.join(", ")}.`));
  const unknown = "This page does not know that text. Paste the whole of it, or the output of collect_env.";
  if (text && !parts.length) parts.push(element("p", {}, unknown));
  byId("diagnosis").replaceChildren(...parts);
  if (said.length) showListing();
}

/** Want what a text says of one axis, as far as the listing knows it; return that in words. */
function adopt(axis, value) {
  const values = valuesOf(axis).map(({ name }) => name);
  const major = value.match(/^cu(\d+)\d$/)?.[1];
  const like =
    axis === "accelerator" && major ? values.findLast((name) => name.match(/^cu(\d+)\d/)?.[1] === major) : undefined;
  const found = values.includes(value) ? value : like;
  if (found !== undefined) state.wanted[axis] = found;
  const kind = { torch: "torch ", python: "Python " }[axis] ?? "";
  const label = found === value ? labelOf(axis, value) : value;
  const lacks = values.some(Boolean) && found === undefined;
  return `${kind}${label}${lacks ? ", which this version was not made for" : ""}`;
}

/** Show a project, without what is not known of it yet. */
function showProject(project) {
  Object.assign(state, { project, listings: null, listing: null, wanted: {}, choice: {} });
  for (const id of ["choices", "result", "shelf", "paste"]) byId(id).hidden = true;
  byId("pasted").value = "";
  byId("diagnosis").replaceChildren();
  byId("unknown").textContent = "";
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
  byId("paste").hidden = !listing.answers.size;
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
  const isWheel = file.name.endsWith(".whl");
  const recipes = INSTALLERS[state.installer].recipes(file).filter(({ exact }) => exact || isWheel);
  const boxes = recipes.map(({ title, text }) => commandBox(title, text));
  if (!boxes.length) return [element("p", { className: "note" }, "Take pip or uv for an sdist.")];
  return isWheel ? [...boxes, element("p", { className: "note" }, INSTALLERS[state.installer].note)] : boxes;
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
