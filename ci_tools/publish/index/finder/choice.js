"use strict";

// Which combination is chosen, what the listing has for it, and the address that shares it.

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
  const worth = (choice) =>
    [
      hasFile(choice),
      choice.accelerator.startsWith("cu"),
      choice.accelerator !== "",
      place(choice, "accelerator"),
      place(choice, "torch"),
      !choice.python.endsWith("t"), // free-threaded
      place(choice, "python"),
    ].map(Number);
  const compare = (a, b) => a.reduce((found, value, at) => found || b[at] - value, 0);
  const found = combinations()
    .filter(test)
    .map((choice) => ({ choice, worth: worth(choice) }));
  return found.sort((a, b) => compare(a.worth, b.worth))[0]?.choice;
}

/** Make a choice from what is wanted, where the listing knows it, and the best of the rest. */
function settle() {
  const { wanted } = state;
  for (const { name } of AXES) {
    if (valuesOf(name).some((value) => value.name === wanted[name])) continue;
    wanted[name] = name === "system" ? ownSystem() : (best(agreesBefore(name))?.[name] ?? valuesOf(name)[0]?.name);
  }
  state.choice = { ...wanted };
}

/** Return a test: whether a combination is what is wanted on every axis before one. */
function agreesBefore(axis) {
  const before = AXES.slice(
    0,
    AXES.findIndex(({ name }) => name === axis),
  );
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
