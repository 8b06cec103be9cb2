// Every package for one machine: what the data of all projects says, and the recipes that make what is missing.

const AT_ONCE = 8; // scripts that are loaded at a time
const MAX_NAMED = 3; // projects whose data cannot be read

const every = {
  data: null, // of each project by its name, null until they are asked for
  failed: [], // projects whose data cannot be read
  made: { form: "", recipes: [] }, // the recipes, and where a wheel can be asked for
  wholes: new Map(), // each listing with its combinations looked up
  choice: {},
};

// ---- reading

/** Load the data of every project, and the recipes, once; then show what there is. */
async function openEvery() {
  if (!byId("every-box").open) return;
  if (every.data) return showEvery();
  every.data = new Map();
  const names = projectNames();
  const waiting = ["_recipes", ...names];
  const loadNext = async () => {
    for (let name = waiting.shift(); name !== undefined; name = waiting.shift()) {
      byId("every-count").textContent = `Reading what there is: ${names.length - waiting.length} of ${names.length} …`;
      await loadScript(name);
    }
  };
  await Promise.all(Array.from({ length: AT_ONCE }, loadNext));
  for (const [name, data] of every.data) if (!isWhole(data)) every.data.delete(name);
  every.failed = names.filter((name) => !every.data.has(name));
  showAxes();
  showEvery();
}

/** Whether the combinations of all of a project's versions can be looked up. */
function isWhole(data) {
  try {
    for (const listing of data.listings) every.wholes.set(listing, decoded(listing, data));
    return true;
  } catch {
    return false;
  }
}

function loadScript(name) {
  return new Promise((ended) => {
    const script = element("script", { src: new URL(`finder/${encodeURIComponent(name)}.js`, ROOT).href });
    script.onload = script.onerror = () => {
      script.remove();
      ended();
    };
    document.head.append(script);
  });
}

/** Keep the data of a project of this index. */
function collect(data) {
  if (every.data && projectNames().includes(data.project)) every.data.set(data.project, data);
}

/** Take the recipes; the script that holds them calls this. */
function recipes(made) {
  every.made = made;
}

// ---- what can be chosen

/** Return the values of each axis: all that some project or recipe speaks of. */
function everyAxes() {
  const all = [...every.data.values()];
  const made = every.made.recipes.length ? Object.entries(TORCHES) : [];
  const known = (system) => all.flatMap((one) => one.systems).find(([name]) => name === system);
  const systems = every.made.recipes.flatMap((one) => one.systems.map(([name]) => known(name) ?? [name, name]));
  const builds = made.flatMap(([, { builds }]) => Object.values(builds).flat());
  const pythons = made.flatMap(([, release]) => Object.values(release.pythons).flat());
  const whole = [
    [...all.flatMap((one) => one.systems), ...systems],
    [["", "none"], ...all.flatMap((one) => one.accelerators), ...builds.map((label) => [label, accelerated(label)])],
    [["", "none"], ...[...all.flatMap((one) => one.torches), ...made.map(([torch]) => torch)].filter(Boolean).map(twice)],
    [...all.flatMap((one) => one.pythons), ...pythons].filter(Boolean).map(twice),
  ];
  return whole.map((values) => new Map(values.reverse())).map(ordered);
}

/** Show a list for each axis, with what the address says or the newest that some project has. */
function showAxes() {
  const said = new URLSearchParams(location.hash.slice(1));
  const axes = everyAxes();
  const fields = AXES.map(({ name, legend }, place) => {
    const values = axes[place];
    every.choice[name] = values.some((one) => one.name === said.get(name)) ? said.get(name) : likely(name, values);
    const options = values.map((one) => element("option", { value: one.name }, one.label));
    const select = element("select", { id: `every-${name}` }, ...options);
    select.value = every.choice[name];
    select.onchange = () => {
      every.choice[name] = select.value;
      showEvery();
    };
    return element("p", { className: "field" }, element("label", { htmlFor: select.id }, legend), select);
  });
  byId("every-choices").onsubmit = (event) => event.preventDefault();
  byId("every-choices").replaceChildren(...fields);
}

/** Return the first choice on an axis: this browser's system, and the newest that a project has wheels for. */
function likely(axis, values) {
  const names = values.map(({ name }) => name);
  if (axis === "system") return systemAmong(names);
  const key = { accelerator: "accelerators", torch: "torches", python: "pythons" }[axis];
  const had = new Set([...every.data.values()].flatMap((data) => data[key].map((one) => [one].flat()[0])));
  const fitting = names.filter((name) => had.has(name) && name && !(axis === "python" && name.endsWith("t")));
  const best = axis === "accelerator" ? fitting.filter((name) => name.startsWith("cu")) : fitting;
  return best.at(-1) ?? fitting.at(-1) ?? (axis === "python" ? names.at(-1) : "");
}

// ---- what there is

/** Return what a project has for a choice: its newest version with a wheel, or why the newest has none. */
function findIn(data, choice) {
  const final = data.listings.filter((listing) => !listing.pre && !isYanked(listing));
  const listings = final.length ? final : data.listings;
  let why = "It has no file here.";
  for (const [place, listing] of listings.entries()) {
    const answer = answerIn(every.wholes.get(listing), choice, {}, accelerated);
    if (answer.file) return { ...answer, version: listing.version, newest: place ? listings[0].version : "" };
    if (!place) why = answer.why;
  }
  return { why, version: listings[0]?.version ?? "" };
}

/** Return why a recipe cannot make a wheel for a choice, or ""; the twin of `refuse_maker` in finder/search.py. */
function refuseRecipe(recipe, choice) {
  const cuda = cudaOf(choice.accelerator);
  const kind = cuda ? "cuda" : choice.accelerator.replace(/[\d.]+/g, "");
  if (!recipe.systems.some(([system, own]) => system === choice.system && own === kind)) {
    return `it is for ${recipe.systems.map((one) => one.filter(Boolean).join(" with ")).join(" and ")}`;
  }
  for (const { reason, ...asked } of recipe.exclusions) {
    const here = { python: choice.python, torch: choice.torch, cuda };
    if (Object.entries(asked).every(([name, values]) => values.includes(here[name]))) return reason;
  }
  const served = recipe.python;
  if (served.length && !served.includes(choice.python)) {
    return `it names a version for Python ${served.join(" and ")} only`;
  }
  return "";
}

function cudaOf(accelerator) {
  const [, major, minor] = /^cu(\d+)(\d)$/.exec(accelerator) ?? [];
  return major ? `${major}.${minor}` : "";
}

/** Return the command that writes the config of the release that makes the wheel; the twin of `ask_by`. */
function askBy(recipe, { torch, accelerator, python }) {
  const cuda = cudaOf(accelerator);
  const words = ["fatwheel recipe copy", recipe.recipe, "build --release", `--python ${python}`];
  if (recipe.uses_torch && torch) words.push(`--torch ${torch}`);
  if (cuda) words.push(`--cuda ${cuda}`);
  return words.join(" ");
}

/** Return the address of the form, filled in: GitHub takes the values of its fields from the query. */
function formFor(recipe, { torch, accelerator, python }) {
  const url = resolved(every.made.form);
  if (!every.made.form || !url) return "";
  const values = { package: recipe.recipe, python, pytorch: recipe.uses_torch ? torch : "", cuda: cudaOf(accelerator) };
  for (const [name, value] of Object.entries(values)) if (value) url.searchParams.set(name, value);
  return url.href;
}

// ---- showing

/** Show the packages that have a wheel for the choice, and then those that have none. */
function showEvery() {
  const { choice, data, made } = every;
  const known = [...data].map(([project, one]) => ({ project, ...findIn(one, choice) }));
  const others = made.recipes.map(({ project }) => project).filter((project) => !data.has(project));
  const absent = [...new Set(others)].map((project) => ({ project, why: "This index has no wheel of it." }));
  const byName = (a, b) => (a.project < b.project ? -1 : 1);
  const having = known.filter(({ file }) => file).sort(byName);
  const lacking = [...known.filter(({ file }) => !file), ...absent].sort(byName);
  const count = every.failed.length;
  const more = count > MAX_NAMED ? [`${count - MAX_NAMED} more`] : [];
  const unread = count ? ` What ${listed([...every.failed.slice(0, MAX_NAMED), ...more])} has cannot be read.` : "";
  byId("every-count").textContent =
    `${having.length} of ${having.length + lacking.length} packages have a wheel for it.${unread}`;
  byId("every-list").replaceChildren(...havingTable(having), ...lackingTable(lacking));
  history.replaceState(null, "", `#${new URLSearchParams({ every: "", ...choice })}`);
}

function tableOf(id, caption, columns, rows) {
  if (!rows.length) return [];
  const head = element("tr", {}, ...columns.map((name) => element("th", { scope: "col" }, name)));
  const lines = rows.map(([first, ...cells]) => {
    const named = cells.map((cell, place) => element("td", { "data-label": columns[place + 1] }, ...[cell].flat()));
    return element("tr", {}, element("th", { scope: "row" }, first), ...named);
  });
  const parts = [element("caption", {}, caption), element("thead", {}, head), element("tbody", {}, ...lines)];
  return [element("table", { id }, ...parts)];
}

function havingTable(rows) {
  const lines = rows.map(({ project, version, newest, file, wheel }) => [
    projectLink(project),
    newest ? `${version} (newest: ${newest})` : version,
    [link(file.address, file.name), ...pureNote(wheel)],
    file.repository ? whoseLink(file) : "this index",
    { yes: "yes", no: "no" }[file.attested] ?? "not known",
  ]);
  return tableOf("every-having", "With a wheel", ["Package", "Version", "Wheel", "From", "Attested"], lines);
}

function lackingTable(rows) {
  const lines = rows.map(({ project, why }) => [projectLink(project), why, recipesOf(project)]);
  return tableOf("every-lacking", "Without one", ["Package", "Why", "The recipe that makes it"], lines);
}

/** Return a note where a package without kernels is what fits an accelerated machine. */
function pureNote(wheel) {
  const { accelerator } = every.choice;
  const isFor = wheel.cuda || wheel.rocm || wheel.xpu;
  return accelerator && !isFor ? [element("small", {}, ` without kernels for ${accelerated(accelerator)}`)] : [];
}

/** Return a link to a project with the same choice; the name of one that is not in this index. */
function projectLink(project) {
  const href = `#${new URLSearchParams({ project, ...every.choice })}`;
  return every.data.has(project) ? element("a", { href }, project) : element("span", {}, project);
}

function recipesOf(project) {
  const own = every.made.recipes.filter((recipe) => recipe.project === project);
  return own.length ? own.flatMap((recipe) => recipeOf(recipe, every.choice)) : ["none"];
}

/** Return the command of a recipe, and the form by which a wheel is asked for; or why it cannot make one either. */
function recipeOf(recipe, choice) {
  const why = refuseRecipe(recipe, choice);
  const name = element("code", {}, recipe.recipe);
  if (why) return [element("p", {}, name, ` cannot: ${why}`)];
  const form = formFor(recipe, choice);
  const box = commandBox({ kind: "recipe", title: `The recipe ${recipe.recipe}`, text: askBy(recipe, choice) });
  return form ? [box, element("p", {}, link(form, "Ask for this wheel"))] : [box];
}
