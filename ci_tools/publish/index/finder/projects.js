"use strict";

// The list of projects, the folders of the index, and which project is shown. It comes last: it begins everything.

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
  byId("filter-text").onkeydown = (event) => {
    if (event.key === "Enter")
      items
        .find((item) => !item.hidden)
        ?.querySelector("a")
        .click();
  };
  byId("pasted").oninput = showDiagnosis;
  for (const each of byId("folders").children) each.replaceChildren(...addressBox(each.textContent));
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
  const wanted = byId("filter-text")
    .value.trim()
    .toLowerCase()
    .replace(/[-_.]+/g, "-");
  items.forEach((item, place) => {
    item.hidden = !names[place].includes(wanted);
  });
  const left = items.filter((item) => !item.hidden).length;
  byId("filter-count").textContent = wanted ? `${left} of ${items.length}` : "";
}

/** Return the project whose name is most like one that is not there, as a sentence; "" where none is like it. */
function nearest(said, names) {
  const pairs = (text) =>
    new Set([...text.toLowerCase()].slice(1).map((letter, place) => text.toLowerCase()[place] + letter));
  const own = pairs(said);
  const likeness = (name) =>
    [...pairs(name)].filter((pair) => own.has(pair)).length / Math.max(own.size, pairs(name).size, 1);
  const best = [...names].sort((a, b) => likeness(b) - likeness(a))[0];
  return best && likeness(best) >= ALIKE ? ` Did you mean ${best}?` : "";
}

/** Return the address of a folder with a button that copies it. */
function addressBox(folder) {
  const address = addressOf(folder);
  const code = element("code", {}, folder);
  const button = element(
    "button",
    { type: "button", className: "copy", "aria-label": `Copy the address of ${folder}` },
    "Copy",
  );
  button.onclick = () => copy(address, code, button);
  return [code, " ", button];
}

/** Pick a project by its link, unless the visitor wants the link elsewhere. */
function pick(event) {
  const anchor = event.target.closest("a");
  if (!anchor || event.button || event.ctrlKey || event.metaKey || event.shiftKey || event.altKey) return;
  event.preventDefault();
  history.pushState(null, "", `#${new URLSearchParams({ project: anchor.textContent })}`);
  showProject(anchor.textContent);
  byId("finder-title").focus();
  state.isPicked = true;
}

/** Show the project that the address names, or the only one. */
function openNamed(names) {
  const said = new URLSearchParams(location.hash.slice(1)).get("project");
  const project = names.includes(said) ? said : names.length === 1 ? names[0] : "";
  if (project) return showProject(project);
  byId("unknown").textContent = said ? `There is no project ${said} in this index.${nearest(said, names)}` : "";
  byId("picker").hidden = names.length < 2 && !said;
  state.project = "";
  byId("finder").hidden = true;
  markProject();
}

showProjects();
