// What the page shows of a project: its choices, the answer, and all its files.

const ORIGINS = new Map([
  ["added", "added to this index, not built by Fatwheel"],
  ["adopted", "in this index before Fatwheel, not built by it"],
]);

function say(text) {
  byId("notice").replaceChildren(text);
}

/** Show a project, without what is not known of it yet. */
function showProject(project) {
  const nothing = { about: {}, listings: null, listing: null, wanted: {}, choice: {}, pasted: {}, seen: {} };
  Object.assign(state, { project, ...nothing });
  for (const id of ["machine", "result", "shelf"]) byId(id).hidden = true;
  byId("about").replaceChildren();
  byId("finder").hidden = false;
  document.body.classList.add("picked");
  byId("finder-title").textContent = project;
  markProject();
  say("Reading what there is …");
  load(project);
}

/** Show what the project says of itself: its summary, and links to its source and changelog. */
function showAbout() {
  const { summary, links = [] } = state.about;
  const shown = links.map(([label, address]) => element("li", {}, link(address, label)));
  const list = shown.length ? element("ul", { className: "links" }, ...shown) : "";
  byId("about").replaceChildren(...[summary ? element("p", {}, summary) : "", list].filter((part) => part !== ""));
}

function showVersions() {
  const options = state.listings.map((listing, place) => {
    const notes = [place ? "" : "newest", listing.pre ? "pre-release" : "", isYanked(listing) ? "withdrawn" : ""];
    const note = notes.filter(Boolean).join(", ");
    return element("option", { value: listing.version }, listing.version, note && ` (${note})`);
  });
  byId("version").replaceChildren(...options);
}

/** Show the chosen listing: its axes, the answer, and all its files. */
function showListing() {
  const { listing } = state;
  byId("version").value = listing.version;
  byId("machine").hidden = false;
  if (canAnswer(listing)) settle();
  byId("axes").replaceChildren(...(canAnswer(listing) ? AXES.flatMap(({ name, legend }) => axisOf(name, legend)) : []));
  byId("gpu-choice").hidden = !listing.lock.wheels.some(({ cuda, archs }) => cuda && archs.length);
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

/** Check and mark every radio button, and answer the choice and what is pasted. */
function showChoice() {
  const { choice, listing } = state;
  for (const input of byId("axes").querySelectorAll("input")) {
    input.checked = choice[input.name] === input.value;
    const leadsToFile = hasFile(input.checked ? choice : after(input.name, input.value));
    input.parentElement.classList.toggle("none", !leadsToFile);
    input.parentElement.querySelector(".unseen").textContent = leadsToFile ? "" : ", no wheel";
  }
  byId("gpu").value = choice.gpu ?? "";
  const isThere = canAnswer(listing);
  byId("machine-title").textContent = isThere ? `For ${chosen()}` : "Version";
  byId("result").hidden = !isThere;
  if (isThere) showAnswer(answerTo(choice));
  showDiagnosis();
  showFiles();
  writeFragment();
}

function showAnswer(answer) {
  const { file } = answer;
  byId("result").classList.toggle("none", !file);
  byId("result-title").textContent = file ? "Your wheel" : "No wheel";
  const verdict = file
    ? [element("code", {}, file.name), element("span", {}, ` is for ${chosen()}.`)]
    : [`There is no wheel for ${chosen()}.`];
  byId("verdict").replaceChildren(...verdict);
  byId("answer").replaceChildren(...(file ? found(answer) : missing(answer)), ...others(answer));
}

/** Return the choice in words. */
function chosen() {
  const { system, accelerator, torch, python, gpu } = state.choice;
  const { driver, libc } = state.seen;
  const parts = [
    labelOf("system", system),
    accelerator && labelOf("accelerator", accelerator),
    torch && `torch ${torch}`,
    python && `Python ${python}`,
    gpu && `GPU ${gpu}`,
    driver && `driver ${driver}`,
    libc,
  ];
  return parts.filter(Boolean).join(", ");
}

/** Return what to do with a file that was found, and what is in it. */
function found(answer) {
  const { file } = answer;
  return [
    yankOf(file),
    withoutKernels(answer),
    group("Install with", "installer", [...INSTALLERS.keys()].map(installerChip)),
    ...commandsFor(file),
    element("p", { className: "note" }, INSTALLERS.get(state.installer).note),
    element("h4", {}, "What is in it"),
    factsOfFile(file, answer.why, driverFor(answer)),
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

/** Return why a wheel for any machine is taken where one for the accelerator was wanted; "" if there is no such one. */
function withoutKernels({ wheel, rows }) {
  const { accelerator } = state.choice;
  const near = accelerator && !wheel.cuda && !wheel.rocm && !wheel.xpu ? nearest(rows) : undefined;
  if (!near) return "";
  const kernels = `It has no kernels for ${labelOf("accelerator", accelerator)}.`;
  return element("p", { className: "why" }, `${kernels} ${near[0]} does not fit: ${near[1]}.`);
}

function commandsFor(file) {
  const blocks = canBeNamed(file) ? blocksFor(file) : null;
  if (blocks?.length) return blocks.map(commandBox);
  const why = blocks
    ? "A container runs Linux: select a Linux system to see its lines."
    : "Its name is none that a command can carry.";
  return [element("p", { className: "warning" }, why)];
}

/** Return why there is no file, and the changes of one choice that lead to one. */
function missing(answer) {
  const ways = AXES.flatMap(({ name }) => waysOn(name));
  const parts = [element("p", { className: "why" }, answer.why)];
  if (!ways.length) return parts;
  return [...parts, element("h4", {}, "There is one for"), element("p", { className: "ways" }, ...ways)];
}

function waysOn(name, test = ({ file }) => file) {
  const values = valuesOf(name).filter((value) => test(answerTo({ ...state.choice, [name]: value.name })));
  return values.map(({ name: value, label }) => {
    const kind = { torch: "torch ", python: "Python " }[name] ?? "";
    const button = element("button", { type: "button", "data-value": value }, `${kind}${label}`);
    button.onclick = () => {
      choose(name, value);
      byId("result-title").focus();
    };
    return button;
  });
}

/** Return why the other wheels are not taken, in a box that opens. */
function others({ rows }) {
  const left = rows.filter(([, why]) => why !== "taken");
  if (!left.length) return [];
  const shown = left.map(([file, why]) => fact(element("code", {}, file), why));
  const title = `Why not the ${left.length === 1 ? "other wheel" : `${left.length} other wheels`}`;
  const list = element("dl", { className: "wide" }, ...shown);
  return [element("details", { id: "others" }, element("summary", {}, title), list)];
}

/** Return what is known of a file. */
function factsOfFile(file, why = "", driver = driverOf(file)) {
  const facts = [
    ["GPU architectures", (file.archs ?? []).join(", ")],
    ["NVIDIA driver", driver],
    ["Trial", file.gpu],
    ["Python", file.requires_python],
    ["Toolchain", file.toolchain],
    ["From", file.repository && whoseLink(file)],
    ["Origin", ORIGINS.get(file.origin)],
    ["Built from", file.commit && commitOf(file)],
    ["Size", sizeOf(file.size)],
    ["Published", file.uploaded && element("time", { dateTime: file.uploaded }, file.uploaded.slice(0, 10))],
    ["SHA-256", element("code", {}, file.sha256)],
    ["Attestation", (file.attested || file.commit) && attestationOf(file)],
    ["Rebuilt", file.remade && remadeBy(file)],
    ["File", link(file.address, file.name)],
    ["Why", why],
  ];
  const known = facts.filter(([, value]) => value);
  return element("dl", {}, ...known.map(([name, value]) => fact(name, value)));
}

const fact = (name, value) => element("div", {}, element("dt", {}, name), element("dd", {}, value));

/** Return the address of the project's repository on GitHub; "" if it names none there. */
function repository() {
  const [, address = ""] = (state.about.links ?? []).find(([label]) => label === "Source") ?? [];
  const url = resolved(address);
  const [, owner, name] = url?.pathname.split("/") ?? [];
  return url?.hostname === "github.com" && owner && name ? `${url.origin}/${owner}/${name.replace(/\.git$/, "")}` : "";
}

function commitOf({ commit }) {
  const home = repository();
  return home ? link(`${home}/commit/${encodeURIComponent(commit)}`, `commit ${commit}`) : `commit ${commit}`;
}

/** Return a link to the repository whose release has a file. */
function whoseLink({ repository, address }) {
  const url = resolved(address);
  return url ? link(`${url.origin}/${repository}`, repository) : repository;
}

/** Return where GitHub has what it signed of a file, found by its hash, and the command that verifies the file. */
function attestationOf({ name, sha256, repository: whose, attested }) {
  const home = repository();
  if (attested === "no") return `none: ${whose} has none for this file`;
  if (!home && !whose) return "";
  const slug = whose || new URL(home).pathname.slice(1);
  const verified = `gh attestation verify ${name} --repo ${slug}`;
  return element("span", {}, signedFor(slug, sha256), "; to verify it: ", element("code", {}, verified));
}

const signedFor = (slug, sha256) =>
  link(`https://api.github.com/repos/${slug}/attestations/sha256:${sha256}`, "what GitHub signed of it");

/** Return who made the same bytes again, and when: signed by the run that did it, or the word of a person. */
function remadeBy({ name, sha256, remade: [who, when, signer] }) {
  const day = element("time", { dateTime: when }, when);
  const [, slug] = (signer && who.match(/^https:\/\/[^/]+\/([\w.-]+\/[\w.-]+)$/)) || [];
  if (!slug) return element("span", {}, `by ${who} on `, day, ", in their own word: nothing is signed");
  const verified = `gh attestation verify ${name} --repo ${slug} --signer-workflow ${signer.split("@")[0].slice(19)}`;
  const parts = [day, ": ", signedFor(slug, sha256), "; to verify it: ", element("code", {}, verified)];
  return element("span", {}, "by ", link(who, slug), " on ", ...parts);
}

/** Return the one driver that a file needs on the chosen GPU; without one, that which serves every GPU. */
function driverFor({ file, wheel, facts }) {
  const { sass, ptx } = wheel.driver;
  if (!sass || !isForLinux(file)) return "";
  if (!facts.gpus.length) return driverOf(file);
  return `${codesOf(wheel, facts.gpus).includes("sass") || !ptx ? sass : ptx} or newer`;
}

function driverOf(file) {
  const { sass = "", ptx = "" } = file.lock?.driver ?? {};
  if (!sass || !isForLinux(file)) return "";
  return `${ptx && (file.archs ?? []).some((arch) => arch.endsWith("+PTX")) ? ptx : sass} or newer`;
}

const isForLinux = ({ platform = "" }) => platform.startsWith("linux"); // the drivers of Windows have other numbers

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
  const title = "This very file, checked by its hash";
  const exact = canBeNamed(file) ? [commandBox({ ...byFile(pipOrUv(), file), title })] : [];
  const opened = element("div", {}, yankOf(file), ...exact, factsOfFile(file));
  return element("details", { "data-name": file.name }, summary, opened);
}

const pipOrUv = () => (state.installer === "uv" ? "uv pip install" : "pip install");
