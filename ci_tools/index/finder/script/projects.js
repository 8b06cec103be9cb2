// The list of projects, and the folders of the index.

const SHORT_LIST = 8; // projects that need no filter
const NARROW = matchMedia("(max-width: 48rem)");

const projectLinks = () => [...byId("projects").querySelectorAll("a")];
const projectNames = () => projectLinks().map((each) => each.textContent);

/** Turn the list into a choice, with a filter where it is long. */
function showProjects() {
  const items = [...byId("projects").children];
  byId("lead").textContent = items.length
    ? "Pick a project and what you have; copy the line that installs the right wheel."
    : "This index has no project yet.";
  byId("picker").hidden = items.length < 2;
  byId("paste").hidden = !items.length;
  byId("every").hidden = !items.length;
  byId("every-box").ontoggle = openEvery;
  byId("filter").hidden = items.length < SHORT_LIST;
  byId("filter-text").oninput = () => filter(items);
  byId("filter-text").onkeydown = (event) => {
    if (event.key === "Enter") openFiltered(items);
  };
  byId("projects").onclick = pick;
  byId("version").onchange = (event) => {
    state.listing = state.listings.find(({ version }) => version === event.target.value);
    showListing();
  };
  for (const { capability, label } of GPUS) {
    byId("gpu").append(element("option", { value: capability }, `${label} (${capability})`));
  }
  byId("gpu").onchange = (event) => choose("gpu", event.target.value);
  byId("choices").onsubmit = (event) => event.preventDefault();
  byId("back").hidden = items.length < 2;
  byId("back").querySelector("button").onclick = () => {
    location.hash = "";
    byId("picker").querySelector("input, a").focus();
  };
  byId("error-text").oninput = readPaste;
  byId("forget").onclick = forgetPaste;
  byId("machine").open = !NARROW.matches;
  showFolders();
  addEventListener("hashchange", openNamed);
  openNamed();
}

/** Mark the project in the list. */
function markProject() {
  for (const each of projectLinks()) {
    if (each.textContent === state.project) each.setAttribute("aria-current", "true");
    else each.removeAttribute("aria-current");
  }
}

/** Return a name as an index has it (PEP 503). */
const normalized = (name) => name.trim().toLowerCase().replace(/[-_.]+/g, "-");

function filter(items) {
  const wanted = normalized(byId("filter-text").value);
  for (const item of items) item.hidden = !item.textContent.includes(wanted);
  const left = items.filter((item) => !item.hidden).length;
  const said = left ? `${left} of ${items.length}` : `There is no project ${wanted}.`;
  byId("filter-count").textContent = wanted ? said : "";
}

/** Open the project of that name, or the first of those that are left. */
function openFiltered(items) {
  const wanted = normalized(byId("filter-text").value);
  const left = items.filter((item) => !item.hidden).map((item) => item.textContent.trim());
  if (wanted && left.length) openProject(left.includes(wanted) ? wanted : left[0]);
}

/** Pick a project by its link, unless the visitor wants the link elsewhere. */
function pick(event) {
  const anchor = event.target.closest("a");
  if (!anchor || event.button || event.ctrlKey || event.metaKey || event.shiftKey || event.altKey) return;
  event.preventDefault();
  openProject(anchor.textContent);
}

function openProject(project) {
  history.pushState(null, "", `#${new URLSearchParams({ project })}`);
  byId("unknown").replaceChildren();
  showProject(project);
  byId("finder-title").focus();
  byId("finder").scrollIntoView();
}

/** Show the project that the address names, or the only one. */
function openNamed() {
  const fragment = new URLSearchParams(location.hash.slice(1));
  const said = fragment.get("project") ?? "";
  const names = projectNames();
  const isEvery = fragment.has("every");
  byId("every-box").open = isEvery;
  const only = !said && !isEvery && names.length === 1 ? names[0] : "";
  const project = [said, normalized(said)].find((name) => names.includes(name)) ?? only;
  byId("unknown").replaceChildren(...(said && !project ? unknown(said, names) : []));
  if (project) return showProject(project);
  Object.assign(state, { project: "", listings: null, listing: null });
  for (const id of ["finder", "shelf"]) byId(id).hidden = true;
  document.body.classList.remove("picked");
  markProject();
  showDiagnosis();
}

/** Return the sentence for a project that is not in the index, with the names nearest to it. */
function unknown(said, names) {
  const wanted = normalized(said);
  const near = names
    .map((name) => ({ name, far: distance(wanted, name) }))
    .filter(({ name, far }) => far <= Math.max(2, wanted.length / 3) || (wanted.length > 2 && name.includes(wanted)))
    .sort((a, b) => a.far - b.far)
    .slice(0, 3);
  const linkTo = (name) => element("a", { href: `#${new URLSearchParams({ project: name })}` }, name);
  const links = near.flatMap(({ name }, place) => [...(place ? [", "] : []), linkTo(name)]);
  return [`There is no project ${said} in this index.`, ...(near.length ? [" Did you mean ", ...links, "?"] : [])];
}

/** Return how many letters have to be added, removed or changed to make one word of another (Levenshtein). */
function distance(a, b) {
  let row = [...Array(b.length + 1).keys()];
  for (let i = 1; i <= a.length; i += 1) {
    const next = [i];
    for (let j = 1; j <= b.length; j += 1) {
      next[j] = Math.min(row[j] + 1, next[j - 1] + 1, row[j - 1] + Number(a[i - 1] !== b[j - 1]));
    }
    row = next;
  }
  return row[b.length];
}

/** Show the address of each folder, to be copied. */
function showFolders() {
  const items = [...byId("folders").children];
  byId("folders").parentElement.hidden = !items.length;
  for (const item of items) {
    const address = addressOf(item.textContent.trim());
    const code = element("code", {}, address);
    item.replaceChildren(code, copyButton(address, address, code));
  }
}

showProjects();
