// The data of a project, and what is chosen in it.

const AXES = [
  { name: "system", legend: "System" },
  { name: "accelerator", legend: "Accelerator" },
  { name: "torch", legend: "torch" },
  { name: "python", legend: "Python" },
];
const NO_LOCK = { cuda: null, serves: [], rocm: null, xpu: false, torch: null, cxx11abi: null };
const WHEEL = /^[\w.+!]+(-[\w.+!]+){4,5}\.whl$/; // as in a lock

const state = {
  project: "", // as the list names it
  about: {}, // what it says of itself
  listings: null, // of its versions, the newest first; null until its data is there
  listing: null, // of the chosen version
  wanted: {}, // what was chosen on each axis
  choice: {}, // the same, apart from an accelerator that the system cannot have
  pasted: {}, // what a paste says on the axes, which may be none of their values
  seen: {}, // what else it says of the machine
  installer: "pip",
};

// ---- reading

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
  collect(data);
  if (data.project !== state.project || state.listings) return;
  state.about = data.about ?? {};
  state.listings = data.listings.map((listing) => decoded(listing, data));
  showAbout();
  if (!state.listings.length) return say(`${data.project} has no files here yet.`);
  say("");
  readFragment();
  if (pasted) takeOver();
  showVersions();
  showListing();
}

/** Return a listing with its combinations looked up: the values of each axis, and what is offered for each four. */
function decoded(listing, data) {
  const offers = new Map();
  const seen = AXES.map(() => new Map());
  const grid = data.grids[listing.grid];
  for (let place = 0; place < grid.length; place += 4) {
    const fixed = [data.systems[grid[place]], data.accelerators[grid[place + 1]], twice(data.torches[grid[place + 2]])];
    data.rows[grid[place + 3]].forEach((outcome, python) => {
      if (outcome < 0) return;
      const values = [...fixed, twice(data.pythons[python])];
      values.forEach(([name, label], axis) => seen[axis].set(name, label));
      const [file, text] = listing.outcomes[outcome];
      offers.set(key(values.map(([name]) => name)), { file: listing.files[file], why: data.texts[text] });
    });
  }
  const whole = [data.systems, data.accelerators, data.torches.map(twice), data.pythons.map(twice)];
  const axes = offers.size ? seen : whole.map((values) => new Map(values)); // an old version: as its project's others
  return { ...listing, offers, lock: lockOf(listing.files), axes: axes.map(ordered), answers: new Map() };
}

/** Return the wheels of some files as a lock has them; withdrawn ones only if there are no others. */
function lockOf(files) {
  const wheels = files.filter(({ name }) => WHEEL.test(name));
  const kept = wheels.filter(({ yanked }) => yanked === undefined);
  return {
    wheels: (kept.length ? kept : wheels).map(({ name, archs = [], lock = {} }) => ({
      ...NO_LOCK,
      ...lock,
      file: name,
      archs,
      driver: { sass: null, ptx: null, ...lock.driver },
    })),
  };
}

const twice = (name) => [name, name];
const key = (names) => JSON.stringify(names);

/** Return the values of an axis: systems as they come, all others by number, and what has no name last. */
function ordered(labels, axis) {
  const values = [...labels].map(([name, label]) => ({ name, label }));
  const compare = new Intl.Collator("en", { numeric: true }).compare;
  return axis === 0 ? values : values.sort((a, b) => (a.name === "") - (b.name === "") || compare(a.name, b.name));
}

// ---- answering

/** Return the file for a choice, or why there is none: what `pip install` would take, among what the release offers. */
function answerTo(choice) {
  const { answers } = state.listing;
  const known = key([...AXES.map(({ name }) => choice[name]), choice.gpu, state.seen]);
  if (!answers.has(known)) answers.set(known, answered(choice));
  return answers.get(known);
}

const answered = (choice) =>
  answerIn(state.listing, choice, state.seen, (accelerator) => labelOf("accelerator", accelerator));

/** Return the file of a listing for a choice, or why there is none; `seen` is what a paste says of the machine. */
function answerIn(listing, choice, seen, label) {
  const offer = listing.offers.get(key(AXES.map(({ name }) => choice[name])));
  const facts = factsOf(choice, seen, listing.files.map(({ name }) => name));
  const { wheel, rows } = chooseWheel(listing.lock, facts);
  const gap = torchGap(choice, label);
  if (gap || (offer && !offer.file)) return { why: gap || offer.why, rows: [] };
  const file = wheel && listing.files.find(({ name }) => name === wheel.file);
  if (!file) return { why: noneFits(rows), rows };
  return { file, wheel, facts, rows, why: offer?.file.name === file.name ? offer.why : "" };
}

/** Return why no file fits: the reason of the only one, or of the one that comes nearest. */
function noneFits(rows) {
  if (!rows.length) return "This version has no wheel that can be installed.";
  const [file, why] = nearest(rows) ?? rows[0];
  return rows.length === 1 ? `The only wheel is ${file}: ${why}.` : `No wheel fits. ${file}: ${why}.`;
}

/** Return the row of the wheel that comes nearest: it is for this Python and system, and something else is wrong. */
function nearest(rows) {
  const late = rows.filter(([, why]) => /needs driver|no kernel|C\+\+ ABI|is for (torch|CUDA|ROCm|XPU)/.test(why));
  return late.find(([, why]) => !why.includes("without CUDA")) ?? late[0];
}

const hasFile = (choice) => Boolean(answerTo(choice)?.file);

// ---- choosing

/** Return the values of an axis, by its name. */
const valuesOf = (name) => state.listing.axes[AXES.findIndex((axis) => axis.name === name)];

const labelOf = (name, value) =>
  valuesOf(name).find((each) => each.name === value)?.label ?? (name === "accelerator" ? accelerated(value) : value);

/** Return the combinations that the listing speaks of, as choices; where it speaks of none, all that its axes have. */
function combinations() {
  const { listing } = state;
  if (!listing.offers.size) return product();
  return [...listing.offers.keys()].map((text) => {
    const names = JSON.parse(text);
    return Object.fromEntries(AXES.map(({ name }, place) => [name, names[place]]));
  });
}

function product() {
  const add = (choice, name) => valuesOf(name).map((value) => ({ ...choice, [name]: value.name }));
  return AXES.reduce((choices, { name }) => choices.flatMap((choice) => add(choice, name)), [{}]);
}

/** Return the system this browser runs on, as far as it says, else the first there is. */
function ownSystem() {
  return systemAmong(valuesOf("system").map(({ name }) => name));
}

/** Return the one of some systems that this browser runs on, else the first. */
function systemAmong(names) {
  const said = `${navigator.platform} ${navigator.userAgent}`.toLowerCase();
  const os = said.includes("win") && !said.includes("darwin") ? "windows" : said.includes("mac") ? "macos" : "linux";
  const machine = os === "macos" || /aarch64|arm64|armv8/.test(said) ? "arm64" : "x86_64";
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
  const { gpu } = wanted;
  wanted.gpu = GPUS.some(({ capability }) => capability === gpu) ? gpu : "";
  for (const { name } of AXES) {
    if (wanted[name] !== undefined && wanted[name] === state.pasted[name]) continue;
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

/** Choose a value on an axis; what a paste said of that axis does not count any more. */
function choose(axis, value) {
  if (axis === "torch" || axis === "accelerator") state.seen = withoutTorch(state.seen);
  if (axis === "system") state.seen = {};
  delete state.pasted[axis];
  state.choice = after(axis, value);
  state.wanted[axis] = value;
  showChoice();
}

function withoutTorch({ torch, cxx11abi, ...rest }) {
  return rest;
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
  for (const name of [...AXES.map((axis) => axis.name), "gpu"]) if (said.has(name)) state.wanted[name] = said.get(name);
  if (INSTALLERS.has(said.get("installer"))) state.installer = said.get("installer");
}

const isYanked = (listing) => listing.files.every(({ yanked }) => yanked !== undefined);

function writeFragment() {
  const { project, listing, choice, installer } = state;
  const { gpu, ...four } = canAnswer(listing) ? choice : {};
  const said = new URLSearchParams({ project, version: listing.version, ...four, ...(gpu ? { gpu } : {}), installer });
  history.replaceState(null, "", `#${said}`);
}

/** Whether there is anything to choose: not in a version without wheels, or a project whose machines nobody named. */
const canAnswer = ({ offers, lock, axes }) => Boolean(offers.size || (lock.wheels.length && axes[0].length));
