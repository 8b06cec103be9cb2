"use strict";

// What a visitor copies: a command, or lines of a file, for each way to install. `exact` are those that take this very
// file and no other. Nothing in them can mean something to a shell or end a text in TOML: see `canBeNamed`.

const INSTALLERS = {
  pip: {
    recipes: (file) => [
      { title: "From this index", text: byVersion(file, "pip install", "--extra-index-url") },
      { title: "This very file, checked by its hash", text: byFile(file, "pip install"), exact: true },
    ],
    note:
      "pip asks your other indexes too, and may take a package of this name from there. " +
      "The second command takes this file or none.",
  },
  uv: {
    recipes: (file) => [
      { title: "From this index", text: byVersion(file, "uv pip install", "--index") },
      { title: "This very file, checked by its hash", text: byFile(file, "uv pip install"), exact: true },
    ],
    note:
      "uv takes a project from the first index that has it, and asks this one first. " +
      "The second command takes this file or none.",
  },
  "requirements.txt": {
    recipes: (file) => [{ title: "Lines of requirements.txt", text: requirements(file), exact: true }],
    note: "With a hash on one line, pip and uv want one on every line.",
  },
  "pyproject.toml": {
    recipes: (file) => [{ title: "Tables of pyproject.toml, for uv", text: pyproject(file) }],
    note: "uv takes this project from this index alone, and everything else from where it always does.",
  },
  "pylock.toml": {
    recipes: (file) => [{ title: "A package in pylock.toml", text: pylock(file), exact: true }],
    note: "The first three lines are of the whole file. uv pip install -r pylock.toml installs it.",
  },
  poetry: {
    recipes: (file) => [{ title: "Commands of Poetry", text: poetry(file) }],
    note: "Poetry asks this index for this project alone.",
  },
  Docker: {
    recipes: (file) => [
      { title: "A line of a Dockerfile", text: `RUN ${byFile(file, "pip install --no-cache-dir")}`, exact: true },
    ],
    note: "No GPU is needed while the image is built. Put the line that installs torch before it.",
  },
};
const PROJECT = /^[A-Za-z0-9]([A-Za-z0-9._-]*[A-Za-z0-9])?$/;
const PIN = /^[A-Za-z0-9.!+_-]+$/;
const SHA256 = /^[0-9a-f]{64}$/;
const NEEDS_NO_QUOTES = /^[\w@%+=:,./-]+$/;
const NEEDS_ESCAPE = /[^\w.~:/?#@%=+,[\]-]/g; // in an address that goes to a shell

/** Return an argument as the shell of the chosen system takes it. */
function quoted(text) {
  if (NEEDS_NO_QUOTES.test(text)) return text;
  return state.choice.system?.startsWith("windows") && state.installer !== "Docker" ? `"${text}"` : `'${text}'`;
}

/** Return an address in which nothing means anything to a shell. */
function addressOf(path) {
  const escaped = (letter) => `%${letter.charCodeAt(0).toString(16).toUpperCase().padStart(2, "0")}`;
  return resolved(path).href.replace(NEEDS_ESCAPE, escaped);
}

/** Return the address of the index folder that lists a file. */
const indexOf = ({ folder = "" }) => addressOf(folder ? `${encodeURIComponent(folder)}/` : "./");

/** Return the command that takes a file by its version, from the index folder that lists it. */
function byVersion(file, install, index) {
  return [install, index, quoted(indexOf(file)), quoted(`${state.project}==${file.pin}`)].join(" ");
}

/** Return the command that takes this very file and no other. */
function byFile({ address, sha256 }, install) {
  return `${install} ${quoted(`${state.project} @ ${addressOf(address)}#sha256=${sha256}`)}`;
}

function requirements(file) {
  return `--extra-index-url ${indexOf(file)}\n${state.project}==${file.pin} --hash=sha256:${file.sha256}`;
}

function pyproject(file) {
  const source = `${state.project}-index`;
  return [
    "[project]",
    `dependencies = ["${state.project}==${file.pin}"]`,
    "",
    "[[tool.uv.index]]",
    `name = "${source}"`,
    `url = "${indexOf(file)}"`,
    "explicit = true",
    "",
    "[tool.uv.sources]",
    `"${state.project}" = { index = "${source}" }`,
  ].join("\n");
}

function pylock({ name, address, pin, sha256, size }) {
  const kind = name.endsWith(".whl") ? "[[packages.wheels]]" : "[packages.sdist]";
  return [
    'lock-version = "1.0"',
    'created-by = "by hand"',
    "",
    "[[packages]]",
    `name = "${state.project}"`,
    `version = "${pin}"`,
    "",
    kind,
    `name = ${JSON.stringify(name)}`,
    `url = "${addressOf(address)}"`,
    `size = ${Number(size)}`,
    `hashes = { sha256 = "${sha256}" }`,
  ].join("\n");
}

function poetry(file) {
  const source = `${state.project}-index`;
  const add = `poetry source add --priority=explicit ${source} ${quoted(indexOf(file))}`;
  return `${add}\npoetry add --source ${source} ${quoted(`${state.project}==${file.pin}`)}`;
}

/** Whether nothing in a command for a file could mean something to a shell. */
function canBeNamed({ pin = "", sha256, address }) {
  return PROJECT.test(state.project) && PIN.test(pin) && SHA256.test(sha256) && resolved(address) !== null;
}
